"""How strong the noise of a stack is, by brightness: light comes in grains, and curves of cameras lift the dark."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Map = NDArray[np.float32]

CLASSES = 12
"""Of brightness, each with as many pixels."""
CALM_SHARE = 0.2
"""Of the pixels of a class, the share that is calm even where there is detail: their noise is that of the class."""
LEAST_NOISE = 1 / 255 / 12**0.5
"""Standard deviation that rounding to 8 bits leaves, as a share of the span of brightness."""


@dataclass(frozen=True)
class NoiseLevels:
    """Noise by brightness."""

    brightness: tuple[float, ...]
    """0..1, growing."""
    variance: tuple[float, ...]
    """At each of these."""

    def at(self, brightness: Map) -> Map:
        """Returns the variance of noise at places of this brightness."""
        return np.interp(brightness, self.brightness, self.variance).astype(np.float32)


def measure_noise(brightness: Map, variance: Map, *, least: float) -> NoiseLevels:
    """Returns the noise of a stack.

    Args:
        brightness: (pixels,), 0..1.
        variance: (pixels,), of what changes from pixel to pixel in the calmest frame of each, detail included.
        least: Standard deviation that there is in any case.

    Example:
        >>> brightness = np.linspace(0, 1, 1200, dtype=np.float32)
        >>> levels = measure_noise(brightness, 0.01 * brightness, least=0.001)
        >>> [round(float(own), 3) for own in levels.at(np.array([0.25, 0.75], np.float32))]
        [0.002, 0.007]
    """
    order = np.argsort(brightness, kind="stable")
    middles, found = [], []
    for members in np.array_split(order, min(CLASSES, order.size)):
        middles.append(float(np.mean(brightness[members])))
        found.append(max(float(np.quantile(variance[members], CALM_SHARE)), least**2))
    return NoiseLevels(tuple(middles), tuple(found))
