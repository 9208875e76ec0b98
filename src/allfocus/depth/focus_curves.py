"""How sharp each place is in each frame: the energy of fine detail in two bands, and where that detail is its own.

A band is the difference of two Gaussians. Its energy, summed over the colours and a small window, is largest where the
frame is in focus and falls to both sides of that; these are the curves that :mod:`.peak_fitting` finds the top of.
"""

from dataclasses import dataclass, replace
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float32]

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
VOTE_WINDOW = 1.5
"""Standard deviation in pixels of the window in which the sharpest of all frames is sought."""
REACH = 2
"""Frames on each side of the sharpest that a curve is known for."""
NOISE_KERNEL = np.outer((1, -2, 1), (1, -2, 1)).astype(np.float32) / 6
"""Shows what changes from pixel to pixel along both axes, which blur leaves nothing of; noise of variance 1 has energy
1 in it (Immerkaer, "Fast noise variance estimation", 1996)."""
NOISE_WINDOW = 4.0
"""Standard deviation in pixels of the window over which that energy is summed."""


@cache
def noise_energy(band: float, blur: float = 0.0) -> float:
    """Returns what a band measures on white noise of variance 1, for one colour.

    Args:
        band: One of :data:`BANDS`.
        blur: Standard deviation in pixels of a Gaussian that the noise has been blurred with.

    Example:
        >>> round(noise_energy(0.6), 3), round(noise_energy(0.6, 2.0), 5)
        (0.078, 0.00013)
    """
    point = np.zeros((65, 65), np.float32)
    point[32, 32] = 1
    return float(np.square(_detail(_smooth(point, blur) if blur else point, band)).sum())


def band_energy(frame: Map, band: float) -> Map:
    """Returns the energy of a band (H, W) of a frame (H, W) or (H, W, 3), summed over its colours."""
    energy = np.square(_detail(frame, band))
    return energy if energy.ndim == 2 else np.asarray(energy.sum(axis=2), np.float32)


def summed_energy(energy: Map, window: float) -> Map:
    """Returns the energy (H, W) around each pixel."""
    return _smooth(energy, window)


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
    """(bands, 2 * REACH + 1, H, W), around the peak; NaN beyond the stack."""
    floors: NDArray[np.float32]
    """(bands, H, W), the energy of noise, which has been taken off; 0 as long as it is not known."""
    own: NDArray[np.bool_]
    """(H, W), where there is detail that lies at the pixel itself."""
    sharpest: NDArray[np.int16]
    """(H, W), the frame of all, whatever was decided, that has most of the finest detail."""
    finest: Map
    """(H, W), the energy of the finest band at the pixel itself in its sharpest frame."""
    noise: Map
    """(H, W), the variance of noise, as the calmest frame of each place has it."""
    frames: int
    """How many there are."""

    def without_noise(self, variance: Map, *, colours: int) -> "FocusCurves":
        """The same without the energy of noise; detail that could be noise is nobody's own.

        Args:
            variance: (H, W), of the noise.
            colours: How many values a pixel has.
        """
        floors = np.stack([np.float32(colours * noise_energy(band)) * variance for band in BANDS])
        energies = np.maximum(self.energies - floors[:, None], np.float32(0.1) * floors[:, None])
        own = self.own & (self.finest > np.float32(ABOVE_NOISE) * floors[0])
        return replace(self, energies=energies, floors=floors, own=own)


class CurveGathering:
    """Takes in frames one by one and keeps what is around the guide; memory does not grow with their number.

    Args:
        guide: (H, W), the frame that is sharpest, give or take one; -1 where nobody knows.
        frames: How many frames there are.
    """

    def __init__(self, guide: NDArray[np.integer], *, frames: int) -> None:
        self._known = guide >= 0
        self._guide = np.clip(guide, 0, None).astype(np.int16)
        self._frames = frames
        size = guide.shape
        self._reach = REACH + 1
        self._kept = np.full((len(BANDS), 2 * self._reach + 1, *size), np.nan, np.float32)
        self._own = np.zeros((3, *size), np.float32)
        self._most = np.zeros(size, np.float32)
        self._most_around = np.full(size, -1, np.float32)
        self._sharpest = np.zeros(size, np.int16)
        self._calmest = np.full(size, np.inf, np.float32)

    def add(self, index: int, frame: Map) -> None:
        """Takes in the frame with this index, (H, W) or (H, W, 3)."""
        offset = index - self._guide
        wanted = np.abs(offset) <= self._reach
        np.minimum(self._calmest, _noise_variance(frame), out=self._calmest)
        for number, (band, window) in enumerate(zip(BANDS, WINDOWS, strict=True)):
            energy = band_energy(frame, band)
            if number == 0:
                own = _smooth(energy, OWN_WINDOW)
                np.maximum(self._most, own, out=self._most)
                self._vote(index, _smooth(energy, VOTE_WINDOW))
                for place in (-1, 0, 1):
                    there = offset == place
                    self._own[place + 1][there] = own[there]
            if wanted.any():
                rows, columns = np.nonzero(wanted)
                summed = summed_energy(energy, window)
                self._kept[number, offset[wanted] + self._reach, rows, columns] = summed[wanted]

    def _vote(self, index: int, energy: Map) -> None:
        more = energy > self._most_around
        self._most_around[more] = energy[more]
        self._sharpest[more] = index

    def finish(self) -> FocusCurves:
        """Returns the curves, once every frame has been taken in."""
        # The guide may be off by one; the band that tells most is the finest.
        middle = self._kept[0, self._reach - 1 : self._reach + 2]
        best = np.argmax(np.where(np.isnan(middle), -1, middle), axis=0)
        places = best[None] + np.arange(2 * REACH + 1)[:, None, None]
        energies = np.stack([np.take_along_axis(kept, places, axis=0) for kept in self._kept])
        finest = np.max(self._own, axis=0)
        around = cv2.dilate(self._most, np.ones((OWN_REACH, OWN_REACH), np.uint8))
        return FocusCurves(
            np.asarray(self._guide + best - 1, np.int16),
            energies,
            np.zeros((len(BANDS), *finest.shape), np.float32),
            self._known & (finest > np.float32(OWN_SHARE) * around),
            self._sharpest,
            finest,
            self._calmest,
            self._frames,
        )


def _noise_variance(frame: Map) -> Map:
    """Returns the variance of what changes from pixel to pixel around each place, the mean of all colours."""
    energy = np.square(cv2.filter2D(frame, cv2.CV_32F, NOISE_KERNEL, borderType=cv2.BORDER_REFLECT))
    return _smooth(energy if energy.ndim == 2 else np.asarray(energy.mean(axis=2), np.float32), NOISE_WINDOW)
