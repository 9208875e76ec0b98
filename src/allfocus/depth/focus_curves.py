"""How sharp each place is in each frame: the energy of fine detail in two bands, and where that detail is its own.

A band is the difference of two Gaussians. Its energy, summed over the colours and a small window, is largest where the
frame is in focus and falls to both sides of that; these are the curves that :mod:`.peak_fitting` finds the top of.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float32]
Stack = NDArray[np.float32]

BANDS = (0.6, 1.2)
"""Standard deviations in pixels of the narrower Gaussian of each band."""
RATIO = 1.6
"""How much wider the other Gaussian of a band is."""
WINDOWS = (2.4, 3.0)
"""Standard deviations in pixels of the window over which the energy of each band is summed for a curve."""
OWN_WINDOW = 0.5
"""The same of the window that tells whether detail lies at a pixel and not beside it."""
OWN_REACH = 9
"""Pixels a side of the square in which detail may leak from one pixel to another when it is blurred."""
OWN_SHARE = 0.1
"""A pixel has detail of its own if its energy is this share of the largest in that square, at the least; what blur
spreads over its surroundings is weaker."""
ABOVE_NOISE = 4.0
"""And this many times the energy of noise alone."""
REACH = 2
"""Frames on each side of the sharpest that a curve is known for."""


def noise_energy(band: float) -> float:
    """Returns what a band measures on white noise of variance 1, for one colour.

    Example:
        >>> round(noise_energy(0.6), 3)
        0.078
    """
    point = np.zeros((65, 65), np.float32)
    point[32, 32] = 1
    return float(np.square(_detail(point, band)).sum())


def band_energy(frame: Map, band: float) -> Map:
    """Returns the energy of a band (H, W) of a frame (H, W) or (H, W, 3), summed over its colours."""
    energy = np.square(_detail(frame, band))
    return energy if energy.ndim == 2 else np.asarray(energy.sum(axis=2), np.float32)


def _detail(frame: Map, band: float) -> Map:
    return np.asarray(_smooth(frame, band) - _smooth(frame, RATIO * band), np.float32)


def _smooth(values: Map, deviation: float) -> Map:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), deviation, borderType=cv2.BORDER_REFLECT), np.float32)


@dataclass(frozen=True)
class FocusCurves:
    """The energy of each band around the sharpest frame of each pixel."""

    peak: NDArray[np.int16]
    """(H, W), the sharpest frame: that of the guide, or one of its neighbours."""
    energies: NDArray[np.float32]
    """(bands, 2 * REACH + 1, H, W), around the peak, without the energy of noise; NaN beyond the stack."""
    floors: tuple[float, ...]
    """For each band the energy of noise."""
    own: NDArray[np.bool_]
    """(H, W), where there is detail that lies at the pixel itself."""
    frames: int
    """How many there are."""


class CurveGathering:
    """Takes in frames one by one and keeps what is around the guide; memory does not grow with their number.

    Args:
        guide: (H, W), the frame that is sharpest, give or take one.
        frames: How many frames there are.
        noise: Standard deviation of the noise of the frames.
        colours: How many values a pixel has.
    """

    def __init__(self, guide: NDArray[np.integer], *, frames: int, noise: float, colours: int) -> None:
        self._guide = guide.astype(np.int16)
        self._frames = frames
        self._floors = tuple(colours * noise**2 * noise_energy(band) for band in BANDS)
        size = guide.shape
        self._reach = REACH + 1
        self._kept = np.full((len(BANDS), 2 * self._reach + 1, *size), np.nan, np.float32)
        self._own = np.zeros((3, *size), np.float32)
        self._sharpest = np.zeros(size, np.float32)

    def add(self, index: int, frame: Map) -> None:
        """Takes in the frame with this index, (H, W) or (H, W, 3)."""
        offset = index - self._guide
        wanted = np.abs(offset) <= self._reach
        for number, (band, window) in enumerate(zip(BANDS, WINDOWS, strict=True)):
            energy = band_energy(frame, band)
            if number == 0:
                own = _smooth(energy, OWN_WINDOW)
                np.maximum(self._sharpest, own, out=self._sharpest)
                for place in (-1, 0, 1):
                    there = offset == place
                    self._own[place + 1][there] = own[there]
            if wanted.any():
                rows, columns = np.nonzero(wanted)
                summed = _smooth(energy, window)
                self._kept[number, offset[wanted] + self._reach, rows, columns] = summed[wanted]

    def finish(self) -> FocusCurves:
        """Returns the curves, once every frame has been taken in."""
        # The guide may be off by one; the band that tells most is the finest.
        middle = self._kept[0, self._reach - 1 : self._reach + 2]
        best = np.argmax(np.where(np.isnan(middle), -1, middle), axis=0)
        places = best[None] + np.arange(2 * REACH + 1)[:, None, None]
        energies = np.stack([np.take_along_axis(kept, places, axis=0) for kept in self._kept])
        for energy, floor in zip(energies, self._floors, strict=True):
            np.maximum(energy - np.float32(floor), np.float32(0.1 * floor), out=energy)
        own = np.max(self._own, axis=0)
        around = cv2.dilate(self._sharpest, np.ones((OWN_REACH, OWN_REACH), np.uint8))
        least = np.float32(ABOVE_NOISE * self._floors[0])
        return FocusCurves(
            np.asarray(self._guide + best - 1, np.int16),
            energies,
            self._floors,
            (own > least) & (own > np.float32(OWN_SHARE) * around),
            self._frames,
        )
