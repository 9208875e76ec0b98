"""Opening files that users name: plain files only, so that no pipe or device can hold the program up for ever."""

import os
import stat
from io import BufferedReader
from pathlib import Path

from allfocus.errors import InputError


def open_plain(path: Path) -> BufferedReader:
    """The file, open for reading.

    Raises:
        InputError: there is none, it cannot be read, or it is a folder, a pipe or a device.
    """
    try:
        file = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 (the caller closes it)
    except FileNotFoundError as error:
        raise InputError("no such file; check the name", where=path, code="no-such-file") from error
    except IsADirectoryError as error:
        raise InputError("cannot be read (it is a folder); name a file", where=path, code="unreadable-file") from error
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror}); check that it is a readable file", where=path, code="unreadable-file"
        ) from error
    except ValueError as error:
        raise InputError(
            f"is no name that a file can have ({error}); check the name", where=repr(str(path)), code="no-such-file"
        ) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise InputError("cannot be read (it is a pipe or a device); name a file", where=path, code="unreadable-file")
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe without a writer, and some devices, would hold up whoever opens them."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
