"""Opening files that users name: plain files only, so that no pipe or device can hold the program up for ever."""

import errno
import json
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

from allfocus.errors import InputError


def open_plain(path: Path) -> BufferedReader:
    """The file, open for reading; a disk that fails later is an InputError as well.

    Raises:
        InputError: there is none, it cannot be read, or it is a folder, a pipe or a device.
    """
    try:
        file: BufferedReader = BufferedReader(_PlainFile(path, "rb", opener=_open_without_waiting))
    except FileNotFoundError as error:
        raise InputError("no such file; check the name", where=path, code="no-such-file") from error
    except IsADirectoryError as error:
        raise InputError("cannot be read (it is a folder); name a file", where=path, code="unreadable-file") from error
    except OSError as error:
        raise _unreadable(error, path) from error
    except ValueError as error:
        raise InputError(
            f"is no name that a file can have ({error}); check the name", where=repr(str(path)), code="no-such-file"
        ) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise InputError("cannot be read (it is a pipe or a device); name a file", where=path, code="unreadable-file")
    return file


class _PlainFile(FileIO):
    """What the system refuses while it is read is told as it is when it is opened, wherever that happens."""

    def readinto(self, buffer: Any, /) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise _unreadable(error, self.name) from error

    def readall(self) -> bytes:
        try:
            return super().readall()
        except OSError as error:
            raise _unreadable(error, self.name) from error


def _unreadable(error: OSError, path: object) -> InputError:
    return InputError(
        f"cannot be read ({error.strerror}); check that it is a readable file", where=path, code="unreadable-file"
    )


def open_to_append(path: Path) -> FileIO:
    """The file, made if need be, to write at its end; unbuffered, so that a full disk is found out by each write.

    Raises:
        OSError: it cannot be written, or is a pipe or a device.
    """
    file = FileIO(path, "ab", opener=_open_without_waiting)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is a pipe or a device", str(path))
    return file


def parse_json(data: bytes) -> Any:
    """What JSON says, however it is nested.

    Raises:
        ValueError: it is none, or nested so deeply that nobody means it.

    Example:
        >>> parse_json(b'{"a": [1]}')
        {'a': [1]}
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe without a writer, and some devices, would hold up whoever opens them."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
