"""The shot of a Nikon focus shift, from the enciphered block that the Z 8 and Z 9 put into their maker notes.

From its fifth byte on, the block is mixed with a stream that a first byte and a step determine, and nothing else:
byte n with ``first + step * ((n + 1) * 96 + n * (n + 1) / 2)``. The camera takes both from its serial number and its
count of shots; we take them from what the block says anyway: how many sections it has, a number of four bytes of which
three are zero. The version of the firmware, five letters of known form, confirms them. So no key is needed, and files
whose serial number was removed are read as well.

Layout as in ExifTool's public tag tables (ShotInfoZ8, ShotInfoZ9, SeqInfoZ9): positions count from the beginning.
"""

import re
import struct

from allfocus.images.tiff_layout import Bytes

WITH_COUNTER = (b"0805", b"0806")
"""First bytes of blocks that count the shots of a focus shift: those of the Z 9 and of the Z 8."""
PLAIN = 4
"""Bytes before the stream begins."""
FIRMWARE, SECTIONS, SEQUENCE = 4, 0x24, 0x30
"""Where the version of the firmware, the number of sections, and the position of the section of sequences are."""
COUNTER = 0x20
"""Where that section counts the shots of a focus shift; one byte, 0 for none."""
STEP_UNDONE = pow(131, -1, 256)
"""The stream goes on by 131 steps between the last two of the bytes that are zero; this divides by it."""


def read_focus_shift_shot(data: Bytes, start: int, size: int) -> int | None:
    """The number of a shot in its focus shift, counted from 1; None where there is none, or nothing can be told.

    Args:
        data: What holds the block.
        start: Where it begins there.
        size: Its length in bytes.
    """
    head = data[start : start + SEQUENCE + 4]
    if head[:4] not in WITH_COUNTER or len(head) < SEQUENCE + 4:
        return None
    step = (head[SECTIONS + 3] - head[SECTIONS + 2]) * STEP_UNDONE % 256
    first = (head[SECTIONS + 1] - _way(SECTIONS + 1) * step) % 256
    plain = mix_with_stream(head, 0, first, step)
    if not re.match(rb"\d\d\.\d\d", plain[FIRMWARE:]):
        return None
    (section,) = struct.unpack_from("<I", plain, SEQUENCE)
    place = section + COUNTER
    if not section or place >= size:
        return None
    return next(iter(mix_with_stream(data[start + place : start + place + 1], place, first, step)), 0) or None


def _way(place: int) -> int:
    """How many steps the stream has gone at a byte of the block."""
    number = place - PLAIN
    return (number + 1) * 96 + number * (number + 1) // 2


def mix_with_stream(part: bytes, place: int, first: int, step: int) -> bytes:
    """A part of the block in plain, or a plain one enciphered; ``place`` is where it begins in the block."""
    return bytes(
        byte if own < PLAIN else byte ^ ((first + step * _way(own)) % 256) for own, byte in enumerate(part, start=place)
    )
