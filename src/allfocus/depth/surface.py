"""Single measurements -> a surface: a plane through those around each pixel that belong to it.

What one pixel tells is spread by the texture that it was told by. Around each pixel a plane is fitted through the
measurements within a few pixels whose depth is near its own (local linear regression with Tukey's weights: W. S.
Cleveland, "Robust locally weighted regression", JASA 74, 1979), so that slopes stay slopes and steps stay steps. Pixels
without detail of their own take part in the plane around them if there is only one, and they look like its pixels.
Where two surfaces meet nothing is measured.
"""

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.depth.peak_fitting import PeakFit

Map = NDArray[np.float32]
Likeness = list[NDArray[np.float16]]

RADIUS, STRIDE = 6, 2
"""Measurements up to this many pixels away take part, along each axis, every other one of them."""
WIDTH = 3.5
"""Standard deviation in pixels of their weight."""
NEAR = 1.0
"""Steps; measurements farther than that from a pixel's own depth belong to another surface."""
SIMILAR = 0.08
"""Standard deviation of the weight of a difference in brightness or colour, for pixels that tell nothing themselves."""
LEAST_SHARE = 0.25
"""Of the weight around a pixel, the share that must agree with it."""
LEAST_WEIGHT = 0.06
"""Of what a full surrounding weighs, the least that a plane is fitted through."""
STIFFNESS = 0.25
"""Squared pixels by which planes are kept from tilting freely."""
MEETING, MEETING_WIDTH = 0.2, 4.0
"""Where measurements lie this many steps off the plane through those around them, within so many pixels (standard
deviations both), one thing ends and another begins. There the blur of one lies over the other, and what is measured
belongs to neither. (Of 0.3, 0.2 and 0.12; with 0.3 the rendered circuit board is 0.17 steps off instead of 0.14, with
0.12 a tenth less of it is measured.)"""
MIXED, MIXED_WIDTH = 0.33, 5.0
"""Where decisions lie this many frames off the plane through those around them (standard deviations both), things of
different depth lie side by side, hairs for example, and what is measured there is of none of them. On a slope whole
frames alone make 0.29."""
APART_WIDTH = 2.0
"""Standard deviation in pixels of the weight with which the distance between the bands is averaged, with its sign:
noise moves them apart in both directions, what is wrong about the curves in one."""
FEWEST_OWN, OWN_WIDTH = 0.2, 3.0
"""Share of the pixels around a place (standard deviation of the weight in pixels) that must tell their depth
themselves."""
SCATTER = 0.06
"""Steps by which measurements may scatter about the surface through them (standard deviation around a pixel), beyond
what their own errors explain; with more it is none: hairs before something, or what lies behind them."""
FROM_DECISION = 0.75
"""Frames by which the surface may lie off what was decided for a pixel."""
FROM_SHARPEST = 0.8
"""Frames by which it may lie off the sharpest of all frames at a pixel: where that one and the decision differ, one of
them sees something else."""
BESIDE, BESIDE_MEDIAN = 5, 5
"""Pixels around a place within which what was decided must fit the plane there as well (FROM_DECISION): a gap between
two legs is decided like the legs, and what is behind begins beside them. Single pixels do not count: the median of so
many a side does."""
UNDECIDED = 1e4
"""Stands for farther away than any frame."""
MARGIN = round(4 * MIXED_WIDTH) + RADIUS + round(4 * OWN_WIDTH)
"""Pixels around a part of a picture that have to be known for the surface in it."""


class FittedPlanes(NamedTuple):
    """The planes around all pixels."""

    position: Map
    """(H, W), where each has its own pixel."""
    tilt: Map
    """(H, W), how steep it is, in steps by pixel."""


class Surface(NamedTuple):
    """Planes through the measurements."""

    position: Map
    """(H, W), in steps; NaN where there is none."""
    disagreement: Map
    """(H, W), how far apart the bands have the surface around each pixel, in steps."""
    scatter: Map
    """(H, W), by how much single measurements around each pixel lie off the surface, in steps, noise included; up to
    :data:`SCATTER`."""


def fit_surface(
    peaks: PeakFit,
    own: NDArray[np.bool_],
    decision: NDArray[np.integer],
    sharpest: NDArray[np.integer],
    guide: Map,
) -> Surface:
    """Returns the surface through single measurements.

    Args:
        peaks: The measurements.
        own: (H, W), where the measurement is told by the pixel's own detail.
        decision: (H, W), the frame that each pixel came from; -1 where that is not known.
        sharpest: (H, W), the frame that is sharpest at each pixel, whatever was decided.
        guide: the fused picture (H, W) or (H, W, 3), 0..1.

    Example:
        >>> rows = np.arange(20, dtype=np.float32)[:, None] * 0.1 + np.zeros((20, 20), np.float32)
        >>> holes = rows.copy(); holes[::3] = np.nan
        >>> exact, frame = np.zeros((20, 20), np.float32), np.rint(rows).astype(int)
        >>> surface = fit_surface(PeakFit(holes, exact, exact), np.isfinite(holes), frame, frame, exact)
        >>> bool(np.allclose(surface.position[3:-3], rows[3:-3], atol=0.05))
        True
    """
    position = peaks.position
    known = np.isfinite(position) & own
    meeting = _roughness(np.nan_to_num(position), known, MEETING_WIDTH) > np.float32(MEETING)
    decided = decision.astype(np.float32)
    meeting |= find_mixed(decision)
    known &= ~meeting
    values = np.where(known, position, 0).astype(np.float32)
    variance = np.square(peaks.noise) + np.square(peaks.spread) / 4
    weight = np.where(known, 1 / (np.nan_to_num(variance, nan=1.0) + np.float32(0.01)), 0).astype(np.float32)
    weight *= np.float32(0.01)
    colours = guide if guide.ndim == 3 else guide[..., None]
    # Three times over the surroundings, so what takes longest is kept; half precision is enough for a weight.
    likeness = [_likeness(colours, down, across, known).astype(np.float16) for down, across, _ in _offsets()]
    start = _first_guess(values, weight, known, ~meeting, likeness)
    once = _fit_planes(values, weight, start, likeness).position
    surface, tilt = _fit_planes(values, weight, once, likeness)
    there = np.isfinite(start) & (_mean_around(known, OWN_WIDTH) >= np.float32(FEWEST_OWN))
    there &= ~(np.abs(surface - decided) > np.float32(FROM_DECISION))
    there &= ~_ends_beside(decision, surface, tilt)
    there &= ~(np.abs(surface - sharpest) > np.float32(FROM_SHARPEST))
    off = np.where(known, np.clip(values - np.nan_to_num(surface), -NEAR, NEAR), 0)
    unexplained = np.square(off) - np.nan_to_num(variance)
    there &= _weighted_mean(unexplained, weight, OWN_WIDTH) < np.float32(SCATTER**2)
    apart = np.abs(_weighted_mean(peaks.spread, weight, APART_WIDTH))
    scatter = np.minimum(np.sqrt(_weighted_mean(np.square(off), weight, OWN_WIDTH)), np.float32(SCATTER))
    return Surface(np.where(there, surface, np.float32(np.nan)), apart, scatter)


def find_mixed(decision: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Returns where things of different depth lie side by side (H, W), by the frame that each pixel came from.

    Args:
        decision: (H, W); -1 where that is not known.
    """
    return _roughness(decision.astype(np.float32), decision >= 0, MIXED_WIDTH) > np.float32(MIXED)


def _ends_beside(decision: NDArray[np.integer], surface: Map, tilt: Map) -> NDArray[np.bool_]:
    """Returns where something else begins within a few pixels, by what was decided there."""
    reach = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * BESIDE + 1, 2 * BESIDE + 1))
    # Where nothing was decided, nothing is farther or nearer.
    low, high = (np.where(decision < 0, own, decision).astype(np.float32) for own in (UNDECIDED, -UNDECIDED))
    lowest = cv2.erode(cv2.medianBlur(low, BESIDE_MEDIAN), reach)
    highest = cv2.dilate(cv2.medianBlur(high, BESIDE_MEDIAN), reach)
    allowed = np.float32(FROM_DECISION) + np.float32(BESIDE + 1) * tilt
    return np.asarray((highest - surface > allowed) | (surface - lowest > allowed))


def _mean_around(values: NDArray[Any], width: float) -> Map:
    return np.asarray(cv2.GaussianBlur(values.astype(np.float32), (0, 0), width), np.float32)


def _weighted_mean(values: NDArray[Any], weight: Map, width: float) -> Map:
    mean = _mean_around(weight * values, width) / np.maximum(_mean_around(weight, width), np.float32(1e-6))
    return np.asarray(mean, np.float32)


def _offsets() -> list[tuple[int, int, float]]:
    steps = range(-RADIUS, RADIUS + 1, STRIDE)
    return [
        (down, across, float(np.exp(-(down**2 + across**2) / (2 * WIDTH**2)))) for down in steps for across in steps
    ]


FULL_WEIGHT = sum(share for _, _, share in _offsets())


def _moved(values: NDArray[np.float32], down: int, across: int) -> NDArray[np.float32]:
    """Returns what lies so far down and to the right of each pixel; at the borders, zeros."""
    result = np.zeros_like(values)
    height, width = values.shape[:2]
    if abs(down) >= height or abs(across) >= width:
        return result
    target = slice(max(0, -down), height - max(0, down)), slice(max(0, -across), width - max(0, across))
    origin = slice(max(0, down), height + min(0, down)), slice(max(0, across), width + min(0, across))
    result[target] = values[origin]
    return result


def _likeness(colours: Map, down: int, across: int, known: NDArray[np.bool_]) -> Map:
    """Returns 1 for pixels that tell their depth themselves; for others, how much that pixel looks like them."""
    apart = np.square(_moved(colours, down, across) - colours).mean(axis=2)
    return np.where(known, np.float32(1), np.exp(apart * np.float32(-0.5 / SIMILAR**2)))


def _roughness(values: Map, known: NDArray[np.bool_], spread: float) -> Map:
    """Returns the standard deviation of the measurements around each pixel about the plane through them."""
    height, width = values.shape
    # In the middle of the picture and with 64 bits: differences of large moments are taken.
    rows = np.arange(height)[:, None] - height / 2
    columns = np.arange(width)[None, :] - width / 2
    weight = known.astype(np.float64)

    def around(factor: NDArray[np.float64] | float) -> NDArray[np.float64]:
        blurred = cv2.GaussianBlur(weight * factor, (0, 0), spread, borderType=cv2.BORDER_CONSTANT)
        return np.asarray(blurred, np.float64)

    total = np.maximum(around(1.0), 1e-9)
    z = values.astype(np.float64)
    y_mean, x_mean, z_mean = (around(own) / total for own in (rows, columns, z))
    yy, xx, zz = (around(own**2) / total - mean**2 for own, mean in ((rows, y_mean), (columns, x_mean), (z, z_mean)))
    xy, zy, zx = (
        around(rows * columns) / total - x_mean * y_mean,
        around(z * rows) / total - z_mean * y_mean,
        around(z * columns) / total - z_mean * x_mean,
    )
    down, across = _plane(yy, xx, xy, zy, zx)
    left = zz - 2 * (down * zy + across * zx) + down**2 * yy + across**2 * xx + 2 * down * across * xy
    return np.asarray(np.sqrt(np.maximum(left, 0)), np.float32)


def _plane(yy: Any, xx: Any, xy: Any, zy: Any, zx: Any) -> tuple[Any, Any]:
    """Returns the slopes down and across of planes by their central moments.

    On the diagonal is a little more: where measurements lie on one line, the plane stays level across it.
    """
    determinant = (yy + STIFFNESS) * (xx + STIFFNESS) - xy**2
    down = (zy * (xx + STIFFNESS) - zx * xy) / determinant
    across = (zx * (yy + STIFFNESS) - zy * xy) / determinant
    return down, across


def _first_guess(
    values: Map, weight: Map, known: NDArray[np.bool_], alike: NDArray[np.bool_], likeness: Likeness
) -> Map:
    """Returns a depth to start from, NaN where there is none.

    A pixel that tells nothing itself has the mean around it, if what is around it is one surface.
    """
    total, first, agreeing, everything = (np.zeros_like(values) for _ in range(4))
    for (down, across, share), like in zip(_offsets(), likeness, strict=True):
        there, there_weight = _moved(values, down, across), np.float32(share) * _moved(weight, down, across)
        everything += there_weight
        agreeing += there_weight * (np.abs(there - values) < np.float32(NEAR))
        there_weight = there_weight * like
        total += there_weight
        first += there_weight * there
    mean = first / np.maximum(total, np.float32(1e-6))
    enough = (total > np.float32(LEAST_WEIGHT * FULL_WEIGHT)) & alike
    alone = agreeing < np.float32(LEAST_SHARE) * everything
    guess = np.where(known, values, mean)
    return np.where(np.where(known, ~alone, enough), guess, np.float32(np.nan))


def _fit_planes(values: Map, weight: Map, start: Map, likeness: Likeness) -> FittedPlanes:
    """Returns weighted planes through the measurements near a first guess, where they are."""
    here = np.nan_to_num(start, nan=-1e3)
    sums = {name: np.zeros_like(values) for name in ("1", "y", "x", "yy", "xx", "xy", "z", "zy", "zx")}
    for (down, across, share), like in zip(_offsets(), likeness, strict=True):
        rise = _moved(values, down, across) - here
        near = np.maximum(1 - np.square(rise / np.float32(NEAR)), 0)
        own = np.float32(share) * _moved(weight, down, across) * np.square(near) * like
        lifted, y, x = own * rise, np.float32(down), np.float32(across)
        factors = {"1": np.float32(1), "y": y, "x": x, "yy": y * y, "xx": x * x, "xy": x * y}
        for name, factor in factors.items():
            sums[name] += own * factor
        for name, factor in (("z", np.float32(1)), ("zy", y), ("zx", x)):
            sums[name] += lifted * factor
    return _solve(sums, start)


def _solve(sums: dict[str, Map], start: Map) -> FittedPlanes:
    total = np.maximum(sums["1"], np.float32(1e-9))
    mean = {name: sums[name] / total for name in sums}
    yy, xx = mean["yy"] - mean["y"] ** 2, mean["xx"] - mean["x"] ** 2
    xy, zy, zx = (
        mean["xy"] - mean["x"] * mean["y"],
        mean["zy"] - mean["z"] * mean["y"],
        mean["zx"] - mean["z"] * mean["x"],
    )
    slope_y, slope_x = _plane(yy, xx, xy, zy, zx)
    rise = mean["z"] - slope_y * mean["y"] - slope_x * mean["x"]
    there = sums["1"] > np.float32(1e-4)
    position = np.where(there, start + np.clip(rise, -NEAR, NEAR), start)
    return FittedPlanes(np.asarray(position, np.float32), np.hypot(slope_y, slope_x).astype(np.float32))
