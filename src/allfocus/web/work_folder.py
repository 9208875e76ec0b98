"""The studio's work folder: taken only if it is new, empty or our own, and cleaned only of what we know."""

import contextlib
import json
import os
import re
from pathlib import Path
from typing import IO

from allfocus.errors import InputError, OutputError
from allfocus.files.locking import lock
from allfocus.files.opening import open_to_append
from allfocus.files.placing import recover_folder
from allfocus.images.writing import replace_file

MARKER = "allfocus-studio.json"
LOCK = "server.lock"
JOB_ID = re.compile(r"[0-9a-f]{24}")
FRAME_ID = re.compile(r"[0-9a-f]{12}")
RUN_NAME = re.compile(r"run-[0-9a-f]{8}")

_ON_ITS_WAY = r"(.*/)?\.[^/]+\.[0-9a-f]{8}\.(part|old)|(.*/)?\.allfocus-[0-9a-f]{12}\.journal"
IN_A_JOB = re.compile(
    r"job\.json|frames/[0-9a-f]{12}|thumbnails/[0-9a-f]{12}\.jpg"
    r"|run-[0-9a-f]{8}/(result\.tif|alignment\.json|faults\.json|report\.html|relief\.npy)"
    r"|run-[0-9a-f]{8}/(depth|depth-colour|depth_preview|decision|confidence)\.png"
    r"|run-[0-9a-f]{8}/alternatives/[^/]+/level[0-9]+\.npy"
    r"|layers/run-[0-9a-f]{8}/[^/]+/(level[0-9]+\.npy|strokes\.json)|" + _ON_ITS_WAY
)
"""What the folder of a job may hold, below it."""
IN_A_LAYER = re.compile(r"level[0-9]+\.npy|strokes\.json|" + _ON_ITS_WAY)
"""What the folder of a layer may hold."""
IN_TEMPORARY = re.compile(
    r"([0-9a-f]{16}/)?[0-9a-f]{16}(\.part|\.tif)|[0-9a-f]{12}\.(tif|png|jpg|allfocus|ome\.tif|ome\.zarr\.zip)|[0-9a-f]{16}\.part/.+"
    r"|[0-9a-f]{16}/project/(frames/[0-9a-f]{12}|run-[0-9a-f]{8}/.+)|([0-9a-f]{16}/)?" + _ON_ITS_WAY
)
"""What the folder for files on their way may hold."""


def take_folder(work: Path) -> IO[bytes]:
    """The open lock of a work folder, which is made if need be; the system lets go of it when this process ends.

    Raises:
        InputError: Another server uses the folder.
        OutputError: It holds things that are not ours, or cannot be written.
    """
    try:
        work.mkdir(parents=True, exist_ok=True, mode=0o700)
        recover_folder(work)  # a first start may have been killed while it wrote the marker
        _require_own(work)
        guard = _lock(work)
        try:
            if not (work / MARKER).exists():
                replace_file(work / MARKER, json.dumps({"made by": "allfocus serve"}).encode() + b"\n")
            (work / "jobs").mkdir(exist_ok=True, mode=0o700)
            (work / "temporary").mkdir(exist_ok=True)
        except BaseException:
            guard.close()
            raise
    except OSError as error:
        raise OutputError(f"cannot be used ({error.strerror})", where=work, hint="{work} to another folder") from error
    return guard


def _require_own(work: Path) -> None:
    names = set(os.listdir(work))
    if not names or MARKER in names:
        return
    # Version 0.1 made these and no marker; a folder of pictures does not look like that.
    old = LOCK in names and names <= {LOCK, "jobs", "temporary"}
    # A first start that was killed has left a part of them.
    jobs = os.listdir(work / "jobs") if (work / "jobs").is_dir() else []
    if old and all(JOB_ID.fullmatch(name) for name in jobs):
        return
    raise OutputError(
        "holds things that the studio did not make",
        where=work,
        hint="{work} to an empty or a new folder for its jobs",
    )


def _lock(work: Path) -> IO[bytes]:
    file = open_to_append(work / LOCK)
    if lock(file) is False:
        file.close()
        raise InputError(
            "another server uses this folder", where=work, hint=["stop it", "{work} to another folder"], code="in-use"
        )
    return file


def remove_known(root: Path, known: re.Pattern[str], below: str = "") -> None:
    """Delete what we know in a folder, and the folders that are then empty; links and all else stay.

    Args:
        root: The folder that the names are relative to.
        known: Names of files below it, with ``/`` between folders, that we made.
        below: Only this part of it; empty takes all.
    """
    start = root / below
    if start.is_symlink():
        return
    if start.is_file():
        _remove_file(start, root, known)
        return
    for place, folders, files in os.walk(start, topdown=False):
        for name in files:
            _remove_file(Path(place, name), root, known)
        del folders
        if place != str(root):
            with contextlib.suppress(OSError):  # not empty
                os.rmdir(place)


def _remove_file(path: Path, root: Path, known: re.Pattern[str]) -> None:
    if known.fullmatch(path.relative_to(root).as_posix()) and not path.is_symlink():
        with contextlib.suppress(OSError):
            path.unlink()
