"""Q_Y: local similarity, to both sources where they agree and to the better one where they differ.

C. Yang, J. Zhang, X. Wang, X. Liu, "A novel similarity based quality metric for image fusion", Information Fusion
9 (2), 2008.

The script in circulation computes 0/0 in every window that is flat in two pictures, as rounding noise over rounding
noise: its values go up to several hundred, and no two machines agree on 164 of 251 test triples. Here such a window
gets what exact arithmetic gives: a flat window has variance zero, two flat windows agree in contrast and structure.
On pictures without flat windows the values are those of the script.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, grey_triple
from allfocus.metrics.local_windows import LocalStatistics

_CONSTANT = 2e-16
"""Both stabilising constants of the similarity index; alone they decide in windows that are flat or black."""


def agreement_weighted_quality(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return Q_Y, up to 1: the mean over Gaussian 7x7 windows (sigma 1.5); higher is better.

    In a window where the sources have a similarity of at least 0.75, each counts by its share of the variance;
    elsewhere only the one that the fused picture is more similar to.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: exactly two pictures of the same size.

    Raises:
        InputError: The pictures cannot be scored together, are smaller than 7x7, or are not two.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> round(agreement_weighted_quality(ramp, [ramp, ramp]), 9)
        1.0
    """
    target, (first, second) = grey_triple(fused, sources, metric="Q_Y", smallest=7, exactly_two=True)
    statistics = LocalStatistics(gaussian=(7, 1.5))
    of_fused, of_first, of_second = (statistics.moments(plane) for plane in (target, first, second))
    to_first = statistics.pair(of_first, of_fused).similarity(_CONSTANT, _CONSTANT)
    to_second = statistics.pair(of_second, of_fused).similarity(_CONSTANT, _CONSTANT)
    agreement = statistics.pair(of_first, of_second).similarity(_CONSTANT, _CONSTANT)
    total = of_first[2] + of_second[2]
    share = np.divide(of_first[2], total, out=np.full_like(total, 0.5), where=total > 0)
    weighted = share * to_first + (1 - share) * to_second
    return float(np.where(agreement >= 0.75, weighted, np.maximum(to_first, to_second)).mean())
