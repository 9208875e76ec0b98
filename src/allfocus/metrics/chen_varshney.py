"""Q_CV: the visible difference between the fused picture and its sources, most where the sources have edges.

H. Chen, P. K. Varshney, "A human perception inspired quality metric for image fusion based on regional information",
Information Fusion 8 (2), 2007.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple
from allfocus.metrics.local_windows import centred_frequencies, edge_strength

_BLOCK = 16
"""Height and width of a region."""


def perceived_difference(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return Q_CV, from 0 upwards: saliency-weighted squared difference as the eye sees it; lower is better.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: two or more pictures of the same size.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> perceived_difference(ramp, [ramp, ramp])
        0.0
    """
    target, planes = grey_triple(fused, sources, metric="Q_CV", stretch=True)
    height, width = target.shape
    radius = centred_frequencies(height, width, vertical=height / 8, horizontal=width / 8)[:, : width // 2 + 1]
    sensitivity = 2.6 * (0.0192 + 0.144 * radius) * np.exp(-((0.144 * radius) ** 1.1))
    difference, weights = 0.0, 0.0
    for source in planes:
        seen = np.fft.irfft2(np.fft.rfft2(source - target) * sensitivity, s=target.shape)
        saliency = _block_sums(edge_strength(source) ** 5)
        # Blocks that hang over the border are filled with zeros, which are counted in their mean.
        difference += float(np.sum(saliency * _block_sums(seen**2) / _BLOCK**2))
        weights += float(saliency.sum())
    # Without any edge in any source (all black) there is nothing to compare at.
    return difference / weights if weights > 0 else 0.0


def _block_sums(plane: Plane) -> Plane:
    height, width = plane.shape
    padded = np.pad(plane, ((0, -height % _BLOCK), (0, -width % _BLOCK)))
    blocks = padded.reshape(padded.shape[0] // _BLOCK, _BLOCK, padded.shape[1] // _BLOCK, _BLOCK)
    sums: Plane = blocks.sum(axis=(1, 3))
    return sums
