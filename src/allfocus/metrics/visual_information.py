"""VIFF: the share of the visual information of the sources that gets through to the fused picture.

Y. Han, Y. Cai, Y. Cao, X. Xu, "A new image fusion performance metric based on visual information fidelity",
Information Fusion 14 (2), 2013.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple
from allfocus.metrics.local_windows import correlate_valid, gaussian_kernel

_NOISE = 0.005 * 255**2
"""Variance of the noise of the visual system."""

_TINY = 1e-10
"""Variances below this are taken as none."""

_SCALE_WEIGHTS = (1.0, 0.0, 0.15, 1.0)

_SMALLEST = 41
"""Least size for which the smallest of the four scales still has a window."""


@dataclass(frozen=True)
class _Channel:
    """What the model of one scale gives for one source, per pixel."""

    gain: Plane
    information_kept: Plane
    information_present: Plane


def visual_information_fidelity(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return VIFF, from 0, about 1 for a perfect result, above 1 where contrast was raised; higher is better.

    Per pixel and scale the source with the smaller gain counts. Four scales with weights 1, 0, 0.15 and 1.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1; at least 41x41 pixels.
        sources: two or more pictures of the same size.

    Raises:
        InputError: The pictures cannot be scored together, or are too small for four scales.

    Example:
        >>> import numpy as np
        >>> board = (np.indices((48, 48)).sum(axis=0) % 2 * 255).astype(np.uint8)
        >>> round(visual_information_fidelity(board, [board, board]), 6)
        1.0
    """
    target, planes = grey_triple(fused, sources, metric="VIFF", smallest=_SMALLEST)
    total = 0.0
    for scale, weight in enumerate(_SCALE_WEIGHTS, start=1):
        size = 2 ** (5 - scale) + 1
        kernel = gaussian_kernel(size, size / 5)
        if scale > 1:
            target = correlate_valid(target, kernel)[::2, ::2]
            planes = [correlate_valid(plane, kernel)[::2, ::2] for plane in planes]
        if weight > 0:
            total += weight * _fidelity(target, planes, kernel)
    return total / sum(_SCALE_WEIGHTS)


def _fidelity(target: Plane, planes: Sequence[Plane], kernel: Plane) -> float:
    chosen = _information(planes[0], target, kernel)
    for plane in planes[1:]:
        channel = _information(plane, target, kernel)
        # On a tie the later source counts, as in the definition.
        first = chosen.gain < channel.gain
        chosen = _Channel(
            np.where(first, chosen.gain, channel.gain),
            np.where(first, chosen.information_kept, channel.information_kept),
            np.where(first, chosen.information_present, channel.information_present),
        )
    return float(np.sum(chosen.information_kept + 1e-7) / np.sum(chosen.information_present + 1e-7))


def _information(source: Plane, target: Plane, kernel: Plane) -> _Channel:
    mean_source, mean_target = correlate_valid(source, kernel), correlate_valid(target, kernel)
    variance_source = np.maximum(correlate_valid(source**2, kernel) - mean_source**2, 0.0)
    variance_target = np.maximum(correlate_valid(target**2, kernel) - mean_target**2, 0.0)
    covariance = correlate_valid(source * target, kernel) - mean_source * mean_target
    gain = covariance / (variance_source + _TINY)
    noise = variance_target - gain * covariance
    # The order of these five exceptions is part of the definition.
    without_source = variance_source < _TINY
    gain[without_source] = 0.0
    noise[without_source] = variance_target[without_source]
    variance_source[without_source] = 0.0
    without_target = variance_target < _TINY
    gain[without_target] = 0.0
    noise[without_target] = 0.0
    inverted = gain < 0
    noise[inverted] = variance_target[inverted]
    gain[inverted] = 0.0
    noise[noise <= _TINY] = _TINY
    return _Channel(
        gain,
        np.log10(1 + gain**2 * variance_source / (noise + _NOISE)),
        np.log10(1 + variance_source / _NOISE),
    )
