"""Tones: exposure and white balance in linear light, then levels, contrast and free curves on stored values.

Each channel is changed by itself and each pixel by itself, so that all of it is one curve per channel. A table of that
curve is what a page needs to show the same live (:func:`tone_tables`), and to know the histogram of what comes out.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.finishing.curves import Points, follow_curve
from allfocus.finishing.finish import RANGES, Finish
from allfocus.images.transfer import SRGB, Curve

Pixels = NDArray[np.float32]

LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
"""Of the primaries of sRGB; here only so that a change of white balance leaves grey as bright as it is."""
ROWS_AT_ONCE = 256
DARKEST = 1e-6
"""Linear light below which a colour cannot be told."""


def curve_or_srgb(curve: Curve | None) -> Curve:
    """The curve that a picture tells, or that of sRGB, which most programs take for a picture that tells none."""
    return curve or Curve((SRGB,))


def channel_gains(finish: Finish) -> NDArray[np.float64]:
    """(3,): by how much the linear light of red, green and blue is multiplied.

    Example:
        >>> channel_gains(Finish(exposure=1)).tolist()
        [2.0, 2.0, 2.0]
    """
    warmth, magenta = finish.temperature / 100, finish.tint / 100
    gains = np.exp2(np.array([warmth + magenta / 2, -magenta, -warmth + magenta / 2]))
    return np.asarray(2.0**finish.exposure * gains / (LUMINANCE @ gains), np.float64)


def balance_to_grey(colour: NDArray[np.float32], curve: Curve | None) -> tuple[float, float] | None:
    """(temperature, tint) that make a colour grey; None where it is too dark or clipped to tell.

    Args:
        colour: (3,) stored values, 0..1.
        curve: Of the picture.

    Example:
        >>> balance_to_grey(np.float32([0.5, 0.5, 0.5]), None)
        (0.0, 0.0)
    """
    light = curve_or_srgb(curve).to_linear(np.asarray(colour, np.float32).reshape(1, 1, 3))[0, 0]
    if float(light.min()) < DARKEST or float(np.max(colour)) >= 1:
        return None
    red, green, blue = (math.log2(float(value)) for value in light)
    temperature, tint = 50 * (blue - red), 100 * (green - (red + blue) / 2) / 1.5
    low, high = RANGES["temperature"]
    return round(min(high, max(low, temperature)), 1) + 0.0, round(min(high, max(low, tint)), 1) + 0.0


def apply_tones(pixels: Pixels, finish: Finish, curve: Curve | None = None) -> Pixels:
    """The picture with its tones changed, clipped to 0..1; a finish without tones gives back the same values.

    Args:
        pixels: ``(H, W, 3)`` or ``(H, W)``, 0..1. Of one channel only the exposure counts, not the white balance.
        finish: What is wanted.
        curve: The transfer curve of the picture; None for that of sRGB.

    Example:
        >>> brighter = apply_tones(np.full((1, 1), 0.5, np.float32), Finish(exposure=1))
        >>> round(float(brighter[0, 0]), 4)
        0.6858
    """
    if not finish.has_tones:
        return pixels
    result = np.empty_like(pixels)
    for top in range(0, pixels.shape[0], ROWS_AT_ONCE):
        rows = slice(top, top + ROWS_AT_ONCE)
        result[rows] = bend(_stretch(balance(pixels[rows], finish, curve), finish), finish)
    return result


def balance(pixels: Pixels, finish: Finish, curve: Curve | None) -> Pixels:
    """The first part of the tones: exposure and white balance."""
    if not finish.balances:
        return pixels
    used = curve_or_srgb(curve)
    gains = channel_gains(finish) if pixels.ndim == 3 else np.array(2.0**finish.exposure)
    return used.from_linear(used.to_linear(pixels) * gains.astype(np.float32))


def _stretch(pixels: Pixels, finish: Finish) -> Pixels:
    """The second part: levels, then contrast."""
    part = np.clip((pixels - np.float32(finish.black)) / np.float32(finish.white - finish.black), 0, 1)
    if finish.gamma != 1:
        part = np.power(part, np.float32(1 / finish.gamma))
    if finish.contrast:
        part = part + np.float32(finish.contrast / 100) * (part * part * (3 - 2 * part) - part)
    return np.asarray(part, np.float32)


def bend(pixels: Pixels, finish: Finish) -> Pixels:
    """The third part: the free curves."""
    if finish.curves.is_neutral:
        return pixels
    if pixels.ndim == 2:
        return _follow_all(pixels, finish.curves.of_channel(0, 1))
    return np.stack([_follow_all(pixels[..., c], finish.curves.of_channel(c, 3)) for c in range(3)], axis=-1)


def _follow_all(values: Pixels, curves: Sequence[Points]) -> Pixels:
    for points in curves:
        values = follow_curve(values, points)
    return values


def tone_tables(
    finish: Finish, curve: Curve | None, *, channels: int, shown_white: float = 1.0, size: int = 256
) -> NDArray[np.float32]:
    """(channels, size): what becomes of evenly spaced values, for those who show a picture and for its histogram.

    Args:
        finish: What is wanted.
        curve: Of the picture.
        channels: 1 or 3.
        shown_white: The stored value that the last entry stands for: a viewer shows a dark picture brighter. Without
            tones it goes on doing so; with them it shows what a file will hold.
        size: Number of entries.
    """
    values = np.linspace(0, 1, size, dtype=np.float32)
    if not finish.has_tones:
        return np.repeat(values[None], channels, axis=0)
    row = (values * np.float32(shown_white))[None]
    pixels = row if channels == 1 else np.repeat(row[..., None], 3, axis=2)
    return apply_tones(pixels, finish, curve).reshape(size, channels).T
