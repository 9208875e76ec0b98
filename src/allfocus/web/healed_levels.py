"""A level of a layer with its spots healed, for those who read parts of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.finishing.finish import Spot
from allfocus.finishing.healing import heal_spots, spot_area
from allfocus.images.conversion import to_integers
from allfocus.web import layers


class HealedLevel:
    """Reads like an array that is cut by two slices; only spots that lie in what is read are healed.

    Args:
        folder: Of the layer.
        level: Which of its levels.
        spots: In pixels of the full size.
        white: What the reduced levels show as the brightest.
    """

    def __init__(self, folder: Path, level: int, spots: Sequence[Spot], *, white: float) -> None:
        self._samples = layers.open_level(folder, level)
        self._whole = layers.open_level(folder, 0) if level else self._samples
        self._level, self._spots, self._white = level, spots, white

    @property
    def shape(self) -> tuple[int, ...]:
        """As that of an array."""
        return self._samples.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """As that of an array."""
        return self._samples.dtype

    def __getitem__(self, part: tuple[slice, slice]) -> NDArray[Any]:
        found = np.array(self._samples[part])
        (top, _, _), (left, _, _) = (piece.indices(size) for piece, size in zip(part, self.shape, strict=False))
        for spot in self._spots:
            self._heal(found, spot, left, top)
        return found

    def _heal(self, found: NDArray[Any], spot: Spot, left: int, top: int) -> None:
        """Put the healed pixels of a spot into a part that begins at ``left`` and ``top``."""
        height, width = self._whole.shape[:2]
        scale = 2**self._level
        own = spot_area(spot, width, height)
        x0, y0 = max(left, own[0] // scale), max(top, own[1] // scale)
        x1 = min(left + found.shape[1], -(-own[2] // scale))
        y1 = min(top + found.shape[0], -(-own[3] // scale))
        if x0 >= x1 or y0 >= y1:
            return
        area = (x0 * scale, y0 * scale, min(width, x1 * scale), min(height, y1 * scale))
        healed = heal_spots(self._whole, self._spots, area)
        found[y0 - top : y1 - top, x0 - left : x1 - left] = self._reduced(healed)

    def _reduced(self, healed: NDArray[np.float32]) -> NDArray[Any]:
        if self._level == 0:
            return to_integers(healed, 32 if self._samples.dtype.kind == "f" else 16)
        pixels = layers.to_bytes(healed, self._white)
        for _ in range(self._level):
            pixels = layers.halve(pixels)
        return pixels
