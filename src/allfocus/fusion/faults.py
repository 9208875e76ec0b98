"""Faults: the places of a fused picture that are worth a look, worst first, each with the frame that mends it.

Two maps tell of them. Where detail is lost (:mod:`.lost_detail`), a frame shows what the picture does not: its cells
are gathered into places, each of one frame. Where the method had little confidence in a place with texture and took it
from several frames in a patchwork, the frame that has most of it is named. Lost detail comes first.

Each fault carries the line and the radius of a brush that covers it, so that the frame can be painted in with a soft
edge that follows its shape and not that of a box.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.detail_meter import FAINT
from allfocus.fusion.frame_checks import grey_levels
from allfocus.fusion.lost_detail import LostDetail
from allfocus.fusion.lost_things import Cells, find_things, gather_cells, largest_side
from allfocus.fusion.stack_fusion import FusionResult

LOST, UNSURE = "lost", "unsure"

MOST_FAULTS = 60
MOST_UNSURE = 8
LARGEST_UNSURE = 128
"""The same of places in doubt: one frame seldom holds for more."""
WEAKEST = 0.01
"""Faults weaker than this part of the worst are left out."""

CONFIDENT = 0.25
"""Confidence below which a place is looked at."""
PATCHWORK = 0.85
"""A place of which one frame has more than this is decided, however little sure."""
CALM = 4 * FAINT
"""Places with less texture, as part of the range of values, may come from any frame."""
UNSURE_CELL = 8
SMALLEST_UNSURE = 6
"""Cells."""

MOST_NODES = 120
"""Of the tree along which a fault is painted."""
SOFTEST_EDGE = 5.0
"""Pixels over which a fault fades into the picture, at least."""


@dataclass(frozen=True)
class Fault:
    """One place of a fused picture that is worth a look."""

    kind: str
    """"lost" or "unsure"."""
    left: int
    top: int
    width: int
    height: int
    """Its box in pixels of the fused picture."""
    frame: int
    """The frame that shows what is missing, or that has most of an unsure place; counted from 0."""
    share: float
    """Of lost detail, how much is missing: 0.5 half of it, 1 all. Of an unsure place, what other frames have of it."""
    strength: float
    """The sum over its pixels of what is missing or in doubt, as part of the range of values; what faults of a kind are
    ranked by."""
    points: tuple[tuple[float, float], ...]
    """(x, y) in pixels: a line through all of it, along which a brush covers it."""
    radius: float
    """Pixels from the line at which a brush over the fault ends."""
    hardness: float
    """The part of the radius within which it is covered fully."""

    def to_plain(self) -> dict[str, Any]:
        """What programs want to know of it, as JSON takes it; frames are counted from 1."""
        values = asdict(self)
        del values["points"], values["radius"], values["hardness"]
        return {**values, "frame": self.frame + 1}


def find_faults(fusion: FusionResult) -> tuple[Fault, ...]:
    """The places of a fused picture that are worth a look: lost detail, then places in doubt, each worst first.

    Args:
        fusion: Of any number of channels. What it does not tell, lost detail or maps, gives no faults.

    Example:
        >>> import allfocus
        >>> ground = np.full((128, 128), 0.5, np.float32)
        >>> leg = ground.copy()
        >>> leg[30:90, 60:63] = 0
        >>> faults = find_faults(allfocus.fuse([ground, leg, ground, ground], method="average"))
        >>> [(fault.kind, fault.frame) for fault in faults]
        [('lost', 1)]
        >>> box = faults[0]
        >>> box.left <= 60 and 63 <= box.left + box.width and box.top <= 34 and 86 <= box.top + box.height
        True
    """
    size = (int(fusion.image.shape[0]), int(fusion.image.shape[1]))
    found = [*_lost_faults(fusion.lost_detail, size)] if fusion.lost_detail is not None else []
    found = _worst(found, MOST_FAULTS)
    doubtful = [fault for fault in _unsure_faults(fusion, size) if not any(_meet(fault, other) for other in found)]
    return tuple([*found, *_worst(doubtful, MOST_UNSURE)][:MOST_FAULTS])


def _worst(faults: list[Fault], most: int) -> list[Fault]:
    ranked = sorted(faults, key=lambda fault: -fault.strength)[:most]
    return [fault for fault in ranked if fault.strength >= WEAKEST * ranked[0].strength]


def _meet(first: Fault, second: Fault) -> bool:
    across = first.left < second.left + second.width and second.left < first.left + first.width
    return across and first.top < second.top + second.height and second.top < first.top + first.height


# --- lost detail ------------------------------------------------------------------------------------------------------


def _lost_faults(lost: LostDetail, size: tuple[int, int]) -> Iterator[Fault]:
    for thing in find_things(lost, size):
        rows, columns = thing.cells.T
        assert lost.strength is not None
        weights = np.maximum(lost.strength[rows, columns], 1e-9)
        share = float(np.average(lost.map[rows, columns], weights=weights))
        yield _describe(LOST, thing.cells, lost.cell, size, thing.frame, share, thing.strength)


# --- little confidence ------------------------------------------------------------------------------------------------


def _unsure_faults(fusion: FusionResult, size: tuple[int, int]) -> Iterator[Fault]:
    if fusion.confidence is None or fusion.decision is None:
        return
    image = np.asarray(fusion.image, np.float32)
    grey = grey_levels(image) if image.ndim == 2 or image.shape[2] == 3 else image.mean(axis=2)
    low, high = np.percentile(grey[::4, ::4], (0.2, 99.8))
    shape = (-(-size[1] // UNSURE_CELL), -(-size[0] // UNSURE_CELL))
    mean, square, sure = (_reduce(own, shape) for own in (grey, grey * grey, fusion.confidence))
    texture = np.sqrt(np.maximum(square - mean * mean, 0)) / max(float(high - low), 1e-9)
    doubt = np.where(sure < CONFIDENT, (1 - sure / CONFIDENT) * texture, 0).astype(np.float32)
    for cells in gather_cells((doubt > 0) & (texture > CALM), min(LARGEST_UNSURE, largest_side(size)) // UNSURE_CELL):
        if len(cells) < SMALLEST_UNSURE:
            continue
        rows, columns = np.minimum(cells * UNSURE_CELL + UNSURE_CELL // 2, np.array(size) - 1).T
        votes = np.bincount(np.maximum(fusion.decision[rows, columns], 0))
        frame, share = int(votes.argmax()), float(votes.max() / votes.sum())
        if share <= PATCHWORK:
            strength = float(doubt[cells[:, 0], cells[:, 1]].sum())
            yield _describe(UNSURE, cells, UNSURE_CELL, size, frame, 1 - share, strength)


def _reduce(values: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.float32]:
    return np.asarray(cv2.resize(np.asarray(values, np.float32), shape, interpolation=cv2.INTER_AREA), np.float32)


# --- shape ------------------------------------------------------------------------------------------------------------


def _describe(
    kind: str, cells: Cells, cell: int, size: tuple[int, int], frame: int, share: float, strength: float
) -> Fault:
    top, left = (int(value) * cell for value in cells.min(axis=0))
    bottom, right = (min(int(value + 1) * cell, most) for value, most in zip(cells.max(axis=0), size, strict=True))
    nodes, spacing = _nodes(cells)
    reach = cell * (0.71 * spacing + 1)
    radius = reach + max(SOFTEST_EDGE, 2.0 * cell)
    line = tuple((round(float(x), 1), round(float(y), 1)) for y, x in (_walk(nodes) + 0.5) * cell)
    return Fault(
        kind, left, top, right - left, bottom - top, frame, round(share, 3), round(strength * cell * cell, 3), line,
        round(radius, 1), round(reach / radius, 3),
    )  # fmt: skip


def _nodes(cells: Cells) -> tuple[NDArray[np.float64], int]:
    """Points among the cells, few enough to paint along, and how many cells lie between two of them."""
    spacing = 1
    while True:
        blocks, own = np.unique(cells // spacing, axis=0, return_inverse=True)
        if len(blocks) <= MOST_NODES:
            break
        spacing += 1
    counts = np.bincount(own.ravel())
    return np.stack([np.bincount(own.ravel(), weights=cells[:, axis]) / counts for axis in (0, 1)], axis=1), spacing


def _walk(nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nodes as one line along their shortest tree, there and back where it branches, so that it leaves no gap."""
    distance = np.square(nodes[:, None] - nodes[None]).sum(axis=-1)
    start = int(distance.sum(axis=1).argmax())  # an end, so that a thing like a leg is gone along once
    children: dict[int, list[int]] = {}
    nearest, gap = np.full(len(nodes), start), distance[start].copy()
    gap[start] = np.inf
    for _ in range(len(nodes) - 1):
        node = int(gap.argmin())
        children.setdefault(int(nearest[node]), []).append(node)
        closer = (distance[node] < gap) & np.isfinite(gap)
        nearest[closer], gap = node, np.where(closer, distance[node], gap)
        gap[node] = np.inf
    line = [start]
    stack = [(start, iter(children.get(start, ())))]
    last = len(line)
    while stack:
        node, rest = stack[-1]
        child = next(rest, None)
        if child is None:
            stack.pop()
            if stack:
                line.append(stack[-1][0])
        else:
            line.append(child)
            last = len(line)
            stack.append((child, iter(children.get(child, ()))))
    return nodes[line[:last]]
