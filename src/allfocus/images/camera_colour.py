"""The colours of a camera: how RAW files are developed, and what a DNG must say so that its light is understood.

A RAW file is developed in one of two ways. *To sRGB*, to be looked at and written as any picture. Or *in the camera's
own colours*, for a DNG that is graded later: balanced, so that methods see neutral pictures, scaled so that no
highlight is cut, and stored to the power of 1 / :data:`EXPONENT`. All three are undone when the DNG is written, and
what is left is the light that each pixel of the sensor would have seen.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allfocus.images.colour_profile import ADOBE_EXPONENT, D65, SRGB_PRIMARIES, make_profile
from allfocus.images.tiff_layout import TiffEntry

EXPONENT = ADOBE_EXPONENT
"""Of stored values in the camera's colours; a multiple of 1/256, which profiles keep exactly."""

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class CameraColour:
    """What a camera says about the colours of a RAW file."""

    balance: Triple
    """What red, green and blue are multiplied with to make grey things grey; green is 1."""
    matrix: tuple[float, ...]
    """From CIE XYZ under daylight (D65) to the camera's red, green and blue, row by row; empty when it is not known."""
    model: str
    """Maker and model."""
    entries: tuple[TiffEntry, ...] = ()
    """The entries of a DNG that describe its colours, to be copied, in the byte order of its EXIF."""

    @property
    def scale(self) -> NDArray[np.float32]:
        """(3,) what the light of the sensor is multiplied with, 1 at most: no highlight is cut."""
        return np.asarray(np.divide(self.balance, max(self.balance)), np.float32)

    def to_srgb(self) -> NDArray[np.float64]:
        """(3, 3): balanced light in the camera's colours -> linear sRGB; white stays white."""
        x, y = D65
        white = np.array([x / y, 1, (1 - x - y) / y])
        corners = (SRGB_PRIMARIES.red, SRGB_PRIMARIES.green, SRGB_PRIMARIES.blue)
        colours = np.stack([np.array([x / y, 1, (1 - x - y) / y]) for x, y in corners], axis=1)
        camera = np.reshape(self.matrix, (3, 3)) @ (colours * np.linalg.solve(colours, white))
        return np.asarray(np.linalg.inv(camera / camera.sum(axis=1, keepdims=True)), np.float64)


@dataclass(frozen=True)
class Development:
    """How RAW files are developed: the same way for all frames of a stack."""

    demosaic: str = "ahd"
    """One of :data:`allfocus.images.limits.DEMOSAICS`."""
    in_camera_colours: bool = False
    """Whether the picture stays in the camera's colours, for a DNG; otherwise it is sRGB."""
    balance: Triple | None = None
    """The white balance; None takes that of the file."""
    hot: NDArray[np.bool_] | None = field(default=None, compare=False)
    """(H, W): pixels of the sensor, not yet turned upright, that are filled from those around them first."""


def camera_profile() -> bytes:
    """A profile with the curve of pictures in a camera's colours; its primaries are a makeshift, for eyes only."""
    return make_profile("light of a camera, balanced", EXPONENT, SRGB_PRIMARIES)
