"""Channels of a microscope as one picture in colours, to look at."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.images.dimensions import Dimensions

COLOURS = ("#00ff00", "#ff00ff", "#00ffff", "#ff0000", "#0000ff", "#ffff00", "#ffffff")
"""Of channels that have none."""


def merge_channels(image: NDArray[Any], held: Dimensions) -> NDArray[np.float32]:
    """Several channels as one picture to look at, (H, W, 3) in 0..1: each in its colour, over its own range.

    Args:
        image: (H, W, C).
        held: With the channels.

    Example:
        >>> from allfocus.images.dimensions import Channel
        >>> held = Dimensions("1", (1, 2), "uint16", channels=(Channel("a", "#ff0000"), Channel("b", "#00ff00")))
        >>> merge_channels(np.array([[[0, 5], [9, 0]]], np.float32), held).tolist()
        [[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]]
    """
    merged = np.zeros((*image.shape[:2], 3), np.float32)
    for number, channel in enumerate(held.channels):
        layer = np.asarray(image[..., number], np.float32)
        low, high = (float(value) for value in np.quantile(layer, (0.001, 0.999)))
        unit = np.clip((layer - low) / max(high - low, 1e-9), 0, 1)
        colour = channel.colour or COLOURS[number % len(COLOURS)]
        for place in range(3):
            merged[..., place] += unit * np.float32(int(colour[1 + 2 * place : 3 + 2 * place], 16) / 255)
    return np.clip(merged, 0, 1)
