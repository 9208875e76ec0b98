"""The ways in which multi-focus sets lie on people's disks, recognised by names alone.

* lettered: ``lytro-01-A.jpg`` and ``lytro-01-B.jpg`` side by side or each pair in its own folder; letters or digits.
* parallel folders: ``source_1/6.jpg``, ``source_2/6.jpg``, ``full_clear/6.jpg``.
* numbered: ``1.jpg`` and ``2.jpg`` are the first pair, ``3.jpg`` and ``4.jpg`` the second.
* stacks: one folder a scene, all pictures in it are its frames.

Each function returns what it recognises and an empty list otherwise; whether that is complete is checked elsewhere.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from allfocus.datasets.samples import Sample
from allfocus.errors import InputError
from allfocus.images.listing import PLAIN_SUFFIXES, natural_order

_SOURCE_FOLDERS = (
    ("source_1", "source_2", "source_3"),
    ("source1", "source2", "source3"),
    ("sourcea", "sourceb", "sourcec"),
    ("source_a", "source_b", "source_c"),
    ("imagea", "imageb", "imagec"),
    ("image_a", "image_b", "image_c"),
    ("image1", "image2", "image3"),
    ("image_1", "image_2", "image_3"),
    ("near", "far"),
    ("a", "b", "c"),
)
"""Names of folders that hold the first, second, third picture of every scene; compared in lower case."""

_REFERENCE_NAMES = (
    "full_clear",
    "fusion",
    "gt",
    "groundtruth",
    "ground_truth",
    "ground-truth",
    "truth",
    "reference",
    "all_in_focus",
    "all-in-focus",
    "aif",
)
"""Names of the folder, or within a stack of the file, with the true picture; compared in lower case."""

_LETTERED = re.compile(r"^(?P<stem>.+?)[-_ ]?(?P<marker>(?<=[-_ ])[A-Za-z1-9]|(?<=\d)[A-Ca-c])$")
"""``lytro-01-A``, ``c_01_1``, ``mffw 01 b``, ``lytro-01A``."""


def pictures_in(folder: Path) -> list[Path]:
    """Return the picture files directly in a folder, in natural order; hidden and other files left out."""
    if not os.path.isdir(folder):
        return []
    found = [
        path
        for path in folder.iterdir()
        if path.suffix.lower() in PLAIN_SUFFIXES and path.is_file() and not path.name.startswith(".")
    ]
    return sorted(found, key=lambda path: natural_order(path.name))


def folders_below(root: Path, *, depth: int = 2) -> list[Path]:
    """Return the folder itself and those below it, down to ``depth`` levels, in natural order; hidden ones left out."""
    if not os.path.isdir(root):
        return []
    found = [root]
    if depth > 0:
        inner = [path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")]
        for folder in sorted(inner, key=lambda path: natural_order(path.name)):
            found += folders_below(folder, depth=depth - 1)
    return found


def find_lettered(folders: Iterable[Path], rename: Callable[[str], str | None]) -> list[Sample]:
    """Return the samples whose files share a name up to a last letter or digit.

    Args:
        folders: where to look, each on its own.
        rename: turns the common part of the names into the name of the sample, or None for files of another set.
    """
    samples = []
    for folder in folders:
        groups: dict[str, list[tuple[str, Path]]] = defaultdict(list)
        for path in pictures_in(folder):
            match = _LETTERED.match(path.stem)
            name = rename(match["stem"]) if match else None
            if match and name is not None:
                groups[name].append((match["marker"].upper(), path))
        for name, marked in groups.items():
            samples.append(Sample(name, tuple(path for _, path in sorted(marked))))
    return sorted(samples, key=lambda sample: natural_order(sample.name))


def find_parallel(root: Path) -> list[Sample]:
    """Return the samples of a set with one folder for each place in the pair, and maybe one for the true pictures.

    The folders may lie in ``root`` or one level below. Files belong together by their names without ending.

    Raises:
        InputError: A picture lacks its partner in one of the source folders.
    """
    for base in folders_below(root, depth=1):
        inner = {path.name.lower(): path for path in base.iterdir() if path.is_dir()}
        for names in _SOURCE_FOLDERS:
            present = [inner[name] for name in names if name in inner]
            if len(present) >= 2 and names[0] in inner and names[1] in inner:
                truth = next((inner[name] for name in _REFERENCE_NAMES if name in inner), None)
                return _join(present, truth)
    return []


def find_numbered(root: Path) -> list[Sample]:
    """Return the samples of a folder of files 1, 2, 3, 4 ... in which 1 and 2, 3 and 4 belong together."""
    for folder in folders_below(root, depth=1):
        numbered = {int(path.stem): path for path in pictures_in(folder) if path.stem.isdigit()}
        if numbered:
            samples = []
            for number in sorted({(index + 1) // 2 for index in numbered}):
                pair = [numbered[index] for index in (2 * number - 1, 2 * number) if index in numbered]
                samples.append(Sample(f"{number:02d}", tuple(pair)))
            return samples
    return []


def find_stack_folders(root: Path) -> list[Sample]:
    """Return one sample for each folder directly below ``root`` that holds pictures, or one for ``root`` itself.

    A file named like ``reference.png`` or ``ground_truth.png`` in a stack is the true picture, not a frame.
    """
    if not os.path.isdir(root):
        return []
    folders = [folder for folder in folders_below(root, depth=1) if folder != root and pictures_in(folder)]
    return [_stack(folder) for folder in folders or [root] if pictures_in(folder)]


def _stack(folder: Path) -> Sample:
    pictures = pictures_in(folder)
    truths = [path for path in pictures if path.stem.lower() in _REFERENCE_NAMES]
    frames = tuple(path for path in pictures if path not in truths)
    return Sample(folder.resolve().name, frames, truths[0] if truths else None)


def _join(folders: list[Path], truth: Path | None) -> list[Sample]:
    by_stem = [{path.stem: path for path in pictures_in(folder)} for folder in folders]
    if not set(by_stem[0]) & set(by_stem[1]):
        # 001_A.png in one folder, 001_B.png in the other.
        by_stem = [{_without_marker(stem): path for stem, path in files.items()} for files in by_stem]
    every = sorted(set().union(*by_stem), key=natural_order)
    for stem in every:
        missing = [folder for folder, files in zip(folders, by_stem, strict=True) if stem not in files]
        if missing:
            raise InputError(
                f"picture {stem} is missing in {missing[0]}; each picture needs its partner of the same name "
                f"in {' and '.join(folder.name for folder in folders)}"
            )
    truths = {_without_marker(path.stem): path for path in pictures_in(truth)} if truth else {}
    truths |= {path.stem: path for path in truths.values()}
    return [Sample(stem, tuple(files[stem] for files in by_stem), truths.get(stem)) for stem in every]


def _without_marker(stem: str) -> str:
    return re.sub(r"[-_ ](?:[A-Za-z1-3]|gt|GT)$", "", stem)
