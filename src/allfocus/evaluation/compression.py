"""A picture as it comes back from a JPEG file, so that methods can be compared at equal compression."""

import io
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from allfocus.errors import InputError

SUBSAMPLINGS = ("4:4:4", "4:2:2", "4:2:0")
"""How many colour samples are kept; in Pillow's order."""


@dataclass(frozen=True)
class JpegCompression:
    """How to save before scoring."""

    quality: int
    """1 to 100 on the scale of the Independent JPEG Group, which Pillow and MATLAB share."""
    subsampling: str = "4:2:0"
    """One of :data:`SUBSAMPLINGS`."""

    def __str__(self) -> str:
        return f"{self.quality},{self.subsampling}"


def parse_compression(text: str) -> JpegCompression:
    """The compression that a text like ``75,4:2:0`` (or ``75,420``) names.

    Raises:
        InputError: The text is not of that form.

    Example:
        >>> parse_compression("92,444")
        JpegCompression(quality=92, subsampling='4:4:4')
    """
    match = re.fullmatch(r"\s*(\d+)\s*(?:,\s*([\d:]+)\s*)?", text)
    digits = (match[2] or "420").replace(":", "") if match else ""
    named = {choice.replace(":", ""): choice for choice in SUBSAMPLINGS}
    if match is None or digits not in named or not 1 <= int(match[1]) <= 100:
        raise InputError(
            f"JPEG compression {text!r} is not understood; give QUALITY,SUBSAMPLING such as 75,4:2:0: "
            f"a quality of 1 to 100 and one of {', '.join(SUBSAMPLINGS)}"
        )
    return JpegCompression(int(match[1]), named[digits])


def compress_and_read(levels: NDArray[np.uint8], compression: JpegCompression) -> NDArray[Any]:
    """The picture after it was saved as JPEG and read again; same shape and type.

    Args:
        levels: ``(H, W)`` or ``(H, W, 3)`` RGB.
        compression: How to save.

    Example:
        >>> grey = np.full((16, 16), 100, np.uint8)
        >>> bool((compress_and_read(grey, JpegCompression(75)) == grey).all())
        True
    """
    data = io.BytesIO()
    Image.fromarray(levels).save(
        data, "JPEG", quality=compression.quality, subsampling=SUBSAMPLINGS.index(compression.subsampling)
    )
    with Image.open(data) as picture:
        return np.array(picture)
