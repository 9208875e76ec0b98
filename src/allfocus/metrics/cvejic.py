"""Q_C: local similarity to the sources, shared out by how much each source and the fused picture vary together.

N. Cvejic, A. Loza, D. Bull, N. Canagarajah, "A similarity metric for assessment of image fusion algorithms",
International Journal of Signal Processing 2 (3), 2005.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, grey_triple
from allfocus.metrics.local_windows import LocalStatistics

_CONSTANT = 2e-16
"""Both stabilising constants of the similarity index."""


def covariance_weighted_quality(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return Q_C, up to 1: the mean over 8x8 windows of the covariance-weighted similarity; higher is better.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: exactly two pictures of the same size (the weight is a ratio of two covariances).

    Raises:
        InputError: The pictures cannot be scored together, are smaller than 8x8, or are not two.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> covariance_weighted_quality(ramp, [ramp, ramp])
        1.0
    """
    target, (first, second) = grey_triple(fused, sources, metric="Q_C", smallest=8, exactly_two=True)
    statistics = LocalStatistics()
    of_fused = statistics.moments(target)
    with_first = statistics.pair(statistics.moments(first), of_fused)
    with_second = statistics.pair(statistics.moments(second), of_fused)
    total = with_first.covariance + with_second.covariance
    # With opposite covariances that cancel, the ratio is plus or minus infinite, and clipping decides.
    unbounded = np.where(with_first.covariance > 0, 1.0, np.where(with_first.covariance < 0, 0.0, 0.5))
    share = np.divide(with_first.covariance, total, out=unbounded, where=total != 0).clip(0.0, 1.0)
    quality = share * with_first.similarity(_CONSTANT, _CONSTANT)
    quality += (1 - share) * with_second.similarity(_CONSTANT, _CONSTANT)
    return float(quality.mean())
