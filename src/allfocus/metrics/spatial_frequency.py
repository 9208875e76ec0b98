"""Q_SF: the overall activity of the fused picture, and rSFe, that activity against the most active source.

Q_SF: A. M. Eskicioglu, P. S. Fisher, "Image quality measures and their performance", IEEE Trans. Communications 43,
1995.
rSFe: Y. Zheng et al., "A new metric based on extended spatial frequency and its application to DWT based fusion
algorithms", Information Fusion 8 (2), 2007.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, as_grey_levels, grey_triple


def spatial_frequency(fused: Picture, sources: Sequence[Picture] = ()) -> float:
    """Return SF, the root mean square of the first differences down and across, on the 0..255 scale; higher is sharper.

    Both sums are divided by the number of pixels, although there is one difference less in each row and column.
    The sources are not used. Noise counts as sharpness.

    Example:
        >>> import numpy as np
        >>> spatial_frequency(np.tile(np.array([[0, 10]], np.uint8), (2, 1)))
        7.0710678118654755
    """
    levels = as_grey_levels(fused, what="the fused picture")
    squares = np.sum(np.diff(levels, axis=0) ** 2) + np.sum(np.diff(levels, axis=1) ** 2)
    return float(np.sqrt(squares / levels.size))


def normalized_spatial_frequency(fused: Picture, sources: Sequence[Picture] = ()) -> float:
    """Return Q_SF = SF / 255, the form in which papers of the field print it; higher is sharper.

    Example:
        >>> import numpy as np
        >>> normalized_spatial_frequency(np.full((4, 4), 9, np.uint8))
        0.0
    """
    return spatial_frequency(fused) / 255.0


def relative_spatial_frequency_error(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return rSFe = (SF_F - SF_R) / SF_R: below 0 blurrier than the sharpest source everywhere, above 0 overdone.

    SF_R takes, at each place and in each of four directions, the largest difference that any source has.
    Sources without any detail make a fused picture without detail perfect (0) and any other infinitely overdone.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(64, dtype=np.uint8).reshape(8, 8)
        >>> relative_spatial_frequency_error(ramp, [ramp, ramp])
        0.0
    """
    fused_levels, source_levels = grey_triple(fused, sources, metric="rSFe", smallest=2)
    achieved = _extended_frequency([np.abs(part) for part in _four_differences(fused_levels)])
    of_sources = [[np.abs(part) for part in _four_differences(source)] for source in source_levels]
    possible = _extended_frequency([np.maximum.reduce(list(parts)) for parts in zip(*of_sources, strict=True)])
    if possible == 0:
        return 0.0 if achieved == 0 else float("inf")
    return (achieved - possible) / possible


def _four_differences(levels: Plane) -> list[Plane]:
    return [
        np.diff(levels, axis=1),
        np.diff(levels, axis=0),
        levels[1:, 1:] - levels[:-1, :-1],
        levels[1:, :-1] - levels[:-1, 1:],
    ]


def _extended_frequency(differences: list[Plane]) -> float:
    across, down, main_diagonal, other_diagonal = (float(np.sum(part**2)) for part in differences)
    # Height x width of the picture, from the two planes that lack one row and one column.
    pixels = differences[1].shape[1] * differences[0].shape[0]
    diagonal_weight = np.sqrt(2.0) / 2.0
    return float(np.sqrt((across + down + diagonal_weight * (main_diagonal + other_diagonal)) / pixels))
