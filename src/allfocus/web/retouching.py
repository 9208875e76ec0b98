"""The brush: pixels of one layer painted into the result at full bit depth, stroke by stroke, with undo by replay.

A stroke's weight at a pixel depends on the stroke and its source and on nothing else, so painting a part of it again
gives the same values: undo restores the area of a stroke from the original and replays the others within it.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.web.dabs import DabMask, ReadGuide, dab_work, fall_off, is_dabbed, margin_of
from allfocus.web.layers import Area, blocks_of
from allfocus.web.stroke import Stroke

Plane = NDArray[np.float64]
Samples = NDArray[np.uint16] | NDArray[np.float32]
GREY = np.array([0.299, 0.587, 0.114])
OpenSource = Callable[[str], Samples]
"""Gives the full size of a layer by its name."""
OpenGuide = Callable[[str], ReadGuide]
"""Gives what reads the smoothed tiles of a layer, by its name."""


def stroke_area(stroke: Stroke, width: int, height: int) -> Area:
    """(left, top, right, bottom), ends excluded: the smallest area that holds all that a stroke may change.

    Example:
        >>> stroke_area(Stroke("1", "frame-a", [[5.0, 5.0]], radius=2, hardness=1), width=7, height=100)
        (3, 3, 7, 7)
    """
    xs, ys = [point[0] for point in stroke.points], [point[1] for point in stroke.points]
    reach = stroke.radius + margin_of(stroke, width, height)
    left, right = _pixels_between(min(xs) - reach, max(xs) + reach)
    top, bottom = _pixels_between(min(ys) - reach, max(ys) + reach)
    left, top = min(max(left, 0), width), min(max(top, 0), height)
    return (left, top, max(left, min(right, width)), max(top, min(bottom, height)))


def _pixels_between(low: float, high: float) -> tuple[int, int]:
    """The first pixel whose centre lies between two coordinates, and the one after the last."""
    return math.ceil(low - 0.5), math.floor(high - 0.5) + 1


def stroke_work(stroke: Stroke, width: int, height: int) -> int:
    """How many pixels are looked at to paint a stroke: those around each of its pieces, as far as the picture goes.

    Example:
        >>> stroke_work(Stroke("1", "frame-a", [[5.0, 5.0], [6.0, 5.0]], radius=2, hardness=1), width=100, height=100)
        36
    """
    if is_dabbed(stroke):
        return dab_work(stroke, stroke_area(stroke, width, height), width, height)
    points = np.asarray(stroke.points, np.float64)
    ends = np.concatenate([points[1:], points[-1:]])
    low = np.clip(np.minimum(points, ends) - stroke.radius, 0, (width, height))
    high = np.clip(np.maximum(points, ends) + stroke.radius, 0, (width, height))
    return int((high - low).prod(axis=1).sum())


def stroke_weight(stroke: Stroke, area: Area) -> NDArray[np.float64]:
    """How much of the source each pixel of an area takes by a plain stroke, (rows, columns), 0..1.

    1 up to ``radius * hardness`` from the line through the points, 0 from ``radius`` on, and between them the smooth
    step 1 - 3t² + 2t³.
    """
    left, top, right, bottom = area
    squared = np.full((bottom - top, right - left), np.inf)
    points = np.asarray(stroke.points, np.float64)
    starts, ends = points, np.concatenate([points[1:], points[-1:]])
    reach = stroke.radius
    for start, end in zip(starts, ends, strict=True):
        low, high = np.minimum(start, end) - reach, np.maximum(start, end) + reach
        (x0, x1), (y0, y1) = _pixels_between(low[0], high[0]), _pixels_between(low[1], high[1])
        x0, x1, y0, y1 = max(left, x0), min(right, x1), max(top, y0), min(bottom, y1)
        if x0 >= x1 or y0 >= y1:
            continue
        part = squared[y0 - top : y1 - top, x0 - left : x1 - left]
        xs, ys = np.arange(x0, x1)[None, :] + 0.5 - start[0], np.arange(y0, y1)[:, None] + 0.5 - start[1]
        np.minimum(part, _squared_distance(xs, ys, end - start), out=part)
    return fall_off(np.sqrt(squared), stroke.radius, stroke.hardness)


def _squared_distance(
    xs: NDArray[np.float64], ys: NDArray[np.float64], along: NDArray[np.float64]
) -> NDArray[np.float64]:
    length = float(along @ along)
    nearest = np.clip((xs * along[0] + ys * along[1]) / length, 0, 1) if length > 0 else np.zeros(1)
    return np.asarray((xs - nearest * along[0]) ** 2 + (ys - nearest * along[1]) ** 2, np.float64)


def paint(painted: Samples, stroke: Stroke, source: Samples, area: Area, guide: ReadGuide | None = None) -> None:
    """Paint the part of a stroke that lies in an area.

    Args:
        painted: ``(H, W)`` or ``(H, W, 3)``, uint16 or float32; changed in place, only inside the area.
        stroke: What to paint.
        source: The layer that the stroke takes from, as ``painted``.
        area: Where.
        guide: The smoothed tiles of the source; needed only where the stroke has a tolerance.
    """
    height, width = painted.shape[:2]
    mask = DabMask(stroke, width, height, guide) if is_dabbed(stroke) else None
    for block_area in blocks_of(area):
        left, top, right, bottom = block_area
        weight = mask.weight(block_area) if mask else stroke_weight(stroke, block_area)
        touched = weight > 0
        if not touched.any():
            continue
        block = painted[top:bottom, left:right]
        # In float64 neither the source at weight 1 nor the result at weight 0 changes by a bit.
        old, new = block[touched].astype(np.float64), source[top:bottom, left:right][touched].astype(np.float64)
        if stroke.gain != 1 or stroke.tint:
            tint = np.array(stroke.tint) if stroke.tint and new.shape[1:] == (3,) else 1.0
            new = np.minimum(new * stroke.gain * tint, 65535 if painted.dtype == np.uint16 else 1)
        weight = stroke.opacity * weight[touched]
        if stroke.mode != "replace":
            weight = np.where(_is_taken(old, new, stroke.mode), weight, 0)
        share = weight if block.ndim == 2 else weight[:, None]
        mixed = np.where(share == 1, new, old + share * (new - old))
        block[touched] = (np.rint(mixed) if painted.dtype == np.uint16 else mixed).astype(painted.dtype)


def _is_taken(old: Plane, new: Plane, mode: str) -> NDArray[np.bool_]:
    """Which pixels of the source are lighter or darker than what is there: by their grey, as colours stay whole."""
    old, new = (_grey(values) for values in (old, new))
    return np.asarray(new > old if mode == "lighten" else new < old)


def _grey(values: Plane) -> Plane:
    if values.ndim == 1:
        return values
    return np.asarray(values @ GREY if values.shape[1] == GREY.size else values.mean(axis=1))


def replay(
    painted: Samples,
    original: Samples,
    strokes: Sequence[Stroke],
    open_source: OpenSource,
    area: Area,
    open_guide: OpenGuide,
) -> None:
    """Make an area what it is after exactly these strokes, whatever it was before."""
    height, width = painted.shape[:2]
    left, top, right, bottom = area
    for x0, y0, x1, y1 in blocks_of(area):
        painted[y0:y1, x0:x1] = original[y0:y1, x0:x1]
    for stroke in strokes:
        x0, y0, x1, y1 = stroke_area(stroke, width, height)
        common = (max(left, x0), max(top, y0), min(right, x1), min(bottom, y1))
        if common[0] < common[2] and common[1] < common[3]:
            guide = open_guide(stroke.source) if stroke.tolerance is not None else None
            paint(painted, stroke, open_source(stroke.source), common, guide)
