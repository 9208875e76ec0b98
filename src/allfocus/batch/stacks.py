"""Finding the stacks in a tree of pictures: by folder, file, time or number, by what they show, or by a list in CSV."""

import csv
import datetime
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from allfocus.errors import InputError
from allfocus.files.opening import open_plain
from allfocus.files.protection import name_key
from allfocus.images.listing import RESULT_PREFIX, SUFFIXES, natural_order, split_pairs
from allfocus.images.photo_facts import read_photo_facts
from allfocus.progress import Notice

Answer = TypeVar("Answer")

DEFAULT_GAP = 10.0
"""Seconds between two shots that begin a new stack: slower than any focus rail, faster than changing the subject."""

LONGEST_GAP = 366 * 86400.0


@dataclass(frozen=True)
class Stack:
    """The frames that belong together, and the name their result will have."""

    name: str
    """Where the result goes below the output folder, without its ending; ``/`` between folders."""
    frames: tuple[Path, ...]
    """The files, in the order of the stack."""
    problem: str = ""
    """Why it cannot be fused, where that is known before its pixels are read; empty otherwise. Files are called as they
    are below the folder of the stacks."""
    left_out: bool = False
    """Whether it is no stack at all, but a picture that belongs to none; ``problem`` says why."""


def require_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder of the stacks, from the root on; raises InputError when it is none."""
    root = Path(folder).absolute()
    if not os.path.isdir(root):
        raise InputError(f"{folder}: is not a folder; name the one that holds the stacks")
    return root


def find_stacks(
    folder: str | os.PathLike[str],
    *,
    by: str = "folder",
    gap: float = DEFAULT_GAP,
    size: int | None = None,
    manifest: str | os.PathLike[str] | None = None,
    skip: str | os.PathLike[str] | None = None,
    pairs: str = "raw",
    on_left_out: Callable[[Path, str], None] | None = None,
) -> list[Stack]:
    """The stacks below a folder, in natural order of their names; empty where there are none.

    Hidden files and folders, and OME-Zarr folders, are passed over.

    Args:
        folder: The top of the tree.
        by: What makes a stack: "folder" (each folder that holds pictures), "file" (each multi-page file), "time" (EXIF
            times without a gap), "number" (numbers in the names without a gap), "auto" (what the camera noted and what
            the pictures show; pictures that belong to no stack are left out: :mod:`allfocus.batch.shoot`).
        gap: Seconds between two shots from which on a new stack begins; for "time" and "auto".
        size: Frames in each stack, for "number": then they are counted off, and gaps do not matter.
        manifest: A CSV file with the columns ``stack`` and ``frame``, one row for each frame, in place of ``by``.
            Relative paths start at the folder.
        skip: A folder to pass over, such as that of the results.
        pairs: Which of a RAW and a JPEG file of the same shot is taken, "raw" or "jpeg"; for all but "file".
        on_left_out: Called with each picture that belongs to no stack, and the reason: what "auto" leaves out, and
            results that `fuse` put beside their frames.

    Raises:
        InputError: The folder cannot be listed, or names clash. (A picture that does not tell what ``by`` needs becomes
            a stack with a problem.)

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     for name in ("DSC_0008.png", "DSC_0009.png", "DSC_0012.png", "DSC_0013.png"):
        ...         _ = Path(place, name).write_bytes(b"")
        ...     [(stack.name, len(stack.frames)) for stack in find_stacks(place, by="number")]
        [('DSC_0008', 2), ('DSC_0012', 2)]
    """
    root = require_folder(folder)
    if not 0 < gap <= LONGEST_GAP:
        raise InputError(f"gap is a number of seconds above 0, and no longer than a year; found {gap:g}")
    if size is not None and (size < 2 or by != "number"):
        raise InputError(f"size = {size}: a stack has 2 frames or more, and only grouping by number counts them off")
    if manifest is not None:
        return _check_names(_read_manifest(Path(manifest), root), root)
    if by not in GROUPINGS:
        raise InputError(f"stacks cannot be found by {by!r}; valid are {', '.join(GROUPINGS)}")
    stacks: list[Stack] = []

    def note(error: OSError) -> None:
        """A folder that cannot be listed is a stack that says so: one of them must not end a batch."""
        place = Path(os.fsdecode(error.filename or root))
        problem = f"cannot be listed ({error.strerror}); check its permissions"
        if place == root:
            raise InputError(problem, where=root) from error
        name = place.relative_to(root).as_posix()
        stacks.append(Stack(name, (place,), f"{name}: {problem}"))

    for place, pictures in _walk(root, None if skip is None else Path(skip).absolute(), note):
        if by != "file":
            pictures = [pictures[index] for index in split_pairs(pictures, pairs)[0]]
        results = _results_among(pictures)
        pictures = [picture for picture in pictures if picture not in results]
        if on_left_out is not None:
            for picture, name in results.items():
                on_left_out(picture, Notice(f"is the fused picture of {name}"))
        if not pictures:
            continue
        for alike in _by_ending(pictures) if by in ("time", "number", "auto") else [pictures]:
            for stack in GROUPINGS[by](alike, place, gap, size):
                if not stack.left_out:
                    stacks.append(stack)
                elif on_left_out is not None:
                    on_left_out(stack.frames[0], stack.problem)
    return _check_names(stacks, root)


def _walk(root: Path, skip: Path | None, note: Callable[[OSError], None]) -> Iterator[tuple[str, list[Path]]]:
    """Each folder that holds pictures, as the name below the root ("" for the root itself), with its pictures."""
    # Unlike Path.resolve, no error for a link that leads to itself.
    hidden = None if skip is None else Path(os.path.realpath(skip))
    real = Path(os.path.realpath(root))

    for place, folders, files in os.walk(root, onerror=note):
        here = Path(place)
        # In place, because that is how os.walk is told where not to go.
        folders[:] = sorted(
            (
                name
                for name in folders
                if not name.startswith(".")
                and not name.endswith(".zarr")
                # Links are not followed, so only the way to the root may be written in two ways.
                and real / here.relative_to(root) / name != hidden
            ),
            key=natural_order,
        )
        names = sorted((name for name in files if _is_picture(name)), key=natural_order)
        if names:
            relative = here.relative_to(root).as_posix()
            yield ("" if relative == "." else relative), [here / name for name in names]


def _results_among(pictures: Sequence[Path]) -> dict[Path, str]:
    """Those pictures that `fuse` named after one of the others, or after a folder beside them, and after which."""
    named = [picture for picture in pictures if picture.name.startswith(RESULT_PREFIX)]
    stems = {picture.stem for picture in pictures}
    own = {picture: picture.stem.removeprefix(RESULT_PREFIX) for picture in named}
    return {picture: name for picture, name in own.items() if name in stems or (picture.parent / name).is_dir()}


def _by_ending(pictures: Sequence[Path]) -> list[list[Path]]:
    """Pictures of one ending each: what two programs made of one shot has its number and time twice."""
    groups: dict[str, list[Path]] = {}
    for picture in pictures:
        groups.setdefault(picture.suffix.lower(), []).append(picture)
    return list(groups.values())


def _is_picture(name: str) -> bool:
    return not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES


def _one_for_the_folder(pictures: list[Path], place: str, gap: float, size: int | None) -> list[Stack]:
    return [Stack(place or pictures[0].parent.name, tuple(pictures))]


def _one_for_each_file(pictures: list[Path], place: str, gap: float, size: int | None) -> list[Stack]:
    return [_named_after_first([picture], place) for picture in pictures]


def _split_by_time(pictures: list[Path], place: str, gap: float, size: int | None) -> list[Stack]:
    times, stray = _ask_each(pictures, place, _capture_time)
    timed = sorted(
        ((time, number, picture) for number, (picture, time) in enumerate(times.items())), key=lambda found: found[:2]
    )
    limit = datetime.timedelta(seconds=gap)
    breaks = [place for place, (one, two) in enumerate(pairwise(timed), start=1) if two[0] - one[0] > limit]
    return stray + [_named_after_first(group, place) for group in _cut([picture for *_, picture in timed], breaks)]


def _capture_time(picture: Path) -> datetime.datetime:
    time = read_photo_facts(picture).time
    if time is None:
        raise InputError("says no time at which it was taken; find stacks by folder, by number, or with a CSV list")
    return time


def _find_in_shoot(pictures: list[Path], place: str, gap: float, size: int | None) -> list[Stack]:
    # Imported here because it brings in the numerical libraries, which the other ways do not need.
    from allfocus.batch.shoot import group_shots, look_at

    shots, stray = _ask_each(pictures, place, look_at)
    grouping = group_shots(list(shots.values()), gap)
    alone = [
        replace(_named_after_first([picture], place), problem=reason, left_out=True)
        for picture, reason in grouping.left_out.items()
    ]
    return [*stray, *alone, *(_named_after_first(group, place) for group in grouping.stacks)]


def _ask_each(
    pictures: list[Path], place: str, ask: Callable[[Path], Answer]
) -> tuple[dict[Path, Answer], list[Stack]]:
    """What each picture answers, and those that cannot as stacks that say why: one of them must not end a batch."""
    answers, stray = {}, []
    for picture in pictures:
        try:
            answers[picture] = ask(picture)
        except InputError as error:
            error.where = f"{place}/{picture.name}".lstrip("/")
            stray.append(replace(_named_after_first([picture], place), problem=str(error)))
    return answers, stray


def _split_by_number(pictures: list[Path], place: str, gap: float, size: int | None) -> list[Stack]:
    if size is not None:
        stacks = [_named_after_first(group, place) for group in _cut(pictures, list(range(size, len(pictures), size)))]
        short = f"has {len(stacks[-1].frames)} frames, not {size}; frames are missing, or the size of stacks is another"
        return [*stacks[:-1], stacks[-1] if len(stacks[-1].frames) == size else replace(stacks[-1], problem=short)]
    numbers, stray = _ask_each(pictures, place, _number_of)
    breaks = [
        number
        for number, (one, two) in enumerate(pairwise(numbers.values()), start=1)
        if two[0] != one[0] or two[1] != one[1] + 1
    ]
    return stray + [_named_after_first(group, place) for group in _cut(list(numbers), breaks)]


def _number_of(picture: Path) -> tuple[str, int]:
    """What stands before the last number of a name, and that number."""
    found = re.fullmatch(r"(.*?)([0-9]+)([^0-9]*)", picture.stem)
    if found is None:
        raise InputError("has no number in its name; find stacks by folder, by time, or with a CSV list")
    return f"{found[1]}*{found[3]}", int(found[2])


def _cut(pictures: Sequence[Path], breaks: Sequence[int]) -> list[list[Path]]:
    groups = [list(pictures[first:last]) for first, last in pairwise([0, *breaks, len(pictures)])]
    return [group for group in groups if group]


def _named_after_first(group: Sequence[Path], place: str) -> Stack:
    """Named after the first frame, so that the name stays while frames still arrive."""
    return Stack(f"{place}/{group[0].stem}".lstrip("/"), tuple(group))


GROUPINGS: dict[str, Callable[[list[Path], str, float, int | None], list[Stack]]] = {
    "folder": _one_for_the_folder,
    "file": _one_for_each_file,
    "time": _split_by_time,
    "number": _split_by_number,
    "auto": _find_in_shoot,
}
"""What makes a stack -> the function that cuts the pictures of one folder into stacks."""


def _read_manifest(manifest: Path, root: Path) -> list[Stack]:
    frames: dict[str, list[Path]] = {}
    problems: dict[str, str] = {}
    try:
        with io.TextIOWrapper(open_plain(manifest), newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = {"stack", "frame"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(
                    f"{manifest}: has no column {' and no column '.join(sorted(missing))}; its first line names the "
                    "columns stack and frame"
                )
            for row in reader:
                name, frame = (str(row[column] or "").strip() for column in ("stack", "frame"))
                if not name or not frame:
                    raise InputError(f"{manifest}: line {reader.line_num} lacks the stack or the frame; give both")
                if name.startswith(("/", ".")) or any(part in ("", ".", "..") for part in name.split("/")):
                    raise InputError(
                        f"{manifest}: line {reader.line_num}: the stack {name!r} cannot name a file below the output; "
                        "use plain words, with / between folders"
                    )
                if "\x00" in name + frame:
                    name, frame = (text.replace("\x00", "\\x00") for text in (name, frame))
                    problems[name] = (
                        f"line {reader.line_num} of {manifest.name} holds a zero byte, which no file name can"
                    )
                frames.setdefault(name, []).append(root / frame)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{manifest}: cannot be read as CSV ({error}); save it as UTF-8 text") from error
    return [Stack(name, tuple(paths), problems.get(name, "")) for name, paths in frames.items()]


def _check_names(stacks: Iterable[Stack], root: Path) -> list[Stack]:
    """Gives stacks whose names clash the ending of their first frame."""
    found = list(stacks)
    counts: dict[str, int] = {}
    for stack in found:
        counts[name_key(stack.name)] = counts.get(name_key(stack.name), 0) + 1
    named = [
        stack
        if counts[name_key(stack.name)] == 1
        else replace(stack, name=f"{stack.name}_{stack.frames[0].suffix.lstrip('.').lower()}")
        for stack in found
    ]
    seen: dict[str, Stack] = {}
    for stack in named:
        other = seen.setdefault(name_key(stack.name), stack)
        if other is not stack:
            first, second = (os.path.relpath(each.frames[0], root) for each in (stack, other))
            raise InputError(f"{first} and {second} begin stacks of one name ({stack.name}); rename one of them")
    return sorted(named, key=lambda stack: natural_order(stack.name))
