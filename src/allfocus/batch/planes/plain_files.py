"""Frozen dataclasses (or named tuples) of numbers, texts, lists and arrays -> one file, and back, without pickle.

The file is a NumPy archive without objects: the arrays, and a text (JSON) that says where each of them belongs. Reading
one makes nothing but such values and dataclasses of ``allfocus.fusion`` and ``allfocus.depth`` that are loaded already,
so a file that somebody else put there can be wrong, but cannot run code.
"""

import dataclasses
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError

Value = TypeVar("Value")
CONTENT = "content"
"""The name of the text in the archive."""
PACKAGES = ("allfocus.fusion.", "allfocus.depth.")
DEEPEST = 50


def pack(value: object) -> bytes:
    """The bytes of a file that :func:`unpack` makes the same value of.

    Raises:
        TypeError: the value holds something that is neither a number, text, list, tuple, slice, dictionary with names,
            array, nor a dataclass or named tuple of these packages.
    """
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_flatten(value, arrays))
    file = io.BytesIO()
    arrays[CONTENT] = np.frombuffer(text.encode(), np.uint8)
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def unpack(data: bytes, kind: type[Value], *, path: Path) -> Value:
    """The value of a file.

    Args:
        data: The bytes of the file.
        kind: What it must be.
        path: The file, for messages.

    Raises:
        InputError: the bytes are no such file.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        value = _restore(json.loads(arrays[CONTENT].tobytes()), arrays, 0)
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); delete it and run again") from error
    if not isinstance(value, kind):
        raise InputError(f"{path}: holds {type(value).__name__}, not {kind.__name__}; delete it and run again")
    return value


def _flatten(value: object, arrays: dict[str, NDArray[Any]]) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"$array" if isinstance(value, np.ndarray) else "$number": name}
    if isinstance(value, list):
        return [_flatten(item, arrays) for item in value]
    if isinstance(value, tuple) and hasattr(value, "_fields") and type(value).__module__.startswith(PACKAGES):
        fields = {name: _flatten(getattr(value, name), arrays) for name in value._fields}
        return {"$class": [type(value).__module__, type(value).__qualname__], "fields": fields}
    if isinstance(value, tuple):
        return {"$tuple": [_flatten(item, arrays) for item in value]}
    if isinstance(value, slice):
        return {"$slice": [_flatten(item, arrays) for item in (value.start, value.stop, value.step)]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"$dict": {key: _flatten(item, arrays) for key, item in value.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith(PACKAGES):
        fields = {item.name: _flatten(getattr(value, item.name), arrays) for item in dataclasses.fields(value)}
        return {"$class": [type(value).__module__, type(value).__qualname__], "fields": fields}
    raise TypeError(f"a {type(value).__name__} cannot be kept in a file")


def _restore(value: Any, arrays: dict[str, NDArray[Any]], depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(value, list):
        return [_restore(item, arrays, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if "$array" in value:
        return arrays[value["$array"]]
    if "$number" in value:
        return arrays[value["$number"]][()]
    if "$tuple" in value:
        return tuple(_restore(item, arrays, depth + 1) for item in value["$tuple"])
    if "$slice" in value:
        return slice(*value["$slice"])
    if "$dict" in value:
        return {key: _restore(item, arrays, depth + 1) for key, item in value["$dict"].items()}
    fields = {name: _restore(item, arrays, depth + 1) for name, item in value["fields"].items()}
    return _find_class(*value["$class"])(**fields)


def _find_class(module: str, name: str) -> Any:
    found = getattr(sys.modules.get(module), name, None) if module.startswith(PACKAGES) else None
    plain = isinstance(found, type) and (
        dataclasses.is_dataclass(found) or (issubclass(found, tuple) and hasattr(found, "_fields"))
    )
    if not plain or getattr(found, "__module__", None) != module:
        raise ValueError(f"{module}.{name} is no dataclass or named tuple of ours")
    return found
