"""EXIF blocks: read the orientation, mark it as applied, and move a block from one kind of file to another.

An EXIF block is a small TIFF file: an 8-byte header and directories of 12-byte entries whose larger values lie
elsewhere in the block. JPEG, PNG and WebP store the block as it is; a TIFF file has the same entries in its own
directories, so there the block is taken apart and laid out anew. (Maker notes that point into the block by absolute
position keep their bytes but may lose their pointers when they pass into a TIFF file.)
"""

import struct
from dataclasses import dataclass, field

ORIENTATION = 0x0112
EXIF_DIRECTORY = 0x8769
GPS_DIRECTORY = 0x8825
SUB_DIRECTORIES = (EXIF_DIRECTORY, GPS_DIRECTORY)

PREFIX = b"Exif\x00\x00"
"""What JPEG puts in front of the block; Image.exif never holds it."""

# Tags of a TIFF file's first directory that describe the photograph: description, maker, model, resolution, software,
# date, artist, copyright, rating, XMP and the Windows titles. The rest describe how its pixels are stored (size,
# strips, compression ...) and would be wrong in any other file.
DESCRIPTIVE_TAGS = frozenset(
    {0x010E, 0x010F, 0x0110, 0x011A, 0x011B, 0x0128, 0x0131, 0x0132, 0x013B, 0x8298, 0x4746, 0x4749, 0x02BC}
    | {0x9C9B, 0x9C9C, 0x9C9D, 0x9C9E, 0x9C9F}
)

BYTES_PER_VALUE = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
LARGEST_BLOCK = 16 * 2**20


@dataclass
class Directory:
    """One directory of a block: its entries, and the directories it points to."""

    entries: list[tuple[int, int, int, bytes]] = field(default_factory=list)
    """(tag, type, count, value bytes in the byte order of the block)."""

    children: dict[int, "Directory"] = field(default_factory=dict)
    """EXIF and GPS directories by the tag that points to them."""


def read_orientation(exif: bytes | None) -> int:
    """Orientation (1..8) that a block asks for; 1, the upright one, when it is missing or senseless.

    Example:
        >>> read_orientation(None)
        1
    """
    position = _orientation_position(exif) if exif else None
    if exif is None or position is None:
        return 1
    (value,) = struct.unpack_from(_byte_order(exif) + "H", exif, position)
    return value if 1 <= value <= 8 else 1


def mark_as_upright(exif: bytes) -> bytes:
    """The same block with orientation 1 and every other byte untouched."""
    position = _orientation_position(exif)
    if position is None:
        return exif
    return exif[:position] + struct.pack(_byte_order(exif) + "H", 1) + exif[position + 2 :]


def parse_block(data: bytes) -> Directory:
    """The first directory of a block or of a classic TIFF file, with its EXIF and GPS directories.

    Entries that point outside the data are left out. A BigTIFF file gives an empty directory.
    """
    if len(data) < 8 or data[:4] not in (b"II*\x00", b"MM\x00*"):
        return Directory()
    order = _byte_order(data)
    (start,) = struct.unpack_from(order + "I", data, 4)
    directory = Directory()
    for tag, kind, count, value in _entries(data, start, order):
        if tag in SUB_DIRECTORIES and len(value) == 4:
            (child_start,) = struct.unpack(order + "I", value)
            directory.children[tag] = Directory(list(_entries(data, child_start, order)))
        else:
            directory.entries.append((tag, kind, count, value))
    return directory


def block_of_tiff(data: bytes) -> bytes | None:
    """An EXIF block with what a TIFF file says about its photograph; None when it says nothing."""
    directory = parse_block(data)
    directory.entries = [entry for entry in directory.entries if entry[0] in DESCRIPTIVE_TAGS]
    if not directory.entries and not directory.children:
        return None
    block = build_block(directory, data[:4])
    return block if len(block) <= LARGEST_BLOCK else None


def build_block(directory: Directory, header: bytes = b"II*\x00") -> bytes:
    """A block that holds the directory; ``header`` gives its byte order, which must be that of the entries."""
    order = _byte_order(header)
    return header[:4] + struct.pack(order + "I", 8) + lay_out(directory, 8, order)


def lay_out(directory: Directory, start: int, order: str) -> bytes:
    """The bytes of a directory that begins at ``start`` of its file, its values and children behind it."""
    entries = {entry[0]: entry for entry in directory.entries if entry[0] not in directory.children}
    number = len(entries) + len(directory.children)
    position = start + 2 + 12 * number + 4
    table: dict[int, bytes] = {}
    behind = b""
    for tag, kind, count, value in entries.values():
        head = struct.pack(order + "HHI", tag, kind, count)
        if len(value) <= 4:
            table[tag] = head + value.ljust(4, b"\x00")
        else:
            behind += b"\x00" * (len(behind) % 2)  # values begin on a word boundary, as TIFF 6.0 asks
            table[tag] = head + struct.pack(order + "I", position + len(behind))
            behind += value
    for tag, child in directory.children.items():
        behind += b"\x00" * (len(behind) % 2)
        table[tag] = struct.pack(order + "HHII", tag, 4, 1, position + len(behind))
        behind += lay_out(child, position + len(behind), order)
    body = b"".join(table[tag] for tag in sorted(table))
    return struct.pack(order + "H", number) + body + struct.pack(order + "I", 0) + behind


def _entries(data: bytes, start: int, order: str) -> list[tuple[int, int, int, bytes]]:
    if not 8 <= start <= len(data) - 2:
        return []
    (number,) = struct.unpack_from(order + "H", data, start)
    found = []
    for index in range(number):
        position = start + 2 + 12 * index
        if position + 12 > len(data):
            break
        tag, kind, count = struct.unpack_from(order + "HHI", data, position)
        size = BYTES_PER_VALUE.get(kind, 0) * count
        if size == 0:
            continue
        offset = position + 8 if size <= 4 else struct.unpack_from(order + "I", data, position + 8)[0]
        if offset + size <= len(data) and size <= LARGEST_BLOCK:
            found.append((tag, kind, count, data[offset : offset + size]))
    return found


def _orientation_position(exif: bytes) -> int | None:
    if len(exif) < 10 or exif[:4] not in (b"II*\x00", b"MM\x00*"):
        return None
    order = _byte_order(exif)
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


def _byte_order(data: bytes) -> str:
    return ">" if data[:2] == b"MM" else "<"
