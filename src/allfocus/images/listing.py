"""Which files are the frames of a stack, and in which order: files, folders and patterns -> files."""

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from allfocus.errors import InputError
from allfocus.files.names import named_path

Paths = Sequence[str | os.PathLike[str]] | str | os.PathLike[str]

RAW_SUFFIXES = frozenset(
    {".dng", ".cr2", ".cr3", ".nef", ".nrw", ".arw", ".srf", ".sr2", ".raf", ".rw2", ".orf", ".pef", ".srw", ".x3f"}
)
TIFF_SUFFIXES = (".tif", ".tiff")
PLAIN_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", *TIFF_SUFFIXES, ".bmp")
"""Endings of pictures that every installation reads."""
HEIF_SUFFIXES = (".heic", ".heif", ".hif")
RESULT_PREFIX = "allfocus_"
"""How the name of a result begins that lies beside its frames."""
CAMERA_SUFFIXES = frozenset({".jpg", ".jpeg", *HEIF_SUFFIXES})
"""Endings of what a camera writes beside a RAW file of the same shot."""
SUFFIXES = RAW_SUFFIXES | {*PLAIN_SUFFIXES, *HEIF_SUFFIXES}
"""Endings that make a file of a folder a frame. Files named one by one may have any ending."""


def list_files(paths: Paths) -> list[Path]:
    """The files that paths, folders and patterns stand for, in the order of the stack.

    Files named one by one keep their order; those of a folder or pattern come in natural order of their names.

    Raises:
        InputError: a folder holds no picture, or a pattern matches no file.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: list[Path] = []
    for path in map(named_path, given):
        if os.path.isdir(path):
            found.extend(_pictures_of_folder(path))
        elif glob.has_magic(str(path)) and not os.path.lexists(path):
            found.extend(_matches_of_pattern(path))
        else:
            found.append(path)
    return found


def split_pairs(files: Sequence[Path], pairs: str = "raw") -> tuple[list[int], list[int]]:
    """The files to take and those to pass over, as indices: of a RAW and a JPEG (or HEIF) file of one shot, one.

    Both lie in one folder and have the same name up to the ending.

    Args:
        files: In any order.
        pairs: Which to take: "raw" or "jpeg".

    Example:
        >>> split_pairs([Path("a/D1.NEF"), Path("a/D1.jpg"), Path("a/D2.jpg")])
        ([0, 2], [1])
    """
    shots: dict[tuple[Path, str], set[bool]] = {}
    for file in files:
        if (ending := file.suffix.lower()) in RAW_SUFFIXES | CAMERA_SUFFIXES:
            shots.setdefault((file.parent, file.stem.casefold()), set()).add(ending in RAW_SUFFIXES)
    unwanted = CAMERA_SUFFIXES if pairs == "raw" else RAW_SUFFIXES
    passed = [
        index
        for index, file in enumerate(files)
        if file.suffix.lower() in unwanted and len(shots[file.parent, file.stem.casefold()]) == 2
    ]
    left_out = set(passed)
    return [index for index in range(len(files)) if index not in left_out], passed


def natural_order(name: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """A key that sorts names as people count: numbers by value, the rest by letter without regard to case.

    Example:
        >>> sorted(["a10", "a9", "B1", "a9b"], key=natural_order)
        ['a9', 'a9b', 'a10', 'B1']
    """
    parts = re.split(r"([0-9]+)", name.casefold())
    # Numbers by their length and then by their digits: Python makes no numbers of thousands of digits.
    numbers = ((part.isdecimal(), part.lstrip("0") if part.isdecimal() else part) for part in parts if part)
    key = tuple((0, len(part), part) if is_number else (1, 0, part) for is_number, part in numbers)
    return key, name  # the name itself decides between "a1" and "a01"


def _pictures_of_folder(folder: Path) -> list[Path]:
    try:
        # Everything that is no folder: a broken link or a pipe is an error when it is read, and not left out unsaid.
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not _is_folder(entry) and not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed ({error.strerror}); check its permissions") from error
    pictures = [folder / name for name in names if Path(name).suffix.lower() in SUFFIXES]
    if not pictures:
        raise InputError(
            f"no pictures in this folder ({', '.join(sorted(SUFFIXES - RAW_SUFFIXES))}, RAW)",
            where=folder,
            hint=_hint_of_folder(folder),
        )
    return sorted(pictures, key=lambda path: natural_order(path.name))


MOST_LOOKED_INTO, DEEPEST_LOOK = 100, 3
"""Folders inside one that holds no pictures, and how deep, for a hint; on cards pictures lie in DCIM/100NAME."""


def _hint_of_folder(folder: Path) -> list[str]:
    """What to do with a folder that holds only folders with pictures in them."""
    shown: list[str] = []
    waiting = [(folder, 0)]
    for looked, (place, depth) in enumerate(waiting):  # which grows meanwhile
        if looked > MOST_LOOKED_INTO:
            break
        inner, pictures = _look_into(place)
        if pictures and depth:
            shown.append(str(place.relative_to(folder)))
        if depth < DEEPEST_LOOK:
            waiting += [(place / name, depth + 1) for name in inner]
    if not shown:
        return []
    listed = f"{', '.join(shown[:3])}{' ...' if len(shown) > 3 else ''}"
    return [f"there are in folders inside it ({listed}): name one of them", "fuse them all as a batch"]


def _look_into(folder: Path) -> tuple[list[str], bool]:
    """The folders in a folder, in order, and whether there are pictures; nothing where it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, _is_folder(entry)) for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return [], False
    inner = sorted((name for name, is_folder in found if is_folder), key=natural_order)
    return inner, any(Path(name).suffix.lower() in SUFFIXES for name, is_folder in found if not is_folder)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _matches_of_pattern(pattern: Path) -> list[Path]:
    found = [path for path in map(Path, glob.glob(str(pattern))) if not os.path.isdir(path)]
    if not found:
        raise InputError(f"{pattern}: no file matches this pattern; check the name")
    return sorted(found, key=lambda path: (natural_order(str(path.parent)), natural_order(path.name)))
