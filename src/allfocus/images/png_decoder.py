"""PNG files -> samples, through imagecodecs (libpng), which keeps 16 bits in colour; Pillow would make 8 of them."""

import io
import os
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from allfocus.errors import InputError
from allfocus.images.colour_profile import profile_of_png
from allfocus.images.decoded import DecodedPicture, Header, ends_too_early, require_pixels
from allfocus.images.exif import read_orientation
from allfocus.images.memory import require_room
from allfocus.images.tiff_budgets import require_modest
from allfocus.progress import Notice

SIGNATURE = b"\x89PNG\r\n\x1a\n"
LARGEST_PROFILE = 64 * 2**20
"""Bytes; a colour profile that unpacks to more is refused as a decompression bomb."""
METRES_PER_INCH = 0.0254
MOST_CHUNKS = 1_000_000
"""Encoders write the pixels in pieces of some kilobytes."""
KEPT_CHUNKS = frozenset({b"IHDR", b"iCCP", b"sRGB", b"gAMA", b"cHRM", b"eXIf", b"pHYs", b"PLTE", b"tRNS", b"acTL"})
GREY_TYPES = (0, 4)
PALETTE = 3
SAMPLES = {0: 1, 2: 3, PALETTE: 3, 4: 2, 6: 4}
"""Of each pixel, by the type of colour."""


def read_png_headers(file: BinaryIO) -> list[Header]:
    """The header of a PNG file; raises InputError when the file ends before its last chunk does."""
    chunks = read_chunks(file)
    width, height, bits, colour = _unpack_header(chunks)
    require_modest(chunks.get(b"eXIf", b""))
    orientation = read_orientation(chunks.get(b"eXIf"))
    return [Header(width, height, 1 if colour in GREY_TYPES else 3, 16 if bits == 16 else 8, orientation)]


def decode_png(file: BinaryIO, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of a PNG file with its 8 or 16 bits, palettes expanded."""
    import imagecodecs

    chunks = read_chunks(file)
    width, height, bits, colour = _unpack_header(chunks)
    require_pixels(width, height, max_pixels)
    samples = SAMPLES.get(colour, 4) + (b"tRNS" in chunks)
    require_room(width, height, samples, 2 if bits == 16 else 1)
    file.seek(0)
    data = file.read()
    view = memoryview(data)
    for kind, start, length in walk_chunks(io.BytesIO(data)):
        if zlib.crc32(view[start - 4 : start + length]) != _checksum(data, start + length):
            raise InputError(f"the checksum of its {kind.decode('latin-1')} chunk is wrong: the file is damaged")
    if colour == PALETTE:
        _require_colours(data, len(chunks.get(b"PLTE", b"")) // 3, 2**bits)
    notices = [Notice("palette expanded to RGB")] if colour == PALETTE else []
    if b"acTL" in chunks:
        notices.append(Notice("the first of its moving pictures taken"))
    return DecodedPicture(
        imagecodecs.png_decode(data),
        icc_profile=_profile_of(chunks, colour),
        exif=chunks.get(b"eXIf"),
        resolution=_unpack_resolution(chunks.get(b"pHYs", b"")),
        notices=tuple(notices),
    )


def _require_colours(data: bytes, colours: int, most: int) -> None:
    """Raise InputError when a pixel has a colour beyond the palette, of which libpng makes black without an error."""
    from PIL.PngImagePlugin import PngImageFile

    if colours >= most:
        return
    # The class itself, because Image.open would apply Pillow's own, process-wide pixel limit.
    picture = PngImageFile(io.BytesIO(data))
    picture.load()
    if picture.mode == "P" and int(np.asarray(picture).max()) >= colours:
        raise InputError(f"it uses colours beyond the {colours} of its palette; the file is damaged")


def read_chunks(file: BinaryIO) -> dict[bytes, bytes]:
    """The bodies of the chunks that describe the picture, the first of each kind."""
    found: dict[bytes, bytes] = {}
    for kind, start, length in walk_chunks(file):
        if kind in KEPT_CHUNKS and kind not in found:
            file.seek(start)
            found[kind] = file.read(length)
    return found


def walk_chunks(file: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """Each chunk as (kind, position of its body, length); raises InputError when one is cut off."""
    size = file.seek(0, os.SEEK_END)
    position = len(SIGNATURE)
    for _ in range(MOST_CHUNKS):
        file.seek(position)
        head = file.read(8)
        length = int.from_bytes(head[:4], "big")
        if len(head) < 8 or position + 12 + length > size:
            raise ends_too_early()
        yield head[4:], position + 8, length
        if head[4:] == b"IEND":
            return
        position += 12 + length
    raise InputError(f"it has more than {MOST_CHUNKS} chunks; the file is damaged")


def unpack_png_profile(body: bytes) -> bytes | None:
    """The colour profile inside an iCCP chunk: a name, a zero, the method, then the packed profile."""
    _, _, packed = body.partition(b"\x00")
    unpacker = zlib.decompressobj()
    profile = unpacker.decompress(packed[1:], LARGEST_PROFILE)
    if unpacker.unconsumed_tail:
        raise InputError(f"its colour profile unpacks to more than {LARGEST_PROFILE} bytes")
    return profile or None


def _profile_of(chunks: dict[bytes, bytes], colour: int) -> bytes | None:
    if b"iCCP" in chunks:
        return unpack_png_profile(chunks[b"iCCP"])
    return profile_of_png(chunks, grey=colour in GREY_TYPES)


def _unpack_header(chunks: dict[bytes, bytes]) -> tuple[int, int, int, int]:
    header = chunks.get(b"IHDR", b"")
    if len(header) != 13:
        raise InputError("the PNG header is missing; the file is damaged")
    width, height, bits, colour = struct.unpack(">IIBB", header[:10])
    require_pixels(width, height, width * height or 1)
    return width, height, bits, colour


def _unpack_resolution(body: bytes) -> tuple[float, float] | None:
    if len(body) != 9 or body[8] != 1:  # a unit of 0 gives only the shape of a pixel
        return None
    across, down = struct.unpack(">II", body[:8])
    return (across * METRES_PER_INCH, down * METRES_PER_INCH) if across and down else None


def _checksum(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 4], "big")
