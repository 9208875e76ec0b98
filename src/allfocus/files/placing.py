"""Bytes -> files in their places: each appears whole or not at all, and those of one run all together or none."""

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from allfocus.errors import OutputError
from allfocus.files.folders import StagedFolder
from allfocus.files.journal import (
    LONGEST_NAME,
    Journal,
    Placement,
    State,
    hidden_name,
    is_in_place,
    new_token,
    placement_record,
    recover_folder,
    remove_hidden,
    state_of,
    temporary_record,
    undo,
)
from allfocus.files.protection import InputFiles, announce_results, refuse_edited, refuse_special, take_own_results

__all__ = ["LONGEST_NAME", "StagedFiles", "made_folder", "open_nameless", "recover_folder", "replace_file"]

LARGEST_WRITE = 2**30
"""Bytes given to the system at once; it takes no more than 2 GiB."""

MOST_NAMELESS = 200
"""Files that are held open without a name at a time; a process may not open many more than a thousand."""


@dataclass(frozen=True, eq=False)
class _Staged:
    """A file that is whole on the disk and waits for its name."""

    path: Path
    """The name it will get."""
    state: State
    """By which it is known again under any name."""
    descriptor: int | None
    """Of a file without a name."""
    temporary: Path | None
    """The name it has meanwhile, where files need one."""


class StagedFiles:
    """Files of one run that get their names together when the block ends; if it fails, everything is as it was.

    Replaced files come back too. Until the end the new ones have no names on Linux, so that even a killed run leaves
    nothing behind; elsewhere (and beyond ``MOST_NAMELESS`` of them) they have hidden names beside the final ones. A run
    that is killed just while the names are given leaves a journal, from which the next one to write into the folder
    brings everything in order (:mod:`allfocus.files.journal`).

    Args:
        overwrite: Replace files that exist.
        inputs: Files that are never replaced, with ``overwrite`` neither.

    Raises:
        OutputError: a file exists and may not be overwritten, or the system refused.
        InputError: a file to be written is one of the inputs.

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

    def __init__(self, *, overwrite: bool = False, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
        self._overwrite = overwrite
        self._inputs = InputFiles(inputs)
        self._own = take_own_results()
        self._staged: list[_Staged] = []
        self._placements: dict[_Staged, Placement] = {}
        self._settled = True
        self._temporary: list[Path] = []
        self._open: list[int] = []
        self._token = new_token()
        self._journals: dict[Path, Journal] = {}
        self._folders: list[StagedFolder] = []
        self._seen: set[Path] = set()

    def __enter__(self) -> "StagedFiles":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with _interruptions_held():
            try:
                if kind is None and self._staged:
                    self._give_names()
                if kind is None:
                    for folder in self._folders:
                        folder.give_name()
            finally:
                for folder in self._folders:
                    folder.remove()
                self._clean_up()

    def add(self, path: Path, data: bytes | memoryview) -> None:
        """Put a file on the disk that gets this name at the end.

        Raises:
            OutputError: the system refused.
        """
        try:
            if path.parent not in self._seen:
                self._seen.add(path.parent)
                recover_folder(path.parent)
            self._staged.append(self._write(path, data))
        except OSError as error:
            raise _could_not_write(path, error) from error

    def add_folder(self, path: Path, build: Callable[[Path], None]) -> None:
        """Build a folder, such as an OME-Zarr, that gets this name at the end, after the files.

        Args:
            path: The name it gets; a folder of that name is replaced if files may be overwritten.
            build: Given an empty place beside it, makes the folder there.

        Raises:
            OutputError: the system refused.
        """
        self._inputs.refuse([path])
        folder = StagedFolder(path, overwrite=self._overwrite)
        self._folders.append(folder)
        folder.build(build)

    def _write(self, path: Path, data: bytes | memoryview) -> _Staged:
        descriptor = open_nameless(path.parent) if len(self._open) < _most_nameless() else None
        if descriptor is not None:
            self._open.append(descriptor)
            return _Staged(path, _write_to_disk(descriptor, data), descriptor, None)
        temporary = self._new_name(path, "part")
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
        try:
            return _Staged(path, _write_to_disk(descriptor, data), None, temporary)
        finally:
            os.close(descriptor)

    def _new_name(self, path: Path, ending: str) -> Path:
        """A hidden name beside a path, which the journal knows before it is used."""
        name = hidden_name(path, ending)
        self._journal(path.parent).write(temporary_record(name))
        self._temporary.append(name)
        return name

    def _journal(self, folder: Path) -> Journal:
        if folder not in self._journals:
            head = {}
            if self._journals:
                first = next(iter(self._journals.values()))
                first.write({"other": os.path.abspath(folder)})
                head = {"master": os.path.abspath(first.path)}
            self._journals[folder] = Journal.create(folder, self._token, **head)
        return self._journals[folder]

    def _give_names(self) -> None:
        for staged in self._staged:  # all are asked before the first of them is replaced
            self._require_replaceable(staged.path)
        announce_results(self._own, {staged.path: staged.state[2:] for staged in self._staged})
        try:
            self._prepare()
            self._settled = False
            for staged in self._staged:
                self._give_name(staged)
            if len(self._staged) > 1:
                self._journal(self._staged[0].path.parent).write({"done": True})
            self._settled = True
        except BaseException as error:
            self._settled = self._settled or all(map(is_in_place, self._placements.values())) or self._undo()
            if isinstance(error, FileExistsError):
                raise OutputError(
                    "appeared in the meantime; choose another name", where=staged.path, code="output-exists"
                ) from error
            if isinstance(error, OSError):
                raise _could_not_write(staged.path, error) from error
            raise

    def _prepare(self) -> None:
        """Decide how each file gets its name, and write that down where there is more than one step."""
        for staged in self._staged:
            may_replace = self._overwrite and os.path.lexists(staged.path)
            # The last one is replaced in one step, after which nothing is left to fail.
            last = staged is self._staged[-1]
            old = self._new_name(staged.path, "old") if may_replace and not last else None
            placement = Placement(staged.path, staged.state, old, in_one_step=may_replace and last)
            self._placements[staged] = placement
            if len(self._staged) > 1:
                self._journal(staged.path.parent).write(placement_record(placement))
        for journal in self._journals.values() if len(self._staged) > 1 else ():
            journal.sync()

    def _undo(self) -> bool:
        """Whether everything is as it was; otherwise the journal is left for the next run to try again."""
        try:
            for journal in list(self._journals.values())[:1]:
                journal.write({"aborted": True})
            undo(self._placements.values())
        except OSError:
            return False
        return True

    def _require_replaceable(self, path: Path) -> None:
        self._inputs.refuse([path])
        refuse_special(path)
        refuse_edited(self._own, path)

    def _give_name(self, staged: _Staged) -> None:
        placement = self._placements[staged]
        temporary = staged.temporary
        replaces = placement.old is not None or placement.in_one_step
        if replaces:
            self._require_replaceable(staged.path)
            if temporary is None:
                temporary = self._new_name(staged.path, "part")
                _link(f"/proc/self/fd/{staged.descriptor}", temporary)
        if placement.old is not None:
            _keep_old(staged.path, placement.old)
        if temporary is not None:
            _move(temporary, staged.path, overwrite=replaces)
        else:
            # A link, unlike a rename, fails when the name has been taken since we looked.
            _link(f"/proc/self/fd/{staged.descriptor}", staged.path)

    def _clean_up(self) -> None:
        """Take away what only the work needed; where that fails, the journal tells the next run to do it."""
        for descriptor in self._open:
            with suppress(OSError):
                os.close(descriptor)
        try:
            if self._settled:
                remove_hidden(self._temporary)
        except OSError:
            self._settled = False
        for journal in reversed(self._journals.values()):  # the first one last, because the others point to it
            try:
                journal.close(remove=self._settled)
            except OSError:
                self._settled = False


@contextmanager
def _interruptions_held() -> Iterator[None]:
    """Ctrl-C inside waits until the end: the names of files take milliseconds, and belong together."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if received and callable(before):
        before(*received[0])


def _most_nameless() -> int:
    """So many files may be held open that at least three quarters of what the process may open is left."""
    try:
        import resource
    except ImportError:
        return MOST_NAMELESS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_NAMELESS if soft == resource.RLIM_INFINITY else min(MOST_NAMELESS, soft // 4)


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
            raise OutputError(f"cannot be made ({error.strerror}); choose another folder", where=folder) from error
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


def _could_not_write(path: Path, error: OSError) -> OutputError:
    return OutputError(f"could not be written ({error.strerror}); choose another folder", where=path)


def _link(source: str, path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # With a folder to start from, Python asks the system to follow the link in /proc to the nameless file itself.
        os.link(source, path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _write_to_disk(descriptor: int, data: bytes | memoryview) -> State:
    """What the file, which now holds the data, is known by."""
    left = memoryview(data).cast("B")
    while len(left):
        left = left[os.write(descriptor, left[:LARGEST_WRITE]) :]
    os.fsync(descriptor)
    return state_of(os.fstat(descriptor))


def _keep_old(path: Path, old: Path) -> None:
    """Give a file that will be replaced a second name, from which it can come back."""
    try:
        os.link(path, old, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError:  # FAT, some network drives: no links there
        os.replace(path, old)


def _move(temporary: Path, path: Path, *, overwrite: bool) -> None:
    if not overwrite:
        try:
            os.link(temporary, path)
            return
        except FileExistsError:
            raise
        except OSError:  # FAT, some network drives: no links there
            if os.path.lexists(path):
                raise FileExistsError(str(path)) from None
    os.replace(temporary, path)
