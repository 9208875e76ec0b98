"""Which files of an output folder a batch made itself, and as which it left them: only those may be replaced.

The manifest has the state of every file that was written for a stack. A worker writes a receipt, beside the thumbnail,
just before its files get their names; the run takes it over into the manifest. So a run that is killed in between knows
its own files all the same, and a file that was edited since is never taken for one of them.
"""

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from allfocus.batch.manifest import FUSED, FrameStates, StackRecord
from allfocus.errors import InputError, OutputError
from allfocus.files.opening import open_plain, parse_json
from allfocus.files.placing import recover_folder
from allfocus.files.protection import FileState, edited_file, file_state, foreign_file
from allfocus.images.writing import replace_file
from allfocus.stack.command_words import command_words

OwnFiles = dict[str, set[FileState]]
"""Names below the output folder, with the sizes and times of change that each had when we wrote it: one, or several
where it is not known which of two tries came last."""

HIDDEN_FOLDER = ".thumbnails"
LONGEST_STEM = 240
"""Bytes of the last part of a name, so that an ending fits behind it."""


def thumbnail_path(folder: Path, name: str) -> Path:
    """Where the small copy of a stack's result lies."""
    return _hidden_path(folder, name, ".webp")


def lost_thumbnail_path(folder: Path, name: str) -> Path:
    """Where the picture of the place lies in which most detail of a stack is lost."""
    return _hidden_path(folder, name, ".lost.webp")


def receipt_path(folder: Path, name: str) -> Path:
    """Where the receipt of a stack lies, between the writing of its files and the next line of the manifest."""
    return _hidden_path(folder, name, ".receipt.json")


def _hidden_path(folder: Path, name: str, ending: str) -> Path:
    place, _, last = name.rpartition("/")
    if len(os.fsencode(last)) > LONGEST_STEM:
        last = hashlib.sha256(os.fsencode(last)).hexdigest()
    return folder / HIDDEN_FOLDER / place / f"{last}{ending}"


def write_receipt(folder: Path, name: str, states: Mapping[Path, FileState]) -> None:
    """Write down what will lie where.

    Raises:
        OutputError: The system refused, or something else lies where the receipt goes.
    """
    path = receipt_path(folder, name)
    if os.path.lexists(path) and not _read_receipt(path):
        raise OutputError(f"{path}: was not made by a batch; move it away")
    # Those of an earlier try stay: it may have given its files their names, or another worker may be about to.
    files = _read_receipt(path)
    for place, state in states.items():
        files.setdefault(os.path.relpath(place, folder), set()).add(state)
    replace_file(path, json.dumps({"files": as_states(files)}).encode(), overwrite=True)


def remove_receipt(folder: Path, name: str) -> None:
    """Take the receipt away, because the manifest knows what it says."""
    path = receipt_path(folder, name)
    if _read_receipt(path):
        with contextlib.suppress(OSError):
            path.unlink()


def files_of_stack(folder: Path, name: str, record: StackRecord | None) -> OwnFiles:
    """The files of a stack that are known to be ours, each as we left it."""
    found = _recorded(folder, name, record)
    for file, states in _read_receipt(receipt_path(folder, name)).items():
        found.setdefault(file, set()).update(states)
    return found


def as_states(files: OwnFiles) -> FrameStates:
    """The same as a record keeps it."""
    return tuple((name, *state) for name, states in files.items() for state in sorted(states))


def from_states(states: Iterable[tuple[str, int, int]]) -> OwnFiles:
    """The files that a record names.

    Example:
        >>> from_states([("a.png", 10, 20)])
        {'a.png': {(10, 20)}}
    """
    files: OwnFiles = {}
    for name, size, changed in states:
        files.setdefault(str(name), set()).add((int(size), int(changed)))
    return files


def _recorded(folder: Path, name: str, record: StackRecord | None) -> OwnFiles:
    if record is None:
        return {}
    if record.files:
        return from_states(record.files)
    if record.status != FUSED or record.output_state is None:
        return {}
    # Of version 0.1, which noted the picture alone. Its maps were written just before; an edited one is younger.
    found = {record.output: {record.output_state}}
    for map_name in record.maps:
        written = file_state(folder / map_name)
        if written is not None and written[1] <= record.output_state[1]:
            found[map_name] = {written}
    thumbnail = thumbnail_path(folder, name)
    state = file_state(thumbnail)
    return found if state is None else {**found, os.path.relpath(thumbnail, folder): {state}}


def _read_receipt(path: Path) -> OwnFiles:
    try:
        with open_plain(path) as file:
            return from_states(parse_json(file.read())["files"])
    except (OSError, InputError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return {}


def refuse_foreign(folder: Path, names: tuple[str, ...], own: OwnFiles) -> str:
    """Why a file that is there may not be replaced; empty when all may, or are not there."""
    for name in names:
        path = folder / name
        recover_folder(path.parent)
        if not os.path.lexists(path):
            continue
        if name not in own:
            return foreign_file(path).told(command_words)
        if file_state(path) not in own[name]:
            return edited_file(path).told(command_words)
    return ""


def set_aside_edited(folder: Path, pages: Mapping[str, Collection[FileState]]) -> None:
    """Give summaries that somebody has edited since we wrote them another name, because ours is written anew.

    Args:
        folder: The output folder.
        pages: The names of what we wrote, with the states in which we left it.
    """
    for name, states in pages.items():
        path = folder / name
        state = file_state(path)
        if state is None or state in states:
            continue
        for number in itertools.count(1):
            other = path.with_name(f"{path.stem}.edited-{number}{path.suffix}")
            if os.path.lexists(other):
                continue
            with contextlib.suppress(OSError):
                path.rename(other)
            break
