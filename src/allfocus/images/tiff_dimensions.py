"""What the pages of a TIFF file are: positions, times, channels and planes, as OME-XML, ImageJ and others say it."""

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.dimensions import Channel, Dimensions, in_micrometres, in_seconds, name_channels, positive
from allfocus.images.ome_xml import describe_images
from allfocus.images.tiff_decoder import open_tiff
from allfocus.images.tiff_series import list_series, page_of, says_what_its_planes_are, too_few_pages

if TYPE_CHECKING:
    from tifffile import TiffFile, TiffPage, TiffPageSeries

KINDS = {"ome": "OME-TIFF", "imagej": "ImageJ TIFF", "micromanager": "Micro-Manager TIFF", "lsm": "LSM", "stk": "STK"}
"""What messages call the kinds of TIFF that describe their planes; the others are TIFF."""
ROLES = {
    **{"T": "time", "C": "channel", "E": "channel", "Z": "plane", "P": "position", "R": "position"},
    **{"I": "plane", "Q": "plane"},
}
"""What the axes of tifffile are to us; I and Q are those of planes that nobody gave a name."""
PIXEL_AXES = "YXS"
CENTIMETRE = 3
"""The unit of the resolution, of those that TIFF has, in which programs of microscopes say the size of a pixel; inches
are what printers and cameras say, and mean nothing in the object."""


@dataclass(frozen=True, eq=False)
class TiffStack:
    """The planes of a TIFF file."""

    kind: str
    """What messages call this kind of file."""
    positions: tuple[Dimensions, ...]
    pages: tuple[NDArray[np.int64], ...]
    """For each position (times, channels, planes): the page that holds it, from 0."""


def describe_tiff(file: BinaryIO) -> TiffStack:
    """What a TIFF file holds, by its headers and its description alone.

    Raises:
        InputError: it is damaged, or its planes lie along axes that no stack has.
    """
    with open_tiff(file) as tiff:
        if not says_what_its_planes_are(tiff):
            return _plain_pages(tiff)
        kind = next((name for own, name in KINDS.items() if getattr(tiff, f"is_{own}", False)), "TIFF")
        series = list_series(tiff)
        told = _told_by_ome(tiff, len(series)) if tiff.is_ome else [None] * len(series)
        found = [
            position
            for number, (each, known) in enumerate(zip(series, told, strict=True), start=1)
            for position in _positions_of(tiff, each, known, number)
        ]
    if not found:
        raise InputError("it holds no planes; save it again", code="damaged-picture")
    return TiffStack(kind, tuple(held for held, _ in found), tuple(pages for _, pages in found))


def describe_page(file: BinaryIO, page: int) -> Dimensions:
    """Size and type of one page of a TIFF file, from 0.

    Raises:
        InputError: there is no such page.
    """
    with open_tiff(file) as tiff:
        if not 0 <= page < len(tiff.pages):
            raise InputError(
                "its description names pages that it does not have; the file is damaged", code="damaged-picture"
            )
        return _generic(page_of(tiff, page).aspage(), "1")


def _plain_pages(tiff: "TiffFile") -> TiffStack:
    """A file that says nothing: its pages are planes, reduced copies left out."""
    frames = [index for index in range(len(tiff.pages)) if not page_of(tiff, index).is_reduced]
    if not frames:
        raise InputError("it holds only reduced copies of a picture; save the picture itself", code="damaged-picture")
    first = page_of(tiff, frames[0])
    held = replace(_generic(first, "1"), planes=len(frames), pixel_size=_pixel_size(first, None))
    return TiffStack("TIFF", (held,), (np.asarray(frames, np.int64).reshape(1, 1, -1),))


def _told_by_ome(tiff: "TiffFile", count: int) -> list[Dimensions | None]:
    """What the description says about each of so many positions; None where that cannot be told."""
    told: list[Dimensions | None] = [*describe_images(str(tiff.ome_metadata))]
    return told if len(told) == count else [None] * count


def _positions_of(
    tiff: "TiffFile", series: "TiffPageSeries", told: Dimensions | None, number: int
) -> list[tuple[Dimensions, NDArray[np.int64]]]:
    """The positions of a series, with the page of each plane (times, channels, planes)."""
    places = _page_numbers(tiff, series)
    outer = [axis for axis in series.axes if axis not in PIXEL_AXES]
    _require_roles(series, outer)
    roles = [ROLES[axis] for axis in outer]
    names = ["position", "time", "channel", "plane"]
    # One axis for each role: where two axes have one role, they are counted through as one.
    order = sorted(range(len(outer)), key=lambda place: names.index(roles[place]))
    lengths = [1, 1, 1, 1]
    for place in order:
        lengths[names.index(roles[place])] *= places.shape[place]
    grid = places.transpose(order).reshape(lengths)
    page = page_of(tiff, int(grid.flat[0])).aspage()  # a frame that is not the first does not know its size
    known = told or _generic(page, str(series.name or number))
    if tiff.is_imagej and not tiff.is_ome:
        known = _told_by_imagej(tiff, page, known, lengths)
    channels = known.channels if len(known.channels) == lengths[2] else _numbered(lengths[2])
    held = replace(
        known,
        size=(int(page.imagelength), int(page.imagewidth)),
        dtype=_dtype_of(page),
        samples=_samples_of(page),
        channels=channels,
        times=lengths[1],
        planes=lengths[3],
    )
    own = [f"{held.name} {place + 1}" if lengths[0] > 1 else held.name for place in range(lengths[0])]
    return [(replace(held, name=name), grid[place]) for place, name in enumerate(own)]


def _page_numbers(tiff: "TiffFile", series: "TiffPageSeries") -> NDArray[np.int64]:
    """For each plane of a series, along its axes but those of the pixels, the page that holds it.

    Raises:
        InputError: some planes are not in the file.
    """
    shape = [size for axis, size in zip(series.axes, series.shape, strict=True) if axis not in PIXEL_AXES]
    expected = int(np.prod(shape))
    listed = [getattr(page, "index", None) for page in itertools.islice(series.pages, expected)]
    found = [index for index in listed if isinstance(index, int)]
    if len(found) < expected:
        raise too_few_pages(expected, len(found))
    if any(index >= len(tiff.pages) for index in found):
        raise InputError(
            "its description names pages that it does not have; the file is damaged", code="damaged-picture"
        )
    return np.asarray(found, np.int64).reshape(shape)


def _require_roles(series: "TiffPageSeries", outer: list[str]) -> None:
    sizes = {axis: size for axis, size in zip(series.axes, series.shape, strict=True)}
    several = [axis for axis in outer if sizes[axis] > 1]
    unknown = [axis for axis in several if axis not in ROLES]
    planes = [axis for axis in several if ROLES.get(axis) == "plane"]
    if unknown or len(planes) > 1:
        told = " x ".join(f"{sizes[axis]} along {axis}" for axis in several)
        raise InputError(
            f"it holds {told}; times, channels, positions and one axis of planes can be told apart: save one stack of "
            "it as a file of its own",
            code="unsupported-picture",
        )


def _generic(page: "TiffPage", name: str) -> Dimensions:
    size = (int(page.imagelength), int(page.imagewidth))
    return Dimensions(name, size, _dtype_of(page), samples=_samples_of(page))


def _told_by_imagej(tiff: "TiffFile", page: "TiffPage", held: Dimensions, lengths: list[int]) -> Dimensions:
    told = dict(tiff.imagej_metadata or {})
    unit = in_micrometres(str(told.get("unit", "")))
    spacing = positive(told.get("spacing"))
    interval, clock = positive(told.get("finterval")), in_seconds(str(told.get("tunit", "s")))
    return replace(
        held,
        channels=_imagej_channels(told, lengths),
        pixel_size=_pixel_size(page, unit),
        z_step=spacing * unit if spacing and unit else None,
        time_step=interval * clock if interval and clock else None,
    )


def _imagej_channels(told: dict[str, Any], lengths: list[int]) -> tuple[Channel, ...]:
    """Channels with the names that all their planes have as labels, and the brightest colour of their tables."""
    _, times, channels, planes = lengths
    labels = [str(label) for label in told.get("Labels") or []]
    if len(labels) == times * channels * planes:
        # ImageJ's own order: channels before planes before times.
        by_channel = [set(labels[number::channels]) for number in range(channels)]
        names = [own.pop() if len(own) == 1 else "" for own in by_channel]
    else:
        names = []
    tables = [np.asarray(table) for table in told.get("LUTs") or []]
    colours = [_brightest(tables[number]) if number < len(tables) else "" for number in range(channels)]
    pairs = zip(name_channels(names, channels), colours, strict=True)
    return tuple(Channel(name, colour) for name, colour in pairs)


def _brightest(table: NDArray[Any]) -> str:
    if table.shape != (3, 256) or table.dtype != np.uint8:
        return ""
    red, green, blue = (int(value) for value in table[:, -1])
    return f"#{red:02x}{green:02x}{blue:02x}"


def _pixel_size(page: "TiffPage", unit: float | None) -> tuple[float, float] | None:
    """Height and width of a pixel in micrometres: from the resolution and its unit, which ImageJ names elsewhere."""
    if unit is None and int(page.resolutionunit) == CENTIMETRE:
        unit = 10_000.0
    if unit is None or "XResolution" not in page.tags:
        return None
    width, height = (positive(value) for value in page.resolution)
    return (unit / height, unit / width) if width and height else None


def _numbered(count: int) -> tuple[Channel, ...]:
    return tuple(Channel(name) for name in name_channels([], count))


def _samples_of(page: "TiffPage") -> int:
    return 3 if page.samplesperpixel >= 3 else 1


def _dtype_of(page: "TiffPage") -> str:
    return str(page.dtype.newbyteorder("=")) if page.dtype is not None else "?"
