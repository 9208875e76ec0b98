"""The results of a job beside the open one: how it is put among them, and how one of them becomes the open one."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from allfocus.stack.options import FuseOptions
from allfocus.web.channels import ShownChannel
from allfocus.web.job_records import Frame, Job, KeptResult, Run

MOST_RESULTS = 50
"""Of one stack, deleted ones counted until they are removed for good."""


def keep_open_result(job: Job) -> None:
    """Put the open result among the others, with all that was done to it; then none is open."""
    if job.run is not None:
        job.others = [*job.others, KeptResult(job.run, job.alternatives, job.strokes, job.undone)]
    job.run, job.alternatives, job.strokes, job.undone = None, [], [], []


def open_kept_result(job: Job, kept: KeptResult) -> None:
    """Make one of the others the open result, in the place of the one that is open now, which is kept."""
    keep_open_result(job)
    _take(job, kept)


def forget_open_result(job: Job) -> None:
    """Leave the open result out of the job; the newest of the others that is not deleted takes its place, if any."""
    job.run, job.alternatives, job.strokes, job.undone = None, [], [], []
    newest = newest_kept(job)
    if newest is not None:
        _take(job, newest)


def newest_kept(job: Job) -> KeptResult | None:
    """The newest of the others that is not deleted, or None."""
    listed = [item for item in job.others if not item.deleted]
    return max(listed, key=lambda item: item.run.first_revision, default=None)


def _take(job: Job, kept: KeptResult) -> None:
    job.others = [item for item in job.others if item is not kept]
    job.run, job.alternatives, job.strokes, job.undone = kept.run, kept.alternatives, kept.strokes, kept.undone
    job.options, job.notices = kept.run.options or job.options, list(kept.run.notices)
    # Addresses of tiles carry the revision, and what they show is another picture now.
    job.revision += 1


def fused_run(job: Job, folder: Path, frames: Sequence[Frame], options: FuseOptions, reply: Mapping[str, Any]) -> Run:
    """The run of a stack that was just fused.

    Args:
        job: Whose run it will be; its revision is that of the run.
        folder: The run's files.
        frames: Those that were fused.
        options: How.
        reply: What the task of the worker told of it, and what else the caller knows.
    """
    told = dict(reply)
    return Run(
        folder=folder.name,
        method=options.method,
        bit_depth=max(frame.bit_depth for frame in frames),
        frames=[frame.id for frame in frames],
        names=[frame.name for frame in frames],
        has_report=(folder / "report.html").is_file(),
        first_revision=job.revision,
        crop=options.crop,
        name=new_name(job, options.method),
        created=time.time(),
        options=options,
        notices=list(job.notices),
        shown=[ShownChannel(**channel) for channel in told.pop("shown", [])],
        shown_since=job.revision,
        **told,
    )


def slab_run(run: Run, folder: str, first: int, last: int, job: Job, size: int) -> Run:
    """The run of a slab on the grid of another one: the frames from ``first`` (from 0) to before ``last``."""
    return replace(
        run,
        folder=folder,
        left_out={},
        seconds={},
        maps=[],
        has_report=False,
        bytes=size,
        first_revision=job.revision,
        command="",
        faults=None,
        dismissed=[],
        name=f"{run.shown_name} {first + 1}–{last}",
        created=time.time(),
        notices=[],
        slab=[first + 1, last],
    )


def new_name(job: Job, method: str) -> str:
    """A name for the next result of a job: that of its method, with a number where it is taken."""
    taken = {run.shown_name for run in job.runs()}
    numbered = (f"{method} {number}" for number in range(2, len(taken) + 3))
    return next(name for name in (method, *numbered) if name not in taken)
