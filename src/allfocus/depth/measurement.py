"""Depth as a measurement: frames and the decision of a fusion -> where each pixel is in focus, and how exactly.

Step by step: the energy of detail around the frame that was decided for (:mod:`.focus_curves`), the top of that curve
between the frames (:mod:`.peak_fitting`), the surface through these tops (:mod:`.surface`), and its standard error. The
picture is worked on in tiles with all frames one after another, so memory does not grow with their number. Pictures
above 1.2 megapixels are measured at half scale, as they are decided; depth is known no finer.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.depth.focus_curves import BANDS, CurveGathering, FocusCurves
from allfocus.depth.noise_levels import LEAST_NOISE, NoiseLevels, measure_noise
from allfocus.depth.peak_fitting import choose_exponent, fit_peaks
from allfocus.depth.reblurring import BlurScale, choose_growth, gather_growth
from allfocus.depth.surface import MARGIN, SCATTER, find_mixed, fit_surface
from allfocus.errors import InputError
from allfocus.fusion.frame_checks import check_frames, check_picture
from allfocus.fusion.frame_source import FrameSource, MemorySource, SpoolSource
from allfocus.fusion.windows import Area, within
from allfocus.images.spool import FrameSpool, reduce_frame

Map = NDArray[np.float32]
DepthTile = tuple[int, int, int, int]
"""First row, behind the last row, first column, behind the last column."""

TILE = 512
"""Pixels a side of a tile."""
EDGE = MARGIN + 32
"""Pixels around a tile that what is measured in it depends on: the surface, and the windows of the focus curves and of
the blurred picture."""
SAMPLE_TILES = 9
"""Tiles that tell the shape of the focus curves."""
SAMPLE = 40_000
"""Most curves of a tile that do."""
FINE_STEP, GOOD_STEP = 0.4, 0.8
"""Pixels (standard deviation) by which blur grows from one frame to the next. With less than the one the neighbours of
a frame look like it, and frames are left out until it is the other."""
BEYOND = 0.5
"""Steps beyond the first and the last frame up to which a place can be told."""
NOISE_EVERY, GROWTH_EVERY = 7, 5
"""Of the pixels of these tiles, every so many tell the noise and how blur grows."""
BRIGHTNESS_WIDTH = 2.0
"""Standard deviation in pixels over which the brightness of a place is taken."""
FEWEST_ALONE = 0.1
"""Share of a tile in which surfaces must lie alone for the growth of blur to be learned there and not everywhere."""
LEAST_ERROR = 0.005
"""The least standard error that there is, in steps."""
ERROR_SHARE, END_SHARE = 4.64, 2.09
"""The standard error is so many times the distance between what the two bands measure, between the frames and within
half a step of the ends of the stack, where one side of the curve is seen. Noise moves each band its own way, and so
does what the shape of the curve has wrong; between the frames it moves them together as well, the more the more single
measurements scatter about the surface, so there the factor is that of the largest scatter (SCATTER) and goes with the
square root of it. Fitted to rendered scenes with known depth so that 68 % of the textured pixels of each scene lie
within one, as near as two factors come to that; benchmarks/depth_accuracy.py measures it on other seeds, and ``--fit``
fits it anew."""


@dataclass(frozen=True)
class MeasuredDepth:
    """Where in the stack each pixel is in focus."""

    position: Map
    """(H, W), in steps from the first frame (0) to the last (frames - 1), between them and up to half a step beyond as
    well; NaN where nothing can be told."""
    standard_error: Map
    """(H, W), in steps: with 68 % the truth is no farther away; NaN where nothing is measured."""
    frames: int
    """How many there are."""

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Where there is a measurement, (H, W)."""
        return np.isfinite(self.position)


def measure_depth(
    frames: Sequence[NDArray[np.float32]] | FrameSpool,
    decision: NDArray[np.integer],
    picture: Map,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> MeasuredDepth:
    """Returns the depth of a stack that has been fused, with its standard error.

    Args:
        frames: two or more pictures (H, W, 3) or (H, W), float32 in 0..1, in the order of focus; or a spool of such.
        decision: (H, W), the frame that each pixel came from, as a fusion gives it; -1 where it does not know.
        picture: the fused picture (H, W, 3) or (H, W), 0..1.
        progress: called with the parts done and the parts in all: tiles, and before them a look at some of them.

    Raises:
        InputError: frames, decision or picture cannot be used, or differ in size.

    Example:
        >>> import allfocus
        >>> scene = allfocus.render_scene("slope", frames=5, size=(192, 256))
        >>> fused = allfocus.fuse(scene.frames)
        >>> depth = measure_depth(scene.frames, fused.decision, fused.image)
        >>> bool(depth.measured.mean() > 0.5), bool(np.nanmax(depth.position) <= 4)
        (True, True)
    """
    source: FrameSource = SpoolSource(frames) if isinstance(frames, FrameSpool) else MemorySource(check_frames(frames))
    size = source.shape[0], source.shape[1]
    if decision.shape != size or decision.dtype.kind not in "iu":
        raise InputError(
            f"the decision has shape {decision.shape} and type {decision.dtype}; expected {size}, whole numbers",
            code="unequal-frames",
        )
    picture = check_picture(picture, size)
    scale = source.scale
    decided = reduce_decision(decision, scale)
    seen = reduce_frame(np.ascontiguousarray(picture, np.float32), scale)
    stack = FusedStack(source, lambda area: (decided[area], seen[area]), scale)
    tiles = list(cut_tiles(stack.size))
    looks, parts = 0, min(len(tiles), SAMPLE_TILES)
    kept: dict[DepthTile, Gathered] = {}

    def look(tile: DepthTile) -> Gathered:
        nonlocal looks
        gathered = kept.get(tile) or stack.gather(tile)
        if len(tiles) <= SAMPLE_TILES:  # of small pictures they are kept, so that they are gathered once
            kept[tile] = gathered
        looks += 1
        if progress is not None:
            progress(min(looks // 2, parts), parts + len(tiles))  # each is looked at twice
        return gathered

    if progress is not None:
        progress(0, parts + len(tiles))
    shape = learn_shape(stack, look)
    if shape.stride > 1:
        kept = {}
    position, error = (np.full(stack.size, np.nan, np.float32) for _ in range(2))
    for number, tile in enumerate(tiles):
        position[_area(tile)], error[_area(tile)] = measure_tile(stack, tile, shape, kept.pop(tile, None))
        if progress is not None:
            progress(parts + number + 1, parts + len(tiles))
    return MeasuredDepth(enlarge_map(position, size), enlarge_map(error, size), len(source))


class ReducedFrames(Protocol):
    """Frames that can be read in parts at the scale at which depth is measured."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each frame at full scale: (H, W) or (H, W, 3)."""

    def __len__(self) -> int:
        """How many frames there are."""

    def read_reduced(self, index: int, area: Area) -> NDArray[np.float32]:
        """Returns an area of a frame."""


class FusedStack:
    """A stack and what fusing it gave, at the scale at which depth is measured.

    Args:
        source: The frames.
        read_fused: Gives the decision (h, w) and the fused picture of an area at that scale.
        scale: By how much they are reduced.
    """

    def __init__(
        self, source: ReducedFrames, read_fused: Callable[[Area], tuple[NDArray[np.integer], Map]], scale: int
    ) -> None:
        self.source = source
        self.scale = scale
        self.size = -(-source.shape[0] // scale), -(-source.shape[1] // scale)
        self._read_fused = read_fused
        self._stride, self._start = 1, 0

    @property
    def frames(self) -> int:
        """How many frames are measured on."""
        return (len(self.source) - 1 - self._start) // self._stride + 1

    def every(self, stride: int) -> "FusedStack":
        """The same stack with every so many of its frames."""
        other = FusedStack(self.source, self._read_fused, self.scale)
        other._stride, other._start = stride, (len(self.source) - 1) % stride // 2
        return other

    def in_frames(self, position: Map) -> Map:
        """Positions among the frames that are measured on as positions among all."""
        return position * np.float32(self._stride) + np.float32(self._start)

    def gather(self, tile: DepthTile) -> "Gathered":
        """Returns the curves of a tile and of what it depends on."""
        area = _grown(tile, self.size)
        decision, picture = self._read_fused(area)
        if self._stride > 1:
            nearest = np.clip(np.rint((decision - self._start) / self._stride), 0, self.frames - 1)
            decision = np.where(decision < 0, -1, nearest).astype(np.int16)
        gathering = CurveGathering(decision, frames=self.frames)
        for index in range(self.frames):
            gathering.add(
                index, np.ascontiguousarray(self.source.read_reduced(self._start + index * self._stride, area))
            )
        grey = picture if picture.ndim == 2 else picture.mean(axis=2)
        brightness = np.asarray(cv2.GaussianBlur(grey, (0, 0), BRIGHTNESS_WIDTH), np.float32)
        return Gathered(within(_area(tile), area), gathering.finish(), decision, picture, brightness)


@dataclass(frozen=True)
class Gathered:
    """What is known about a tile and its surroundings."""

    inside: Area
    """Where the tile lies in it."""
    curves: FocusCurves
    """With noise."""
    decision: NDArray[np.integer]
    picture: Map
    brightness: Map

    @property
    def colours(self) -> int:
        """How many values a pixel has."""
        return 1 if self.picture.ndim == 2 else self.picture.shape[2]


@dataclass(frozen=True)
class CurveShape:
    """What the curves of a stack have in common."""

    noise: NoiseLevels
    exponents: tuple[float, ...]
    """How steeply they fall, for each band."""
    growth: tuple[float, ...]
    """How blur grows from frame to frame, for each band."""
    span: float = 1.0
    """From the darkest to the brightest place; little in dark pictures of 16 bits."""
    stride: int = 1
    """Every so many frames are measured on: more than 1 where neighbours differ too little."""


def learn_shape(stack: FusedStack, gather: Callable[[DepthTile], Gathered] | None = None) -> CurveShape:
    """Returns what the curves of a sample of tiles have in common.

    Args:
        stack: The stack, with all its frames.
        gather: Gives the curves of a tile, if some are at hand already.
    """
    shape = _learn(stack, gather or stack.gather)
    told = [own for own in shape.growth if np.isfinite(own)]
    step = max(float(np.mean(told)), 1e-4) ** 0.5 if told else FINE_STEP
    stride = min(int(np.ceil(GOOD_STEP / step)), (stack.frames - 1) // 4) if step < FINE_STEP else 1
    if stride < 2:
        return shape
    coarse = stack.every(stride)
    return replace(_learn(coarse, coarse.gather), stride=stride)


def _learn(stack: FusedStack, gather: Callable[[DepthTile], Gathered]) -> CurveShape:
    tiles = list(cut_tiles(stack.size))
    sample = tiles[:: -(-len(tiles) // SAMPLE_TILES)]
    bright, calm = [], []
    for tile in sample:
        own = gather(tile)
        bright.append(own.brightness[own.inside].ravel()[::NOISE_EVERY])
        calm.append(own.curves.noise[own.inside].ravel()[::NOISE_EVERY])
    shades = np.concatenate(bright)
    span = max(float(np.subtract(*np.quantile(shades, (0.999, 0.001)))), 1e-5)
    noise = measure_noise(shades, np.concatenate(calm), least=span * LEAST_NOISE / stack.scale)
    parts, growths = [], []
    for tile in sample:
        own = gather(tile)
        variance = noise.at(own.brightness)
        curves = own.curves.without_noise(variance, colours=own.colours)
        # Between hairs the blur of one lies over the other: it seems to grow less than it does.
        blur, alone = BlurScale(own.picture, variance), ~find_mixed(own.decision)
        if alone[own.inside].mean() < FEWEST_ALONE:  # finely stepped, noisy: decisions jump by frames everywhere
            alone[:] = True
        growths.append(gather_growth(curves, blur, alone, own.inside)[:, ::GROWTH_EVERY])
        energies = curves.energies[:, :, *own.inside]
        rows, columns = np.nonzero(curves.own[own.inside] & np.isfinite(energies[0]).all(axis=0))
        every = -(-max(1, rows.size) // SAMPLE)
        parts.append(energies[:, :, rows[::every], columns[::every]])
    together = np.concatenate(parts, axis=2)
    exponents = tuple(choose_exponent(together[number]) for number in range(len(BANDS)))
    return CurveShape(noise, exponents, choose_growth(np.concatenate(growths, axis=1)), span)


def measure_tile(
    stack: FusedStack, tile: DepthTile, shape: CurveShape, gathered: Gathered | None = None
) -> tuple[Map, Map]:
    """Returns position and standard error of a tile in steps, NaN where nothing can be told.

    Args:
        stack: The stack.
        tile: Which part, at the scale of the stack.
        shape: What its curves have in common.
        gathered: Of the tile, if it is at hand already.
    """
    if shape.stride > 1:
        stack = stack.every(shape.stride)
    own = gathered or stack.gather(tile)
    variance = shape.noise.at(own.brightness)
    curves = own.curves.without_noise(variance, colours=own.colours)
    at_end = curves.own & ((curves.peak == 0) | (curves.peak == stack.frames - 1))
    blur = BlurScale(own.picture, variance) if at_end.any() else None
    peaks = fit_peaks(curves, shape.exponents, blur, shape.growth)
    seen = own.picture / np.float32(shape.span)
    surface = fit_surface(peaks, curves.own, own.decision, curves.sharpest, seen)
    position = np.clip(surface.position, -BEYOND, stack.frames - 1 + BEYOND)
    near_end = is_near_end(position, stack.frames)
    between = np.float32(ERROR_SHARE) * np.sqrt(surface.scatter / np.float32(SCATTER))
    share = np.where(near_end, np.float32(END_SHARE), between)
    error = np.hypot(np.float32(LEAST_ERROR), share * surface.disagreement)
    error = np.where(np.isfinite(position), error * np.float32(shape.stride), np.float32(np.nan))
    return stack.in_frames(position)[own.inside], error.astype(np.float32)[own.inside]


def is_near_end(position: Map, frames: int) -> NDArray[np.bool_]:
    """Returns where the first or the last of so many frames is the nearest."""
    return (position < 0.5) | (position > frames - 1.5)


def reduce_decision(decision: NDArray[np.integer], scale: int) -> NDArray[np.int16]:
    """Returns the decision at the scale of the measurement: the median of each square, which is one of its values."""
    small = decision.astype(np.int16)
    if scale == 1:
        return small
    height, width = small.shape
    padded = np.pad(small, ((0, -height % scale), (0, -width % scale)), mode="edge")
    squares = padded.reshape(padded.shape[0] // scale, scale, padded.shape[1] // scale, scale)
    return np.sort(squares.transpose(0, 2, 1, 3).reshape(*squares.shape[::2], -1), axis=2)[..., scale**2 // 2]


def cut_tiles(size: tuple[int, int]) -> Iterator[DepthTile]:
    """Gives the tiles that cover a picture."""
    for top in range(0, size[0], TILE):
        for left in range(0, size[1], TILE):
            yield top, min(top + TILE, size[0]), left, min(left + TILE, size[1])


def _area(tile: DepthTile) -> Area:
    top, bottom, left, right = tile
    return slice(top, bottom), slice(left, right)


def _grown(tile: DepthTile, size: tuple[int, int]) -> Area:
    top, bottom, left, right = tile
    return (
        slice(max(0, top - EDGE), min(size[0], bottom + EDGE)),
        slice(max(0, left - EDGE), min(size[1], right + EDGE)),
    )


def enlarge_map(values: Map, size: tuple[int, int]) -> Map:
    """Returns a map at full scale, linearly between its values; holes stay holes."""
    if values.shape == size:
        return values
    scale = -(-size[0] // values.shape[0])
    large = (values.shape[1] * scale, values.shape[0] * scale)
    there = np.isfinite(values).astype(np.float32)
    smooth = cv2.resize(np.nan_to_num(values), large, interpolation=cv2.INTER_LINEAR)
    weight = cv2.resize(there, large, interpolation=cv2.INTER_LINEAR)
    nearest = cv2.resize(there, large, interpolation=cv2.INTER_NEAREST) > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        filled = np.where(nearest, smooth / weight, np.float32(np.nan))
    return np.asarray(filled[: size[0], : size[1]], np.float32)
