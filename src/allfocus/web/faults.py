"""Faults of a result as the studio keeps them: found when it is fused, listed for clients, dismissed by them.

The list lies beside the result and never changes. Which faults were dismissed is part of the job; which were painted
follows from its strokes, so that undo and redo need not know of faults.
"""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from allfocus.errors import InputError
from allfocus.files.opening import open_plain, parse_json
from allfocus.fusion.faults import MOST_FAULTS, Fault
from allfocus.web.job_records import ACTIVE, Job, Run
from allfocus.web.refusals import Refusal
from allfocus.web.studio import Studio

FILE = "faults.json"
FAULT_ID = re.compile(r"f([1-9][0-9]{0,2})")
MOST_BYTES = 4 * 2**20


def list_faults(studio: Studio, job_id: str) -> list[dict[str, Any]]:
    """The faults of the job's result, worst first, each with an id and the layer that mends it.

    Raises:
        Refusal: there is no result, or it has no list.
    """
    job, run = _require_listed(studio, job_id)
    return [
        {**asdict(fault), "id": f"f{number}", "frame": fault.frame + 1, "layer": _layer_of(job, run, fault)}
        for number, fault in enumerate(_read(studio.store.folder(job_id) / run.folder / FILE), start=1)
    ]


def judge_fault(studio: Studio, job_id: str, fault_id: str, *, dismissed: bool) -> dict[str, Any]:
    """The faults that are dismissed, now with or without this one."""
    with studio.store.lock:
        job, run = _require_listed(studio, job_id)
        require_fault(run, fault_id)
        if job.state in ACTIVE:
            raise Refusal(409, "the job is being fused again; wait for it or cancel it")
        before = list(run.dismissed)
        run.dismissed = [*(name for name in before if name != fault_id), *([fault_id] if dismissed else [])]
        try:
            studio.store.save(job)
        except BaseException:
            run.dismissed = before
            raise
        return {"dismissed": list(run.dismissed)}


def require_fault(run: Run, fault_id: str) -> None:
    """Make sure that a result has this fault.

    Raises:
        Refusal: it has none of this name.
    """
    named = FAULT_ID.fullmatch(fault_id)
    if named is None or int(named[1]) > (run.faults or 0):
        raise Refusal(404, "the result has no such fault; GET /api/jobs/{job_id}/faults lists them")


def _require_listed(studio: Studio, job_id: str) -> tuple[Job, Run]:
    job = studio.job(job_id)
    if job.run is None:
        raise Refusal(409, "the job has no result yet; start it and wait until it is done")
    if job.run.faults is None:
        raise Refusal(404, "this result was made before faults were listed; fuse the stack again to get the list")
    return job, job.run


def _layer_of(job: Job, run: Run, fault: Fault) -> str | None:
    """The layer of the frame that mends a fault; None when the frame was removed."""
    known = fault.frame < len(run.frames) and job.frame(run.frames[fault.frame]) is not None
    return f"frame-{run.frames[fault.frame]}" if known else None


def _read(path: Path) -> list[Fault]:
    try:
        with open_plain(path) as file:
            found = TypeAdapter(list[Fault]).validate_python(parse_json(file.read(MOST_BYTES)))
        if any(fault.frame < 0 for fault in found):
            raise ValueError("no frame has a number below 0")
    except (OSError, InputError, ValidationError, ValueError) as error:
        raise Refusal(404, "the list of faults cannot be read; fuse the stack again to get it") from error
    return found[:MOST_FAULTS]
