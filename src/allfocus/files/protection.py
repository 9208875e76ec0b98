"""What may not be replaced: the files that a run reads, and results that somebody has edited since we wrote them.

These rules hold for everything that writes files of the user: they are asked before the long work begins, and again in
the moment in which a file gets its name (:mod:`allfocus.files.placing`).
"""

import os
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from allfocus.errors import InputError, OutputError

FileState = tuple[int, int]
"""Size in bytes and time of change in nanoseconds."""


class InputFiles:
    """The files that a run may read, known under every name they have: links, other spellings of the path.

    Example:
        >>> "a/../shots/1.png" in InputFiles([Path("shots/1.png")])
        True
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._names: set[str] = set()
        self._identities: set[tuple[int, int]] = set()
        self.add(paths)

    def add(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Count further files as inputs; they need not exist."""
        for path in paths:
            self._names.add(_real(path))
            identity = _identity(path)
            if identity is not None:
                self._identities.add(identity)

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str | os.PathLike):
            return False
        return _real(path) in self._names or _identity(path) in self._identities

    def refuse(self, outputs: Iterable[str | os.PathLike[str]]) -> None:
        """Raise InputError when one of the outputs is an input, whatever it is called."""
        for output in outputs:
            if output in self:
                raise InputError(
                    "is a frame of the stack (or read by this run) and will not be replaced; choose another name",
                    where=os.fspath(output),
                    code="is-an-input",
                )


@dataclass(frozen=True)
class OwnResults:
    """What is known of earlier results at the places where a run writes."""

    known: Callable[[Path], Collection[FileState]] | None
    """The states of a file in which we left it and it may be replaced, none for somebody else's. None lets everything
    be replaced."""
    announce: Callable[[dict[Path, FileState]], None] = lambda states: None
    """Called with what will lie at each place just before the files get their names."""


_OWN: ContextVar[OwnResults | None] = ContextVar("allfocus_own_results", default=None)


@contextmanager
def replacing_only(own: OwnResults) -> Iterator[None]:
    """Inside, files that exist are replaced only if they are as we left them."""
    token = _OWN.set(own)
    try:
        yield
    finally:
        _OWN.reset(token)


def take_own_results() -> OwnResults | None:
    """What :func:`replacing_only` was told, for the files that are staged now."""
    return _OWN.get()


def announce_results(own: OwnResults | None, states: dict[Path, FileState]) -> None:
    """Tell what will lie where; files written meanwhile are under no such rule themselves."""
    if own is None:
        return
    token = _OWN.set(None)
    try:
        own.announce(states)
    finally:
        _OWN.reset(token)


def refuse_edited(own: OwnResults | None, path: Path) -> None:
    """Raise OutputError when a file is there that is not as we left it."""
    if own is None or own.known is None or not os.path.lexists(path):
        return
    known = own.known(path)
    if not known:
        raise foreign_file(path)
    if file_state(path) not in known:
        raise edited_file(path)


def existing_file(path: Path) -> OutputError:
    """The error for a file that is there and was not to be overwritten."""
    return OutputError(
        "exists already",
        where=path,
        hint=["choose another name", "{overwrite=on} to replace it"],
        code="output-exists",
    )


def foreign_file(path: Path) -> OutputError:
    """The error for a file at a place of ours that somebody else made."""
    return OutputError(
        "exists already and was not made by this batch",
        where=path,
        hint=["move it away", "{overwrite=on}"],
        code="output-exists",
    )


def edited_file(path: Path) -> OutputError:
    """The error for a result of ours that somebody has edited."""
    return OutputError(
        "was edited since it was fused",
        where=path,
        hint=["move it away", "{overwrite=on} to fuse it again"],
        code="output-exists",
    )


def name_key(name: str) -> str:
    """What is the same for names that some file systems take for one: A and a, and the two ways to write an accent.

    Example:
        >>> name_key("\u00c9") == name_key("e\u0301")
        True
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def refuse_special(path: Path) -> None:
    """Raise OutputError when a pipe, a device or a folder is there, which no picture may replace; a link is a file."""
    try:
        kind = os.lstat(path).st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(kind) and not stat.S_ISLNK(kind):
        what = "a folder" if stat.S_ISDIR(kind) else "a pipe or a device"
        raise OutputError(f"is {what} and will not be replaced; choose another name", where=path)


def file_state(path: Path) -> FileState | None:
    """Size and time of change of a file; None when it is not there."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns


def _identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _real(path: str | os.PathLike[str]) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return os.path.abspath(path)
