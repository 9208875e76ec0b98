"""Large pictures and long stacks in pieces: overlapping windows, and which frames matter in each.

The windows are part of the method, not of the memory of a machine: the same stack always gives the same windows.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.images.tiling import FrameSpool

CORE = 512
"""Side of a window without its overlap, in pixels of the scale at which it is decided."""
OVERLAP = 48
"""Pixels by which a window reaches beyond its core on each side, at the same scale."""
MOST_FRAMES = 10
"""Frames that the network sees in one window; in longer stacks the sharpest are chosen for each window."""
BLOCK = 32
"""Side in pixels of the blocks in which the sharpness of frames is compared."""


@dataclass(frozen=True)
class Window:
    """A part of the picture with its overlap, and the core inside that is its own; rows and columns as for slices."""

    top: int
    bottom: int
    left: int
    right: int
    core_top: int
    core_bottom: int
    core_left: int
    core_right: int

    @property
    def area(self) -> tuple[slice, slice]:
        """Rows and columns of the window."""
        return slice(self.top, self.bottom), slice(self.left, self.right)


def cut_windows(height: int, width: int, scale: int) -> list[Window]:
    """Returns windows of one size whose cores cover a picture without gap or overlap, row by row.

    One size, because the network's memory is reused only for inputs of the same size.

    Example:
        >>> [window.area for window in cut_windows(100, 700, 1)]
        [(slice(0, 100, None), slice(0, 608, None)), (slice(0, 100, None), slice(92, 700, None))]
    """
    rows, columns = _cut(height, scale), _cut(width, scale)
    return [
        Window(top, bottom, left, right, core_top, core_bottom, core_left, core_right)
        for top, bottom, core_top, core_bottom in rows
        for left, right, core_left, core_right in columns
    ]


def _cut(length: int, scale: int) -> list[tuple[int, int, int, int]]:
    """Returns first, last, first of the core and last of the core of evenly placed pieces; limits are even numbers."""
    size = min(length, (CORE + 2 * OVERLAP) * scale)
    count = 1 + max(0, -(-(length - size) // (CORE * scale)))
    starts = [2 * ((length - size) * k // max(1, count - 1) // 2) for k in range(count)]
    # The last piece ends with the picture, though its start may then be odd.
    starts[-1] = length - size
    borders = [0, *((start + before + size) // 2 for before, start in itertools.pairwise(starts)), length]
    cores = itertools.pairwise(borders)
    return [(start, start + size, first, last) for start, (first, last) in zip(starts, cores, strict=True)]


def fade(window: Window, height: int, width: int) -> NDArray[np.float32]:
    """Returns the weight (H, W) of a window's result: 1 in its core, falling towards those edges that have a neighbour.

    Neighbours overlap by twice the reach; the ramps of two neighbours add up to about 1, and are divided by their sum.
    """
    rows = _ramp(window.top, window.bottom, window.core_top, window.core_bottom, height)
    columns = _ramp(window.left, window.right, window.core_left, window.core_right, width)
    return np.asarray(rows[:, None] * columns[None, :], np.float32)


def _ramp(first: int, last: int, core_first: int, core_last: int, length: int) -> NDArray[np.float32]:
    position = np.arange(first, last) + 0.5
    # The outermost quarter of the overlap is left out: there the network saw least of the surroundings.
    rise, fall = np.ones_like(position), np.ones_like(position)
    if first > 0:
        reach = max(1, core_first - first) * 0.75
        rise = np.clip((position - (core_first - reach)) / (2 * reach), 0, 1)
    if last < length:
        reach = max(1, last - core_last) * 0.75
        fall = np.clip(((core_last + reach) - position) / (2 * reach), 0, 1)
    return np.asarray(np.minimum(rise, fall) + 1e-6, np.float32)


def rank_sharpness(stack: Sequence[NDArray[np.float32]] | FrameSpool) -> NDArray[np.float32]:
    """Returns the sharpness of each frame in blocks: (frames, rows of blocks, columns of blocks)."""
    if isinstance(stack, FrameSpool):
        return np.stack(stack.measures)
    return np.stack([block_sharpness(frame) for frame in stack])


def block_sharpness(frame: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the mean squared Laplacian of each block, of brightness smoothed a little against noise."""
    brightness = frame if frame.ndim == 2 else frame.mean(axis=2)
    smooth = cv2.GaussianBlur(brightness, (0, 0), 1.0)
    energy = np.square(cv2.Laplacian(smooth, cv2.CV_32F, ksize=3))
    size = (max(1, -(-frame.shape[1] // BLOCK)), max(1, -(-frame.shape[0] // BLOCK)))
    return np.asarray(cv2.resize(energy, size, interpolation=cv2.INTER_AREA), np.float32)


def choose_frames(sharpness: NDArray[np.float32] | None, window: Window, count: int) -> list[int]:
    """Returns the frames that the network sees in a window: all of a short stack, else the sharpest, in stack order.

    A frame counts for a block as far as it comes near the sharpest frame of that block.
    """
    if sharpness is None:
        return list(range(count))
    rows = slice(window.top // BLOCK, -(-window.bottom // BLOCK))
    columns = slice(window.left // BLOCK, -(-window.right // BLOCK))
    part = sharpness[:, rows, columns]
    relative = part / (part.max(axis=0, keepdims=True) + 1e-12)
    score = (relative**4).sum(axis=(1, 2))
    best = np.argsort(-score, kind="stable")[:MOST_FRAMES]
    return sorted(int(index) for index in best)
