"""The EXIF block of camera RAW files, also of those that are not quite TIFF: Canon CR3, Fujifilm, Panasonic, Olympus.

Nothing here decodes pixels, and every file is read within the limits of :mod:`allfocus.images.exif`.
"""

import io
from collections.abc import Iterator
from typing import BinaryIO

from allfocus.images.exif import block_of_tiff, build_block, parse_block
from allfocus.images.exif_blocks import find_exif_block
from allfocus.images.tiff_budgets import require_modest
from allfocus.images.tiff_directories import LARGEST_BLOCK, Directory
from allfocus.images.tiff_layout import EXIF_DIRECTORY, GPS_DIRECTORY, FileSlices

ALMOST_TIFF = (b"IIU\x00", b"IIRO", b"IIRS", b"MMOR")
"""Panasonic and Olympus write TIFF with two other bytes in its head."""
FUJIFILM = b"FUJIFILMCCD-RAW"
FUJIFILM_PREVIEW = 84
"""Where a Fujifilm file says the position and length of the JPEG that holds its EXIF."""
LARGEST_PREVIEW = 64 * 2**20
CANON_BOX = bytes.fromhex("85c0b687820f11e08111f4ce462b6a48")
"""The box of CR3 that holds CMT1 (the camera), CMT2 (the shot), CMT3 (maker note) and CMT4 (the place)."""
MAKER_NOTE = 0x927C
MOST_BOXES = 200


class MendedHead(FileSlices):
    """A file whose first bytes read as those of TIFF."""

    def __getitem__(self, part: slice) -> bytes:
        """The slice, with the head of TIFF where it begins the file."""
        data = super().__getitem__(part)
        if (part.start or 0) != 0 or len(data) < 4:
            return data
        return data[:2] + (b"*\x00" if data[:2] == b"II" else b"\x00*") + data[4:]


def block_of_raw(file: BinaryIO) -> bytes | None:
    """The EXIF block of a camera RAW file; None when it has none.

    Raises:
        InputError: reading it would take more memory or time than it is worth.
    """
    file.seek(0)
    head = file.read(16)
    if head.startswith(ALMOST_TIFF):
        data = MendedHead(file)
        require_modest(data)
        return block_of_tiff(data)
    if head.startswith(FUJIFILM):
        return _block_of_fujifilm(file)
    if head[4:12] == b"ftypcrx ":
        return _block_of_canon(file)
    return block_of_tiff(FileSlices(file))


def _block_of_fujifilm(file: BinaryIO) -> bytes | None:
    file.seek(FUJIFILM_PREVIEW)
    places = file.read(8)
    start, length = (int.from_bytes(part, "big") for part in (places[:4], places[4:]))
    if len(places) < 8 or not 0 < length <= LARGEST_PREVIEW:
        return None
    file.seek(start)
    return find_exif_block(io.BytesIO(file.read(length)))


def _block_of_canon(file: BinaryIO) -> bytes | None:
    """One block from the parts that CR3 keeps apart; the maker note is put where other files have it."""
    data = FileSlices(file)
    found: dict[bytes, bytes] = {}
    for kind, start, end in _boxes(data, 0, len(data)):
        if kind != b"moov":
            continue
        for inner, first, last in _boxes(data, start, end):
            if inner == b"uuid" and data[first : first + 16] == CANON_BOX:
                found |= {
                    name: data[own : min(stop, own + LARGEST_BLOCK)]
                    for name, own, stop in _boxes(data, first + 16, last)
                    if name.startswith(b"CMT")
                }
    if b"CMT1" not in found:
        return None
    for part in found.values():
        require_modest(part)
    camera = parse_block(found[b"CMT1"])
    order = ">" if found[b"CMT1"][:2] == b"MM" else "<"
    shot = parse_block(found.get(b"CMT2", b"")).entries
    if b"CMT3" in found:
        note = found[b"CMT3"]
        shot = [entry for entry in shot if entry[0] != MAKER_NOTE] + [(MAKER_NOTE, 7, len(note), note)]
    children = {EXIF_DIRECTORY: Directory(shot)} if shot else {}
    if place := parse_block(found.get(b"CMT4", b"")).entries:
        children[GPS_DIRECTORY] = Directory(place)
    return build_block(Directory(camera.entries, children), order)


def _boxes(data: FileSlices, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Kind, begin and end of the content of each box between two positions of an ISO media file."""
    for _ in range(MOST_BOXES):
        head = data[start : start + 16]
        if start + 8 > end or len(head) < 8:
            return
        size, content = int.from_bytes(head[:4], "big"), start + 8
        if size == 1:
            size, content = int.from_bytes(head[8:16], "big"), start + 16
        stop = end if size == 0 else min(end, start + size)
        if stop < content:
            return
        yield head[4:8], content, stop
        start = stop
