"""Q_TE: mutual information with Tsallis' entropy in place of Shannon's.

N. Cvejic, C. N. Canagarajah, D. R. Bull, "Image fusion metric based on mutual information and Tsallis entropy",
Electronics Letters 42 (11), 2006; normalised form: R. Nava, G. Cristobal, B. Escalante-Ramirez, "Mutual information
improves image fusion quality assessments", SPIE Newsroom, 2007.

The script in circulation mixes up the two marginal distributions, so that it no longer measures information and can
explode (values above 300000 are in published tables). The functions here use the right marginals; the mixed-up form is
there under ``swap_marginals`` so that old tables can be checked.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple
from allfocus.metrics.mutual_information import entropy, joint_distribution


def tsallis_mutual_information(
    fused: Picture, sources: Sequence[Picture], *, order: float = 1.85, swap_marginals: bool = False
) -> float:
    """Return Q_TE, from 0: the sum over the sources of the Tsallis mutual information with the fused picture.

    Higher is better. Not normalised: it depends on how many levels the pictures have, so compare on one scene only.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: two or more pictures of the same size.
        order: Tsallis' q, not 1.
        swap_marginals: reproduce the error of the script in circulation.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> flat, ramp = np.zeros((8, 8), np.uint8), np.arange(64, dtype=np.uint8).reshape(8, 8)
        >>> round(tsallis_mutual_information(flat, [ramp, ramp]), 9)
        0.0
    """
    target, planes = grey_triple(fused, sources, metric="Q_TE", stretch=True)
    return sum(_shared_information(plane, target, order, swap_marginals) for plane in planes)


def normalized_tsallis_information(
    fused: Picture, sources: Sequence[Picture], *, order: float = 0.43137, swap_marginals: bool = False
) -> float:
    """Return Nava's normalised Q_TE: shared with the fused picture over what the sources hold; higher is better.

    Arguments and errors as in :func:`tsallis_mutual_information`; exactly two sources. Without any information in the
    sources (one level each) the value is 0.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(64, dtype=np.uint8).reshape(8, 8)
        >>> 0 < normalized_tsallis_information(ramp, [ramp, ramp]) < 2
        True
    """
    target, planes = grey_triple(fused, sources, metric="Q_TE (normalised)", exactly_two=True, stretch=True)
    shared = sum(_shared_information(plane, target, order, swap_marginals) for plane in planes)
    entropies = [entropy(np.bincount(plane.astype(np.intp).ravel(), minlength=256) / plane.size) for plane in planes]
    between_sources = _shared_information(planes[0], planes[1], order, swap_marginals)
    available = sum(value**order for value in entropies) + between_sources
    return shared / available if available > 0 else 0.0


def _shared_information(first: Plane, second: Plane, order: float, swap_marginals: bool) -> float:
    joint = joint_distribution(first, second)
    of_first, of_second = joint.sum(axis=1), joint.sum(axis=0)
    if swap_marginals:
        of_first, of_second = of_second, of_first
    independent = of_first[:, None] * of_second[None, :]
    present = (independent > 0) & (joint > 0)
    total = np.sum(joint[present] ** order / independent[present] ** (order - 1))
    return float((1 - total) / (1 - order))
