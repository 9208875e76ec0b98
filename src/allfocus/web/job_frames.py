"""Frames of a job: taking them in from uploads, local folders and samples; order, removal, thumbnails."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allfocus.errors import AllfocusError
from allfocus.images.listing import list_files
from allfocus.images.ome_zarr_folders import is_zarr
from allfocus.scenes.catalogue import SCENES
from allfocus.web.job_records import ACTIVE, Frame, Job, clean_name
from allfocus.web.job_views import ABSENT
from allfocus.web.processes import TaskError
from allfocus.web.refusals import Refusal
from allfocus.web.store import size_of
from allfocus.web.wording import status_of

if TYPE_CHECKING:
    from allfocus.web.studio import Studio

NEITHER: Mapping[str, str | None] = {}
"""Neither a position nor a time was named."""

SAMPLE_BYTES = 64 * 2**20
"""More than a sample takes."""


class Undecided(Refusal):
    """A file holds several positions or times, and somebody has to say which."""

    def __init__(self, name: str, choice: dict[str, Any]) -> None:
        super().__init__(
            415,
            f"{name} holds {len(choice['positions'])} positions and {choice['times']} points in time, and a stack is "
            "one of them; add the file by itself and choose, or use allfocus fuse, which makes a series of all",
        )
        self.choice = choice


def require_frames(studio: "Studio", job_id: str, count: int = 1) -> Job:
    """The job, if it can take so many more frames now."""
    job = studio.job(job_id)
    if job.state in ACTIVE:
        raise Refusal(409, "the job is running; cancel it before you change its frames")
    if len(job.frames) + count > studio.settings.frames:
        raise Refusal(413, f"a job has {studio.settings.frames} frames at most; leave some out")
    return job


def inspect(
    studio: "Studio", path: Path, name: str, split_into: Path, *, most: int, which: Mapping[str, str | None] = NEITHER
) -> list[dict[str, Any]]:
    """What the pictures in a file are; see ``tasks.inspect_file``.

    Args:
        studio: Whose limits hold.
        path: The file.
        name: What the client calls it.
        split_into: Folder for the single pictures of a file with several.
        most: How many pictures it may hold.
        which: The ``position`` and the ``time`` to take of several.

    Raises:
        Undecided: there are several positions or times, and none is named.
        Refusal: it is no picture that can be read (415), or one with too many pixels, or too many of them (413).
    """
    values = {
        "path": str(path),
        "max_pixels": studio.settings.pixels,
        "max_pictures": most,
        "max_bytes": studio.room.free(),
        "split_into": str(split_into),
        **which,
    }
    try:
        found: list[dict[str, Any]] | dict[str, Any] = studio.pictures.run("inspect_file", values)
    except TaskError as error:
        status = status_of(error.error, otherwise=415)
        raise Refusal(status, studio.told(error.error, called=name)) from error
    if isinstance(found, dict):
        raise Undecided(name, found)
    return found


@contextlib.contextmanager
def splitting_folder(studio: "Studio") -> Iterator[Path]:
    """A folder for the pictures of one file, which is gone afterwards with what was left in it."""
    folder = studio.store.temporary / secrets.token_hex(8)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def add_upload(
    studio: "Studio", job_id: str, part: Path, name: str, which: Mapping[str, str | None] = NEITHER
) -> dict[str, Any]:
    """The first frame that came with a file, which is now in the job; a file with several pictures gives several.

    Where there are several positions or times and none is named, what there is to ``choose`` of instead.

    Args:
        studio: Where the job is.
        job_id: The job.
        part: The file as it arrived; gone afterwards.
        name: What the client calls it.
        which: The ``position`` and the ``time`` to take of several.
    """
    name = clean_name(name, "frame")
    most = studio.settings.frames - len(studio.job(job_id).frames)
    with splitting_folder(studio) as pages:
        try:
            found = inspect(studio, part, name, pages, most=most, which=which)
        except Undecided as undecided:
            return {"choose": undecided.choice}
        files = [Path(item.pop("file")) for item in found]
        with studio.store.lock:
            job = require_frames(studio, job_id, len(found))
            if len(found) > 1:
                studio.room.require(sum(size_of(file) for file in files))
            numbered = enumerate(zip(found, files, strict=True), start=1)
            frames = [_describe(name, page, len(found), file, item) for page, (item, file) in numbered]
            _add(studio, job, frames, files)
            shown_frames = {frame["id"]: frame for frame in studio.show(job)["frames"]}
    return {**shown_frames[frames[0].id], "pages": len(frames)}


def require_allowed_folder(studio: "Studio", text: str) -> tuple[Path, list[Path]]:
    """A local folder that a client named, and the folders that nothing of it may lead out of.

    Raises:
        Refusal: there is none, or it lies elsewhere.
    """
    if not studio.settings.allow_folders:
        raise Refusal(403, "local folders are switched off; start the server with --allow-folders DIR")
    allowed = [folder.resolve() for folder in studio.settings.allow_folders]

    def is_allowed(path: Path) -> bool:
        return any(path == folder or folder in path.parents for folder in allowed)

    try:
        folder = Path(text).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise Refusal(400, "this is no path; name a folder") from error
    if not is_allowed(folder):
        raise Refusal(403, "the folder is not below one that the server was started with (--allow-folders)")
    if not os.path.isdir(folder):
        raise Refusal(404, "there is no such folder; check the name")
    return folder, allowed


def add_folder(studio: "Studio", job_id: str, text: str) -> dict[str, Any]:
    """The job with the pictures of a local folder, which stay where they are."""
    folder, allowed = require_allowed_folder(studio, text)
    job = studio.job(job_id)
    if is_zarr(folder):
        add_files(studio, job_id, [folder], linked=True)
        return studio.show(job)
    # Resolved, so that a link inside the folder does not lead out of it.
    files = [Path(os.path.realpath(path)) for path in list_files(folder)]
    add_files(studio, job_id, [file for file in files if any(place in file.parents for place in allowed)], linked=True)
    return studio.show(job)


def add_files(
    studio: "Studio",
    job_id: str,
    files: Sequence[Path],
    *,
    linked: bool,
    skip_bad: bool = False,
    which: Mapping[str, str | None] = NEITHER,
) -> dict[str, str]:
    """Add local files as frames of a job; those that were left out come back with the reason.

    Args:
        studio: Where the job is.
        job_id: The job.
        files: Of one or several pictures each, in order.
        linked: They stay where they are; otherwise they are moved into the job.
        skip_bad: Leave out what cannot be read, as long as two files can; otherwise that is a refusal.
        which: The ``position`` and the ``time`` to take of files with several.
    """
    require_frames(studio, job_id, len(files))
    frames: list[Frame] = []
    places: list[Path] = []
    refused: dict[str, Refusal] = {}
    # The pages of all files wait until the last one was looked at: if that is none, nothing of them may be left.
    with splitting_folder(studio) as pages:
        for file in files:
            name = clean_name(file.name, "frame")
            try:
                found = inspect(studio, file, name, pages, most=studio.settings.frames - len(frames), which=which)
            except Refusal as refusal:
                if not skip_bad:
                    raise
                refused[name] = refusal
                continue
            for page, item in enumerate(found, start=1):
                own = Path(item.pop("file"))
                frame = _describe(name, page, len(found), own, item)
                frame.path = str(own) if linked and own == file else None
                frames.append(frame)
                places.append(own)
        if refused and len(frames) < 2:
            raise next(iter(refused.values()))
        with studio.store.lock:
            job = require_frames(studio, job_id, len(frames))
            _add(studio, job, frames, places)
    return {name: refusal.text for name, refusal in refused.items()}


def _describe(name: str, page: int, pages: int, file: Path, values: dict[str, Any]) -> Frame:
    """The frame that one picture of a file becomes.

    Args:
        name: What the client calls the file.
        page: Which of its pictures, from 1.
        pages: How many it holds.
        file: Where the picture lies now.
        values: Width, height, channels and bit_depth.
    """
    kind = "plane" if values.get("channel_names") else "page"
    shown, origin = (name, None) if pages == 1 else (f"{name} {kind} {page}", name)
    size = size_of(file)
    return Frame(secrets.token_hex(6), shown, bytes=size, file=origin, page=page, pages=pages, **values)


def _add(studio: "Studio", job: Job, frames: list[Frame], files: list[Path]) -> None:
    """Move the files of new frames into the job, and note them there; if that fails, neither happens."""
    before = list(job.frames)
    targets = [studio.store.frame_path(job, frame) for frame in frames]
    try:
        for frame, file, target in zip(frames, files, targets, strict=True):
            if frame.path is None:
                os.replace(file, target)
        job.frames = [*before, *frames]
        studio.store.save(job)
    except BaseException as error:
        job.frames = before
        for frame, target in zip(frames, targets, strict=True):
            if frame.path is None:
                target.unlink(missing_ok=True)
        if isinstance(error, AllfocusError):
            raise Refusal(507, studio.told(error)) from error
        raise


def arrange(studio: "Studio", job_id: str, order: list[tuple[str, bool]]) -> dict[str, Any]:
    """The job with its frames in a new order, each included or not."""
    with studio.store.lock:
        job = require_frames(studio, job_id, 0)
        known = {frame.id: frame for frame in job.frames}
        if sorted(frame_id for frame_id, _ in order) != sorted(known):
            raise Refusal(400, "name every frame of the job exactly once")
        job.frames = [known[frame_id] for frame_id, _ in order]
        for frame_id, included in order:
            known[frame_id].included = included
        studio.store.save(job)
        return studio.show(job)


def remove_frame(studio: "Studio", job_id: str, frame_id: str) -> dict[str, Any]:
    """The job without a frame, whose file is deleted if it is the job's own."""
    with studio.store.lock:
        job = require_frames(studio, job_id, 0)
        frame = job.frame(frame_id)
        if frame is None:
            raise Refusal(404, "the job has no such frame")
        if any(stroke.source == f"frame-{frame_id}" for stroke in job.all_strokes()):
            raise Refusal(409, f"strokes were painted from {frame.name}; undo them, or leave the frame out instead")
        job.frames.remove(frame)
        studio.store.save(job)
        if frame.path is None:
            studio.store.frame_path(job, frame).unlink(missing_ok=True)
        (studio.store.folder(job_id) / "thumbnails" / f"{frame_id}.jpg").unlink(missing_ok=True)
        return studio.show(job)


def add_sample(studio: "Studio", scene: str) -> dict[str, Any]:
    """A new job with a rendered stack in it, to try things with."""
    if scene not in SCENES:
        raise Refusal(400, f"there is no such scene; there are {', '.join(SCENES)}")
    studio.room.require(SAMPLE_BYTES)
    with splitting_folder(studio) as folder:
        try:
            files = studio.pictures.run("render_sample", {"scene": scene, "folder": str(folder)})
        except TaskError as error:
            raise Refusal(507, f"the scene could not be rendered: {studio.told(error.error)}") from error
        job_id = studio.create(f"sample {scene}")["id"]
        for number, file in enumerate(files, start=1):
            add_upload(studio, job_id, Path(file), f"{scene}_{number}.tif")
    return studio.show(studio.job(job_id))


def thumbnail(studio: "Studio", job_id: str, frame_id: str) -> Path:
    """The file with a small picture of a frame."""
    job = studio.job(job_id)
    frame = job.frame(frame_id)
    if frame is None:
        raise Refusal(404, "the job has no such frame")
    if frame.absent:
        raise Refusal(404, f"{frame.name} {ABSENT}")
    target = studio.store.folder(job_id) / "thumbnails" / f"{frame.id}.jpg"
    with studio.making_thumbnails.of(target):  # a page that is drawn anew asks while its first question is answered
        if not target.exists():
            path = studio.store.frame_path(job, frame)
            values = {"path": str(path), "target": str(target), "max_pixels": studio.settings.pixels}
            try:
                studio.pictures.run("make_channel_thumbnail" if frame.channel_names else "make_thumbnail", values)
            except TaskError as error:
                raise Refusal(415, studio.told(error.error, called=frame.name)) from error
    return target
