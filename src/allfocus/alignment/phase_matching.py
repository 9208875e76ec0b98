"""The motion between two frames by the phase of their octaves, coarse to fine: right to about half a pixel.

Each octave is divided by its own local strength. What is left (the local phase) is matched by Gauss-Newton steps with
the mean of both gradients (Malis 2004, "efficient second-order minimization"). Every pixel counts by its local
correlation with the other frame: where one frame is blurred beyond recognition, or shows something else, it has no say,
and a coarser octave speaks for that place.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.octaves import Plane, PreparedFrame
from allfocus.alignment.transforms import Matrix, at_level, corner_motion, fetch_plane, motion_of, unit_square

OCTAVES_AT_ONCE = 8
"""Octaves that share each step: the finest gives precision, the coarser ones hold where it has no content."""

_SEARCH_PIXELS = 128 * 128
_SAMPLES = 100_000
_WINDOW = (11, 11)
_RESIDUAL_SCALE = 0.5


def search_level(frame: PreparedFrame) -> int:
    """The octave on which a search begins: the finest one that is small enough, or the coarsest."""
    coarsest = len(frame.octaves) - 1
    small = (level for level in range(coarsest) if frame.octaves[level].size <= _SEARCH_PIXELS)
    return next(small, coarsest)


def descend(
    moving: PreparedFrame, fixed: PreparedFrame, fetch: Matrix, level: int, count: int
) -> tuple[Matrix, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The transform after Gauss-Newton steps on this octave and the coarser ones beside it, and the last equations."""
    base = fixed.octaves[0].shape
    size = (base[0], base[1])
    to_unit = unit_square(size)
    from_unit = np.linalg.inv(to_unit)
    levels = range(level, min(level + OCTAVES_AT_ONCE, len(fixed.octaves)))
    enough = 0.004 if level == 0 else 0.02 * 2.0**level  # pixels at the corner; after a coarse octave finer ones follow
    most = 12 if level >= 2 else 8
    for step in range(most):
        information, pull = np.zeros((8, 8)), np.zeros(8)
        for octave in levels:
            more_information, more_pull = _equations(moving, fixed, fetch, octave, to_unit)
            information += more_information
            pull += more_pull
        part = information[:count, :count]
        damped = part + np.diag(np.diag(part)) * 1e-4 + np.eye(count) * 1e-6
        change = motion_of(np.asarray(np.linalg.solve(damped, pull[:count]), np.float64))
        change = from_unit @ change @ to_unit
        if not np.isfinite(change).all() or corner_motion(change, size) > 0.2 * max(size):
            break  # nothing holds the pictures together here
        moved = corner_motion(change, size)
        if moved < enough or step == most - 1:
            break
        fetch = fetch @ change
    return fetch, (information, pull)


def _equations(
    moving: PreparedFrame, fixed: PreparedFrame, fetch: Matrix, level: int, to_unit: Matrix
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normal equations (8, 8), (8,) of one octave for a change of the transform, in ``unit_square`` coordinates."""
    target = fixed.octaves[level]
    size = (target.shape[0], target.shape[1])
    source, inside = fetch_plane(moving.octaves[level], at_level(fetch, level), size)
    weight = _local_correlation(source, target)
    weight *= inside
    chosen = np.flatnonzero(weight > 0.005)
    if len(chosen) < 16:
        return np.zeros((8, 8)), np.zeros(8)
    stride = max(1, len(chosen) // _SAMPLES)
    chosen = chosen[::stride]
    both = source + target
    gradient_x = cv2.Sobel(both, cv2.CV_32F, 1, 0, scale=1 / 16).ravel()[chosen].astype(np.float64)
    gradient_y = cv2.Sobel(both, cv2.CV_32F, 0, 1, scale=1 / 16).ravel()[chosen].astype(np.float64)
    residual = (target.ravel()[chosen] - source.ravel()[chosen]).astype(np.float64)
    weights = weight.ravel()[chosen].astype(np.float64)
    weights *= (_RESIDUAL_SCALE**2 / (_RESIDUAL_SCALE**2 + residual**2)) ** 2
    variance = float(np.sum(weights * residual**2) / np.sum(weights)) + 1e-4
    pixel = 2.0**level
    unit = to_unit[0, 0]
    x = (chosen % size[1]) * (pixel * unit) + to_unit[0, 2]
    y = (chosen // size[1]) * (pixel * unit) + to_unit[1, 2]
    along_x, along_y = gradient_x / (pixel * unit), gradient_y / (pixel * unit)
    radial = x * along_x + y * along_y
    slopes = np.stack(
        [
            along_x,
            along_y,
            radial,
            x * along_y - y * along_x,
            x * along_x - y * along_y,
            y * along_x + x * along_y,
            -x * radial,
            -y * radial,
        ]
    )
    weighted = slopes * (weights * (stride / variance))
    return weighted @ slopes.T, weighted @ residual


def _local_correlation(first: Plane, second: Plane) -> Plane:
    """How much each pixel may say: correlation of two octaves around it to the fourth, content of the poorer squared.

    It is 0 where the correlation is negative: a strong blur turns light stripes into dark ones ("spurious resolution").
    The high powers were chosen on rendered stacks; lower ones double the error where near things hide far ones.
    """
    shared = cv2.blur(first * second, _WINDOW)
    content_first, content_second = cv2.blur(first * first, _WINDOW), cv2.blur(second * second, _WINDOW)
    correlation = np.maximum(shared, 0) ** 2 / (content_first * content_second + np.float32(0.01))
    content = np.minimum(content_first, content_second)
    return np.asarray((correlation * content) ** 2, np.float32)


def agreements(moving: PreparedFrame, fixed: PreparedFrame, fetch: Matrix, levels: Sequence[int]) -> list[float]:
    """Correlation of each octave after the motion; octaves with too few pixels to tell chance apart are left out."""
    found: list[float] = []
    for level in levels:
        target = fixed.octaves[level]
        source, inside = fetch_plane(moving.octaves[level], at_level(fetch, level), (target.shape[0], target.shape[1]))
        if found and inside.sum() < 2500:
            break
        first, second = source[inside].astype(np.float64), target[inside].astype(np.float64)
        strength = float(np.sqrt(np.sum(first**2) * np.sum(second**2)))
        found.append(float(np.sum(first * second)) / strength if strength > 0 else 0.0)
    return found


# --- the search for a beginning -------------------------------------------------------------------------------------


def search(moving: PreparedFrame, fixed: PreparedFrame, count: int) -> Matrix:
    """A transform near enough to the right one for the steps to find it, from small pictures."""
    coarsest = len(fixed.octaves) - 1
    level = search_level(fixed)
    growths: list[tuple[float, float]] = [(1.0, 0.0)]
    best, best_score = np.eye(3), -1.0
    wider = [(growth, turn) for growth in (1.0, 0.95, 1.05, 0.9, 1.1) for turn in (0.0, -2.5, 2.5, -5.0, 5.0)][1:]
    for growth, turn in growths + (wider if count > 2 else []):
        begin = [np.eye(3)] if (growth, turn) == (1.0, 0.0) else []
        begin.append(_shift_by_phase(moving.octaves[level], fixed.octaves[level], level, growth, turn))
        for fetch in begin:
            for octave in range(min(level + 1, coarsest), level - 1, -1):
                fetch, _ = descend(moving, fixed, fetch, octave, count)
            (score,) = agreements(moving, fixed, fetch, [level])
            if score > best_score:
                best, best_score = fetch, score
        if best_score > 0.5:
            break
    return best


def _shift_by_phase(moving: Plane, fixed: Plane, level: int, growth: float, turn: float) -> Matrix:
    """The transform (fixed to moving, finest octave) with this growth and turn whose shift phase correlation finds."""
    height, width = fixed.shape
    angle = np.deg2rad(turn)
    cosine, sine = growth * np.cos(angle), growth * np.sin(angle)
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    begin = np.array(
        [
            [cosine, -sine, middle_x - cosine * middle_x + sine * middle_y],
            [sine, cosine, middle_y - sine * middle_x - cosine * middle_y],
            [0.0, 0.0, 1.0],
        ]
    )
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    turned = cv2.warpPerspective(moving, begin, (width, height), flags=flags)
    window = cv2.createHanningWindow((width, height), cv2.CV_32F)
    # OpenCV 5 multiplies its arguments with the window in place, so it gets a copy.
    (shift_x, shift_y), _ = cv2.phaseCorrelate(fixed.copy(), np.asarray(turned, np.float32), window)
    fetch = begin @ motion_of(np.array([shift_x, shift_y]))
    return at_level(fetch, -level)
