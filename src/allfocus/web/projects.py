"""Projects of a studio: a job saved as a project file, a project file opened as a job, and its frames found again."""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allfocus.web.job_records import ACTIVE, Frame, Job, clean_name, job_from_json, job_to_json
from allfocus.web.processes import TaskError
from allfocus.web.project_files import SUFFIX
from allfocus.web.refusals import Refusal
from allfocus.web.wording import status_of
from allfocus.web.work_folder import IN_TEMPORARY, remove_known

if TYPE_CHECKING:
    from allfocus.web.studio import Studio

OVERHEAD = 2**20
"""Bytes that a project takes besides its files, more or less."""


# --- saving ---


def save_project(studio: "Studio", job_id: str, *, embed: bool) -> tuple[Path, str]:
    """A project file, to be deleted when it was sent, and the name to offer for it.

    Args:
        studio: Where the job is.
        job_id: The job.
        embed: Put all frames into it. Pages of a larger file are in any case, because nothing else holds them, and so
            are frames that were painted from, because without them the picture could not be shown.
    """
    with studio.store.lock:
        job = studio.job(job_id)
        if job.state in ACTIVE or any(item.state in ACTIVE for item in job.alternatives):
            raise Refusal(409, "the job is at work; save it when that is done")
        described = describe_job(job)
        frames = {frame.id: _describe_file(studio, job, frame, embed=embed) for frame in job.frames}
        missing = [frame.name for frame in job.frames if frame.absent]
    if missing:
        raise Refusal(
            409, f"{missing[0]}: is not on this machine; say where the frames are before you save the project"
        )
    size = sum(frame.bytes for frame in job.frames if frames[frame.id]["embedded"])
    studio.room.require(size + sum(run.bytes for run in job.runs()) + OVERHEAD)
    target = studio.store.temporary / f"{secrets.token_hex(6)}{SUFFIX}"
    values = {"target": str(target), "job": described, "folder": str(studio.store.folder(job_id)), "frames": frames}
    try:
        studio.pictures.run("pack_project", values)
    except TaskError as error:
        target.unlink(missing_ok=True)
        raise Refusal(409, f"the project cannot be saved: {studio.told(error.error)}") from error
    return target, f"{job.name}{SUFFIX}"


def describe_job(job: Job) -> dict[str, Any]:
    """A job as its project describes it: without what belongs to this machine."""
    content = job_to_json(job)
    for frame in content["frames"]:
        frame |= {"path": None, "digest": None, "absent": False}
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain


def _describe_file(studio: "Studio", job: Job, frame: Frame, *, embed: bool) -> dict[str, Any]:
    sources = {stroke.source for stroke in job.all_strokes()}
    embedded = embed or frame.file is not None or f"frame-{frame.id}" in sources
    return {
        "file": str(studio.store.frame_path(job, frame)),
        "embedded": embedded,
        "path": None if embedded else frame.path,
    }


# --- opening ---


def open_project(studio: "Studio", path: Path, name: str, places: Sequence[Path] = (), *, trust_paths: bool) -> Job:
    """The new job that a project file became.

    Args:
        studio: Where the job will be.
        path: The file.
        name: What the client calls it, for messages.
        places: Folders and files among which its frames may be.
        trust_paths: Look for frames where the project says that they lay. Only for the user of this machine: which
            files there are is nobody else's business.

    Raises:
        Refusal: it is no project, was changed, or holds what a project does not hold; then there is no job.
    """
    settings = studio.settings
    folder = studio.store.temporary / secrets.token_hex(8)
    values = {
        "path": str(path),
        "target": str(folder / "project"),
        "max_bytes": studio.room.free(),
        "max_pixels": settings.pixels,
        "max_frames": settings.frames,
    }
    try:
        opened = studio.pictures.run("open_project_file", values)
        with studio.store.lock:
            job = _move_in(studio, opened, folder / "project")
    except TaskError as error:
        status = status_of(error.error)
        raise Refusal(status, studio.told(error.error, called=clean_name(name, "project"))) from error
    finally:
        remove_known(studio.store.temporary, IN_TEMPORARY, folder.name)
    recorded = [frame["path"] for frame in opened["frames"].values() if frame["path"] and _is_plain(frame["path"])]
    relink(studio, job, [*(map(Path, recorded) if trust_paths else ()), *places])
    return job


def _is_plain(path: str) -> bool:
    """Whether a path of a project may be looked at: one to another machine would tell that who we are."""
    return os.path.isabs(path) and not path.startswith(("//", "\\\\"))


def _move_in(studio: "Studio", opened: dict[str, Any], unpacked: Path) -> Job:
    """Make the checked description a job of ours, with its files."""
    if len(studio.store.jobs) >= studio.settings.jobs:
        raise Refusal(507, f"{len(studio.store.jobs)} jobs are kept already; delete one first")
    made = job_from_json(opened["job"])
    job = studio.store.create(made.name)
    try:
        for run in made.runs():
            os.rename(unpacked / run.folder, studio.store.folder(job.id) / run.folder)
        for frame in made.frames:
            if not frame.absent:
                os.rename(unpacked / "frames" / frame.id, studio.store.folder(job.id) / "frames" / frame.id)
        taken = {name: value for name, value in vars(made).items() if name not in ("id", "created", "changed")}
        studio.store.change(job, **taken)
    except BaseException:
        studio.delete(job.id)
        raise
    return job


# --- its frames ---


def relink(studio: "Studio", job: Job, places: Iterable[Path]) -> dict[str, Any]:
    """The job, with those of its absent frames that lie among files and folders; they stay where they are."""
    wanted = {frame.id: {"sha256": frame.digest, "bytes": frame.bytes} for frame in job.frames if frame.absent}
    named = [str(place) for place in places]
    if wanted and named:
        try:
            found = studio.pictures.run("find_frames", {"places": named, "wanted": wanted})
        except TaskError as error:
            raise Refusal(409, studio.told(error.error)) from error
        with studio.store.lock:
            for frame in job.frames:
                if frame.absent and frame.id in found:
                    frame.path, frame.absent = found[frame.id], False
            studio.store.save(job)
    return studio.show(job)


def restore_frame(studio: "Studio", job_id: str, part: Path, name: str) -> dict[str, Any]:
    """The job, with a file that a client sent as the absent frame that it is.

    Raises:
        Refusal: it is none of the files that were fused.
    """
    job = studio.job(job_id)
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    with studio.store.lock:
        alike = [frame for frame in job.frames if frame.absent and frame.digest == digest]
        if not alike:
            raise Refusal(400, f"{clean_name(name, 'this')} is none of the frames that are missing; choose those")
        target = studio.store.frame_path(job, alike[0])
        os.replace(part, target)
        for twin in alike[1:]:
            shutil.copyfile(target, studio.store.frame_path(job, twin))
        for frame in alike:
            frame.absent = False
        studio.store.save(job)
        return studio.show(job)
