"""File bytes -> pixels: one decoder per format, chosen by the first bytes of the file and never by its name.

No decoder here makes 16 bits into 8: PNG goes through imagecodecs and TIFF through tifffile, both of which give the
samples as stored; Pillow, which reduces 16-bit colour without a word, sees only formats that have 8 bits. Each decoder
checks the size in the header before it makes room for the pixels, and refuses a file that ends too early.
"""

import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.exif import PREFIX, block_of_tiff

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

LARGEST_PROFILE = 64 * 2**20
"""Bytes; a colour profile that unpacks to more is refused as a decompression bomb."""


@dataclass(frozen=True)
class DecodedPicture:
    """Samples as the file stores them, before they become an Image."""

    samples: NDArray[Any]
    """``(H, W)`` or ``(H, W, C)`` with C = 2 (grey, alpha), 3 (RGB) or 4 (RGB, alpha); uint8, uint16 or float."""

    icc_profile: bytes | None = None
    """The colour profile, if the file has one that fits the samples."""

    exif: bytes | None = None
    """The EXIF block without its JPEG prefix."""

    orientation: int | None = None
    """Orientation 1..8 when the format has a place of its own for it (TIFF); None when EXIF tells."""

    page: int | None = None
    """Page of a multi-page file from 0; None for a file with one picture."""

    notices: tuple[str, ...] = ()
    """What the decoder had to change, one sentence each."""


@dataclass(frozen=True)
class Format:
    """A kind of file that can be read."""

    name: str
    """How messages call it."""

    matches: Callable[[bytes], bool]
    """Whether the first bytes of a file are of this kind."""

    count: Callable[[bytes], int] | None
    """How many frames the file holds; None for a format that holds one picture."""

    decode: Callable[[bytes, int, int], DecodedPicture]
    """(file bytes, page, largest number of pixels) -> samples."""


def find_format(data: bytes) -> Format | None:
    """The format whose signature the file begins with, or None.

    Example:
        >>> find_format(b"BM" + bytes(60)).name
        'BMP'
    """
    return next((candidate for candidate in FORMATS if candidate.matches(data)), None)


def require_pixels(width: int, height: int, max_pixels: int) -> None:
    """Raise InputError when a header promises no pixels, or more than the limit."""
    if width < 1 or height < 1:
        raise InputError(f"the header says {width}x{height}: there are no pixels")
    if width * height > max_pixels:
        raise InputError(
            f"the header says {width}x{height}, more than the limit of {max_pixels} pixels; "
            "raise max_pixels if you trust the file"
        )


# --- PNG ------------------------------------------------------------------------------------------------------------


def decode_png(data: bytes, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of a PNG file with its 8 or 16 bits, palettes expanded."""
    import imagecodecs

    chunks = dict(reversed([(kind, body) for kind, body in png_chunks(data) if kind != b"IDAT"]))
    header = chunks.get(b"IHDR", b"")
    if len(header) != 13:
        raise InputError("the PNG header is missing")
    require_pixels(int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big"), max_pixels)
    samples = imagecodecs.png_decode(data)
    notices = ("palette expanded to RGB",) if header[9] == 3 else ()
    profile = unpack_png_profile(chunks[b"iCCP"]) if b"iCCP" in chunks else None
    return DecodedPicture(samples, profile, chunks.get(b"eXIf"), notices=notices)


def png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each chunk of a PNG file as (kind, body); raises InputError when one is cut off or damaged."""
    position = 8
    while True:
        length = int.from_bytes(data[position : position + 4], "big")
        end = position + 12 + length
        if end > len(data):
            raise InputError("the file ends too early; copy it again from the camera")
        kind, body = data[position + 4 : position + 8], data[position + 8 : end - 4]
        if zlib.crc32(kind + body) != int.from_bytes(data[end - 4 : end], "big"):
            raise InputError(f"the checksum of its {kind.decode('latin-1')} chunk is wrong: the file is damaged")
        yield kind, body
        if kind == b"IEND":
            return
        position = end


def unpack_png_profile(body: bytes) -> bytes | None:
    """The colour profile inside an iCCP chunk: a name, a zero, the method, then the packed profile."""
    _, _, packed = body.partition(b"\x00")
    unpacker = zlib.decompressobj()
    profile = unpacker.decompress(packed[1:], LARGEST_PROFILE)
    if unpacker.unconsumed_tail:
        raise InputError(f"its colour profile unpacks to more than {LARGEST_PROFILE} bytes")
    return profile or None


# --- JPEG, WebP, BMP ------------------------------------------------------------------------------------------------


def decode_jpeg(data: bytes, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of a JPEG file; CMYK becomes RGB with a notice."""
    from PIL.JpegImagePlugin import JpegImageFile

    # The plug-in class is used directly: Image.open would apply Pillow's own, process-wide pixel limit.
    return _decode_with_pillow(JpegImageFile(io.BytesIO(data)), max_pixels)


def decode_webp(data: bytes, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of a WebP file; of a moving one the first picture, with a notice."""
    from PIL.WebPImagePlugin import WebPImageFile

    return _decode_with_pillow(WebPImageFile(io.BytesIO(data)), max_pixels)


def decode_bmp(data: bytes, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of a BMP file."""
    from PIL.BmpImagePlugin import BmpImageFile

    return _decode_with_pillow(BmpImageFile(io.BytesIO(data)), max_pixels)


def _decode_with_pillow(picture: "ImageFile", max_pixels: int) -> DecodedPicture:
    from PIL import Image as PillowImage
    from PIL import ImageFile

    require_pixels(*picture.size, max_pixels)
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise InputError(
            "Pillow is set to fill up truncated files with grey (LOAD_TRUNCATED_IMAGES); set it to False to read safely"
        )
    picture.load()
    profile = picture.info.get("icc_profile") or None
    exif = picture.info.get("exif") or None
    notices = []
    if getattr(picture, "n_frames", 1) > 1:
        notices.append(f"the first of {picture.n_frames} moving pictures taken")  # type: ignore[attr-defined]
    converted: PillowImage.Image = picture
    if picture.mode == "CMYK":
        converted, profile = picture.convert("RGB"), None  # a CMYK profile says nothing about the RGB made of it
        notices.append("CMYK converted to RGB without a profile: colours are approximate")
    elif picture.mode in ("P", "PA"):
        converted = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
        notices.append("palette expanded to RGB")
    elif picture.mode == "1":
        converted = picture.convert("L")
    elif picture.mode not in ("L", "LA", "RGB", "RGBA"):
        raise InputError(f"its colour mode {picture.mode} cannot be read; save it as RGB or grey")
    exif = exif.removeprefix(PREFIX) if exif else None
    return DecodedPicture(np.asarray(converted), profile, exif, notices=tuple(notices))


# --- TIFF -----------------------------------------------------------------------------------------------------------


def count_tiff(data: bytes) -> int:
    """How many pages of a TIFF file are frames: all but reduced copies (thumbnails)."""
    with _open_tiff(data) as tiff:
        return len(_frame_pages(tiff))


def decode_tiff(data: bytes, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of one page of a TIFF file: 8 or 16 bits or floating point, strips or tiles, packed or not."""
    with _open_tiff(data) as tiff:
        pages = _frame_pages(tiff)
        if page >= len(pages):
            raise InputError(f"there is no page {page + 1}: the file has {len(pages)}")
        chosen = pages[page]
        require_pixels(chosen.imagewidth, chosen.imagelength, max_pixels)
        # Some decoders fill what is missing with grey, so the promise of the header is checked first.
        for offset, length in zip(chosen.dataoffsets, chosen.databytecounts, strict=True):
            if offset + length > len(data):
                raise InputError("the file ends too early; copy it again from the camera")
        samples, notices = _tiff_samples(chosen)
        profile = chosen.tags.valueof(34675)
        orientation = chosen.tags.valueof(274)
    return DecodedPicture(
        samples,
        bytes(profile) if profile else None,
        block_of_tiff(data),
        orientation=int(orientation) if orientation in range(1, 9) else 1,
        page=page if len(pages) > 1 else None,
        notices=notices,
    )


def _open_tiff(data: bytes) -> Any:
    import tifffile

    return tifffile.TiffFile(io.BytesIO(data))


def _frame_pages(tiff: Any) -> list[Any]:
    return [page for page in tiff.pages if not page.is_reduced]


def _tiff_samples(page: Any) -> tuple[NDArray[Any], tuple[str, ...]]:
    photometric = getattr(page.photometric, "name", str(page.photometric))
    samples = page.asarray()
    if page.axes == "SYX":  # planes stored one after the other
        samples = np.moveaxis(samples, 0, -1)
    elif page.axes not in ("YX", "YXS"):
        raise InputError(f"its pixels have the axes {page.axes}; only flat pictures can be read")
    if samples.dtype == np.bool_:
        samples = samples.astype(np.uint8) * np.uint8(255)
    if samples.ndim == 3 and samples.shape[2] == 1:
        samples = samples[:, :, 0]
    if photometric == "MINISWHITE" and samples.dtype.kind == "u":
        return np.iinfo(samples.dtype).max - samples, ()
    if photometric == "PALETTE" and page.colormap is not None:
        return np.moveaxis(page.colormap, 0, -1)[samples], ("palette expanded to RGB",)
    if photometric not in ("MINISBLACK", "RGB", "YCBCR"):
        raise InputError(f"its colour space {photometric} cannot be read; save it as RGB or grey")
    return samples, ()


FORMATS: tuple[Format, ...] = (
    Format("PNG", lambda head: head.startswith(b"\x89PNG\r\n\x1a\n"), None, decode_png),
    Format("JPEG", lambda head: head.startswith(b"\xff\xd8\xff"), None, decode_jpeg),
    Format("TIFF", lambda head: head[:4] in (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+"), count_tiff, decode_tiff),
    Format("WebP", lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP", None, decode_webp),
    Format("BMP", lambda head: head.startswith(b"BM"), None, decode_bmp),
)
"""Every format that can be read, by its signature. A new one is a line here and a function above."""
