"""Q_MI: how much of the sources' grey level statistics is found again in the fused picture.

Normalised mutual information in Hossny's corrected form: M. Hossny, S. Nahavandi, D. Creighton, "Comments on
'Information measure for performance of image fusion'", Electronics Letters 44 (18), 2008.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple


def joint_distribution(first: Plane, second: Plane) -> Plane:
    """Return how often each pair of grey levels occurs together, (256, 256), sum 1; rows belong to ``first``.

    Example:
        >>> import numpy as np
        >>> joint_distribution(np.array([[0.0, 1.0]]), np.array([[0.0, 0.0]]))[:2, :2]
        array([[0.5, 0. ],
               [0.5, 0. ]])
    """
    pairs = first.astype(np.intp).ravel() * 256 + second.astype(np.intp).ravel()
    return np.bincount(pairs, minlength=65536).reshape(256, 256) / first.size


def entropy(distribution: Plane) -> float:
    """Return the Shannon entropy of a distribution in bits; cells without probability count nothing.

    Example:
        >>> import numpy as np
        >>> entropy(np.array([0.5, 0.25, 0.25, 0.0]))
        1.5
    """
    present = distribution[distribution > 0]
    # "+ 0.0" turns the minus zero of a single level into zero.
    return float(-np.sum(present * np.log2(present))) + 0.0


def entropies(first: Plane, second: Plane) -> tuple[float, float, float]:
    """Return the entropy of the first plane, of the second, and of both together, in bits."""
    joint = joint_distribution(first, second)
    return entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0)), entropy(joint)


def mutual_information(first: Plane, second: Plane) -> float:
    """Return the information in bits that two planes of whole grey levels 0..255 share.

    Example:
        >>> import numpy as np
        >>> mutual_information(np.array([[0.0, 1.0]]), np.array([[7.0, 9.0]]))
        1.0
    """
    of_first, of_second, together = entropies(first, second)
    return of_first + of_second - together


def normalized_mutual_information(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return Q_MI, 0..2: four times the mean over the sources of MI(S, F) / (H(S) + H(F)); higher is better.

    For two sources this is Hossny's ``2 (MI(A,F)/(H(A)+H(F)) + MI(B,F)/(H(B)+H(F)))``; for more sources the mean keeps
    the range 0..2. A pair of pictures with one level each shares all it has and counts as fully shared.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: two or more pictures of the same size.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(64, dtype=np.uint8).reshape(8, 8)
        >>> normalized_mutual_information(ramp, [ramp, ramp])
        2.0
    """
    # The stretch maps levels one to one and so leaves the entropies as they are; the definition has it, so it is here.
    target, planes = grey_triple(fused, sources, metric="Q_MI", stretch=True)
    shares = []
    for source in planes:
        of_source, of_fused, together = entropies(source, target)
        total = of_source + of_fused
        shares.append((total - together) / total if total > 0 else 0.5)
    return 4.0 * sum(shares) / len(shares)
