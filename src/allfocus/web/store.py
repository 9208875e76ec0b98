"""Jobs on disk: a folder for each, whose ``job.json`` is replaced in one step, so that a restart finds them all."""

import contextlib
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allfocus.errors import InputError, OutputError
from allfocus.files.opening import open_plain, parse_json
from allfocus.files.placing import recover_folder
from allfocus.images.writing import replace_file
from allfocus.stack.options import FuseOptions
from allfocus.web.job_records import DONE, FAILED, QUEUED, RUNNING, Frame, Job, job_from_json, job_to_json
from allfocus.web.kept_results import forget_open_result
from allfocus.web.refusals import Refusal
from allfocus.web.work_folder import (
    FRAME_ID,
    IN_A_JOB,
    IN_TEMPORARY,
    JOB_ID,
    RUN_NAME,
    remove_known,
    take_folder,
)

_log = logging.getLogger("allfocus.web")

STOPPED = "the server stopped while it ran; start it again"


class JobStore:
    """All jobs of a work folder, in memory and on disk.

    Layout: ``jobs/ID/job.json``, ``jobs/ID/frames/FRAME``, ``jobs/ID/thumbnails/FRAME.jpg``, ``jobs/ID/RUN/`` for a
    fusion, ``jobs/ID/layers/RUN/LAYER/`` for what the viewer needs and can be made again, and ``temporary/`` for files
    on their way. A run counts only when ``job.json`` names it: one that was cut short is never taken for a result.

    It owns the lock under which jobs change and the ways in which their state does; whoever changes a job otherwise
    holds the lock and calls :meth:`save`.

    Args:
        work: The work folder.
        changed: Called after a job was changed and put on disk.

    Raises:
        InputError: another server uses the folder.
        OutputError: the folder cannot be written.
    """

    def __init__(self, work: Path, changed: Callable[[Job], None] = lambda job: None) -> None:
        self.lock = threading.RLock()
        """Held while the description of a job changes."""
        self._changed = changed
        self._guard = take_folder(work)
        self.temporary = work / "temporary"
        """Folder for files on their way in or out; after a start nothing of ours is in it."""
        remove_known(self.temporary, IN_TEMPORARY)
        self.work = work
        self.jobs: dict[str, Job] = {}
        for folder in sorted((work / "jobs").iterdir()):
            self._load(folder)

    def folder(self, job_id: str) -> Path:
        """The folder of a job."""
        return self.work / "jobs" / job_id

    def frame_path(self, job: Job, frame: Frame) -> Path:
        """Where a frame of a job lies."""
        return Path(frame.path) if frame.path is not None else self.folder(job.id) / "frames" / frame.id

    def create(self, name: str) -> Job:
        """A new job, on disk already."""
        job = Job(id=secrets.token_hex(12), name=name, created=time.time(), changed=time.time())
        (self.folder(job.id) / "frames").mkdir(parents=True)
        self.save(job)
        self.jobs[job.id] = job
        return job

    def save(self, job: Job) -> None:
        """Put the job on disk in one step.

        Raises:
            OutputError: the disk is full or read-only; the description that was there before is still there.
        """
        job.changed = time.time()
        content = json.dumps(job_to_json(job), allow_nan=False).encode()
        replace_file(self.folder(job.id) / "job.json", content, overwrite=True)
        if job.id in self.jobs:  # which is not so for one that is being made or loaded
            self._changed(job)

    def require(self, job_id: str) -> Job:
        """The job with this id.

        Raises:
            Refusal: there is none.
        """
        job = self.jobs.get(job_id)
        if job is None:
            raise Refusal(404, "there is no such job; it may have been deleted (GET /api/jobs lists all)")
        return job

    def holds(self, job: Job) -> bool:
        """Whether a job is still there, and not deleted meanwhile."""
        return job.id in self.jobs

    def change(self, job: Job, **values: Any) -> None:
        """Set fields of a job and put it on disk; where that fails, the job is as it was.

        Raises:
            OutputError: the disk is full or read-only.
        """
        with self.lock:
            before = {name: getattr(job, name) for name in values}
            try:
                for name, value in values.items():
                    setattr(job, name, value)
                self.save(job)
            except OutputError:
                for name, value in before.items():
                    setattr(job, name, value)
                raise

    def queue(self, job: Job, options: FuseOptions) -> None:
        """A job waits to be fused with these options."""
        self.change(job, state=QUEUED, error=None, error_code=None, options=options, notices=[])

    def begin(self, job: Job) -> None:
        """A job is being fused."""
        self.change(job, state=RUNNING)

    def conclude(self, job: Job, state: str, error: str | None, code: str | None = None) -> None:
        """The fusion of a job has ended, whether or not that can be put on disk."""
        with self.lock:
            job.state, job.error, job.error_code = state, error, code
            self.save(job)

    def stop_running(self, reason: str) -> None:
        """Jobs that run have failed, because the server ends; those that wait will wait when it is started again."""
        with self.lock:
            for job in self.jobs.values():
                if job.state == RUNNING:
                    job.state, job.error = FAILED, reason
                    with contextlib.suppress(OutputError):  # the next start finds out by itself
                        self.save(job)

    def delete(self, job_id: str) -> None:
        """Forget the job and delete its folder."""
        self.jobs.pop(job_id, None)
        folder = self.folder(job_id)
        with contextlib.suppress(OSError):
            # The description goes first: a deletion that is cut short must not come back as a job.
            (folder / "job.json").unlink()
        remove_known(folder, IN_A_JOB)
        with contextlib.suppress(OSError):  # something that we do not know is in it
            folder.rmdir()

    def close(self) -> None:
        """Let another server use the folder."""
        self._guard.close()

    def _load(self, folder: Path) -> None:
        try:
            with open_plain(folder / "job.json") as file:
                job = job_from_json(parse_json(file.read()))
            if job.id != folder.name or not JOB_ID.fullmatch(job.id):
                raise ValueError("the id is that of another folder")
            if not all(FRAME_ID.fullmatch(frame.id) for frame in job.frames):
                raise ValueError("a frame is none of ours")
        except (OSError, InputError, ValueError, KeyError, TypeError):
            if not os.path.lexists(folder / "job.json") and folder.is_dir() and JOB_ID.fullmatch(folder.name):
                # Left by a start or a deletion that was cut short: nothing in it can be shown.
                remove_known(folder, IN_A_JOB)
                with contextlib.suppress(OSError):
                    folder.rmdir()
            else:
                _log.warning("%s: cannot be read as a job and is not shown; delete it if it is not needed", folder)
            return
        self._tidy(job)
        self.jobs[job.id] = job

    def _tidy(self, job: Job) -> None:
        """Bring a job that was interrupted into a state that is true."""
        folder = self.folder(job.id)
        for place in (folder, folder / "thumbnails"):
            recover_folder(place)
        before = job_to_json(job)
        if job.state == RUNNING:
            job.state, job.error = FAILED, STOPPED
        job.alternatives = [item for item in job.alternatives if item.state != RUNNING]
        job.others = [item for item in job.others if (folder / item.run.folder / "result.tif").is_file()]
        if job.run is not None and not (folder / job.run.folder / "result.tif").is_file():
            forget_open_result(job)
            if job.state == DONE and job.run is None:
                job.state, job.error = FAILED, "its result is no longer on the disk; start it again"
        present = [f for f in job.frames if f.path is not None or f.absent or (folder / "frames" / f.id).is_file()]
        job.frames = present
        remove_unnamed(folder, job)
        if job_to_json(job) != before:
            changed = job.changed
            self.save(job)
            job.changed = changed


def remove_unnamed(folder: Path, job: Job) -> None:
    """Delete what a job's folder holds and its description does not name, such as runs that were cut short."""
    kept = {run.folder for run in job.runs()}
    stale = [entry.name for entry in folder.iterdir() if RUN_NAME.fullmatch(entry.name) and entry.name not in kept]
    stale += [f"layers/{name}" for name in _names_in(folder / "layers") if name not in kept]
    for result in job.results():
        done = {f"method-{item.method}" for item in result.alternatives if item.state == DONE}
        place = f"{result.run.folder}/alternatives"
        stale += [f"{place}/{name}" for name in _names_in(folder / place) if name not in done]
    names = {frame.id for frame in job.frames}
    stale += [f"frames/{name}" for name in _names_in(folder / "frames") if name not in names]
    stale += [f"thumbnails/{name}" for name in _names_in(folder / "thumbnails") if name.split(".")[0] not in names]
    for below in stale:
        remove_known(folder, IN_A_JOB, below)
    (folder / "frames").mkdir(exist_ok=True)


def _names_in(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() and not folder.is_symlink() else []


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; 0 when there is nothing."""
    total = 0
    try:
        if path.is_file():
            return path.stat().st_size
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    total += size_of(Path(entry.path))
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    except OSError:
        pass  # deleted meanwhile
    return total
