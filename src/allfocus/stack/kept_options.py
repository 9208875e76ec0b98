"""Options that a user keeps: those of the last fusion, and presets of the user's own, in the studio's folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from allfocus.errors import InputError
from allfocus.files.opening import open_plain, parse_json
from allfocus.images.writing import replace_file
from allfocus.stack.option_fields import STUDIO
from allfocus.stack.options import FuseOptions, offered

FILE = "preferences.json"
MOST_BYTES = 2**20


@dataclass(frozen=True)
class KeptOptions:
    """What a user keeps."""

    last: FuseOptions | None = None
    """Of the last fusion; None before there was one."""
    presets: Mapping[str, FuseOptions] = field(default_factory=dict)
    """The user's own, by their names."""


def read_kept(folder: Path) -> KeptOptions:
    """What is kept in a folder; nothing where there is no such file.

    Raises:
        InputError: the file cannot be read, or holds values that options cannot have.
    """
    path = folder / FILE
    try:
        with open_plain(path) as file:
            content = parse_json(file.read(MOST_BYTES))
        last, presets = content["options"], dict(content["presets"])
        return KeptOptions(
            None if last is None else options_from_plain(last),
            {str(name): options_from_plain(values) for name, values in presets.items()},
        )
    except InputError as error:
        if error.code == "no-such-file":
            return KeptOptions()
        error.set_place(path)
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"holds no options that can be used ({error})", where=path) from error


def write_kept(folder: Path, kept: KeptOptions) -> None:
    """Keep options in a folder, in place of those that are there.

    Raises:
        OutputError: the file cannot be written.
    """
    content = {
        "options": None if kept.last is None else options_to_plain(kept.last),
        "presets": {name: options_to_plain(options) for name, options in kept.presets.items()},
    }
    replace_file(folder / FILE, json.dumps(content, allow_nan=False).encode(), overwrite=True)


def options_to_plain(options: FuseOptions) -> dict[str, Any]:
    """The options that the studio offers, each with its value.

    Example:
        >>> options_to_plain(FuseOptions(prefer="far"))["prefer"]
        'far'
    """
    return {name: getattr(options, name) for name in offered(STUDIO)}


def options_from_plain(values: Mapping[str, Any]) -> FuseOptions:
    """Options as this version knows them; those of another version are left out.

    Raises:
        InputError: one has a value that it cannot have.

    Example:
        >>> options_from_plain({"prefer": "far", "of the future": 1}).prefer
        'far'
    """
    known = {name: value for name, value in dict(values).items() if name in offered(STUDIO)}
    kinds = get_type_hints(FuseOptions)
    for name, value in known.items():
        kind = kinds[name]
        # True is an int to isinstance, and no number to whoever wrote it.
        if type(value) not in (get_args(kind) if isinstance(kind, UnionType) else (kind,)):
            raise InputError(f"{name} = {value!r} is no value of this option", code="bad-option")
    return FuseOptions(**known)
