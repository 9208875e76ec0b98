"""When a picture was taken, from its EXIF alone: the pixels are not decoded."""

import datetime
import warnings
from pathlib import Path

from allfocus.errors import InputError
from allfocus.images.exif import EXIF_DIRECTORY, FileSlices, parse_block

TAKEN, STORED, FRACTION = 0x9003, 0x9004, 0x9291
"""DateTimeOriginal, DateTimeDigitized and SubSecTimeOriginal."""
CHANGED = 0x0132
"""DateTime, of the first directory."""


def read_capture_time(path: Path) -> datetime.datetime:
    """The camera's time of a picture, to the fraction of a second where the camera says it.

    Args:
        path: JPEG, TIFF, PNG or WebP with EXIF, or a camera RAW file built like TIFF (DNG, NEF, CR2, ARW ...).

    Raises:
        InputError: The file cannot be read, or says no time.
    """
    texts = _texts_of_tiff(path) or _texts_of_picture(path)
    for tag in (TAKEN, STORED, CHANGED):
        try:
            time = datetime.datetime.strptime(texts.get(tag, "")[:19], "%Y:%m:%d %H:%M:%S")
        except ValueError:
            continue
        digits = texts.get(FRACTION, "").strip()
        return time + datetime.timedelta(seconds=float(f"0.{digits}") if digits.isdecimal() else 0.0)
    raise InputError(
        f"{path}: says no time at which it was taken; find stacks by folder, by number, or with a CSV list"
    )


def _texts_of_tiff(path: Path) -> dict[int, str]:
    """The entries of a file that is built like TIFF; empty for others."""
    try:
        with path.open("rb") as file:
            directory = parse_block(FileSlices(file))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check that it is a readable file") from error
    entries = list(directory.entries)
    if EXIF_DIRECTORY in directory.children:
        entries += directory.children[EXIF_DIRECTORY].entries
    return {tag: value.split(b"\x00")[0].decode("ascii", "replace") for tag, kind, _, value in entries if kind == 2}


def _texts_of_picture(path: Path) -> dict[int, str]:
    # Imported here because listing folders needs no decoder.
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as picture:
                exif = picture.getexif()
                entries = {**exif, **exif.get_ifd(EXIF_DIRECTORY)}
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise InputError(f"{path}: its EXIF cannot be read ({error}); find stacks by folder or by number") from error
    return {tag: value for tag, value in entries.items() if isinstance(value, str)}
