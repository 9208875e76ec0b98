"""EXIF blocks: read the orientation, mark it as applied, add a history, and move a block between kinds of file.

An EXIF block is a small TIFF file: an 8-byte header and directories of 12-byte entries whose larger values lie
elsewhere in the block. JPEG, PNG and WebP store the block as it is; a TIFF file has the same entries in its own
directories, so there the block is taken apart and laid out anew. (Maker notes that point into the block by absolute
position keep their bytes but may lose their pointers when they pass into a TIFF file.)
"""

import struct
from collections.abc import Collection

from allfocus.images.tiff_directories import LARGEST_BLOCK, Directory, lay_out, read_entries, read_pointer
from allfocus.images.tiff_layout import (
    EXIF_DIRECTORY,
    INTEROPERABILITY,
    SUB_DIRECTORIES,
    Bytes,
    Layout,
    TiffEntry,
    byte_order,
    find_layout,
)

DESCRIPTION = 0x010E
ORIENTATION = 0x0112
X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT = 0x011A, 0x011B, 0x0128
SHORT, RATIONAL = 3, 5
PLAIN_TAGS = {ORIENTATION: SHORT, X_RESOLUTION: RATIONAL, Y_RESOLUTION: RATIONAL, RESOLUTION_UNIT: SHORT}
"""Entries that many programs read without asking what type they are, with the one they must have."""
SOFTWARE = 0x0131
IMAGE_HISTORY = 0x9213
PICTURE_WIDTH = 0xA002
PICTURE_HEIGHT = 0xA003
COLOUR_SPACE = 0xA001
"""1 stands for sRGB, 65535 for something else."""

PREFIX = b"Exif\x00\x00"
"""What JPEG puts in front of the block; Image.exif never holds it."""

# Tags of a TIFF file's first directory that describe the photograph: description, maker, model, resolution, software,
# date, artist, copyright, rating, XMP and the Windows titles. The rest describe how its pixels are stored (size,
# strips, compression ...) and would be wrong in any other file.
DESCRIPTIVE_TAGS = frozenset(
    {0x010E, 0x010F, 0x0110, 0x011A, 0x011B, 0x0128, 0x0131, 0x0132, 0x013B, 0x8298, 0x4746, 0x4749, 0x02BC}
    | {0x9C9B, 0x9C9C, 0x9C9D, 0x9C9E, 0x9C9F}
)

# Descriptions that tell a reader how many planes the file has; on a picture fused from them they would be a lie.
STRUCTURAL_DESCRIPTIONS = (b"ImageJ=", b"<?xml", b"<OME", b'{"shape"')


def read_orientation(exif: bytes | None) -> int:
    """Orientation (1..8) that a block asks for; 1, the upright one, when it is missing or senseless.

    Example:
        >>> read_orientation(None)
        1
    """
    position = _orientation_position(exif) if exif else None
    if exif is None or position is None:
        return 1
    (value,) = struct.unpack_from(byte_order(exif) + "H", exif, position)
    return value if 1 <= value <= 8 else 1


def mark_as_upright(exif: bytes) -> bytes:
    """The same block with orientation 1 and every other byte untouched."""
    position = _orientation_position(exif)
    if position is None:
        return exif
    return exif[:position] + struct.pack(byte_order(exif) + "H", 1) + exif[position + 2 :]


def parse_block(data: Bytes) -> Directory:
    """The first directory of a block or of a TIFF file, with its EXIF and GPS directories.

    Entries that point outside the data are left out, and so is the pointer to the interoperability directory, which
    says nothing about the photograph.
    """
    found = find_layout(data)
    if found is None:
        return Directory()
    layout, start = found
    directory = Directory()
    for entry in read_entries(data, start, layout):
        child_start = read_pointer(entry, layout) if entry[0] in SUB_DIRECTORIES else None
        if child_start is None:
            directory.entries.append(entry)
        else:
            entries = read_entries(data, child_start, layout)
            directory.children[entry[0]] = Directory([e for e in entries if e[0] != INTEROPERABILITY])
    return directory


def block_of_tiff(data: Bytes) -> bytes | None:
    """An EXIF block with what a TIFF file says about its photograph; None when it says nothing."""
    directory = parse_block(data)
    directory.entries = [entry for entry in directory.entries if _describes_photograph(entry)]
    if not directory.entries and not directory.children:
        return None
    block = build_block(directory, byte_order(data[0:2]))
    return block if len(block) <= LARGEST_BLOCK else None


def build_block(directory: Directory, order: str = "<") -> bytes:
    """A block that holds the directory; ``order`` must be the byte order of its entries."""
    header = (b"MM\x00*" if order == ">" else b"II*\x00") + struct.pack(order + "I", 8)
    return header + lay_out(directory, 8, Layout(order))


def add_history(exif: bytes | None, *, software: str, history: str, width: int, height: int) -> bytes:
    """The block with our name as software, a sentence added to its history, and the size of the picture corrected.

    What was there stays at its position, so that maker notes, which point by position, stay whole: the changed
    directories are appended and the old ones no longer pointed to. The thumbnail, which shows one frame of the stack,
    is no longer pointed to either.

    Args:
        exif: The block of the first frame; None makes a new one.
        software: For the software entry; what stood there before goes into the history.
        history: One sentence for the history.
        width: Of the picture, for the entries that state it.
        height: Of the picture.

    Example:
        >>> block = add_history(None, software="allfocus 1", history="fused from 3 frames", width=6, height=4)
        >>> parse_block(block).entries[0][3][:-1], parse_block(block).children[EXIF_DIRECTORY].entries[0][3][:-1]
        (b'allfocus 1', b'fused from 3 frames')
    """
    found = find_layout(exif) if exif else None
    if exif is None or found is None or found[0].big:
        exif, found = build_block(Directory()), (Layout(), 8)
    layout, start = found
    main = read_entries(exif, start, layout)
    child_start = next((read_pointer(e, layout) for e in main if e[0] == EXIF_DIRECTORY), None)
    child = read_entries(exif, child_start, layout) if child_start is not None else []
    words = [*_texts(child, IMAGE_HISTORY), *_texts(main, SOFTWARE), history]
    size = {PICTURE_WIDTH: width, PICTURE_HEIGHT: height}
    new = [_long(tag, size[tag], layout) for tag, *_ in child if tag in size]
    exif, child_start = _append_directory(exif, child_start, [_text(IMAGE_HISTORY, "; ".join(words)), *new], layout)
    new = [_text(SOFTWARE, software), _long(EXIF_DIRECTORY, child_start, layout)]
    exif, start = _append_directory(exif, start, new, layout)
    return exif[:4] + layout.position.pack(start) + exif[8:]


def without_malformed(exif: bytes) -> bytes:
    r"""The block without entries about orientation and resolution that are of the wrong type: programs fail over them.

    Example:
        >>> block = build_block(Directory([(X_RESOLUTION, 2, 8, b"seventy\x00"), (SOFTWARE, 2, 5, b"mine\x00")]))
        >>> [tag for tag, *_ in parse_block(without_malformed(block)).entries] == [SOFTWARE]
        True
    """
    found = find_layout(exif)
    if found is None or found[0].big:
        return exif
    layout, start = found
    (number,) = layout.number.unpack(exif[start : start + 2].ljust(2, b"\x00"))
    table = exif[start + 2 : start + 2 + 12 * number]
    malformed = {
        tag
        for tag, kind, count, value in (
            (*layout.head.unpack_from(table, at), table[at + 8 : at + 12]) for at in range(0, len(table) - 11, 12)
        )
        if tag in PLAIN_TAGS and not _is_plain(exif, kind, count, value, layout, PLAIN_TAGS[tag])
    }
    if not malformed:
        return exif
    exif, start = _append_directory(exif, start, [], layout, without=malformed)
    return exif[:4] + layout.position.pack(start) + exif[8:]


def _is_plain(exif: bytes, kind: int, count: int, value: bytes, layout: Layout, expected: int) -> bool:
    if (kind, count) != (expected, 1):
        return False
    if kind != RATIONAL:
        return True
    (offset,) = layout.position.unpack(value)
    parts = exif[offset : offset + 8]
    return len(parts) == 8 and all(struct.unpack(layout.order + "II", parts))


def _append_directory(
    block: bytes, old: int | None, new: list[TiffEntry], layout: Layout, *, without: Collection[int] = ()
) -> tuple[bytes, int]:
    """The block with a copy of the directory at ``old`` appended, some entries new, and the position of the copy.

    The other entries are copied with their pointers, so their values stay where they are; some may be left out.
    """
    records: dict[int, bytes] = {}
    if old is not None and old + 2 <= len(block):
        (number,) = layout.number.unpack_from(block, old)
        table = block[old + 2 : old + 2 + 12 * number]
        for at in range(0, len(table) - 11, 12):
            if layout.head.unpack_from(table, at)[0] not in without:
                records[layout.head.unpack_from(table, at)[0]] = table[at : at + 12]
    for tag, kind, count, value in new:
        block += b"\x00" * (len(block) % 2)
        head = layout.head.pack(tag, kind, count)
        if len(value) <= 4:
            records[tag] = head + value.ljust(4, b"\x00")
        else:
            records[tag] = head + layout.position.pack(len(block))
            block += value
    block += b"\x00" * (len(block) % 2)
    body = b"".join(records[tag] for tag in sorted(records))
    return block + layout.number.pack(len(records)) + body + layout.position.pack(0), len(block)


def _describes_photograph(entry: TiffEntry) -> bool:
    if entry[0] == DESCRIPTION and entry[3].lstrip().startswith(STRUCTURAL_DESCRIPTIONS):
        return False
    return entry[0] in DESCRIPTIVE_TAGS


def _text(tag: int, words: str) -> TiffEntry:
    value = words.encode("ascii", "replace") + b"\x00"
    return tag, 2, len(value), value


def _texts(entries: list[TiffEntry], tag: int) -> list[str]:
    found = [
        value.rstrip(b"\x00 ").decode("latin-1") for number, kind, _, value in entries if (number, kind) == (tag, 2)
    ]
    return [words for words in found if words]


def _long(tag: int, value: int, layout: Layout) -> TiffEntry:
    return tag, 4, 1, struct.pack(layout.order + "I", value)


def _orientation_position(exif: bytes) -> int | None:
    if len(exif) < 10 or exif[:4] not in (b"II*\x00", b"MM\x00*"):
        return None
    order = byte_order(exif)
    start: int = struct.unpack_from(order + "I", exif, 4)[0]
    if not 8 <= start <= len(exif) - 2:
        return None
    (number,) = struct.unpack_from(order + "H", exif, start)
    for index in range(number):
        position = start + 2 + 12 * index
        if position + 12 > len(exif):
            return None
        tag, kind = struct.unpack_from(order + "HH", exif, position)
        if tag == ORIENTATION and kind == 3:
            return position + 8
    return None
