"""Finding the picture that other software made of a sample, in a folder with names of its own."""

import os
import re
from pathlib import Path

from allfocus.errors import InputError
from allfocus.images.listing import SUFFIXES


def find_other_picture(sample: str, folder: Path, *, name: str, dataset: str) -> Path:
    """The file in the folder that was fused from a sample.

    A file belongs to the sample if its name contains the sample's, whatever the punctuation and leading zeros
    (``IFCNN-lytro-01.png`` and ``lytro_1.jpg`` for ``lytro-01``), or else if its last number is the sample's.
    Where several do, the ones that also contain the name of the software are meant.

    Args:
        sample: The sample's name.
        folder: Where the pictures are; a subfolder with the data set's name is preferred.
        name: What the software is called.
        dataset: The data set's name.

    Raises:
        InputError: No file, or more than one, belongs to the sample.
    """
    place = folder / dataset if os.path.isdir(folder / dataset) else folder
    if not os.path.isdir(place):
        raise InputError(f"{name}: there is no folder {place}; give the folder with its fused pictures")
    files = sorted(file for file in place.iterdir() if file.suffix.lower() in SUFFIXES)
    wanted, own = _words(sample), _words(name)
    # The software's own name may hold a number (U2Fusion), which is not that of a sample.
    words = {file: _without(_words(file.stem), own) for file in files}
    matches = [file for file in files if words[file] == wanted] or [
        file for file in files if _contains(words[file], wanted)
    ]
    if not matches and (number := _numbers(wanted)):
        matches = [
            file for file in files if _numbers(words[file])[-1:] == number[-1:] and _same_set(words[file], wanted)
        ]
    if len(matches) > 1:
        matches = [file for file in matches if _contains(_words(file.stem), own)] or matches
    if not matches:
        raise InputError(f"{name}: no picture of {sample} in {place}; name it like {sample}.png")
    if len(matches) > 1:
        found = ", ".join(file.name for file in matches[:4])
        raise InputError(f"{name}: several pictures of {sample} in {place} ({found}); leave one, named {sample}.png")
    return matches[0]


def _words(text: str) -> list[str]:
    """Letters and numbers of a name, in lower case and without leading zeros: ``Lytro_01b`` -> lytro, 1, b."""
    return [word.lstrip("0") or "0" if word.isdigit() else word for word in re.findall(r"[a-z]+|\d+", text.lower())]


def _numbers(words: list[str]) -> list[str]:
    return [word for word in words if word.isdigit()]


def _contains(words: list[str], part: list[str]) -> bool:
    return any(words[start : start + len(part)] == part for start in range(len(words) - len(part) + 1))


def _without(words: list[str], part: list[str]) -> list[str]:
    for start in range(len(words) - len(part) + 1):
        if words[start : start + len(part)] == part:
            return words[:start] + words[start + len(part) :]
    return words


def _same_set(words: list[str], wanted: list[str]) -> bool:
    """Whether a name does not say that it belongs to another set, as mffw-01 does for lytro-01."""
    sets = {"lytro", "mffw", "whu", "road"}
    return not sets & set(words) or bool(sets & set(words) & set(wanted))
