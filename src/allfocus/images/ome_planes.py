"""Which planes of an OME-TIFF lie in the file itself: its description may spread a stack over several files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from allfocus.errors import InputError

Element = ElementTree.Element
Plane = tuple[int, int, int]
"""Numbers along z, c and t, from 0."""
File = tuple[str, str]
"""UUID and name."""
Place = tuple[File | None, int]
"""File and page, from 0; None is the file that has the description."""
MOST_PAGES = 2**31
"""Of one file."""


def list_places(description: str) -> list[dict[Plane, Place]]:
    """Where each plane of each image lies, as OME-XML says it; the last word counts.

    Raises:
        ElementTree.ParseError: it is no XML.
    """
    return [dict(found) for found in _entries(description)]


def require_one_place_each(description: str) -> None:
    """Raise InputError where the description names two places for a plane, one for two, or one that cannot be."""
    taken: set[Place] = set()
    for image in _entries(description, require=_require_numbers):
        known: set[Plane] = set()
        for plane, place in image:
            if plane in known:
                raise _contradictory(f"names two places for plane {plane[0] + 1} of channel {plane[1] + 1}")
            if place in taken:
                file, page = place
                raise _contradictory(f"has two planes on page {page + 1}{f' of {file[1]}' if file else ''}")
            known.add(plane)
            taken.add(place)


def _entries(
    description: str, require: Callable[[Element, dict[str, int]], None] = lambda part, sizes: None
) -> Iterator[Iterator[tuple[Plane, Place]]]:
    """Of each image the planes and their places, as they are listed."""

    def of_image(pixels: Element) -> Iterator[tuple[Plane, Place]]:
        sizes = _sizes_of(pixels)
        for part in _parts_of(pixels):
            require(part, sizes)
            file, first = _file_of(part), _number(part, "IFD", 0)
            for page, plane in enumerate(_listed(part, sizes)):
                yield plane, (file, first + page)

    root = ElementTree.fromstring(description.encode())
    return (of_image(pixels) for pixels in root.iter() if pixels.tag.endswith("Pixels"))


def _require_numbers(part: Element, sizes: dict[str, int]) -> None:
    """Raise InputError where an entry counts from a place that there is not."""
    limits = {"IFD": MOST_PAGES, **{f"First{axis}": size for axis, size in sizes.items()}}
    for name, limit in limits.items():
        text = part.get(name, "0").strip()
        if not (text.isascii() and text.isdigit() and int(text[:12]) < limit):
            raise _contradictory(f"counts from {name} {text[:20]!r}, which there is not")


def _contradictory(what: str) -> InputError:
    return InputError(
        f"its description (OME) {what}",
        hint="save the stack as one file (Bio-Formats: export as OME-TIFF)",
        code="incomplete-stack",
    )


def require_own_planes(description: str, *, pages: int, name: str) -> None:
    """Raise InputError for a file of several pages that is not whole: planes of its stacks lie in other files.

    Images, channels and times that lie in other files altogether are no fault.

    Args:
        description: OME-XML of modest size.
        pages: Of the file.
        name: Of the file, for descriptions that know their files by name alone.
    """
    if pages < 2:
        return
    try:
        root = ElementTree.fromstring(description.encode())
    except ElementTree.ParseError:
        return  # told by those who read it
    elsewhere = next((each for each in root.iter() if each.tag.endswith("BinaryOnly")), None)
    if elsewhere is not None:
        raise incomplete(f"what its planes are is said in another file ({elsewhere.get('MetadataFile', 'not named')})")
    pixels = [each for each in root.iter() if each.tag.endswith("Pixels")]
    if not pixels:
        raise InputError("its description (OME) says nothing about its planes; save it again", code="damaged-picture")
    files = [_file_of(part) for each in pixels for part in _parts_of(each)]
    itself = _itself({file for file in files if file is not None}, root.get("UUID"), Path(name).name)
    own = 0
    for each in pixels:
        here: set[Plane] = set()
        there: set[Plane] = set()
        sizes = _sizes_of(each)
        for part in _parts_of(each):
            (here if _file_of(part) in (None, itself) else there).update(_listed(part, sizes))
        own += len(here) or not there
        lost = {plane[1:] for plane in here} & {plane[1:] for plane in there}
        if lost:
            missing = sorted({plane[0] + 1 for plane in there if plane[1:] in lost})
            raise incomplete(f"of a stack with planes in it, {len(missing)} (the first is {missing[0]}) lie elsewhere")
    if not own:
        raise incomplete("all planes that it speaks of lie elsewhere")


def incomplete(why: str) -> InputError:
    """The error for files that are not the whole of a stack."""
    return InputError(
        f"is one of several files of an OME-TIFF: {why}",
        hint=["give all its files together", "save the stack as one file (Bio-Formats: export as OME-TIFF)"],
        code="incomplete-stack",
    )


def _parts_of(pixels: Element) -> list[Element]:
    return [each for each in pixels if each.tag.endswith("TiffData")]


def _file_of(part: Element) -> File | None:
    """UUID and name of the file that an entry of the list of planes is about; None where it names none."""
    file = next((each for each in part if each.tag.endswith("UUID")), None)
    return None if file is None else ((file.text or "").strip(), str(file.get("FileName", "")))


def _itself(files: set[File], uuid: str | None, name: str) -> File | None:
    """Which of these the file itself is: by its UUID; where it has none the only one, or the one of its name."""
    if uuid is not None:
        return next((file for file in files if file[0] == uuid), None)
    return next(iter(files)) if len(files) == 1 else next((file for file in files if file[1] == name), None)


def _sizes_of(pixels: Element) -> dict[str, int]:
    """How many planes, channels and times there are, in the order in which planes are counted."""
    sizes = {axis: max(1, _number(pixels, f"Size{axis}", 1)) for axis in "ZCT"}
    # The colours of a picture count as channels, and lie on one page.
    samples = max((_number(each, "SamplesPerPixel", 1) for each in pixels if each.tag.endswith("Channel")), default=1)
    sizes["C"] = max(1, sizes["C"] // max(1, samples))
    order = [axis for axis in str(pixels.get("DimensionOrder", "")) if axis in sizes]
    return {axis: sizes[axis] for axis in (order if sorted(order) == ["C", "T", "Z"] else "ZCT")}


def _listed(part: Element, sizes: dict[str, int]) -> Iterator[Plane]:
    """The planes that one entry of the list names: one, or so many in the order of the dimensions."""
    total, begin = 1, 0
    for axis in sizes:
        begin += _number(part, f"First{axis}", 0) * total
        total *= sizes[axis]
    # Without a number an entry names one plane where it says which page, and else all.
    count = _number(part, "PlaneCount", total if part.get("IFD") is None else 1)
    for place in range(begin, min(total, begin + count)):
        named = {}
        for axis in sizes:
            place, named[axis] = divmod(place, sizes[axis])
        yield named["Z"], named["C"], named["T"]


def _number(element: Element, name: str, usual: int) -> int:
    try:
        return int(element.get(name, usual))
    except ValueError:
        return usual
