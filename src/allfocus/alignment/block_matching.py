"""The last tenths of a pixel: every block of every octave is moved and blurred onto the other frame by least squares.

A difference in focus is a blur, and a blur of a curved outline or the tip of a hair looks like a small motion. So
each block is explained by both at once: the more blurred frame is a symmetric kernel on the sharper one (its detail and
the Laplacian of that, which is what blur takes within an octave) plus a shift. A blur takes detail away and brings none
back: the other way round, slopes of the sharper frame explain that frame by themselves, whatever the blurred one shows.
Where it does not explain the block, several distances lie over each other, and what such a block says is not noisy but
wrong: it is left out. So is a block whose octave is much weaker than the next coarser one: what a strong blur leaves of
a thing are outlines of the lens opening around it, which fit each other perfectly and have moved apart. Those that
remain have a shift each, with an error measured from what is left unexplained, and the motion of the frame is
fitted to them; blocks that contradict the rest lose their say (Cauchy weights).

Measured on "insect" while this was built: neighbours (3000 x 2000, median corner error) 0.30 pixel without the
Laplacian and 0.07 with it, in a form that worked pixel by pixel; whole stacks of three seeds (a kernel
of three terms) 0.26, 0.18, 0.11 with all blocks and 0.19, 0.08, 0.07 with ``EXPLAINED``.
That value was chosen on those three stacks and one of "flat".
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.octaves import BLOCK, Plane, PreparedFrame, block_sums
from allfocus.alignment.transforms import (
    Matrix,
    at_level,
    corner_motion,
    motion_of,
    move_points,
    unit_square,
)

EXPLAINED = 0.97
"""Share of a block's energy, above its noise, that kernel and shift must explain for the block to count."""

_OCTAVES = 5
_CLEAR = 4.0
"""A block must have this many times the energy of its noise."""

_PIXELS_PER_SAMPLE = 6.0
"""Neighbouring pixels of an octave are not independent; chosen so that errors are about as predicted."""

_LEAST_ERROR = 0.02
"""Pixels of the octave: no block is believed to be better than this."""

REMAINS = 0.5
"""Part of the strength of the next coarser octave that a block must have in both frames to count.

Measured at the true motion in the finest octave of six rendered scenes: blocks with a quarter to a half of that
strength are off by 1 to 6 times their errors, those with more by 0.1 to 1.5 times (legs: up to 4). Of 0.35, 0.5 and 0.7
the middle one was best for hairs before white (mean of the largest corner errors 1.0, 0.8, 1.0 pixel; 3.1 with 0)."""

_LEAST_KEPT = 0.01
"""Part of the detail that the kernel must leave. One that turns light into dark is the "spurious resolution" of a
strong blur: not a place to measure at."""

_LARGEST_SHIFT = 3.0
_CAUCHY = 2.0
_ROUNDS = 8
_STEPS = 4
_STILL = 0.05
"""Pixels of the working grid at the corner: after a step shorter than this the next would change nothing."""

_ENOUGH_BLOCKS = 12


@dataclass(frozen=True, eq=False)
class BlockMatch:
    """The motion that the blocks of two frames agree on."""

    fetch: Matrix
    """Point of the fixed working grid to point of the moving one."""

    information: NDArray[np.float64]
    """(8, 8): inverse covariance of the generators in ``unit_square`` coordinates."""

    slack: NDArray[np.float64]
    """(8,): the further step that the blocks would take if all eight generators were allowed."""

    error: float
    """Standard error of the motion in ``unit_square`` coordinates: of the corners, at distance 1."""


@dataclass(frozen=True, eq=False)
class _Octave:
    """One octave of one frame on the fixed grid: what another frame can be made of."""

    planes: tuple[Plane, Plane, Plane, Plane]
    """Detail, its Laplacian, and its slopes along x and y."""
    products: NDArray[np.float64]
    """(h, w, 4, 4): sums over each block of one plane times another."""
    coarser: NDArray[np.float64]
    """(h, w): the energy that each block would have with the strength of the next coarser octave."""


@dataclass(frozen=True, eq=False)
class _Shifts:
    """Of blocks: where they are, how far they have moved and how certain that is; pixels of the finest octave."""

    points: NDArray[np.float64]
    shifts: NDArray[np.float64]
    covariances: NDArray[np.float64]


def match_blocks(moving: PreparedFrame, fixed: PreparedFrame, fetch: Matrix, count: int) -> BlockMatch | None:
    """The transform that the blocks agree on, near the one given; None when too few of them can tell.

    Args:
        moving: The frame whose points are mapped.
        fixed: The frame that gives the grid, of the same size.
        fetch: Where to begin, fixed working grid to moving one, right to about a pixel of the working grid.
        count: How many generators the model of motion has.
    """
    size = (fixed.octaves[0].shape[0], fixed.octaves[0].shape[1])
    to_unit = unit_square(size)
    from_unit = np.linalg.inv(to_unit)
    levels = range(min(_OCTAVES, len(fixed.noises)))
    noises = [fixed.noises[level].astype(np.float64) * (BLOCK * BLOCK) for level in levels]
    still = _octaves_of(fixed, None, levels)
    begin = fetch
    for _ in range(_STEPS):
        moved = _octaves_of(moving, fetch, levels)
        found = [_measure(moved[level], still[level], noises[level], fetch, level) for level in levels]
        blocks = _Shifts(
            np.concatenate([item.points for item in found]),
            np.concatenate([item.shifts for item in found]),
            np.concatenate([item.covariances for item in found]),
        )
        if len(blocks.points) < _ENOUGH_BLOCKS:
            return None
        amounts, information, pull = _fit(blocks, to_unit, count)
        change = from_unit @ motion_of(amounts) @ to_unit
        fetch = fetch @ change
        if corner_motion(change, size) < _STILL:
            break
    if corner_motion(np.asarray(np.linalg.inv(begin) @ fetch, np.float64), size) > 8 * _LARGEST_SHIFT:
        return None
    # ``pull`` still holds the last step of the generators in use; what is left of it is for the others.
    rest = pull - information[:, :count] @ amounts
    slack = np.asarray(np.linalg.lstsq(information, rest, rcond=1e-9)[0], np.float64)
    part = information[:count, :count] + np.eye(count) * 1e-6
    return BlockMatch(fetch, information, slack, float(np.sqrt(np.trace(np.linalg.inv(part)))))


def _octaves_of(frame: PreparedFrame, fetch: Matrix | None, levels: range) -> list[_Octave]:
    """The octaves of a frame, fetched onto the fixed grid; None for the frame whose grid that is."""
    bands = [_fetch_band(frame, fetch, level) for level in range(min(len(levels) + 1, len(frame.bands)))]
    return [_sum_octave(bands[level], bands[min(level + 1, len(bands) - 1)]) for level in levels]


def _fetch_band(frame: PreparedFrame, fetch: Matrix | None, level: int) -> Plane:
    band = frame.bands[level]
    if fetch is None:
        return band
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpPerspective(band, at_level(fetch, level), band.shape[::-1], flags=flags), np.float32)


def _sum_octave(band: Plane, coarser: Plane) -> _Octave:
    planes = (
        band,
        np.asarray(cv2.Laplacian(band, cv2.CV_32F), np.float32),
        np.asarray(cv2.Sobel(band, cv2.CV_32F, 1, 0, scale=1 / 8), np.float32),
        np.asarray(cv2.Sobel(band, cv2.CV_32F, 0, 1, scale=1 / 8), np.float32),
    )
    rows, columns = band.shape[0] // BLOCK, band.shape[1] // BLOCK
    products = np.empty((rows, columns, 4, 4))
    for one in range(4):
        for other in range(one, 4):
            products[..., one, other] = products[..., other, one] = block_sums(planes[one] * planes[other])
    if coarser is band:
        return _Octave(planes, products, np.zeros((rows, columns)))
    half = BLOCK // 2
    whole = coarser[: rows * half, : columns * half]
    strength = cv2.resize(whole * whole, (columns, rows), interpolation=cv2.INTER_AREA).astype(np.float64)
    return _Octave(planes, products, strength * (BLOCK * BLOCK))


def _measure(moved: _Octave, fixed: _Octave, noises: NDArray[np.float64], fetch: Matrix, level: int) -> _Shifts:
    """The blocks of one octave in which a kernel and a shift make one frame of the other."""
    size = (fixed.planes[0].shape[0], fixed.planes[0].shape[1])
    energies = [octave.products[..., 0, 0] for octave in (moved, fixed)]
    use = _blocks_inside(at_level(fetch, level), size, noises.shape)
    for octave, energy in zip((moved, fixed), energies, strict=True):
        use &= (energy > _CLEAR * noises) & (energy > REMAINS**2 * octave.coarser)
    forth, back = _normal_equations(moved, fixed, use), _normal_equations(fixed, moved, use)
    backward = energies[1][use] > energies[0][use]
    matrix = np.where(backward[:, None, None], back[0], forth[0])
    right = np.where(backward[:, None], back[1], forth[1])
    energy, noise = np.minimum(energies[0][use], energies[1][use]), noises[use]
    diagonal = np.einsum("bii->bi", matrix)
    matrix = matrix + np.eye(4) * (1e-4 * diagonal + 1e-12 * energy[:, None] + 1e-30)[:, :, None]
    inverse = np.linalg.inv(matrix)
    answer = np.einsum("bij,bj->bi", inverse, right)
    rest = np.maximum(energy - np.einsum("bi,bi->b", answer, right), 0.0)
    # What the kernel leaves of the detail; the shift comes weakened by as much.
    kept = np.einsum("bi,bi->b", answer[:, :2], matrix[:, :2, 0]) / matrix[:, 0, 0]
    upright = kept > _LEAST_KEPT
    kept = np.where(upright, kept, 1.0)
    shifts = answer[:, 2:] * np.where(backward, -1.0, 1.0)[:, None] / kept[:, None]
    near = np.hypot(shifts[:, 0], shifts[:, 1]) < _LARGEST_SHIFT
    good = upright & near & (np.maximum(rest - noise, 0.0) < (1 - EXPLAINED) * energy)
    variance = (rest + 0.5 * noise) * (_PIXELS_PER_SAMPLE / (BLOCK * BLOCK)) / kept**2
    covariance = inverse[:, 2:, 2:] * variance[:, None, None] + np.eye(2) * _LEAST_ERROR**2
    pixel = 2.0**level
    rows, columns = np.nonzero(use)
    points = (np.stack([columns, rows], axis=1) * BLOCK + (BLOCK - 1) / 2) * pixel
    return _Shifts(points[good], shifts[good] * pixel, covariance[good] * pixel**2)


def _normal_equations(
    sharp: _Octave, blurred: _Octave, use: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n, 4, 4), (n, 4) for each block in use: the four planes of one frame against the detail of the other."""
    right = [block_sums(plane * blurred.planes[0])[use] for plane in sharp.planes]
    return sharp.products[use], np.stack(right, axis=1).astype(np.float64)


def _blocks_inside(fetch: Matrix, size: tuple[int, int], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """(h, w): which blocks lie, as they are and where they are fetched from, inside by at least four pixels."""
    rows, columns = (np.arange(number + 1) * BLOCK - 0.5 for number in shape)
    x, y = np.meshgrid(columns, rows)
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    limit = np.array([size[1] - 5.0, size[0] - 5.0])
    inside = [((at >= 3.5) & (at <= limit + 0.5)).all(axis=1) for at in (points, move_points(fetch, points))]
    grid = (inside[0] & inside[1]).reshape(x.shape)
    whole: NDArray[np.bool_] = grid[:-1, :-1] & grid[1:, :-1] & grid[:-1, 1:] & grid[1:, 1:]
    return whole


def _fit(
    blocks: _Shifts, to_unit: Matrix, count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Amounts of the first generators that fit the shifts, and the equations (8, 8), (8,) of all eight of them."""
    unit = to_unit[0, 0]
    x, y = (blocks.points * unit + to_unit[:2, 2]).T
    zero, one = np.zeros_like(x), np.ones_like(x)
    slopes = np.stack(
        [
            np.stack([one, zero, x, -y, x, y, -x * x, -x * y], axis=1),
            np.stack([zero, one, y, x, -y, x, -x * y, -y * y], axis=1),
        ],
        axis=1,
    )
    shifts = blocks.shifts * unit
    certainty = np.linalg.inv(blocks.covariances * unit**2)
    rows, certain = slopes.reshape(-1, 8), (certainty @ slopes).reshape(-1, 8)
    weights = np.ones(len(x))
    for _ in range(_ROUNDS):
        weighted = certain * np.repeat(weights, 2)[:, None]
        information = weighted.T @ rows
        pull = weighted.T @ shifts.ravel()
        amounts = np.linalg.solve(information[:count, :count] + np.eye(count) * 1e-6, pull[:count])
        left = shifts - slopes[:, :, :count] @ amounts
        weights = 1.0 / (1.0 + np.einsum("bi,bij,bj->b", left, certainty, left) / _CAUCHY**2)
    return np.asarray(amounts, np.float64), information, pull
