"""A picture -> the bytes of a file: one encoder for each format that can be written, in a table by ending."""

import io
import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import OutputError
from allfocus.images.exif import DESCRIPTIVE_TAGS, PREFIX, parse_block
from allfocus.images.image import Image
from allfocus.images.limits import Compression
from allfocus.images.tiff_directories import Directory, lay_out
from allfocus.images.tiff_layout import FileSlices, Layout, find_layout

Samples = NDArray[Any]

METRES_PER_INCH = 0.0254

LARGEST_JPEG_SEGMENT = 65533
"""Bytes that fit into one JPEG segment, which is all that EXIF may take there."""


def encode_png(samples: Samples, picture: Image, quality: int = 95, compression: Compression = None) -> bytes:
    """A PNG file of 8 or 16 bits. Pillow cannot write 16-bit colour, so the chunks it would add are added here."""
    import imagecodecs

    # Level 6 takes four times as long for a file 5 % smaller (measured on a photo of 20 megapixels).
    level = 4 if compression is None else int(compression)
    # Room for the worst case: what cannot be packed, a byte for each row, and the heads of the chunks. What the encoder
    # makes room for by itself is too little for pictures that are a pixel wide.
    rows = samples.shape[0]
    room = samples.nbytes + 2 * rows + (samples.nbytes + rows) // 200 + 65536
    data = bytes(imagecodecs.png_encode(np.ascontiguousarray(samples), level=level, out=room))
    extra = b""
    if picture.icc_profile:
        extra += png_chunk(b"iCCP", b"ICC profile\x00\x00" + zlib.compress(picture.icc_profile))
    if picture.resolution:
        across, down = (round(dots / METRES_PER_INCH) for dots in picture.resolution)
        extra += png_chunk(b"pHYs", struct.pack(">IIB", across, down, 1))
    if picture.exif:
        extra += png_chunk(b"eXIf", picture.exif)
    header_end = 8 + 12 + 13
    return data[:header_end] + extra + data[header_end:]


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """One PNG chunk: length, kind, body, checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def encode_jpeg(samples: Samples, picture: Image, quality: int = 95, compression: Compression = None) -> bytes:
    """A JPEG file with full colour resolution."""
    if picture.exif and len(picture.exif) + len(PREFIX) > LARGEST_JPEG_SEGMENT:
        raise OutputError(
            f"the EXIF data ({len(picture.exif)} bytes) is too long for JPEG, which holds {LARGEST_JPEG_SEGMENT}; "
            "choose .png or .tif"
        )
    options: dict[str, Any] = {"dpi": picture.resolution} if picture.resolution else {}
    # Subsampled colour would blur the edges that the stack was shot to keep.
    return _encode_with_pillow(samples, picture, "JPEG", quality=quality, subsampling=0, optimize=True, **options)


def encode_webp(samples: Samples, picture: Image, quality: int = 95, compression: Compression = None) -> bytes:
    """A WebP file, lossless at quality 100."""
    # "exact" keeps the colours below transparent pixels.
    return _encode_with_pillow(samples, picture, "WEBP", quality=quality, lossless=quality == 100, exact=True)


def _encode_with_pillow(samples: Samples, picture: Image, kind: str, **options: Any) -> bytes:
    from PIL import Image as PillowImage

    if picture.icc_profile:
        options["icc_profile"] = picture.icc_profile
    if picture.exif:
        options["exif"] = PREFIX + picture.exif
    file = io.BytesIO()
    PillowImage.fromarray(samples).save(file, kind, **options)
    return file.getvalue()


def encode_tiff(
    samples: Samples,
    picture: Image,
    quality: int = 95,
    compression: Compression = None,
    *,
    big: bool | None = None,
) -> memoryview:
    """A TIFF file of 8, 16 or 32 (floating point) bits, packed without loss.

    ``big`` asks for BigTIFF; None chooses it where the pixels may need more than the 4 GiB of classic TIFF.
    """
    import tifffile

    packing = TIFF_COMPRESSIONS["deflate" if compression is None else str(compression)]
    channels = 1 if samples.ndim == 2 else samples.shape[2]
    file = io.BytesIO()
    tifffile.imwrite(
        file,
        samples,
        bigtiff=samples.nbytes > LARGEST_CLASSIC_TIFF if big is None else big,
        # The EXIF entries are in the byte order of their block; a file in that order can take them as they are.
        byteorder=">" if (picture.exif or b"").startswith(b"MM") else "<",
        photometric="rgb" if channels >= 3 else "minisblack",
        planarconfig="contig" if channels > 1 else None,
        extrasamples=["unassalpha"] if channels in (2, 4) else None,
        compression=packing,
        # The usual level 6 takes three times as long for a file 7 % smaller (measured on 12 rendered megapixels).
        compressionargs={"level": 1} if packing == "zlib" else None,
        predictor=packing is not None,
        resolution=picture.resolution,
        resolutionunit=2 if picture.resolution else None,
        metadata=None,
        software=False,
        iccprofile=picture.icc_profile,
    )
    if picture.exif:
        add_to_tiff(file, parse_block(picture.exif))
    return file.getbuffer()


def add_to_tiff(file: BinaryIO, extra: Directory) -> None:
    """Give the TIFF file a new first directory at its end that also holds the EXIF entries.

    tifffile does not write EXIF and GPS directories. What its own directory points to (the pixels) stays where it is.
    """
    data = FileSlices(file)
    found = find_layout(data)
    directory = parse_block(data)
    start = len(data) + len(data) % 2
    layout: Layout = found[0] if found else Layout()
    if not directory.entries or (start > 2**32 - 2**24 and not layout.big):
        raise OutputError("the picture is too large for this TIFF file with EXIF; choose .png")
    described = [entry for entry in extra.entries if entry[0] in DESCRIPTIVE_TAGS]
    replaced = {entry[0] for entry in described}
    merged = Directory([entry for entry in directory.entries if entry[0] not in replaced] + described, extra.children)
    file.seek(0, os.SEEK_END)
    file.write(b"\x00" * (len(data) % 2) + lay_out(merged, start, layout))
    file.seek(8 if layout.big else 4)
    file.write(layout.position.pack(start))


LARGEST_CLASSIC_TIFF = 2**32 - 2**26
"""Bytes of pixels; compression seldom makes them more, and the rest is left for that and for metadata."""

TIFF_COMPRESSIONS: dict[str, str | None] = {"none": None, "deflate": "zlib", "lzw": "lzw", "zstd": "zstd"}


@dataclass(frozen=True)
class Encoder:
    """A kind of file that can be written."""

    name: str
    """How messages call it."""

    bit_depths: tuple[int, ...]
    """Bits per channel it can hold."""

    encode: Callable[[Samples, Image, int, Compression], bytes | memoryview]
    """(samples, picture with its metadata, quality, compression) -> file bytes."""

    has_alpha: bool = True
    """Whether it can hold alpha; where it cannot, alpha is left out."""

    compressions: tuple[str | int, ...] = ()
    """What its compression can be; empty when there is no choice."""

    largest_side: int | None = None
    """Pixels along one side that the format can count; None when no picture comes near."""

    of_cameras: bool = False
    """Whether it holds nothing but pictures in a camera's own colours."""

    require: Callable[[], object] | None = None
    """Raises MissingDependencyError when a package that it needs is not there."""


def _encode_dng(samples: Samples, picture: Image, quality: int, compression: Compression) -> memoryview:
    from allfocus.images.dng_encoder import encode_dng  # which is built on this module

    return encode_dng(samples, picture, quality, compression)


def _encode_heif(samples: Samples, picture: Image, quality: int, compression: Compression) -> bytes:
    from allfocus.images.heif_encoder import encode_heif

    return encode_heif(samples, picture, quality, compression)


def _require_heif() -> object:
    from allfocus.images.heif_encoder import require_heif_encoder

    return require_heif_encoder()


_JPEG = Encoder("JPEG", (8,), encode_jpeg, has_alpha=False, largest_side=65535)
_TIFF = Encoder("TIFF", (8, 16, 32), encode_tiff, compressions=tuple(TIFF_COMPRESSIONS))
_HEIF = Encoder("HEIF", (8, 10), _encode_heif, largest_side=16384, require=_require_heif)
ENCODERS: dict[str, Encoder] = {
    ".png": Encoder("PNG", (8, 16), encode_png, compressions=tuple(range(10))),
    ".tif": _TIFF,
    ".tiff": _TIFF,
    ".jpg": _JPEG,
    ".jpeg": _JPEG,
    ".webp": Encoder("WebP", (8,), encode_webp, largest_side=16383),
    ".dng": Encoder("DNG", (16,), _encode_dng, has_alpha=False, of_cameras=True),
    ".heic": _HEIF,
    ".heif": _HEIF,
}
"""Every ending that can be written."""
