"""The motion between two frames of a focus stack, from what both of them show.

A search and a match of phases, coarse to fine, come to about half a pixel (``phase_matching``); blocks that are
measured together with the difference of their blur give the rest (``block_matching``). Where too few blocks can tell,
the phases are matched down to the finest octave.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.block_matching import match_blocks
from allfocus.alignment.octaves import PreparedFrame, to_working
from allfocus.alignment.phase_matching import agreements, descend, search, search_level
from allfocus.alignment.transforms import MODELS, Matrix

BELONGS = 0.3
"""Agreement from which two frames show the same scene. Measured: unrelated pairs stay below 0.2 (the search for the
best match included), neighbours of real and rendered stacks are above 0.5."""


FIRM = 1e-3
"""Blocks are believed when their common motion is certain to this part of the half diagonal: 2 pixels of 12 million."""

_INFLATION = 16.0
"""Neighbouring pixels are not independent, so errors of matched phases are about four times what their equations say
(measured)."""


@dataclass(frozen=True, eq=False)
class PairEstimate:
    """How one frame lies on another."""

    transform: Matrix
    """Point of the moving frame to point of the fixed one, in pixels of the full frames."""

    information: NDArray[np.float64]
    """(8, 8): how firmly the pixels hold each generator, in ``unit_square`` coordinates; an inverse covariance."""

    slack: NDArray[np.float64]
    """(8,): the further step that the pixels would take if all eight generators were allowed."""

    agreement: float
    """-1..1, correlation of what both frames show after the motion; see ``BELONGS``."""

    likeness: float | None = None
    """0..1, mean correlation of the three finest octaves: near 1 for frames that are sharp in the same places; None
    where it was not measured."""

    likeness_unmoved: float | None = None
    """The same with both frames left as they are: what the motion has to beat."""

    @property
    def belongs(self) -> bool:
        """Whether both frames show the same scene."""
        return self.agreement >= BELONGS


def estimate_pair(moving: PreparedFrame, fixed: PreparedFrame, *, model: str = "similarity") -> PairEstimate:
    """How the moving frame lies on the fixed one, wherever it is.

    Args:
        moving: The frame whose points are mapped.
        fixed: The frame that gives the grid, of the same size.
        model: A name of ``MODELS``.
    """
    count = MODELS[model]
    if moving.blank or fixed.blank:
        return PairEstimate(np.eye(3), np.zeros((8, 8)), np.zeros(8), 0.0, 0.0, 0.0)
    # From here on a transform maps the fixed working grid to the moving one: that is the way pixels are fetched.
    fetch = search(moving, fixed, count)
    for level in range(search_level(fixed), 0, -1):
        fetch, _ = descend(moving, fixed, fetch, level, count)
    blocks = match_blocks(moving, fixed, fetch, count)
    if blocks is not None and blocks.error <= FIRM:
        fetch, information, slack = blocks.fetch, blocks.information, blocks.slack
    else:
        fetch, (information, pull) = descend(moving, fixed, fetch, 0, count)
        slack = np.asarray(np.linalg.lstsq(information, pull, rcond=1e-9)[0], np.float64)
    agreement = agreements(moving, fixed, fetch, range(len(fixed.octaves)))
    unmoved = agreements(moving, fixed, np.eye(3), range(min(3, len(fixed.octaves))))
    likeness, likeness_unmoved = (float(np.clip(np.mean(values[:3]), 0.0, 1.0)) for values in (agreement, unmoved))
    if blocks is None or blocks.error > FIRM:
        # Frames that look alike are measured better than their equations say, those that do not are measured worse.
        information = information * (max(likeness, 0.05) ** 2 / _INFLATION)
    transform = _in_full_pixels(fetch, fixed.scale)
    return PairEstimate(transform, information, slack, max(agreement), likeness, likeness_unmoved)


def refine_pair(
    moving: PreparedFrame, fixed: PreparedFrame, initial: Matrix, *, model: str = "similarity"
) -> PairEstimate | None:
    """How the moving frame lies on the fixed one, near a first guess; None when too few blocks can tell.

    Args:
        moving: The frame whose points are mapped.
        fixed: The frame that gives the grid, of the same size.
        initial: Where to begin, in pixels of the full frames.
        model: A name of ``MODELS``.
    """
    working = to_working(fixed.scale)
    fetch = working @ np.linalg.inv(initial) @ np.linalg.inv(working)
    blocks = match_blocks(moving, fixed, fetch, MODELS[model])
    if blocks is None or blocks.error > FIRM:
        return None
    levels = range(min(2, len(fixed.octaves) - 1), len(fixed.octaves))
    agreement = max(agreements(moving, fixed, blocks.fetch, levels))
    if agreement < BELONGS:
        return None
    return PairEstimate(_in_full_pixels(blocks.fetch, fixed.scale), blocks.information, blocks.slack, agreement)


def _in_full_pixels(fetch: Matrix, scale: float) -> Matrix:
    """The transform of the full frames, moving to fixed, for one of the working grids, fixed to moving."""
    working = to_working(scale)
    transform = np.linalg.inv(np.linalg.inv(working) @ fetch @ working)
    return np.asarray(transform / transform[2, 2], np.float64)
