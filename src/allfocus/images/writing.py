"""Pictures -> files: PNG, TIFF, JPEG, WebP, HEIF or DNG by the ending of the name, whole or not at all."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import OutputError
from allfocus.files.names import is_portable
from allfocus.files.placing import LONGEST_NAME, recover_folder, replace_file
from allfocus.files.protection import existing_file, refuse_special
from allfocus.images.conversion import from_integers, to_integers
from allfocus.images.encoders import ENCODERS, Encoder, Samples, encode_webp
from allfocus.images.exif import add_history, without_malformed
from allfocus.images.image import Image
from allfocus.images.limits import Compression
from allfocus.images.value_range import extremes_of

__all__ = [
    "ENCODERS",
    "Compression",
    "check_output",
    "default_ending",
    "encode_image",
    "encode_webp",
    "is_dng",
    "replace_file",
    "to_integers",
    "write_image",
]

NO_CAMERA = "DNG holds the light that a sensor saw, and this is no picture from camera RAW alone; choose .tif"
OVERSHOOT = 0.5
"""How far beyond 0..1 values are clipped as a rest of resampling; farther ones are another range."""


def write_image(
    image: Image | NDArray[Any],
    path: str | os.PathLike[str],
    *,
    bit_depth: int | None = None,
    quality: int = 95,
    compression: Compression = None,
    history: str | None = None,
    software: str = "allfocus",
    overwrite: bool = False,
) -> Path:
    """The path of the file, which now holds the picture with its alpha, colour profile, EXIF and resolution.

    The file gets its name only when all of it is on the disk, so it appears whole or not at all.

    Args:
        image: An Image, or an array ``(H, W)`` or ``(H, W, 3)``: float, uint8 or uint16. Integer formats hold float in
            0..1; what resampling leaves a little outside is clipped, other ranges are refused. Floating-point TIFF
            holds any range.
        path: Where to; the ending gives the format: .png, .tif, .tiff, .jpg, .jpeg, .webp; .heic (extra ``heif``), and
            .dng for a picture in a camera's own colours.
        bit_depth: 8 or 16 (TIFF also 32, floating point); None keeps that of the picture as far as the format can:
            JPEG and WebP have 8 bits, HEIF has 10, PNG has 16 at most.
        quality: JPEG (always with full colour resolution) or WebP (lossless at 100) quality, 1 to 100.
        compression: Of PNG a level from 0 (fast) to 9 (small); of TIFF "none", "deflate", "lzw" or
            "zstd" (small and fast, but not every program reads it). Lossless, all.
        history: A sentence for the EXIF history, such as "fused by allfocus 1.0 from 12 frames"; None leaves EXIF as
            it is.
        software: For the software entry of EXIF, when there is a history to write.
        overwrite: Replace an existing file.

    Raises:
        OutputError: the file exists, the folder is missing or read-only, the disk is full, or the format cannot hold
            the picture.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_image(np.zeros((4, 6, 3), np.float32), folder + "/black.png").name
        'black.png'
    """
    path = Path(path)
    check_output(path, overwrite=overwrite, in_camera_colours=isinstance(image, Image) and image.camera is not None)
    data = encode_image(
        image,
        path,
        bit_depth=bit_depth,
        quality=quality,
        compression=compression,
        history=history,
        software=software,
    )
    replace_file(path, data, overwrite=overwrite)
    return path


def encode_image(
    image: Image | NDArray[Any],
    path: Path,
    *,
    bit_depth: int | None = None,
    quality: int = 95,
    compression: Compression = None,
    history: str | None = None,
    software: str = "allfocus",
) -> bytes | memoryview:
    """The bytes that :func:`write_image` would write to this path, for those who put files in place themselves."""
    kind = ENCODERS[path.suffix.lower()]
    _check_options(path, kind, quality, compression)
    picture = image if isinstance(image, Image) else _image_of_array(image)
    if bit_depth is None:
        bit_depth = min(picture.bit_depth, max(kind.bit_depths))
    _check_bit_depth(path, kind, bit_depth)
    if kind.largest_side and max(picture.width, picture.height) > kind.largest_side:
        raise OutputError(
            f"{kind.name} ends at {kind.largest_side} pixels a side, the picture has "
            f"{picture.width}x{picture.height}; choose .png or .tif",
            where=path,
            code="unwritable-format",
        )
    if picture.exif:
        picture = replace(picture, exif=without_malformed(picture.exif))
    if history is not None:
        size = {"width": picture.width, "height": picture.height}
        picture = replace(picture, exif=add_history(picture.exif, software=software, history=history, **size))
    if bit_depth < 32:
        _require_unit_range(path, kind, picture.pixels, bit_depth)
    samples = _file_samples(picture, bit_depth, with_alpha=kind.has_alpha)
    return kind.encode(samples, picture, quality, compression)


def is_dng(path: Path) -> bool:
    """Whether a name is that of a file for pictures in a camera's own colours.

    Example:
        >>> is_dng(Path("a.DNG")), is_dng(Path("a.tif"))
        (True, False)
    """
    kind = ENCODERS.get(path.suffix.lower())
    return kind is not None and kind.of_cameras


def default_ending(frame: Path) -> str:
    """The ending of a result whose user did not choose one, from that of the first frame; PNG where in doubt.

    Example:
        >>> default_ending(Path("DSC1.JPEG")), default_ending(Path("DSC1.nef"))
        ('.jpg', '.png')
    """
    return {".jpg": ".jpg", ".jpeg": ".jpg", ".tif": ".tif", ".tiff": ".tif"}.get(frame.suffix.lower(), ".png")


def _check_options(path: Path, kind: Encoder, quality: int, compression: Compression) -> None:
    if not isinstance(quality, int) or not 1 <= quality <= 100:
        raise OutputError(f"quality is a whole number from 1 to 100; found {quality!r}")
    if compression is not None and compression not in kind.compressions:
        known = ", ".join(map(str, kind.compressions)) or "none: use quality"
        raise OutputError(
            f"{kind.name} cannot be written with compression {compression}; it knows {known}",
            where=path,
            code="unwritable-format",
        )


def _check_bit_depth(path: Path, kind: Encoder, bit_depth: int | None) -> None:
    if bit_depth is not None and bit_depth not in kind.bit_depths:
        depths = " or ".join(map(str, kind.bit_depths))
        able = ".png or .tif" if bit_depth == 16 else ".tif"
        raise OutputError(
            f"{kind.name} has {depths} bits per channel, not {bit_depth}; choose {able}",
            where=path,
            code="unwritable-format",
        )


def _require_unit_range(path: Path, kind: Encoder, pixels: NDArray[np.float32], bit_depth: int) -> None:
    """Raise OutputError for values that integers cannot hold, with room for what resampling leaves beyond 0..1."""
    low, high = extremes_of(pixels)
    if low < -OVERSHOOT or high > 1 + OVERSHOOT:
        raise OutputError(
            f"the values run from {low:g} to {high:g}, {kind.name} with {bit_depth} bits holds 0..1; "
            "scale them first, or choose .tif with 32 bits, which keeps them as they are",
            where=path,
            code="unwritable-format",
        )


def _file_samples(picture: Image, bit_depth: int, *, with_alpha: bool) -> Samples:
    samples = to_integers(picture.pixels, bit_depth)
    if picture.alpha is None or not with_alpha:
        return samples
    return np.dstack([samples, to_integers(picture.alpha, bit_depth)])


def check_output(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    picture: bool = True,
    bit_depth: int | None = None,
    quality: int = 95,
    compression: Compression = None,
    in_camera_colours: bool = False,
) -> None:
    """Raise OutputError when a file could not be written there: meant to be asked before the long work begins.

    Args:
        path: The file that will be written.
        overwrite: Whether an existing file may be replaced.
        picture: Whether the ending must be that of a picture format that can be written.
        bit_depth: Bits per channel that the format must be able to hold; None takes any.
        quality: JPEG/WebP quality, 1 to 100.
        compression: Of PNG or TIFF, which the format must know; see :func:`write_image`.
        in_camera_colours: Whether the picture is in a camera's own colours, which a DNG must be.
    """
    path = Path(path)
    require_name(path)
    # os.path instead of Path: it answers "no" where permissions forbid to look, and the folder is checked below.
    if os.path.isdir(path):
        raise OutputError("is a folder; name a file in it", where=path)
    if len(os.fsencode(path.name)) > LONGEST_NAME:
        raise OutputError(f"the name is longer than {LONGEST_NAME} bytes; choose a shorter one", where=path)
    if picture and path.suffix.lower() not in ENCODERS:
        raise OutputError(
            f"cannot tell the format from the ending; use one of {', '.join(ENCODERS)}",
            where=path,
            code="unwritable-format",
        )
    if picture:
        kind = ENCODERS[path.suffix.lower()]
        _check_options(path, kind, quality, compression)
        _check_bit_depth(path, kind, bit_depth)
        if kind.of_cameras and not in_camera_colours:
            raise OutputError(NO_CAMERA, where=path, code="unwritable-format")
        if kind.require is not None:
            kind.require()
    if not os.path.isdir(path.parent):
        raise OutputError(f"the folder {path.parent} does not exist; make it first", where=path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"the folder {path.parent} is read-only; choose another", where=path)
    refuse_special(path)
    recover_folder(path.parent)  # a run that was killed may have left files that are none
    if os.path.lexists(path) and not overwrite:
        raise existing_file(path)


def require_name(path: Path) -> None:
    """Raise OutputError when no file can be called so: nothing, a root, a name with a zero byte, or one of a device.

    Example:
        >>> require_name(Path("a.png"))
    """
    if not path.name or "\x00" in str(path):
        raise OutputError("is no name that a file can have; name a file", where=repr(str(path)))
    if os.name == "nt" and not is_portable(path.name):
        raise OutputError("is no name that a file can have on Windows; choose another", where=path)


def _image_of_array(array: NDArray[Any]) -> Image:
    if not isinstance(array, np.ndarray):
        raise OutputError(f"a {type(array).__name__} is no picture; give an Image, or an array of NumPy")
    if not array.size:
        raise OutputError(f"an array of shape {array.shape} has no pixels; there is nothing to write")
    kind = array.dtype.newbyteorder("=")  # the large byte may come first
    if kind in (np.uint8, np.uint16):
        return Image(from_integers(array), bit_depth=8 * kind.itemsize)
    if array.dtype.kind != "f":
        raise OutputError(f"an array of {array.dtype} is no picture; give float in 0..1, uint8 or uint16")
    if not np.isfinite(array).all():
        raise OutputError("the picture has values that are not a number; nothing was written")
    return Image(array.astype(np.float32), bit_depth=8)
