"""Project files (``.allfocus``): one stack with everything that was done to it, in a zip that anybody can look into.

``project.json`` says what there is: the job (options, frames, strokes, the run), and for every file its SHA-256, under
which it lies in the zip: ``results/SHA`` for what fusions made (the picture, its maps, the transforms of the frames as
``alignment.json``), ``frames/SHA`` for frames that are part of it. Frames that are not are known by name and SHA-256.

A project file may come from a stranger. Nothing is unpacked under a name that the zip gives, nothing is packed (so
nothing can swell), every size is known before the first byte is written, every hash is compared, and what would run in
a browser, such as a report, is no part of it. What it says about the job is checked as if a client had sent it.
"""

import hashlib
import json
import math
import os
import re
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from pydantic import ConfigDict, TypeAdapter

from allfocus.errors import InputError
from allfocus.files.opening import open_plain
from allfocus.version import __version__
from allfocus.web.work_folder import FRAME_ID, IN_A_JOB

SUFFIX = ".allfocus"
FORMAT, VERSION = "allfocus project", 1
MANIFEST = "project.json"
LONGEST_MANIFEST = 32 * 2**20
"""Bytes of it; 300,000 points of strokes take 12 million."""
LONGEST_DIRECTORY = 8 * 2**20
"""Bytes of the zip's list of its files, which is read at once."""
PIECE = 2**20

_DIGEST = re.compile(r"[0-9a-f]{64}")
_ENTRY = re.compile(r"(results|frames)/([0-9a-f]{64})")
_PLAIN_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_END, _LOCATOR, _END_64 = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"

Tell = Callable[[dict[str, Any]], None]
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class FileRecord:
    """A file of a project."""

    __pydantic_config__ = _STRICT
    sha256: str
    bytes: int


@dataclass(frozen=True)
class FrameRecord(FileRecord):
    """The file of a frame."""

    embedded: bool
    path: str | None = None
    """Where it lay when the project was saved, for a frame that is not part of it; never trusted without its hash."""


@dataclass(frozen=True)
class Manifest:
    """What ``project.json`` says."""

    __pydantic_config__ = _STRICT
    format: str
    version: int
    made_by: str
    job: dict[str, Any]
    """As ``job_to_json`` describes it, without what belongs to one machine."""
    files: dict[str, FileRecord]
    """By their names below the folder of the job."""
    frames: dict[str, FrameRecord]
    """By the ids of the frames."""


def bad_project(message: str) -> InputError:
    """The error of a file that is no project that can be opened."""
    return InputError(
        message, hint="open one that allfocus saved, and that nothing else has changed since", code="bad-project"
    )


def is_part(name: str) -> bool:
    """Whether a file of a job's folder belongs to its project: what fusions made, and nothing that would run anywhere.

    Example:
        >>> is_part("run-01234567/result.tif"), is_part("run-01234567/report.html"), is_part("job.json")
        (True, False, False)
        >>> is_part("run-01234567/alternatives/../level0.npy")
        False
    """
    return (
        name.startswith("run-")
        and name.endswith((".tif", ".png", ".npy", ".json"))
        and IN_A_JOB.fullmatch(name) is not None
        and all(_PLAIN_PART.fullmatch(part) for part in name.split("/"))
    )


# --- saving ---


def pack_project(
    target: str, job: dict[str, Any], folder: str, frames: dict[str, dict[str, Any]], *, tell: Tell
) -> dict[str, str]:
    """Write a project file; the SHA-256 of each frame comes back by its id.

    Args:
        target: The file to write, which does not exist.
        job: What the manifest says of it.
        folder: Of the job.
        frames: For each id the ``file`` that holds it, whether it is ``embedded``, and the ``path`` to tell.
        tell: Called with progress.
    """
    root = Path(folder)
    names = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
    parts = {name: root / name for name in names if is_part(name) and not (root / name).is_symlink()}
    files = {name: _record(path) for name, path in parts.items()}
    linked = {name: _record(Path(frame["file"])) for name, frame in frames.items()}
    entries = {f"results/{record.sha256}": parts[name] for name, record in files.items()}
    entries |= {
        f"frames/{linked[name].sha256}": Path(frame["file"]) for name, frame in frames.items() if frame["embedded"]
    }
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"allfocus {__version__}",
        "job": job,
        "files": {name: vars(record) for name, record in files.items()},
        "frames": {
            name: {**vars(linked[name]), "embedded": frame["embedded"], "path": frame["path"]}
            for name, frame in frames.items()
        },
    }
    with zipfile.ZipFile(target, "x", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(MANIFEST), json.dumps(manifest, indent=1, allow_nan=False))
        for number, (name, path) in enumerate(entries.items()):
            tell({"progress": {"step": "saving", "done": number, "count": len(entries)}})
            info = _entry(name)
            info.file_size = path.stat().st_size
            with open_plain(path) as source, archive.open(info, "w") as copy:
                digest = _copy(source, copy.write)
            if digest != name.rpartition("/")[2]:
                raise InputError("was changed while it was saved", where=path, code="changed-meanwhile")
    return {name: record.sha256 for name, record in linked.items()}


def _entry(name: str) -> zipfile.ZipInfo:
    """An entry without the time, so that the same project gives the same file."""
    return zipfile.ZipInfo(name)


def _record(path: Path) -> FileRecord:
    with open_plain(path) as file:
        return FileRecord(_copy(file, lambda piece: len(piece)), os.fstat(file.fileno()).st_size)


def _copy(source: IO[bytes], write: Callable[[bytes], object], most: float = math.inf) -> str:
    """The SHA-256 of what was copied."""
    digest = hashlib.sha256()
    size = 0
    while piece := source.read(PIECE):
        size += len(piece)
        if size > most:
            raise bad_project("holds more than it says")
        digest.update(piece)
        write(piece)
    return digest.hexdigest()


# --- opening ---


def unpack_project(path: str, target: str, *, max_bytes: int, tell: Tell) -> dict[str, Any]:
    """Unpack a project file that may come from a stranger into a new folder; what it says of the job comes back.

    Files of results lie in the folder under their names, embedded frames as ``frames/ID``.

    Args:
        path: The file.
        target: The folder, which is made; where the project is refused on the way, the caller deletes it.
        max_bytes: Refuse one that needs more.
        tell: Not used.

    Raises:
        InputError: it is no project, was changed, or holds what a project does not hold.
    """
    try:
        with open_plain(Path(path)) as file:
            _require_modest_directory(file)
            with zipfile.ZipFile(file) as archive:
                return _unpack(archive, os.fstat(file.fileno()).st_size, Path(target), max_bytes)
    except (zipfile.BadZipFile, NotImplementedError, struct.error, EOFError, UnicodeError, OverflowError) as error:
        raise bad_project(f"cannot be read as a zip ({error})") from error


def _unpack(archive: zipfile.ZipFile, whole: int, target: Path, max_bytes: int) -> dict[str, Any]:
    entries = _read_entries(archive)
    manifest = _read_manifest(archive, entries)
    named = {f"results/{record.sha256}": record.bytes for record in manifest.files.values()}
    named |= {f"frames/{frame.sha256}": frame.bytes for frame in manifest.frames.values() if frame.embedded}
    if set(entries) != {MANIFEST, *named}:
        odd = sorted(set(entries) ^ {MANIFEST, *named})[0]
        raise bad_project(f"its list of files does not fit what it holds ({odd!r})")
    if any(entries[name].file_size != size for name, size in named.items()):
        raise bad_project("a file of it has another size than its list says")
    # Files that share their bytes could promise more than the zip holds.
    if sum(entry.compress_size for entry in entries.values()) > whole:
        raise bad_project("it promises more than it holds")
    records = [*manifest.files.values(), *(frame for frame in manifest.frames.values() if frame.embedded)]
    needed = sum(record.bytes for record in records)
    if needed > max_bytes:
        raise InputError(
            f"unpacks to {needed} bytes, more than the limit of {max_bytes} that are free", code="too-many-bytes"
        )
    target.mkdir(parents=True)
    for name, file in manifest.files.items():
        _extract(archive, entries[f"results/{file.sha256}"], target / name)
    for name, frame in manifest.frames.items():
        if frame.embedded:
            _extract(archive, entries[f"frames/{frame.sha256}"], target / "frames" / name)
    return {"job": manifest.job, "frames": {name: vars(frame) for name, frame in manifest.frames.items()}}


def _require_modest_directory(file: BufferedReader) -> None:
    """Refuse a zip whose list of files would fill the memory, before anybody reads it."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 22))
    end = file.read(22)
    if len(end) < 22 or not end.startswith(_END) or end[20:] != b"\x00\x00":
        raise bad_project("is no zip that allfocus wrote")
    length = struct.unpack("<L", end[12:16])[0]
    file.seek(max(0, size - 22 - 20))
    locator = file.read(20)
    if locator.startswith(_LOCATOR):
        file.seek(min(struct.unpack("<Q", locator[8:16])[0], size))
        large = file.read(56)
        if len(large) < 56 or not large.startswith(_END_64):
            raise bad_project("is no zip that allfocus wrote")
        length = max(length if length != 0xFFFFFFFF else 0, struct.unpack("<Q", large[40:48])[0])
    if length > LONGEST_DIRECTORY:
        raise bad_project(f"its list of files takes {length} bytes, more than a project has")
    file.seek(0)


def _read_entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename
        if name != MANIFEST and not _ENTRY.fullmatch(name):
            raise bad_project(f"holds {name[:100]!r}, which is no part of a project")
        if name in entries:
            raise bad_project(f"holds {name} twice")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or entry.is_dir():
            raise bad_project(f"{name} is a link or no plain file")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size or entry.flag_bits & 1:
            raise bad_project(f"{name} is packed or encrypted, which files of a project never are")
        entries[name] = entry
    if MANIFEST not in entries:
        raise bad_project(f"has no {MANIFEST}")
    return entries


def _read_manifest(archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo]) -> Manifest:
    if entries[MANIFEST].file_size > LONGEST_MANIFEST:
        raise bad_project(f"{MANIFEST} is longer than {LONGEST_MANIFEST} bytes")
    try:
        content = parse_strictly(archive.read(MANIFEST))
        version = content.get("version") if isinstance(content, dict) else None
        if isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
            raise InputError(
                f"was saved by a newer allfocus (version {version} of the format, this one knows {VERSION})",
                hint="install a newer allfocus",
                code="bad-project",
            )
        manifest = TypeAdapter(Manifest).validate_python(content)
    except ValueError as error:
        reason = str(error).splitlines()[0][:200]
        raise bad_project(f"{MANIFEST} does not describe a project ({reason})") from error
    digests = [record.sha256 for record in (*manifest.files.values(), *manifest.frames.values())]
    sizes = [record.bytes for record in (*manifest.files.values(), *manifest.frames.values())]
    if (
        manifest.format != FORMAT
        or manifest.version != VERSION
        or not all(map(_DIGEST.fullmatch, digests))
        or any(size < 0 for size in sizes)
    ):
        raise bad_project(f"{MANIFEST} does not describe a project")
    if not all(map(is_part, manifest.files)) or not all(map(FRAME_ID.fullmatch, manifest.frames)):
        raise bad_project(f"{MANIFEST} names a file that no project has")
    return manifest


def parse_strictly(data: bytes) -> Any:
    """What JSON says; no key twice, no number that JSON does not have, no nesting beyond reason.

    Raises:
        ValueError: it says something else.

    Example:
        >>> parse_strictly(b'{"a": 1, "a": 2}')
        Traceback (most recent call last):
            ...
        ValueError: the key 'a' comes twice
    """

    def refuse(text: str) -> Any:
        raise ValueError(f"{text[:20]} is no number of JSON")

    def number(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else refuse(text)

    try:
        return json.loads(data, parse_constant=refuse, parse_float=number, object_pairs_hook=_without_doubles)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:40]!r} comes twice")
        found[key] = value
    return found


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(entry) as source, target.open("xb") as copy:
        digest = _copy(source, copy.write, entry.file_size)
    if digest != entry.filename.rpartition("/")[2]:
        raise bad_project(f"{entry.filename} is not what its hash says: the file was damaged or changed")


# --- frames that are not part of it ---


def find_frames(places: list[str], wanted: dict[str, dict[str, Any]], *, tell: Tell) -> dict[str, str]:
    """Files that are frames of a project, by their ids: those of the same size and SHA-256.

    Args:
        places: Files, and folders that are searched with all below them.
        wanted: For each id the ``sha256`` and the ``bytes`` of its file.
        tell: Called with progress.
    """
    by_size: dict[int, list[str]] = {}
    for name, frame in wanted.items():
        by_size.setdefault(frame["bytes"], []).append(name)
    found: dict[str, str] = {}
    for number, path in enumerate(_files_of(places)):
        try:
            candidates = by_size.get(path.stat().st_size, [])
            if not candidates:
                continue
            digest = _record(path).sha256
        except (OSError, ValueError, InputError):
            continue  # it cannot be read, so it is none of them
        for name in candidates:
            if wanted[name]["sha256"] == digest:
                found.setdefault(name, str(path.absolute()))
        tell({"progress": {"step": "searching", "done": number, "count": number + 1}})
        if len(found) == len(wanted):
            break
    return found


def _files_of(places: list[str]) -> Iterator[Path]:
    for place in places:
        if os.path.isdir(place):
            for folder, _, names in os.walk(place):
                yield from (Path(folder, name) for name in sorted(names))
        elif os.path.isfile(place):
            yield Path(place)
