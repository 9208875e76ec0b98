"""How TIFF files and EXIF blocks are stored: byte order, positions of 32 or 64 bits, and their first directory."""

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO

SUB_PICTURES = 0x014A
EXIF_DIRECTORY = 0x8769
GPS_DIRECTORY = 0x8825
SUB_DIRECTORIES = (EXIF_DIRECTORY, GPS_DIRECTORY)
INTEROPERABILITY = 0xA005

BYTES_PER_VALUE = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 1,
    7: 1,
    8: 2,
    9: 4,
    10: 8,
    11: 4,
    12: 8,
    13: 4,
    16: 8,
    17: 8,
    18: 8,
}
"""Of each type that an entry may have."""
LARGEST_DIRECTORY = 65535

TiffEntry = tuple[int, int, int, bytes]
"""(tag, type, count, value bytes in the byte order of the file)."""


class FileSlices:
    """A file that can be sliced like bytes, so that only the slices asked for are read.

    Example:
        >>> import io
        >>> FileSlices(io.BytesIO(b"abcdef"))[2:4]
        b'cd'
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._length = file.seek(0, os.SEEK_END)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._length)
        self._file.seek(start)
        return self._file.read(max(0, stop - start))


Bytes = bytes | FileSlices


@dataclass(frozen=True)
class Layout:
    """How the directories of a file are stored: its byte order, and whether it is a BigTIFF with 64-bit positions."""

    order: str = "<"
    """``<`` or ``>``, as in struct."""

    big: bool = False
    """True for BigTIFF."""

    @property
    def number(self) -> struct.Struct:
        """How many entries a directory has."""
        return struct.Struct(self.order + ("Q" if self.big else "H"))

    @property
    def head(self) -> struct.Struct:
        """Tag, type and count of an entry."""
        return struct.Struct(self.order + ("HHQ" if self.big else "HHI"))

    @property
    def position(self) -> struct.Struct:
        """A position in the file; a value that is no longer is stored in its place."""
        return struct.Struct(self.order + ("Q" if self.big else "I"))


def find_layout(data: Bytes) -> tuple[Layout, int] | None:
    """The layout of a block or TIFF file and the position of its first directory; None when it is neither."""
    head = data[0:16]
    if len(head) >= 8 and head[:4] in (b"II*\x00", b"MM\x00*"):
        layout = Layout(byte_order(head))
        return layout, layout.position.unpack(head[4:8])[0]
    if len(head) == 16 and head[:4] in (b"II+\x00", b"MM\x00+"):
        layout = Layout(byte_order(head), big=True)
        return layout, layout.position.unpack(head[8:16])[0]
    return None


def byte_order(data: bytes) -> str:
    """The byte order of a block by its first two bytes, as in struct."""
    return ">" if data[:2] == b"MM" else "<"
