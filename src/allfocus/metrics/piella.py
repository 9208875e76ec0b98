"""Q_S, Q_W, Q_E: local similarity of the fused picture with whichever source has the detail there.

G. Piella, H. Heijmans, "A new quality metric for image fusion", ICIP 2003. The local similarity is the universal image
quality index (8x8 box window, tiny constants). A second script in circulation uses the SSIM window and constants
instead and gives much higher values (0.94 against 0.87 on Lytro); it is here as ``window="gaussian"`` for comparison.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple
from allfocus.metrics.local_windows import LocalStatistics, edge_strength

Window = Literal["box", "gaussian"]
"""``box`` is the definition; ``gaussian`` the 11x11, sigma 1.5 window with the constants of SSIM."""


def structural_fusion_quality(fused: Picture, sources: Sequence[Picture], *, window: Window = "box") -> float:
    """Return Q_S, up to 1: the mean over all windows of the similarity to the sources; higher is better.

    Each source counts in a window by its share of the local variance.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: two or more pictures of the same size.
        window: see :data:`Window`.

    Raises:
        InputError: The pictures cannot be scored together, or are smaller than the window.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> structural_fusion_quality(ramp, [ramp, ramp])
        1.0
    """
    fused_levels, source_levels = grey_triple(fused, sources, metric="Q_S", smallest=_SMALLEST[window])
    quality, _ = _quality_and_saliency(fused_levels, source_levels, window)
    return float(quality.mean())


def weighted_fusion_quality(fused: Picture, sources: Sequence[Picture], *, window: Window = "box") -> float:
    """Return Q_W, up to 1: as Q_S, but windows with much detail in some source count more; higher is better.

    Arguments and errors as in :func:`structural_fusion_quality`.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> round(weighted_fusion_quality(ramp, [ramp, ramp]), 9)
        1.0
    """
    fused_levels, source_levels = grey_triple(fused, sources, metric="Q_W", smallest=_SMALLEST[window])
    return _weighted_quality(fused_levels, source_levels, window)


def edge_dependent_fusion_quality(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return Q_E, up to 1: Q_W of the pictures times Q_W of their edge pictures (Prewitt); higher is better.

    The exponent of the edge part is 1. Arguments and errors as in :func:`structural_fusion_quality`.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> round(edge_dependent_fusion_quality(ramp, [ramp, ramp]), 9)
        1.0
    """
    fused_levels, source_levels = grey_triple(fused, sources, metric="Q_E", smallest=_SMALLEST["box"])
    edges = [edge_strength(plane, smoothing=1.0) for plane in (fused_levels, *source_levels)]
    return _weighted_quality(fused_levels, source_levels, "box") * _weighted_quality(edges[0], edges[1:], "box")


_SMALLEST: dict[str, int] = {"box": 8, "gaussian": 11}


def _weighted_quality(fused: Plane, sources: Sequence[Plane], window: Window) -> float:
    quality, saliency = _quality_and_saliency(fused, sources, window)
    return float((quality * (saliency / saliency.sum())).sum())


def _quality_and_saliency(fused: Plane, sources: Sequence[Plane], window: Window) -> tuple[Plane, Plane]:
    """Return per window the variance-weighted similarity, and the largest variance of any source."""
    statistics = LocalStatistics(gaussian=(11, 1.5) if window == "gaussian" else None)
    if window == "gaussian":
        luminance_constant, contrast_constant = 2.55**2, 7.65**2
    else:
        luminance_constant = contrast_constant = (1e-6 * 255) ** 2
    of_fused = statistics.moments(fused)
    of_sources = [statistics.moments(source) for source in sources]
    # Nothing to weigh by where every source is flat: each gets the same share. The script in circulation puts 0.5 in
    # the place of both variances, which also lends the window a little saliency; so do we (1/N for N sources).
    flat = np.sum([moments[2] for moments in of_sources], axis=0) == 0
    variances = [np.where(flat, 1.0 / len(sources), moments[2]) for moments in of_sources]
    total_variance = np.sum(variances, axis=0)
    quality = np.zeros_like(total_variance)
    for moments, variance in zip(of_sources, variances, strict=True):
        similarity = statistics.pair(of_fused, moments).similarity(luminance_constant, contrast_constant)
        quality += variance / total_variance * similarity
    return quality, np.maximum.reduce(variances)
