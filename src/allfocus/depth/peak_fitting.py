"""The top of a focus curve between its samples.

Around its top the energy of detail falls like ``A / (1 + ((k - z) / w) ** 2) ** p``: like a parabola near it and like a
power of the blur far from it. Then ``energy ** (-1 / p)`` is a parabola of the frame number k, whatever A and w are,
and three frames give its lowest place z in closed form. A Gaussian (p without bound), which is the usual choice, draws
tops towards whole frames. p depends on how far apart the frames are focused and on the texture, so it is taken from the
stack itself: with the right one, the three frames around the top and the three beside it agree.

At the ends of a stack frames lie on one side of the top. There the blur of the frame beside the last tells how far away
the top is (:mod:`.reblurring`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allfocus.depth.focus_curves import BANDS, REACH, FocusCurves
from allfocus.depth.reblurring import BlurScale

Map = NDArray[np.float32]

EXPONENTS = tuple(float(value) for value in np.geomspace(0.5, 4.0, 19))
"""Values of p to choose from."""
USUAL_EXPONENT = 1.5
"""Of a stack that has too little detail between its ends to tell."""
INNER = 0.75
"""Share of that p with which tops between frames are found. Lenses are sharp over a whole range about their focus, so
curves are blunter at the top than beside it. (Of 1, 0.85, 0.75, 0.65.)"""
FEWEST = 400
"""Pixels that must tell p."""
FARTHEST = 1.2
"""Steps from the sharpest frame within which the top of a curve must be found."""


class PeakFit(NamedTuple):
    """Where the tops are."""

    position: Map
    """(H, W), in frames from the first, beyond the ends too; NaN where there is none."""
    spread: Map
    """(H, W), how much farther the finer band has it than the other, in steps; 0 where only one has it."""
    noise: Map
    """(H, W), standard deviation in steps that the noise of the frames alone gives."""


def find_top(three: NDArray[np.float32], exponent: float) -> NDArray[np.float32]:
    """Returns where the curve through three energies (3, ...) at -1, 0 and 1 has its top; NaN where it has none.

    Example:
        >>> place = np.array([-1.3, -0.3, 0.7], np.float32)
        >>> round(float(find_top(1 / (1 + (place / 0.8) ** 2) ** 1.5, 1.5)), 4)
        0.3
    """
    # Divided by the largest, so that powers neither overflow nor vanish.
    before, here, after = (three / three.max(axis=0)) ** np.float32(-1 / exponent)
    curvature = before + after - 2 * here
    with np.errstate(invalid="ignore", divide="ignore"):
        top = (before - after) / (2 * curvature)
    return np.where(curvature > 0, top, np.float32(np.nan))


def choose_exponent(energies: NDArray[np.float32]) -> float:
    """Returns the p with which neighbouring triples of the curves (2 * REACH + 1, pixels) agree best.

    Example:
        >>> place = np.arange(-2, 3)[:, None] - np.linspace(-0.5, 0.5, 1000)
        >>> energies = (1 / (1 + (place / 0.9) ** 2) ** 2).astype(np.float32)
        >>> round(choose_exponent(energies), 1)
        2.0
    """
    whole = energies[:, np.isfinite(energies).all(axis=0)]
    if whole.shape[1] < FEWEST:
        return USUAL_EXPONENT

    def disagreement(exponent: float) -> float:
        middle = find_top(whole[REACH - 1 : REACH + 2], exponent)
        before = find_top(whole[REACH - 2 : REACH + 1], exponent) - 1
        after = find_top(whole[REACH : REACH + 3], exponent) + 1
        # Where a curve flattens out, the triple beside its top has none: as far off as can be.
        off = [np.where(np.isnan(own), 2.0, own - middle) for own in (after, middle * 2 - before)]
        return abs(float(np.nanmedian(off[0])) + float(np.nanmedian(off[1])))

    return min(EXPONENTS, key=disagreement)


def fit_peaks(
    curves: FocusCurves, exponents: tuple[float, ...], blur: BlurScale | None = None, growth: tuple[float, ...] = ()
) -> PeakFit:
    """Returns the tops of all curves, from all bands, each by how little noise moves it.

    Args:
        curves: Around the sharpest frame of each pixel, without noise.
        exponents: p of each band, from :func:`choose_exponent`.
        blur: Of the fused picture, for tops at the ends of the stack.
        growth: By how much its variance grows with squared steps, for each band.
    """
    last = curves.frames - 1
    # Without blur, the top of a curve at an end of the stack is sought from the frames inside.
    inward = np.clip(curves.peak, 1, max(1, last - 1)) - curves.peak
    found, variances = [], []
    for number in range(len(BANDS)):
        places = inward[None] + np.arange(REACH - 1, REACH + 2)[:, None, None]
        three = np.take_along_axis(curves.energies[number], places, axis=0)
        inside, outside = (find_top(three, share * exponents[number]) for share in (INNER, 1.0))
        top = np.where(inward == 0, inside, outside) + inward
        variance = _noise_variance(three, exponents[number], curves.floors[number])
        if blur is not None and last >= 2 and growth[number] > 0:
            for towards in (1, -1):
                there = inward == towards
                if there.any():
                    at_end, its_variance = _top_at_end(curves, blur, number, towards, growth[number])
                    top, variance = np.where(there, at_end, top), np.where(there, its_variance, variance)
        found.append(np.where(np.abs(top) <= FARTHEST, top, np.float32(np.nan)))
        variances.append(variance)
    tops, weights = np.stack(found), 1 / (np.stack(variances) + np.float32(1e-3))
    there = np.isfinite(tops)
    weights = np.where(there, weights, 0)
    total = weights.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, tops * weights, 0).sum(axis=0) / total
    spread = np.where(there.all(axis=0), tops[0] - tops[1], 0)
    noise = np.sqrt(1 / np.maximum(total, np.float32(1e-6)))
    return PeakFit(*(np.asarray(own, np.float32) for own in (curves.peak + mean, spread, noise)))


def _top_at_end(curves: FocusCurves, blur: BlurScale, band: int, towards: int, growth: float) -> tuple[Map, Map]:
    """Returns the top beside the frame at an end, in steps, by the frame beside it; and the variance of that by noise.

    A top x steps beyond the end is 1 + x steps from the frame beside it: their variances differ by growth * (1 + 2 x).

    Args:
        curves: All of them.
        blur: Of the fused picture.
        band: Which band.
        towards: 1 at the first frame, where the frame beside it is the next; -1 at the last.
        growth: Of the variance of blur, by squared steps.
    """
    energies, floor = curves.energies[band], curves.floors[band]
    (here, here_change), (beside, beside_change) = (blur.read(energies[REACH + place], band) for place in (0, towards))
    beyond = ((beside - here) / np.float32(growth) - 1) / 2
    by_noise = sum(
        np.square(change) * _relative_variance(energies[REACH + place], floor)
        for change, place in ((here_change, 0), (beside_change, towards))
    )
    variance = by_noise / np.float32(4 * growth**2)
    return np.asarray(-towards * beyond, np.float32), np.asarray(variance, np.float32)


def _relative_variance(energy: NDArray[np.float32], floor: Map) -> NDArray[np.float32]:
    """Returns the variance of the logarithm of an energy.

    Energy e with noise of energy f in a window of some ten independent values varies by about f * (4 e + 2 f) / 10.
    """
    return np.asarray(floor * (4 * energy + 2 * floor) / (10 * np.square(energy)), np.float32)


def _noise_variance(three: NDArray[np.float32], exponent: float, floor: Map) -> NDArray[np.float32]:
    """Returns the variance of a top in steps, from how much noise moves each of the energies."""
    scaled = three / three.max(axis=0)
    powers = scaled ** np.float32(-1 / exponent)
    before, here, after = powers
    curvature = np.maximum(before + after - 2 * here, np.float32(1e-3))
    relative = _relative_variance(three, floor)
    change = powers / np.float32(exponent)
    skew = (before - after) / curvature
    by_each = ((1 - skew) / (2 * curvature), skew / curvature, (-1 - skew) / (2 * curvature))
    parts = zip(by_each, change, relative, strict=True)
    # A curve that is no top at all may vary by more than there are numbers for: then it tells nothing.
    with np.errstate(over="ignore"):
        return np.asarray(sum(np.square(slope * own) * vary for slope, own, vary in parts), np.float32)
