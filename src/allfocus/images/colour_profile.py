"""Colour profiles for files that describe their colours in other words than an ICC profile.

PNG has the chunks sRGB, gAMA and cHRM; cameras set to Adobe RGB mostly say so in EXIF alone, by the name "R03" in its
interoperability directory (DCF 2.0). Made into a profile, both go on to the result in any format, and tell the transfer
curve. Profiles made here are of version 2 with a matrix and one exponent (ICC.1:2001-04, 6.3).
"""

import functools
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allfocus.images.exif import COLOUR_SPACE
from allfocus.images.tiff_directories import read_entries, read_numbers, read_pointer
from allfocus.images.tiff_layout import EXIF_DIRECTORY, INTEROPERABILITY, find_layout
from allfocus.images.transfer import profile_tags

Chromaticity = tuple[float, float]
"""x and y of CIE 1931."""

INTEROPERABILITY_INDEX = 1
UNCALIBRATED, ADOBE_RGB_OF_OLD = 65535, 2
"""Values of the EXIF entry for the colour space; 2 is no standard, but was written for Adobe RGB by some cameras."""

D50 = np.array([0.9642, 1.0, 0.8249])
BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
"""Light to the responses of the cones, in which white is adapted."""


@dataclass(frozen=True)
class Primaries:
    """The colours that the channels of a picture stand for."""

    white: Chromaticity
    red: Chromaticity
    green: Chromaticity
    blue: Chromaticity


D65 = (0.3127, 0.3290)
SRGB_PRIMARIES = Primaries(D65, (0.64, 0.33), (0.30, 0.60), (0.15, 0.06))
ADOBE_PRIMARIES = Primaries(D65, (0.64, 0.33), (0.21, 0.71), (0.15, 0.06))
ADOBE_EXPONENT = 563 / 256


@functools.cache
def srgb_profile() -> bytes:
    """The profile of sRGB."""
    from PIL import ImageCms

    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@functools.cache
def adobe_profile() -> bytes:
    """A profile with the primaries and the exponent of Adobe RGB (1998)."""
    return make_profile("compatible with Adobe RGB (1998)", ADOBE_EXPONENT, ADOBE_PRIMARIES)


def make_profile(name: str, exponent: float, primaries: Primaries | None) -> bytes:
    """A profile for stored values that are light to the power of 1 / ``exponent``.

    Args:
        name: What programs show.
        exponent: Above 0 and below 256, kept in steps of 1/256.
        primaries: Of RGB; None makes a profile for one channel of grey.

    Example:
        >>> from allfocus.images.transfer import find_curve
        >>> curve = find_curve(make_profile("steep", 2.5, SRGB_PRIMARIES), None)
        >>> round(float(curve.to_linear(np.float32([[[0.5, 0.5, 0.5]]]))[0, 0, 0]), 4) == round(0.5**2.5, 4)
        True
    """
    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, round(exponent * 256))
    text = name.encode("ascii") + b"\x00"
    tags = {
        b"desc": b"desc" + bytes(4) + struct.pack(">I", len(text)) + text + bytes(78),
        b"cprt": b"text" + bytes(4) + b"no copyright, use freely\x00",
        b"wtpt": _pack_colour(D50),
    }
    if primaries is None:
        tags[b"kTRC"] = curve
    else:
        matrix = colour_matrix(primaries)
        for place, letter in enumerate((b"r", b"g", b"b")):
            tags[letter + b"XYZ"] = _pack_colour(matrix[:, place])
            tags[letter + b"TRC"] = curve
    return _pack_profile(b"GRAY" if primaries is None else b"RGB ", tags)


def colour_matrix(primaries: Primaries) -> NDArray[np.float64]:
    """(3, 3): linear RGB to CIE XYZ as seen by an eye that is used to D50, as profiles want it.

    Raises:
        numpy.linalg.LinAlgError: the primaries lie on one line.

    Example:
        >>> colour_matrix(SRGB_PRIMARIES).sum(axis=1).round(3).tolist()
        [0.964, 1.0, 0.825]
    """
    colours = np.stack([_light_of(place) for place in (primaries.red, primaries.green, primaries.blue)], axis=1)
    white = _light_of(primaries.white)
    unadapted = colours * np.linalg.solve(colours, white)
    gains = np.diag((BRADFORD @ D50) / (BRADFORD @ white))
    return np.asarray(np.linalg.inv(BRADFORD) @ gains @ BRADFORD @ unadapted, np.float64)


def profile_matrix(profile: bytes) -> NDArray[np.float64] | None:
    """(3, 3): linear RGB to CIE XYZ at D50 as a profile says it; None for one without a matrix.

    Example:
        >>> bool(np.allclose(profile_matrix(adobe_profile()), colour_matrix(ADOBE_PRIMARIES), atol=1e-4))
        True
    """
    tags = profile_tags(profile)
    bodies = [tags.get(name, b"") for name in (b"rXYZ", b"gXYZ", b"bXYZ")]
    if any(body[:4] != b"XYZ " or len(body) < 20 for body in bodies):
        return None
    matrix = np.stack([np.array(struct.unpack_from(">3i", body, 8)) / 65536 for body in bodies], axis=1)
    return matrix if abs(float(np.linalg.det(matrix))) > 1e-6 else None


def profile_of_exif(exif: bytes | None) -> bytes | None:
    """The profile of a photograph in colour whose EXIF says Adobe RGB; None for any other."""
    found = find_layout(exif) if exif else None
    if exif is None or found is None:
        return None
    layout, start = found
    for entry in read_entries(exif, start, layout):
        if entry[0] != EXIF_DIRECTORY:
            continue
        entries = {own[0]: own for own in read_entries(exif, read_pointer(entry, layout) or 0, layout)}
        space = read_numbers(*entries[COLOUR_SPACE][1::2], layout) if COLOUR_SPACE in entries else ()
        if space == (ADOBE_RGB_OF_OLD,):
            return adobe_profile()
        if space == (UNCALIBRATED,) and INTEROPERABILITY in entries:
            place = read_pointer(entries[INTEROPERABILITY], layout) or 0
            names = [own[3] for own in read_entries(exif, place, layout) if own[0] == INTEROPERABILITY_INDEX]
            return adobe_profile() if names and names[0].startswith(b"R03") else None
    return None


SPACES = {b"RGB ": "RGB", b"GRAY": "grey", b"CMYK": "CMYK", b"Lab ": "Lab", b"XYZ ": "XYZ", b"YCbr": "YCbCr"}
"""Kinds of values that a profile can be for, as messages call them."""


def wrong_space(profile: bytes, *, colour: bool) -> str:
    """What kind of values a profile is for, if that is not RGB, or grey where there is one channel; empty if it fits.

    Example:
        >>> wrong_space(srgb_profile(), colour=True), wrong_space(srgb_profile(), colour=False)
        ('', 'RGB')
    """
    space = profile[16:20]
    if profile[36:40] != b"acsp" or space == (b"RGB " if colour else b"GRAY"):
        return ""
    return SPACES.get(space, "other values")


def profile_of_png(chunks: dict[bytes, bytes], *, grey: bool) -> bytes | None:
    """The profile that the chunks sRGB, gAMA and cHRM of a PNG file describe; None when they do not tell the curve.

    The first of them that is there counts, as the standard wants (PNG, third edition, 4.3); without cHRM the primaries
    are taken to be those of sRGB. Grey in sRGB gets the exponent that the standard gives for it, 2.2.
    """
    if b"sRGB" in chunks and not grey:
        return srgb_profile()
    stored = struct.pack(">I", 45455) if b"sRGB" in chunks else chunks.get(b"gAMA", b"")
    exponent = 1e5 / max(1, int.from_bytes(stored, "big")) if len(stored) == 4 else 0.0
    if not 0.2 < exponent < 5:
        return None
    name = f"exponent {exponent:.4g}, from the PNG file"
    if grey:
        return make_profile(name, exponent, None)
    try:
        return make_profile(name, exponent, _read_primaries(chunks.get(b"cHRM", b"")))
    except (np.linalg.LinAlgError, struct.error):  # primaries that no colours have
        return make_profile(name, exponent, SRGB_PRIMARIES)


def _read_primaries(body: bytes) -> Primaries:
    if len(body) != 32:
        return SRGB_PRIMARIES
    numbers = [value / 1e5 for value in struct.unpack(">8I", body)]
    places = list(zip(numbers[0::2], numbers[1::2], strict=True))
    return Primaries(*places) if all(y > 0 for _, y in places) else SRGB_PRIMARIES


def _light_of(place: Chromaticity) -> NDArray[np.float64]:
    x, y = place
    return np.array([x / y, 1.0, (1 - x - y) / y])


def _pack_colour(light: NDArray[np.float64]) -> bytes:
    return b"XYZ " + bytes(4) + struct.pack(">3i", *(round(float(value) * 65536) for value in light))


def _pack_profile(space: bytes, tags: dict[bytes, bytes]) -> bytes:
    start = 132 + 12 * len(tags)
    table, bodies = b"", b""
    for name, body in tags.items():
        table += struct.pack(">4sII", name, start + len(bodies), len(body))
        bodies += body + bytes(-len(body) % 4)
    size = start + len(bodies)
    # Version 2.4, for a display; made at the beginning of 2000, so that the same picture always gives the same file.
    kind = struct.pack(">I4sI4s4s4s", size, b"", 0x02400000, b"mntr", space, b"XYZ ")
    header = kind + struct.pack(">6H", 2000, 1, 1, 0, 0, 0) + b"acsp"
    header = header.ljust(68, b"\x00") + _pack_colour(D50)[8:]
    return header.ljust(128, b"\x00") + struct.pack(">I", len(tags)) + table + bodies
