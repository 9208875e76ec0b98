"""SCD: what the fused picture adds to one source should look like the other source.

V. Aslantas, E. Bendes, "A new image quality metric for image fusion: the sum of the correlations of differences",
AEU International Journal of Electronics and Communications 69 (12), 2015.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple


def sum_of_correlations_of_differences(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return SCD, -2..2: correlation of F - B with A plus that of F - A with B; higher is better.

    Made for sources of different kinds (infrared and visible). For focus stacks the two sources are nearly equal, and
    the value says little. Where a difference or a source is constant there is no correlation; it counts as 0.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: exactly two pictures of the same size.

    Raises:
        InputError: The pictures cannot be scored together, or there are not exactly two sources.

    Example:
        >>> import numpy as np
        >>> left = np.array([[0, 9], [0, 9]], np.uint8)
        >>> sum_of_correlations_of_differences(left + left.T, [left, left.T]).__round__(9)
        2.0
    """
    target, (first, second) = grey_triple(fused, sources, metric="SCD", exactly_two=True)
    return _correlation(target - second, first) + _correlation(target - first, second)


def _correlation(first: Plane, second: Plane) -> float:
    first, second = first - first.mean(), second - second.mean()
    energy = np.sqrt(np.sum(first * first) * np.sum(second * second))
    return float(np.sum(first * second) / energy) if energy > 0 else 0.0
