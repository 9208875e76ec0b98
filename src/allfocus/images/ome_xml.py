"""OME-XML, in which OME-TIFF files describe themselves: text -> dimensions, and dimensions -> text.

The schema is 2016-06 (https://www.openmicroscopy.org/Schemas/OME/2016-06/); older ones are read as well, because tags
are looked for by their name alone.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree

from allfocus.errors import InputError
from allfocus.images.dimensions import (
    Channel,
    Dimensions,
    ObjectiveLens,
    in_micrometres,
    in_seconds,
    name_channels,
    positive,
)

NAMESPACE = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
OWN = "allfocus.org/fusion"
"""The namespace of what we say about a fusion ourselves."""
KINDS = {
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "float32": "float",
    "float64": "double",
}
"""Types of samples, as NumPy and OME-XML spell them."""
IMMERSIONS = ("Oil", "Water", "WaterDipping", "Air", "Multi", "Glycerol", "Other")
DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"
"""How the schema wants a date to be written; others are left out."""
Element = ElementTree.Element


def describe_images(text: str) -> list[Dimensions]:
    """What an OME-XML says about each of its images, in order; sizes are those that it promises.

    Raises:
        InputError: it is no OME-XML, or a number in it is none.
    """
    try:
        root = ElementTree.fromstring(text.encode())
    except ElementTree.ParseError as error:
        raise InputError(f"its description (OME) is no XML ({error}); save it again", code="damaged-picture") from error
    objectives = {str(each.get("ID")): _read_objective(each) for each in _all(root, "Objective")}
    return [_describe(image, number, objectives) for number, image in enumerate(_all(root, "Image"), start=1)]


def _describe(image: Element, number: int, objectives: Mapping[str, ObjectiveLens]) -> Dimensions:
    pixels = next(_all(image, "Pixels"), None)
    if pixels is None:
        raise InputError("its description (OME) names an image without pixels; save it again", code="damaged-picture")
    sizes = {axis: _whole(pixels, f"Size{axis}") for axis in "XYZCT"}
    given = [each for each in pixels if _tag(each) == "Channel"]
    samples = max((_whole(each, "SamplesPerPixel", 1) for each in given), default=1)
    count = max(1, sizes["C"] // max(1, samples))
    spelt = {own: known for known, own in KINDS.items()}
    settings = next(_all(image, "ObjectiveSettings"), None)
    used = objectives.get(str(settings.get("ID"))) if settings is not None else None
    height, width = _length(pixels, "PhysicalSizeY"), _length(pixels, "PhysicalSizeX")
    acquired = next((str(each.text or "").strip() for each in image if _tag(each) == "AcquisitionDate"), "")
    return Dimensions(
        name=str(image.get("Name") or number),
        size=(sizes["Y"], sizes["X"]),
        dtype=spelt.get(str(pixels.get("Type", "")).lower(), str(pixels.get("Type", ""))),
        planes=sizes["Z"],
        times=sizes["T"],
        channels=_channels(given, count),
        samples=3 if samples >= 3 else 1,
        pixel_size=(height, width) if height and width else None,
        z_step=_length(pixels, "PhysicalSizeZ"),
        z_range=_z_range(pixels, sizes["Z"]),
        time_step=_duration(pixels, "TimeIncrement"),
        acquired=acquired,
        objective=used,
    )


def _channels(given: Sequence[Element], count: int) -> tuple[Channel, ...]:
    names = name_channels([str(each.get("Name") or each.get("Fluor") or "") for each in given], count)
    padded = [*given, *[ElementTree.Element("Channel")] * (count - len(given))]
    return tuple(
        Channel(
            name,
            colour=_read_colour(each.get("Color")),
            excitation=_wavelength(each, "ExcitationWavelength"),
            emission=_wavelength(each, "EmissionWavelength"),
            fluor=str(each.get("Fluor") or ""),
        )
        for name, each in zip(names, padded, strict=False)
    )


def _read_colour(text: str | None) -> str:
    """The colour of a number with red, green, blue and alpha in its four bytes; it is signed, and -1 is white."""
    try:
        number = int(str(text)) & 0xFFFFFFFF
    except ValueError:
        return ""
    return f"#{number >> 8:06x}"


def _wavelength(element: Element, name: str) -> float | None:
    value = positive(element.get(name))
    factor = in_micrometres(str(element.get(f"{name}Unit", "nm")))
    return value * factor * 1000 if value and factor else None


def _length(element: Element, name: str) -> float | None:
    """A length in micrometres, which is also what OME-XML means when it names no unit."""
    value = positive(element.get(name))
    factor = in_micrometres(str(element.get(f"{name}Unit", "um")))
    return value * factor if value and factor else None


def _duration(element: Element, name: str) -> float | None:
    value = positive(element.get(name))
    factor = in_seconds(str(element.get(f"{name}Unit", "s")))
    return value * factor if value and factor else None


def _z_range(pixels: Element, planes: int) -> tuple[float, float] | None:
    """Where the stage stood at the first and last plane, as the planes of the first channel and time say."""
    places: dict[int, float] = {}
    for plane in (each for each in pixels if _tag(each) == "Plane"):
        factor = in_micrometres(str(plane.get("PositionZUnit", "")))
        try:
            number, value = int(str(plane.get("TheZ"))), float(str(plane.get("PositionZ")))
        except ValueError:
            continue
        if factor and math.isfinite(value):
            places.setdefault(number, value * factor)
    return (places[0], places[planes - 1]) if {0, planes - 1} <= places.keys() else None


def _read_objective(element: Element) -> ObjectiveLens:
    return ObjectiveLens(
        model=str(element.get("Model") or ""),
        manufacturer=str(element.get("Manufacturer") or ""),
        magnification=positive(element.get("NominalMagnification") or element.get("CalibratedMagnification")),
        aperture=positive(element.get("LensNA")),
        immersion=str(element.get("Immersion") or ""),
    )


def _whole(element: Element, name: str, default: int | None = None) -> int:
    text = element.get(name)
    if text is None and default is not None:
        return default
    try:
        value = int(str(text)[:12])
    except ValueError:
        value = 0
    if value < 1:
        raise InputError(f"its description (OME) says {name} = {text}; the file is damaged", code="damaged-picture")
    return value


def _tag(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _all(element: Element, name: str) -> Iterator[Element]:
    return (each for each in element.iter() if _tag(each) == name)


@dataclass(frozen=True)
class FusedFrom:
    """What is said of a result about how it was made."""

    history: str
    """A sentence."""
    planes: int
    """That were fused."""
    z_step: float | None = None
    """Between them, in micrometres."""
    z_range: tuple[float, float] | None = None
    """Of the first and the last of them, in micrometres."""

    def to_plain(self) -> dict[str, object]:
        """What is known of it."""
        plain: dict[str, object] = {"history": self.history, "planes": self.planes}
        if self.z_step is not None:
            plain["z step in micrometres"] = self.z_step
        if self.z_range is not None:
            plain["z range in micrometres"] = list(self.z_range)
        return plain


def describe_result(dimensions: Dimensions, history: str) -> tuple[Dimensions, FusedFrom]:
    """The dimensions of what fusing a stack gives, with one plane, and what is said about its origin."""
    span = dimensions.z_range
    if span is None and dimensions.z_step is not None:
        span = (0.0, dimensions.z_step * (dimensions.planes - 1))
    return replace(dimensions, planes=1, z_range=None), FusedFrom(history, dimensions.planes, dimensions.z_step, span)


def write_ome_xml(images: Sequence[Dimensions], origin: FusedFrom, *, software: str) -> str:
    """The OME-XML of a file that holds these images one after the other, each in the order T, C, Z.

    Args:
        images: What each holds; all planes of one image are pages in a row.
        origin: How they were made.
        software: That made them.
    """
    root = ElementTree.Element("OME", {"xmlns": NAMESPACE, "Creator": software})
    for number, image in enumerate(images):
        if image.objective is not None:
            _write_objective(root, number, image.objective)
    first = 0
    for number, image in enumerate(images):
        first += _write_image(root, number, image, first)
    _write_origin(ElementTree.SubElement(root, "StructuredAnnotations"), origin)
    return '<?xml version="1.0" encoding="UTF-8"?>' + ElementTree.tostring(root, encoding="unicode")


def _write_objective(root: Element, number: int, objective: ObjectiveLens) -> None:
    instrument = ElementTree.SubElement(root, "Instrument", {"ID": f"Instrument:{number}"})
    known = {
        "Manufacturer": objective.manufacturer,
        "Model": objective.model,
        "LensNA": objective.aperture,
        "NominalMagnification": objective.magnification,
        "Immersion": objective.immersion if objective.immersion in IMMERSIONS else "",
    }
    attributes = {name: str(value) for name, value in known.items() if value}
    ElementTree.SubElement(instrument, "Objective", {"ID": f"Objective:{number}:0", **attributes})


def _write_origin(notes: Element, origin: FusedFrom) -> None:
    note = ElementTree.SubElement(notes, "MapAnnotation", {"ID": "Annotation:0", "Namespace": OWN})
    value = ElementTree.SubElement(note, "Value")
    for name, content in origin.to_plain().items():
        text = " to ".join(map(str, content)) if isinstance(content, list) else str(content)
        ElementTree.SubElement(value, "M", {"K": name}).text = _xml_text(text)


def _write_image(root: Element, number: int, held: Dimensions, first: int) -> int:
    """Adds an image whose planes begin at a page of the file; gives how many they are."""
    image = ElementTree.SubElement(root, "Image", {"ID": f"Image:{number}", "Name": _xml_text(held.name)})
    if re.fullmatch(DATE, held.acquired):
        ElementTree.SubElement(image, "AcquisitionDate").text = held.acquired
    if held.objective is not None:
        ElementTree.SubElement(image, "InstrumentRef", {"ID": f"Instrument:{number}"})
        ElementTree.SubElement(image, "ObjectiveSettings", {"ID": f"Objective:{number}:0"})
    height, width = held.size
    attributes = {
        "ID": f"Pixels:{number}",
        # Z before C before T: the planes of a file are written time by time, in each channel by channel.
        "DimensionOrder": "XYZCT",
        "Type": KINDS[held.dtype],
        "SizeX": width,
        "SizeY": height,
        "SizeZ": held.planes,
        "SizeC": len(held.channels) * held.samples,
        "SizeT": held.times,
    }
    lengths = {"Z": held.z_step, **dict(zip("YX", held.pixel_size or (None, None), strict=True))}
    for axis in "XYZ":
        if lengths[axis] is not None:
            attributes |= {f"PhysicalSize{axis}": lengths[axis], f"PhysicalSize{axis}Unit": "\N{MICRO SIGN}m"}
    if held.time_step is not None:
        attributes |= {"TimeIncrement": held.time_step, "TimeIncrementUnit": "s"}
    pixels = ElementTree.SubElement(image, "Pixels", {name: str(value) for name, value in attributes.items()})
    for place, channel in enumerate(held.channels):
        _write_channel(pixels, f"Channel:{number}:{place}", channel, held.samples)
    count = held.count
    for place in range(count):
        number_of, time = place // held.planes % len(held.channels), place // (held.planes * len(held.channels))
        layer = number_of * held.samples
        where = {"IFD": first + place, "FirstZ": place % held.planes, "FirstC": layer, "FirstT": time}
        ElementTree.SubElement(pixels, "TiffData", {**{k: str(v) for k, v in where.items()}, "PlaneCount": "1"})
    ElementTree.SubElement(image, "AnnotationRef", {"ID": "Annotation:0"})
    return count


def _write_channel(pixels: Element, identifier: str, channel: Channel, samples: int) -> None:
    known = {
        "Name": _xml_text(channel.name),
        "Color": _colour_number(channel.colour) if channel.colour else None,
        "Fluor": _xml_text(channel.fluor),
        "ExcitationWavelength": channel.excitation,
        "EmissionWavelength": channel.emission,
    }
    attributes = {name: str(value) for name, value in known.items() if value not in (None, "")}
    for name in ("ExcitationWavelength", "EmissionWavelength"):
        if name in attributes:
            attributes[f"{name}Unit"] = "nm"
    ElementTree.SubElement(pixels, "Channel", {"ID": identifier, "SamplesPerPixel": str(samples), **attributes})


def _colour_number(colour: str) -> int:
    """Red, green, blue and an alpha of 255 in the four bytes of a signed number."""
    number = int(colour.lstrip("#"), 16) << 8 | 0xFF
    return number - 2**32 if number >= 2**31 else number


def _xml_text(text: str) -> str:
    """A text without the control characters that XML cannot hold."""
    return "".join(sign for sign in text if sign in "\t\n" or (ord(sign) >= 32 and not 0xD800 <= ord(sign) <= 0xDFFF))
