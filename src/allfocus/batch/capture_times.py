"""When a picture was taken, from its EXIF alone: the pixels are not decoded."""

import datetime
import struct
from pathlib import Path

from allfocus.errors import InputError
from allfocus.files.opening import open_plain
from allfocus.images.exif import EXIF_DIRECTORY, FileSlices, parse_block, require_modest
from allfocus.images.exif_blocks import find_exif_block

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
    texts = _read_texts(path)
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


def _read_texts(path: Path) -> dict[int, str]:
    """The texts in the EXIF of a file: of one that is built like TIFF, or of the block inside a JPEG, PNG or WebP."""
    with open_plain(path) as file:
        try:
            require_modest(FileSlices(file))
            directory = parse_block(FileSlices(file))
            if not directory.entries and not directory.children:
                directory = parse_block(find_exif_block(file) or b"")
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        except (OSError, ValueError, struct.error) as error:
            raise InputError(f"{path}: its EXIF cannot be read ({error}); find stacks by folder or number") from error
    entries = list(directory.entries)
    if EXIF_DIRECTORY in directory.children:
        entries += directory.children[EXIF_DIRECTORY].entries
    return {tag: value.split(b"\x00")[0].decode("ascii", "replace") for tag, kind, _, value in entries if kind == 2}
