"""OME-TIFF whose planes lie in several files, given together: which file and page hold each plane.

Only files that the user gave are read, and the description beside them where they name one: the others of the set are
told, never looked for.
"""

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.decoders import TIFF, find_format
from allfocus.images.dimensions import Dimensions
from allfocus.images.ome_planes import (
    File,
    Place,
    Plane,
    incomplete,
    list_places,
    require_one_place_each,
    require_own_planes,
)
from allfocus.images.ome_xml import describe_images
from allfocus.images.reading import guarded, with_file
from allfocus.images.tiff_decoder import open_tiff
from allfocus.images.tiff_dimensions import describe_page
from allfocus.images.tiff_series import require_modest_ome
from allfocus.progress import Notice

MOST_BYTES = 2**26
"""Of a description in a file of its own."""
UUID_OF_FILE = re.compile(r"<(?:\w+:)?OME\b[^>]*?\bUUID\s*=\s*[\"']([^\"']*)[\"']")
DESCRIBED_ELSEWHERE = re.compile(r"<(?:\w+:)?BinaryOnly\b[^>]*?\bMetadataFile\s*=\s*[\"']([^\"']*)[\"']")


@dataclass(frozen=True, eq=False)
class OmeSet:
    """What files of an OME-TIFF hold together."""

    positions: tuple[Dimensions, ...]
    places: tuple[NDArray[np.int64], ...]
    """For each position (times, channels, planes, 2): the number of the file among those given, and its page."""
    notices: tuple[str, ...]


def open_ome_set(files: Sequence[Path], called: Sequence[str] = ()) -> OmeSet | None:
    """What the files of an OME-TIFF hold that is spread over several; None for files of any other kind.

    Args:
        files: All of the set, or some of them that hold whole stacks.
        called: Their names, where they are stored under others.

    Raises:
        InputError: a file belongs to another set, or planes of a stack lie in files that were not given.
    """
    text, pages = _description(files[0])
    if not text:
        return None
    require_modest_ome(text)
    if len(files) == 1:
        require_own_planes(text, pages=pages, name=called[0] if called else files[0].name)
    elsewhere = DESCRIBED_ELSEWHERE.search(text)
    if elsewhere is not None:
        if len(files) == 1:
            return None  # one page of it is a picture; several are refused by those who read them
        text = _read_beside(files[0], elsewhere[1])
    try:
        listed = list_places(text)
    except ElementTree.ParseError:
        return None  # told by those who read it
    known = {place[0] for image in listed for place in image.values()}
    named = {file for file in known if file is not None}
    if len(known) < 2:
        return None
    require_one_place_each(text)
    numbers = {None: 0, **_find_files(files, called, named)} if elsewhere is None else _find_files(files, called, named)
    missing = len(known - set(numbers))
    found = [_arrange(held, image, numbers) for held, image in zip(describe_images(text), listed, strict=True) if image]
    kept = [each for each in found if each is not None]
    if not kept:
        return None
    notices = (_tell_missing(len(known) - missing, len(known)),) if missing else ()
    positions = tuple(_as_stored(held, files, places) for held, places in kept)
    return OmeSet(positions, tuple(places for _, places in kept), notices)


def _as_stored(held: Dimensions, files: Sequence[Path], places: NDArray[np.int64]) -> Dimensions:
    """The same with size and type of the first plane, whatever the description says about them."""
    number, page = (int(value) for value in places[0, 0, 0])
    path = files[number]
    stored = with_file(path, lambda file: guarded(path, lambda: describe_page(file, page)))
    return replace(held, size=stored.size, dtype=stored.dtype, samples=stored.samples)


def _tell_missing(given: int, count: int) -> Notice:
    return Notice(
        f"{given} of the {count} files of this OME-TIFF are given; what lies in the others is not in the result"
    )


def _description(path: Path) -> tuple[str, int]:
    """The OME-XML of a file, empty for files that have none, and how many pages it has."""

    def read(file: BinaryIO) -> tuple[str, int]:
        if find_format(file) is not TIFF:
            return "", 1
        with open_tiff(file) as tiff:
            return str(tiff.ome_metadata) if tiff.is_ome else "", len(tiff.pages)

    return with_file(path, lambda file: guarded(path, lambda: read(file)))


def _read_beside(path: Path, name: str) -> str:
    """The description that a file names, which lies beside it."""
    place = path.with_name(Path(name.replace("\\", "/")).name or ".")
    if not os.path.isfile(place):
        raise incomplete(f"what its planes are is said in another file ({name}), which is not beside it")
    if os.path.getsize(place) > MOST_BYTES:
        raise InputError(f"has more than {MOST_BYTES} bytes; no description is that long", where=place)
    try:
        text = place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read as a description (OME-XML): {error}", where=place) from error
    require_modest_ome(text)
    return text


def _find_files(files: Sequence[Path], called: Sequence[str], known: set[File]) -> dict[File | None, int]:
    """Which of the files given is which of the set: by its UUID, or by its name where it has none."""
    by_uuid, by_name = {file[0]: file for file in known}, {file[1]: file for file in known}
    numbers: dict[File | None, int] = {}
    for number, path in enumerate(files):
        name = called[number] if called else path.name
        found = UUID_OF_FILE.search(_description(path)[0][:10_000])
        file = by_name.get(name) if found is None else by_uuid.get(found[1])
        if file is None and number > 0:
            first = called[0] if called else files[0].name
            raise InputError(
                f"is not one of the files of the OME-TIFF that {first} belongs to; give the files of one at a time",
                where=path if not called else name,
                code="several-stacks",
            )
        if file is not None:
            numbers[file] = number
    return numbers


def _arrange(
    held: Dimensions, image: Mapping[Plane, Place], numbers: Mapping[File | None, int]
) -> tuple[Dimensions, NDArray[np.int64]] | None:
    """What of a position lies in the files given, and where; None where nothing does."""
    own = {plane: (numbers[file], page) for plane, (file, page) in image.items() if file in numbers}
    if not own:
        return None
    planes, channels, times = (sorted({plane[axis] for plane in own}) for axis in range(3))
    wanted = [(z, c, t) for t in times for c in channels for z in planes]
    stacks = {plane[1:] for plane in own}
    of_many = len(own) > len({number for number, _ in own.values()})
    lost = next((plane for plane in wanted if plane not in own), None)
    if lost is None and of_many:  # whoever gives single pages may choose; a file with several was not cut by hand
        lost = next((plane for plane in image if plane not in own and plane[1:] in stacks), None)
    if lost is not None:
        file = image[lost][0] if lost in image else None
        where = f"lies in {file[1]}, which was not given" if file is not None and file[1] else "lies elsewhere"
        raise incomplete(f"plane {lost[0] + 1} of channel {lost[1] + 1} at time {lost[2] + 1} {where}")
    places = np.array([own[plane] for plane in wanted], np.int64)
    named = tuple(held.channels[number] for number in channels if number < len(held.channels))
    steps = {after - before for before, after in itertools.pairwise(planes)}
    kept = replace(
        held,
        channels=named or held.channels[:1],
        planes=len(planes),
        times=len(times),
        z_step=held.z_step * steps.pop() if held.z_step and len(steps) == 1 else None,
        z_range=held.z_range if len(planes) == held.planes else None,
    )
    return kept, places.reshape(len(times), len(channels), len(planes), 2)
