"""Many measurements between pairs of frames -> one position and one brightness for each frame.

Neighbours look most alike, so they are measured best, but their errors add up along the stack; far frames look less
alike, but a measurement against the reference does not drift. Least squares over all of them, each with the weight it
has earned and with less if it contradicts the rest, takes the best of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.transforms import Matrix, amounts_of, motion_of

_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Measurement:
    """Where one frame lies on another."""

    moving: int
    fixed: int
    transform: Matrix
    """Point of the moving frame to point of the fixed one, in ``unit_square`` coordinates."""
    information: NDArray[np.float64]
    """(p, p) for the p generators of the model; an inverse covariance."""


def solve_positions(
    measurements: Sequence[Measurement], begin: dict[int, Matrix], reference: int, count: int
) -> tuple[dict[int, Matrix], dict[int, float], list[float]]:
    """The transform of each frame to the reference, its error, and how far each measurement is from the common answer.

    Args:
        measurements: Between frames that have a beginning.
        begin: A first guess for each frame, ``unit_square`` coordinates; that of the reference stays.
        reference: The frame that defines the grid.
        count: How many generators the model has.

    Returns:
        Transforms and their standard errors by frame, and the disagreement of each measurement; all in
        ``unit_square`` coordinates, where the corners lie at distance 1.
    """
    frames = [frame for frame in begin if frame != reference]
    place = {frame: number * count for number, frame in enumerate(frames)}
    positions = dict(begin)
    errors = dict.fromkeys(begin, 0.0)
    matrix = np.zeros((0, 0))
    for _ in range(_ROUNDS):
        matrix = np.eye(len(frames) * count) * 1e-9
        right = np.zeros(len(frames) * count)
        for item in measurements:
            error = _disagreement(item, positions)[:count]
            # Cauchy weights: a measurement that is off by many of its own errors loses its say.
            strength = item.information / (1.0 + float(error @ item.information @ error) / (9.0 * count))
            for frame, sign in ((item.moving, 1.0), (item.fixed, -1.0)):
                if frame == reference:
                    continue
                row = slice(place[frame], place[frame] + count)
                right[row] -= sign * strength @ error
                for other, other_sign in ((item.moving, 1.0), (item.fixed, -1.0)):
                    if other != reference:
                        matrix[row, place[other] : place[other] + count] += sign * other_sign * strength
        step: NDArray[np.float64] = np.asarray(np.linalg.solve(matrix, right) if frames else right, np.float64)
        for frame in frames:
            positions[frame] = positions[frame] @ motion_of(step[place[frame] : place[frame] + count])
        if not len(step) or np.abs(step).max() < 1e-9:
            break
    covariance = np.linalg.inv(matrix) if frames else matrix
    for frame in frames:
        row = slice(place[frame], place[frame] + count)
        errors[frame] = float(np.sqrt(np.trace(covariance[row, row])))
    return positions, errors, [float(np.linalg.norm(_disagreement(item, positions)[:count])) for item in measurements]


def _disagreement(item: Measurement, positions: dict[int, Matrix]) -> NDArray[np.float64]:
    together = np.linalg.inv(positions[item.fixed]) @ positions[item.moving]
    return amounts_of(np.linalg.inv(item.transform) @ together)


def solve_gains(
    measurements: Sequence[tuple[int, int, NDArray[np.float64], NDArray[np.float64]]],
    frames: Sequence[int],
    reference: int,
    channels: int,
) -> tuple[dict[int, NDArray[np.float64]], dict[int, NDArray[np.float64]]]:
    """Factors for each channel of each frame to the brightness of the reference, and the errors of their logarithms.

    Args:
        measurements: (moving, fixed, factors, standard errors of their logarithms).
        frames: Those to solve for.
        reference: The frame whose factors are 1.
        channels: 1 or 3.
    """
    place = {frame: number for number, frame in enumerate(frame for frame in frames if frame != reference)}
    gains = {frame: np.ones(channels) for frame in frames}
    errors = {frame: np.zeros(channels) for frame in frames}
    for channel in range(channels):
        matrix, right = np.eye(len(place)) * 1e-9, np.zeros(len(place))
        for moving, fixed, factors, uncertain in measurements:
            weight = float(uncertain[channel]) ** -2
            for frame, sign in ((moving, 1.0), (fixed, -1.0)):
                if frame in place:
                    right[place[frame]] += sign * weight * float(np.log(factors[channel]))
                    for other, other_sign in ((moving, 1.0), (fixed, -1.0)):
                        if other in place:
                            matrix[place[frame], place[other]] += sign * other_sign * weight
        covariance = np.linalg.inv(matrix) if place else matrix
        for frame, number in place.items():
            gains[frame][channel] = float(np.exp(covariance[number] @ right))
            errors[frame][channel] = float(np.sqrt(covariance[number, number]))
    return gains, errors
