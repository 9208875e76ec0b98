"""Motions of a picture as 3 x 3 matrices: their models, their small changes, and pixels moved by them.

A transform maps a point (x, y, 1) with pixel centres at whole numbers. Small changes are written with the eight
generators of the plane's projective motions in a fixed order, so that each model is the first few of them:
translation 2, similarity 4 (+ growth, rotation), affine 6 (+ two shears), homography 8 (+ two tilts).
"""

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
"""3 x 3, float64."""

MODELS: dict[str, int] = {"translation": 2, "similarity": 4, "affine": 6, "homography": 8}
"""How many generators each model of motion may use."""

_STRIP = 128
_REACH = 4
"""Rows beyond those that a strip needs: those of the kernel, and one for rounding."""


def combine_generators(amounts: NDArray[np.float64]) -> Matrix:
    """The 3 x 3 matrix whose exponential is the motion with these amounts of the first generators.

    Args:
        amounts: Up to 8 numbers: shift along x and y, growth, rotation, stretch, shear, tilt along x and y.
    """
    x, y, growth, turn, stretch, shear, tilt_x, tilt_y = np.concatenate([amounts, np.zeros(8 - len(amounts))])
    return np.array([[growth + stretch, shear - turn, x], [shear + turn, growth - stretch, y], [tilt_x, tilt_y, 0.0]])


def motion_of(amounts: NDArray[np.float64]) -> Matrix:
    """The transform with these amounts of the generators; its last entry is 1.

    Example:
        >>> motion_of(np.array([0.5, -1.0])).tolist()
        [[1.0, 0.0, 0.5], [0.0, 1.0, -1.0], [0.0, 0.0, 1.0]]
    """
    generator = combine_generators(amounts)
    halvings = max(0, int(np.ceil(np.log2(max(np.abs(generator).max(), 1e-12)))) + 4)
    term = np.eye(3)
    result: Matrix = np.eye(3)
    for order in range(1, 12):
        term = term @ generator / (order * 2.0**halvings)
        result = result + term
    for _ in range(halvings):
        result = result @ result
    return np.asarray(result / result[2, 2], np.float64)


def amounts_of(transform: Matrix) -> NDArray[np.float64]:
    """The amounts (8,) of the generators that make up a transform near the identity; undoes :func:`motion_of`.

    Example:
        >>> amounts_of(motion_of(np.array([0.1, 0.2, 0.03]))).round(9).tolist()[:3]
        [0.1, 0.2, 0.03]
    """
    root = transform / np.cbrt(np.linalg.det(transform))
    doublings = 0
    while np.abs(root - np.eye(3)).max() > 0.05 and doublings < 20:
        root, doublings = _square_root(root), doublings + 1
    rest = root - np.eye(3)
    logarithm, power = np.zeros((3, 3)), np.eye(3)
    for order in range(1, 16):
        power = power @ rest
        logarithm += power * ((-1.0) ** (order + 1) / order)
    a = (logarithm - logarithm[2, 2] * np.eye(3)) * 2.0**doublings
    growth, stretch = (a[0, 0] + a[1, 1]) / 2, (a[0, 0] - a[1, 1]) / 2
    turn, shear = (a[1, 0] - a[0, 1]) / 2, (a[1, 0] + a[0, 1]) / 2
    return np.array([a[0, 2], a[1, 2], growth, turn, stretch, shear, a[2, 0], a[2, 1]])


def _square_root(matrix: Matrix) -> Matrix:
    """The principal square root, by the iteration of Denman and Beavers."""
    root, inverse = matrix, np.eye(3)
    for _ in range(12):
        root, inverse = (root + np.linalg.inv(inverse)) / 2, (inverse + np.linalg.inv(root)) / 2
    return root


def unit_square(size: tuple[int, int]) -> Matrix:
    """The matrix from pixels to coordinates with the middle at 0 and the corners at distance 1.

    In these coordinates all generators move the corners by about as much, which keeps equations well conditioned.

    Args:
        size: Height and width in pixels.
    """
    height, width = size
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    scale = 1.0 / max(np.hypot(middle_x, middle_y), 1.0)
    return np.array([[scale, 0.0, -scale * middle_x], [0.0, scale, -scale * middle_y], [0.0, 0.0, 1.0]])


def corners(size: tuple[int, int]) -> NDArray[np.float64]:
    """The four corner pixels (4, 2) as x, y of a picture with this height and width."""
    height, width = size
    return np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]], np.float64)


def move_points(transform: Matrix, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The points (N, 2) as x, y after the transform.

    Example:
        >>> move_points(np.diag([2.0, 2.0, 1.0]), np.array([[1.0, 3.0]])).tolist()
        [[2.0, 6.0]]
    """
    moved = points @ transform[:, :2].T + transform[:, 2]
    return moved[:, :2] / moved[:, 2:]


def corner_motion(transform: Matrix, size: tuple[int, int]) -> float:
    """How far the transform moves the corner that it moves most, in pixels.

    Example:
        >>> corner_motion(motion_of(np.array([3.0, 4.0])), (10, 10))
        5.0
    """
    points = corners(size)
    return float(np.hypot(*(move_points(transform, points) - points).T).max())


def at_level(transform: Matrix, level: int) -> Matrix:
    """A transform of the finest octave in pixels of a coarser one, whose pixels lie on every 2^level-th.

    Example:
        >>> at_level(motion_of(np.array([4.0, 2.0])), 1)[:2, 2].tolist()
        [2.0, 1.0]
    """
    grow = np.diag([2.0**level, 2.0**level, 1.0])
    return np.asarray(np.linalg.inv(grow) @ transform @ grow, np.float64)


# --- pixels ---------------------------------------------------------------------------------------------------------


def warp_picture(picture: NDArray[np.float32], transform: Matrix) -> NDArray[np.float32]:
    """The picture moved by the transform, on the same grid; outside its source the nearest border pixel is repeated.

    Cubic interpolation over 4 x 4 pixels. Its overshoot is cut off: no value leaves the range of the 3 x 3 source
    pixels around its origin. Lanczos over 8 x 8 pixels takes more than five times as long (0.75 instead of 0.13 CPU
    seconds for 12 megapixels in colour); what fusing loses with this one: ``benchmarks/alignment_accuracy.py --fuse``.

    Args:
        picture: (H, W) or (H, W, 3), float32.
        transform: Point of the picture to point of the result.
    """
    result = np.empty_like(picture)
    height, width = picture.shape[:2]
    fetch = np.asarray(np.linalg.inv(transform), np.float64)
    # Strips bound the memory of the intermediate pictures, and stay in the cache.
    for top in range(0, height, _STRIP):
        bottom = min(top + _STRIP, height)
        ends = np.array([[x, y] for x in (0, width - 1) for y in (top, bottom - 1)], np.float64)
        rows = move_points(fetch, ends)[:, 1]
        first = int(np.clip(np.floor(rows.min()) - _REACH, 0, height - 1))
        last = int(np.clip(np.ceil(rows.max()) + _REACH, first, height - 1))
        begin, origin = np.eye(3), np.eye(3)
        begin[1, 2], origin[1, 2] = top, -first
        _warp_strip(picture[first : last + 1], origin @ fetch @ begin, result[top:bottom])
    return result


def _warp_strip(source: NDArray[np.float32], fetch: Matrix, result: NDArray[np.float32]) -> None:
    """Fills rows of a result from the rows of the source that they need."""
    size = (result.shape[1], result.shape[0])
    around = np.ones((3, 3), np.uint8)

    def move(rows: NDArray[Any], kernel: int) -> NDArray[np.float32]:
        flags = kernel | cv2.WARP_INVERSE_MAP
        return np.asarray(cv2.warpPerspective(rows, fetch, size, flags=flags, borderMode=cv2.BORDER_REPLICATE))

    moved = move(source, cv2.INTER_CUBIC)
    np.minimum(moved, move(cv2.dilate(source, around), cv2.INTER_NEAREST), out=moved)
    np.maximum(moved, move(cv2.erode(source, around), cv2.INTER_NEAREST), out=result)


def fetch_plane(
    plane: NDArray[np.float32], transform: Matrix, size: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """A plane (H, W) on another grid, linearly interpolated, and where it is inside by at least four pixels.

    Args:
        plane: What to fetch from.
        transform: Point of the grid to point of the plane.
        size: Height and width of the grid.
    """
    height, width = size
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    moved = np.asarray(cv2.warpPerspective(plane, transform, (width, height), flags=flags), np.float32)
    spans = valid_spans(np.asarray(np.linalg.inv(transform), np.float64), size) + np.array([4.0, -4.0])
    inside = mask_of_spans(spans, width)
    inside[:4], inside[-4:] = False, False
    return moved, inside


def valid_spans(transform: Matrix, size: tuple[int, int]) -> NDArray[np.float64]:
    """(H, 2): for each row the first and the last x, not rounded, that lie inside the moved picture.

    A row without any has a first x beyond its last. The moved picture is a convex quadrilateral, so one span per row
    says everything.

    Args:
        transform: Point of the picture to point of the grid.
        size: Height and width of both.
    """
    height, width = size
    quadrilateral = move_points(transform, corners(size))
    if _signed_area(quadrilateral) < 0:
        quadrilateral = quadrilateral[::-1]
    rows = np.arange(height, dtype=np.float64)
    first, last = np.zeros(height), np.full(height, width - 1.0)
    slack = 1e-6  # a border pixel that lands on itself up to rounding is inside
    for (x0, y0), (x1, y1) in zip(quadrilateral, np.roll(quadrilateral, -1, axis=0), strict=True):
        # Inside is where  a * x + b * row + c >= 0.
        a, b = -(y1 - y0), x1 - x0
        c = -(a * x0 + b * y0) + slack * np.hypot(a, b)
        rest = b * rows + c
        if abs(a) < 1e-12:
            last = np.where(rest < 0, -np.inf, last)
        elif a > 0:
            first = np.maximum(first, -rest / a)
        else:
            last = np.minimum(last, -rest / a)
    return np.stack([first, last], axis=1)


def mask_of_spans(spans: NDArray[np.float64], width: int) -> NDArray[np.bool_]:
    """(H, W): True for the pixels inside the span of their row."""
    columns = np.arange(width)
    inside: NDArray[np.bool_] = (columns >= spans[:, :1]) & (columns <= spans[:, 1:])
    return inside


def largest_rectangle(all_spans: Sequence[NDArray[np.float64]]) -> tuple[int, int, int, int]:
    """(top, left, bottom, right), ends excluded: the largest rectangle inside all moved pictures.

    All zeros when they share no pixel.

    Args:
        all_spans: What :func:`valid_spans` gave for each of them.

    Example:
        >>> largest_rectangle([valid_spans(motion_of(np.array([2.5, -1.0])), (10, 12))])
        (0, 3, 9, 12)
    """
    spans = np.stack(all_spans)
    first = np.ceil(spans[..., 0].max(axis=0) - 1e-9)
    last = np.floor(np.maximum(spans[..., 1].min(axis=0), -1.0) + 1e-9) + 1
    best, answer = 0.0, (0, 0, 0, 0)
    rows = np.arange(len(first))
    for top in rows:
        # The common area is convex: what fits at the top row and at the bottom row fits between.
        left, right = np.maximum(first[top], first[top:]), np.minimum(last[top], last[top:])
        area = np.maximum(right - left, 0.0) * (rows[top:] - top + 1)
        index = int(np.argmax(area))
        if area[index] > best:
            best = float(area[index])
            answer = (int(top), int(left[index]), int(rows[top + index]) + 1, int(right[index]))
    return answer


def _signed_area(polygon: NDArray[np.float64]) -> float:
    x, y = polygon.T
    return float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) / 2)
