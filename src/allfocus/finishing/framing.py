"""Which part of a picture is kept, and how it is turned: crop, straightening, quarter turns."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.finishing.finish import Finish
from allfocus.images.conversion import from_integers

Area = tuple[int, int, int, int]
"""(left, top, right, bottom), ends excluded."""

MARGIN = 3
"""Pixels around a piece that interpolation looks at."""
BLOCK = 1024
"""Pixels along the side of the pieces that a picture is turned in; OpenCV turns none of more than 32,767."""
OUTSIDE = 0.01
"""Pixels by which rounding may put a corner outside the picture."""


class ReadablePicture(Protocol):
    """What a piece can be cut from: an array, or what is read from the disk or made in parts."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Height, width, and 3 for colours."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its samples."""
        ...

    def __getitem__(self, part: tuple[slice, slice], /) -> NDArray[Any]:
        """The samples of some rows and columns."""
        ...


@dataclass(frozen=True)
class Framing:
    """Where the pixels of a finished picture lie in the one it is made of."""

    width: int
    height: int
    """Of the finished picture."""
    matrix: tuple[tuple[float, float, float], tuple[float, float, float]]
    """From places of the finished picture to places of the other."""
    copies: bool
    """Whether pixels are copied, and not mixed of their neighbours."""


def find_frame(finish: Finish, width: int, height: int) -> Framing:
    """The frame of a picture of this size.

    Raises:
        InputError: the crop reaches beyond the picture.

    Example:
        >>> find_frame(Finish(turns=1), 6, 4).width
        4
    """
    left, top, wide, high = _rectangle(finish, width, height)
    angle = math.radians(finish.angle)
    cosine, sine = math.cos(angle), math.sin(angle)
    middle = np.array([left + wide / 2, top + high / 2])
    across, down = np.array([cosine, -sine]), np.array([sine, cosine])  # the finished axes, in the picture
    corners = [middle + a * wide / 2 * across + b * high / 2 * down for a in (-1, 1) for b in (-1, 1)]
    if any(min(x, y) < -OUTSIDE or x > width + OUTSIDE or y > height + OUTSIDE for x, y in corners):
        raise InputError(
            f"the crop of {wide}x{high} at {left}, {top} reaches beyond the picture of {width}x{height}; "
            "make it smaller",
            code="bad-option",
        )
    size = (wide, high)
    for _ in range(finish.turns):  # a turn to the right: what was up points right
        across, down = -down, across
        size = (size[1], size[0])
    start = middle - across * size[0] / 2 - down * size[1] / 2
    first, second = ((float(across[k]), float(down[k]), float(start[k])) for k in (0, 1))
    return Framing(*size, (first, second), copies=finish.angle == 0)


def _rectangle(finish: Finish, width: int, height: int) -> tuple[int, int, int, int]:
    """Left, top, width and height of what is kept, before it is turned."""
    if finish.crop is not None:
        return finish.crop.left, finish.crop.top, finish.crop.width, finish.crop.height
    if finish.angle == 0:
        return 0, 0, width, height
    cosine, sine = math.cos(math.radians(finish.angle)), abs(math.sin(math.radians(finish.angle)))
    share = min(width / (width * cosine + height * sine), height / (width * sine + height * cosine))
    wide, high = (math.floor(side * share) for side in (width, height))
    wide, high = wide - (width - wide) % 2, high - (height - high) % 2  # so that it lies in the very middle
    return (width - max(1, wide)) // 2, (height - max(1, high)) // 2, max(1, wide), max(1, high)


def cut_frame(picture: ReadablePicture, frame: Framing) -> NDArray[np.float32]:
    """The whole finished picture, ``(H, W)`` or ``(H, W, 3)``, 0..1."""
    result = np.empty((frame.height, frame.width, *picture.shape[2:]), np.float32)
    for top in range(0, frame.height, BLOCK):
        for left in range(0, frame.width, BLOCK):
            right, bottom = min(left + BLOCK, frame.width), min(top + BLOCK, frame.height)
            result[top:bottom, left:right] = cut_piece(picture, frame, (left, top, right, bottom))
    return result


def cut_piece(picture: ReadablePicture, frame: Framing, area: Area, *, level: int = 0) -> NDArray[np.float32]:
    """A piece of the finished picture, 0..1.

    Args:
        picture: What it is made of, at a reduced size if ``level`` says so; only what the piece shows is read.
        frame: Of the full size.
        area: Of the piece, in pixels of the finished picture at this level; not empty.
        level: How often both are halved.
    """
    left, top, right, bottom = area
    scale = 2**level
    fetch = np.array(frame.matrix)
    fetch[:, 2] = fetch[:, 2] / scale + fetch[:, :2] @ (left + 0.5, top + 0.5) - 0.5  # pixel centres, from 0
    ends = np.array([[x, y, 1] for x in (0, right - left - 1) for y in (0, bottom - top - 1)]) @ fetch.T
    height, width = picture.shape[:2]
    first = np.clip(np.floor(ends.min(axis=0)).astype(int) - MARGIN, 0, (width - 1, height - 1))
    last = np.clip(np.ceil(ends.max(axis=0)).astype(int) + MARGIN + 1, first + 1, (width, height))
    piece = from_integers(np.asarray(picture[first[1] : last[1], first[0] : last[0]]))
    fetch[:, 2] -= first
    size = (right - left, bottom - top)
    if frame.copies and level == 0:
        return _copy(piece, fetch, size)
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    moved = np.asarray(cv2.warpAffine(piece, fetch, size, flags=flags, borderMode=cv2.BORDER_REPLICATE), np.float32)
    # Cubic interpolation swings beyond its neighbours at sharp edges; not beyond all of them.
    return np.clip(moved.reshape(size[1], size[0], *picture.shape[2:]), piece.min(), piece.max())


def _copy(piece: NDArray[np.float32], fetch: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float32]:
    """Pixels by whole numbers, for frames that are turned by quarters at most."""
    across, down = np.arange(size[0]), np.arange(size[1])
    (a, b, x), (c, d, y) = np.rint(fetch).astype(int)
    if a:
        return piece[np.ix_(d * down + y, a * across + x)]
    return piece[np.ix_(c * across + y, b * down + x)].swapaxes(0, 1)
