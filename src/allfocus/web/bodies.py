"""What clients send as JSON: each field with its range, and nothing beside them."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from allfocus.finishing.curves import MOST_POINTS
from allfocus.finishing.finish import (
    BAR_LENGTHS,
    COLOURS,
    CORNERS,
    LARGEST_PLACE,
    LARGEST_SPOT,
    MOST_SPOTS,
    PIXEL_SIZES,
    RANGES,
    SMALLEST_SPOT,
    Finish,
)
from allfocus.stack.option_fields import STUDIO
from allfocus.stack.options import FuseOptions, offered
from allfocus.web.stroke import LEAST_GAIN, MOST_GAIN, PEN_USES, STROKE_MODES

Coordinate = Annotated[float, Field(ge=-100_000, le=1_000_000, allow_inf_nan=False)]
PathBelow = Annotated[str, Field(min_length=1, max_length=4000)]
Pressure = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
CurvePoints = Annotated[list[Annotated[list[Share], Field(min_length=2, max_length=2)]], Field(max_length=MOST_POINTS)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=2)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewJob(_Body):
    """A job to make."""

    name: Annotated[str, Field(max_length=1000)] = ""


class JobName(_Body):
    """Another name for a job."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]


class QueueOrder(_Body):
    """The jobs that wait, in the order in which they shall be fused."""

    jobs: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=10_000)]


class QueueState(_Body):
    """Whether the queue rests."""

    paused: bool


class NewIntake(_Body):
    """A tree of pictures that comes in."""

    name: Annotated[str, Field(max_length=1000)] = ""
    path: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    """A local folder, which is read where it lies; None for files that will be sent."""


class CutStack(_Body):
    """A stack of a tree that shall become a job: its files, or the folder that an OME-Zarr is."""

    name: Annotated[str, Field(max_length=1000)] = ""
    frames: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=4000)]], Field(min_length=1, max_length=20_000)
    ]
    position: Annotated[str | None, Field(max_length=200)] = None
    """Which to take of a file of a microscope."""
    time: Annotated[str | None, Field(max_length=200)] = None


class LocalFiles(_Body):
    """Files and folders of the server's machine to open."""

    paths: Annotated[list[PathBelow], Field(min_length=1, max_length=20_000)]
    frames: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    """Where the frames of projects may be."""


class ChannelWish(_Body):
    """How a channel is looked at."""

    shown: bool
    colour: Annotated[str, Field(pattern="^#[0-9a-f]{6}$")]
    low: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    high: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class ChannelWishes(_Body):
    """How all channels of a result are looked at, in their order."""

    channels: Annotated[list[ChannelWish], Field(max_length=1000)]


class SampleName(_Body):
    """A scene to render."""

    scene: Annotated[str, Field(max_length=100)]


class FolderName(_Body):
    """A local folder whose pictures become frames."""

    path: Annotated[str, Field(min_length=1, max_length=4000)]


class FrameChoice(_Body):
    """Whether a frame takes part."""

    id: Annotated[str, Field(max_length=100)]
    included: bool


class FrameOrder(_Body):
    """All frames of a job, in their new order."""

    frames: Annotated[list[FrameChoice], Field(max_length=100_000)]


def _start_options() -> type[_Body]:
    """How to fuse: every option of ``FuseOptions`` that the studio offers, as the page shows it."""
    types, defaults = get_type_hints(FuseOptions), FuseOptions().settings()
    values: dict[str, Any] = {}
    for name, about in offered(STUDIO).items():
        kind: Any = Annotated[str, Field(max_length=100)] if types[name] is str else types[name]
        if about.choices:
            kind = Literal[*about.choices] | None
        extra: dict[str, Any] = {"x-ability": about.ability, "x-choices": dict(about.choices), "x-rare": about.rare}
        extra["x-channels"] = name == "decide_by"  # only for stacks of several channels, whose names it takes
        values[name] = (
            kind,
            Field(default=defaults[name], title=about.title, description=f"{about.help}.", json_schema_extra=extra),
        )
    return create_model("StartOptions", __base__=_Body, __doc__="How to fuse.", **values)


if TYPE_CHECKING:

    class StartOptions(_Body):
        """How to fuse."""
else:
    StartOptions = _start_options()


class OtherMethod(_Body):
    """A method to compare with."""

    method: Annotated[str, Field(max_length=100)]


class SlabSizes(_Body):
    """How to cut a stack into slabs."""

    size: Annotated[int, Field(ge=2, le=100_000)]
    overlap: Annotated[int, Field(ge=0, le=100_000)] = 0


class NewStroke(_Body):
    """A stroke to paint."""

    source: Annotated[str, Field(max_length=200)]
    points: Annotated[list[Point], Field(min_length=1, max_length=20_000)]
    radius: Annotated[float, Field(gt=0, le=4000, allow_inf_nan=False)]
    hardness: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    fault: Annotated[str | None, Field(max_length=20)] = None
    opacity: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    mode: Literal[*STROKE_MODES] = "replace"  # type: ignore[valid-type]  # one home for the names
    flow: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    tolerance: Annotated[float | None, Field(gt=0, le=1, allow_inf_nan=False)] = None
    pen: Literal[*PEN_USES] = "none"  # type: ignore[valid-type]  # as above
    pressures: Annotated[list[Pressure], Field(max_length=20_000)] = []
    gain: Annotated[float, Field(ge=LEAST_GAIN, le=MOST_GAIN, allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if self.pressures and (self.pen == "none" or len(self.pressures) != len(self.points)):
            raise ValueError("pressures are those of a pen, one for each point")
        return self


class StrokeChange(_Body):
    """What is to change about a stroke that was painted."""

    hidden: bool


class ResultChange(_Body):
    """What is to change about a result; what is left out stays."""

    name: Annotated[str | None, Field(max_length=1000)] = None
    deleted: bool | None = None


class Verdict(_Body):
    """What somebody thinks of a fault."""

    dismissed: bool


class Place(_Body):
    """A place of a result, in pixels."""

    x: Annotated[float, Field(ge=0, le=LARGEST_PLACE, allow_inf_nan=False)]
    y: Annotated[float, Field(ge=0, le=LARGEST_PLACE, allow_inf_nan=False)]


class SpotBody(Place):
    """A spot to heal."""

    radius: Annotated[float, Field(ge=SMALLEST_SPOT, le=LARGEST_SPOT, allow_inf_nan=False)]


class CropBody(_Body):
    """The part of a picture that is kept."""

    left: Annotated[int, Field(ge=0, le=LARGEST_PLACE)]
    top: Annotated[int, Field(ge=0, le=LARGEST_PLACE)]
    width: Annotated[int, Field(ge=1, le=LARGEST_PLACE)]
    height: Annotated[int, Field(ge=1, le=LARGEST_PLACE)]


class ScaleBarBody(_Body):
    """A scale bar; lengths in micrometres."""

    pixel_size: Annotated[float, Field(ge=PIXEL_SIZES[0], le=PIXEL_SIZES[1], allow_inf_nan=False)]
    length: Annotated[float | None, Field(ge=BAR_LENGTHS[0], le=BAR_LENGTHS[1], allow_inf_nan=False)] = None
    corner: Literal[*CORNERS] = "bottom-right"  # type: ignore[valid-type]  # one home for the names
    colour: Literal[*COLOURS] = "white"  # type: ignore[valid-type]  # as above


class CurvesBody(_Body):
    """The points of free curves, each from 0 to 1 across and up; none for a straight curve."""

    all: CurvePoints = []
    red: CurvePoints = []
    green: CurvePoints = []
    blue: CurvePoints = []


def _finish_body() -> type[_Body]:
    """Every field of ``Finish`` with its range."""
    usual = Finish()
    values: dict[str, Any] = {
        name: (Annotated[float, Field(ge=least, le=most, allow_inf_nan=False)], getattr(usual, name))
        for name, (least, most) in RANGES.items()
    }
    values |= {
        "curves": (CurvesBody, Field(default_factory=CurvesBody)),
        "turns": (Annotated[int, Field(ge=0, le=3)], 0),
        "crop": (CropBody | None, None),
        "spots": (Annotated[list[SpotBody], Field(max_length=MOST_SPOTS)], Field(default_factory=list)),
        "scale_bar": (ScaleBarBody | None, None),
    }
    return create_model("FinishBody", __base__=_Body, __doc__="What is done to a result before it leaves.", **values)


if TYPE_CHECKING:

    class FinishBody(_Body):
        """What is done to a result before it leaves."""
else:
    FinishBody = _finish_body()
