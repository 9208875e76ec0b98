"""The library: all stacks of a studio at a glance, with their names, their room on the disk, and the queue of work."""

import heapq
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from allfocus.web.fusion_queue import Work
from allfocus.web.job_records import Job, clean_name

if TYPE_CHECKING:
    from allfocus.web.studio import Studio

RUNS_LOOKED_AT = 20
"""How many finished runs tell how fast the machine is."""

LEAST_FRACTION = 0.05
"""Of the work that must be done before its own pace says more than that of earlier runs."""


def rename(studio: "Studio", job_id: str, name: str) -> dict[str, Any]:
    """The job under another name."""
    with studio.store.lock:
        job = studio.job(job_id)
        studio.store.change(job, name=clean_name(name, job.name))
        return studio.show(job)


def show_library(studio: "Studio") -> dict[str, Any]:
    """All stacks in a few words each, the newest first, and what runs and waits."""
    with studio.store.lock:
        jobs = sorted(studio.store.jobs.values(), key=lambda job: -job.created)
        return {
            "jobs": [summarize(job) for job in jobs],
            "queue": show_queue(studio),
            "used_bytes": studio.room.used(),
            "disk_bytes": studio.settings.disk_bytes,
        }


def summarize(job: Job) -> dict[str, Any]:
    """A stack in a few words; its strokes and options are left out."""
    run = job.run
    return {
        "id": job.id,
        "name": job.name,
        "created": job.created,
        "changed": job.changed,
        "state": job.state,
        "error": job.error,
        "error_code": job.error_code,
        "frames": len(job.frames),
        "missing": sum(frame.absent for frame in job.frames),
        "bytes": job.bytes_on_disk,
        "first_frame": next((frame.id for frame in job.frames if not frame.absent), None),
        "strokes": len(job.strokes),
        "result": None if run is None else {"levels": run.levels, "revision": job.revision, "method": run.method},
    }


# --- the queue ---


def show_queue(studio: "Studio") -> dict[str, Any]:
    """What runs and what waits, in order, each with the seconds until it will be done; None where nobody can tell."""
    running, waiting = studio.fusions.queue.snapshot()
    jobs = studio.store.jobs
    finished = list(jobs.values())
    now = time.monotonic()
    left = [_seconds_left(studio, work, finished, now) for work in running]
    lengths = [estimate_seconds(jobs.get(work.job_id), work.method, finished) for work in waiting]
    ends = foresee(left, lengths, studio.settings.workers)
    known = [*left, *ends]
    return {
        "paused": studio.fusions.queue.paused,
        "running": [_show_work(studio, work, seconds) for work, seconds in zip(running, left, strict=True)],
        "waiting": [_show_work(studio, work, seconds) for work, seconds in zip(waiting, ends, strict=True)],
        "seconds_left": None if None in known else max((second for second in known if second is not None), default=0.0),
    }


def set_paused(studio: "Studio", paused: bool) -> dict[str, Any]:
    """The queue, paused or going on."""
    studio.fusions.queue.pause(paused)
    studio.publish_library()
    return show_queue(studio)


def set_order(studio: "Studio", job_ids: Sequence[str]) -> dict[str, Any]:
    """The queue in another order; see ``FusionQueue.order``."""
    studio.fusions.queue.order(job_ids)
    studio.publish_library()
    return show_queue(studio)


def _show_work(studio: "Studio", work: Work, seconds: float | None) -> dict[str, Any]:
    job = studio.store.jobs.get(work.job_id)
    progress = studio.progress.get(work.job_id) if work.began is not None else None
    return {
        "id": work.job_id,
        "name": job.name if job else "",
        "method": work.method,
        "alternative": work.alternative,
        "fraction": progress["fraction"] if progress else 0.0,
        "seconds_left": None if seconds is None else round(seconds, 1),
    }


def _seconds_left(studio: "Studio", work: Work, finished: Iterable[Job], now: float) -> float | None:
    """Of work that runs: by its own pace, and before that is known by the pace of earlier runs."""
    spent = now - (work.began or now)
    fraction = (studio.progress.get(work.job_id) or {}).get("fraction", 0.0)
    if fraction >= LEAST_FRACTION:
        return float(spent / fraction * (1 - fraction))
    whole = estimate_seconds(studio.store.jobs.get(work.job_id), work.method, finished)
    return None if whole is None else max(0.0, whole - spent)


def estimate_seconds(job: Job | None, method: str, finished: Iterable[Job]) -> float | None:
    """How long the fusion of a job will take, by what earlier ones took for each pixel of each frame.

    Args:
        job: The job; None gives None.
        method: How it is fused. Runs with the same method count; where there are none, those with any.
        finished: Jobs with and without results.
    """
    runs = [run for each in sorted(finished, key=lambda job: -job.changed) for run in each.runs()]
    alike = [run for run in runs if run.method == method] or runs
    paces = [
        sum(run.seconds.values()) / (run.width * run.height * max(1, len(run.frames)))
        for run in alike[:RUNS_LOOKED_AT]
        if run.seconds
    ]
    if job is None or not paces:
        return None
    return statistics.median(paces) * sum(frame.width * frame.height for frame in job.frames if frame.included)


def foresee(running: Sequence[float | None], waiting: Sequence[float | None], workers: int) -> list[float | None]:
    """When each that waits will be done, in seconds from now; None from the first on that nobody can tell.

    Example:
        >>> foresee([5.0], [10.0, 20.0], 1), foresee([], [10.0, None, 1.0], 1), foresee([3.0], [4.0, 4.0], 2)
        ([15.0, 35.0], [10.0, None, None], [4.0, 7.0])
    """
    if None in running:
        return [None] * len(waiting)
    free = [second for second in running if second is not None]
    free += [0.0] * (workers - len(free))
    heapq.heapify(free)
    ends: list[float | None] = []
    for length in waiting:
        if length is None or (ends and ends[-1] is None):
            ends.append(None)
            continue
        end = heapq.heappop(free) + length
        heapq.heappush(free, end)
        ends.append(end)
    return ends
