"""EN, SD, AG, EI: four statistics of the fused picture alone.

They say how much goes on in the picture, not whether it is right: noise and over-sharpening raise all four.
The sources are accepted, so that every metric is called the same way, and not used.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, as_grey_levels, check_large_enough
from allfocus.metrics.local_windows import edge_strength
from allfocus.metrics.mutual_information import entropy


def histogram_entropy(fused: Picture, sources: Sequence[Picture] = ()) -> float:
    """Return EN, 0..8: the entropy of the grey level histogram in bits; higher counts as better.

    Example:
        >>> import numpy as np
        >>> histogram_entropy(np.arange(256, dtype=np.uint8).reshape(16, 16))
        8.0
    """
    levels = as_grey_levels(fused, what="the fused picture")
    return entropy(np.bincount(levels.astype(np.intp).ravel(), minlength=256) / levels.size)


def column_standard_deviation(fused: Picture, sources: Sequence[Picture] = ()) -> float:
    """Return SD: the mean over the columns of each column's standard deviation (N-1); higher counts as better.

    That is how the field's script has it. It is not the standard deviation of the whole picture, which is larger.

    Raises:
        InputError: The picture has less than two rows.

    Example:
        >>> import numpy as np
        >>> column_standard_deviation(np.array([[0, 5], [2, 5]], np.uint8)).__round__(6)
        0.707107
    """
    check_large_enough(fused, metric="SD", smallest=2)
    return float(np.std(as_grey_levels(fused, what="the fused picture"), axis=0, ddof=1).mean())


def average_gradient(fused: Picture, sources: Sequence[Picture] = ()) -> float:
    """Return AG: the mean of sqrt((dx^2 + dy^2) / 2) over forward differences; higher counts as better.

    The differences at the last row and column are zero and are counted in the mean.

    Example:
        >>> import numpy as np
        >>> average_gradient(np.array([[0, 2], [2, 4]], np.uint8)).__round__(6)
        1.207107
    """
    levels = as_grey_levels(fused, what="the fused picture")
    down = np.diff(levels, axis=0, append=levels[-1:])
    across = np.diff(levels, axis=1, append=levels[:, -1:])
    return float(np.sqrt((down**2 + across**2) / 2).mean())


def edge_intensity(fused: Picture, sources: Sequence[Picture] = ()) -> float:
    """Return EI: the mean length of the Sobel gradient (not normalised, border repeated); higher counts as better.

    Example:
        >>> import numpy as np
        >>> edge_intensity(np.tile(np.arange(4, dtype=np.uint8), (4, 1)))
        6.0
    """
    return float(edge_strength(as_grey_levels(fused, what="the fused picture"), border="edge").mean())
