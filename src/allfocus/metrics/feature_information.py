"""FMI: the information that small windows of the fused picture share with the same windows of the sources.

M. Haghighat, M. A. Razian, "Fast-FMI: non-reference image fusion metric", AICT 2014. Each 3x3 window is read as a
distribution over its nine places; the joint distribution of two windows is estimated from their correlation.

The script's default feature is a thinned Sobel edge picture, which differs between the programs that run it; here the
features are those that do not: the horizontal gradient (default) and the pixels themselves.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple

Feature = Literal["gradient", "none"]
"""What the windows hold: horizontal central differences, or the grey levels."""

_CHUNK = 8192
"""Windows worked on at a time; each needs 81 numbers in several arrays."""

_PLACES = np.arange(1.0, 10.0)


def feature_mutual_information(fused: Picture, sources: Sequence[Picture], *, feature: Feature = "gradient") -> float:
    """Return FMI, 0..1: the mean shared information of the 3x3 windows and of the sources; higher is better.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1; at least 3x3 pixels.
        sources: two or more pictures of the same size.
        feature: see :data:`Feature`.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(64, dtype=np.uint8).reshape(8, 8)
        >>> feature_mutual_information(ramp, [ramp, ramp])
        1.0
    """
    fused_levels, source_levels = grey_triple(fused, sources, metric="FMI", smallest=3)
    target = _windows(fused_levels, feature)
    scores = []
    for source in source_levels:
        windows = _windows(source, feature)
        total = 0.0
        for start in range(0, len(target), _CHUNK):
            total += float(_shared(windows[start : start + _CHUNK], target[start : start + _CHUNK]).sum())
        scores.append(total / len(target))
    return sum(scores) / len(scores)


def _windows(levels: Plane, feature: Feature) -> Plane:
    """Return every 3x3 window as one row of nine, column by column, (windows, 9)."""
    plane = np.gradient(levels, axis=1) if feature == "gradient" else levels
    return sliding_window_view(plane, (3, 3)).swapaxes(2, 3).reshape(-1, 9)


def _shared(source: Plane, fused: Plane) -> Plane:
    """Return per window twice the mutual information over the sum of the entropies, (windows,)."""
    score = np.ones(len(source))
    differs = np.any(source != fused, axis=1)
    source, fused = source[differs], fused[differs]
    of_source, of_fused = _distribution(source), _distribution(fused)
    correlation = _correlation(source, fused)
    extreme = _extreme_cumulative(of_source, of_fused, correlation >= 0)
    strength = _coupling(correlation, of_source, of_fused, extreme)
    joint = strength[:, None, None] * np.diff(np.diff(extreme, axis=1, prepend=0.0), axis=2, prepend=0.0)
    joint += (1 - strength)[:, None, None] * (of_fused[:, :, None] * of_source[:, None, :])
    separate = _entropy(of_source) + _entropy(of_fused)
    shared = 2 * (separate - _entropy(joint.reshape(len(joint), 81)))
    # Uncoupled windows share exactly nothing; the difference of their entropies would be rounding noise.
    coupled = strength != 0
    score[differs] = np.divide(shared, separate, out=np.zeros_like(shared), where=coupled & (separate > 0))
    return score


def _distribution(windows: Plane) -> Plane:
    lowest = windows.min(axis=1, keepdims=True)
    reach = windows.max(axis=1, keepdims=True) - lowest
    scaled = np.divide(windows - lowest, reach, out=np.ones_like(windows), where=reach > 0)
    distribution: Plane = scaled / scaled.sum(axis=1, keepdims=True)
    return distribution


def _correlation(source: Plane, fused: Plane) -> Plane:
    """Return per window the Pearson correlation, 0 where one is constant."""
    # Of the raw features, which is the same as that of the distributions; sums of halves are exact, so zero is zero.
    covariance = 9 * np.sum(source * fused, axis=1) - source.sum(axis=1) * fused.sum(axis=1)
    spread = np.sqrt(9 * np.sum(source**2, axis=1) - source.sum(axis=1) ** 2)
    spread *= np.sqrt(9 * np.sum(fused**2, axis=1) - fused.sum(axis=1) ** 2)
    correlation: Plane = np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 0)
    return correlation


def _coupling(correlation: Plane, of_source: Plane, of_fused: Plane, extreme: Plane) -> Plane:
    """Return per window how far the joint distribution goes from independence (0) to the extreme one (1)."""
    independent = of_fused.cumsum(axis=1)[:, :, None] * of_source.cumsum(axis=1)[:, None, :]
    reach = np.sum(extreme - independent, axis=(1, 2))
    deviations = _place_deviation(of_source) * _place_deviation(of_fused)
    usable = (correlation != 0) & (deviations > 0) & (reach != 0)
    strength: Plane = np.divide(correlation * deviations, reach, out=np.zeros_like(reach), where=usable)
    return strength


def _place_deviation(distribution: Plane) -> Plane:
    variance = distribution @ _PLACES**2 - (distribution @ _PLACES) ** 2
    deviation: Plane = np.sqrt(np.maximum(variance, 0.0))
    return deviation


def _extreme_cumulative(of_source: Plane, of_fused: Plane, together: NDArray[np.bool_]) -> Plane:
    """Return the largest (where together) or smallest possible joint cumulative distribution, (windows, 9, 9)."""
    source, fused = of_source.cumsum(axis=1)[:, None, :], of_fused.cumsum(axis=1)[:, :, None]
    largest, smallest = np.minimum(fused, source), np.maximum(fused + source - 1.0, 0.0)
    cumulative: Plane = np.where(together[:, None, None], largest, smallest)
    return cumulative


def _entropy(distribution: Plane) -> Plane:
    """Return the entropy of each row in bits; negative cells, which the estimate can have, count with their size."""
    size = np.abs(distribution)
    logarithm = np.log2(size, out=np.zeros_like(size), where=size > 0)
    entropy: Plane = -np.sum(distribution * logarithm, axis=1)
    return entropy
