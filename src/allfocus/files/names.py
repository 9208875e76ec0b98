"""Names that a file can have: at all, and on every system."""

import os
import re
from pathlib import Path

from allfocus.errors import InputError

FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]')
"""What Windows allows in no name."""
DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(\..*)?", re.IGNORECASE)
"""Names that Windows takes for devices, whatever their ending."""
LONGEST = 200
"""Letters; room is left for what is put before and after a name."""


def named_path(path: str | os.PathLike[str]) -> Path:
    """The path that a user named; InputError for an empty text, which Python would take for the current folder.

    Example:
        >>> named_path("a.png").name
        'a.png'
    """
    if not os.fspath(path):
        raise InputError("the name of a file or folder is empty; give one, or . for the current folder")
    return Path(path)


def is_portable(name: str) -> bool:
    """Whether a file can be called so on every system.

    Example:
        >>> is_portable("beetle.tif"), is_portable("aux.tif"), is_portable("a:b.tif"), is_portable("end. ")
        (True, False, False, False)
    """
    return bool(name) and not FORBIDDEN.search(name) and not DEVICES.fullmatch(name) and name[-1] not in ". "


def portable_name(text: str) -> str:
    """A name as near to a text as a file can have on every system.

    Example:
        >>> portable_name("f/2.8 12:30"), portable_name("NUL"), portable_name("  ")
        ('f-2.8 12-30', '_NUL', '_')
    """
    name = FORBIDDEN.sub("-", text).strip().rstrip(". ")[:LONGEST].rstrip(". ")
    return name if is_portable(name) else f"_{name}"
