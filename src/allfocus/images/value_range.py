"""Values of any range -> 0..1, in which everything inside the library works, and back: one range for a whole stack.

Integers of 8 and 16 bits without sign stand for brightness by their type: 0 is black and the largest is white. Floating
point within 0..1 is taken as it is. Any other numbers (HDR, calibrated microscopes, integers with a sign or of 32 bits)
have a unit of their own: the lowest value of the stack becomes 0, the highest 1, and the result is brought back by the
same two numbers.

Inside, values have the 24 bits of float32. So what comes back is off by at most 6e-8 of the range (a hundredth of a
step of 16 bits), and next to the lowest value by less: a dark pixel of an HDR picture that begins at 0 keeps seven
digits.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allfocus.errors import InputError

ROWS_AT_ONCE = 256
"""Rows that are converted in double precision at a time, so that a large picture is not held in it."""

BY_TYPE = (np.dtype(np.uint8), np.dtype(np.uint16))
BY_VALUE = (np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.int32), np.dtype(np.uint32))


@dataclass(frozen=True)
class ValueRange:
    """The two values that stand for 0 and 1.

    Example:
        >>> values = ValueRange(-5.0, 3000.0)
        >>> unit = values.to_unit(np.array([[-5.0, 3000.0]]))
        >>> unit.tolist(), values.from_unit(unit).tolist()
        ([[0.0, 1.0]], [[-5.0, 3000.0]])
    """

    low: float = 0.0
    """What 0 stands for."""
    high: float = 1.0
    """What 1 stands for; the same as ``low`` for a stack of one value, which becomes 0."""

    @property
    def is_unit(self) -> bool:
        """True when values are in 0..1 already."""
        return self.low == 0 and self.high == 1

    @property
    def _span(self) -> float:
        return self.high - self.low or 1.0

    def to_unit(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Values (H, W[, 3]) of any type as float32 in 0..1; those outside of the range lie outside of 0..1."""
        if self.is_unit:
            return values.astype(np.float32, copy=False)
        if _native(values.dtype) in BY_TYPE and self.low == 0:
            scaled: NDArray[np.float32] = np.divide(values, np.float32(self.high), dtype=np.float32)
            return scaled
        return self._by_rows(values, np.dtype(np.float32), lambda part: (part - self.low) / self._span)

    def from_unit(self, pixels: NDArray[np.float32], dtype: np.dtype[Any] | None = None) -> NDArray[Any]:
        """Pixels in 0..1 as values of the range again.

        Args:
            pixels: (H, W[, 3]), float32.
            dtype: Type of the values, float32 for None; integers are rounded, and cut to what their type holds.
        """
        kind: np.dtype[Any] = np.dtype(np.float32) if dtype is None else dtype
        if self.is_unit and kind.kind == "f":
            return pixels.astype(kind, copy=False)
        if kind.kind == "f":
            return self._by_rows(pixels, kind, lambda part: part * self._span + self.low)
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
        return self._by_rows(pixels, kind, lambda part: np.rint(np.clip(part * self._span + self.low, least, most)))

    @staticmethod
    def _by_rows(
        values: NDArray[Any], kind: np.dtype[Any], convert: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> NDArray[Any]:
        result = np.empty(values.shape, kind)
        for start in range(0, values.shape[0], ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            result[part] = convert(values[part].astype(np.float64))
        return result


UNIT = ValueRange()
"""Of values that are in 0..1 already."""


def common_range(extremes: Iterable[tuple[float, float]]) -> ValueRange:
    """The range of numbers with a unit of their own, from the lowest and highest value of each frame.

    That of values within 0..1 is 0..1, and so is that of values that are not finite: whoever looks at the frames finds
    those and names the frame.

    Raises:
        InputError: the values lie farther apart than double precision can say.

    Example:
        >>> common_range([(0.25, 0.5), (0.0, 0.75)]), common_range([(0.0, 40.0), (-5.0, 3000.0)])
        (ValueRange(low=0.0, high=1.0), ValueRange(low=-5.0, high=3000.0))
    """
    lows, highs = zip(*extremes, strict=True)
    low, high = min(lows), max(highs)
    if not all(map(math.isfinite, (*lows, *highs))) or (low >= 0 and high <= 1):
        return UNIT
    if not math.isfinite(high - low):
        raise InputError(f"the values run from {low:g} to {high:g}, which is too far apart; leave out the outliers")
    return ValueRange(low, high)


def extremes_of(values: NDArray[Any], valid: NDArray[np.bool_] | None = None) -> tuple[float, float]:
    """The lowest and the highest value (H, W[, 3]), where the mask (H, W) says that there is a pixel.

    Nothing at all counts as 0.

    Example:
        >>> extremes_of(np.array([[1.0, -9999.0]]), np.array([[True, False]]))
        (1.0, 1.0)
    """
    seen = values if valid is None or valid.shape != values.shape[:2] else values[valid]
    return (float(seen.min()), float(seen.max())) if seen.size else (0.0, 0.0)


def plain_arrays(frames: Iterable[ArrayLike]) -> list[NDArray[Any]]:
    """The frames as arrays.

    Raises:
        InputError: a frame has a mask, which would be lost without a word.

    Example:
        >>> [array.shape for array in plain_arrays([[[0.0, 1.0]], np.zeros((1, 2))])]
        [(1, 2), (1, 2)]
    """
    given = list(frames)
    for number, frame in enumerate(given, start=1):
        if np.ma.is_masked(frame):
            raise InputError(f"frame {number} is a masked array; give its data, and what the mask leaves as valid")
    return [np.asarray(frame) for frame in given]


def range_of_arrays(
    frames: Sequence[NDArray[Any]], valid: Sequence[NDArray[np.bool_] | None] | None = None
) -> ValueRange:
    """The one range that stands for 0..1 in all of these arrays.

    Args:
        frames: One or more (H, W[, 3]) of one type.
        valid: For each frame where it has pixels; what is outside does not count.

    Raises:
        InputError: a type that stands for no brightness, or frames of different types; the frame is named, from 1.

    Example:
        >>> range_of_arrays([np.zeros((2, 2), np.uint8)])
        ValueRange(low=0.0, high=255.0)
    """
    first = frames[0].dtype
    for number, frame in enumerate(frames, start=1):
        if frame.dtype != first and not (frame.dtype.kind == first.kind == "f"):
            raise InputError(f"frame {number} holds {frame.dtype} but frame 1 holds {first}; give one type")
    if _native(first) in BY_TYPE:
        return ValueRange(0.0, float(np.iinfo(first).max))
    if first.kind != "f" and _native(first) not in BY_VALUE:
        known = ", ".join(str(kind) for kind in (*BY_TYPE, *BY_VALUE))
        raise InputError(f"frame 1 holds {first}; give {known}, or floating point")
    masks = valid if valid is not None and len(valid) == len(frames) else [None] * len(frames)
    return common_range(extremes_of(frame, mask) for frame, mask in zip(frames, masks, strict=True))


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in the byte order of this machine."""
    return dtype.newbyteorder("=")
