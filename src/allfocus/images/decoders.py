"""The table of formats: a decoder for each, chosen by the first bytes of the file and never by its name.

No decoder makes 16 bits into 8: PNG goes through imagecodecs and TIFF through tifffile, both of which give the samples
as stored; Pillow, which reduces 16-bit colour without a word, sees only formats that have 8 bits. Each decoder checks
the size in the header before it makes room for the pixels, and refuses a file that ends too early.
"""

import os
from collections import OrderedDict
from typing import BinaryIO

from allfocus.images.decoded import Format
from allfocus.images.heif_decoder import decode_heif, is_heif, read_heif_headers
from allfocus.images.pillow_decoders import (
    decode_bmp,
    decode_jpeg,
    decode_webp,
    read_bmp_headers,
    read_jpeg_headers,
    read_webp_headers,
)
from allfocus.images.png_decoder import SIGNATURE, decode_png, read_png_headers
from allfocus.images.raw_decoder import decode_raw, is_raw_signature, is_raw_tiff, read_raw_headers
from allfocus.images.tiff_budgets import require_modest
from allfocus.images.tiff_decoder import decode_tiff, read_tiff_headers
from allfocus.images.tiff_layout import FileSlices

TIFF_SIGNATURES = (b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")
RAW = Format("camera RAW", is_raw_signature, read_raw_headers, decode_raw)
TIFF = Format("TIFF", lambda head: head.startswith(TIFF_SIGNATURES), read_tiff_headers, decode_tiff)

FORMATS: tuple[Format, ...] = (
    Format("PNG", lambda head: head.startswith(SIGNATURE), read_png_headers, decode_png),
    Format("JPEG", lambda head: head.startswith(b"\xff\xd8\xff"), read_jpeg_headers, decode_jpeg),
    RAW,  # before TIFF, whose signature Canon's files share
    TIFF,
    Format("WebP", lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP", read_webp_headers, decode_webp),
    Format("BMP", lambda head: head.startswith(b"BM"), read_bmp_headers, decode_bmp),
    Format("HEIF", is_heif, read_heif_headers, decode_heif),
)
"""Every format that can be read, by its signature. A new one is a line here and a module beside this one."""


_MODEST: OrderedDict[tuple[int, ...], None] = OrderedDict()
MOST_REMEMBERED = 256


def _require_modest_once(file: BinaryIO) -> None:
    """Looks through all directories of a file, once for as long as it is not changed.

    A file of a microscope has hundreds of pages, each of which is read by itself: looking at all of them each time
    took five times as long as reading the planes.
    """
    try:
        status = os.fstat(file.fileno())
    except (OSError, AttributeError):  # not on a disk
        require_modest(FileSlices(file))
        return
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if state not in _MODEST:
        require_modest(FileSlices(file))
        _MODEST[state] = None
        while len(_MODEST) > MOST_REMEMBERED:
            _MODEST.popitem(last=False)


def find_format(file: BinaryIO) -> Format | None:
    """The format that the file is of by its content, or None.

    Example:
        >>> import io
        >>> find_format(io.BytesIO(b"BM" + bytes(60))).name
        'BMP'
    """
    file.seek(0)
    head = file.read(16)
    found = next((candidate for candidate in FORMATS if candidate.matches(head)), None)
    if found is TIFF or found is RAW:
        _require_modest_once(file)
    # Most cameras' RAW files are TIFF files whose first page is a small preview: fusing that would be a quiet loss.
    return RAW if found is TIFF and is_raw_tiff(file) else found
