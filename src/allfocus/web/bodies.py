"""What clients send as JSON: each field with its range, and nothing beside them."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Coordinate = Annotated[float, Field(ge=-100_000, le=1_000_000, allow_inf_nan=False)]
Point = Annotated[list[Coordinate], Field(min_length=2, max_length=2)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewJob(_Body):
    """A job to make."""

    name: Annotated[str, Field(max_length=1000)] = ""


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


class StartOptions(_Body):
    """How to fuse."""

    method: Annotated[str, Field(max_length=100)] = "ips"
    align: bool = True
    prefer: Literal["near", "far"] | None = None
    skip_bad: bool = False


class OtherMethod(_Body):
    """A method to compare with."""

    method: Annotated[str, Field(max_length=100)]


class NewStroke(_Body):
    """A stroke to paint."""

    source: Annotated[str, Field(max_length=200)]
    points: Annotated[list[Point], Field(min_length=1, max_length=20_000)]
    radius: Annotated[float, Field(gt=0, le=4000, allow_inf_nan=False)]
    hardness: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
