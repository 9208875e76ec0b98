"""Q_NCIE: general dependence, linear or not, between the sources and the fused picture.

Q. Wang, Y. Shen, J. Jin, "Performance evaluation of image fusion techniques", chapter 19 of "Image Fusion: Algorithms
and Applications", Academic Press, 2008.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from allfocus.metrics.grey_levels import Picture, grey_triple
from allfocus.metrics.mutual_information import mutual_information


def nonlinear_correlation_information(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return Q_NCIE, for two sources 0.8019..1: one minus the joint entropy left in the correlation matrix.

    Higher is better. The matrix holds, for each two of the K = N + 1 pictures (sources and fused), their mutual
    information with logarithm base 256, and ones on the diagonal; its eigenvalues r give 1 + sum(r/K log256(r/K)).
    The lower end of the range is 1 - log256(K); all useful variation lies in about 0.81..0.85.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: two or more pictures of the same size.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> every_level = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> nonlinear_correlation_information(every_level, [every_level, every_level])
        1.0
    """
    target, others = grey_triple(fused, sources, metric="Q_NCIE", stretch=True)
    planes = [*others, target]
    correlation = np.eye(len(planes))
    for row, column in combinations(range(len(planes)), 2):
        correlation[row, column] = correlation[column, row] = mutual_information(planes[row], planes[column]) / 8.0
    shares = np.linalg.eigvalsh(correlation) / len(planes)
    # Identical pictures have eigenvalues of zero, which come out as plus or minus rounding noise: they add nothing.
    shares = shares[shares > 1e-12]
    return float(1.0 + np.sum(shares * np.log2(shares)) / 8.0)
