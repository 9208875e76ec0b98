"""From the TOML of a recipe to the records that describe it: files and their bases, single changes, types, limits."""

import dataclasses
import difflib
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar

from allfocus.errors import InputError
from allfocus.files.opening import open_plain

Record = TypeVar("Record")

LARGEST_RECIPE = 20_000
"""Bytes of a recipe; ours have a tenth of it, and a key of 30,000 parts takes half a minute to be understood."""
LONGEST_CHAIN = 10
"""Recipes of which each is the base of the next."""
_LARGEST_NUMBER = 2**63 - 1
"""What a seed may be, and what JSON hands on unharmed."""


def read_table(path: Path, derived: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Returns the table of a recipe on top of its base; `derived` are the recipes that led to it."""
    table = _parse(path)
    base = table.pop("base", None)
    if base is None:
        return table
    if not isinstance(base, str) or not _is_beside(base):
        raise InputError(
            f"{path}: base = {short(repr(base))}; give the name of another recipe as seen from this one, "
            'for example "ips.toml"'
        )
    try:
        own, parent = path.resolve(), (path.parent / base).resolve()
    except (OSError, RuntimeError) as error:  # links that lead back to themselves
        raise InputError(f"{path}: base = {short(repr(base))} cannot be followed") from error
    if parent in derived or parent == own:
        raise InputError(f"{path}: base = {short(repr(base))} leads back to itself")
    if len(derived) >= LONGEST_CHAIN:
        raise InputError(f"{path}: is the base of {len(derived)} recipes, one on top of the other; that is too many")
    merged = read_table(path.parent / base, (*derived, own))
    for key, value in table.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] |= value
        else:
            merged[key] = value
    return merged


def parse_value(text: str) -> Any:
    """Returns a value of TOML, or the text itself where it is none."""
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # A line break in it would begin another key, which would then be passed over.
    return found["value"] if found.keys() == {"value"} and "\n" not in text else text


def insert(table: dict[str, Any], keys: list[str], value: object, *, where: str) -> None:
    """Puts a value into a table of tables, at the place that the keys lead to.

    Raises:
        InputError: one of the keys leads to a value; ``where`` names what was asked.
    """
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise InputError(f"{where}: {key} is a value, not a section")
    table[keys[-1]] = value


def build(kind: type[Record], table: dict[str, Any], where: str, section: str = "") -> Record:
    """Returns the record (a dataclass) that a table describes; ``where`` and ``section`` are for messages.

    Raises:
        InputError: a key is unknown, or a value of the wrong type.
    """
    hints = typing.get_type_hints(kind)
    for key in table:
        if key not in hints:
            nearest = difflib.get_close_matches(key[:50], hints, n=1, cutoff=0.0)
            raise InputError(f"{where}: unknown key {section}{short(key)}; did you mean {section}{nearest[0]}?")
    values: dict[str, object] = {}
    for key, value in table.items():
        hint = hints[key]
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            if not isinstance(value, dict):
                raise InputError(f"{where}: {section}{key} must be a section")
            values[key] = build(hint, value, where, f"{section}{key}.")
        else:
            values[key] = _convert(value, hint, f"{where}: {section}{key}")
    return kind(**values)


def short(text: object) -> str:
    """What a recipe says, in a message: as one line, and not all of it when it is long."""
    shown = " ".join(str(text).split())
    return shown if len(shown) <= 200 else f"{shown[:200]} ..."


def _is_beside(base: str) -> bool:
    """Returns whether a base is the name of a recipe as seen from another one: no file of the system, nothing odd."""
    return base.endswith(".toml") and len(base) <= 500 and not Path(base).is_absolute() and base.isprintable()


def _parse(path: Path) -> dict[str, Any]:
    """Returns what a TOML file of a sensible length says."""
    try:
        with open_plain(path) as source:
            data = source.read(LARGEST_RECIPE + 1)
    except InputError as error:
        raise InputError(f"{path}: cannot read the recipe ({error.message})", code=error.code) from error
    except OSError as error:
        raise InputError(f"{path}: cannot read the recipe ({error.strerror})") from error
    if len(data) > LARGEST_RECIPE:
        raise InputError(f"{path}: has more than {LARGEST_RECIPE} bytes; no recipe needs so many")
    try:
        return tomllib.loads(data.decode())
    except RecursionError as error:
        raise InputError(f"{path}: not valid TOML for a recipe (it is nested too deeply)") from error
    except ValueError as error:  # of tomllib, of text that is none, and of numbers with thousands of digits
        raise InputError(f"{path}: not valid TOML ({short(error)})") from error


def _convert(value: object, hint: Any, where: str) -> object:
    origin = typing.get_origin(hint)
    if type(value) is int and abs(value) > _LARGEST_NUMBER:
        raise InputError(f"{where} is a number of {value.bit_length()} bits; at most 63 can be used")
    if origin is Literal:
        if value not in typing.get_args(hint):
            raise InputError(f"{where} = {short(repr(value))}; valid are {', '.join(map(str, typing.get_args(hint)))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InputError(f"{where} = {short(repr(value))}; expected a list")
        return tuple(_convert(item, typing.get_args(hint)[0], where) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, types.UnionType) or not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise InputError(f"{where} = {short(repr(value))}; expected {getattr(hint, '__name__', hint)}")
    return value
