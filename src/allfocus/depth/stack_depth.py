"""The depth of a fused stack, measured, in units, and as the files that it is written to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.depth.files import FRACTION, STEP, encode_depth
from allfocus.depth.filling import fill_depth
from allfocus.depth.measurement import MeasuredDepth, measure_depth
from allfocus.depth.units import DepthScale, Length, read_length, scale_of_exif
from allfocus.fusion.depth import colour_depth
from allfocus.fusion.stack_fusion import FusionResult
from allfocus.images.image import Image
from allfocus.images.listing import TIFF_SUFFIXES
from allfocus.images.spool import FrameSpool
from allfocus.images.writing import encode_image
from allfocus.progress import CountProgress, Notice

Map = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class StackDepth:
    """The depth of a stack of files."""

    measured: MeasuredDepth
    """Between the frames, with holes."""
    filled: Map
    """(H, W), in steps, without holes."""
    scale: DepthScale
    """What a step is."""
    pixel_size: Length | None = None
    """How far neighbouring pixels are apart, if that was said."""

    @property
    def share(self) -> Map:
        """The filled depth, 0 the first frame and 1 the last."""
        whole = np.float32(max(1, self.measured.frames - 1))
        return np.asarray(np.clip(self.filled / whole, 0, 1), np.float32)


def measure_stack(
    spool: FrameSpool,
    result: FusionResult,
    *,
    exif: Sequence[bytes | None],
    numbers: Sequence[int],
    z_step: str | None = None,
    pixel_size: str | None = None,
    progress: CountProgress | None = None,
) -> StackDepth | None:
    """Returns the depth of a fused stack; None for methods that make no decision.

    Args:
        spool: The frames, aligned.
        result: What fusing them gave, in 0..1.
        exif: Of each frame; the distances of focus in it count where no step is given.
        numbers: Of each frame, in the stack as it was taken: where frames were left out, a step is wider.
        z_step: How far neighbouring frames of that are apart, such as 2.5um.
        pixel_size: How far neighbouring pixels are apart.
        progress: Called as the work goes on.
    """
    if result.decision is None or result.depth is None or result.confidence is None:
        return None
    picture = result.image.astype(np.float32, copy=False)
    parts = 1

    def tell(done: int, count: int) -> None:
        nonlocal parts
        parts = count + 1  # the last is closing the holes
        if progress is not None:
            progress(done, parts)

    measured = measure_depth(spool, result.decision, picture, progress=tell)
    masks = spool.valid
    if masks is not None:
        # Where a frame has no pixel it may have been the sharpest.
        everywhere = np.ones(measured.position.shape, bool)
        for mask in masks:
            everywhere &= mask[:, :]
        holes = np.where(everywhere, np.float32(0), np.float32(np.nan))
        measured = replace(measured, position=measured.position + holes, standard_error=measured.standard_error + holes)
    filled = fill_depth(measured, result.depth, result.confidence, picture)
    if progress is not None:
        progress(parts, parts)
    pixel = read_length(pixel_size, name="pixel_size") if pixel_size else None
    if z_step is not None:
        scale = DepthScale.of_step(read_length(z_step), numbers)
    else:
        scale = scale_of_exif(exif) or DepthScale.in_steps(len(spool))
    return StackDepth(measured, filled, scale, pixel)


def tell_depth(depth: StackDepth | None) -> str:
    """What there is to say about a depth, as a sentence; empty where it is measured in steps."""
    if depth is not None and depth.measured.frames < 3:
        return Notice("two frames do not tell a depth between them; nothing is measured")
    if depth is None or not depth.scale.source:
        return ""
    return Notice(f"depth is in {depth.scale.unit}, by {depth.scale.source}")


def encode_depth_map(depth: StackDepth, path: Path, *, filled: bool) -> bytes | memoryview:
    """The bytes of the depth map: TIFF in the unit of the scale, other formats from 0 to 1."""
    steps = depth.filled if filled else depth.measured.position
    if path.suffix.lower() in TIFF_SUFFIXES:
        values, scale = depth.scale.convert(steps), depth.scale
        return encode_depth(values, path, unit=scale.unit, pixel_size=depth.pixel_size, step=scale.step)
    share = steps / np.float32(max(1, depth.measured.frames - 1))
    return encode_depth(share, path, unit=FRACTION, pixel_size=depth.pixel_size)


def encode_error_map(depth: StackDepth, path: Path, *, filled: bool) -> bytes | memoryview:
    """The bytes of the standard error: TIFF in the unit of the scale, other formats with white for a whole step.

    What is filled has none, so holes stay holes.
    """
    measured = depth.measured
    if path.suffix.lower() in TIFF_SUFFIXES:
        values = depth.scale.convert_error(measured.standard_error, measured.position)
        return encode_depth(values, path, unit=depth.scale.unit, pixel_size=depth.pixel_size)
    return encode_depth(measured.standard_error, path, unit=STEP, pixel_size=depth.pixel_size)


def encode_depth_preview(depth: StackDepth, path: Path, *, filled: bool) -> bytes | memoryview:
    """The bytes of the depth in colours, transparent where nothing was measured."""
    there = depth.measured.measured
    alpha = None if filled or there.all() else there.astype(np.float32)
    return encode_image(Image(colour_depth(depth.share), alpha=alpha), path)


DEPTH_FILES = {
    "depth_map": encode_depth_map,
    "depth_preview": encode_depth_preview,
    "error_map": encode_error_map,
}
"""How each file that shows depth is made; called with the depth, the path and whether holes are closed."""
