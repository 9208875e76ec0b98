"""The folders and files that an OME-Zarr is made of on disk, known by their names; and the package that reads them."""

import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from allfocus.errors import InputError, MissingDependencyError

LARGEST_METADATA = 2**26
"""Bytes of a file that describes a group or an array; those of groups with thousands of arrays have a few million."""


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr group, by the files that every one of them has."""
    return any(os.path.isfile(path / name) for name in ("zarr.json", ".zgroup", ".zattrs"))


def open_zarr_group(path: Path | str) -> Any:
    """The Zarr group at a place, to read.

    Raises:
        InputError: a file that describes it is none that can be read whole.
        MissingDependencyError: the package is not installed.
        Exception: whatever the package raises where the description is damaged.
    """
    zarr = require_zarr()
    require_plain_files(Path(path), METADATA_FILES)
    return zarr.open_group(str(path), mode="r")


def require_plain_files(folder: Path, names: Iterable[str], *, most_bytes: int = LARGEST_METADATA) -> None:
    """Raise InputError where one of these is there and no plain file of at most so many bytes.

    Zarr reads each of them whole: a pipe would hold it up for ever, and a device has no end.
    """
    for name in names:
        try:
            status = os.stat(folder / name)
        except (OSError, ValueError):
            continue  # not there, or told by those who read it
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)) or status.st_size > most_bytes:
            raise InputError(
                "is no plain file, or larger than what it describes can be; copy the stack again",
                where=folder / name,
                code="damaged-picture",
            )


def require_zarr() -> ModuleType:
    """The package ``zarr``.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import zarr
    except ImportError as error:
        raise MissingDependencyError("zarr is not installed: pip install 'allfocus[batch]'") from error
    return zarr


def find_foreign(path: Path) -> str | None:
    """The name of something in a Zarr group that no Zarr has, so that it is not deleted with it; None without."""
    among_chunks: set[str] = set()
    for place, folders, files in os.walk(path):
        inside = place in among_chunks
        array = inside or ".zarray" in files or is_array(Path(place, "zarr.json"))
        for name in files:
            chunk = array and re.fullmatch(r"c|[0-9]+([./][0-9]+)*|c([./][0-9]+)+", name)
            if (inside or name not in METADATA_FILES) and not chunk:
                return os.path.relpath(os.path.join(place, name), path)
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        if links:
            return os.path.relpath(os.path.join(place, links[0]), path)
        if array:
            unknown = [name for name in folders if not re.fullmatch(r"c|[0-9]+", name)]
            if unknown:
                return os.path.relpath(os.path.join(place, unknown[0]), path)
            among_chunks.update(os.path.join(place, name) for name in folders)
    return None


METADATA_FILES = frozenset({"zarr.json", ".zgroup", ".zattrs", ".zarray", ".zmetadata", "METADATA.ome.xml"})


def is_array(description: Path) -> bool:
    """Whether a file is the description of an array of Zarr 3."""
    try:
        content = json.loads(description.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("node_type") == "array"
