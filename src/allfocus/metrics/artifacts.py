"""N_AB/F: the share of edges in the fused picture that no source has, that is, artifacts.

V. Petrovic, C. Xydeas, "Objective image fusion performance characterisation", ICCV 2005, in the modified form of
B. K. Shreyamsha Kumar, "Multifocus and multispectral image fusion based on pixel significance using discrete cosine
harmonic wavelet transform", Signal, Image and Video Processing 7 (6), 2013, which is the one in use.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple
from allfocus.metrics.local_windows import edge_components

_FAINT = 2.0
"""Edges weaker than this (Sobel mask divided by 8) get the least weight."""

_LEAST_WEIGHT = 0.001


def fusion_artifacts(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return N_AB/F, 0..1: unpreserved edge information where the fused edge is stronger than in every source.

    Lower is better; 0 means that no edge is stronger than in the sources, as in any pure selection away from seams.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1; at least 2x2 pixels.
        sources: two or more pictures of the same size.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> fusion_artifacts(ramp, [ramp, ramp])
        0.0
    """
    fused_levels, source_levels = grey_triple(fused, sources, metric="N_AB/F", smallest=2)
    strength_fused, direction_fused = _edges(fused_levels)
    new = np.ones(fused_levels.shape, dtype=bool)
    lost, weights = np.zeros_like(fused_levels), np.zeros_like(fused_levels)
    for source in source_levels:
        strength, direction = _edges(source)
        weaker, stronger = np.minimum(strength, strength_fused), np.maximum(strength, strength_fused)
        ratio = np.divide(weaker, stronger, out=np.zeros_like(weaker), where=stronger > 0)
        alignment = np.abs(np.abs(direction - direction_fused) - np.pi / 2) * 2 / np.pi
        strength_kept = 0.9999 / (1 + np.exp(-19 * (ratio - 0.5)))
        direction_kept = 0.9995 / (1 + np.exp(-22 * (alignment - 0.5)))
        weight = np.where(strength >= _FAINT, strength**1.5, _LEAST_WEIGHT)
        lost += (1 - np.sqrt(strength_kept * direction_kept)) * weight
        weights += weight
        new &= strength_fused > strength
    return float(lost[new].sum() / weights.sum())


def _edges(levels: Plane) -> tuple[Plane, Plane]:
    across, down = edge_components(levels, border="reflect")
    across, down = across / 8, down / 8
    # Angle without sign, -pi/2..pi/2: arctan(across / down), 0 where there is no edge at all.
    steep = np.where(across == 0, 0.0, np.sign(across) * np.pi / 2)
    quotient = np.divide(across, down, out=np.zeros_like(across), where=down != 0)
    return np.sqrt(across**2 + down**2), np.where(down == 0, steep, np.arctan(quotient))
