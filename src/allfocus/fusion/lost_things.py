"""Which cells of lost detail are one thing, and the frame that shows it.

Cells that lie together are a place. A frame shows a cell when it has most of what the best frame has there, so that one
frame often does for a whole leg, although each bit of it is sharpest in another. Where no frame shows all of a place,
each that shows a good part of it gets its own. At last what the same frame shows and hardly lies apart is put together:
a leg that was lost in pieces is one thing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.lost_detail import LostDetail

GAP = 2
"""Cells that may lie between two parts of one place."""
LARGEST_PLACE, SMALLEST_PLACE = 320, 48
"""Pixels a side: larger places are cut, so that each can be looked at at once."""
LONGEST_THING = 3
"""How many times as long as a place a thin thing may be."""
THIN = 0.2
"""The width of a thin thing as part of its length, at most."""
APART = 12
"""Cells that may lie between two parts of one thing that the same frame shows."""
MOST_PARTS = 1000
"""The strongest that are put together; what is weaker than those nobody comes to look at."""
OWN_SHARE = 0.2
"""The part of a place from which on a second frame gets a fault of its own."""

Cells = NDArray[np.intp]
"""(N, 2), row and column of each cell."""


@dataclass(frozen=True, eq=False)
class LostThing:
    """Cells of lost detail that one frame shows."""

    cells: Cells
    frame: int
    """Counted from 0."""
    strength: float
    """The sum over its cells of what is missing."""


def largest_side(size: tuple[int, int]) -> int:
    """Pixels a side up to which a place of a picture is not cut."""
    return min(LARGEST_PLACE, max(SMALLEST_PLACE, min(size) // 2))


def find_things(lost: LostDetail, size: tuple[int, int]) -> list[LostThing]:
    """What was lost, thing by thing; none where it is not known how strong it was.

    Args:
        lost: Of a fused picture.
        size: Height and width of that picture.
    """
    if lost.strength is None or not lost.map.any():
        return []
    side = max(1, largest_side(size) // lost.cell)
    places = gather_cells(lost.map > 0, side, longest=LONGEST_THING * side)
    parts = [part for place in places for part in _by_frame(lost, place)]
    return _put_together(lost, parts, side)


def gather_cells(mask: NDArray[np.bool_], side: int, *, longest: int = 0) -> Iterator[Cells]:
    """The cells of a mask that lie together, in pieces of about ``side`` cells a side; ``longest`` for thin ones."""
    reach = np.ones((GAP + 1, GAP + 1), np.uint8)
    count, labels = cv2.connectedComponents(cv2.dilate(mask.astype(np.uint8), reach), connectivity=8)
    cells = np.argwhere(mask)
    numbers = labels[mask]
    order = np.argsort(numbers, kind="stable")
    for place in np.split(cells[order], np.cumsum(np.bincount(numbers, minlength=count))[:-1]):
        if len(place):
            first, extent = place.min(axis=0), np.ptp(place, axis=0) + 1
            most = max(1, side, longest if is_thin(place) else 0)
            # Even pieces, which may be half as large again: a cut must not leave a sliver.
            pieces = (place - first) * np.maximum(1, np.rint(extent / most).astype(int)) // extent
            for piece in np.unique(pieces, axis=0):
                yield place[(pieces == piece).all(axis=1)]


def is_thin(cells: Cells) -> bool:
    """Whether cells make something long and thin.

    Example:
        >>> is_thin(np.argwhere(np.eye(30) > 0)), is_thin(np.argwhere(np.ones((30, 20)) > 0))
        (True, False)
    """
    length = float(np.hypot(*(np.ptp(cells, axis=0) + 1)))
    return len(cells) <= THIN * length * length


# --- frames -----------------------------------------------------------------------------------------------------------


def _shown_by(lost: LostDetail, cells: Cells, frame: int) -> NDArray[np.bool_]:
    rows, columns = cells.T
    if lost.showing is None:
        return np.asarray(lost.frames[rows, columns] == frame)
    first, last = lost.showing[rows, columns].T
    return np.asarray((first <= frame) & (frame <= last))


def _by_frame(lost: LostDetail, place: Cells) -> Iterator[LostThing]:
    """A place as the things of those frames that show a good part of it; what is left over goes to the nearest."""
    rows, columns = place.T
    assert lost.strength is not None
    strength, which = lost.strength[rows, columns] + np.float32(1e-9), lost.frames[rows, columns]
    owner = np.full(len(place), -1)
    while (owner < 0).any():
        left = owner < 0
        shown = {int(frame): left & _shown_by(lost, place, int(frame)) for frame in np.unique(which[left])}
        best = np.bincount(which[left], weights=strength[left])
        frame = max(shown, key=lambda one: (float(strength[shown[one]].sum()), float(best[one])))
        if (owner >= 0).any() and strength[shown[frame]].sum() < OWN_SHARE * strength.sum():
            break
        owner[shown[frame]] = frame
    frames = np.unique(owner[owner >= 0])
    rest = owner < 0
    owner[rest] = frames[np.abs(which[rest, None].astype(int) - frames[None]).argmin(axis=1)]
    for frame in frames:
        yield LostThing(place[owner == frame], int(frame), float(strength[owner == frame].sum()))


# --- parts of one thing -----------------------------------------------------------------------------------------------


def _put_together(lost: LostDetail, parts: list[LostThing], side: int) -> list[LostThing]:
    """Parts that hardly lie apart and that the frame of the strongest of them shows, as one thing each."""
    waiting = sorted(parts, key=lambda part: -part.strength)[:MOST_PARTS]
    first, last = (np.array([end(part.cells, axis=0) for part in waiting]) for end in (np.min, np.max))
    is_free = np.ones(len(waiting), bool)
    things = []
    for number, thing in enumerate(waiting):
        if not is_free[number]:
            continue
        is_free[number] = False
        found: int | None = number
        while found is not None:
            low, high = thing.cells.min(axis=0) - APART, thing.cells.max(axis=0) + APART
            close = np.flatnonzero(is_free & (first <= high).all(axis=1) & (last >= low).all(axis=1))
            near = _around(thing, low, high) if len(close) else None
            fitting = (
                int(one)
                for one in close
                if near is not None
                and _touches(near, waiting[one].cells - low)
                and _belongs(lost, thing, waiting[one], side)
            )
            found = next(fitting, None)
            if found is not None:
                is_free[found] = False
                cells = np.concatenate([thing.cells, waiting[found].cells])
                thing = LostThing(cells, thing.frame, thing.strength + waiting[found].strength)
        things.append(thing)
    return things


def _around(thing: LostThing, low: NDArray[np.intp], high: NDArray[np.intp]) -> NDArray[np.uint8]:
    """1 for each cell that is hardly apart from one of a thing, in the box of these corners."""
    around = np.zeros(tuple(high - low + 1), np.uint8)
    around[tuple((thing.cells - low).T)] = 1
    return np.asarray(cv2.dilate(around, np.ones((2 * APART + 1, 2 * APART + 1), np.uint8)), np.uint8)


def _touches(near: NDArray[np.uint8], cells: Cells) -> bool:
    inside = cells[((cells >= 0) & (cells < near.shape)).all(axis=1)]
    return bool(near[tuple(inside.T)].any())


def _belongs(lost: LostDetail, thing: LostThing, part: LostThing, side: int) -> bool:
    rows, columns = part.cells.T
    assert lost.strength is not None
    strength = lost.strength[rows, columns]
    shown = float(strength[_shown_by(lost, part.cells, thing.frame)].sum())
    if shown < (1 - OWN_SHARE) * float(strength.sum()):
        return False
    both = np.concatenate([thing.cells, part.cells])
    longest = int(np.ptp(both, axis=0).max()) + 1
    return longest <= side or (longest <= LONGEST_THING * side and is_thin(both))
