"""How far out of focus a place is in a frame: by how much the fused picture must be blurred to have as little detail.

Where a curve has its top at an end of the stack, frames lie on one side of it only, and its shape must be known to find
it. Blurring what is sharp tells that shape for the texture at hand. The variance of the blur grows with the square of
the distance from focus; by how much from one frame to the next is taken from curves that have both sides.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.depth.focus_curves import BANDS, REACH, WINDOWS, FocusCurves, band_energy, noise_energy, summed_energy
from allfocus.fusion.windows import Area

Map = NDArray[np.float32]

BLURS = (0.0, 0.4, 0.6, 0.9, 1.3, 1.9, 2.8)
"""Standard deviations in pixels by which the picture is blurred."""
FEWEST = 400
"""Pixels that must tell how blur grows."""


class BlurScale:
    """The blur of each frame at each place, relative to the fused picture.

    Args:
        picture: The fused picture, (H, W) or (H, W, 3).
        variance: (H, W), of its noise.
    """

    def __init__(self, picture: Map, variance: Map) -> None:
        colours = 1 if picture.ndim == 2 else picture.shape[2]
        levels = np.empty((len(BANDS), len(BLURS), *variance.shape), np.float32)
        for place, deviation in enumerate(BLURS):
            blurred = _blur(picture, deviation)
            for number, (band, window) in enumerate(zip(BANDS, WINDOWS, strict=True)):
                noise = np.float32(colours * noise_energy(band, deviation)) * variance
                energy = summed_energy(band_energy(blurred, band), window)
                levels[number, place] = np.log(np.maximum(energy - noise, np.float32(0.1) * noise + np.float32(1e-12)))
        # Falls from level to level, if only a little, so that it can be read backwards.
        falls = np.float32(1e-4) * np.arange(len(BLURS), dtype=np.float32)[:, None, None]
        self._levels = np.minimum.accumulate(levels, axis=1) - falls

    def read(self, energy: Map, band: int) -> tuple[Map, Map]:
        """Returns the variance of the blur (H, W) at which a band has this energy, and its change with the logarithm.

        Below 0 where there is more detail than in the picture; NaN where there is less than in its most blurred copy.
        """
        wanted = np.log(np.maximum(energy, np.float32(1e-12)))
        variance, change = (np.full(energy.shape, np.nan, np.float32) for _ in range(2))
        levels, squares = self._levels[band], np.square(np.asarray(BLURS, np.float32))
        for place in range(len(BLURS) - 1):
            above, below = levels[place], levels[place + 1]
            there = (wanted > below) & ((wanted <= above) | (place == 0))
            slope = (squares[place + 1] - squares[place]) / (below - above)
            variance = np.where(there, squares[place] + slope * (wanted - above), variance)
            change = np.where(there, slope, change)
        return variance, change


def _blur(picture: Map, deviation: float) -> Map:
    if deviation == 0:
        return picture
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), deviation, borderType=cv2.BORDER_REFLECT), np.float32)


def gather_growth(curves: FocusCurves, blur: BlurScale, alone: NDArray[np.bool_], area: Area) -> NDArray[np.float32]:
    """Returns how blur grows at places whose curve has both sides, (bands, places): variance by squared steps.

    Args:
        curves: Of a tile and what is around it.
        blur: Of the same.
        alone: (H, W), where a surface has no other beside it whose blur could lie over it.
        area: Rows and columns of the tile.
    """
    found = []
    told = curves.own & alone & (curves.peak > 0) & (curves.peak < curves.frames - 1)
    inside = np.zeros_like(told)
    inside[area] = told[area]
    for band in range(len(BANDS)):
        before, here, after = (blur.read(curves.energies[band, REACH + place], band)[0] for place in (-1, 0, 1))
        found.append(((before + after) / 2 - here)[inside])
    return np.stack(found)


def choose_growth(samples: NDArray[np.float32]) -> tuple[float, ...]:
    """Returns how blur grows in a stack, for each band, from what :func:`gather_growth` found; NaN where too few tell.

    Example:
        >>> choose_growth(np.repeat(np.array([[2, 3, 2], [4, 4, np.nan]], np.float32), 500, axis=1))
        (2.0, 4.0)
    """
    told = [own[np.isfinite(own)] for own in samples]
    return tuple(float(np.median(own)) if own.size >= FEWEST else float("nan") for own in told)
