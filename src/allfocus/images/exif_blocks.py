"""Where the EXIF block of a picture lies, for each kind of file, without decoding anything and within limits."""

from collections.abc import Iterator
from typing import BinaryIO

from allfocus.errors import InputError
from allfocus.images.exif import PREFIX
from allfocus.images.png_decoder import SIGNATURE, read_chunks
from allfocus.images.tiff_budgets import require_modest
from allfocus.images.tiff_directories import LARGEST_BLOCK
from allfocus.images.webp_chunks import walk_webp

MOST_SEGMENTS = 10_000


def find_exif_block(file: BinaryIO) -> bytes | None:
    """The EXIF block of a JPEG, PNG or WebP file; None when it has none, or is another kind of file.

    Raises:
        InputError: the file ends too early, or its EXIF would take more memory than it is worth.
    """
    file.seek(0)
    head = file.read(16)
    block = None
    if head.startswith(b"\xff\xd8\xff"):
        block = _block_of_jpeg(file)
    elif head.startswith(SIGNATURE):
        block = read_chunks(file).get(b"eXIf")
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        block = _block_of_webp(file)
    if not block:
        return None
    if len(block) > LARGEST_BLOCK:
        raise InputError(f"its EXIF has {len(block)} bytes, more than {LARGEST_BLOCK}; the file is damaged")
    require_modest(block)
    return block


def _block_of_jpeg(file: BinaryIO) -> bytes | None:
    parts = [body.removeprefix(PREFIX) for marker, body in walk_jpeg(file) if marker == 0xE1 and body[:6] == PREFIX]
    return b"".join(parts) or None


def _block_of_webp(file: BinaryIO) -> bytes | None:
    for kind, start, length in walk_webp(file):
        if kind == b"EXIF":
            file.seek(start)
            return file.read(min(length, LARGEST_BLOCK + 1)).removeprefix(PREFIX)
    return None


def walk_jpeg(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Marker and body of each segment of a JPEG file before its pixels.

    Raises:
        InputError: it has more segments than can be meant.
    """
    file.seek(2)
    for _ in range(MOST_SEGMENTS):
        lead = file.read(2)
        while lead == b"\xff\xff":
            lead = b"\xff" + file.read(1)
        if len(lead) < 2 or lead[0] != 0xFF:
            return  # the end, or rubbish, which is for the decoder to judge
        marker = lead[1]
        if marker in (0xD9, 0xDA):
            return
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            continue
        length = int.from_bytes(file.read(2), "big")
        body = file.read(max(0, length - 2))
        if len(body) < length - 2:
            return
        yield marker, body
    raise InputError(f"it has more than {MOST_SEGMENTS} segments before its pixels; the file is damaged")
