"""A network as one ONNX file that holds each of its tensors once; nothing heavy is loaded to read it.

The file is the graph of a level with context. The other graphs travel in its metadata, each without the tensors that
one before it has: all of them are made of the same weights. When a graph is wanted, the tensors that it uses are put
back. In the format of ONNX, protocol buffers, messages that follow each other are one message; so to put tensors into a
graph is to write them behind it.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from allfocus.network.contract import GRAPH_KEYS

# Numbers of fields in ONNX's messages (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
_MODEL_GRAPH, _MODEL_ENTRY = 7, 14
_GRAPH_NODE, _GRAPH_TENSOR, _GRAPH_INPUT = 1, 5, 11
_NODE_INPUT, _NODE_OUTPUT, _TENSOR_NAME, _VALUE_NAME = 1, 2, 8, 1
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
PARAMETER = "network."
"""Begins the name of a tensor that is a parameter as it is; others were computed from parameters."""


def graph_of(content: bytes, kind: str) -> bytes:
    """Returns a graph of a network as an ONNX model of its own, with all tensors that it uses.

    Args:
        content: the file.
        kind: of :data:`.contract.GRAPH_KEYS`.

    Raises:
        KeyError: the file does not hold all graphs.
        ValueError: the file cannot be read.
    """
    parts: dict[str | None, bytes] = {None: content, **_parts_of(content)}
    if absent := [key for key in GRAPH_KEYS.values() if key not in parts]:
        raise KeyError(*absent)
    own = parts[GRAPH_KEYS[kind]]
    known = {name: tensor for part in parts.values() for name, tensor in _tensors_of(part)}
    missing = [known[name] for name in _names_missing(own) if name in known]
    if not missing:
        return own
    return own + _field(_MODEL_GRAPH, b"".join(_field(_GRAPH_TENSOR, tensor) for tensor in missing))


def pack_graphs(models: Mapping[str, Any]) -> bytes:
    """Returns the file of a network.

    Args:
        models: the graphs by kind, all of the contract, as ``onnx.ModelProto`` with all their tensors; they lose those
            that others have.
    """
    names: dict[bytes, str] = {}
    for kind in GRAPH_KEYS:
        graph, renamed = models[kind].graph, {}
        tensors, values = ([_copy(own) for own in held] for held in (graph.initializer, graph.value_info))
        del graph.initializer[:], graph.value_info[:]
        for tensor in tensors:
            told, tensor.name = tensor.name, ""
            key = hashlib.sha256(tensor.SerializeToString(deterministic=True)).digest()
            if key not in names:
                # By its content, because the names that an exporter invents mean something else in every graph.
                names[key] = told if told.startswith(PARAMETER) else f"folded.{key.hex()[:16]}"
                tensor.name = names[key]
                graph.initializer.append(tensor)
            renamed[told] = names[key]
        # Shapes of what lies between the operators, without which onnxruntime joins fewer of them.
        graph.value_info.extend(value for value in values if value.name not in renamed)
        for node in graph.node:
            node.input[:] = [renamed.get(name, name) for name in node.input]
    file = models["context"]
    for kind, entry in GRAPH_KEYS.items():
        if entry is not None:
            file.metadata_props.add(key=entry, value=base64.b64encode(models[kind].SerializeToString()).decode())
    return bytes(file.SerializeToString())


def _copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made


def _parts_of(content: bytes) -> dict[str | None, bytes]:
    """Returns the graphs in the metadata by their keys."""
    found: dict[str | None, bytes] = {}
    for entry in _messages(content, _MODEL_ENTRY):
        fields = {number: value for number, value in fields_of(entry) if isinstance(value, memoryview)}
        key = bytes(fields.get(_ENTRY_KEY, b"")).decode(errors="replace")
        if key in GRAPH_KEYS.values():
            found[key] = base64.b64decode(bytes(fields.get(_ENTRY_VALUE, b"")))
    return found


def _tensors_of(model: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Gives the name and the message of each tensor of a graph."""
    for graph in _messages(model, _MODEL_GRAPH):
        for tensor in _messages(graph, _GRAPH_TENSOR):
            for name in _messages(tensor, _TENSOR_NAME):
                yield bytes(name), tensor


def _names_missing(model: bytes) -> list[bytes]:
    """Returns what the operators of a graph take in and it has not got, each name once."""
    used: dict[bytes, None] = {}
    got = {name for name, _ in _tensors_of(model)}
    for graph in _messages(model, _MODEL_GRAPH):
        got |= {bytes(name) for value in _messages(graph, _GRAPH_INPUT) for name in _messages(value, _VALUE_NAME)}
        for node in _messages(graph, _GRAPH_NODE):
            used.update((bytes(name), None) for name in _messages(node, _NODE_INPUT))
            got |= {bytes(name) for name in _messages(node, _NODE_OUTPUT)}
    return [name for name in used if name not in got]


def _messages(message: bytes | memoryview, wanted: int) -> Iterator[memoryview]:
    """Gives the messages, texts or bytes in one field of a message."""
    for number, value in fields_of(memoryview(message)):
        if number == wanted and isinstance(value, memoryview):
            yield value


def _field(number: int, content: bytes | memoryview) -> bytes:
    """Returns a field of a message that holds bytes."""
    length, size = len(content), bytearray()
    while length >= 0x80:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *size, length]) + content


def fields_of(message: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Gives number and value of each field of a message.

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
