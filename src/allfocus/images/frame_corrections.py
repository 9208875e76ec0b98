"""What is wrong with every frame of a stack alike: the dark current of the sensor, and its hot pixels."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.images.hot_pixels import fill_hot_pixels, spread
from allfocus.images.image import Image
from allfocus.images.transfer import find_curve


@dataclass(frozen=True, eq=False)
class FrameCorrections:
    """What is wrong with every frame of a stack alike, and taken out of each when it is read."""

    dark: NDArray[np.float32] | None = None
    """A picture taken without light, of the size of the frames, 0..1 in their curve."""
    hot: NDArray[np.bool_] | None = None
    """(H, W): pixels that are filled from those around them."""
    sensor_hot: NDArray[np.bool_] | None = None
    """The same on the sensor, for RAW files, before they are developed."""
    files: tuple[Path, ...] = ()
    """What they were read from; none of it may be written."""

    def apply(self, image: Image) -> Image:
        """A frame without the dark current and the hot pixels."""
        pixels = image.pixels
        if self.dark is not None:
            curve = find_curve(image.icc_profile, image.exif, channels=3 if image.is_colour else 1)
            # The sensor adds its own current to the light, so it is taken away in linear light where that is known.
            if curve is None or curve.is_linear:
                pixels = np.maximum(pixels - self.dark, 0)
            else:
                light = np.maximum(curve.to_linear(pixels) - curve.to_linear(self.dark), 0)
                pixels = curve.from_linear(light)
        if self.hot is not None:
            pixels = fill_hot_pixels(pixels, spread(self.hot), reach=3)
        return replace(image, pixels=np.ascontiguousarray(pixels, np.float32))
