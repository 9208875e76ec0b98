"""The hidden folder in which planes are worked on, and the one step in which the result takes its place.

The folder carries our marker: one without it is never touched, and of one with it only what we know is deleted.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from allfocus.batch.manifest import take_lock
from allfocus.errors import InputError, OutputError

MARKER = "allfocus-work.json"
REPLACED, PLACING, KEY, LOCK = "replaced", "placing", "key.txt", "lock"
STEPS = ("survey", "done")
MAPS = ("depth", "confidence", "decision")
"""What may lie beside the picture while it is worked on."""


def refuse_inputs(target: Path, files: Iterable[Path], folder: Path | None) -> None:
    """Raise InputError when a result would replace what it is made from, whatever it is called.

    Args:
        target: The result.
        files: Files that are read.
        folder: A folder all of which is read, such as a Zarr; None when there is none.
    """
    from allfocus.files.protection import InputFiles

    InputFiles(files).refuse([target])
    own = os.path.realpath(target)
    within = [] if folder is None else [os.path.realpath(folder)]
    for place in (*map(os.path.realpath, files), *within):
        inside = place in within and (own + os.sep).startswith(place + os.sep)
        if inside or (place + os.sep).startswith(own + os.sep):
            raise InputError(f"{target}: holds, or is part of, what is to be fused, and will not be replaced")


@contextlib.contextmanager
def work_folder(target: Path) -> Iterator[Path]:
    """The folder beside the target in which a run works, put in order after a run that was killed.

    Only one run at a time may have it, because another one would clear it away or write the same blocks.

    Raises:
        OutputError: It cannot be made, is somebody else's, or another run has it.
    """
    folder = target.with_name(f".{target.name}.partial")
    with contextlib.ExitStack() as held:
        try:
            _take(folder)
            take_lock(held.enter_context((folder / LOCK).open("ab")), target)
            if not folder.is_dir():
                raise OutputError(f"{target}: another batch has just ended there; run it again")
            (folder / MARKER).write_text(json.dumps({"made by": "allfocus batch", "for": os.fsdecode(target.name)}))
            _recover(folder, target)
        except OSError as error:
            raise OutputError(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error
        yield folder


def _take(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        return
    foreign = OutputError(f"{folder}: is in the way and was not made by allfocus; move it, or choose another name")
    if folder.is_symlink() or not folder.is_dir():
        raise foreign
    if hasattr(os, "geteuid") and folder.stat().st_uid != os.geteuid():
        raise foreign
    names = set(os.listdir(folder))
    # Version 0.1 left a key and a lock, and no marker.
    if names and MARKER not in names and not {KEY, LOCK} <= names and names != {LOCK}:
        raise foreign


def _recover(folder: Path, target: Path) -> None:
    """Finish, or undo, what a run did that was killed while its result took its place."""
    whole, replaced = whole_path(folder, target), folder / REPLACED
    named = not os.path.lexists(whole) or (target.exists() and whole.samefile(target))
    placed = (folder / PLACING).exists() and os.path.lexists(target) and named
    if os.path.lexists(replaced) and not os.path.lexists(target):
        replaced.rename(target)
    elif placed:
        _remove(folder, [path for path in _known(folder, target) if path.name not in (LOCK, MARKER)])
    with contextlib.suppress(FileNotFoundError):
        (folder / PLACING).unlink()


def whole_path(folder: Path, target: Path) -> Path:
    """Where the result lies before it takes its place."""
    return folder / ("image.zarr" if target.suffix == ".zarr" else target.name)


def clear_unless_same(folder: Path, target: Path, content: Sequence[object]) -> None:
    """Makes a work folder empty, unless it is that of the same run."""
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    known = folder / KEY
    try:
        if not (known.is_file() and known.read_text(encoding="utf-8") == key):
            _remove(folder, [path for path in _known(folder, target) if path.name not in (LOCK, MARKER)])
        for name in STEPS:
            (folder / name).mkdir(exist_ok=True)
        known.write_text(key, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error


def discard(folder: Path, target: Path) -> None:
    """Takes the work folder away, if nothing of somebody else's lies in it."""
    with contextlib.suppress(OSError):
        _remove(folder, _known(folder, target))
        folder.rmdir()


def put_in_place(folder: Path, target: Path, *, overwrite: bool) -> None:
    """Gives the result its name in one step, and takes the work folder away.

    Raises:
        OutputError: Something appeared there meanwhile, or the system refused.
    """
    whole = whole_path(folder, target)
    try:
        (folder / PLACING).touch()
        if os.path.lexists(target) and not overwrite:
            raise OutputError(f"{target}: appeared in the meantime; move it away and run the same command again")
        if target.is_dir() and not target.is_symlink():
            target.rename(folder / REPLACED)
        if whole.is_dir() or overwrite:
            whole.replace(target)
        else:
            _link_or_move(whole, target)
    except OSError as error:
        raise OutputError(f"{target}: could not be written ({error.strerror}); run the same command again") from error
    discard(folder, target)


def put_beside(folder: Path, name: str, path: Path, *, overwrite: bool) -> None:
    """Gives something else that lies whole in the work folder its name; nothing where an earlier run has done it.

    Args:
        folder: The work folder.
        name: What it is called there.
        path: The name it gets.
        overwrite: Replace what is there.

    Raises:
        OutputError: Something appeared there meanwhile, or the system refused.
    """
    whole = folder / name
    try:
        if not os.path.lexists(whole) and os.path.lexists(path):
            return
        if os.path.lexists(path) and not overwrite:
            raise OutputError(f"{path}: appeared in the meantime; move it away and run the same command again")
        if path.is_dir() and not path.is_symlink():
            old = folder / f"{REPLACED} {name}"
            path.rename(old)
        whole.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: could not be written ({error.strerror}); run the same command again") from error


def _link_or_move(whole: Path, target: Path) -> None:
    """A link, unlike a rename, fails when the name has been taken since we looked."""
    try:
        os.link(whole, target)
    except FileExistsError:
        raise
    except OSError:  # FAT, some network drives: no links there
        whole.replace(target)
    else:
        whole.unlink()


def _known(folder: Path, target: Path) -> list[Path]:
    """What we may have put into a work folder; the marker last, because what is left without it is not ours."""
    endings = "".join(target.suffixes[-2:]) if ".ome" in target.suffixes[-2:] else target.suffix
    stem = target.name.removesuffix(endings)
    beside = [name for kind in MAPS for name in (f"{kind}.zarr", f"{REPLACED} {kind}.zarr", f"{stem}_{kind}{endings}")]
    names = [
        *STEPS,
        *beside,
        "image.zarr",
        "decided.zarr",
        "plan.npz",
        "plan.pickle",
        KEY,
        REPLACED,
        PLACING,
        target.name,
        LOCK,
        MARKER,
    ]
    hidden = [path for path in folder.glob(".*.part")] if folder.is_dir() else []
    return [*hidden, *(folder / name for name in names)]


def _remove(folder: Path, paths: Iterable[Path]) -> None:
    for path in paths:
        if path.parent != folder:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
