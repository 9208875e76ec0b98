"""The studio behind the routes: its parts, the jobs it keeps, and how long they live."""

import contextlib
import threading
import time
from typing import Any

from allfocus.errors import AllfocusError
from allfocus.web.disk_room import DiskRoom
from allfocus.web.door import make_key
from allfocus.web.events import LIBRARY, EventBus
from allfocus.web.fusing import Fusions
from allfocus.web.intakes import Intakes
from allfocus.web.job_records import ACTIVE, Job, clean_name
from allfocus.web.job_views import show_job
from allfocus.web.layer_cache import LayerCache
from allfocus.web.library import show_library
from allfocus.web.named_locks import NamedLocks
from allfocus.web.processes import ProcessPool
from allfocus.web.refusals import Refusal
from allfocus.web.settings import ServerSettings
from allfocus.web.store import JobStore
from allfocus.web.wording import tell_error

SECONDS_BETWEEN_CLEANINGS = 60.0


class Studio:
    """Everything a server keeps and does; its methods may be called from any thread.

    Raises:
        InputError, OutputError: the work folder cannot be used.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.key = make_key()
        """What programs of the same user show to have files of the machine opened; see :mod:`.door`."""
        self.bus = EventBus()
        self.store = JobStore(settings.work, self._publish)
        self.cache = LayerCache(settings.cache_bytes, settings.work)
        self.pictures = ProcessPool(max(2, settings.workers), settings.memory_bytes)
        self.making_thumbnails = NamedLocks()
        self.progress: dict[str, dict[str, Any]] = {}
        self.room = DiskRoom(settings, self.store, self.cache)
        self.fusions = Fusions(self)
        self.intakes = Intakes(self)
        self._stopping = threading.Event()
        self._cleaner = threading.Thread(target=self._clean, name="cleaner", daemon=True)
        self._cleaner.start()
        self.fusions.begin()

    def close(self) -> None:
        """Stop all work; jobs that ran are marked so, those that wait stay waiting. A second call does nothing."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.fusions.close()
        self.pictures.close()
        self.intakes.close()
        self.store.stop_running("the server was stopped while it ran; start it again")
        self.store.close()

    # --- jobs ---

    def create(self, name: str) -> dict[str, Any]:
        """A new job, as clients see it."""
        with self.store.lock:
            if len(self.store.jobs) >= self.settings.jobs:
                raise Refusal(507, f"{len(self.store.jobs)} jobs are kept already; delete one first")
            self.room.require(0)
            job = self.store.create(clean_name(name, "stack"))
            return self.show(job)

    def job(self, job_id: str) -> Job:
        """The job with this id.

        Raises:
            Refusal: there is none.
        """
        return self.store.require(job_id)

    def show(self, job: Job) -> dict[str, Any]:
        """A job as clients see it."""
        with self.store.lock:
            return show_job(job, self.progress.get(job.id))

    def show_all(self) -> list[dict[str, Any]]:
        """All jobs as clients see them, the newest first."""
        with self.store.lock:
            return [self.show(job) for job in sorted(self.store.jobs.values(), key=lambda job: -job.created)]

    def delete(self, job_id: str) -> None:
        """Cancel and delete a job."""
        with self.store.lock:
            self.job(job_id)
            self.fusions.end(job_id)
            self.store.delete(job_id)
            self.cache.forget(self.store.folder(job_id))
            self.progress.pop(job_id, None)
        self.bus.end(job_id)
        self.publish_library()

    def _publish(self, job: Job) -> None:
        """Tell those who listen that a job was changed."""
        self.bus.publish(job.id, "state", lambda: self.show(job))
        self.publish_library()

    def publish_library(self) -> None:
        """Tell those who look at the library that something in it was changed."""
        self.bus.publish(LIBRARY, "state", lambda: show_library(self))

    def told(self, error: AllfocusError, *, called: str | None = None) -> str:
        """The sentence of an error for clients; see :func:`allfocus.web.wording.tell_error`."""
        return tell_error(error, self.settings.work, called=called)

    # --- lifetime ---

    def _clean(self) -> None:
        while not self._stopping.wait(SECONDS_BETWEEN_CLEANINGS):
            self.remove_old(time.time())

    def remove_old(self, now: float) -> list[str]:
        """Delete the jobs that were not changed for longer than their lifetime, if one was set; their ids come back."""
        if self.settings.lifetime_hours is None:
            return []
        limit = now - 3600 * self.settings.lifetime_hours
        with self.store.lock:
            jobs = list(self.store.jobs.values())
        old = [job.id for job in jobs if job.changed < limit and job.state not in ACTIVE]
        for job_id in old:
            with contextlib.suppress(Refusal):
                self.delete(job_id)
        return old
