"""Large pictures and long stacks in pieces: overlapping windows, and which frames matter in each.

The windows are part of the method, not of the memory of a machine: a stack always gives the same windows, however many
of them are at work at once and on how many machines. All coordinates here are in pixels of the scale at which focus is
decided.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.blending import SETTLING_LEVELS

CORE = 224
"""Side of the part of a window that is its own."""
OVERLAP = 24
"""Pixels that the network sees beyond the core on each side."""
RAMP = 10
"""Pixels on each side of a border of cores over which the results of two windows fade into each other."""
MOST_FRAMES = 12
"""Frames that the network sees in one window at the most: a steep surface needs that many, where steps are small."""
WORTHWHILE = 0.01
"""A further frame is looked at in a window if it makes more than this share of its textured blocks sharper."""
BLOCK = 16
"""Side of the blocks in which the sharpness of frames is compared."""
NOISE_ENERGY = 1.3 * (1.5 / 255) ** 2
"""What :func:`block_sharpness` measures on noise of 1.5 levels of 8 bits: its variance times the filter's squared
coefficients."""

Area = tuple[slice, slice]
"""Rows and columns."""


@dataclass(frozen=True)
class Piece:
    """A stretch of one side of the picture: what the network sees, what the result reaches, and what is its own."""

    first: int
    last: int
    reach_first: int
    reach_last: int
    core_first: int
    core_last: int


@dataclass(frozen=True)
class Window:
    """A part of the picture: a piece of its height times a piece of its width."""

    rows: Piece
    columns: Piece

    @property
    def area(self) -> Area:
        """What the network sees."""
        return slice(self.rows.first, self.rows.last), slice(self.columns.first, self.columns.last)

    @property
    def reach(self) -> Area:
        """Where the result of the window counts."""
        return (
            slice(self.rows.reach_first, self.rows.reach_last),
            slice(self.columns.reach_first, self.columns.reach_last),
        )


def cut_windows(height: int, width: int) -> list[Window]:
    """Returns windows of one size whose cores cover a picture without gap or overlap, row by row.

    One size, because the network's memory is reused only for inputs of the same size.

    Example:
        >>> [window.area for window in cut_windows(100, 350)]
        [(slice(0, 100, None), slice(0, 272, None)), (slice(0, 100, None), slice(78, 350, None))]
    """
    return [Window(rows, columns) for rows in _cut(height) for columns in _cut(width)]


def _cut(length: int) -> list[Piece]:
    size = min(length, CORE + 2 * OVERLAP)
    count = 1 + max(0, -(-(length - size) // CORE))
    starts = [(length - size) * k // max(1, count - 1) for k in range(count)]
    borders = [0, *((start + before + size) // 2 for before, start in itertools.pairwise(starts)), length]
    return [
        Piece(start, start + size, max(0, first - RAMP), min(length, last + RAMP), first, last)
        for start, (first, last) in zip(starts, itertools.pairwise(borders), strict=True)
    ]


def whole_window(height: int, width: int) -> Window:
    """Returns the window that is the whole picture."""
    return Window(Piece(0, height, 0, height, 0, height), Piece(0, width, 0, width, 0, width))


def fade(piece: Piece, length: int, scale: int) -> NDArray[np.float32]:
    """Returns the weight of a piece's result along its reach, at full scale: 1 inside, falling beside neighbours.

    Two neighbours share a border of cores, and their weights add up to 1 at every pixel.

    Args:
        piece: A stretch of the side.
        length: The whole side at full scale.
        scale: How many pixels at full scale one of the piece's is.
    """
    first, last = piece.reach_first * scale, min(piece.reach_last * scale, length)
    position = (np.arange(first, last) + 0.5) / scale
    weight = np.ones(last - first)
    if piece.core_first > 0:
        weight = np.minimum(weight, np.clip(0.5 + (position - piece.core_first) / (2 * RAMP), 0, 1))
    if piece.core_last * scale < length:
        weight = np.minimum(weight, np.clip(0.5 - (position - piece.core_last) / (2 * RAMP), 0, 1))
    return weight.astype(np.float32)


def block_sharpness(reduced: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the mean squared Laplacian of each block, of brightness smoothed a little against noise.

    Args:
        reduced: a frame (H, W[, 3]) at the scale at which focus is decided.
    """
    brightness = reduced if reduced.ndim == 2 else cv2.cvtColor(reduced, cv2.COLOR_RGB2GRAY)
    smooth = cv2.GaussianBlur(brightness, (0, 0), 1.0)
    energy = cv2.Laplacian(smooth, cv2.CV_32F, ksize=3)
    np.square(energy, out=energy)
    height, width = energy.shape
    padded = cv2.copyMakeBorder(energy, 0, -height % BLOCK, 0, -width % BLOCK, cv2.BORDER_REPLICATE)
    size = (padded.shape[1] // BLOCK, padded.shape[0] // BLOCK)
    return np.asarray(cv2.resize(padded, size, interpolation=cv2.INTER_AREA), np.float32)


def choose_frames(sharpness: NDArray[np.float32], window: Window, expected: Sequence[int] | None = None) -> list[int]:
    """Returns the frames that the network sees in a window, in stack order: 2 to MOST_FRAMES of them.

    First those that are `expected` to win somewhere in it, then one after the other the frame that adds most to what
    is sharp already: a frame counts for a block as far as it comes near the sharpest frame of that block, and frames
    that only repeat others add nothing. It ends when the next frame would not be worthwhile.

    Args:
        sharpness: (frames, rows of blocks, columns of blocks), from :func:`block_sharpness`.
        window: Where.
        expected: Frames that matter for another reason, most important first.
    """
    count = len(sharpness)
    if count <= 2:
        return list(range(count))
    rows, columns = (slice(side.start // BLOCK, -(-side.stop // BLOCK)) for side in window.area)
    part = sharpness[:, rows, columns].reshape(count, -1)
    highest, lowest = part.max(axis=0, keepdims=True), part.min(axis=0, keepdims=True)
    # Blocks in which the frames differ by no more than noise cannot ask for a frame.
    texture = np.square((highest - lowest) / (highest + NOISE_ENERGY))
    nearness = texture * np.square(part / (highest + 1e-12))
    worthwhile = WORTHWHILE * max(float(texture.sum()), 0.5 * texture.size)
    best = list(expected or [])[:MOST_FRAMES]
    covered = nearness[best].max(axis=0) if best else np.zeros(nearness.shape[1], np.float32)
    while len(best) < min(count, MOST_FRAMES):
        gained = np.maximum(nearness - covered, 0).sum(axis=1)
        gained[best] = -1
        following = int(np.argmax(gained))
        if len(best) >= 2 and gained[following] <= worthwhile:
            break
        best.append(following)
        covered = np.maximum(covered, nearness[following])
    return sorted(best)


def crop_under(context: NDArray[Any], window: Window, height: int, width: int) -> NDArray[Any]:
    """Returns the part of a reduced map (h, w) under a window of the picture (height, width)."""
    rows, columns = (
        slice(
            int(side.start * small / length),
            max(int(side.start * small / length) + 1, round(side.stop * small / length)),
        )
        for side, small, length in zip(window.area, context.shape, (height, width), strict=True)
    )
    return context[rows, columns]


def average_under(
    context: NDArray[np.float32], windows: Sequence[Window], height: int, width: int
) -> NDArray[np.float32]:
    """Returns what reduced maps say under each window, in as few pixels as settling has at its coarsest.

    Args:
        context: (frames, h, w), maps of the whole picture.
        windows: Windows of one size.
        height: Of the picture in which the windows lie.
        width: Of the same.

    Returns:
        (windows, frames, rows, columns): means over equal parts of each window.
    """
    rows, columns = mean_matrices(windows, context.shape[1:], (height, width))
    # Frame by frame: in one product of all frames, rounding would depend on the place of a frame in the stack.
    each = [np.einsum("rph,hw,cqw->rcpq", rows, own, columns, optimize=True) for own in context]
    under = np.stack(each, axis=2)
    return np.asarray(under.reshape(len(windows), len(context), *under.shape[3:]), np.float32)


def mean_matrices(
    windows: Sequence[Window], reduced: tuple[int, ...], size: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the matrices that average a reduced map (h, w) over equal parts of each window, along rows and columns.

    Args:
        windows: All windows of a picture of this size.
        reduced: Height and width of the map.
        size: Of the picture in which the windows lie.

    Returns:
        (rows of windows, parts, h) and (columns of windows, parts, w).
    """
    pieces = list(dict.fromkeys(window.rows for window in windows)), list(dict.fromkeys(w.columns for w in windows))
    rows, columns = (
        np.stack([_mean_matrix(piece, small / length, small) for piece in own])
        for own, small, length in zip(pieces, reduced, size, strict=True)
    )
    return rows, columns


def _mean_matrix(piece: Piece, factor: float, length: int) -> NDArray[np.float32]:
    """Returns the matrix (parts, length) that takes means over equal parts of a piece of a side reduced by a factor."""
    parts = -(-(piece.last - piece.first) // 2**SETTLING_LEVELS)
    borders = np.linspace(piece.first, piece.last, parts + 1) * factor
    pixels = np.arange(length)
    covered = np.minimum(borders[1:, None], pixels + 1) - np.maximum(borders[:-1, None], pixels)
    covered = np.maximum(covered, 0)
    return np.asarray(covered / covered.sum(axis=1, keepdims=True), np.float32)
