"""A picture in the colours of sRGB, whatever its own profile says: for screens, and for those who ignore profiles."""

from dataclasses import replace

import numpy as np

from allfocus.errors import InputError
from allfocus.images.colour_profile import SRGB_PRIMARIES, colour_matrix, profile_matrix, srgb_profile
from allfocus.images.image import Image
from allfocus.images.transfer import SRGB, Curve, find_curve

ROWS_AT_ONCE = 256


def to_srgb(image: Image) -> Image:
    """The same picture in sRGB; colours that sRGB does not have are clipped.

    A picture without a profile is taken to be sRGB already. One channel gets the curve of sRGB and no profile.

    Raises:
        InputError: the profile has tables in place of curves and a matrix.

    Example:
        >>> grey = Image(np.full((1, 1, 3), 0.5, np.float32))
        >>> to_srgb(grey).icc_profile == srgb_profile()
        True
    """
    tag = srgb_profile() if image.is_colour else None
    if image.icc_profile is None or image.icc_profile == tag:
        return replace(image, icc_profile=tag)
    curve = find_curve(image.icc_profile, None, channels=3 if image.is_colour else 1)
    matrix = profile_matrix(image.icc_profile) if image.is_colour else np.eye(3)
    if curve is None or matrix is None:
        raise InputError(
            "the colour profile of the picture has no curves to convert it by; keep the profile",
            code="unsupported-picture",
        )
    to_own = np.linalg.inv(colour_matrix(SRGB_PRIMARIES)) @ matrix
    pixels = np.empty_like(image.pixels)
    for top in range(0, image.height, ROWS_AT_ONCE):
        rows = slice(top, top + ROWS_AT_ONCE)
        light = curve.to_linear(image.pixels[rows])
        light = light @ to_own.T.astype(np.float32) if image.is_colour else light
        pixels[rows] = Curve((SRGB,)).from_linear(light)
    return replace(image, pixels=pixels, icc_profile=tag)
