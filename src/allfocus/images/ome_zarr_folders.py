"""The folders and files that an OME-Zarr is made of on disk, known by their names; and the package that reads them."""

import json
import os
import re
from pathlib import Path
from types import ModuleType

from allfocus.errors import MissingDependencyError


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr group, by the files that every one of them has."""
    return any((path / name).is_file() for name in ("zarr.json", ".zgroup", ".zattrs"))


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
    """The name of something in a Zarr group that no Zarr has, so that it is not deleted with it; None without.

    Only the groups and the tops of the arrays are looked at: chunks, of which there may be millions, have numbers.
    """
    for place, folders, files in os.walk(path):
        array = any(name in files for name in (".zarray",)) or is_array(Path(place, "zarr.json"))
        for name in files:
            chunk = array and re.fullmatch(r"c|[0-9]+([./][0-9]+)*|c([./][0-9]+)+", name)
            if name not in METADATA_FILES and not chunk:
                return os.path.relpath(os.path.join(place, name), path)
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        if links:
            return os.path.relpath(os.path.join(place, links[0]), path)
        if array:
            unknown = [name for name in folders if not re.fullmatch(r"c|[0-9]+", name)]
            if unknown:
                return os.path.relpath(os.path.join(place, unknown[0]), path)
            folders.clear()
    return None


METADATA_FILES = frozenset({"zarr.json", ".zgroup", ".zattrs", ".zarray", ".zmetadata", "METADATA.ome.xml"})


def is_array(description: Path) -> bool:
    """Whether a file is the description of an array of Zarr 3."""
    try:
        content = json.loads(description.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("node_type") == "array"
