"""What is known of a job: frames, options, state, result and strokes; as kept on disk and as shown to clients."""

import json
import math
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter

from allfocus.finishing.finish import Finish
from allfocus.finishing.rendering import finished_size
from allfocus.stack.options import STUDIO, FuseOptions, FuseOutputs, command_line, offered
from allfocus.web.channels import ShownChannel
from allfocus.web.legends import describe_colours
from allfocus.web.stroke import Stroke
from allfocus.web.work_folder import RUN_NAME

TILE_SIDE = 256
LONGEST_NAME = 120

NEW, QUEUED, RUNNING, DONE, FAILED, CANCELLED = "new", "queued", "running", "done", "failed", "cancelled"
ACTIVE = (QUEUED, RUNNING)
STATES = (NEW, *ACTIVE, DONE, FAILED, CANCELLED)

ABSENT = "is not on this machine; say where the frames of this project are"


@dataclass
class Frame:
    """One picture of the stack."""

    id: str
    name: str
    """What the client called it; shown, and never used as a path."""
    width: int
    height: int
    channels: int
    bit_depth: int
    bytes: int
    included: bool = True
    path: str | None = None
    """Where it lies when it is not the job's own copy."""
    file: str | None = None
    """The client's name of the file with several pictures that it came from; None for a file of its own."""
    page: int = 1
    pages: int = 1
    """Which of the pictures of that file it is, from 1, and how many there are."""
    digest: str | None = None
    """SHA-256 of its file; known once it was part of a project file."""
    pixel_size: float | None = None
    """Micrometres from one pixel to the next, where its file says so."""
    channel_names: list[str] = field(default_factory=list)
    """Of a plane with several channels; none for a picture, grey or in colours."""
    position: str | None = None
    time: str | None = None
    """Which of several positions and times of its file it was taken from."""
    absent: bool = False
    """True while nobody has said where the file of a project's frame lies on this machine."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Width, height and channels."""
        return (self.width, self.height, self.channels)


@dataclass
class Alternative:
    """Another method's result for the same stack, to compare and to paint from."""

    method: str
    state: str
    error: str | None = None
    error_code: str | None = None
    """Which error of the library it is, if it is one."""


@dataclass
class Run:
    """A finished fusion: what it gave, and where it lies."""

    folder: str
    method: str
    width: int
    height: int
    channels: int
    bit_depth: int
    """Of the frames."""
    working_depth: int
    """Of the result here: 16, or 32 for floating point frames."""
    frames: list[str]
    """Ids of the frames fused, in order."""
    names: list[str]
    left_out: dict[str, str]
    seconds: dict[str, float]
    aligned: bool
    maps: list[str]
    """Out of depth, decision, confidence."""
    has_report: bool
    bytes: int
    first_revision: int
    white: float = 1.0
    """What is shown as the brightest; less than 1 for a result that would look black."""
    crop: bool = True
    """Whether aligned frames were cropped to what all of them show."""
    command: str | None = None
    """The command line that makes the same; empty when none can, None when the run is older than this field."""
    faults: int | None = None
    """How many faults were found (see :mod:`.faults`); None when the run is older than this field."""
    dismissed: list[str] = field(default_factory=list)
    """The faults that somebody looked at and found to be none."""
    name: str = ""
    """What it is called; empty for its method."""
    created: float = 0.0
    """Seconds since 1970; 0 when the run is older than this field."""
    options: FuseOptions | None = None
    notices: list[str] = field(default_factory=list)
    """Of its fusion; the job has those of the last that was started."""
    finish: Finish = field(default_factory=Finish)
    """What is done to it before it leaves."""
    slab: list[int] | None = None
    """The first and the last of its frames that were fused, from 1, if it is a slab; ``frames`` are all of them."""
    shown: list[ShownChannel] = field(default_factory=list)
    """How each channel is looked at; none for a picture, grey or in colours."""
    shown_since: int = 0
    """The revision of the job since which they are looked at so."""

    @property
    def layer_white(self) -> float | list[float]:
        """What the reduced levels of its layers hold as the brightest."""
        return [channel.white for channel in self.shown] if self.shown else self.white

    @property
    def shown_name(self) -> str:
        """What clients call it."""
        return self.name or self.method

    def fits(self, other: "Run") -> bool:
        """Whether the pictures of two runs lie on one grid, pixel by pixel."""
        return (self.width, self.height, self.channels, self.working_depth) == (
            other.width, other.height, other.channels, other.working_depth,
        )  # fmt: skip

    @property
    def levels(self) -> int:
        """Sizes at which there are tiles: the full one, and halves of it until one tile holds everything."""
        return 1 + max(0, math.ceil(math.log2(max(self.width, self.height) / TILE_SIDE)))


@dataclass
class KeptResult:
    """A result of a stack that is not the open one, as it was left."""

    run: Run
    alternatives: list[Alternative] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    undone: list[Stroke] = field(default_factory=list)
    deleted: bool = False
    """Whether somebody deleted it; until that is done for good, it can be restored."""


@dataclass
class Job:
    """One stack with all that was done to it.

    Of its results one is open: its run, alternatives and strokes are the job's own. The others are kept beside it.
    """

    id: str
    name: str
    created: float
    """Seconds since 1970."""
    changed: float
    state: str = NEW
    error: str | None = None
    error_code: str | None = None
    """Which error of the library it is, if it is one."""
    frames: list[Frame] = field(default_factory=list)
    options: FuseOptions | None = None
    notices: list[str] = field(default_factory=list)
    run: Run | None = None
    alternatives: list[Alternative] = field(default_factory=list)
    strokes: list[Stroke] = field(default_factory=list)
    undone: list[Stroke] = field(default_factory=list)
    revision: int = 0
    others: list[KeptResult] = field(default_factory=list)
    """The results that are not open."""

    def results(self) -> list[KeptResult]:
        """All results with what was done to them, the open one first."""
        own = [KeptResult(self.run, self.alternatives, self.strokes, self.undone)] if self.run else []
        return [*own, *self.others]

    def runs(self) -> list[Run]:
        """Those of all results, the open one first."""
        return [item.run for item in self.results()]

    def find_run(self, name: str) -> Run | None:
        """The run with this name, deleted or not, or None."""
        return next((run for run in self.runs() if run.folder == name), None)

    def strokes_of(self, run: Run) -> list[Stroke]:
        """The strokes that were painted into one of the results."""
        return next((item.strokes for item in self.others if item.run is run), self.strokes)

    def all_strokes(self) -> list[Stroke]:
        """Those of all results, undone ones too."""
        return [stroke for item in self.results() for stroke in (*item.strokes, *item.undone)]

    def frame(self, frame_id: str) -> Frame | None:
        """The frame with this id, or None."""
        return next((frame for frame in self.frames if frame.id == frame_id), None)

    @property
    def bytes_on_disk(self) -> int:
        """What its own frames and its results take; layers, which can be made again, are not counted."""
        own = sum(frame.bytes for frame in self.frames if frame.path is None and not frame.absent)
        return own + sum(run.bytes for run in self.runs())

    def layers(self) -> list[str]:
        """Names of all layers that can be looked at."""
        if self.run is None:
            return []
        present = [frame.id for frame in map(self.frame, self.run.frames) if frame is not None and not frame.absent]
        beside = [f"method-{item.method}" for item in self.alternatives if item.state == DONE] + self._result_layers()
        found = ["result", *(f"frame-{name}" for name in present), *self.run.maps, *beside]
        return found + [f"difference-{name}" for name in (*present, *beside)]

    def _result_layers(self) -> list[str]:
        """Results to compare with: each as it was fused, which can be painted from, and with its strokes if it has any.

        The open one as it was fused is there once it has strokes: painting from it takes them off.
        """
        found = [self.run.folder] if self.run and self.strokes else []
        for item in self.others:
            if self.run and not item.deleted and item.run.fits(self.run):
                found += [item.run.folder, *([f"retouched-{item.run.folder}"] if item.strokes else [])]
        return found


def job_to_json(job: Job) -> dict[str, Any]:
    """Everything about a job as ``job.json`` holds it."""
    return asdict(job)


def job_from_json(content: dict[str, Any]) -> Job:
    """The job that :func:`job_to_json` described.

    Raises:
        TypeError, ValueError: it is not such a description.
        InputError: an option of it has a value that it cannot have.
    """
    # Each field is checked against its type: one job whose description is damaged must not spoil the list of all.
    job = TypeAdapter(Job).validate_python(content)
    alternatives = [*job.alternatives, *(item for kept in job.others for item in kept.alternatives)]
    states = [job.state, *(item.state for item in alternatives)]
    if not all(state in STATES for state in states):
        raise ValueError(f"no job is {' or '.join(states)}")
    sizes = [(frame.width, frame.height) for frame in job.frames] + [(run.width, run.height) for run in job.runs()]
    if any(min(size) < 1 for size in sizes):
        raise ValueError("a picture has no size")
    if not all(stroke.is_sound() for stroke in job.all_strokes()):
        raise ValueError("a stroke cannot be painted")
    if any(run.slab and not (len(run.slab) == 2 and 1 <= run.slab[0] <= run.slab[1]) for run in job.runs()):
        raise ValueError("a slab has no frames")
    folders = [run.folder for run in job.runs()]
    if len(set(folders)) < len(folders) or not all(RUN_NAME.fullmatch(name) for name in folders):
        raise ValueError("a run is none of ours")
    json.dumps(asdict(job), allow_nan=False)
    for run in job.runs():
        finished_size(run.finish, run.width, run.height)
    return job


def options_from_json(content: Mapping[str, Any]) -> FuseOptions:
    """The options of a fusion as JSON has them, which knows lists and no tuples.

    Example:
        >>> options_from_json({"slabs": [8, 2]}).slabs
        (8, 2)
    """
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    return FuseOptions(**values)


def show_job(job: Job, progress: dict[str, Any] | None) -> dict[str, Any]:
    """A job as clients see it; no path of this machine is in it."""
    return {
        "id": job.id,
        "name": job.name,
        "created": job.created,
        "state": job.state,
        "error": job.error,
        "error_code": job.error_code,
        "frames": show_frames(job),
        "options": {name: getattr(job.options, name) for name in offered(STUDIO)} if job.options else None,
        "progress": progress,
        "notices": list(job.notices),
        "result": _show_result(job),
        "results": _show_results(job),
        "alternatives": [asdict(item) for item in job.alternatives],
        "alternative": next((asdict(item) for item in reversed(job.alternatives) if item.state != DONE), None),
        "strokes": [asdict(stroke) for stroke in job.strokes],
        "redo_count": len(job.undone),
        "command": _command(job),
    }


def show_frames(job: Job) -> list[dict[str, Any]]:
    """The frames as clients see them, each with what is wrong about it."""
    shown = ("id", "name", "width", "height", "bit_depth", "bytes", "included", "absent", "channel_names")
    problems = find_problems(job.frames)
    return [{**{key: getattr(f, key) for key in shown}, "problem": problems.get(f.id)} for f in job.frames]


def find_problems(frames: list[Frame]) -> dict[str, str]:
    """Why frames do not fit the others, by their ids; those that fit are not in it.

    What most of the included frames are is taken as right, so that one odd frame is named and not all the others.

    Example:
        >>> frames = [Frame(name, f"{name}.png", side, 4, 3, 8, 9) for name, side in (("a", 5), ("b", 6), ("c", 6))]
        >>> find_problems(frames)
        {'a': 'is 5x4, but b.png is 6x4; all frames of a stack need the same size'}
    """
    included = [frame for frame in frames if frame.included]
    if not included:
        return {}
    usual = Counter(frame.shape for frame in included).most_common(1)[0][0]
    model = next(frame for frame in included if frame.shape == usual)
    problems = {frame.id: _difference(frame, model) for frame in frames if frame.shape != usual}
    return problems | {frame.id: ABSENT for frame in frames if frame.absent}


def _difference(frame: Frame, model: Frame) -> str:
    if frame.shape[:2] != model.shape[:2]:
        return (
            f"is {frame.width}x{frame.height}, but {model.name} is {model.width}x{model.height}; "
            "all frames of a stack need the same size"
        )
    if frame.channel_names or model.channel_names:
        return f"has other channels than {model.name}; all planes of a stack need the same channels"
    kinds = {1: "grey", 3: "colour"}
    return (
        f"is {kinds.get(frame.channels)}, but {model.name} is {kinds.get(model.channels)}; leave it out or "
        "convert one of them"
    )


def _command(job: Job) -> str:
    """The command line of the result; before there is one, that of what would be fused now."""
    made = job.run.command if job.run else None
    return command_to_copy(job.frames, job.options) if made is None else made


def _show_result(job: Job) -> dict[str, Any] | None:
    run = job.run
    if run is None:
        return None
    return {
        "id": run.folder,
        "name": run.shown_name,
        "method": run.method,
        "width": run.width,
        "height": run.height,
        "bit_depth": run.bit_depth,
        "white": run.white,
        "frames": run.names,
        "left_out": run.left_out,
        "seconds": run.seconds,
        "aligned": run.aligned,
        "has_depth": "depth" in run.maps,
        "has_decision": "decision" in run.maps,
        "has_confidence": "confidence" in run.maps,
        "has_report": run.has_report,
        "revision": job.revision,
        "first_revision": run.first_revision,
        "layers": job.layers(),
        "legends": describe_colours(run.maps, run.frames),
        "tile_size": TILE_SIDE,
        "levels": run.levels,
        "slab": run.slab,
        "faults": run.faults,
        "dismissed": list(run.dismissed),
        "finish": run.finish.to_json(),
        "finished_size": list(finished_size(run.finish, run.width, run.height)),
        "pixel_size": _pixel_size(job, run),
        "channels": [asdict(channel) for channel in run.shown],
        "shown_since": run.shown_since,
    }


def _pixel_size(job: Job, run: Run) -> float | None:
    """Micrometres from one pixel of a result to the next, as its frames say; None when they say nothing, or differ."""
    found = {frame.pixel_size for frame in map(job.frame, run.frames) if frame is not None}
    return found.pop() if len(found) == 1 else None


def _show_results(job: Job) -> list[dict[str, Any]]:
    """All results of a job, the oldest first."""
    return [
        {
            "id": run.folder,
            "name": run.shown_name,
            "method": run.method,
            "created": run.created,
            "width": run.width,
            "height": run.height,
            "frames": run.slab[1] - run.slab[0] + 1 if run.slab else len(run.frames),
            "strokes": len(strokes),
            "bytes": run.bytes,
            "open": run is job.run,
            "deleted": deleted,
            "comparable": job.run is not None and run.fits(job.run),
        }
        for run, strokes, deleted in sorted(
            ((item.run, item.strokes, item.deleted) for item in job.results()), key=lambda item: item[0].first_revision
        )
    ]


def command_to_copy(frames: list[Frame], options: FuseOptions | None) -> str:
    """The command that fuses the included frames with these options, called in their folder; empty when none can.

    The command takes whole files, so there is none for some pages of a file, or for pages in another order.

    Example:
        >>> frame = Frame("a", "one two.png", 6, 4, 3, 16, 9)
        >>> command_to_copy([frame], FuseOptions(align=False))
        "allfocus fuse 'one two.png' -o fused.tif --no-align"
        >>> pages = [Frame(str(n), f"s.tif page {n}", 6, 4, 3, 8, 9, file="s.tif", page=n, pages=2) for n in (1, 2)]
        >>> command_to_copy(pages, None), command_to_copy(pages[::-1], None)
        ('allfocus fuse s.tif -o fused.tif --bit-depth 16', '')
    """
    included = [frame for frame in frames if frame.included]
    names = _file_names(included)
    if names is None:
        return ""
    shallow = bool(included) and max(frame.bit_depth for frame in included) == 8
    chosen = replace(options or FuseOptions(), bit_depth=16 if shallow else None)  # as the studio's TIFF
    if not included or not included[0].channel_names:
        return command_line(names, FuseOutputs("fused.tif"), chosen)
    first = included[0]
    return command_line(names, FuseOutputs("fused.ome.tif"), replace(chosen, position=first.position, time=first.time))


def _file_names(frames: list[Frame]) -> list[str] | None:
    """The files that hold the frames in this order; None when they would bring others along."""
    names: list[str] = []
    expected = 1
    for frame in frames:
        if frame.page != expected or (expected > 1 and frame.file != names[-1]):
            return None
        if expected == 1:
            names.append(frame.file or frame.name)
        expected = frame.page % frame.pages + 1
    return names if expected == 1 else None


def clean_name(text: str, otherwise: str) -> str:
    r"""A client's name for something, fit to be shown: its last part, one line, no control characters, not too long.

    Example:
        >>> clean_name("../../etc/passwd", "x"), clean_name("C:\\shots\\a\x00b.tif", "x"), clean_name("..", "y")
        ('passwd', 'ab.tif', 'y')
    """
    last = text.replace("\\", "/").rstrip("/").rpartition("/")[2]
    # Control characters, and those that turn the reading direction, could make a name look like another.
    kept = "".join(letter for letter in last if unicodedata.category(letter)[0] != "C")
    kept = " ".join(kept.split())
    if len(kept) > LONGEST_NAME:
        kept = f"{kept[: LONGEST_NAME - 31]}…{kept[-30:]}"
    return kept if kept.strip(". ") else otherwise
