"""JPEG, WebP and BMP files -> samples, through Pillow: it sees only formats that have 8 bits a channel."""

import io
import struct
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.decoded import DecodedPicture, Header, ends_too_early, require_pixels
from allfocus.images.exif import PREFIX, read_orientation
from allfocus.images.exif_blocks import find_exif_block, walk_jpeg
from allfocus.images.jpeg_check import require_modest_scans, require_sound_jpeg
from allfocus.images.memory import require_room
from allfocus.images.webp_chunks import walk_webp
from allfocus.progress import Notice

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

LONGEST_RUN = 256
"""Bytes of the same value that packed pixels may hold in a row, beyond what a flat picture explains."""

CHANNELS = {"1": 1, "L": 1, "LA": 1, "RGB": 3, "RGBA": 3, "P": 3, "PA": 3, "CMYK": 3}
"""Channels of the picture that each of Pillow's modes becomes, alpha not counted."""


def read_jpeg_headers(file: BinaryIO) -> list[Header]:
    """The header of a JPEG file."""
    return [_header_of(_open_jpeg(file))]


def decode_jpeg(file: BinaryIO, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of a JPEG file; CMYK becomes RGB with a notice."""
    picture = _open_jpeg(file)
    require_pixels(*picture.size, max_pixels)
    require_modest_scans(file, *picture.size)
    decoded = _decode_with_pillow(_open_jpeg(file), max_pixels)
    file.seek(0)
    require_sound_jpeg(file.read())
    return decoded


def read_bmp_headers(file: BinaryIO) -> list[Header]:
    """The header of a BMP file."""
    return [_header_of(_open_bmp(file))]


def decode_bmp(file: BinaryIO, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of a BMP file."""
    return _decode_with_pillow(_open_bmp(file), max_pixels)


def read_webp_headers(file: BinaryIO) -> list[Header]:
    """The header of a WebP file, read here because Pillow makes room for the pixels as soon as it opens one."""
    size: tuple[int, int] | None = None
    for kind, start, _ in walk_webp(file):
        file.seek(start)
        if kind in (b"VP8X", b"VP8L", b"VP8 ") and size is None:
            size = _webp_size(kind, file.read(10))
    orientation = read_orientation(find_exif_block(file))
    if size is None:
        raise InputError("the WebP header is missing; the file is damaged")
    return [Header(*size, channels=3, bit_depth=8, orientation=orientation)]


def decode_webp(file: BinaryIO, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of a WebP file; of a moving one the first picture, with a notice."""
    from PIL.WebPImagePlugin import WebPImageFile

    (header,) = read_webp_headers(file)
    require_pixels(header.width, header.height, max_pixels)
    require_room(header.width, header.height, 4, 1)
    file.seek(0)
    data = file.read()
    _require_lively(file, data, header)
    picture = WebPImageFile(io.BytesIO(data))
    if picture.size != (header.width, header.height):
        raise InputError(f"its parts disagree on the size ({header.width}x{header.height}); the file is damaged")
    return _decode_with_pillow(picture, max_pixels)


def _open_jpeg(file: BinaryIO) -> "ImageFile":
    from PIL.JpegImagePlugin import JpegImageFile

    # Pillow reads EXIF for the resolution, without any limit of its own.
    find_exif_block(file)
    _require_eight_bits(file)
    # The plug-in class is used directly: Image.open would apply Pillow's own, process-wide pixel limit.
    file.seek(0)
    return JpegImageFile(file)


def _require_eight_bits(file: BinaryIO) -> None:
    """Raise InputError, in place of Pillow's odd one, for JPEG of 12 or 16 bits or without loss."""
    for marker, body in walk_jpeg(file):
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC) and body:
            if body[0] != 8:
                raise InputError(
                    f"it is a JPEG of {body[0]} bits, which cannot be read; save it with 8 bits or as TIFF"
                )
            if marker in (0xC3, 0xC7, 0xCB, 0xCF):
                raise InputError("it is a lossless JPEG, which cannot be read; save it as PNG or TIFF")
            return


def _open_bmp(file: BinaryIO) -> "ImageFile":
    from PIL.BmpImagePlugin import BmpImageFile

    file.seek(0)
    return BmpImageFile(file)


def _header_of(picture: "ImageFile") -> Header:
    channels = _require_mode(picture.mode)
    exif = picture.info.get("exif") or b""
    return Header(*picture.size, channels, 8, read_orientation(exif.removeprefix(PREFIX)))


def _require_mode(mode: str) -> int:
    if mode not in CHANNELS:
        raise InputError(f"its colour mode {mode} cannot be read; save it as RGB or grey")
    return CHANNELS[mode]


def _decode_with_pillow(picture: "ImageFile", max_pixels: int) -> DecodedPicture:
    from PIL import ImageFile

    require_pixels(*picture.size, max_pixels)
    _require_mode(picture.mode)
    require_room(*picture.size, len(picture.getbands()) if picture.mode not in ("P", "PA") else 4, 1)
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise InputError(
            "Pillow is set to fill up truncated files with grey (LOAD_TRUNCATED_IMAGES); set it to False to read safely"
        )
    picture.load()
    samples, notices = _samples_of(picture)
    exif = picture.info.get("exif") or None
    return DecodedPicture(
        samples,
        # A CMYK profile says nothing about the RGB made of it.
        icc_profile=None if picture.mode == "CMYK" else picture.info.get("icc_profile") or None,
        exif=exif.removeprefix(PREFIX) if exif else None,
        resolution=_resolution_of(picture.info.get("dpi")),
        notices=notices,
    )


def _samples_of(picture: "ImageFile") -> tuple[NDArray[Any], tuple[str, ...]]:
    notices = []
    if getattr(picture, "n_frames", 1) > 1:
        notices.append(Notice(f"the first of {picture.n_frames} moving pictures taken"))  # type: ignore[attr-defined]  # only some formats have it
    if picture.mode == "CMYK":
        notices.append(Notice("CMYK converted to RGB without a profile: colours are approximate"))
        return np.asarray(picture.convert("RGB")), tuple(notices)
    if picture.mode in ("P", "PA"):
        notices.append(Notice("palette expanded to RGB"))
        colours = len(picture.palette.palette) // len(picture.palette.mode) if picture.palette is not None else 0
        if picture.mode == "P" and int(np.asarray(picture).max()) >= colours:
            raise InputError(f"it uses colours beyond the {colours} of its palette; the file is damaged")
        return np.asarray(picture.convert("RGBA" if "transparency" in picture.info else "RGB")), tuple(notices)
    return np.asarray(picture.convert("L") if picture.mode == "1" else picture), tuple(notices)


def _resolution_of(dots: object) -> tuple[float, float] | None:
    if not isinstance(dots, tuple) or len(dots) != 2:
        return None
    across, down = (float(value) for value in dots)
    return (across, down) if 1 < across < 1e6 and 1 < down < 1e6 else None


def _require_lively(file: BinaryIO, data: bytes, header: Header) -> None:
    """Raise InputError when the packed pixels hold a run of zeros that no encoder writes: part of the file is lost.

    WebP has no checksums, and its decoder makes a picture of anything. What it packs looks like chance; only a flat
    colour, packed with loss, gives zeros: a fifth of a bit for each block of 16 x 16 pixels (measured).
    """
    flat = header.width * header.height // 256 // 32
    for kind, start, length in walk_webp(file):
        longest = LONGEST_RUN + (flat if kind in (b"VP8 ", b"ANMF") else 0)
        packed = kind in (b"VP8 ", b"VP8L", b"ALPH", b"ANMF")
        if packed and data.find(bytes(longest), start, start + length) >= 0:
            raise InputError(f"its data is damaged (more than {longest} zeros in a row); copy it again")


def _webp_size(kind: bytes, head: bytes) -> tuple[int, int]:
    if len(head) < 10:
        raise ends_too_early()
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[4:7], "little"), 1 + int.from_bytes(head[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(head[1:5], "little")
        return 1 + bits % 2**14, 1 + (bits >> 14) % 2**14
    width, height = struct.unpack("<HH", head[6:10])
    return width % 2**14, height % 2**14
