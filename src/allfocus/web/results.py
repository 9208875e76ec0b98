"""Several results of one stack: one is open; others are opened, named, deleted, restored, and removed for good."""

import contextlib
from collections.abc import Iterator
from typing import Any

from allfocus.web.job_records import ACTIVE, DONE, Job, KeptResult, Run, clean_name
from allfocus.web.kept_results import newest_kept, open_kept_result
from allfocus.web.refusals import Refusal
from allfocus.web.store import remove_unnamed
from allfocus.web.studio import Studio

RESULT_FIELDS = (
    "run",
    "alternatives",
    "strokes",
    "undone",
    "options",
    "notices",
    "revision",
    "others",
    "state",
    "error",
)
"""What of a job changes when another result is opened."""


def open_result(studio: Studio, job_id: str, result_id: str) -> dict[str, Any]:
    """The job with another of its results open: it is shown, checked and painted from now on."""
    with _changing(studio, job_id) as job:
        if job.run is None or job.run.folder != result_id:
            kept = _require_kept(job, result_id)
            if kept.deleted:
                raise Refusal(409, "this result is deleted; restore it first")
            open_kept_result(job, kept)
            job.state, job.error, job.error_code = DONE, None, None
    return studio.show(job)


def change_result(
    studio: Studio, job_id: str, result_id: str, *, name: str | None, deleted: bool | None
) -> dict[str, Any]:
    """The job with one of its results named anew, deleted or restored; what is None stays.

    The open one is deleted too, where there is another to open instead; nothing leaves the disk.
    """
    with _changing(studio, job_id) as job:
        run = _require_run(job, result_id)
        if name is not None:
            run.name = clean_name(name, run.method)
        if deleted is not None:
            if deleted and run is job.run:
                instead = newest_kept(job)
                if instead is None:
                    raise Refusal(409, "this is the only result; fuse the stack again first, or delete the stack")
                open_kept_result(job, instead)
            if run is not job.run:
                _require_kept(job, result_id).deleted = deleted
    return studio.show(job)


def remove_result(studio: Studio, job_id: str, result_id: str) -> dict[str, Any]:
    """The job without a result that was deleted before, whose files are gone now."""
    with _changing(studio, job_id) as job:
        _require_run(job, result_id)
        kept = next((item for item in job.others if item.run.folder == result_id), None)
        if kept is None or not kept.deleted:
            raise Refusal(409, "only a result that was deleted can be removed for good; delete it first")
        own = {id(stroke) for stroke in (*kept.strokes, *kept.undone)}
        if any(stroke.source == result_id and id(stroke) not in own for stroke in job.all_strokes()):
            raise Refusal(409, "strokes of another result were painted from this one; undo them, or leave it deleted")
        job.others = [item for item in job.others if item is not kept]
    with studio.store.lock:
        folder = studio.store.folder(job_id)
        studio.cache.forget(folder / "layers" / result_id)
        if studio.store.holds(job):
            remove_unnamed(folder, job)
    return studio.show(job)


@contextlib.contextmanager
def _changing(studio: Studio, job_id: str) -> Iterator[Job]:
    """The job, to change its results; put on disk afterwards, or as it was where that fails."""
    with studio.store.lock:
        job = studio.job(job_id)
        if job.state in ACTIVE or any(item.state in ACTIVE for item in job.alternatives):
            raise Refusal(409, "something is being fused for this job; wait for it or cancel it")
        before = {name: getattr(job, name) for name in RESULT_FIELDS}
        details = [(item, item.deleted) for item in job.others]
        names = [(run, run.name) for run in job.runs()]
        try:
            yield job
            studio.store.save(job)
        except BaseException:
            for name, value in before.items():
                setattr(job, name, value)
            for item, deleted in details:
                item.deleted = deleted
            for run, name in names:
                run.name = name
            raise


def _require_run(job: Job, result_id: str) -> Run:
    run = job.find_run(result_id)
    if run is None:
        raise Refusal(404, "the job has no such result; its results are listed in the job")
    return run


def _require_kept(job: Job, result_id: str) -> KeptResult:
    kept = next((item for item in job.others if item.run.folder == result_id), None)
    if kept is None:
        raise Refusal(404, "the job has no such result; its results are listed in the job")
    return kept
