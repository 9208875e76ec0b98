"""Channels of a result as they are looked at: each in its colour and over a range of its own, added up to one picture.

What is kept on disk and painted is always the channels themselves; only tiles, thumbnails and pictures that leave the
studio are composed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.images.channel_colours import COLOURS
from allfocus.images.conversion import to_integers
from allfocus.images.dimensions import Dimensions

DARK, BRIGHT = 0.001, 0.999
"""Shares of the pixels of a channel below its range, and not above it, until somebody sets it."""
NARROWEST = 1 / 65535
"""The least that a range spans."""


@dataclass(frozen=True)
class ShownChannel:
    """One channel and how it is looked at."""

    name: str
    colour: str
    """``#rrggbb``."""
    white: float
    """What the reduced levels of layers hold as the largest value, 0..1."""
    low: float
    """Shown black, 0..1."""
    high: float
    """Shown in the full colour."""
    shown: bool = True

    def is_sound(self) -> bool:
        """Whether it can be shown so."""
        known = re.fullmatch("#[0-9a-f]{6}", self.colour) is not None
        return known and 0 < self.white <= 1 and 0 <= self.low < self.high <= 1


def choose_display(pixels: NDArray[np.float32], held: Dimensions) -> list[ShownChannel]:
    """How channels are shown at first: in the colours of their file, over the range that their pixels have.

    Args:
        pixels: (H, W, C), 0..1.
        held: With the channels.
    """
    step = max(1, max(pixels.shape[:2]) // 1000)
    found = []
    for number, channel in enumerate(held.channels):
        layer = pixels[::step, ::step, number]
        low, high = (float(value) for value in np.quantile(layer, (DARK, BRIGHT)))
        high = max(high, low + NARROWEST)
        # Twice as much as is shown, so that there is room to set the range wider.
        white = min(1.0, max(2 * high, float(layer.max()), NARROWEST))
        colour = channel.colour or COLOURS[number % len(COLOURS)]
        found.append(ShownChannel(channel.name, colour, white, round(low, 6), round(high, 6)))
    return found


def colour_channels(samples: NDArray[Any], channels: Sequence[ShownChannel]) -> NDArray[np.float32]:
    """The picture (h, w, 3) that channels make together, 0..1.

    Args:
        samples: (h, w, C): uint16 or float32 of the full size, or uint8 of a reduced level.
        channels: How each is shown.

    Example:
        >>> red = ShownChannel("a", "#ff0000", 0.5, 0.0, 0.5)
        >>> green = ShownChannel("b", "#00ff00", 1.0, 0.0, 1.0, shown=False)
        >>> colour_channels(np.array([[[255, 255]]], np.uint8), [red, green]).tolist()
        [[[1.0, 0.0, 0.0]]]
    """
    total = np.zeros((*samples.shape[:2], 3), np.float32)
    for number, channel in enumerate(channels):
        if not channel.shown:
            continue
        full = {"uint8": channel.white / 255, "uint16": 1 / 65535}.get(str(samples.dtype), 1.0)
        values = samples[..., number].astype(np.float32) * np.float32(full)
        unit = np.clip((values - np.float32(channel.low)) / np.float32(channel.high - channel.low), 0, 1)
        colour = [int(channel.colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        total += unit[..., None] * np.array(colour, np.float32)
    return np.clip(total, 0, 1)


def colour_channel_bytes(samples: NDArray[Any], channels: Sequence[ShownChannel]) -> NDArray[np.uint8]:
    """The same as uint8, for tiles."""
    return to_integers(colour_channels(samples, channels), 8)
