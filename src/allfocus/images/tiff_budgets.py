"""How much the directories of a TIFF file or EXIF block may hold, so that no header fills the memory."""

from allfocus.errors import InputError
from allfocus.images.tiff_layout import (
    BYTES_PER_VALUE,
    INTEROPERABILITY,
    LARGEST_DIRECTORY,
    SUB_DIRECTORIES,
    SUB_PICTURES,
    Bytes,
    Layout,
    find_layout,
)

MOST_ENTRIES = 400_000
"""Of all directories of a file together: twenty thousand pages have no more."""
MOST_DIRECTORIES = 20_100
SPARE_BYTES = 2**16
"""What the values of a directory may take beyond twice the file: small blocks may share some."""


def require_modest_values(table: bytes, layout: Layout, length: int) -> None:
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
        require_modest_values(table, layout, len(data))
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
