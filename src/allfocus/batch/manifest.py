"""What is known about each stack of a batch, on disk: one JSON line for each thing that happened, the last one counts.

A stack is done over only when its frames, the settings or the version have changed. Frames count as unchanged when
their names, sizes and times of change are those of the record; where only a time differs (files that were copied or
touched) their content decides, by its SHA-256, which was taken when the stack was fused. So a second look costs one
question to the file system for each frame, and a copy of a tree to another disk is not fused again.
"""

import contextlib
import dataclasses
import errno
import hashlib
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allfocus.errors import InputError, OutputError
from allfocus.files.locking import lock
from allfocus.files.opening import open_plain, open_to_append, parse_json
from allfocus.files.protection import FileState
from allfocus.images.writing import replace_file

FILE_NAME = "manifest.jsonl"
PLANNED, FUSED, FAILED = "planned", "fused", "failed"
"""A stack was begun (its output is ours from then on), has been fused, could not be fused."""
PAGE = "page"
"""Of lines about the summary and the contact sheet."""

FrameStates = tuple[tuple[str, int, int], ...]
"""Name, size in bytes and time of change in nanoseconds of each frame."""


@dataclass(frozen=True)
class StackRecord:
    """What became of one stack; a row of the summary."""

    stack: str
    status: str
    """``planned``, ``fused`` or ``failed``."""
    output: str
    """The fused picture, below the output folder."""
    inputs: FrameStates = ()
    """The frames when they were fused."""
    input_key: str = ""
    """SHA-256 of their names and contents."""
    settings_key: str = ""
    """SHA-256 of the settings and of the version of allfocus."""
    output_state: tuple[int, int] | None = None
    """Size and time of change of the fused picture."""
    maps: tuple[str, ...] = ()
    """Names of the maps beside the fused picture."""
    files: FrameStates = ()
    """Every file that was written for it, below the output folder, as it was left."""
    width: int = 0
    height: int = 0
    left_out: int = 0
    """Frames that were left out because they are damaged or do not belong."""
    lost_percent: float | None = None
    """Percent of the picture in which detail is lost that some frame shows; None if it was not measured."""
    lost_flag: bool = False
    """Whether that is worth a look."""
    seconds: float = 0.0
    """Wall time of fusing."""
    processor_seconds: float = 0.0
    worker: str = ""
    """Host and process that fused it."""
    error: str = ""
    """Why it failed; empty otherwise."""
    code: str = ""
    """The code of that error; see ``allfocus.errors.CODES``."""
    notices: tuple[str, ...] = ()
    unchanged: bool = False
    """Whether this run found it done already; not stored."""

    def require_plain(self) -> None:
        """Raise ValueError when a field is not of its type, or a name leads out of the output folder."""
        texts = (self.stack, self.status, self.output, self.settings_key, self.input_key, self.worker, self.error)
        if not all(isinstance(text, str) for text in (*texts, *self.notices)):
            raise ValueError("a field is no text")
        numbers = (self.width, self.height, self.left_out, self.seconds, self.processor_seconds, self.lost_percent or 0)
        if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
            raise ValueError("a field is no number")
        for name in (self.output, *self.maps, *(file for file, *_ in self.files)):
            if "\x00" in name or os.path.isabs(name) or ".." in Path(name).parts:
                raise ValueError("a file is not below the output folder")

    def to_line(self) -> bytes:
        """The record as one line of JSON."""
        content = dataclasses.asdict(self)
        del content["unchanged"]
        # A name that is not UTF-8 has no letters that could be written as they are.
        return json.dumps(content).encode() + b"\n"


def parse_record(line: bytes) -> StackRecord | None:
    """The record in a line; None when it is not whole, as after a power cut, or not ours.

    Example:
        >>> record = StackRecord("beetle", FUSED, "beetle.png", (("1.png", 10, 20),))
        >>> parse_record(record.to_line()) == record, parse_record(b'{"stack": "bee')
        (True, None)
    """
    try:
        content = parse_json(line)
        state = content.pop("output_state")
        record = StackRecord(
            **{
                **content,
                "inputs": tuple((str(name), int(size), int(time)) for name, size, time in content["inputs"]),
                "output_state": None if state is None else (int(state[0]), int(state[1])),
                "notices": tuple(content["notices"]),
                "maps": tuple(map(str, content.get("maps", ()))),
                "files": tuple((str(name), int(size), int(time)) for name, size, time in content.get("files", ())),
            }
        )
        record.require_plain()
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError):
        return None
    return record


class BatchManifest:
    """The records of an output folder. Only one run at a time may write it; a second is refused."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.records: dict[str, StackRecord] = {}
        self.pages: dict[str, list[FileState]] = {}
        """The summary and the contact sheet, each with the last states in which we left it."""
        self._lines = 0
        self._file: io.FileIO | None = None

    @contextlib.contextmanager
    def opened(self) -> Iterator["BatchManifest"]:
        """Reads what is there and takes the right to write.

        Raises:
            OutputError: The folder cannot be written, or another run is writing there.
        """
        try:
            self._file = open_to_append(self.path)
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written ({error.strerror}); choose another folder") from error
        try:
            take_lock(self._file, self.path.parent)
            self.records, self.pages, self._lines = _read_lines(self.path)
            self._compact()
            yield self
        finally:
            self._file.close()
            self._file = None

    def append(self, records: Iterable[StackRecord]) -> None:
        """Writes records down, so that they are on the disk when this returns."""
        new = list(records)
        self._write(b"".join(record.to_line() for record in new))
        self.records.update((record.stack, record) for record in new)

    def note_page(self, name: str, state: FileState) -> None:
        """Writes down in which state a page is about to be left."""
        self._write(_page_line(name, state))
        self.pages[name] = [*self.pages.get(name, ()), state][-2:]

    def _write(self, data: bytes) -> None:
        if self._file is None:
            raise ValueError("the manifest is not open")
        if not data:
            return
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written ({error.strerror}); free some space") from error

    def _compact(self) -> None:
        """Writes only what counts, when most lines are outdated or the last one is torn."""
        if self._file is None or (self._lines <= 4 * len(self.records) + 100 and _ends_with_newline(self.path)):
            return
        lines = [record.to_line() for record in self.records.values()]
        lines += [_page_line(name, state) for name, states in self.pages.items() for state in states]
        replace_file(self.path, b"".join(lines), overwrite=True)
        old, self._file = self._file, open_to_append(self.path)
        take_lock(self._file, self.path.parent)
        old.close()


def read_manifest(folder: Path) -> dict[str, StackRecord]:
    """The last record of each stack; empty where there is no manifest."""
    return _read_lines(folder / FILE_NAME)[0]


def _page_line(name: str, state: FileState) -> bytes:
    return json.dumps({"stack": "", "status": PAGE, "page": name, "state": state}).encode() + b"\n"


def _parse_page(line: bytes) -> tuple[str, FileState] | None:
    try:
        content = parse_json(line)
        size, changed = content["state"]
        return str(content["page"]), (int(size), int(changed))
    except (ValueError, TypeError, KeyError, OverflowError):
        return None


def _read_lines(path: Path) -> tuple[dict[str, StackRecord], dict[str, list[FileState]], int]:
    try:
        with open_plain(path) as file:
            lines = file.read().splitlines()
    except InputError as error:
        if not os.path.lexists(path):
            return {}, {}, 0
        raise OutputError(error.message, where=error.where, hint=error.hints, code=error.code) from error
    except OSError as error:
        raise OutputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    records = [record for record in map(parse_record, lines) if record is not None]
    pages: dict[str, list[FileState]] = {}
    for name, state in filter(None, map(_parse_page, lines)):
        pages[name] = [*pages.get(name, ()), state][-2:]
    torn = len(lines) == 1 and lines[0].startswith(b'{"stack": ')
    if any(lines) and not records and not pages and not torn:
        raise OutputError(f"{path}: exists and was not made by a batch; choose another folder")
    return {record.stack: record for record in records}, pages, len(lines)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def take_lock(file: io.IOBase, place: Path) -> None:
    """Takes the right to write at a place, which lasts as long as the file is open.

    Raises:
        OutputError: Another run has it.
    """
    if lock(file) is False:  # where there are no locks, the user has to take care
        raise OutputError(
            "another batch is writing there; wait for it or choose another output", where=place, code="in-use"
        )


def frame_states(frames: Sequence[Path], root: Path) -> FrameStates:
    """Name (below the root where it is there), size and time of change of each frame; a missing one has size -1."""
    states = []
    for frame in frames:
        name = Path(os.path.relpath(frame, root)).as_posix()
        try:
            found = os.stat(frame)
            states.append((name, found.st_size, found.st_mtime_ns))
        except (OSError, ValueError):  # a name may hold what no file's can
            states.append((name, -1, 0))
    return tuple(states)


def content_key(frames: Sequence[Path], states: FrameStates) -> str:
    """SHA-256 of the names and contents of frames.

    Raises:
        InputError: A frame cannot be read, or is no plain file.
    """
    total = hashlib.sha256()
    for frame, (name, *_) in zip(frames, states, strict=True):
        with open_plain(frame) as file:
            total.update(os.fsencode(name) + f"\x00{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


def settings_key(settings: dict[str, Any], version: str) -> str:
    """SHA-256 of plain settings and the version."""
    return hashlib.sha256(json.dumps([version, settings], sort_keys=True).encode()).hexdigest()


def still_valid(
    record: StackRecord | None, frames: Sequence[Path], states: FrameStates, key: str
) -> StackRecord | None:
    """The record, brought up to date, when its stack need not be fused again; None when it must be.

    Args:
        record: Of an earlier run, if any.
        frames: The frames as they are now.
        states: Their states.
        key: Of the settings and version that are asked for now.
    """
    if record is None or record.status != FUSED or record.settings_key != key:
        return None
    if record.inputs == states:
        return record
    same_names_and_sizes = [state[:2] for state in record.inputs] == [state[:2] for state in states]
    with contextlib.suppress(OSError, InputError):
        if same_names_and_sizes and content_key(frames, states) == record.input_key:
            return dataclasses.replace(record, inputs=states)
    return None
