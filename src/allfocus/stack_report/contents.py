"""What the report of a stack is made from, and whether it fits together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.errors import InputError
from allfocus.fusion.lost_detail import LostDetail
from allfocus.stack_report.pictures import ReportedStack


@dataclass(frozen=True, eq=False)
class StackReport:
    """What the report of one stack tells: everything but the frames themselves."""

    image: NDArray[Any]
    """The fused picture (H, W, 3) or (H, W): float in 0..1, uint8 or uint16."""
    names: tuple[str, ...]
    """Names of the frames that were fused, in order."""
    output: str = ""
    """The file the picture was written to; empty for none."""
    decision: NDArray[np.integer[Any]] | None = None
    """(H, W), the frame (from 0) that each pixel came from, below 0 for a mixture; None where a method has none."""
    depth: NDArray[np.float32] | None = None
    """(H, W), 0 the first frame and 1 the last; None without."""
    confidence: NDArray[np.float32] | None = None
    """(H, W), 0..1, how sure the depth is; None without."""
    lost_detail: LostDetail | None = None
    """What some frame shows and the fused picture does not; None if it was not measured."""
    alignment: StackAlignment | None = None
    """How the frames in ``names`` were brought onto one grid; None when alignment was switched off."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Option -> value as used, in the order to show; None reads as "not set"."""
    command: str = ""
    """The command line that does the same again; empty for none."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Step -> seconds, in order."""
    notices: tuple[str, ...] = ()
    """Sentences about what was found and changed on the way."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Names of frames that were left out, with the reason."""
    origin: Mapping[str, object] = field(default_factory=dict)
    """Anything else worth keeping (when, bit depth, colour profile, machine ...); shown at the end of the page."""


def check_contents(report: StackReport, frames: ReportedStack) -> None:
    """Raise InputError, naming what is wrong, unless frames, names, picture and maps fit together."""
    if len(frames) != len(report.names) or not report.names:
        raise InputError(f"the report names {len(report.names)} frames but {len(frames)} were given; give one each")
    size = report.image.shape[:2]
    for index in range(len(frames)):
        if tuple(frames[index].shape[:2]) != size:
            raise InputError(
                f"{report.names[index]} is {frames[index].shape[1]}x{frames[index].shape[0]}, the fused picture "
                f"{size[1]}x{size[0]}; give the frames as they were fused, aligned and cropped"
            )
    for name in ("decision", "depth", "confidence"):
        values = getattr(report, name)
        if values is not None and values.shape != size:
            raise InputError(f"the {name} map has shape {values.shape}, the fused picture {size}; give one of its size")
    lost = report.lost_detail
    if lost is not None and lost.map.shape != tuple(-(-length // lost.cell) for length in size):
        raise InputError(
            f"lost detail has a map of shape {lost.map.shape} with cells of {lost.cell} pixels, the fused picture "
            f"{size}; give that of this picture"
        )
    if report.alignment is not None and len(report.alignment.transforms) != len(report.names):
        raise InputError(
            f"the alignment is of {len(report.alignment.transforms)} frames, the stack has {len(report.names)}; "
            "give the alignment of the frames that were fused"
        )
