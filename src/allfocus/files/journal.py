"""Journals: what a run is about to name, written down before it does, so that the next run can undo half of it.

While files get their names, a journal lies beside them (``.allfocus-TOKEN.journal``), locked by the run that made it. A
run that is killed leaves it behind, and the lock goes with the process. Whoever next writes into the folder finds the
journal, undoes what was begun (or tidies up after what was finished), and takes the journal away.

A journal speaks only of names in its own folder, of hidden names of our own pattern, and of files that it knows by
their number on the disk, size and time; and only journals of the same user count. So one that came with somebody
else's folder can do nothing.
"""

import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from allfocus.files.locking import lock
from allfocus.files.opening import parse_json

State = tuple[int, int, int, int]
"""Device, number on it, size and time of change of a file, by which it is known again under any name."""

NAME = re.compile(r"\.allfocus-[0-9a-f]{12}\.journal")
HIDDEN = re.compile(r"\..*\.[0-9a-f]{8}\.(part|old)", re.DOTALL)
"""Names that only we make."""
LONGEST_NAME = 255
"""Bytes of a file name on nearly every file system."""
PLAIN_BYTES = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""How journals are opened, as far as a system needs to be told."""
LARGEST_JOURNAL = 16 * 2**20
PATIENCE_WITHOUT_LOCKS = 600.0
"""Seconds after which a journal counts as left behind where the file system knows no locks."""


@dataclass(frozen=True)
class Placement:
    """A file that gets, or has got, its name."""

    path: Path
    """The name."""
    state: State
    """Of the file."""
    old: Path | None = None
    """The second name of what was there before; None when there was nothing, or nothing that has to come back."""
    in_one_step: bool = False
    """Whether what was there before is replaced without a second name, as the last of all."""


@dataclass
class Journal:
    """An open journal; see the module."""

    path: Path
    descriptor: int

    @classmethod
    def create(cls, folder: Path, token: str, **head: Any) -> "Journal":
        """A new journal in a folder, locked by this process."""
        path = folder / f".allfocus-{token}.journal"
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | PLAIN_BYTES
        while True:
            descriptor = os.open(path, flags, 0o600)
            try:
                lock(descriptor)
                if _is(path, descriptor):
                    journal = cls(path, descriptor)
                    journal.write({"allfocus": 1, **head})
                    return journal
            except OSError:
                os.close(descriptor)
                remove_hidden([path])
                raise
            os.close(descriptor)  # taken for one that was left behind, in the moment before it was locked

    def write(self, record: dict[str, Any]) -> None:
        """Add a line."""
        data = json.dumps(record).encode("ascii") + b"\n"
        while data:
            data = data[os.write(self.descriptor, data) :]

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        os.fsync(self.descriptor)

    def close(self, *, remove: bool) -> None:
        """Let go of the journal; one that is not removed tells the next run what to do."""
        if remove:
            _remove_open(self.path, self.descriptor)
        else:
            os.close(self.descriptor)


@dataclass
class _Content:
    master: str | None = None
    others: list[str] = field(default_factory=list)
    temporary: list[Path] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    done: bool = False
    aborted: bool = False


def new_token() -> str:
    """A random name for a journal."""
    return secrets.token_hex(6)


def hidden_name(path: Path, ending: str) -> Path:
    """A hidden name beside a path, which nobody else has: for a file on its way, or one that is to be replaced."""
    tail = f".{secrets.token_hex(4)}.{ending}"
    # Names are limited in bytes, and a letter may have four.
    kept = os.fsencode(path.name)[: LONGEST_NAME - 1 - len(tail)].decode(errors="ignore")
    return path.with_name(f".{kept}{tail}")


def state_of(status: os.stat_result) -> State:
    """By what a file is known again."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def placement_record(placement: Placement) -> dict[str, Any]:
    """A placement as a line of the journal of its folder."""
    return {
        "file": _text(placement.path.name),
        "state": list(placement.state),
        "old": placement.old and _text(placement.old.name),
        "in_one_step": placement.in_one_step,
    }


def temporary_record(path: Path) -> dict[str, Any]:
    """A hidden name that is about to be made, as a line of the journal of its folder."""
    return {"temporary": _text(path.name)}


def is_in_place(placement: Placement) -> bool:
    """Whether the file has its name."""
    try:
        status = os.lstat(placement.path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == placement.state[:2]


def undo(placements: Iterable[Placement]) -> None:
    """Take names away again that were given, and bring back what they replaced; what was edited since stays."""
    for placement in placements:
        try:
            now = state_of(os.lstat(placement.path))
        except FileNotFoundError:
            now = None
        ours = now is not None and now[:2] == placement.state[:2]
        if ours and now != placement.state:
            continue  # somebody has worked on it, and nothing of ours is worth that
        if placement.old is not None and os.path.lexists(placement.old):
            if ours or now is None:
                os.replace(placement.old, placement.path)
        elif ours and not placement.in_one_step:
            os.unlink(placement.path)


def remove_hidden(paths: Iterable[Path]) -> None:
    """Take hidden names away that are still there."""
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue


def recover_folder(folder: Path) -> None:
    """Bring a folder in order in which a run was killed while its files got their names; does nothing in any other."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if NAME.fullmatch(entry.name)]
    except OSError:
        return  # no folder, or not ours to look at: what is to be written there will say so
    for name in names:
        try:
            _recover(Path(folder, name))
        except OSError:
            continue  # full or read-only; the journal stays for a better day


def _recover(path: Path, *, follow: bool = True) -> None:
    opened = _open_left_behind(path)
    if opened is None:
        return
    descriptor, content = opened
    held = {path: descriptor}
    try:
        master = None if content.master is None else Path(content.master)
        if master is not None and follow and NAME.fullmatch(master.name) and os.path.lexists(master):
            os.close(held.pop(path))
            _recover(master, follow=False)  # which takes this one away too, if its run has ended
            return
        contents = [content]
        for other in content.others:
            beside = Path(other, path.name)
            found = _open_left_behind(beside) if os.path.lexists(beside) else None
            if found is not None:
                held[beside] = found[0]
                contents.append(found[1])
        _settle(contents, orphan=master is not None)
        for place in reversed(list(held)):  # the first one last, because the others point to it
            _remove_open(place, held.pop(place))
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _remove_open(path: Path, descriptor: int) -> None:
    """Deletes a journal and lets go of it; in this order where that can be, so that nobody else takes it in between."""
    try:
        os.unlink(path)
    except PermissionError:
        os.close(descriptor)
        os.unlink(path)  # Windows deletes no file that is open
    except BaseException:
        os.close(descriptor)
        raise
    else:
        os.close(descriptor)


def _settle(contents: list[_Content], *, orphan: bool) -> None:
    first = contents[0]
    placements = [placement for content in contents for placement in content.placements]
    complete = orphan or first.done or (bool(placements) and all(map(is_in_place, placements)))
    if first.aborted or not complete:
        undo(placements)
    remove_hidden(path for content in contents for path in content.temporary)


def _open_left_behind(path: Path) -> tuple[int, _Content] | None:
    """A journal whose run has ended, locked and read; None for any other."""
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | PLAIN_BYTES)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
        free = lock(descriptor)
        if free is None:
            free = time.time() - status.st_mtime > PATIENCE_WITHOUT_LOCKS
        if own and free and stat.S_ISREG(status.st_mode) and _is(path, descriptor) and status.st_size < LARGEST_JOURNAL:
            return descriptor, _parse(path.parent, os.read(descriptor, LARGEST_JOURNAL))
    except (KeyError, ValueError, TypeError, OverflowError):
        pass  # no journal of ours
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _parse(folder: Path, data: bytes) -> _Content:
    content = _Content()
    for record in _records(data):
        if record.get("master") is not None:
            content.master = os.path.abspath(str(record["master"]))
        if "other" in record:
            content.others.append(os.path.abspath(str(record["other"])))
        content.done |= bool(record.get("done"))
        content.aborted |= bool(record.get("aborted"))
        if "temporary" in record:
            content.temporary += filter(None, [_hidden(folder, record["temporary"])])
        if "file" in record:
            name = _plain(folder, record["file"])
            if name is not None:
                old = None if record["old"] is None else _hidden(folder, record["old"])
                device, number, size, time_of_change = map(int, record["state"])
                state = (device, number, size, time_of_change)
                content.placements.append(Placement(name, state, old, bool(record["in_one_step"])))
    return content


def _records(data: bytes) -> Iterator[dict[str, Any]]:
    """The lines that are whole; what follows a torn one was not written any more."""
    for line in data.split(b"\n")[:-1]:
        try:
            record = parse_json(line)
        except ValueError:
            return
        if not isinstance(record, dict):
            return
        yield record


def _plain(folder: Path, name: object) -> Path | None:
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\x00" in name or os.sep in name:
        return None
    return folder / os.fsdecode(name.encode("utf-8", "surrogateescape"))


def _hidden(folder: Path, name: object) -> Path | None:
    return _plain(folder, name) if isinstance(name, str) and HIDDEN.fullmatch(name) else None


def _text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "surrogateescape")


def _is(path: Path, descriptor: int) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except OSError:
        return False
