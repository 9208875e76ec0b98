"""The chunks of a WebP file."""

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

from allfocus.errors import InputError
from allfocus.images.decoded import ends_too_early

MOST_CHUNKS = 100_000


def walk_webp(file: BinaryIO) -> Iterator[tuple[bytes, int, int]]:
    """Each chunk of a WebP file as (kind, position of its body, length).

    Raises:
        InputError: the file ends too early, or has more chunks than can be meant.
    """
    length = file.seek(0, os.SEEK_END)
    file.seek(4)
    if int.from_bytes(file.read(4), "little") + 8 > length:
        raise ends_too_early()
    position = 12
    for _ in range(MOST_CHUNKS):
        if position + 8 > length:
            return
        file.seek(position)
        kind, size = struct.unpack("<4sI", file.read(8))
        yield kind, position + 8, size
        position += 8 + size + size % 2
    raise InputError(f"it has more than {MOST_CHUNKS} chunks; the file is damaged")
