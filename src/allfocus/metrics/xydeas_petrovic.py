"""Q_AB/F: how well the edges of the sources, their strength and direction, are transferred to the fused picture.

C. S. Xydeas, V. Petrovic, "Objective image fusion performance measure", Electronics Letters 36 (4), 2000.
Three scripts are in circulation; they differ in details and the values do not compare. ``canonical`` is the one that
recent benchmarks use; the others are here so that old tables can be checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple
from allfocus.metrics.local_windows import edge_components

Variant = Literal["canonical", "hong", "zheng-liu"]
"""``canonical``: Y. Liu's revision of 2019. ``hong``: R. Hong's script (differs by about 4e-4).
``zheng-liu``: Z. Liu's older toolbox, other constants and a plain mean over the pixels (0.04 to 0.13 lower)."""

_TINY = 1e-5
"""Stands in for an edge strength of zero, as in the scripts."""


@dataclass(frozen=True)
class _Edges:
    strength: Plane
    direction: Plane
    """Angle of the gradient without its sign, -pi/2..pi/2."""


def edge_transfer(fused: Picture, sources: Sequence[Picture], *, variant: Variant = "canonical") -> float:
    """Return Q_AB/F, 0..0.9748: preserved edge strength and direction, weighted by source edge strength.

    Higher is better. A perfect transfer gives 0.9748 (canonical), not 1, because of the sigmoids. The picture's frame
    counts as an edge (zeros lie outside). A direction that passes vertical counts as a large turn (no wrap-around).

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: two or more pictures of the same size.
        variant: see :data:`Variant`.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> round(edge_transfer(ramp, [ramp, ramp]), 4)
        0.9748
    """
    fused_levels, source_levels = grey_triple(fused, sources, metric="Q_AB/F")
    of_fused = _edges(fused_levels, variant)
    weighted, weights = np.zeros_like(fused_levels), np.zeros_like(fused_levels)
    for source in source_levels:
        of_source = _edges(source, variant)
        weight = of_source.strength
        if variant != "hong":
            weight = np.where(weight == 0, _TINY, weight)
        weighted += weight * _preservation(of_source, of_fused, variant)
        weights += weight
    if variant == "zheng-liu":
        return float(np.mean(weighted / weights))
    # Only "hong" can be without any weight: pictures that are black all over.
    return float(weighted.sum() / weights.sum()) if weights.any() else 0.0


def _edges(levels: Plane, variant: Variant) -> _Edges:
    across, down = edge_components(levels)
    strength = np.sqrt(across**2 + down**2)
    upright = across == 0
    direction = np.arctan(down / np.where(upright, _TINY, across))
    if variant == "hong":
        # pi/2 in that script, whose horizontal mask is mirrored and turns the sign of every other angle.
        direction[upright] = -np.pi / 2
    return _Edges(strength, direction)


def _preservation(source: _Edges, fused: _Edges, variant: Variant) -> Plane:
    turn = np.abs(source.direction - fused.direction)
    if variant == "zheng-liu":
        alignment = np.abs(turn - np.pi / 2) * 2 / np.pi
        return _sigmoid(_strength_ratio(source, fused, variant), 10, 0.5) * _sigmoid(alignment, 20, 0.75)
    alignment = 1 - turn * 2 / np.pi
    strength_kept = 0.9994 * _sigmoid(_strength_ratio(source, fused, variant), 15, 0.5)
    return strength_kept * (0.9879 * _sigmoid(alignment, 22, 0.8))


def _strength_ratio(source: _Edges, fused: _Edges, variant: Variant) -> Plane:
    weaker = np.minimum(source.strength, fused.strength)
    stronger = np.maximum(source.strength, fused.strength)
    if variant == "hong":
        ratio = np.divide(weaker, stronger, out=np.zeros_like(weaker), where=stronger > 0)
        # That script returns the strength itself, not 1, where both are equal; on 0..255 it hardly shows.
        return np.where(source.strength == fused.strength, fused.strength, ratio)
    # Both zero: equal, hence 1. One zero: the scripts put 1e-5 in its place, for a source always, for the fused picture
    # only from the second source on. We never do for the fused one, so that the order of the sources does not matter.
    floor = np.where(source.strength < fused.strength, _TINY, 0.0)
    return np.divide(np.maximum(weaker, floor), stronger, out=np.ones_like(weaker), where=stronger > 0)


def _sigmoid(value: Plane, steepness: float, middle: float) -> Plane:
    result: Plane = 1.0 / (1.0 + np.exp(-steepness * (value - middle)))
    return result
