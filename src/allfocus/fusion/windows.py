"""A picture at several scales, and each of them in pieces.

Level 0 is the scale at which focus is decided, every further level half of it. A level is decided in windows: a core
that is a window's own, and around it as much as the network can see. What the network says of the core does not depend
on the window then, so windows may have any size; it follows from how many frames compete there, so that memory stays
bounded without leaving one out.
"""

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.images.spool import from_levels

Area = tuple[slice, slice]
"""Rows and columns."""

REFINER_MARGIN = 16
"""Pixels that the network sees beyond a core on each side where a level is refined by its detail alone."""
STEP = 16
"""Cores begin at multiples of this, so that the network's coarser grids lie the same in every window."""
BLOCK = 16
"""Side of the blocks in which the sharpness of frames is measured."""

STRIP = 16 * BLOCK
"""Rows of a frame whose sharpness is measured at once."""

NOISE_ENERGY = 1.3
"""What :func:`block_sharpness` measures on white noise of variance 1: the squared coefficients of its filter."""


def level_size(size: tuple[int, int], level: int) -> tuple[int, int]:
    """Returns height and width of a level of a picture of this size; odd sides are rounded up at each halving.

    Example:
        >>> level_size((101, 60), 2)
        (26, 15)
    """
    height, width = size
    for _ in range(level):
        height, width = -(-height // 2), -(-width // 2)
    return height, width


def coarsest_level(size: tuple[int, int], frames: int, *, most: int, longest: int) -> int:
    """Returns the level at which a stack is seen whole: no side too long, and not too many pixels.

    Args:
        size: Height and width of level 0.
        frames: How many there are.
        most: Pixels times frames that may be seen at once.
        longest: Pixels of the longer side that may be.

    Example:
        >>> coarsest_level((1500, 2000), 10, most=3_200_000, longest=1280)
        2
        >>> coarsest_level((300, 300), 100, most=3_200_000, longest=1280)
        1
    """
    level = 0
    while max(size) > longest or (frames * size[0] * size[1] > most and min(size) > 2 * STEP):
        size = level_size(size, 1)
        level += 1
    return level


def grow(core: Area, size: tuple[int, int], margin: int) -> Area:
    """Returns the core with its margin, as far as the picture goes, and beyond its end up to a whole step."""
    rows, columns = (
        slice(max(0, side.start - margin), min(-(-side.stop // STEP) * STEP + margin, -(-length // STEP) * STEP))
        for side, length in zip(core, size, strict=True)
    )
    return rows, columns


def whole_area(size: tuple[int, int]) -> Area:
    """Returns all rows and columns of a picture of this size."""
    return slice(0, size[0]), slice(0, size[1])


def clip_area(area: Area, size: tuple[int, int]) -> Area:
    """Returns the area as far as the picture goes."""
    rows, columns = (slice(side.start, min(side.stop, length)) for side, length in zip(area, size, strict=True))
    return rows, columns


def pad_to_steps(area: Area) -> Area:
    """Returns the area with its end moved on to a whole step."""
    rows, columns = (slice(side.start, -(-side.stop // STEP) * STEP) for side in area)
    return rows, columns


def on_steps(area: Area, size: tuple[int, int]) -> Area:
    """Returns the area grown to whole steps, as far as the picture goes."""
    rows, columns = (slice(side.start // STEP * STEP, -(-side.stop // STEP) * STEP) for side in area)
    return clip_area((rows, columns), size)


def widen(core: Area) -> Area:
    """Returns the core with two pixels more on each side, for interpolation and for what is judged by neighbours."""
    rows, columns = (slice(max(0, side.start - 2), side.stop + 2) for side in core)
    return rows, columns


def halve_area(area: Area) -> Area:
    """Returns the area of the level above that lies under an area, whose sides are even."""
    rows, columns = (slice(side.start // 2, side.stop // 2) for side in area)
    return rows, columns


def cut_cores(area: Area, side: int) -> Iterator[Area]:
    """Gives cores that cover an area without gap or overlap, row by row; they begin at multiples of their side.

    Example:
        >>> [core[1] for core in cut_cores((slice(0, 100), slice(500, 1100)), 512)]
        [slice(500, 512, None), slice(512, 1024, None), slice(1024, 1100, None)]
    """
    rows, columns = area
    for top in range(rows.start // side * side, rows.stop, side):
        for left in range(columns.start // side * side, columns.stop, side):
            yield (
                slice(max(top, rows.start), min(top + side, rows.stop)),
                slice(max(left, columns.start), min(left + side, columns.stop)),
            )


def split_core(core: Area, smallest: int) -> list[Area]:
    """Returns the two halves of a core, along its longer side, or the core itself if they would be too small.

    Example:
        >>> split_core((slice(0, 100), slice(0, 512)), 64)
        [(slice(0, 100, None), slice(0, 256, None)), (slice(0, 100, None), slice(256, 512, None))]
    """
    lengths = [side.stop - side.start for side in core]
    longer = int(lengths[1] > lengths[0])
    if lengths[longer] < 2 * smallest:
        return [core]
    middle = (core[longer].start + lengths[longer] // 2) // STEP * STEP
    halves = slice(core[longer].start, middle), slice(middle, core[longer].stop)
    return [(half, core[1]) if longer == 0 else (core[0], half) for half in halves]


def pixels_of(area: Area) -> int:
    """Returns how many pixels an area has."""
    rows, columns = area
    return int(rows.stop - rows.start) * int(columns.stop - columns.start)


def overlap(area: Area, other: Area) -> Area | None:
    """Returns what two areas share, or None."""
    rows, columns = (
        slice(max(own.start, side.start), min(own.stop, side.stop)) for own, side in zip(area, other, strict=True)
    )
    return (rows, columns) if rows.start < rows.stop and columns.start < columns.stop else None


def within(area: Area, outer: Area) -> Area:
    """Returns an area counted from the first row and column of another."""
    rows, columns = (
        slice(own.start - side.start, own.stop - side.start) for own, side in zip(area, outer, strict=True)
    )
    return rows, columns


def beyond(area: Area, outer: Area) -> Area:
    """Returns an area that is counted from the first row and column of another, counted as that one is.

    Example:
        >>> beyond((slice(1, 3), slice(0, 2)), (slice(10, 20), slice(30, 40)))
        (slice(11, 13, None), slice(30, 32, None))
    """
    rows, columns = (
        slice(own.start + side.start, own.stop + side.start) for own, side in zip(area, outer, strict=True)
    )
    return rows, columns


def block_sharpness(reduced: NDArray[Any]) -> NDArray[np.float32]:
    """Returns the mean squared Laplacian of each block, of brightness smoothed a little against noise.

    Args:
        reduced: a frame (H, W[, 3]) at the scale at which focus is decided, in 0..1 or as integers.
    """
    height, width = reduced.shape[:2]
    found = np.empty((-(-height // BLOCK), -(-width // BLOCK)), np.float32)
    # In strips, whose steps stay in the processor's cache; the filters reach five rows beyond them.
    for top in range(0, height, STRIP):
        above = min(top, BLOCK)
        part = from_levels(reduced[top - above : top + STRIP + BLOCK])
        brightness = part if part.ndim == 2 else cv2.cvtColor(part, cv2.COLOR_RGB2GRAY)
        energy = cv2.Laplacian(cv2.GaussianBlur(brightness, (0, 0), 1.0), cv2.CV_32F, ksize=3)
        energy = np.square(energy[above : above + STRIP])
        rows = -(-energy.shape[0] // BLOCK)
        padded = cv2.copyMakeBorder(energy, 0, rows * BLOCK - energy.shape[0], 0, -width % BLOCK, cv2.BORDER_REPLICATE)
        first = top // BLOCK
        found[first : first + rows] = cv2.resize(padded, (found.shape[1], rows), interpolation=cv2.INTER_AREA)
    return found
