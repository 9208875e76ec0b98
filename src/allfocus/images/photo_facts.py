"""What a photograph says about how it was taken, from its metadata alone: the pixels are not decoded."""

import datetime
import math
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from allfocus.errors import InputError
from allfocus.files.opening import open_plain
from allfocus.images.exif import SOFTWARE
from allfocus.images.exif_blocks import find_exif_block
from allfocus.images.heif_decoder import is_heif, read_heif_exif
from allfocus.images.maker_notes import Bracketing, read_bracketing
from allfocus.images.raw_blocks import ALMOST_TIFF, FUJIFILM, MendedHead, block_of_raw
from allfocus.images.tiff_budgets import require_modest
from allfocus.images.tiff_directories import read_entries, read_fractions, read_numbers, read_pointer
from allfocus.images.tiff_layout import EXIF_DIRECTORY, Bytes, FileSlices, Layout, TiffEntry, find_layout

MAKER, MODEL, SERIAL = 0x010F, 0x0110, 0xA431
TAKEN, STORED, FRACTION = 0x9003, 0x9004, 0x9291
"""DateTimeOriginal, DateTimeDigitized and SubSecTimeOriginal."""
CHANGED = 0x0132
"""DateTime, of the first directory."""
EXPOSURE_TIME, APERTURE, SENSITIVITY, FOCAL_LENGTH, SUBJECT_DISTANCE = 0x829A, 0x829D, 0x8827, 0x920A, 0x9206
MAKER_NOTE = 0x927C
UNKNOWN_SPEED = 65535
STACKERS = {
    "allfocus": r"^allfocus_",
    "Helicon Focus": r"\([ABC],\s?(R|Radius)\s?[0-9]+,\s?(S|Smoothing)\s?[0-9]+\)",
    "Zerene Stacker": r"\bZS[ _-](PMax|DMap|retouched)",
    "PICOLAY": "",
    "CombineZ": "",
    "focus-stack": "",
    "shinestacker": "",
}
"""Programs that fuse stacks, with how the names of their results can be told."""


@dataclass(frozen=True)
class PhotoFacts:
    """How a photograph was taken; what it does not say is None, or empty."""

    time: datetime.datetime | None = None
    """The camera's clock, to the fraction of a second where the camera says it."""
    camera: str = ""
    """Maker, model and serial number."""
    software: str = ""
    exposure: float | None = None
    """The light that the exposure asks for: steps of a factor 2 (EV at ISO 100)."""
    seconds: float = 0.0
    """How long the shutter was open."""
    focal_length: float | None = None
    """Millimetres."""
    focus: float | None = None
    """Where the lens was focused: metres, or a unit of the maker; larger is not farther for all makers."""
    bracketing: Bracketing = field(default_factory=Bracketing)
    """What the maker's note tells."""


def read_photo_facts(path: Path) -> PhotoFacts:
    """What a photograph says about how it was taken.

    Args:
        path: JPEG, TIFF, PNG, WebP or HEIF with EXIF, or camera RAW.

    Raises:
        InputError: the file cannot be read, or its EXIF is damaged or made to do harm.
    """
    with open_plain(path) as file:
        try:
            return facts_of(find_photo_data(file))
        except InputError as error:
            error.set_place(path)
            raise
        except (OSError, ValueError, struct.error) as error:
            raise InputError(f"its EXIF cannot be read ({error})", where=path, code="damaged-picture") from error


def find_photo_data(file: BinaryIO) -> Bytes:
    """Where the EXIF of a file lies: the file itself where it is built like TIFF, else its block; empty without any."""
    file.seek(0)
    head = file.read(16)
    if head.startswith(FUJIFILM) or head[4:12] == b"ftypcrx ":
        return block_of_raw(file) or b""
    if is_heif(head):
        block = read_heif_exif(file) or b""
        require_modest(block)
        return block
    data: Bytes = MendedHead(file) if head.startswith(ALMOST_TIFF) else FileSlices(file)
    if find_layout(data) is None:
        data = find_exif_block(file) or b""
    require_modest(data)
    return data


def facts_of(data: Bytes) -> PhotoFacts:
    """What an EXIF block, or a file that is built like one, says.

    Example:
        >>> facts_of(b"").time is None
        True
    """
    found = find_layout(data)
    if found is None:
        return PhotoFacts()
    layout, start = found
    first = {entry[0]: entry for entry in read_entries(data, start, layout)}
    place = read_pointer(first[EXIF_DIRECTORY], layout) if EXIF_DIRECTORY in first else None
    shot = {} if place is None else {entry[0]: entry for entry in read_entries(data, place, layout)}
    texts = {tag: _text(entry) for tag, entry in {**first, **shot}.items()}
    numbers = {tag: _number(entry, layout) for tag, entry in shot.items()}
    maker = texts.get(MAKER, "")
    note = None if place is None else _note_position(data, place, layout)
    bracketing = Bracketing() if note is None else read_bracketing(data, note, layout, maker=maker)
    camera = " ".join(text for tag in (MAKER, MODEL, SERIAL) if (text := texts.get(tag, "")))
    distance = numbers.get(SUBJECT_DISTANCE)
    return PhotoFacts(
        time=_time_of(texts),
        camera=camera,
        software=texts.get(SOFTWARE, ""),
        exposure=_exposure(numbers),
        seconds=numbers.get(EXPOSURE_TIME) or 0.0,
        focal_length=numbers.get(FOCAL_LENGTH),
        focus=bracketing.position if bracketing.position is not None else distance,
        bracketing=bracketing,
    )


def finished_by(facts: PhotoFacts, name: str) -> str:
    """The program that fused a picture from a stack, as its software entry or its name tells; empty for none.

    Example:
        >>> finished_by(PhotoFacts(software="Helicon Focus 8.2"), "a.tif"), finished_by(PhotoFacts(), "DSC1.jpg")
        ('Helicon Focus', '')
        >>> finished_by(PhotoFacts(), "2026-05-01 ZS PMax.tif")
        'Zerene Stacker'
    """
    software = facts.software.casefold()
    for program, pattern in STACKERS.items():
        if program.casefold() in software or (pattern and re.search(pattern, name, re.IGNORECASE)):
            return program
    return ""


def _time_of(texts: dict[int, str]) -> datetime.datetime | None:
    for tag in (TAKEN, STORED, CHANGED):
        try:
            time = datetime.datetime.strptime(texts.get(tag, "")[:19], "%Y:%m:%d %H:%M:%S")
        except ValueError:
            continue
        digits = texts.get(FRACTION, "").strip()[:9]
        whole = digits.isascii() and digits.isdecimal()
        return time + datetime.timedelta(seconds=float(f"0.{digits}") if whole else 0.0)
    return None


def _text(entry: TiffEntry) -> str:
    return entry[3][:256].split(b"\x00")[0].decode("ascii", "replace").strip() if entry[1] == 2 else ""


def _number(entry: TiffEntry, layout: Layout) -> float | None:
    """The first number of an entry, above 0."""
    _, kind, _, value = entry
    found = read_fractions(kind, value[:8], layout) or read_numbers(kind, value[:4], layout)
    return float(found[0]) if found and 0 < found[0] < 2**31 else None


def _exposure(numbers: dict[int, float | None]) -> float | None:
    seconds, aperture = numbers.get(EXPOSURE_TIME), numbers.get(APERTURE)
    speed = numbers.get(SENSITIVITY)
    if seconds is None:
        return None
    ev = -math.log2(seconds) + (2 * math.log2(aperture) if aperture else 0.0)
    return ev - (math.log2(speed / 100) if speed and speed < UNKNOWN_SPEED else 0.0)


def _note_position(data: Bytes, directory: int, layout: Layout) -> int | None:
    """Where the maker note of an EXIF directory begins; None where it has none outside the directory."""
    if layout.big:
        return None
    head = data[directory : directory + 2]
    (number,) = struct.unpack(layout.order + "H", head.ljust(2, b"\x00"))
    table = data[directory + 2 : directory + 2 + 12 * number]
    for at in range(0, len(table) - 11, 12):
        tag, _, count, place = struct.unpack_from(layout.order + "HHII", table, at)
        if tag == MAKER_NOTE and count > 4 and 8 <= place < len(data):
            return int(place)
    return None
