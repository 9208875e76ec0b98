"""What a network may be and may say: one file that needs no other, and finite numbers of the right shape."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.files.opening import open_plain

# Fields of ONNX's messages that lead to tensors (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto): for each kind
# of message, the number of the field and the kind of what it holds.
_FIELDS = {
    "model": {7: "graph", 14: "entry", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
_ENTRY_VALUE = 2
_DEEPEST = 40


def require_finite(logits: Any, shape: tuple[int, ...], weights: str | None) -> NDArray[np.float32]:
    """Returns what a network said as float32, which are numbers, of the shape that was asked for.

    Args:
        logits: what the network gave.
        shape: (frames, H, W) of what went in.
        weights: the ONNX file; None for the shipped one.

    Raises:
        InputError: it is no number somewhere, or of another shape.
    """
    values = np.asarray(logits, np.float32)
    name = "the network" if weights is None else str(weights)
    if values.shape != shape:
        raise InputError(
            f"{name}: gave an answer of shape {values.shape}, not {shape}; allfocus export writes a right one"
        )
    if not np.isfinite(values).all():
        wrong = int((~np.isfinite(values)).sum())
        raise InputError(
            f"{name}: gave {wrong} of {values.size} values that are not numbers (NaN or infinite); its weights are "
            "damaged: export it again"
        )
    return values


def read_network(file: Any) -> bytes:
    """Returns the bytes of an ONNX file, if all its weights are in it.

    onnxruntime would look for others in the current folder, where anybody may have put them.

    Args:
        file: a path, or what ``importlib.resources`` has in place of one.

    Raises:
        InputError: it names other files, or is no plain file.
    """
    if isinstance(file, Path):
        with open_plain(file) as opened:
            data = opened.read()
    else:
        data = file.read_bytes()
    return require_self_contained(data, file)


def require_self_contained(data: bytes, file: Any) -> bytes:
    """Returns the bytes of a network, and raises InputError when it keeps weights in other files.

    Args:
        data: the network.
        file: its name, for the message.
    """
    if _names_other_files(memoryview(data), "model", 0):
        raise InputError(f"{file}: keeps weights in other files, which are not read; save it as one file")
    return data


def _names_other_files(message: memoryview, kind: str, depth: int) -> bool:
    if depth > _DEEPEST:
        return True  # nothing that we export is nested like that
    for number, value in _fields_of(message):
        if kind == "tensor":
            if number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0):
                return True
            continue
        if kind == "entry":
            if number == _ENTRY_VALUE and isinstance(value, memoryview) and _is_network(value, depth):
                return True
            continue
        inner = _FIELDS[kind].get(number)
        if inner and isinstance(value, memoryview) and _names_other_files(value, inner, depth + 1):
            return True
    return False


def _is_network(text: memoryview, depth: int) -> bool:
    """Returns whether a text beside the network is another one, as text, that names other files."""
    try:
        data = base64.b64decode(bytes(text), validate=True)
    except ValueError:
        return False
    return len(data) > 8 and _names_other_files(memoryview(data), "model", depth + 1)


def _fields_of(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Number and value of each field of a message; what cannot be read ends it, and onnxruntime will say why."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(message, position)
            yield number, value
        elif wire == 2:
            length, position = _varint(message, position)
            if position + length > len(message):
                return
            yield number, message[position : position + length]
            position += length
        elif wire in (1, 5):
            position += 8 if wire == 1 else 4
        else:
            return


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            return 0, len(message)
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, position
