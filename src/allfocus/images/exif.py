"""EXIF blocks: read the orientation, mark it as applied, add a history, and move a block between kinds of file.

An EXIF block is a small TIFF file: an 8-byte header and directories of 12-byte entries whose larger values lie
elsewhere in the block. JPEG, PNG and WebP store the block as it is; a TIFF file has the same entries in its own
directories, so there the block is taken apart and laid out anew. (Maker notes that point into the block by absolute
position keep their bytes but may lose their pointers when they pass into a TIFF file.)
"""

import os
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from allfocus.errors import InputError

DESCRIPTION = 0x010E
ORIENTATION = 0x0112
X_RESOLUTION, Y_RESOLUTION, RESOLUTION_UNIT = 0x011A, 0x011B, 0x0128
SHORT, RATIONAL = 3, 5
PLAIN_TAGS = {ORIENTATION: SHORT, X_RESOLUTION: RATIONAL, Y_RESOLUTION: RATIONAL, RESOLUTION_UNIT: SHORT}
"""Entries that many programs read without asking what type they are, with the one they must have."""
SOFTWARE = 0x0131
SUB_PICTURES = 0x014A
EXIF_DIRECTORY = 0x8769
GPS_DIRECTORY = 0x8825
SUB_DIRECTORIES = (EXIF_DIRECTORY, GPS_DIRECTORY)
IMAGE_HISTORY = 0x9213
PICTURE_WIDTH = 0xA002
PICTURE_HEIGHT = 0xA003
INTEROPERABILITY = 0xA005
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
ONLY_IN_BIG_FILES = (16, 17, 18)
LARGEST_BLOCK = 16 * 2**20
LARGEST_DIRECTORY = 65535
MOST_ENTRIES = 400_000
"""Of all directories of a file together: twenty thousand pages have no more."""
MOST_DIRECTORIES = 20_100
SPARE_BYTES = 2**16
"""What the values of a directory may take beyond twice the file: small blocks may share some."""

Entry = tuple[int, int, int, bytes]
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


@dataclass
class Directory:
    """One directory of a block: its entries, and the directories it points to."""

    entries: list[Entry] = field(default_factory=list)
    """(tag, type, count, value bytes in the byte order of the block)."""

    children: dict[int, "Directory"] = field(default_factory=dict)
    """EXIF and GPS directories by the tag that points to them."""


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
        layout = Layout(_byte_order(head))
        return layout, layout.position.unpack(head[4:8])[0]
    if len(head) == 16 and head[:4] in (b"II+\x00", b"MM\x00+"):
        layout = Layout(_byte_order(head), big=True)
        return layout, layout.position.unpack(head[8:16])[0]
    return None


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
    block = build_block(directory, _byte_order(data[0:2]))
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
    block: bytes, old: int | None, new: list[Entry], layout: Layout, *, without: Collection[int] = ()
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


def lay_out(directory: Directory, start: int, layout: Layout) -> bytes:
    """The bytes of a directory that begins at ``start`` of its file, its values and children behind it."""
    kept = [e for e in directory.entries if layout.big or e[1] not in ONLY_IN_BIG_FILES]
    entries = {entry[0]: entry for entry in kept if entry[0] not in directory.children}
    number, inline = len(entries) + len(directory.children), layout.position.size
    position = start + layout.number.size + (layout.head.size + inline) * number + inline
    table: dict[int, bytes] = {}
    behind = bytearray()
    for tag, kind, count, value in entries.values():
        head = layout.head.pack(tag, kind, count)
        if len(value) <= inline:
            table[tag] = head + value.ljust(inline, b"\x00")
        else:
            behind += b"\x00" * (len(behind) % 2)  # values begin on a word boundary, as TIFF 6.0 asks
            table[tag] = head + layout.position.pack(position + len(behind))
            behind += value
    for tag, child in directory.children.items():
        behind += b"\x00" * (len(behind) % 2)
        kind = 16 if layout.big else 4
        table[tag] = layout.head.pack(tag, kind, 1) + layout.position.pack(position + len(behind))
        behind += lay_out(child, position + len(behind), layout)
    body = b"".join(table[tag] for tag in sorted(table))
    return layout.number.pack(number) + body + layout.position.pack(0) + bytes(behind)


def read_entries(data: Bytes, start: int, layout: Layout) -> list[Entry]:
    """The entries of the directory at ``start``; those that point outside the data are left out."""
    size, inline = layout.head.size + layout.position.size, layout.position.size
    head = data[start : start + layout.number.size] if start >= 8 else b""
    if len(head) < layout.number.size:
        return []
    (number,) = layout.number.unpack(head)
    first = start + layout.number.size
    table = data[first : first + size * min(number, LARGEST_DIRECTORY)]
    _require_modest_values(table, layout, len(data))
    found = []
    for at in range(0, len(table) - size + 1, size):
        tag, kind, count = layout.head.unpack_from(table, at)
        length = BYTES_PER_VALUE.get(kind, 0) * count
        if length == 0 or length > LARGEST_BLOCK:
            continue
        if length <= inline:
            value = table[at + layout.head.size : at + layout.head.size + length]
        else:
            (offset,) = layout.position.unpack_from(table, at + layout.head.size)
            value = data[offset : offset + length]
        if len(value) == length:
            found.append((tag, kind, count, value))
    return found


def _require_modest_values(table: bytes, layout: Layout, length: int) -> None:
    """Raise InputError when the entries of a directory hold more than the file does, by sharing the same bytes.

    A file of a megabyte could fill the memory that way, before anybody knows how many pixels it has.
    """
    size, inline, total = layout.head.size + layout.position.size, layout.position.size, 0
    for at in range(0, len(table) - size + 1, size):
        _, kind, count = layout.head.unpack_from(table, at)
        own = BYTES_PER_VALUE.get(kind, 0) * count
        if inline < own <= length:
            total += own
    if total > 2 * length + SPARE_BYTES:
        raise InputError(f"its entries hold {total} bytes, but it has {length}; the file is damaged or made to do harm")


def require_modest(data: Bytes) -> None:
    """Raise InputError when reading the directories of a file or block could take more memory or time than it is worth.

    Nothing but the directories themselves is read for that.
    """
    found = find_layout(data)
    if found is None:
        return
    layout, start = found
    size = layout.head.size + layout.position.size
    waiting, seen, entries = [start], set[int](), 0
    while waiting:
        start = waiting.pop()
        if start in seen or not 8 <= start < len(data):
            continue
        seen.add(start)
        head = data[start : start + layout.number.size]
        number = min(layout.number.unpack(head)[0] if len(head) == layout.number.size else 0, LARGEST_DIRECTORY)
        first = start + layout.number.size
        table = data[first : first + size * number]
        entries += len(table) // size
        if entries > MOST_ENTRIES or len(seen) > MOST_DIRECTORIES:
            raise InputError(
                f"it has more than {MOST_ENTRIES} entries or {MOST_DIRECTORIES} directories; the file is damaged, or "
                "made to do harm"
            )
        _require_modest_values(table, layout, len(data))
        waiting += _pointers(table, layout)
        following = data[first + size * number : first + size * number + layout.position.size]
        if len(following) == layout.position.size:
            waiting.append(layout.position.unpack(following)[0])


def _pointers(table: bytes, layout: Layout) -> list[int]:
    """Where the directories begin to which one entry each of a table points."""
    size, found = layout.head.size + layout.position.size, []
    for at in range(0, len(table) - size + 1, size):
        tag, _, count = layout.head.unpack_from(table, at)
        if tag in (*SUB_DIRECTORIES, INTEROPERABILITY, SUB_PICTURES) and count == 1:
            found.append(layout.position.unpack_from(table, at + layout.head.size)[0])
    return found


def walk_directories(data: Bytes, *, limit: int = 16) -> Iterator[list[Entry]]:
    """The entries of each directory of a TIFF file: the pages, and the pictures below them, ``limit`` at most."""
    found = find_layout(data)
    if found is None:
        return
    layout, start = found
    waiting, seen = [start], set[int]()
    while waiting and len(seen) < limit:
        start = waiting.pop(0)
        if start in seen or start < 8:
            continue
        seen.add(start)
        entries = read_entries(data, start, layout)
        yield entries
        for tag, kind, _, value in entries:
            if tag == SUB_PICTURES:
                waiting.extend(read_numbers(kind, value, layout)[:limit])
        (number,) = layout.number.unpack(data[start : start + layout.number.size].ljust(layout.number.size, b"\x00"))
        end = start + layout.number.size + (layout.head.size + layout.position.size) * number
        following = data[end : end + layout.position.size]
        if len(following) == layout.position.size:
            waiting.append(layout.position.unpack(following)[0])


def read_numbers(kind: int, value: bytes, layout: Layout) -> tuple[int, ...]:
    """The whole numbers that an entry holds; none when it holds something else.

    Example:
        >>> read_numbers(3, bytes([1, 0, 2, 0]), Layout("<"))
        (1, 2)
    """
    code = {3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}.get(kind)
    if code is None:
        return ()
    number = len(value) // struct.calcsize("=" + code)
    return struct.unpack(f"{layout.order}{number}{code}", value)


def read_fractions(kind: int, value: bytes, layout: Layout) -> tuple[float, ...]:
    """The fractions that an entry holds; none when it holds something else, or one of them means nothing.

    Example:
        >>> read_fractions(5, bytes([1, 0, 0, 0, 2, 0, 0, 0]), Layout("<"))
        (0.5,)
    """
    code = {5: "I", 10: "i"}.get(kind)
    if code is None:
        return ()
    parts = struct.unpack(f"{layout.order}{len(value) // 8 * 2}{code}", value[: len(value) // 8 * 8])
    if not all(parts[1::2]):
        return ()
    return tuple(above / below for above, below in zip(parts[0::2], parts[1::2], strict=True))


def _describes_photograph(entry: Entry) -> bool:
    if entry[0] == DESCRIPTION and entry[3].lstrip().startswith(STRUCTURAL_DESCRIPTIONS):
        return False
    return entry[0] in DESCRIPTIVE_TAGS


def read_pointer(entry: Entry, layout: Layout) -> int | None:
    """Where the directory of an entry begins; None when it points to none."""
    _, kind, count, value = entry
    if count != 1 or kind not in (4, 13, 16, 18):
        return None
    pointer: int = struct.unpack(layout.order + ("I" if len(value) == 4 else "Q"), value)[0]
    return pointer


def _text(tag: int, words: str) -> Entry:
    value = words.encode("ascii", "replace") + b"\x00"
    return tag, 2, len(value), value


def _texts(entries: list[Entry], tag: int) -> list[str]:
    found = [
        value.rstrip(b"\x00 ").decode("latin-1") for number, kind, _, value in entries if (number, kind) == (tag, 2)
    ]
    return [words for words in found if words]


def _long(tag: int, value: int, layout: Layout) -> Entry:
    return tag, 4, 1, struct.pack(layout.order + "I", value)


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
