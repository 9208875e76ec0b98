"""Checks of what a project file says about its job, in a worker process: it may come from a stranger.

Whatever passes is as good as if this studio had made it: pictures and arrays have the sizes that the description says,
transforms lead to the result, strokes are such as a client may send, and every text is fit to be shown or copied.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from allfocus.alignment.placement import common_window
from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.errors import AllfocusError, InputError
from allfocus.finishing.finish import PIXEL_SIZES
from allfocus.fusion.faults import MOST_FAULTS
from allfocus.images.decoded import require_pixels
from allfocus.images.frame_file import list_frames
from allfocus.images.stack_file import open_stack_file
from allfocus.web.bodies import NewStroke
from allfocus.web.job_records import (
    DONE,
    LONGEST_NAME,
    NEW,
    Frame,
    Job,
    KeptResult,
    Run,
    clean_name,
    job_from_json,
    job_to_json,
)
from allfocus.web.job_views import command_to_copy
from allfocus.web.kept_results import MOST_RESULTS
from allfocus.web.project_files import Tell, bad_project, parse_strictly, unpack_project
from allfocus.web.retouching import stroke_work
from allfocus.web.store import size_of
from allfocus.web.stroke import MOST_POINTS, MOST_STROKES, MOST_WORK_OF_ALL
from allfocus.web.work_folder import RUN_NAME

LONGEST_JSON = 64 * 2**20
"""Bytes of a file that describes a part of a result."""
MOST_TEXTS, LONGEST_TEXT = 500, 1000
"""Notices of a job, and letters of each."""


def open_project_file(
    path: str, target: str, *, max_bytes: int, max_pixels: int, max_frames: int, tell: Tell
) -> dict[str, Any]:
    """Unpack a project file that may come from a stranger, and check all that it says; the job comes back as JSON.

    Args:
        path: The file.
        target: The folder for its files, which is made.
        max_bytes: Refuse one that needs more.
        max_pixels: Refuse pictures with more.
        max_frames: Refuse a stack with more.
        tell: Called with progress.
    """
    opened = unpack_project(path, target, max_bytes=max_bytes, tell=tell)
    try:
        job = job_from_json(opened["job"])
        _require_known(opened["job"], job_to_json(job))
    except InputError:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise bad_project(f"what it says of the stack makes no sense ({str(error).splitlines()[0][:200]})") from error
    if len(job.frames) > max_frames:
        raise InputError(f"has {len(job.frames)} frames, more than the limit of {max_frames}", code="too-many-pictures")
    _check_references(job, opened["frames"], max_pixels)
    if len(job.runs()) > MOST_RESULTS:
        raise bad_project(f"it has more than {MOST_RESULTS} results")
    if job.run is None and (job.strokes or job.undone or job.alternatives):
        raise bad_project("it has strokes without a result")
    for result in job.results():
        _check_run(Path(target), job, result, max_pixels)
        _check_strokes(job, result)
    for frame in job.frames:
        _settle_frame(Path(target), frame, opened["frames"][frame.id])
    _settle_job(Path(target), job)
    return {"job": job_to_json(job), "frames": opened["frames"]}


def _require_known(given: object, understood: object) -> None:
    """Refuse keys that would be passed over: they mean something to whoever wrote them."""
    if isinstance(given, dict) and isinstance(understood, dict):
        for key, value in given.items():
            if key not in understood:
                raise ValueError(f"{key[:40]!r} is not known here")
            _require_known(value, understood[key])
    elif isinstance(given, list) and isinstance(understood, list | tuple):
        for one, two in zip(given, understood, strict=True):
            _require_known(one, two)


def _check_references(job: Job, files: dict[str, Any], max_pixels: int) -> None:
    ids = [frame.id for frame in job.frames]
    if len(set(ids)) != len(ids) or set(ids) != set(files):
        raise bad_project("its frames are not those that it lists")
    for frame in job.frames:
        require_pixels(frame.width, frame.height, max_pixels)
        known = (len(frame.channel_names),) if frame.channel_names else (1, 3)
        if frame.channels not in known or frame.bit_depth not in (8, 16, 32) or not 1 <= frame.page <= frame.pages:
            raise bad_project("a frame of it is of no kind that there is")
        if frame.pixel_size is not None and not PIXEL_SIZES[0] <= frame.pixel_size <= PIXEL_SIZES[1]:
            raise bad_project("the pixels of a frame have no size that there is")
    for run in job.runs():
        require_pixels(run.width, run.height, max_pixels)
        if (
            not RUN_NAME.fullmatch(run.folder)
            or not set(run.frames) <= set(ids)
            or len(run.names) != len(run.frames)
            or run.channels not in ((len(run.shown),) if run.shown else (1, 3))
            or not all(channel.is_sound() for channel in run.shown)
            or run.working_depth not in (16, 32)
            or not 0 < run.white <= 1
            or not set(run.maps) <= {"depth", "decision", "confidence"}
            or (run.slab is not None and run.slab[1] > len(run.frames))
            or len(run.dismissed) > MOST_FAULTS
        ):
            raise bad_project("its result is of no kind that there is")


def _check_run(root: Path, job: Job, result: KeptResult, max_pixels: int) -> None:
    """The files of a run are what the viewer takes them for, and of the sizes that the description says."""
    run = result.run
    folder = root / run.folder
    needed = ["result.tif", "alignment.json", *(f"{name}.png" for name in run.maps)]
    if "depth" in run.maps:
        needed += ["depth-colour.png", "relief.npy"]
    for name in needed:
        if not (folder / name).is_file():
            raise bad_project(f"the file {name} of its result is missing")
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".tif", ".png"):
            _check_picture(path, run, max_pixels)
        elif path.suffix == ".npy":
            _check_array(path)
        elif path.suffix == ".json":
            _read_json(path)
    _check_alignment(folder, job, run)
    for item in result.alternatives:
        level = folder / "alternatives" / f"method-{item.method}" / "level0.npy"
        if item.state != DONE or level.parent.parent != folder / "alternatives" or not level.is_file():
            raise bad_project("the result of another method is missing")
        if np.load(level, mmap_mode="r").shape[:2] != (run.height, run.width):
            raise bad_project("the result of another method has another size")


def _check_picture(path: Path, run: Run, max_pixels: int) -> None:
    if run.shown and path.name == "result.tif":
        held = open_stack_file(path).positions[0]
        if (held.size, len(held.channels), held.planes) != ((run.height, run.width), run.channels, 1):
            raise bad_project(f"{path.name} has another size than the result")
        require_pixels(run.width, run.height, max_pixels)
        return
    found = list_frames([path])
    sizes = {(frame.width, frame.height) for frame in found}
    if len(found) != 1 or sizes != {(run.width, run.height)}:
        raise bad_project(f"{path.name} has another size than the result")
    require_pixels(run.width, run.height, max_pixels)


def _check_array(path: Path) -> None:
    """An array of plain numbers that holds exactly what its header says: one that says more would take the memory."""
    try:
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, kind = np.lib.format.read_array_header_1_0(file)
            expected = file.tell() + int(np.prod(shape, dtype=object)) * kind.itemsize
    except (ValueError, OSError, OverflowError) as error:
        raise bad_project(f"{path.name} holds no numbers") from error
    if kind.kind not in "uf" or kind.hasobject or not 2 <= len(shape) <= 3 or expected != path.stat().st_size:
        raise bad_project(f"{path.name} holds something else than it says")


def _read_json(path: Path) -> Any:
    if path.stat().st_size > LONGEST_JSON:
        raise bad_project(f"{path.name} is longer than {LONGEST_JSON} bytes")
    try:
        return parse_strictly(path.read_bytes())
    except ValueError as error:
        raise bad_project(f"{path.name} cannot be read ({error})") from error


def _check_alignment(folder: Path, job: Job, run: Run) -> None:
    """The transforms lay every frame onto the result, pixel by pixel."""
    content = _read_json(folder / "alignment.json")
    first = job.frame(run.frames[0]) if run.frames else None
    size = (first.height, first.width) if first is not None else (0, 0)
    try:
        if content is not None:
            alignment = StackAlignment.from_json(content)
            if len(alignment.transforms) != len(run.frames) or alignment.size != size:
                raise bad_project("its transforms are those of other frames")
            area = common_window(alignment) if run.crop else None
            size = (area[0].stop - area[0].start, area[1].stop - area[1].start) if area is not None else size
    except AllfocusError as error:
        raise bad_project(f"its transforms make no sense ({error.message})") from error
    if size != (run.height, run.width):
        raise bad_project("its transforms do not lead to its result")


def _check_strokes(job: Job, result: KeptResult) -> None:
    """Strokes are what a client may send, from layers that there are, and not more than may be painted again."""
    run, strokes = result.run, [*result.strokes, *result.undone]
    if len(strokes) > MOST_STROKES or sum(len(stroke.points) for stroke in strokes) > MOST_POINTS:
        raise bad_project("it has too many strokes")
    body = TypeAdapter(NewStroke)
    layers = {f"frame-{name}" for name in run.frames} | {f"method-{item.method}" for item in result.alternatives}
    layers |= {other.folder for other in job.runs() if other.fits(run)}
    for stroke in strokes:
        values = {name: value for name, value in vars(stroke).items() if name in NewStroke.model_fields}
        try:
            body.validate_python(values)
        except ValueError as error:
            raise bad_project(f"a stroke makes no sense ({str(error).splitlines()[0]})") from error
        if stroke.source not in layers:
            raise bad_project("a stroke takes from a layer that there is not")
    if sum(stroke_work(stroke, run.width, run.height) for stroke in strokes) > MOST_WORK_OF_ALL:
        raise bad_project("its strokes would take too long to paint")


def _settle_frame(root: Path, frame: Frame, record: dict[str, Any]) -> None:
    """A frame that is part of the project is what it says; any other waits for its file."""
    frame.name = clean_name(frame.name, "frame")
    frame.file = None if frame.file is None else clean_name(frame.file, "frame")
    frame.path, frame.digest, frame.bytes = None, record["sha256"], record["bytes"]
    frame.absent = not record["embedded"]
    if frame.absent:
        return
    if not _is_as_said(frame, root / "frames" / frame.id):
        raise bad_project(f"{frame.name} is another picture than it says")


def _is_as_said(frame: Frame, file: Path) -> bool:
    said = ((frame.height, frame.width), frame.channels)
    if frame.channel_names:
        held = open_stack_file(file).positions[0]
        return (held.size, len(held.channels)) == said and (held.planes, held.times, held.samples) == (1, 1, 1)
    found = list_frames([file])
    header = found[0].header
    return len(found) == 1 and ((header.size, header.channels), header.bit_depth) == (said, frame.bit_depth)


def _settle_job(root: Path, job: Job) -> None:
    """What a stranger wrote for people to read or to copy is written anew, or cut to a length that can be read."""
    job.name = clean_name(job.name, "project")[:LONGEST_NAME]
    job.state, job.error, job.error_code = (DONE if job.run is not None else NEW), None, None
    job.notices = [clean_text(text) for text in job.notices[:MOST_TEXTS]]
    job.created = job.changed = time.time()
    for run in job.runs():
        run.has_report = False
        run.bytes = size_of(root / run.folder)
        run.names = [clean_name(name, "frame") for name in run.names]
        run.left_out = {clean_name(name, "frame"): clean_text(why) for name, why in list(run.left_out.items())[:500]}
        run.name = "" if not run.name else clean_name(run.name, "result")[:LONGEST_NAME]
        run.notices = [clean_text(text) for text in run.notices[:MOST_TEXTS]]
        run.command = command_to_copy(list(_frames_of(job, run)), job.options)
    for folder in sorted(root.glob("run-*")):
        if folder.name not in {run.folder for run in job.runs()}:
            shutil.rmtree(folder)


def _frames_of(job: Job, run: Run) -> Iterator[Frame]:
    return (frame for frame in map(job.frame, run.frames) if frame is not None)


def clean_text(text: str) -> str:
    r"""A sentence of a stranger: one line, not too long.

    Example:
        >>> clean_text("a\nb\x1b[31m")
        'a b[31m'
    """
    shown = "".join(letter if letter.isprintable() else " " if letter.isspace() else "" for letter in text)
    return " ".join(shown.split())[:LONGEST_TEXT]
