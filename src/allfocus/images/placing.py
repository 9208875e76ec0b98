"""Bytes -> files in their places: each appears whole or not at all, and those of one run all together or none."""

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from allfocus.errors import OutputError

MOST_NAMELESS = 200
"""Files that are held open without a name at a time; a process may not open many more than a thousand."""

LONGEST_NAME = 255
"""Bytes of a file name on nearly every file system."""


@dataclass(frozen=True, eq=False)
class _Staged:
    """A file that is whole on the disk and waits for its name."""

    path: Path
    """The name it will get."""
    identity: tuple[int, int]
    """Device and number of the file, by which it is known again under any name."""
    descriptor: int | None
    """Of a file without a name."""
    temporary: Path | None
    """The name it has meanwhile, where files need one."""


class StagedFiles:
    """Files of one run that get their names together when the block ends; if it fails, everything is as it was.

    Replaced files come back too, where the file system knows links. Until the end the new ones have no names on Linux,
    so that even a killed run leaves nothing behind; elsewhere (and beyond ``MOST_NAMELESS`` of them) they have hidden
    names beside the final ones.

    Args:
        overwrite: Replace files that exist.

    Raises:
        OutputError: a file exists and may not be overwritten, or the system refused.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with StagedFiles() as files:
        ...         files.add(Path(folder, "a.txt"), b"first")
        ...         files.add(Path(folder, "b.txt"), b"second")
        ...         before = os.listdir(folder)
        ...     before, sorted(os.listdir(folder))
        ([], ['a.txt', 'b.txt'])
    """

    def __init__(self, *, overwrite: bool = False) -> None:
        self._overwrite = overwrite
        self._staged: list[_Staged] = []
        self._temporary: list[Path] = []
        self._open: list[int] = []

    def __enter__(self) -> "StagedFiles":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._give_names()
        finally:
            for descriptor in self._open:
                os.close(descriptor)
            for path in self._temporary:
                path.unlink(missing_ok=True)

    def add(self, path: Path, data: bytes | memoryview) -> None:
        """Put a file on the disk that gets this name at the end.

        Raises:
            OutputError: the system refused.
        """
        try:
            self._staged.append(self._write(path, data))
        except OSError as error:
            raise _could_not_write(path, error) from error

    def _write(self, path: Path, data: bytes | memoryview) -> _Staged:
        descriptor = open_nameless(path.parent) if len(self._open) < MOST_NAMELESS else None
        if descriptor is not None:
            self._open.append(descriptor)
            with open(descriptor, "wb", closefd=False) as file:
                return _Staged(path, _write_to_disk(file, data), descriptor, None)
        temporary = _other_name(path, "part")
        self._temporary.append(temporary)
        with open(temporary, "xb") as file:
            return _Staged(path, _write_to_disk(file, data), None, temporary)

    def _give_names(self) -> None:
        old: dict[Path, Path | None] = {}
        try:
            for staged in self._staged:
                # The last one is replaced in one step, after which nothing is left to fail.
                if self._overwrite and staged is not self._staged[-1]:
                    self._keep_old(staged.path, old)
                self._give_name(staged)
        except BaseException as error:
            if not _is_in_place(self._staged[-1]):
                _undo(self._staged, old)
            if isinstance(error, FileExistsError):
                raise OutputError(f"{staged.path}: appeared in the meantime; choose another name") from error
            if isinstance(error, OSError):
                raise _could_not_write(staged.path, error) from error
            raise

    def _keep_old(self, path: Path, old: dict[Path, Path | None]) -> None:
        """Give a file that will be replaced a second name, which is taken away at the end."""
        if not os.path.lexists(path):
            return
        other = _other_name(path, "old")
        self._temporary.append(other)
        try:
            os.link(path, other, follow_symlinks=False)
            old[path] = other
        except OSError:  # FAT, some network drives: no links there, so it cannot come back
            old[path] = None

    def _give_name(self, staged: _Staged) -> None:
        path, temporary = staged.path, staged.temporary
        may_replace = self._overwrite and os.path.lexists(path)
        if staged.descriptor is not None:
            # A link, unlike a rename, fails when the name has been taken since we looked.
            source = f"/proc/self/fd/{staged.descriptor}"
            if not may_replace:
                _link(source, path)
                return
            temporary = _other_name(path, "part")
            self._temporary.append(temporary)
            _link(source, temporary)
        if temporary is not None:
            _move(temporary, path, overwrite=self._overwrite)


def replace_file(path: Path, data: bytes | memoryview, *, overwrite: bool = False) -> None:
    """Put a file in place in one step, so that no reader ever sees a part of it.

    Raises:
        OutputError: the file exists and may not be overwritten, or the system refused; nothing is left behind.
    """
    with StagedFiles(overwrite=overwrite) as files:
        files.add(path, data)


@contextmanager
def made_folder(folder: Path) -> Iterator[Path]:
    """The folder, made with its parents if need be; if the block fails, those that were made and are empty go again.

    Raises:
        OutputError: the folder cannot be made.
    """
    missing = [place for place in (folder, *folder.parents) if not os.path.lexists(place)]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be made ({error.strerror}); choose another folder") from error
        yield folder
    except BaseException:
        for place in missing:
            with suppress(OSError):  # not made, or no longer empty
                place.rmdir()
        raise


def open_nameless(folder: Path) -> int | None:
    """A new file without a name, which vanishes with the process even when that is killed; None where there are none.

    Linux has them, on most file systems.
    """
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, flag | os.O_WRONLY, 0o666)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            return None
        raise


def _is_in_place(file: _Staged) -> bool:
    try:
        status = os.lstat(file.path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == file.identity


def _undo(staged: Sequence[_Staged], old: dict[Path, Path | None]) -> None:
    """Take the names away again that were given, and bring back what they had replaced."""
    for file in filter(_is_in_place, staged):
        kept = old.get(file.path)
        if kept is not None:
            os.replace(kept, file.path)
        elif file.path not in old:
            file.path.unlink(missing_ok=True)


def _could_not_write(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: could not be written ({error.strerror}); choose another folder")


def _link(source: str, path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # With a folder to start from, Python asks the system to follow the link in /proc to the nameless file itself.
        os.link(source, path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _write_to_disk(file: BinaryIO, data: bytes | memoryview) -> tuple[int, int]:
    """Device and number of the file, which now holds the data."""
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino


def _other_name(path: Path, ending: str) -> Path:
    tail = f".{secrets.token_hex(4)}.{ending}"
    # Names are limited in bytes, and a letter may have four.
    kept = os.fsencode(path.name)[: LONGEST_NAME - 1 - len(tail)].decode(errors="ignore")
    return path.with_name(f".{kept}{tail}")


def _move(temporary: Path, path: Path, *, overwrite: bool) -> None:
    if not overwrite:
        try:
            os.link(temporary, path)
            return
        except FileExistsError:
            raise
        except OSError:  # FAT, some network drives: no links there
            if path.exists():
                raise FileExistsError(str(path)) from None
    os.replace(temporary, path)
