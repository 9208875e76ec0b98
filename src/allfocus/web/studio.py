"""The studio behind the routes: the jobs it keeps, how much room they may take, and how long they live."""

import contextlib
import shutil
import threading
import time
from pathlib import Path
from typing import Any

from allfocus.errors import AllfocusError
from allfocus.web.events import EventBus
from allfocus.web.fusing import Fusions
from allfocus.web.job_records import ACTIVE, Frame, Job, clean_name, show_job
from allfocus.web.layer_cache import LayerCache
from allfocus.web.processes import ProcessPool
from allfocus.web.refusals import Refusal
from allfocus.web.settings import ServerSettings
from allfocus.web.store import JobStore
from allfocus.web.wording import tell_error

DISK_RESERVE = 256 * 2**20
"""Bytes of the disk that are left free whatever the limit says, for everything else on the machine."""

SECONDS_BETWEEN_CLEANINGS = 60.0


class Studio:
    """Everything a server keeps and does; its methods may be called from any thread.

    Raises:
        InputError, OutputError: the work folder cannot be used.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.bus = EventBus()
        self.store = JobStore(settings.work, self._publish)
        self.cache = LayerCache(settings.cache_bytes, settings.work)
        self.pictures = ProcessPool(max(2, settings.workers), settings.memory_bytes)
        self.progress: dict[str, dict[str, Any]] = {}
        self.coming = Counter()
        self.fusions = Fusions(self)
        self._stopping = threading.Event()
        self._cleaner = threading.Thread(target=self._clean, name="cleaner", daemon=True)
        self._cleaner.start()

    def close(self) -> None:
        """Stop all work; jobs that ran are marked so. A second call does nothing."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self.fusions.close()
        self.pictures.close()
        self.store.stop_active("the server was stopped while it ran; start it again")
        self.store.close()

    # --- jobs ---

    def create(self, name: str) -> dict[str, Any]:
        """A new job, as clients see it."""
        with self.store.lock:
            if len(self.store.jobs) >= self.settings.jobs:
                raise Refusal(507, f"{len(self.store.jobs)} jobs are kept already; delete one first")
            self.require_room(0)
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

    def _publish(self, job: Job) -> None:
        """Tell those who listen that a job was changed."""
        self.bus.publish(job.id, "state", lambda: self.show(job))

    # --- room ---

    def used_bytes(self) -> int:
        """Bytes of all jobs together, with what is on its way in."""
        with self.store.lock:
            own = sum(frame.bytes for job in self.store.jobs.values() for frame in job.frames if frame.path is None)
            runs = sum(job.run.bytes for job in self.store.jobs.values() if job.run is not None)
            return own + runs + self.coming.value + self.cache.used

    def free_bytes(self) -> int:
        """Bytes for which there is room now, layers that can be made again counted as room."""
        within_limit = self.settings.disk_bytes - self.used_bytes()
        on_disk = shutil.disk_usage(self.settings.work).free - DISK_RESERVE
        return max(0, min(within_limit, on_disk) + self.cache.used)

    def require_room(self, size: int) -> None:
        """Make sure that so many bytes fit, if need be by deleting layers that can be made again.

        Raises:
            Refusal: they do not.
        """
        over = self.used_bytes() + size - self.settings.disk_bytes
        free = shutil.disk_usage(self.settings.work).free - DISK_RESERVE - size
        if over > 0 or free < 0:
            self.cache.shrink(max(over, -free))
            over = self.used_bytes() + size - self.settings.disk_bytes
            free = shutil.disk_usage(self.settings.work).free - DISK_RESERVE - size
        if over > 0 or free < 0:
            raise Refusal(507, "the work folder is full; delete jobs that are no longer needed")

    def frame_path(self, job: Job, frame: Frame) -> Path:
        """Where a frame lies."""
        return Path(frame.path) if frame.path is not None else self.store.folder(job.id) / "frames" / frame.id

    def told(self, error: AllfocusError, *, called: str | None = None) -> str:
        """The sentence of an error for clients; see :func:`allfocus.web.wording.tell_error`."""
        return tell_error(error, self.settings.work, called=called)

    # --- lifetime ---

    def _clean(self) -> None:
        while not self._stopping.wait(SECONDS_BETWEEN_CLEANINGS):
            self.remove_old(time.time())

    def remove_old(self, now: float) -> list[str]:
        """Delete the jobs that were not changed for longer than their lifetime; their ids come back."""
        limit = now - 3600 * self.settings.lifetime_hours
        with self.store.lock:
            jobs = list(self.store.jobs.values())
        old = [job.id for job in jobs if job.changed < limit and job.state not in ACTIVE]
        for job_id in old:
            with contextlib.suppress(Refusal):
                self.delete(job_id)
        return old


class Counter:
    """Bytes that are on their way in, of all uploads together."""

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Count so many bytes more (or fewer)."""
        with self._lock:
            self.value += size


class Reservation:
    """Bytes of one upload, counted as used while they come in."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._size = 0

    def grow(self, size: int) -> None:
        """Reserve so many bytes more.

        Raises:
            Refusal: there is no room for them.
        """
        # Counted before it is asked, so that two uploads cannot both be promised the last room.
        self._studio.coming.add(size)
        self._size += size
        self._studio.require_room(0)

    def release(self) -> None:
        """Count the bytes no longer."""
        self._studio.coming.add(-self._size)
        self._size = 0
