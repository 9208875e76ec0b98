"""Pixels of a sensor that shine in every frame: found by that, or in a dark frame, and filled from around them.

A hot pixel stands out from all pixels of its colour around it, at the same place in every frame. Detail of the scene
does not: it moves with the camera, or is blurred in some frame of a stack.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float32]

REACH = 2
"""Pixels to the next of the same colour below a Bayer filter, and beyond what demosaicing makes of a hot pixel."""
LEAST_EXCESS = 0.02
"""Of the range: by how much a pixel stands out at least."""
LARGEST_SHARE, BEYOND = 0.005, 2.0
"""Of all pixels so many may be hot; noise and detail end where the others do, and hot pixels begin at twice that."""
LEAST_STEADINESS = 0.4
"""Of what a pixel stands out by at most, what it does at least: a hot one shines alike in all frames."""

AROUND = tuple((row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if row or column)


def measure_excess(plane: Plane) -> Plane:
    """By how much each pixel of a plane (H, W) is above the brightest of the eight around it, ``REACH`` away.

    Example:
        >>> plane = np.zeros((9, 9), np.float32)
        >>> plane[4, 4] = 1
        >>> float(measure_excess(plane)[4, 4]), float(measure_excess(plane)[2, 4])
        (1.0, -1.0)
    """
    return np.asarray(plane - np.maximum.reduce(_shifted(plane, REACH)), np.float32)


class HotPixelFinder:
    """What stands out at the same place in all planes that it is shown."""

    def __init__(self) -> None:
        self._least: NDArray[np.float32] | None = None
        self._most: NDArray[np.float32] | None = None

    def add(self, planes: NDArray[np.float32]) -> None:
        """Looks at a picture (H, W) or (H, W, 3), linear or not, in 0..1."""
        layers = planes[..., None] if planes.ndim == 2 else planes
        excess = np.stack([measure_excess(layers[..., place]) for place in range(layers.shape[2])], axis=2)
        self._least = excess if self._least is None else np.minimum(self._least, excess)
        self._most = excess if self._most is None else np.maximum(self._most, excess)

    def find(self) -> NDArray[np.bool_]:
        """(H, W): where a pixel is hot, in any of its channels."""
        if self._least is None or self._most is None:
            raise ValueError("no picture was looked at")
        found = np.zeros(self._least.shape[:2], np.bool_)
        for place in range(self._least.shape[2]):
            least = self._least[..., place]
            steady = least >= LEAST_STEADINESS * self._most[..., place]
            found |= steady & (least > max(LEAST_EXCESS, BEYOND * float(np.quantile(least, 1 - LARGEST_SHARE))))
        return found


def fill_hot_pixels(plane: NDArray[np.float32], hot: NDArray[np.bool_], *, reach: int = REACH) -> NDArray[np.float32]:
    """The picture (H, W) or (H, W, 3) with the median of the eight pixels around, ``reach`` away, where it is hot."""
    rows, columns = np.nonzero(hot)
    if not len(rows):
        return plane
    height, width = hot.shape
    around = [
        plane[_inside(rows + reach * down, height), _inside(columns + reach * right, width)] for down, right in AROUND
    ]
    filled = plane.copy()
    filled[rows, columns] = np.median(np.stack(around), axis=0)
    return filled


def spread(hot: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The pixels that demosaicing has given a part of the light of hot ones: those, and the eight next to each."""
    return np.asarray(np.logical_or.reduce([hot, *_shifted(hot, 1)]), np.bool_)


def _shifted(plane: NDArray[np.generic], reach: int) -> Sequence[NDArray[np.generic]]:
    padded = np.pad(plane, reach, mode="reflect")
    height, width = plane.shape
    return [
        padded[reach * (1 + down) : reach * (1 + down) + height, reach * (1 + right) : reach * (1 + right) + width]
        for down, right in AROUND
    ]


def _inside(places: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """Places beyond a border, reflected at it."""
    reflected = np.where(places < 0, -places, places)
    return np.clip(np.where(reflected >= size, 2 * (size - 1) - reflected, reflected), 0, size - 1)
