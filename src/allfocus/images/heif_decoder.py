"""HEIF files (the pictures of many phones) -> samples, through pillow-heif, which the extra ``heif`` installs.

Its sibling pi-heif, which only reads and holds no code under the GPL, will do as well.
"""

import importlib
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from allfocus.errors import InputError, MissingDependencyError
from allfocus.images.decoded import DecodedPicture, Header, require_pixels
from allfocus.images.exif import PREFIX
from allfocus.images.tiff_directories import LARGEST_BLOCK

BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
CHANNELS = {"L": 1, "LA": 1, "L;16": 1, "LA;16": 1, "RGB": 3, "RGBA": 3, "RGB;16": 3, "RGBA;16": 3}


def is_heif(head: bytes) -> bool:
    """Whether the first bytes are those of a HEIF file."""
    return head[4:8] == b"ftyp" and head[8:12] in BRANDS


def read_heif_headers(file: BinaryIO) -> list[Header]:
    """The header of a HEIF file. Its decoder turns the picture upright itself."""
    picture = _open_heif(file)
    width, height = picture.size
    return [Header(width, height, CHANNELS[picture.mode], 16 if picture.mode.endswith(";16") else 8)]


def decode_heif(file: BinaryIO, page: int, max_pixels: int) -> DecodedPicture:
    """The samples of a HEIF file, 10 and 12 bits as 16; of several pictures the main one."""
    picture = _open_heif(file)
    width, height = picture.size
    require_pixels(width, height, max_pixels)
    exif = picture.info.get("exif") or None
    return DecodedPicture(
        np.asarray(picture),
        icc_profile=picture.info.get("icc_profile") or None,
        exif=exif.removeprefix(PREFIX) if exif else None,
        orientation=1,
        premultiplied=bool(getattr(picture, "premultiplied_alpha", False)),
    )


def read_heif_exif(file: BinaryIO) -> bytes | None:
    """The EXIF block of a HEIF file; None where it has none. Its pixels are not decoded."""
    block = _open_heif(file).info.get("exif") or None
    if block and len(block) > LARGEST_BLOCK:
        raise InputError(f"its EXIF has {len(block)} bytes, more than {LARGEST_BLOCK}; the file is damaged")
    return None if block is None else bytes(block).removeprefix(PREFIX)


def _open_heif(file: BinaryIO) -> Any:
    file.seek(0)
    # Without this, pictures of 10 bits would be cut to 8.
    picture = _require_decoder().open_heif(file, convert_hdr_to_8bit=False)
    if picture.mode not in CHANNELS:
        raise InputError(f"its colour mode {picture.mode} cannot be read; save it as RGB or grey")
    return picture


def _require_decoder() -> ModuleType:
    for name in ("pillow_heif", "pi_heif"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingDependencyError("a HEIF file needs pillow-heif, which is not installed: pip install 'allfocus[heif]'")
