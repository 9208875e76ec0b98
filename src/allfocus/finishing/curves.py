"""Free curves: points that say what becomes of a value, and a smooth line through them.

Between its points a curve is a cubic whose slopes follow F. N. Fritsch and J. Butland, "A method for constructing local
monotone piecewise cubic interpolants", SIAM J. Sci. Stat. Comput. 5(2), 1984: where the points rise the curve does, and
it never leaves the heights of the two points beside it. Before its first point and after its last one it is level.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError

Points = tuple[tuple[float, float], ...]

MOST_POINTS = 16
NEAREST_POINTS = 0.005
"""The least distance of two points from left to right."""
STRAIGHT: Points = ((0.0, 0.0), (1.0, 1.0))
"""What a curve without points is."""


@dataclass(frozen=True)
class Curves:
    """A curve for all colours, and one more for each of them; without points a curve changes nothing.

    Raises:
        InputError: a curve has one point or too many, or its points do not follow each other from left to right.

    Example:
        >>> Curves(all=((0, 0), (0.5, 0.6), (1, 1))).is_neutral, Curves().is_neutral
        (False, True)
    """

    all: Points = ()
    red: Points = ()
    green: Points = ()
    blue: Points = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            _require_points(field.name, getattr(self, field.name))

    @property
    def is_neutral(self) -> bool:
        """Whether no curve has points."""
        return self == Curves()

    def of_channel(self, channel: int, channels: int) -> tuple[Points, ...]:
        """The curves that a channel goes through, one after the other; a picture of one channel has only the first."""
        own = (self.red, self.green, self.blue)[channel] if channels == 3 else ()
        return tuple(points for points in (self.all, own) if points)


def curves_from_json(content: Mapping[str, Any]) -> Curves:
    """The curves that ``asdict`` described, with lists in place of tuples.

    Raises:
        InputError: a value is none that a curve can have.
    """
    return Curves(**{name: tuple((x, y) for x, y in points) for name, points in content.items()})


def _require_points(name: str, points: Points) -> None:
    if not points:
        return
    if not 2 <= len(points) <= MOST_POINTS:
        raise InputError(
            f"the curve {name} has no points, or 2 to {MOST_POINTS}; found {len(points)}", code="bad-option"
        )
    for value in (value for point in points for value in point):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= 1:
            raise InputError(
                f"the points of the curve {name} are numbers from 0 to 1; found {value!r}", code="bad-option"
            )
    across = [x for x, _ in points]
    if any(right - left < NEAREST_POINTS for left, right in itertools.pairwise(across)):
        raise InputError(
            f"the points of the curve {name} go from left to right, {NEAREST_POINTS} or more apart", code="bad-option"
        )


def follow_curve(values: NDArray[np.float32], points: Points) -> NDArray[np.float32]:
    """What a curve makes of values, 0..1, of any shape.

    Example:
        >>> follow_curve(np.float32([0, 0.25, 1]), ((0, 0), (0.25, 0.5), (1, 1))).tolist()
        [0.0, 0.5, 1.0]
    """
    across, heights = (np.array(side, np.float64) for side in zip(*(points or STRAIGHT), strict=True))
    widths = np.diff(across)
    rises = np.diff(heights) / widths
    slopes = _slopes(widths, rises)
    place = np.clip(np.searchsorted(across, values, side="right") - 1, 0, len(widths) - 1)
    # From the value at the left point on, as a cubic of the distance to it; see any text on Hermite interpolation.
    second = (3 * rises - 2 * slopes[:-1] - slopes[1:]) / widths
    third = (slopes[:-1] + slopes[1:] - 2 * rises) / widths**2
    apart = np.clip(values - across[place], 0, widths[place])
    raised = heights[place] + apart * (slopes[place] + apart * (second[place] + apart * third[place]))
    return np.clip(raised, 0, 1).astype(np.float32)


def _slopes(widths: NDArray[np.float64], rises: NDArray[np.float64]) -> NDArray[np.float64]:
    """How steep the curve is at each point: a weighted harmonic mean of both sides, 0 where it turns."""
    slopes = np.empty(len(rises) + 1)
    slopes[0], slopes[-1] = rises[0], rises[-1]
    before, after = rises[:-1], rises[1:]
    first, second = widths[:-1] + 2 * widths[1:], 2 * widths[:-1] + widths[1:]
    same_way = before * after > 0
    mean = np.divide(first, before, out=np.ones_like(before), where=same_way)
    mean += np.divide(second, after, out=np.ones_like(before), where=same_way)
    slopes[1:-1] = np.where(same_way, (first + second) / mean, 0)
    return slopes
