"""Pictures that show what happened to a stack: frames reduced band by band, decisions and depth in colours, close-ups.

Everything here reads a frame in bands of rows, so that memory stays small beside the fused picture itself.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.depth import colour_depth
from allfocus.images.conversion import from_integers
from allfocus.images.spool import FrameSpool, SpooledFrame
from allfocus.pages.pictures import Pixels, Window, in_colour

ReportFrame = NDArray[Any] | SpooledFrame
"""A picture (H, W, 3) or (H, W): float in 0..1, uint8 or uint16; or one on disk."""
ReportedStack = Sequence[NDArray[np.float32]] | FrameSpool

BAND = 256
"""Rows that are held at a time, about; a multiple of what they are reduced by."""

DARK = 0.2
"""Pictures whose brightest parts stay below this are shown brighter."""
MIXTURE = 0.55
"""Grey for pixels that came from no single frame."""


def shrink_frame(frame: ReportFrame, largest_side: int) -> Pixels:
    """The frame (H, W, 3) in colour with no side above a limit; the mean of the pixels that each new one stands for.

    Example:
        >>> shrink_frame(np.zeros((300, 800), np.uint8), 200).shape
        (75, 200, 3)
    """
    return _reduce(frame, None, largest_side)


def reduce_difference(fused: ReportFrame, frame: ReportFrame, largest_side: int) -> NDArray[np.float32]:
    """|fused - frame| (H, W), the mean over channels and over the pixels that each new one stands for.

    The difference is taken at full size: of reduced pictures hardly any would be left.
    """
    return _reduce(fused, frame, largest_side)


def _reduce(first: ReportFrame, second: ReportFrame | None, largest_side: int) -> Pixels:
    height, width = first.shape[:2]
    factor = max(1, max(height, width) // largest_side)
    size = (max(1, round(width / factor)), max(1, round(height / factor)))
    parts = []
    for rows in _bands(height, factor):
        band = _part(first, rows)
        if second is not None:
            band = np.abs(in_colour(band) - in_colour(_part(second, rows))).mean(axis=2, dtype=np.float32)
        parts.append(band if factor == 1 else _resize(band, (size[0], max(1, len(band) // factor))))
    whole = np.concatenate(parts)
    scale = min(1.0, largest_side / max(whole.shape[:2]))
    final = (max(1, round(width * scale / factor)), max(1, round(height * scale / factor)))
    if whole.shape[1::-1] != final:
        whole = _resize(whole, final)
    return whole if second is not None else in_colour(whole)


def _resize(picture: Pixels, size: tuple[int, int]) -> Pixels:
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.float32)


def _bands(height: int, factor: int) -> Iterator[slice]:
    """Rows in bands of a multiple of ``factor``; the last takes the rest."""
    step = max(1, BAND // factor) * factor
    starts = list(range(0, max(1, height - factor + 1), step))
    for place, start in enumerate(starts):
        yield slice(start, height if place == len(starts) - 1 else start + step)


def _part(frame: ReportFrame, rows: slice, columns: slice = slice(None)) -> Pixels:
    part = frame[rows, columns]
    return from_integers(part) if part.dtype.kind == "u" else np.asarray(np.clip(part, 0, 1), np.float32)


def read_window(frame: ReportFrame, window: Window) -> Pixels:
    """The pixels of a frame in a window, float32 in 0..1."""
    top, left, height, width = window
    return _part(frame, slice(top, top + height), slice(left, left + width))


def choose_gain(picture: Pixels) -> np.float32:
    """By how much a picture is made brighter to be looked at: 1 unless it is so dark that a screen would show black.

    Scientific cameras write 12 bits or less into files of 16 bits and leave the rest of the range empty.

    Example:
        >>> float(choose_gain(np.full((2, 2), 0.01, np.float32))), float(choose_gain(np.full((2, 2), 0.4, np.float32)))
        (90.0, 1.0)
    """
    brightest = float(np.percentile(picture, 99.8))
    return np.float32(1.0 if brightest >= DARK or brightest <= 0 else round(0.9 / brightest, 1))


def share_of_frames(decision: NDArray[np.integer[Any]], count: int) -> NDArray[np.float64]:
    """How much of the picture came from each frame (count,), adding up to 1 unless some pixels are mixtures.

    Example:
        >>> share_of_frames(np.array([[0, 1], [1, -1]]), 3).tolist()
        [0.25, 0.5, 0.0]
    """
    found = np.zeros(count, np.int64)
    for rows in _bands(decision.shape[0], 1):
        band = decision[rows]
        found += np.bincount(band[(band >= 0) & (band < count)], minlength=count)
    return np.asarray(found / decision.size, np.float64)


def frame_colours(count: int) -> Pixels:
    """A colour (count, 3) for each frame: that of its depth, so that decision map and depth map agree.

    Example:
        >>> frame_colours(5).shape
        (5, 3)
    """
    return np.asarray(colour_depth(np.linspace(0, 1, count, dtype=np.float32)[None])[0], np.float32)


def paint_decision(decision: NDArray[np.integer[Any]], count: int, largest_side: int) -> Pixels:
    """The decision map in the colours of the frames, mixtures grey; reduced without mixing frames."""
    small = take_pixels(decision, largest_side)
    palette = np.concatenate([frame_colours(count), np.full((1, 3), MIXTURE, np.float32)])
    return palette[np.where((small >= 0) & (small < count), small, count)]


def take_pixels(values: NDArray[Any], largest_side: int) -> NDArray[Any]:
    """A map (H, W) with no side above a limit, made of single pixels of it: no value is new."""
    height, width = values.shape[:2]
    scale = min(1.0, largest_side / max(height, width))
    rows = ((np.arange(max(1, round(height * scale))) + 0.5) / scale).astype(int).clip(0, height - 1)
    columns = ((np.arange(max(1, round(width * scale))) + 0.5) / scale).astype(int).clip(0, width - 1)
    return np.asarray(values[rows][:, columns])


def choose_windows(
    difference: NDArray[np.float32],
    decision: NDArray[np.integer[Any]] | None,
    size: tuple[int, int],
    *,
    side: int,
    count: int,
) -> list[Window]:
    """Windows in pixels of the full picture where decisions change most, and where it matters; none overlap.

    Args:
        difference: (h, w), how much the frames differ from the fused picture, reduced.
        decision: (H, W), full or reduced; None counts the difference alone.
        size: Height and width of the full picture.
        side: Of a window, in pixels of the full picture.
        count: How many at most.
    """
    height, width = size
    side = min(side, height, width)
    # Squared, because the choice also changes in plain areas, where all frames are nearly alike.
    interest = np.square(difference, dtype=np.float32)
    small_height, small_width = interest.shape
    if decision is not None:
        small = cv2.resize(decision.astype(np.float32), (small_width, small_height), interpolation=cv2.INTER_NEAREST)
        kernel = np.ones((3, 3), np.uint8)
        # How many frames apart the two sides of a boundary are: an outline against the background says most.
        interest = interest * (1e-3 + cv2.dilate(small, kernel) - cv2.erode(small, kernel))
    scale = small_height / height
    reach = max(1, round(side * scale))
    held = cv2.blur(interest, (reach, reach), borderType=cv2.BORDER_CONSTANT)
    found: list[Window] = []
    allowed = np.ones(held.shape, bool)
    while len(found) < count and allowed.any():
        row, column = np.unravel_index(int(np.where(allowed, held, -1.0).argmax()), held.shape)
        top = min(max(0, round((row + 0.5) / scale - side / 2)), height - side)
        left = min(max(0, round((column + 0.5) / scale - side / 2)), width - side)
        if all(abs(top - other[0]) >= side or abs(left - other[1]) >= side for other in found):
            found.append((top, left, side, side))
        clear = max(1, reach // 2)
        allowed[max(0, row - clear) : row + clear + 1, max(0, column - clear) : column + clear + 1] = False
    return found
