"""What the fusion of a stack of files gives, and what is made of it before it is written."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.depth.stack_depth import StackDepth
from allfocus.fusion.stack_fusion import FusionResult
from allfocus.fusion.validity import covered_area
from allfocus.images.dimensions import Dimensions
from allfocus.images.image import Image
from allfocus.images.spool import FrameSpool
from allfocus.stack.notes import RunNotes

SHOWN_SIDE = 192
"""Pixels a side of the worst place that is shown; more where the place is larger."""


@dataclass(frozen=True)
class StackFusion(FusionResult):
    """What fusing a stack of files gave, and how it went."""

    frames: tuple[str, ...] = ()
    """Names of the frames that were fused, in order."""
    sources: tuple[Path, ...] = ()
    """The file of each of them."""
    bit_depth: int = 8
    """The most bits per channel that a frame has."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Names of the frames that were left out, with the reason."""
    alignment: StackAlignment | None = None
    """How the frames were brought onto one grid; None when alignment was switched off."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent on each step."""
    notices: tuple[str, ...] = ()
    """Sentences about what was found and changed on the way."""
    measured_depth: StackDepth | None = None
    """The depth as it was measured, between the frames and with its standard error, and what a step is; None unless a
    map of it or a report was asked for. ``depth`` is what the method said, pixel by pixel."""
    covered: NDArray[np.bool_] | None = None
    """Where at least one frame has a pixel, (H, W); None for everywhere."""
    worst_place: NDArray[np.float32] | None = None
    """Where most detail is lost, (h, w, 3) or (h, w): on the left the fused picture, on the right the frame that shows
    more; None unless so much is lost that the notices tell."""
    slabs: tuple[Path, ...] = ()
    """The pictures of the slabs, in order."""
    outputs: dict[str, Path] = field(default_factory=dict)
    """Every other file that was written: "picture", and maps and report by the name of their option."""
    dimensions: Dimensions | None = None
    """What the file said about the stack: size of a pixel, step between planes, channels; None for plain pictures."""
    series: tuple[str, ...] = ()
    """What the stacks of a series are called, in order; ``image`` and the maps are those of the first."""
    shown: NDArray[np.float32] | None = None
    """The picture to look at, (H, W, 3) in 0..1, where ``image`` has several channels (H, W, C); None otherwise."""
    settings: dict[str, object] = field(default_factory=dict)
    """Every option with the value that was used; ``linear_light`` says whether light was blended."""

    @property
    def smooth_depth(self) -> NDArray[np.float32] | None:
        """The measured depth without holes, (H, W), 0 the first frame and 1 the last; None where it is not known."""
        return None if self.measured_depth is None else self.measured_depth.share


def covered_part(spool: FrameSpool) -> NDArray[np.bool_] | None:
    """Where at least one frame has a pixel, (H, W); None for everywhere."""
    masks = spool.valid
    covered = None if masks is None else covered_area(masks)
    return None if covered is None or covered.all() else covered


def doubt_borders(result: FusionResult, spool: FrameSpool) -> FusionResult:
    """The result with less confidence where some frames have no pixel: one of them may have been the sharpest."""
    masks = spool.valid
    if masks is None or result.confidence is None:
        return result
    share = np.zeros(result.confidence.shape, np.float32)
    for mask in masks:
        share += mask[:, :]
    share /= len(masks)
    return dataclasses.replace(result, confidence=result.confidence * share**2)


def say_lost_detail(result: FusionResult, notes: RunNotes, *, where: str = "") -> None:
    """Says which detail was lost and mended, and which is still lost where that is worth a warning.

    Args:
        result: Of one stack.
        notes: Hears it.
        where: What stands before the sentences; empty where there is one stack only.
    """
    lost = result.lost_detail
    if lost is not None and lost.mended:
        notes.say(where + lost.mending)
    if lost is not None and lost.is_worth_a_warning:
        notes.say(where + lost.warning, see="check_map")


def show_worst_place(result: FusionResult, spool: FrameSpool) -> NDArray[np.float32] | None:
    """The worst place of a result that is worth a warning, beside the frame that shows more."""
    lost = result.lost_detail
    if lost is None or not lost.is_worth_a_warning:
        return None
    height, width = result.image.shape[:2]
    area = lost.places[0].window((height, width), side=SHOWN_SIDE)
    return np.concatenate([result.image[area], spool[lost.places[0].frame][area]], axis=1, dtype=np.float32)


def _visible(fusion: StackFusion) -> NDArray[Any]:
    return fusion.image if fusion.shown is None else fusion.shown


def _decision_map(fusion: StackFusion) -> Image | None:
    return None if fusion.decision is None else decision_picture(fusion.decision, len(fusion.frames))


def _confidence_map(fusion: StackFusion) -> Image | None:
    return None if fusion.confidence is None else Image(np.clip(fusion.confidence, 0, 1))


def _veil_map(fusion: StackFusion) -> Image | None:
    return None if fusion.veil is None else Image(np.clip(fusion.veil, 0, 1))


def _check_map(fusion: StackFusion) -> Image | None:
    from allfocus.fusion.lost_detail import paint_lost_detail

    return None if fusion.lost_detail is None else Image(paint_lost_detail(_visible(fusion), fusion.lost_detail))


MAP_PICTURES: dict[str, Callable[[StackFusion], Image | None]] = {
    "decision_map": _decision_map,
    "confidence_map": _confidence_map,
    "veil_map": _veil_map,
    "check_map": _check_map,
}
"""What each map shows; None where a method does not know it. Maps of depth: :mod:`allfocus.depth.stack_depth`."""


def decision_picture(decision: NDArray[np.integer], frame_count: int) -> Image:
    """A decision map as grey levels to look at: the first frame black, the last white, evenly between.

    Args:
        decision: ``(H, W)``, the number of the frame (from 0) that each pixel came from.
        frame_count: How many frames the stack has; above 256 the picture has 16 bits.

    Example:
        >>> decision_picture(np.array([[0, 1, 2]]), 3).pixels
        array([[0. , 0.5, 1. ]], dtype=float32)
    """
    scaled = decision.astype(np.float32) / np.float32(max(frame_count - 1, 1))
    return Image(np.clip(scaled, 0, 1), bit_depth=8 if frame_count <= 256 else 16)
