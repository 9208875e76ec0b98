"""Reads the tensors of a TensorFlow 1 checkpoint (``NAME.index`` and ``NAME.data-00000-of-00001``) without TensorFlow.

The index is a sorted table of strings as LevelDB writes them: blocks of entries whose keys leave out what they share
with the key before, then a block that says where those blocks are, then 48 bytes that say where that block is. Every
value is a message in protocol buffers: type, shape, and where in the data file the tensor lies. The data are plain
little-endian numbers. Blocks and tensors carry a checksum (CRC-32C), which is compared.

What is read: one data file, float32, blocks that are not compressed; at most :data:`MOST_INDEX_BYTES` of index,
:data:`MOST_TENSORS` tensors and :data:`MOST_DATA_BYTES` bytes of them. All else is refused with its reason.
"""

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.files.opening import open_plain

INDEX_ENDING, DATA_ENDING = ".index", ".data-00000-of-00001"
MAGIC = 0xDB4775248B80FB57
"""The last eight bytes of every such table."""
FOOTER_BYTES, TRAILER_BYTES = 48, 5
MOST_INDEX_BYTES = 1 << 20
MOST_TENSORS = 10_000
MOST_DIMENSIONS = 8
MOST_DATA_BYTES = 1 << 26
"""Of all tensors together: those of the networks here have a tenth of it."""
LONGEST_NAME = 1000
FLOAT32 = 1
"""The number of the only type that networks here are stored in."""


@dataclass(frozen=True)
class Entry:
    """What the index says of a tensor."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int


def read_checkpoint(path: Path, *, prefix: str = "") -> dict[str, NDArray[np.float32]]:
    """The tensors of a checkpoint by their names, in the order of the names.

    Args:
        path: The index, the data file, or the name that both begin with.
        prefix: Only tensors whose names begin so.

    Raises:
        InputError: a file is missing, damaged, or of a kind that is not read; the message says which and why.
    """
    stem = path.with_name(path.name.removesuffix(INDEX_ENDING).removesuffix(DATA_ENDING))
    index, data = (stem.with_name(stem.name + ending) for ending in (INDEX_ENDING, DATA_ENDING))
    entries = read_index(_read(index, most=MOST_INDEX_BYTES), where=index)
    wanted = {name: entry for name, entry in entries.items() if name.startswith(prefix)}
    try:
        with _open(data) as file:
            length = file.seek(0, 2)
            for name, entry in wanted.items():
                _require_readable(name, entry, length, data)
            # Tensors that share their bytes could stand for far more than there are.
            if sum(entry.size for entry in wanted.values()) > min(length, MOST_DATA_BYTES):
                raise _refusal(data, "its tensors have more bytes than the file, or than any network here has")
            found = {}
            for name, entry in wanted.items():
                file.seek(entry.offset)
                content = file.read(entry.size)
                if checksum(content) != entry.checksum:
                    raise _refusal(data, f"the tensor {name!r} is damaged: its checksum differs")
                found[name] = np.frombuffer(content, "<f4").reshape(entry.shape).astype(np.float32)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=data, code="unreadable-file") from error
    return found


def read_index(content: bytes, *, where: object = "index") -> dict[str, Entry]:
    """What the index of a checkpoint says of its tensors.

    Raises:
        InputError: it is none, or damaged.
    """
    try:
        return _parse_index(content, where)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise _refusal(where, "the table of tensors is cut short or damaged") from error


def _parse_index(content: bytes, where: object) -> dict[str, Entry]:
    if len(content) < FOOTER_BYTES or struct.unpack("<Q", content[-8:])[0] != MAGIC:
        raise _refusal(where, "no index of a TensorFlow checkpoint, or cut short")
    footer = content[-FOOTER_BYTES:]
    place = 0
    for _ in range(2):  # where the block about the table lies, which nobody needs
        _, place = _varint(footer, place)
    place_of_index, _ = _handle(footer, place)
    entries: dict[str, Entry] = {}
    seen = 0
    for _, value in _block(content, place_of_index, where):
        place_of_block = _handle(value, 0)[0]
        seen += place_of_block[1]
        if seen > len(content):  # the same block again and again
            raise _refusal(where, "its blocks overlap")
        for key, message in _block(content, place_of_block, where):
            if key == b"":
                _check_header(message, where)
                continue
            entries[key.decode()] = _entry(message)
            if len(entries) > MOST_TENSORS:
                raise _refusal(where, f"more than {MOST_TENSORS} tensors")
    if not entries:
        raise _refusal(where, "it names no tensors")
    return entries


def _block(content: bytes, place: tuple[int, int], where: object) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of one block, whose checksum is compared before."""
    start, size = place
    end = start + size
    if size < 8 or end + TRAILER_BYTES > len(content):
        raise _refusal(where, "a block lies outside of the file")
    compression, expected = struct.unpack("<BI", content[end : end + TRAILER_BYTES])
    if checksum(content[start : end + 1]) != expected:
        raise _refusal(where, "a block is damaged: its checksum differs")
    if compression != 0:
        raise _refusal(where, "its table is compressed, which is not read; save the checkpoint again")
    block = content[start:end]
    restarts = struct.unpack("<I", block[-4:])[0]
    stop = len(block) - 4 - 4 * restarts
    if stop < 0:
        raise _refusal(where, "a block is damaged")
    position, key = 0, b""
    while position < stop:
        shared, position = _varint(block, position)
        own, position = _varint(block, position)
        length, position = _varint(block, position)
        if shared > len(key) or position + own + length > stop:
            raise _refusal(where, "an entry lies outside of its block")
        if shared + own > LONGEST_NAME:
            raise _refusal(where, f"the name of a tensor has more than {LONGEST_NAME} letters")
        key = key[:shared] + block[position : position + own]
        position += own
        yield key, block[position : position + length]
        position += length


def _handle(content: bytes, position: int) -> tuple[tuple[int, int], int]:
    """Where a block begins and how long it is."""
    start, position = _varint(content, position)
    size, position = _varint(content, position)
    return (start, size), position


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """A whole number in groups of seven bits, the lowest first, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise IndexError("a number of more than ten bytes")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of the fields of a message: whole numbers, four bytes as a number, or bytes."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        value: int | bytes
        if kind == 0:
            value, position = _varint(message, position)
        elif kind == 2:
            length, position = _varint(message, position)
            if position + length > len(message):
                raise IndexError("a field longer than its message")
            value, position = message[position : position + length], position + length
        elif kind in (1, 5):
            form, length = {1: ("<Q", 8), 5: ("<I", 4)}[kind]
            value, position = struct.unpack(form, message[position : position + length])[0], position + length
        else:
            raise IndexError(f"a field of the unknown kind {kind}")
        yield tag >> 3, value


def _check_header(message: bytes, where: object) -> None:
    header = dict(_fields(message))
    if header.get(1, 1) != 1:
        raise _refusal(where, f"its data lie in {header[1]!r} files; one is read")
    if header.get(2, 0) != 0:
        raise _refusal(where, "its numbers are big-endian, which is not read")


def _entry(message: bytes) -> Entry:
    numbers = {1: 0, 3: 0, 4: 0, 5: 0, 6: 0}
    shape: list[int] = []
    for number, value in _fields(message):
        if isinstance(value, int):
            numbers[number] = value
        elif number == 2:
            for inner, dimension in _fields(value):
                if inner == 2 and isinstance(dimension, bytes):
                    shape.append(_whole(dict(_fields(dimension)).get(1, 0)))
        elif number == 7:
            # A tensor in slices; it is refused when it is asked for, as one of no bytes.
            numbers[5] = 0
    return Entry(numbers[1], tuple(shape), numbers[3], numbers[4], numbers[5], numbers[6])


def _whole(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise IndexError("bytes where a number is expected")
    return value


def _require_readable(name: str, entry: Entry, length: int, where: object) -> None:
    if entry.dtype != FLOAT32:
        raise _refusal(where, f"the tensor {name!r} is not float32 (type {entry.dtype})")
    if len(entry.shape) > MOST_DIMENSIONS or entry.size > MOST_DATA_BYTES or 0 in entry.shape:
        raise _refusal(where, f"the tensor {name!r} is larger than any that is read, or empty")
    if math.prod(entry.shape) * 4 != entry.size or entry.shard != 0:
        raise _refusal(where, f"the tensor {name!r} has the shape {entry.shape} and {entry.size} bytes")
    if entry.offset + entry.size > length:
        raise _refusal(where, f"the tensor {name!r} lies outside of the file")


def checksum(content: bytes) -> int:
    """The checksum of these files: CRC-32C, turned by 15 bits and with a constant added.

    Example:
        >>> crc = 0xE3069283  # of these nine digits, as every description of CRC-32C has it
        >>> checksum(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
        True
    """
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    step: Callable[[int], int] = lambda value: (value >> 1) ^ (0x82F63B78 if value & 1 else 0)  # noqa: E731
    table = []
    for value in range(256):
        for _ in range(8):
            value = step(value)
        table.append(value)
    return tuple(table)


def _read(path: Path, *, most: int) -> bytes:
    with _open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise _refusal(path, f"longer than {most} bytes, which no table of tensors here is")
    return content


def _open(path: Path) -> BufferedReader:
    try:
        return open_plain(path)
    except InputError as error:
        if error.code != "no-such-file":
            raise
        raise InputError(
            f"there is no such file; a checkpoint is two files that end in {INDEX_ENDING} and {DATA_ENDING}",
            where=path,
            code="no-such-file",
        ) from error


def _refusal(where: object, why: str) -> InputError:
    return InputError(f"cannot be read as a TensorFlow checkpoint: {why}", where=where, code="bad-weights")
