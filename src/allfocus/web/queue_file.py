"""The queue on disk, so that what waits is still waiting when the server is started again."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allfocus.errors import InputError, OutputError
from allfocus.files.opening import open_plain, parse_json
from allfocus.images.writing import replace_file
from allfocus.web.job_records import QUEUED, Job

FILE = "queue.json"
MOST_BYTES = 2**22

_log = logging.getLogger("allfocus.web")


@dataclass(frozen=True)
class KeptWork:
    """One piece of work that waits: whose, and what."""

    job_id: str
    method: str
    alternative: bool = False
    """False for the fusion of the job, True for what is made beside its result."""
    slabs: tuple[int, int] | None = None
    """Frames and overlap of slabs."""


@dataclass(frozen=True)
class KeptQueue:
    """The queue as it was."""

    paused: bool = False
    waiting: tuple[KeptWork, ...] = ()


def waits_for(job: Job | None, work: KeptWork) -> bool:
    """Whether a job is there and waits for a piece of work, by its own description."""
    if job is None or not work.alternative:
        return job is not None and job.state == QUEUED
    return any(item.method == work.method and item.state == QUEUED for item in job.alternatives)


def write_queue(work: Path, paused: bool, waiting: Sequence[KeptWork]) -> None:
    """Keep the queue in the work folder, or nothing where nothing waits and nothing is paused.

    Where that fails it is said in the log, because the queue itself goes on.
    """
    if not paused and not waiting:
        try:
            (work / FILE).unlink(missing_ok=True)
        except OSError as error:
            _log.warning("%s: cannot be removed (%s)", work / FILE, error)
        return
    content = {
        "paused": paused,
        "waiting": [[each.job_id, each.method, each.alternative, each.slabs] for each in waiting],
    }
    try:
        replace_file(work / FILE, json.dumps(content).encode(), overwrite=True)
    except OutputError as error:
        _log.warning("the queue would not outlast a restart: %s", error)


def read_queue(work: Path) -> KeptQueue:
    """The queue that was kept; an empty one where there is none, or none that can be read."""
    try:
        with open_plain(work / FILE) as file:
            content = parse_json(file.read(MOST_BYTES))
        waiting = [_work(*each) for each in content["waiting"]]
        # What is named twice would be done twice, at the same time and in the same place.
        once = {(work.job_id, work.alternative and (work.method, work.slabs)): work for work in reversed(waiting)}
        return KeptQueue(content["paused"] is True, tuple(reversed(once.values())))
    except InputError as error:
        if error.code != "no-such-file":
            _log.warning("%s: the queue cannot be read (%s)", work / FILE, error)
    except (ValueError, KeyError, TypeError) as error:
        _log.warning("%s: the queue cannot be read (%s)", work / FILE, error)
    return KeptQueue()


def _work(job_id: object, method: object, alternative: object, slabs: object) -> KeptWork:
    if not (isinstance(job_id, str) and isinstance(method, str) and isinstance(alternative, bool)):
        raise ValueError("work that is none")
    if slabs is None:
        return KeptWork(job_id, method, alternative)
    if not isinstance(slabs, list) or len(slabs) != 2 or not all(type(part) is int for part in slabs):
        raise ValueError("slabs that are none")
    size, overlap = slabs
    if not 0 <= overlap < size:
        raise ValueError("slabs that are none")
    return KeptWork(job_id, method, alternative, (size, overlap))
