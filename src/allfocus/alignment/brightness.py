"""Brightness and white balance of one frame against another, from small pictures of both.

A blur moves light about but keeps its sum, so pictures in linear light, reduced to thumbnails, can be compared where
both are neither black nor burnt out. The median of the ratios ignores places where the scene or the focus differs.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.transforms import Matrix

DARKENED = 0.6
"""Factor on the light below which a frame was overexposed."""

_CURVE_END = 0.04045
_BURNT, _CLIPPED = 0.9, 0.985
_BLOCKS = 6
_STRIP = 32


@dataclass(frozen=True, eq=False)
class GainEstimate:
    """Factors that bring a frame to the brightness of another."""

    gains: NDArray[np.float64]
    """(1,) or (3,): factor on the light of each channel, 1 for equal brightness."""

    errors: NDArray[np.float64]
    """Standard error of the logarithm of each factor; infinite where nothing could be compared."""


def light_and_slope(values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Linear light of values on the sRGB curve, and the slope of the curve there; both of the shape given.

    Example:
        >>> light, slope = light_and_slope(np.array([0.0, 0.5, 1.0], np.float32))
        >>> light.round(3).tolist()
        [0.0, 0.21400000154972076, 1.0]
    """
    base = (np.maximum(values, np.float32(_CURVE_END)) + np.float32(0.055)) / np.float32(1.055)
    steep = np.asarray(cv2.pow(base, 1.4), np.float32).reshape(base.shape)  # a third of the time of numpy's
    straight = values <= _CURVE_END
    light = np.where(straight, values / np.float32(12.92), steep * base)
    slope = np.where(straight, np.float32(1 / 12.92), steep * np.float32(2.4 / 1.055))
    return light, slope


def apply_gains(frame: NDArray[np.float32], gains: tuple[float, ...]) -> NDArray[np.float32]:
    """The frame with the light of each channel multiplied, on the sRGB curve as it was, clipped to 0..1.

    A factor on the light is a factor on value + 0.055 there, and on the value itself in the straight part near black.

    Args:
        frame: (H, W) or (H, W, 3), 0..1.
        gains: One factor, or one for each channel.
    """
    factors = np.asarray(gains if frame.ndim == 3 else gains[0], np.float64)
    roots = (factors ** (1 / 2.4)).astype(np.float32)
    result = np.empty_like(frame)
    for top in range(0, frame.shape[0], _STRIP):  # strips stay in the cache
        part = frame[top : top + _STRIP]
        curved = (part + np.float32(0.055)) * roots - np.float32(0.055)
        np.copyto(curved, part * factors.astype(np.float32), where=part <= _CURVE_END)
        np.clip(curved, 0.0, 1.0, out=result[top : top + _STRIP])
    return result


def burnt_out(frame: NDArray[np.float32], gains: tuple[float, ...]) -> NDArray[np.bool_]:
    """Where a frame to which gains were applied had a channel at the end of its range, (H, W).

    Example:
        >>> frame = np.array([[0.5, 1.0]], np.float32)
        >>> burnt_out(apply_gains(frame, (0.5,)), (0.5,)).tolist()
        [[False, True]]
    """
    white = apply_gains(np.full((1, 1, *frame.shape[2:]), _CLIPPED, np.float32), gains)
    at_end = frame >= white
    return np.asarray(at_end if frame.ndim == 2 else at_end.any(axis=2))


def estimate_gains(moving: NDArray[np.float32], fixed: NDArray[np.float32], transform: Matrix) -> GainEstimate:
    """The factor for each channel that makes the moving thumbnail as bright as the fixed one.

    Args:
        moving: (h, w) or (h, w, 3), linear light in 0..1.
        fixed: The same shape.
        transform: Point of the moving thumbnail to point of the fixed one.
    """
    channels = 1 if fixed.ndim == 2 else fixed.shape[2]
    size = (fixed.shape[1], fixed.shape[0])
    target = np.atleast_3d(fixed)
    moved = np.atleast_3d(cv2.warpPerspective(moving, transform, size, flags=cv2.INTER_LINEAR, borderValue=(-1,) * 4))
    around = np.ones((5, 5), np.uint8)
    unusable = (moved.min(axis=2) < 0) | (np.maximum(moved, target).max(axis=2) > _BURNT)
    usable = np.asarray(cv2.dilate(unusable.astype(np.uint8), around) == 0, np.float32)
    # The window is wide because the blur of a bright thing brightens its dark surroundings: only the sum is kept.
    window = (max(size) // 4 | 1,) * 2
    share = cv2.blur(usable, window)
    gains, errors = np.ones(channels), np.full(channels, np.inf)
    for channel in range(channels):
        sum_fixed = cv2.blur(target[..., channel] * usable, window)
        sum_moved = cv2.blur(moved[..., channel] * usable, window)
        here = (share > 0.3) & (np.minimum(sum_fixed, sum_moved) > 0.02 * float(sum_fixed.max()) + 1e-12)
        if here.sum() >= 100:
            ratio = np.log(sum_fixed[here] / sum_moved[here])
            gains[channel], errors[channel] = _median_with_error(ratio, here)
    return GainEstimate(gains, errors)


def _median_with_error(ratio: NDArray[np.float32], here: NDArray[np.bool_]) -> tuple[float, float]:
    """The factor and the standard error of its logarithm, from the medians of blocks.

    Windows overlap and the scene differs from place to place in the same way in all of them, so the error does not
    fall with the number of blocks; half of their spread fits the truth of rendered stacks.
    """
    middle = float(np.median(ratio))
    rows, columns = np.nonzero(here)
    block = rows * _BLOCKS // here.shape[0] * _BLOCKS + columns * _BLOCKS // here.shape[1]
    medians = [float(np.median(ratio[block == b])) for b in np.unique(block)]
    spread = float(np.median(np.abs(np.array(medians) - middle))) / 0.6745
    return float(np.exp(middle)), max(spread / 2.0, 1e-3)
