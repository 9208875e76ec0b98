"""What a TIFF file, open in tifffile, says its planes are: one stack, or several channels, times and positions."""

import json
import math
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from allfocus.errors import InputError
from allfocus.images.ome_planes import require_own_planes

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPage, TiffPageSeries

MOST_PAGES = 20_000

OME_BEGINS = re.compile(r"\s*(<\?xml[^>]*>|<!--.*?-->|\s)*<(\w+:)?OME[\s/>]", re.DOTALL)
"""How a description in OME-XML begins, whether or not it is whole."""

MOST_PLANES_SAID = 2_000_000
"""Planes of all pictures together that a description may speak of: others may lie in other files."""

DESCRIBED_KINDS = ("ome", "imagej", "shaped", "micromanager", "lsm", "stk", "fluoview", "scanimage", "ndtiff", "bif")
"""Kinds of TIFF that say what their planes are."""

SEVERAL = {
    "C": ("channels", "save one channel (ImageJ: Image > Color > Split Channels)"),
    "T": ("points in time", "save one of them (ImageJ: Image > Duplicate)"),
    "P": ("positions", "save one of them (Fiji: Bio-Formats > Split positions)"),
    "R": ("regions", "save one of them"),
    "M": ("tiles of a mosaic", "save one of them"),
    "A": ("angles", "save one of them"),
    "E": ("wavelengths", "save one of them"),
    "H": ("lifetimes", "save one of them"),
    "V": ("events", "save one of them"),
}
"""Axes along which planes are not planes of one stack: what they hold, and what to do."""

STACKED = ("Z", "I", "Q")
"""Axes that a stack may have: depth, and those that have no name."""


def page_of(tiff: "TiffFile", index: int) -> "TiffPage":
    """A page of a file, counted from 0."""
    return tiff.pages[index]  # type: ignore[return-value]  # some are frames, which answer as their pages would


def says_what_its_planes_are(tiff: "TiffFile") -> bool:
    """Whether a file, open in tifffile, describes its planes, in words that can be looked at without harm.

    Raises:
        InputError: it promises more pages or planes than there can be, does not say what its pages are although it
            begins to, or lacks planes of its stacks.
    """
    if len(tiff.pages) > MOST_PAGES:
        raise InputError(f"it says it has {len(tiff.pages)} pages, more than {MOST_PAGES}; the file is damaged")
    if tiff.is_ome:
        require_modest_ome(str(tiff.ome_metadata))
        require_own_planes(str(tiff.ome_metadata), pages=len(tiff.pages), name=str(tiff.filename))
    elif len(tiff.pages) > 1 and OME_BEGINS.match(str(page_of(tiff, 0).description)):
        raise InputError(
            "its description begins as OME-XML does and is cut off or damaged, so that nobody can tell which planes "
            "belong together; copy it again, or save it anew",
            code="damaged-picture",
        )
    if tiff.is_imagej and not tiff.is_ome:
        _require_whole_imagej(tiff)
    if tiff.is_shaped and not tiff.is_ome and not tiff.is_imagej:
        _require_whole_array(tiff)
    return any(getattr(tiff, f"is_{kind}", False) for kind in DESCRIBED_KINDS)


def _require_whole_imagej(tiff: "TiffFile") -> None:
    """Raise InputError for a stack of ImageJ that was cut short: tifffile takes what is left as planes of one stack."""
    told = dict(tiff.imagej_metadata or {})
    sizes = [told.get(name, 1) for name in ("channels", "slices", "frames")]
    planes = math.prod(size for size in sizes if isinstance(size, int) and size > 0)
    if planes > len(tiff.pages) > 1:
        raise too_few_pages(planes, len(tiff.pages))


def _require_whole_array(tiff: "TiffFile") -> None:
    """Raise InputError for an array of tifffile with pages behind it that it does not speak of, or of which some lack.

    tifffile then takes all pages as one array, whatever they are.
    """
    page = page_of(tiff, 0)
    try:
        shape = [int(size) for size in json.loads(page.description)["shape"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        return  # the older way of saying it, or words that an editor left on another picture
    told = [size for size in shape if size != 1]
    own = [size for size in page.shape if size != 1]
    planes, fits = math.prod(told[: len(told) - len(own)]), told[len(told) - len(own) :] == own
    if fits and len(tiff.pages) > 1 and planes != len(tiff.pages) and tiff.series[0].kind != "shaped":
        raise InputError(
            f"its description speaks of {planes} planes, and the file holds {len(tiff.pages)} pages, so nobody can "
            "tell which belong together; save them anew, or as single pictures",
            code="damaged-picture",
        )


def too_few_pages(planes: int, pages: int) -> InputError:
    """The error for a file that lacks planes of which it speaks."""
    return InputError(
        f"its header says {planes} planes but the file holds {pages}; "
        "give all its files one by one, or save it again as an image sequence or BigTIFF",
        code="damaged-picture",
    )


def require_one_channel(tiff: "TiffFile") -> None:
    """Raise InputError for a file whose planes are not all planes of one stack, naming what there is to choose from."""
    if not says_what_its_planes_are(tiff):
        return
    _require_one_series(tiff)
    series = tiff.series[0]
    sizes: dict[str, int] = {}
    several: list[tuple[str, int]] = []
    for axis, size in zip(series.axes, series.shape, strict=True):
        sizes[axis] = sizes.get(axis, 1) * size
        if size > 1 and axis not in "YXS":
            several.append((axis, size))
    for axis, (meaning, cure) in SEVERAL.items():
        if sizes.get(axis, 1) > 1:
            raise InputError(f"it holds {sizes[axis]} {meaning} (1 to {sizes[axis]}); a stack has one: {cure}")
    if len(several) > 1 or any(axis not in STACKED for axis, _ in several):
        told = " x ".join(f"{size} along {axis}" for axis, size in several)
        raise InputError(f"it holds {told}; a stack has one such axis: save one stack of it as a file of its own")
    planes = math.prod(size for axis, size in sizes.items() if axis not in "YXS")
    if planes > len(tiff.pages):
        raise too_few_pages(planes, len(tiff.pages))


def require_modest_ome(description: str) -> None:
    """Raise InputError for a description of so many planes that the lists tifffile makes of them would fill memory.

    A hundred thousand bytes can promise a thousand million planes, each of which would take room before one is missed.
    """
    try:
        elements = list(ElementTree.fromstring(description.encode()).iter())
    except ElementTree.ParseError:
        return  # tifffile finds no planes in it either

    def numbers(element: ElementTree.Element, *names: str) -> list[int]:
        return [abs(int(element.get(name, "1").strip()[:12] or 1)) for name in names]

    try:
        pixels = [element for element in elements if element.tag.endswith("Pixels")]
        parts = [element for element in elements if element.tag.endswith("TiffData")]
        planes = sum(math.prod(numbers(each, "SizeZ", "SizeC", "SizeT")) for each in pixels)
        planes += sum(max(numbers(each, "PlaneCount", "NumPlanes")) for each in parts)
    except ValueError as error:
        raise InputError("its description (OME) has words in place of numbers; the file is damaged") from error
    if planes > MOST_PLANES_SAID:
        raise InputError(
            f"its description (OME) speaks of {planes} planes, more than {MOST_PLANES_SAID}; the file is damaged"
        )


def list_series(tiff: "TiffFile") -> list["TiffPageSeries"]:
    """The positions of a file, open in tifffile, that describes its planes: each is a series of its own."""
    series = [each for each in tiff.series if str(each.name).lower() not in ("label", "macro", "thumbnail", "baseline")]
    # Programs that write page after page call each page a series; a microscope says what each of them is.
    return series if tiff.is_ome or any(len(each.pages) > 1 for each in series) else series[:1]


def _require_one_series(tiff: "TiffFile") -> None:
    """Raise InputError for several positions: files of microscopes hold each as a series of its own."""
    series = list_series(tiff)
    if len(series) > 1:
        names = ", ".join(str(each.name or number) for number, each in enumerate(series[:8], start=1))
        raise InputError(
            f"it holds {len(series)} positions or pictures ({names}{' ...' if len(series) > 8 else ''}), each with its "
            "own planes; a stack is one of them: save one as a file of its own (Bio-Formats opens them one by one)"
        )
