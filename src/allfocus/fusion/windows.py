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

CORE = 448
"""Side of a window without its overlap, in pixels of the scale at which it is decided."""
OVERLAP = 48
"""Pixels by which a window reaches beyond its core on each side, at the same scale."""
MOST_FRAMES = 8
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

    @property
    def core(self) -> tuple[slice, slice]:
        """Rows and columns of the core, in the picture."""
        return slice(self.core_top, self.core_bottom), slice(self.core_left, self.core_right)

    @property
    def core_inside(self) -> tuple[slice, slice]:
        """Rows and columns of the core, in the window."""
        return (
            slice(self.core_top - self.top, self.core_bottom - self.top),
            slice(self.core_left - self.left, self.core_right - self.left),
        )


def cut_windows(height: int, width: int, scale: int) -> list[Window]:
    """Returns windows of one size whose cores cover a picture without gap or overlap, row by row.

    One size, because the network's memory is reused only for inputs of the same size.

    Example:
        >>> [window.area for window in cut_windows(100, 700, 1)]
        [(slice(0, 100, None), slice(0, 544, None)), (slice(0, 100, None), slice(156, 700, None))]
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
    """Returns the weight (H, W) of a window's result: 1 in the middle, falling to 0 around edges with a neighbour.

    The weights of all windows add up to nearly 1 at every pixel; :func:`fade_sums` gives what they add up to.
    """
    rows = _ramp(window.top, window.bottom, window.core_top, window.core_bottom, height)
    columns = _ramp(window.left, window.right, window.core_left, window.core_right, width)
    return np.asarray(rows[:, None] * columns[None, :], np.float32)


def fade_sums(windows: Sequence[Window], height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns per row and per column what the weights of all windows add up to; their product holds for a pixel."""
    rows, columns = np.zeros(height), np.zeros(width)
    for top, bottom, core_top, core_bottom in {(w.top, w.bottom, w.core_top, w.core_bottom) for w in windows}:
        rows[top:bottom] += _ramp(top, bottom, core_top, core_bottom, height)
    for left, right, core_left, core_right in {(w.left, w.right, w.core_left, w.core_right) for w in windows}:
        columns[left:right] += _ramp(left, right, core_left, core_right, width)
    return rows.astype(np.float32), columns.astype(np.float32)


def _ramp(first: int, last: int, core_first: int, core_last: int, length: int) -> NDArray[np.float64]:
    """Returns the weight along one side; two neighbours share a border of cores, and their ramps add up to 1 there."""
    position = np.arange(first, last) + 0.5
    weight = np.ones(last - first)
    # The outermost quarter of the overlap is left out: there the network saw least of the surroundings.
    if first > 0:
        weight = np.minimum(weight, np.clip(0.5 + (position - core_first) / (1.5 * (core_first - first)), 0, 1))
    if last < length:
        weight = np.minimum(weight, np.clip(0.5 - (position - core_last) / (1.5 * (last - core_last)), 0, 1))
    return weight


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

    One after the other the frame that adds most to what is sharp already: a frame counts for a block as far as it comes
    near the sharpest frame of that block, and frames that only repeat others add nothing.
    """
    if sharpness is None:
        return list(range(count))
    rows = slice(window.top // BLOCK, -(-window.bottom // BLOCK))
    columns = slice(window.left // BLOCK, -(-window.right // BLOCK))
    part = sharpness[:, rows, columns].reshape(count, -1)
    nearness = (part / (part.max(axis=0, keepdims=True) + 1e-12)) ** 2
    # A little for a frame's own sharpness, which decides once all blocks are covered.
    own = 0.001 * nearness.sum(axis=1)
    covered = np.zeros(nearness.shape[1], np.float32)
    best: list[int] = []
    for _ in range(MOST_FRAMES):
        gained = np.maximum(nearness, covered).sum(axis=1) + own
        gained[best] = -1
        best.append(int(np.argmax(gained)))
        covered = np.maximum(covered, nearness[best[-1]])
    return sorted(best)
