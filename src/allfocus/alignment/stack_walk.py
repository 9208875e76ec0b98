"""One pass over the frames of a stack: from the reference outwards, each frame measured against some of those before.

Frames are read one by one, and at most five of them, much reduced, are kept at a time, so memory does not grow with the
length of the stack. Each frame is measured against the three frames before it and against the reference.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.brightness import estimate_gains
from allfocus.alignment.estimation import PairEstimate, estimate_pair, refine_pair
from allfocus.alignment.octaves import PreparedFrame, prepare_frame
from allfocus.alignment.stack_geometry import size_text
from allfocus.alignment.transforms import Matrix
from allfocus.errors import InputError

ReadFrame = Callable[[int], NDArray[np.float32]]
"""Gives the pixels of a frame, (H, W, 3) or (H, W), float32 in 0..1, by its index from 0."""

LINKS = 3
"""Frames before each one that it is measured against. In trials before ``EXPLAINED`` was introduced three instead of
one helped the scene "flat" (0.18 -> 0.11 pixel, seed 0) and hurt "insect" (0.22 -> 0.34); not measured again since."""


@dataclass(eq=False)
class Walk:
    """What one pass over the frames has found."""

    reference: int
    count: int
    size: tuple[int, int] = (0, 0)
    channels: int = 1
    pairs: dict[tuple[int, int], PairEstimate] = field(default_factory=dict)
    """By (moving, fixed)."""
    gains: list[tuple[int, int, NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    positions: dict[int, Matrix] = field(default_factory=dict)
    """Of the frames that belong, chained; pixels."""
    agreements: dict[int, float] = field(default_factory=dict)
    """The best of each frame."""
    blanks: set[int] = field(default_factory=set)
    lights: dict[int, float] = field(default_factory=dict)
    """Of each frame that was read, in its brightest parts."""


def walk_from_any(
    read: ReadFrame, count: int, model: str, reference: int | None, report: Callable[[int, int], None]
) -> Walk:
    """The pass from the reference given, or from the frame nearest to the middle to which others belong."""
    if reference is not None:
        return walk_frames(read, count, model, reference, report)
    best: Walk | None = None
    for candidate in sorted(range(count), key=lambda index: (abs(index - count // 2), index)):
        walk = walk_frames(read, count, model, candidate, report)
        if best is None or len(walk.positions) > len(best.positions):
            best = walk
        # Unless most frames are strangers to this one, it is no stranger itself.
        if 2 * len(best.positions) >= count and len(best.positions) > 1:
            break
        if abs(candidate - count // 2) >= 3:
            break
    assert best is not None
    return best


def walking_order(count: int, reference: int) -> list[int]:
    """The order in which a pass from the reference reads the frames, unless it has to begin again from another.

    Example:
        >>> walking_order(5, 2)
        [2, 3, 4, 1, 0]
    """
    onwards, back = _directions(count, reference)
    return [reference, *onwards, *back]


def _directions(count: int, reference: int) -> tuple[range, range]:
    return range(reference + 1, count), range(reference - 1, -1, -1)


def walk_frames(read: ReadFrame, count: int, model: str, reference: int, report: Callable[[int, int], None]) -> Walk:
    """One pass over the frames, from the reference to the end and from the reference to the beginning."""
    walk = Walk(reference, count)
    middle = _prepare(read, reference, walk)
    walk.positions[reference] = np.eye(3)
    walk.agreements[reference] = 1.0
    done = 1
    report(done, count)
    for direction in _directions(count, reference):
        before: list[tuple[int, PreparedFrame]] = [(reference, middle)]
        for index in direction:
            frame = _prepare(read, index, walk)
            if _measure(walk, index, frame, before, (reference, middle), model):
                before = [*before, (index, frame)][-LINKS:]
            done += 1
            report(done, count)
    return walk


def read_checked(read: ReadFrame, index: int, walk: Walk) -> NDArray[np.float32]:
    """A frame that fits the others; the first one tells the walk their size.

    Raises:
        InputError: its shape or values are those of no picture, or not those of the frames before.
    """
    frame = np.asarray(read(index))
    if not (frame.ndim == 2 or (frame.ndim == 3 and frame.shape[2] == 3)) or min(frame.shape) < 1:
        raise InputError(f"frame {index + 1} has shape {frame.shape}; expected (height, width) or (height, width, 3)")
    if not np.isfinite(frame).all():
        raise InputError(f"frame {index + 1} holds values that are not finite; repair or leave out that frame")
    size, channels = (int(frame.shape[0]), int(frame.shape[1])), 1 if frame.ndim == 2 else 3
    if walk.size == (0, 0):
        walk.size, walk.channels = size, channels
    elif (size, channels) != (walk.size, walk.channels):
        raise InputError(
            f"frame {index + 1} is {size_text(size)} with {channels} channels, frame {walk.reference + 1} "
            f"{size_text(walk.size)} with {walk.channels}; all frames of a stack need the same size"
        )
    return frame.astype(np.float32, copy=False)


def _prepare(read: ReadFrame, index: int, walk: Walk) -> PreparedFrame:
    prepared = prepare_frame(read_checked(read, index, walk))
    if prepared.blank:
        walk.blanks.add(index)
    walk.lights[index] = float(np.percentile(prepared.thumbnail, 99))
    return prepared


def _measure(
    walk: Walk,
    index: int,
    frame: PreparedFrame,
    before: Sequence[tuple[int, PreparedFrame]],
    reference: tuple[int, PreparedFrame],
    model: str,
) -> bool:
    """Whether the frame belongs; if so, its measurements are added to the walk."""
    others = {number: other for number, other in [*reversed(before), reference]}
    walk.agreements[index] = 0.0
    begin: Matrix | None = None
    for number, other in others.items():
        pair: PairEstimate | None
        if begin is None:
            pair = estimate_pair(frame, other, model=model)
            walk.agreements[index] = max(walk.agreements[index], pair.agreement)
            if not pair.belongs:
                continue
            begin = walk.positions[number] @ pair.transform
        else:
            pair = refine_pair(frame, other, np.linalg.inv(walk.positions[number]) @ begin, model=model)
            if pair is None:
                continue
        walk.pairs[index, number] = pair
        if len(others) > 1 and number not in (next(iter(others)), reference[0]):
            continue  # brightness needs no more than the neighbour and the reference
        across = np.linalg.inv(other.from_thumbnail) @ pair.transform @ frame.from_thumbnail
        gain = estimate_gains(frame.thumbnail, other.thumbnail, across)
        walk.gains.append((index, number, gain.gains, gain.errors))
    if begin is None:
        return False
    walk.positions[index] = begin / begin[2, 2]
    return True
