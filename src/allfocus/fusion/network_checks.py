"""What a network may be and may say: one file that needs no other and comes to an end, and finite numbers.

Networks travel between people. One that somebody made may hold a loop without an end, or functions that call each other
twice and so take longer than anybody lives. A limit of time would have to be as long as the slowest machine takes for
the largest picture, and would end sound runs beside other work. What a graph *is* can be known before it runs: a
network of ours is a plain sequence of operators, each done once, so everything that repeats or branches is refused.
"""

import base64
import os
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from allfocus.errors import InputError
from allfocus.files.opening import open_plain

# Fields of ONNX's messages that lead to tensors (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto): for each kind
# of message, the number of the field and the kind of what it holds.
_FIELDS = {
    "model": {7: "graph", 14: "entry", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {4: "operator", 5: "attribute", 7: "domain"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_OWN_DOMAINS = (b"", b"ai.onnx")
"""Of the operators that the standard defines; onnxruntime's own can read files."""
_REPEATING = (b"Loop", b"Scan", b"If", b"SequenceMap")
_DEEPEST = 40
LARGEST_NETWORK = 2**28
"""Bytes of a file; ours has a hundredth of it."""
MOST_NODES = 10_000
"""Operators of a file; ours has a tenth of it."""


def require_finite(logits: ArrayLike, shape: tuple[int, ...], weights: str | None) -> NDArray[np.float32]:
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


def read_network(file: Traversable) -> bytes:
    """Returns the bytes of an ONNX file, if all its weights are in it and it comes to an end.

    onnxruntime would look for others in the current folder, where anybody may have put them.

    Args:
        file: a path, or what ``importlib.resources`` has in place of one.

    Raises:
        InputError: it names other files, repeats or branches, is far too large, or is no plain file.
    """
    if isinstance(file, Path):
        with open_plain(file) as opened:
            if os.fstat(opened.fileno()).st_size > LARGEST_NETWORK:
                raise InputError(f"{file}: has more than {LARGEST_NETWORK} bytes; no network of ours has so many")
            data = opened.read(LARGEST_NETWORK)
    else:
        data = file.read_bytes()
    return require_plain_network(data, file)


def require_plain_network(data: bytes, file: object) -> bytes:
    """Returns the bytes of a network, and raises InputError when it needs other files or may not come to an end.

    Args:
        data: the network.
        file: its name, for the message.
    """
    found = _Survey()
    if data[4:8] == b"ORTM":  # onnxruntime's own format, in which none of this could be seen
        raise InputError(f"{file}: is in the format of onnxruntime; allfocus export writes ONNX")
    try:
        found.look(memoryview(data), "model", 0)
    except ValueError as error:
        raise InputError(f"{file}: is no ONNX file that can be run ({error}); allfocus export writes one") from error
    if found.names_other_files:
        raise InputError(f"{file}: keeps weights in other files, which are not read; save it as one file")
    if found.strange:
        raise InputError(
            f"{file}: is no plain sequence of operators ({found.strange}) and might never come to an end; allfocus "
            "export writes one that is"
        )
    return data


class _Survey:
    """What is found in the messages of an ONNX file."""

    def __init__(self) -> None:
        self.names_other_files = False
        self.strange = ""
        """The first thing that no plain sequence of operators has."""
        self._nodes = 0

    def look(self, message: memoryview, kind: str, depth: int) -> None:
        """Look at a message and at all that are in it.

        Raises:
            ValueError: it cannot be read, or is nested too deeply.
        """
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")
        if kind == "tensor":
            self._look_at_tensor(message)
            return
        if kind == "entry":
            self._look_at_entry(message, depth)
            return
        self._count(kind)
        for number, value in _fields_of(message):
            inner = _FIELDS[kind].get(number)
            if inner is None or not isinstance(value, memoryview):
                continue
            if inner in ("operator", "domain"):
                self._look_at_name(bytes(value), inner)
                continue
            if kind == "attribute" and inner == "graph":
                self._note("an operator that holds other operators")
            self.look(value, inner, depth + 1)

    def _count(self, kind: str) -> None:
        if kind == "function":
            self._note("it defines operators of its own")
        if kind == "node":
            self._nodes += 1
            if self._nodes > MOST_NODES:
                self._note(f"more than {MOST_NODES} operators")

    def _look_at_tensor(self, message: memoryview) -> None:
        for number, value in _fields_of(message):
            if number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0):
                self.names_other_files = True

    def _look_at_entry(self, message: memoryview, depth: int) -> None:
        """Look at a text beside the network, which may be another one."""
        fields = list(_fields_of(message))
        keys = [value for number, value in fields if number == _ENTRY_KEY and isinstance(value, memoryview)]
        ours = any(bytes(key).startswith(b"allfocus.") for key in keys)
        for number, value in fields:
            if number != _ENTRY_VALUE or not isinstance(value, memoryview):
                continue
            inside = _Survey()
            try:
                # Ours is decoded as it will be when it is used, where strange letters are passed over.
                data = base64.b64decode(bytes(value), validate=not ours)
                if data[4:8] == b"ORTM":
                    inside._note("a part in the format of onnxruntime")
                inside.look(memoryview(data), "model", depth + 1)
            except ValueError:
                if ours:
                    raise
                continue  # any other text, which nobody takes for a network
            self.names_other_files |= inside.names_other_files
            self.strange = self.strange or inside.strange

    def _look_at_name(self, name: bytes, kind: str) -> None:
        if kind == "domain" and name not in _OWN_DOMAINS:
            self._note(f"an operator of {name[:50].decode(errors='replace')}")
        if kind == "operator" and name in _REPEATING:
            self._note(f"it has the operator {name.decode()}")

    def _note(self, what: str) -> None:
        self.strange = self.strange or what


def _fields_of(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Number and value of each field of a message.

    What another reader might see where this one sees nothing is refused: the two must agree on what is in the file.

    Raises:
        ValueError: it cannot be read.
    """
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        if number == 0 or key >= 2**32:
            raise ValueError("a field without a number")
        if wire == 0:
            value, position = _varint(message, position)
            yield number, value
        elif wire == 2:
            length, position = _varint(message, position)
            if position + length > len(message):
                raise ValueError("it is cut short")
            yield number, message[position : position + length]
            position += length
        elif wire in (1, 5):
            position += 8 if wire == 1 else 4
            if position > len(message):
                raise ValueError("it is cut short")
        else:
            raise ValueError("a field of an unknown kind")


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise ValueError("it is cut short")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number without an end")
