"""What is known of a job: frames, options, state, result and strokes; as kept on disk and as shown to clients."""

import json
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import TypeAdapter

from allfocus.finishing.finish import Finish
from allfocus.finishing.rendering import finished_size
from allfocus.stack.options import FuseOptions
from allfocus.web.channels import ShownChannel
from allfocus.web.stroke import Stroke
from allfocus.web.work_folder import RUN_NAME

TILE_SIDE = 256
LONGEST_NAME = 120

NEW, QUEUED, RUNNING, DONE, FAILED, CANCELLED = "new", "queued", "running", "done", "failed", "cancelled"
ACTIVE = (QUEUED, RUNNING)
STATES = (NEW, *ACTIVE, DONE, FAILED, CANCELLED)


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
