"""What every decoder gives: the header of a file, its samples, and the line that makes it one of the formats."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.camera_colour import CameraColour


@dataclass(frozen=True)
class Header:
    """What a file says about one of its pictures before the pixels are decoded."""

    width: int
    """Columns as stored, before the orientation is applied."""

    height: int
    """Rows as stored."""

    channels: int
    """1 for grey, 3 for colour, as the decoded picture will have; alpha is not counted."""

    bit_depth: int
    """8, 16, or 32 for floating point."""

    orientation: int = 1
    """EXIF orientation, 1 (upright) to 8."""

    page: int = 0
    """Which picture of the file this is, from 0."""

    pages: int = 1
    """How many pictures the file holds, thumbnails included."""

    camera: CameraColour | None = None
    """The camera's colours, of a RAW file."""

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) as seen upright."""
        return (self.width, self.height) if self.orientation >= 5 else (self.height, self.width)


@dataclass(frozen=True)
class DecodedPicture:
    """Samples as the file stores them, before they become an Image."""

    samples: NDArray[Any]
    """``(H, W)`` or ``(H, W, C)`` with C = 2 (grey, alpha), 3 (RGB) or 4 (RGB, alpha); uint8, uint16 or float."""

    white: int | None = None
    """The level that stands for 1 when it is not the largest of the type (a TIFF of 4 or 12 bits)."""

    icc_profile: bytes | None = None
    """The colour profile, if the file has one that fits the samples."""

    exif: bytes | None = None
    """The EXIF block without its JPEG prefix."""

    orientation: int | None = None
    """Orientation 1..8 when the format has a place of its own for it (TIFF); None when EXIF tells."""

    resolution: tuple[float, float] | None = None
    """Dots per inch across and down, as stored."""

    premultiplied: bool = False
    """True when colours have been multiplied by alpha."""

    page: int | None = None
    """Page of a multi-page file from 0; None for a file with one picture."""

    notices: tuple[str, ...] = ()
    """What the decoder had to change, one sentence each."""

    camera: CameraColour | None = None
    """The camera whose colours the samples are in; None for colours that a profile describes."""


@dataclass(frozen=True)
class Format:
    """A kind of file that can be read."""

    name: str
    """How messages call it."""

    matches: Callable[[bytes], bool]
    """Whether the first bytes of a file are of this kind."""

    read_headers: Callable[[BinaryIO], list[Header]]
    """The header of each picture in the file, without decoding any."""

    decode: Callable[[BinaryIO, int, int], DecodedPicture]
    """(file, page, largest number of pixels) -> samples."""


def require_pixels(width: int, height: int, max_pixels: int) -> None:
    """Raise InputError when a header promises no pixels, or more than the limit."""
    if width < 1 or height < 1:
        raise InputError(f"the header says {width}x{height}: there are no pixels", code="damaged-picture")
    if not width * height <= max_pixels:  # nor if the limit is no number
        raise InputError(
            f"the header says {width}x{height}, more than the limit of {max_pixels} pixels",
            hint=["use a smaller picture", "{max_pixels} higher if you trust the file"],
            code="too-many-pixels",
            pixels=width * height,
            limit=max_pixels,
        )


def ends_too_early() -> InputError:
    """The error for a file that is shorter than its header says."""
    return InputError("the file ends too early; copy it again from the camera", code="damaged-picture")
