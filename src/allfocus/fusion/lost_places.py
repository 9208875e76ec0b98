"""The places of a picture in which most detail is lost, as boxes to look at."""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float32]

MOST_PLACES = 8
LARGEST_PLACE = 256
"""Pixels a side of a place at most, at full scale."""


@dataclass(frozen=True)
class LostPlace:
    """One place of the picture in which detail is lost."""

    left: int
    top: int
    width: int
    height: int
    """Its box in pixels of the fused picture."""
    frame: int
    """The frame that shows most of it, counted from 0."""
    lost: float
    """How much of the detail is missing: 0.5 half of it, 1 all."""

    def window(self, size: tuple[int, int], *, side: int) -> tuple[slice, slice]:
        """Rows and columns of a window around the place, at least ``side`` pixels a side as far as the picture is.

        Args:
            size: Height and width of the fused picture.
            side: In pixels.

        Example:
            >>> LostPlace(10, 90, 20, 10, frame=0, lost=0.8).window((100, 200), side=40)
            (slice(60, 100, None), slice(0, 40, None))
        """
        spans = []
        for first, length, whole in ((self.top, self.height, size[0]), (self.left, self.width, size[1])):
            wanted = min(whole, max(side, length))
            start = min(max(0, first + length // 2 - wanted // 2), whole - wanted)
            spans.append(slice(start, start + wanted))
        return spans[0], spans[1]


def find_places(
    loss: Map, strength: Map, which: NDArray[np.int16], cell: int, size: tuple[int, int]
) -> tuple[LostPlace, ...]:
    """The windows in which most is missing, each cut to the cells in which something is; none overlap."""
    side = max(1, min(LARGEST_PLACE, max(32, min(size) // 4)) // cell)
    left = strength.copy()
    taken = np.zeros(left.shape, bool)
    places: list[LostPlace] = []
    while len(places) < MOST_PLACES and left.any():
        held = cv2.boxFilter(left, -1, (side, side), normalize=False, borderType=cv2.BORDER_CONSTANT)
        row, column = np.unravel_index(int(held.argmax()), held.shape)
        top, start = max(0, int(row) - side // 2), max(0, int(column) - side // 2)
        window = (slice(top, top + side), slice(start, start + side))
        weights = left[window].copy()
        if not weights.any():  # rounding of the sums
            break
        left[window] = 0
        rows, columns = np.flatnonzero(weights.any(axis=1)), np.flatnonzero(weights.any(axis=0))
        box = (slice(top + rows[0], top + rows[-1] + 1), slice(start + columns[0], start + columns[-1] + 1))
        if taken[box].any():
            continue
        taken[box] = True
        places.append(_describe_place(box, weights, loss[window], which[window], cell, size))
    return tuple(places)


def _describe_place(
    box: tuple[slice, slice],
    weights: Map,
    loss: Map,
    which: NDArray[np.int16],
    cell: int,
    size: tuple[int, int],
) -> LostPlace:
    found = weights > 0
    frame = int(np.bincount(which[found], weights=weights[found]).argmax())
    top, left = box[0].start * cell, box[1].start * cell
    bottom, right = min(size[0], box[0].stop * cell), min(size[1], box[1].stop * cell)
    lost = float(np.average(loss[found], weights=weights[found]))
    return LostPlace(int(left), int(top), int(right - left), int(bottom - top), frame, round(lost, 3))
