"""Strokes that are laid down dab by dab: flow, the pressure of a pen, and a brush that stays within one thing.

A plain stroke depends on the distance to its line alone. Here discs ("dabs") stand along the line, a quarter of their
radius apart, and each raises the mask towards its own shape: by ``flow`` of what is missing, so that going over a place
again takes more of the source, and never beyond what the pressure allows. With a tolerance a dab counts only where the
source has about the colour that it has under the middle of the dab.

The mask is made on that level of the picture where the brush has a radius of at most 64 pixels, and is read between its
pixels from there: the cost of a dab has a limit, and noise does not tear the mask of a large brush. ``static/dabs.js``
does the same in the page, operation by operation, on the same tiles; a test holds both together.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from allfocus.web.job_records import TILE_SIDE
from allfocus.web.layers import Area, level_count
from allfocus.web.stroke import Stroke

MASK_RADIUS = 64
"""Pixels of the mask's level that a brush may reach at most, while there are coarser levels."""
SPACING, CLOSEST = 0.25, 0.5
"""Between two dabs: this part of the radius, and no fewer pixels."""
SMALLEST = 0.1
"""What a pen without pressure leaves of the radius."""
DAB_WORK, PIXEL_WORK, AREA_WORK = 10_000, 10, 5
"""Pixels of a plain stroke that take as long as one dab, one pixel of a dab, and one pixel around the whole stroke."""

ReadGuide = Callable[[int, int, int], NDArray[np.uint8]]
"""Gives the smoothed tile of a source by level, column and row, as :func:`allfocus.web.layers.guide_tile`."""


def is_dabbed(stroke: Stroke) -> bool:
    """Whether a stroke needs more than the distance to its line."""
    return stroke.flow < 1 or stroke.tolerance is not None or stroke.pen != "none"


def mask_level(radius: float, width: int, height: int) -> int:
    """The level of a picture on which the mask of a brush is made.

    Example:
        >>> [mask_level(radius, 6000, 4000) for radius in (3, 64, 65, 300, 4000)]
        [0, 0, 1, 3, 5]
    """
    level, last = 0, level_count(width, height) - 1
    while radius > MASK_RADIUS * 2**level and level < last:
        level += 1
    return level


def margin_of(stroke: Stroke, width: int, height: int) -> int:
    """How many pixels the mask of a stroke reaches beyond its radius, from reading it between pixels."""
    level = mask_level(stroke.radius, width, height) if is_dabbed(stroke) else 0
    return 2**level if level else 0


def most_dabs(stroke: Stroke) -> int:
    """No fewer than the dabs of a stroke, without placing them: what a stranger sends could have billions."""
    return _dabs_along(stroke, SMALLEST if stroke.pen in ("size", "both") else 1)


def _dabs_along(stroke: Stroke, share: float) -> int:
    """How many dabs a line has room for when all have this share of the radius."""
    points = np.asarray(stroke.points, np.float64)
    length = float(np.sqrt((np.diff(points, axis=0) ** 2).sum(axis=1)).sum())
    return 1 + math.ceil(length / max(stroke.radius * share * SPACING, CLOSEST))


def dab_work(stroke: Stroke, area: Area, width: int, height: int) -> int:
    """How long a stroke takes to paint into its area, in pixels of a plain one."""
    side = 2 * stroke.radius / 2 ** mask_level(stroke.radius, width, height) + 1
    # Smaller dabs stand closer, but all of them together have fewer pixels than large ones.
    inside = _dabs_along(stroke, 1) * min(side, max(width, height)) ** 2
    around = (area[2] - area[0]) * (area[3] - area[1])
    return int(DAB_WORK * most_dabs(stroke) + PIXEL_WORK * inside + AREA_WORK * around)


def place_dabs(stroke: Stroke) -> NDArray[np.float64]:
    """The dabs of a stroke in their order, (count, 4): x, y, radius, and how much each may take at most.

    Example:
        >>> place_dabs(Stroke("1", "frame-a", [[0.0, 0.0], [3.0, 0.0]], radius=4, hardness=1, flow=0.5))[:, 0]
        array([0., 1., 2., 3.])
    """
    dabs: list[tuple[float, float, float, float]] = []
    pressures = stroke.pressures or [1.0] * len(stroke.points)
    for_size, for_opacity = stroke.pen in ("size", "both"), stroke.pen in ("opacity", "both")

    def place(x: float, y: float, pressure: float) -> float:
        radius = stroke.radius * (SMALLEST + (1 - SMALLEST) * pressure) if for_size else stroke.radius
        dabs.append((x, y, radius, pressure if for_opacity else 1.0))
        return max(radius * SPACING, CLOSEST)

    (before_x, before_y), before = stroke.points[0], pressures[0]
    left = place(before_x, before_y, before)
    for (x, y), pressure in zip(stroke.points[1:], pressures[1:], strict=True):
        across, down = x - before_x, y - before_y
        length = math.sqrt(across * across + down * down)
        gone = 0.0
        while left <= length - gone:
            gone += left
            share = gone / length
            left = place(before_x + share * across, before_y + share * down, before + share * (pressure - before))
        left -= length - gone
        before_x, before_y, before = x, y, pressure
    return np.array(dabs, np.float64)


def fall_off(distance: NDArray[np.float64], radius: float, hardness: float) -> NDArray[np.float64]:
    """1 up to ``radius * hardness``, 0 from ``radius`` on, and between them the smooth step 1 - 3t² + 2t³."""
    core = radius * hardness
    if core >= radius:
        return np.asarray(distance <= radius, np.float64)
    t = np.clip((distance - core) / (radius - core), 0, 1)
    return np.asarray(1 - t * t * (3 - 2 * t), np.float64)


class DabMask:
    """The mask of a dabbed stroke.

    Args:
        stroke: A stroke with flow, tolerance or the pressure of a pen.
        width: Of the picture.
        height: Of the picture.
        guide: The tiles of the source; needed only where the stroke has a tolerance.
    """

    def __init__(self, stroke: Stroke, width: int, height: int, guide: ReadGuide | None = None) -> None:
        self.level = mask_level(stroke.radius, width, height)
        self._stroke, self._size = stroke, (width, height)
        self._dabs = place_dabs(stroke) / np.array([2**self.level, 2**self.level, 2**self.level, 1])
        self._colours = None if stroke.tolerance is None else _Colours(guide, self.level)

    def on_level(self, region: Area) -> NDArray[np.float64]:
        """The mask within a region of its level, (rows, columns), 0..1."""
        left, top, right, bottom = region
        mask = np.zeros((bottom - top, right - left))
        middle, reach = self._dabs[:, :2], self._dabs[:, 2:3]
        meets = ((middle + reach > (left, top)) & (middle - reach < (right, bottom))).all(axis=1)
        colours = self._colours.cut(region) if self._colours is not None and meets.any() else None
        for x, y, radius, most in self._dabs[meets].tolist():
            x0, x1 = max(left, math.ceil(x - radius - 0.5)), min(right, math.floor(x + radius - 0.5) + 1)
            y0, y1 = max(top, math.ceil(y - radius - 0.5)), min(bottom, math.floor(y + radius - 0.5) + 1)
            if x0 >= x1 or y0 >= y1:
                continue
            xs, ys = np.arange(x0, x1)[None, :] + 0.5 - x, np.arange(y0, y1)[:, None] + 0.5 - y
            wanted = most * fall_off(np.sqrt(xs * xs + ys * ys), radius, self._stroke.hardness)
            if self._colours is not None and colours is not None and self._stroke.tolerance is not None:
                part = colours[y0 - top : y1 - top, x0 - left : x1 - left]
                wanted *= _likeness(part, self._colours.at(x, y), self._stroke.tolerance)
            share = mask[y0 - top : y1 - top, x0 - left : x1 - left]
            share += self._stroke.flow * np.maximum(wanted - share, 0)
        return mask

    def weight(self, area: Area) -> NDArray[np.float64]:
        """How much of the source each pixel of an area of the picture takes: the mask, read between its pixels."""
        left, top, right, bottom = area
        if self.level == 0:
            return self.on_level(area)
        columns = _between(left, right, self.level, self._size[0])
        rows = _between(top, bottom, self.level, self._size[1])
        region = (int(columns[0][0]), int(rows[0][0]), int(columns[1][-1]) + 1, int(rows[1][-1]) + 1)
        mask = self.on_level(region)
        if not mask.any():
            return np.zeros((bottom - top, right - left))
        first, second, share = rows[0] - region[1], rows[1] - region[1], rows[2][:, None]
        mask = mask[first] * (1 - share) + mask[second] * share
        first, second, share = columns[0] - region[0], columns[1] - region[0], columns[2][None, :]
        return np.asarray(mask[:, first] * (1 - share) + mask[:, second] * share)


def _likeness(colours: NDArray[np.uint8], middle: NDArray[np.uint8], tolerance: float) -> NDArray[np.float64]:
    """1 up to half the tolerance from the colour in the middle, 0 from the tolerance on, smooth between them."""
    apart = colours.astype(np.int64) - middle
    distance = np.sqrt((apart * apart).sum(axis=2) / apart.shape[2]) / 255
    return fall_off(distance, tolerance, 0.5)


class _Colours:
    """The smoothed source on one level, put together from its tiles."""

    def __init__(self, read: ReadGuide | None, level: int) -> None:
        if read is None:
            raise ValueError("a stroke with a tolerance needs the tiles of its source")
        self._read = lru_cache(maxsize=16)(lambda column, row: _with_channels(read(level, column, row)))

    def cut(self, region: Area) -> NDArray[np.uint8]:
        left, top, right, bottom = region
        rows = range(top // TILE_SIDE, (bottom - 1) // TILE_SIDE + 1)
        columns = range(left // TILE_SIDE, (right - 1) // TILE_SIDE + 1)
        whole = np.concatenate([np.concatenate([self._read(column, row) for column in columns], 1) for row in rows])
        y, x = top - rows.start * TILE_SIDE, left - columns.start * TILE_SIDE
        return whole[y : y + bottom - top, x : x + right - left]

    def at(self, x: float, y: float) -> NDArray[np.uint8]:
        """The colour of the pixel under a point, or of the one at the edge that is nearest to it."""
        column, row = max(0, math.floor(x)), max(0, math.floor(y))
        while (tile := self._read(column // TILE_SIDE, row // TILE_SIDE)).size == 0:
            column -= TILE_SIDE if tile.shape[1] == 0 else 0
            row -= TILE_SIDE if tile.shape[0] == 0 else 0
        height, width = tile.shape[:2]
        return np.asarray(tile[min(row % TILE_SIDE, height - 1), min(column % TILE_SIDE, width - 1)])


def _with_channels(tile: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return tile[:, :, None] if tile.ndim == 2 else tile


def _between(
    start: int, stop: int, level: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The two pixels of a level between which the centre of each pixel lies, and how near it is to the second."""
    last = -(-size // 2**level) - 1
    place = (np.arange(start, stop) + 0.5) / 2**level - 0.5
    first = np.floor(place).astype(np.int64)
    return np.clip(first, 0, last), np.clip(first + 1, 0, last), place - first
