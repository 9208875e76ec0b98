"""Samples as a file stores them <-> a picture as the library wants it: the only place where integers become 0..1."""

import functools
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.colour_profile import profile_of_exif, wrong_space
from allfocus.images.decoded import DecodedPicture
from allfocus.images.exif import mark_as_upright, read_orientation
from allfocus.images.image import Image
from allfocus.images.value_range import BY_VALUE, extremes_of
from allfocus.progress import Notice

ROWS_AT_ONCE = 256


def to_integers(pixels: NDArray[np.float32], bit_depth: int) -> NDArray[Any]:
    """The samples a file stores: 0..1 scaled, rounded to the nearest and clipped; 32 keeps floating point as it is.

    Example:
        >>> to_integers(np.array([[0.0, 0.5, 1.5]], np.float32), 8)
        array([[  0, 128, 255]], dtype=uint8)
    """
    if bit_depth == 32:
        return pixels
    largest, kind = (255, np.uint8) if bit_depth == 8 else (65535, np.uint16)
    rounded: NDArray[Any] = np.empty(pixels.shape, kind)
    for start in range(0, pixels.shape[0], ROWS_AT_ONCE):  # not all at once: the steps between would take the most room
        part = slice(start, start + ROWS_AT_ONCE)
        rounded[part] = np.rint(np.clip(pixels[part], 0, 1) * np.float32(largest))
    return rounded


def from_integers(samples: NDArray[Any], *, white: int | None = None) -> NDArray[np.float32]:
    """Samples of 8 or 16 bits as 0..1; floating point comes back as it is.

    Args:
        samples: Of any shape; uint8, uint16 or floating point.
        white: The sample that stands for 1; by default the largest that there is.

    Example:
        >>> from_integers(np.array([[0, 51, 255]], np.uint8))
        array([[0. , 0.2, 1. ]], dtype=float32)
    """
    if samples.dtype.kind == "f":
        return np.ascontiguousarray(samples, np.float32)
    # Cast, then divided in place: faster than a division that casts, and a large picture is not held three times.
    scaled = samples.astype(np.float32)
    scaled /= np.float32(white or np.iinfo(samples.dtype).max)
    return scaled


class StoredImage(Image):
    """A picture that still is the integers of its file; pixels are made of them when they are first asked for.

    Who only stores them again, as a stack that is not aligned does, need not pay for four times their memory.
    """

    _levels: NDArray[Any] | None = None

    @classmethod
    def of(cls, levels: NDArray[Any], **facts: Any) -> Self:
        """The picture of levels, uint8 or uint16 of shape ``(H, W)`` or ``(H, W, 3)``; facts are fields of Image."""
        image = cls(np.zeros((1,) * 2 + levels.shape[2:], np.float32), bit_depth=8 * levels.itemsize, **facts)
        vars(image).pop("pixels")
        vars(image)["_levels"] = levels
        return image

    # Not found in the instance until it has been asked for, nor anew after that.
    @functools.cached_property
    def pixels(self) -> NDArray[np.float32]:
        """As of any picture; the levels are let go."""
        levels = self._levels
        if levels is not None:  # else another thread has just been here
            vars(self)["pixels"] = from_integers(levels)
            vars(self).pop("_levels", None)
        made: NDArray[np.float32] = vars(self)["pixels"]
        return made

    @property
    def levels(self) -> NDArray[Any] | None:
        """The integers of the file, until somebody has asked for pixels."""
        return self._levels

    @property
    def _shape(self) -> tuple[int, ...]:
        levels = self._levels
        return self.pixels.shape if levels is None else levels.shape

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return int(self._shape[0])

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return int(self._shape[1])

    @property
    def is_colour(self) -> bool:
        """True for RGB, False for one channel."""
        return len(self._shape) == 3


def image_of(decoded: DecodedPicture, path: Path) -> Image:
    """The picture that samples stand for: float32, upright, alpha apart, with the metadata of the file.

    Integers of 8 and 16 bits without sign become 0..1; floating point and other integers are taken as they are.

    Args:
        decoded: What a decoder gave.
        path: The file, for the name of the picture.

    Raises:
        InputError: the samples are of a type that stands for no brightness, or not finite.
    """
    orientation = read_orientation(decoded.exif) if decoded.orientation is None else decoded.orientation
    resolution = decoded.resolution
    if resolution and orientation >= 5:
        resolution = (resolution[1], resolution[0])
    facts: dict[str, Any] = {
        "exif": mark_as_upright(decoded.exif) if decoded.exif else None,
        "path": path,
        "page": decoded.page,
        "resolution": resolution,
        "camera": decoded.camera,
    }
    if _is_plain(decoded):
        levels = np.ascontiguousarray(turn_upright(decoded.samples, orientation))
        profile, odd = _profile_of(decoded, levels)
        return StoredImage.of(levels, icc_profile=profile, notices=(*decoded.notices, *odd), **facts)
    pixels, bit_depth = _to_pixels(decoded.samples, decoded.white)
    pixels, alpha = _split_alpha(pixels, premultiplied=decoded.premultiplied, white=None if bit_depth == 32 else 1.0)
    profile, odd = _profile_of(decoded, pixels)
    return Image(
        pixels=np.ascontiguousarray(turn_upright(pixels, orientation)),
        bit_depth=bit_depth,
        icc_profile=profile,
        notices=(*decoded.notices, *odd),
        alpha=None if alpha is None else np.ascontiguousarray(turn_upright(alpha, orientation)),
        **facts,
    )


def _is_plain(decoded: DecodedPicture) -> bool:
    """Whether pixels are nothing but the samples scaled: no alpha, and white is the largest that there is."""
    samples = decoded.samples
    scaled = samples.dtype in (np.uint8, np.uint16) and decoded.white in (None, np.iinfo(samples.dtype).max)
    return scaled and (samples.ndim == 2 or (samples.ndim == 3 and samples.shape[2] == 3))


def _profile_of(decoded: DecodedPicture, picture: NDArray[Any]) -> tuple[bytes | None, tuple[str, ...]]:
    """The profile that says what the values mean, and what there is to say about it.

    One for another kind of values would be written on with the result, and programs refuse it or show wrong colours.
    """
    profile, colour = decoded.icc_profile, picture.ndim == 3
    odd = "" if profile is None else wrong_space(profile, colour=colour)
    if odd:
        meant = "RGB" if colour else "grey"
        return None, (Notice(f"its colour profile is for {odd}, its pixels are {meant}; the profile is left out"),)
    return profile or (profile_of_exif(decoded.exif) if colour else None), ()


def _split_alpha(
    values: NDArray[np.float32], *, premultiplied: bool, white: float | None
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    channels = 1 if values.ndim == 2 else values.shape[2]
    if channels in (1, 3):
        return values, None
    if channels not in (2, 4):
        raise InputError(f"it has {channels} channels; grey, RGB, and either with alpha can be read")
    colour, alpha = values[:, :, : channels - 1], values[:, :, channels - 1]
    if bool((alpha == 1).all()):
        return (colour[:, :, 0] if channels == 2 else colour), None
    low, high = extremes_of(alpha)
    if low < 0 or high > 1:
        raise InputError(f"its alpha runs from {low:g} to {high:g}; scale it to 0..1, or leave it out")
    if premultiplied:
        colour = np.asarray(colour / np.where(alpha > 0, alpha, 1)[:, :, None], np.float32)
        if white is not None:  # rounding can lift a colour above its alpha, and so above white
            colour = np.clip(colour, 0, white)
    return (colour[:, :, 0] if channels == 2 else colour), alpha


def _to_pixels(samples: NDArray[Any], white: int | None) -> tuple[NDArray[np.float32], int]:
    """Integers in 0..1 and floating point as it is, with the bit depth that stands for it."""
    if samples.dtype in (np.uint8, np.uint16):
        bit_depth = samples.dtype.itemsize * 8
        return from_integers(samples, white=white), bit_depth
    if samples.dtype.kind == "f":
        _require_finite(samples)
        return samples.astype(np.float32), 32
    if samples.dtype.newbyteorder("=") in BY_VALUE:
        return samples.astype(np.float32), 32
    raise InputError(f"its samples are {samples.dtype}; integers of up to 32 bits and floating point can be read")


def _require_finite(samples: NDArray[Any]) -> None:
    low, high = extremes_of(samples)
    most = float(np.finfo(np.float32).max)
    if -most <= low and high <= most:
        return
    finite = np.isfinite(samples)
    if finite.all():
        raise InputError(f"its values run from {low:g} to {high:g}, beyond what 32 bits hold; scale them down")
    place = tuple(int(axis) for axis in np.argwhere(~finite)[0])
    channel = f", channel {place[2]}" if len(place) > 2 else ""
    raise InputError(
        f"the value at row {place[0]}, column {place[1]}{channel} is {samples[place]}; "
        f"replace the {int((~finite).sum())} values that are not finite"
    )


def turn_upright(pixels: NDArray[Any], orientation: int) -> NDArray[Any]:
    """The picture as it should be seen, for an EXIF orientation of 1 (upright already) to 8.

    Example:
        >>> turn_upright(np.array([[1, 2, 3]], np.float32), 6)[:, 0]
        array([1., 2., 3.], dtype=float32)
    """
    if orientation >= 5:  # 5 to 8 are stored with rows and columns exchanged
        pixels = np.swapaxes(pixels, 0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels
