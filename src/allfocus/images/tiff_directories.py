"""Directories of TIFF files and EXIF blocks: their entries read, and laid out anew."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from allfocus.images.tiff_budgets import require_modest_values
from allfocus.images.tiff_layout import (
    BYTES_PER_VALUE,
    LARGEST_DIRECTORY,
    SUB_PICTURES,
    Bytes,
    Layout,
    TiffEntry,
    find_layout,
)

ONLY_IN_BIG_FILES = (16, 17, 18)
LARGEST_BLOCK = 16 * 2**20


@dataclass
class Directory:
    """One directory of a block: its entries, and the directories it points to."""

    entries: list[TiffEntry] = field(default_factory=list)
    """(tag, type, count, value bytes in the byte order of the block)."""

    children: dict[int, "Directory"] = field(default_factory=dict)
    """EXIF and GPS directories by the tag that points to them."""


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


def read_entries(data: Bytes, start: int, layout: Layout) -> list[TiffEntry]:
    """The entries of the directory at ``start``; those that point outside the data are left out."""
    size, inline = layout.head.size + layout.position.size, layout.position.size
    head = data[start : start + layout.number.size] if start >= 8 else b""
    if len(head) < layout.number.size:
        return []
    (number,) = layout.number.unpack(head)
    first = start + layout.number.size
    table = data[first : first + size * min(number, LARGEST_DIRECTORY)]
    require_modest_values(table, layout, len(data))
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


def walk_directories(data: Bytes, *, limit: int = 16) -> Iterator[list[TiffEntry]]:
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


def read_pointer(entry: TiffEntry, layout: Layout) -> int | None:
    """Where the directory of an entry begins; None when it points to none."""
    _, kind, count, value = entry
    if count != 1 or kind not in (4, 13, 16, 18):
        return None
    pointer: int = struct.unpack(layout.order + ("I" if len(value) == 4 else "Q"), value)[0]
    return pointer
