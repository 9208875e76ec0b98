"""Rims without a picture: what other software leaves, black or white, around a frame that it has moved.

A frame that was shifted, turned or scaled before it came here does not cover its picture any more. What is beyond it
was filled with black or white, and the edge of that is the sharpest thing far and wide: fused as it is, the rims of all
frames would be in the result. An empty rim is told by its shape in one frame (all beyond a few straight lines, nearly
along the sides) and by the others, which show the scene there, going on across these lines.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.int32]

NOTHING = 0.1
"""Of the range: what differs from black or white by no more is empty. JPEG leaves that much beside an edge."""
BARE, BARE_SHARE = 0.013, 0.3
"""What differs by no more is bare, and the share of a rim that is so at the least: dark corners of a scene are not."""
SHORTEST, MOST_SHORT = 0.125, 0.15
"""Of the longer side: what the lines in which a rim ends are long at the least; and what all shorter ones, as around a
dark corner, make of them at the most."""
STEEPEST = 0.25
"""Slope against the sides of the picture, at most, of the line in which a rim ends: frames are turned by little."""
MOST_LINES = 8
"""Of a frame: four of its own, and four sides of the picture that cut its corners off."""
BENT = (1.0, 3.0)
"""Pixels that the end of a rim may be off its line; JPEG moves it by more than a part of a pixel."""
SMALLEST_FRAME = 0.5
"""Of the picture: what a frame covers at the least."""
INSIDE = 2
"""Pixels within the end of a rim at which a frame must show something, and within which it is not trusted: that is
where black, moved by parts of a pixel or compressed, has mixed with the picture."""
FILLED_SHARE = 0.6
"""Of the places just inside: where there is something, at the least."""
FRAYED = 0.02
"""Of a side of the picture: what is empty, at the least, where a rim too narrow for a line of its own goes along it."""
SMALLEST_SIDE = 16
"""Pixels: of smaller pictures nothing could be told."""
SAMPLES = 64
"""Places along each side of the picture at which it is known whether a frame shows something."""
SHOWN_SHARE = 0.25
"""Of the places on the picture's sides that a rim hides: what another frame shows at the least. Black or white that all
frames have there, as around a page or a coin, is part of the scene."""
ACROSS = 12
"""Pixels to both sides of a line between which another frame is compared."""
LEAST_STEP, MOST_JUMP = 0.06, 0.3
"""Of the range: how far picture and rim are apart at the least; and of that step, what another frame may change by
across the same line at the most. More is the edge of a thing."""


@dataclass(frozen=True)
class EmptyRim:
    """A frame that may not cover its picture."""

    corners: Points
    """(n, 2) of what it shows, x and y, around it."""
    white: bool
    """Whether it is filled with white, and not with black."""
    size: tuple[int, int]
    """Height and width of the picture."""
    step: float
    """How far picture and rim are apart in brightness, 0..1."""
    frayed: tuple[bool, ...] = (False,) * 4
    """Top, bottom, left, right: whether the last line of the picture on this side is empty in part."""

    def shown(self, *, within: int = 0) -> NDArray[np.bool_]:
        """Where the frame shows something (H, W), but for so many pixels at the end of its rim."""
        mask: NDArray[Any] = np.zeros(self.size, np.uint8)
        cv2.fillConvexPoly(mask, self.corners, 1)
        if within:
            for line, frayed in zip((mask[0], mask[-1], mask[:, 0], mask[:, -1]), self.frayed, strict=True):
                line[...] *= not frayed
            side = 2 * within + 1
            # At the sides of the picture nothing is beyond that could have mixed in.
            mask = cv2.erode(mask, np.ones((side, side), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=1)
        return mask.astype(bool)


@dataclass(frozen=True)
class FoundRims:
    """The empty rims of a stack."""

    rims: Mapping[int, EmptyRim]
    """Of the frames that have one."""
    nowhere: NDArray[np.bool_] | None = None
    """(H, W): what none of the frames shows; None where every place is shown by one."""

    def shown(self, index: int) -> NDArray[np.bool_]:
        """Where a frame with a rim has a picture, (H, W); what none of the frames shows is left to it as it is.

        Made when it is asked for, so that memory does not grow with the frames.
        """
        shown = self.rims[index].shown(within=INSIDE)
        return shown if self.nowhere is None else shown | self.nowhere


class RimFinder:
    """Frames with an empty rim, told by all frames of a stack together; each is looked at once."""

    def __init__(self) -> None:
        self.rims: dict[int, EmptyRim] = {}
        """Of the frames that may have one, by their shape."""
        self._sides: dict[int, tuple[NDArray[np.bool_], NDArray[np.bool_]]] = {}

    def add(self, index: int, picture: NDArray[Any]) -> None:
        """Looks at a frame (H, W[, 3]): integers of the file, or float in 0..1."""
        if index in self._sides:
            return
        sides = _along_sides(picture)
        self._sides[index] = (_is_empty(sides, white=False), _is_empty(sides, white=True))
        rim = find_rim(picture)
        if rim is not None:
            self.rims[index] = rim

    def hiding(self, kept: Sequence[int]) -> dict[int, int]:
        """Frame with a rim -> the frame that shows most, and enough, of what it hides on the sides of the picture."""
        found = {}
        for index in kept:
            rim = self.rims.get(index)
            if rim is None:
                continue
            hidden = _along_sides(rim.shown()) == 0
            shown = {
                other: float((hidden & ~self._sides[other][rim.white]).sum()) / max(1, int(hidden.sum()))
                for other in kept
                if other != index and other in self._sides
            }
            best = max(shown, key=lambda other: shown[other], default=index)
            if shown.get(best, 0) >= SHOWN_SHARE:
                found[index] = best
        return found

    def find(self, kept: Sequence[int], read: Callable[[int], NDArray[Any]]) -> FoundRims:
        """The empty rims of a stack.

        Args:
            kept: the frames of the stack, all of which were looked at.
            read: gives one of them once more.
        """
        hiding = self.hiding(kept)
        found = {}
        # By the frame that is looked at, so that it is read once.
        for index, other in sorted(hiding.items(), key=lambda pair: pair[1]):
            if confirmed_by(self.rims[index], read(other)):
                found[index] = self.rims[index]
        nowhere: NDArray[np.bool_] | None = None
        if len(found) == len(kept):
            for rim in found.values():
                beyond = ~rim.shown(within=INSIDE)
                nowhere = beyond if nowhere is None else nowhere & beyond
        return FoundRims(dict(sorted(found.items())), nowhere)


def find_rim(picture: NDArray[Any]) -> EmptyRim | None:
    """The rim that a frame (H, W[, 3]) may have by its shape alone; None for most frames, at next to no cost.

    Example:
        >>> frame = np.full((40, 60), 0.5, np.float32)
        >>> frame[:, :5] = 0
        >>> find_rim(frame).corners.min(axis=0).tolist()
        [5, 0]
    """
    height, width = picture.shape[:2]
    if min(height, width) < SMALLEST_SIDE:
        return None
    corners = picture[:: max(1, height - 1), :: max(1, width - 1)]
    for white in (False, True):
        # A frame that was moved leaves a corner of its picture, if not all four.
        if _is_empty(corners, white=white).any():
            rim = _fit_rim(picture, white=white)
            if rim is not None:
                return rim
    return None


def confirmed_by(rim: EmptyRim, other: NDArray[Any]) -> bool:
    """Whether another frame (H, W[, 3]) shows the scene going on where the one with the rim ends."""
    inside, outside = _across_lines(rim.corners, rim.size, ACROSS)
    jump = abs(_brightness(_at(other, inside)) - _brightness(_at(other, outside)))
    return jump <= MOST_JUMP * rim.step


def _fit_rim(picture: NDArray[Any], *, white: bool) -> EmptyRim | None:
    size = _, width = picture.shape[0], picture.shape[1]
    empty = _is_empty(picture, white=white).astype(np.uint8)
    # Specks in the rim, as JPEG leaves them, are no picture.
    content = cv2.morphologyEx(1 - empty, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8), borderValue=0)
    rows = np.flatnonzero(content.any(axis=1))
    if not rows.size:
        return None
    there = content[rows]
    ends = there.argmax(axis=1), width - 1 - there[:, ::-1].argmax(axis=1)
    points = np.concatenate([np.stack([end, rows], axis=1) for end in ends]).astype(np.int32)
    hull = cv2.convexHull(points)
    for bent in BENT:
        corners = np.asarray(cv2.approxPolyDP(hull, bent, closed=True)[:, 0], np.int32)
        if _is_frame(corners, size):
            return _judge_rim(picture, corners, white=white)
    return None


def _is_frame(corners: Points, size: tuple[int, int]) -> bool:
    """Whether this is the shape of a frame that was moved a little."""
    height, width = size
    if not 4 <= len(corners) <= MOST_LINES:
        return False
    if float(cv2.contourArea(corners)) < SMALLEST_FRAME * (height - 1) * (width - 1):
        return False
    lines = _lines(corners, size)
    straight = sum(_length(*line) for line in lines if _length(*line) >= SHORTEST * max(size))
    along_sides = all(_steepness(*line) <= STEEPEST for line in lines if _length(*line) >= SHORTEST * max(size))
    # A dark corner of the scene may cut one off the frame.
    return along_sides and straight > 0 and sum(_length(*line) for line in lines) <= (1 + MOST_SHORT) * straight


def _judge_rim(picture: NDArray[Any], corners: Points, *, white: bool) -> EmptyRim | None:
    """The rim beyond these corners, if it is bare and the picture begins where it ends."""
    size = picture.shape[0], picture.shape[1]
    inside, outside = _across_lines(corners, size, INSIDE)
    values = _at(picture, inside)
    step = abs(_brightness(values) - _brightness(_at(picture, outside)))
    shown = EmptyRim(corners, white, size, step).shown()
    filled = 1 - _is_empty(values, white=white).mean()
    bare = _is_empty(picture, white=white, tolerance=BARE)
    if filled < FILLED_SHARE or bare[~shown].mean() < BARE_SHARE or step < LEAST_STEP:
        return None
    left = _is_empty(picture, white=white, tolerance=NOTHING) & shown
    frayed = [float(line.mean()) > FRAYED for line in (left[0], left[-1], left[:, 0], left[:, -1])]
    return EmptyRim(corners, white, size, step, tuple(frayed))


def _lines(corners: Points, size: tuple[int, int]) -> list[tuple[Points, Points]]:
    """The sides of what a frame shows that lie within the picture; what is shorter than a few bends is one."""
    height, width = size
    found = []
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        on_side = any(
            start[axis] == end[axis] == side for axis, last in ((0, width - 1), (1, height - 1)) for side in (0, last)
        )
        if not on_side and _length(start, end) > 4 * BENT[-1]:
            found.append((start, end))
    return found


def _length(start: Points, end: Points) -> int:
    return int(np.abs(end - start).max())


def _steepness(start: Points, end: Points) -> float:
    across, down = np.abs(end - start)
    return float(min(across, down) / max(across, down, 1))


def _across_lines(corners: Points, size: tuple[int, int], distance: int) -> tuple[Points, Points]:
    """Places (n, 2) inside and outside the lines of a rim, so many pixels away, or where the picture ends before."""
    last = size[1] - 1, size[0] - 1
    middle = corners.mean(axis=0)
    found = []
    for start, end in _lines(corners, size):
        along = np.linspace(start, end, _length(start, end) + 1)
        normal = np.array([end[1] - start[1], start[0] - end[0]], np.float64)
        normal /= np.linalg.norm(normal)
        inwards = normal if (middle - along.mean(axis=0)) @ normal > 0 else -normal
        found.append([np.clip(np.rint(along + way * distance * inwards), 0, last) for way in (1, -1)])
    inside, outside = (np.concatenate(places).astype(np.int32) for places in zip(*found, strict=True))
    return inside, outside


def _at(picture: NDArray[Any], places: Points) -> NDArray[Any]:
    return np.asarray(picture[places[:, 1], places[:, 0]])


def _along_sides(picture: NDArray[Any]) -> NDArray[Any]:
    """Values at SAMPLES places on each side of a picture, (4 SAMPLES[, 3])."""
    height, width = picture.shape[:2]
    rows, columns = (np.linspace(0, length - 1, SAMPLES).astype(np.intp) for length in (height, width))
    sides = picture[0, columns], picture[-1, columns], picture[rows, 0], picture[rows, -1]
    return np.concatenate([np.asarray(side) for side in sides])


def _is_empty(values: NDArray[Any], *, white: bool, tolerance: float = NOTHING) -> NDArray[np.bool_]:
    """Where values (...[, 3]) of a picture are all but black, or all but white."""
    most = 1.0 if values.dtype.kind == "f" else float(np.iinfo(values.dtype).max)
    limit = most * (1 - tolerance) if white else most * tolerance
    empty = values >= limit if white else values <= limit
    return np.asarray(empty.all(axis=-1) if values.ndim > 1 and values.shape[-1] == 3 else empty)


def _brightness(values: NDArray[Any]) -> float:
    """The mean of values of a picture, 0..1."""
    most = 1.0 if values.dtype.kind == "f" else float(np.iinfo(values.dtype).max)
    return float(values.mean(dtype=np.float64)) / most
