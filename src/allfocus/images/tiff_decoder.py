"""TIFF files -> samples, through tifffile: 8, 16 or 32 bits, strips or tiles, packed or not, one page or many.

Only the page asked for is read. What the header promises (size, channels, compression, positions in the file, the size
of JPEG pictures inside) is checked before any of it reaches a native decoder.
"""

import io
import logging
import math
import os
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.decoded import DecodedPicture, Header, ends_too_early, require_pixels
from allfocus.images.exif import block_of_tiff
from allfocus.images.jpeg_check import require_modest_scans, require_sound_jpeg
from allfocus.images.memory import require_room
from allfocus.images.tiff_layout import FileSlices
from allfocus.images.tiff_series import page_of, require_one_channel
from allfocus.progress import Notice

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPage

X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT, ORIENTATION, COLOUR_PROFILE = 282, 283, 296, 274, 34675
INCHES_PER_UNIT = {2: 1.0, 3: 1 / 2.54}
"""1 means that the resolution has no unit (or one that only its own program knows)."""

JPEG = 7
COMPRESSIONS = {1: "none", 5: "LZW", JPEG: "JPEG", 8: "deflate", 32946: "deflate", 32773: "PackBits", 50000: "ZSTD"}
"""Compressions that are read: those whose unpacked size can be limited beforehand."""

COLOUR_CHANNELS = {"MINISBLACK": 1, "MINISWHITE": 1, "RGB": 3, "YCBCR": 3, "PALETTE": 1, "SEPARATED": 4}
"""Samples per pixel, extra ones not counted, of each colour space that is read."""

OWN_UNITS = ("int8", "int16", "int32", "uint32")
"""Integers that stand for no brightness by their type: read, as floating point is, in a unit of their own."""

ALPHA = (1, 2)
"""Meanings of an extra sample that make it alpha: 1 with colours multiplied by it, 2 without."""


SMALLEST_OFFSET = 8
"""Where the header of a TIFF file ends."""
PREDICTABLE = (5, 8, 32946, 50000)
"""Compressions that may be helped by a predictor."""
PIXEL_TAGS = frozenset({254, 255, *range(256, 260), 262, 266, 273, 277, 278, 279, 284, 317, 320, *range(322, 326), 339})
"""Entries that say how the pixels are stored."""
DESCRIPTION = 270
"""The entry in which files say what their pages are; in some it lies at the end, where they are cut off first."""
ABOUT_PAGES = re.compile(r"(Strip|Tile)(ByteCounts|Offsets)|invalid page offset")
"""What tifffile says of pages that it cannot find whole."""


KNOWN_VALUES = (
    (284, "PlanarConfiguration", (1, 2)),
    (266, "FillOrder", (1, 2)),
    (317, "Predictor", (1, 2, 3, 34892, 34893, 34894, 34895)),
    (254, "NewSubfileType", range(16)),
    (255, "SubfileType", (0, 1, 2, 3)),
)
"""Entries that say how to read the pixels, with the values that mean something."""


def read_tiff_headers(file: BinaryIO) -> list[Header]:
    """The header of each frame in a TIFF file: all pages but reduced copies (thumbnails), or the z planes of an OME."""
    with open_tiff(file) as tiff:
        require_one_channel(tiff)  # leaves only part of each page behind, hence a new look at the file below
    with open_tiff(file) as tiff:
        number = len(tiff.pages)
        frames = [index for index in range(number) if not page_of(tiff, index).is_reduced]
        if not frames:
            raise InputError("it holds only reduced copies of a picture; save the picture itself")
        return [_header_of(page_of(tiff, index), index, number) for index in frames]


def read_page_headers(file: BinaryIO, pages: Collection[int]) -> list[Header]:
    """The header of each of these pages of a TIFF file, whatever its description says that they are."""
    with open_tiff(file) as tiff:
        number = len(tiff.pages)
        return [_header_of(page_of(tiff, index), index, number) for index in pages]


def decode_tiff(file: BinaryIO, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of one page of a TIFF file."""
    with open_tiff(file) as tiff:
        number = len(tiff.pages)
        if not 0 <= page < number:
            raise InputError(f"there is no page {page + 1}: the file has {number}")
        chosen = page_of(tiff, page)
        _header_of(chosen, page, number)
        require_pixels(chosen.imagewidth, chosen.imagelength, max_pixels)
        require_segments(chosen, file, max_pixels)
        samples_per_pixel, sample_bytes = chosen.samplesperpixel, max(1, chosen.bitspersample // 8)
        require_room(chosen.imagewidth, chosen.imagelength, samples_per_pixel, sample_bytes)
        samples, premultiplied, notices = _samples_of(chosen)
        profile = chosen.tags.valueof(COLOUR_PROFILE)
        photometric = _photometric(chosen)
        return DecodedPicture(
            samples,
            white=_white_of(chosen),
            icc_profile=bytes(profile) if profile and photometric != "SEPARATED" else None,
            exif=block_of_tiff(FileSlices(file)),
            orientation=_orientation_of(chosen),
            resolution=_resolution_of(chosen),
            premultiplied=premultiplied,
            page=page if number > 1 else None,
            notices=notices,
        )


@contextmanager
def open_tiff(file: BinaryIO) -> Iterator["TiffFile"]:
    """The file, open in tifffile; what that logs about entries that say how to read it is an error."""
    import tifffile

    file.seek(0)
    heard = _Complaints()
    logger = logging.getLogger("tifffile")
    logger.addHandler(heard)
    try:
        # Other files that an OME header names are not opened: frames are what the user gave.
        with tifffile.TiffFile(file, _multifile=False) as tiff:
            yield tiff
    finally:
        logger.removeHandler(heard)
    if heard.complaint:
        raise InputError(f"its entries are not valid ({heard.complaint[:120]}); the file is damaged")


class _Complaints(logging.Handler):
    """Keeps the first thing that tifffile says, in this thread, about how pixels are stored and what pages are."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.complaint = ""
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Note a record."""
        text = record.getMessage()
        tag = re.search(r"TiffTag (\d+) ", text)
        matters = int(tag[1]) in (*PIXEL_TAGS, DESCRIPTION) if tag else ABOUT_PAGES.search(text)
        if record.thread == self._thread and matters and not self.complaint:
            self.complaint = re.sub(r"<[^>]*> ", "", text)


def _require_numbers(page: "TiffPage") -> None:
    """Raise InputError when an entry that is one number has become a list of them, as damage can make it."""
    for name in ("imagewidth", "imagelength", "imagedepth", "samplesperpixel", "bitspersample", "compression"):
        if not isinstance(getattr(page, name), int):
            raise InputError(f"its entry {name} is {_shown(getattr(page, name))}; the file is damaged")


def _shown(value: object) -> str:
    """The value of an entry, which may be any text, for a message of one line."""
    return " ".join(str(value).split())[:40]


def _require_known(page: "TiffPage") -> None:
    """Raise InputError when an entry has a value that no reader knows, which would then read the pixels as it likes."""
    for tag, name, known in KNOWN_VALUES:
        value = page.tags.valueof(tag)
        if value is not None and value not in known:
            raise InputError(f"its entry {name} is {_shown(value)}, which means nothing; the file is damaged")
    if page.compression not in PREDICTABLE and page.predictor not in (None, 1):
        raise InputError("its entry Predictor stands beside a compression that has none; the file is damaged")


def _header_of(page: "TiffPage", index: int, pages: int) -> Header:
    _require_numbers(page)
    _require_known(page)
    photometric = _photometric(page)
    colours = COLOUR_CHANNELS.get(photometric)
    if colours is None:
        raise InputError(f"its colour space {photometric} cannot be read; save it as RGB or grey")
    if page.compression not in COMPRESSIONS:
        name = getattr(page.compression, "name", page.compression)
        known = ", ".join(sorted(set(COMPRESSIONS.values())))
        raise InputError(f"its compression {name} cannot be read; save it with one of: {known}")
    if photometric == "YCBCR" and page.compression != JPEG:
        raise InputError("its colour space YCbCr without JPEG compression cannot be read; save it as RGB")
    if not colours <= page.samplesperpixel <= 16 or page.imagedepth != 1:
        raise InputError(
            f"it has {page.samplesperpixel} channels and a depth of {page.imagedepth}; "
            "grey or RGB pictures, with or without alpha, can be read"
        )
    require_pixels(page.imagewidth, page.imagelength, page.imagewidth * page.imagelength or 1)
    channels = 1 if colours == 1 and photometric != "PALETTE" else 3
    depth = _bit_depth_of(page)
    return Header(page.imagewidth, page.imagelength, channels, depth, _orientation_of(page), index, pages)


def _bit_depth_of(page: "TiffPage") -> int:
    if page.dtype is not None and (page.dtype.kind == "f" or str(page.dtype.newbyteorder("=")) in OWN_UNITS):
        return 32
    if page.dtype is not None and page.dtype.kind in "ub" and page.bitspersample <= 16:
        return 8 if page.bitspersample <= 8 and _photometric(page) != "PALETTE" else 16
    words = f"{page.bitspersample} bits of type {page.dtype}"
    raise InputError(f"its samples have {words}; integers of up to 32 bits and floating point can be read")


def require_segments(
    page: "TiffPage", file: BinaryIO, max_pixels: int, *, chosen: Collection[int] | None = None
) -> None:
    """Raise InputError when the strips or tiles lie outside the file, are empty, oddly large, or damaged JPEG.

    Args:
        page: A page of tifffile.
        file: The file it is in.
        max_pixels: The limit on the pixels of a picture.
        chosen: The numbers of the strips or tiles to look at; None takes all.
    """
    length = file.seek(0, os.SEEK_END)
    if math.prod(page.chunks) > 16 * max(max_pixels, 2**20):
        raise InputError(f"its tiles are {page.chunks} large, beyond the limit of {max_pixels} pixels")
    if len(page.dataoffsets) != len(page.databytecounts) or len(page.dataoffsets) < math.prod(page.chunked):
        raise ends_too_early()
    most = _largest_segment(page)
    for number, (offset, size) in enumerate(zip(page.dataoffsets, page.databytecounts, strict=True)):
        if chosen is not None and number not in chosen:
            continue
        # Some decoders fill what is missing with grey or zeros, so the promise of the header is checked first.
        if size <= 0 or offset + size > length:
            raise ends_too_early()
        if offset < SMALLEST_OFFSET or (most is not None and size > most):
            raise InputError(
                f"its entries disagree: {size} bytes of pixels at {offset}, {most} expected; it is damaged"
            )
        if page.compression == JPEG:
            file.seek(offset)
            _require_jpeg(file.read(size), page)


def _largest_segment(page: "TiffPage") -> int | None:
    """The most bytes that a strip or tile without compression may have, with room for what writers round up to."""
    if page.compression != 1:
        return None
    expected = math.prod(page.chunks) * page.bitspersample // 8
    return int(expected + expected // 4 + 4096)


def _require_jpeg(data: bytes, page: "TiffPage") -> None:
    size = jpeg_size(data)
    rows, columns = (page.tilelength, page.tilewidth) if page.is_tiled else (page.imagelength, page.imagewidth)
    if size is None or size[0] > rows or size[1] > columns:
        raise InputError(f"a JPEG picture inside it says {size}, its strips or tiles {(rows, columns)}: damaged")
    if not data.rstrip(b"\x00").endswith(b"\xff\xd9"):
        raise ends_too_early()
    tables = page.jpegtables or b""
    whole = bytes(tables[:-2]) + data[2:] if tables else data
    require_modest_scans(io.BytesIO(whole), size[1], size[0])
    require_sound_jpeg(whole)


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """(height, width) that the frame header of JPEG data states; None when there is none.

    Example:
        >>> jpeg_size(bytes.fromhex("ffd8 ffc0 000b 08 0004 0006 01 011100"))
        (4, 6)
    """
    position = 2
    while position + 9 <= len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:
            position += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[position + 5 : position + 7], "big"), int.from_bytes(
                data[position + 7 : position + 9], "big"
            )
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return None


def _samples_of(page: "TiffPage") -> tuple[NDArray[Any], bool, tuple[str, ...]]:
    """Samples with alpha last if there is any, whether colours are multiplied by it, and notices."""
    photometric = _photometric(page)
    samples = _decode_page(page)
    colours = COLOUR_CHANNELS[photometric]
    samples, kind, notices = _without_extra_samples(samples, page, colours)
    if photometric == "MINISWHITE":
        if samples.dtype.kind in "fi" or samples.dtype.itemsize > 2:
            raise InputError(
                "its values have a unit of their own and count from white down; save it with black as zero"
            )
        samples = samples.copy()
        samples[..., :1] = _largest(page, samples) - samples[..., :1]
    elif photometric == "PALETTE":
        samples = _expand_palette(samples[..., 0], page)
        notices = (*notices, Notice("palette expanded to RGB"))
    elif photometric == "SEPARATED":
        samples = _convert_cmyk(samples, page)
        notices = (*notices, Notice("CMYK converted to RGB without a profile: colours are approximate"))
    return (samples[..., 0] if samples.shape[2] == 1 else samples), kind == 1, notices


def _decode_page(page: "TiffPage") -> NDArray[Any]:
    samples = page.asarray(maxworkers=1)
    if page.axes == "SYX":  # planes stored one after the other
        samples = np.moveaxis(samples, 0, -1)
    elif page.axes not in ("YX", "YXS"):
        raise InputError(f"its pixels have the axes {page.axes}; only flat pictures can be read")
    if samples.dtype == np.bool_:
        samples = samples.astype(np.uint8)
    shaped: NDArray[Any] = samples[:, :, None] if samples.ndim == 2 else samples
    return shaped


def _without_extra_samples(
    samples: NDArray[Any], page: "TiffPage", colours: int
) -> tuple[NDArray[Any], int, tuple[str, ...]]:
    extra = samples.shape[2] - colours
    if extra <= 0:
        return samples, 0, ()
    meanings = [int(meaning) for meaning in page.extrasamples] + [0] * extra
    kind = meanings[0] if meanings[0] in ALPHA else 0
    kept = colours + (1 if kind else 0)
    unused = samples.shape[2] - kept
    return samples[:, :, :kept], kind, (_tell_unused(unused),) if unused else ()


def _tell_unused(count: int) -> Notice:
    return Notice("1 extra channel left out") if count == 1 else Notice(f"{count} extra channels left out")


def _expand_palette(levels: NDArray[Any], page: "TiffPage") -> NDArray[Any]:
    if page.colormap is None:
        raise InputError("its palette is missing; the file is damaged")
    if levels.dtype.kind != "u" or int(levels.max()) >= page.colormap.shape[1]:
        raise InputError(f"it uses colours beyond the {page.colormap.shape[1]} of its palette; the file is damaged")
    colours = np.asarray(page.colormap, np.uint16)
    # Many programs write 8 bits where the format wants 16: as they are, or in the upper byte alone.
    if colours.max() < 256:
        colours = colours * np.uint16(257)
    elif not (colours % 256).any():
        colours = colours // 256 * np.uint16(257)
    coloured: NDArray[Any] = np.moveaxis(colours, 0, -1)[levels]
    return coloured


def _convert_cmyk(samples: NDArray[Any], page: "TiffPage") -> NDArray[Any]:
    if samples.dtype.kind != "u":
        raise InputError("its CMYK values are floating point; save it as RGB")
    white = _largest(page, samples)
    light = white - np.minimum(samples[:, :, :4], white).astype(np.uint64)
    rgb = ((light[:, :, :3] * light[:, :, 3:4] + white // 2) // white).astype(samples.dtype)
    return np.concatenate([rgb, samples[:, :, 4:5]], axis=2)


def _largest(page: "TiffPage", samples: NDArray[Any]) -> int:
    return _white_of(page) or int(np.iinfo(samples.dtype).max)


def _white_of(page: "TiffPage") -> int | None:
    bits = page.bitspersample
    if page.dtype is None or page.dtype.kind in "fi" or bits in (8, 16, 32) or _photometric(page) == "PALETTE":
        return None
    return int(2**bits - 1)


def _photometric(page: "TiffPage") -> str:
    return str(getattr(page.photometric, "name", page.photometric))


def _orientation_of(page: "TiffPage") -> int:
    orientation = page.tags.valueof(ORIENTATION)
    return int(orientation) if orientation in range(1, 9) else 1


def _resolution_of(page: "TiffPage") -> tuple[float, float] | None:
    inches = INCHES_PER_UNIT.get(page.tags.valueof(RESOLUTION_UNIT, default=2))
    across, down = (_rational(page.tags.valueof(tag)) for tag in (X_RESOLUTION, Y_RESOLUTION))
    if inches is None or not across or not down:
        return None
    return across / inches, down / inches


def _rational(value: Any) -> float | None:
    if not (isinstance(value, tuple) and len(value) == 2 and value[1]):
        return None
    return float(value[0] / value[1])
