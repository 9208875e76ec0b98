"""Files -> pictures: one file, or the frames of a stack from files, a folder or a multi-page TIFF."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.decoders import FORMATS, DecodedPicture, Format, find_format
from allfocus.images.exif import mark_as_upright, read_orientation
from allfocus.images.image import Image, ImageStack, require_stack

Result = TypeVar("Result")

MAX_PIXELS = 200_000_000
"""The largest picture read without being asked: more than any camera on sale makes in one shot."""

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp"})
"""Endings that make a file of a folder a frame. Files named one by one may have any ending."""


@dataclass(frozen=True)
class FrameFile:
    """Where one frame of a stack lies, before it is read."""

    path: Path
    """The file."""

    page: int = 0
    """The page of a multi-page file, from 0."""


def read_image(path: str | os.PathLike[str], *, page: int = 0, max_pixels: int = MAX_PIXELS) -> Image:
    """One picture as float32 in 0..1, upright, with its bit depth, colour profile and EXIF.

    The format is recognised by the content of the file, not by its name: JPEG, PNG and TIFF with 8 or 16 bits, TIFF
    with floating point values in 0..1, WebP and BMP. EXIF orientation is applied, and marked as applied.

    Args:
        path: The file.
        page: The page of a multi-page TIFF, from 0.
        max_pixels: Refuse a picture with more pixels than this (a decompression bomb, or a mistake).

    Raises:
        InputError: the file is missing, unreadable, truncated, damaged, too large, or no picture.

    Example:
        >>> import tempfile, numpy as np
        >>> from allfocus.images.writing import write_image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = write_image(np.full((4, 6, 3), 1000 / 65535, np.float32), folder + "/a.png", bit_depth=16)
        ...     image = read_image(written)
        >>> image.bit_depth, round(float(image.pixels[0, 0, 0]) * 65535)
        (16, 1000)
    """
    path = Path(path)
    data = _file_bytes(path)
    return _decode(path, data, _require_format(path, data), page, max_pixels)


def list_frames(paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str]) -> list[FrameFile]:
    """Where each frame of a stack lies, in the order of the stack, without reading pixels.

    Args:
        paths: Files, folders, or multi-page TIFF files. Files named one by one keep their order; the pictures of a
            folder come in natural order of their names (``a2`` before ``a10``), the pages of a file in theirs.

    Raises:
        InputError: a path is missing, or a folder holds no picture.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: list[FrameFile] = []
    for path in map(Path, given):
        files = _pictures_of_folder(path) if path.is_dir() else [path]
        for file in files:
            found.extend(FrameFile(file, page) for page in range(_count_pages(file)))
    return found


def read_stack(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    max_pixels: int = MAX_PIXELS,
    progress: Callable[[int, int], None] | None = None,
) -> ImageStack:
    """The frames of a stack, all of one size.

    Args:
        paths: Files, a folder, or one multi-page TIFF; see :func:`list_frames` for their order.
        max_pixels: Refuse a frame with more pixels than this.
        progress: Called with (frames read, frames in all) after each frame.

    Raises:
        InputError: fewer than two frames, frames of different size (both are named), or a file that cannot be read.

    Example:
        >>> import tempfile, numpy as np
        >>> from allfocus.images.writing import write_image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number in (10, 9):
        ...         _ = write_image(np.zeros((4, 6), np.float32), f"{folder}/frame{number}.png")
        ...     stack = read_stack(folder)
        >>> stack.names
        ['frame9.png', 'frame10.png']
    """
    frames = list_frames(paths)
    images: list[Image] = []
    for frame in frames:
        images.append(read_image(frame.path, page=frame.page, max_pixels=max_pixels))
        if len(images) > 1:
            require_stack([images[0], images[-1]])  # a frame that does not fit stops the run before the rest is read
        if progress:
            progress(len(images), len(frames))
    return ImageStack(images)


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts names as people count: numbers by value, the rest by letter without regard to case.

    Example:
        >>> sorted(["a10", "a9", "B1"], key=natural_order)
        ['a9', 'a10', 'B1']
    """
    parts = re.split(r"([0-9]+)", name.casefold())
    key = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts if part)
    return (*key, (2, 0, name))  # the name itself decides between "a1" and "a01"


def _pictures_of_folder(folder: Path) -> list[Path]:
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.is_file() and not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed ({error.strerror}); check its permissions") from error
    pictures = [folder / name for name in names if Path(name).suffix.lower() in SUFFIXES]
    if not pictures:
        raise InputError(f"{folder}: no pictures in this folder ({', '.join(sorted(SUFFIXES))})")
    return sorted(pictures, key=lambda path: natural_order(path.name))


def _count_pages(path: Path) -> int:
    count = _require_format(path, _file_bytes(path, 16)).count
    if count is None:
        return 1
    data = _file_bytes(path)
    return _guarded(path, lambda: count(data))


def _file_bytes(path: Path, length: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(length)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the name") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check that it is a readable file") from error


def _require_format(path: Path, data: bytes) -> Format:
    if not data:
        raise InputError(f"{path}: the file is empty")
    found = find_format(data)
    if found is None:
        known = ", ".join(candidate.name for candidate in FORMATS)
        raise InputError(f"{path}: not a picture that can be read; {known} are")
    return found


def _decode(path: Path, data: bytes, kind: Format, page: int, max_pixels: int) -> Image:
    decoded = _guarded(path, lambda: kind.decode(data, page, max_pixels))
    return _guarded(path, lambda: _as_image(decoded, path))


def _guarded(path: Path, action: Callable[[], Result]) -> Result:
    try:
        return action()
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(f"{path}: ") else f"{path}: {text}") from error
    except Exception as error:
        # A decoder that is fed a damaged file may raise anything at all; to the user they all mean the same.
        detail = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: the file is truncated or damaged ({detail[:160]}); copy it again") from error


def _as_image(decoded: DecodedPicture, path: Path) -> Image:
    samples, notices = _without_alpha(decoded.samples)
    pixels, bit_depth = _to_unit_range(samples)
    exif = decoded.exif
    orientation = read_orientation(exif) if decoded.orientation is None else decoded.orientation
    return Image(
        pixels=np.ascontiguousarray(turn_upright(pixels, orientation)),
        bit_depth=bit_depth,
        icc_profile=decoded.icc_profile,
        exif=mark_as_upright(exif) if exif else None,
        path=path,
        page=decoded.page,
        notices=decoded.notices + notices,
    )


def _without_alpha(samples: NDArray[Any]) -> tuple[NDArray[Any], tuple[str, ...]]:
    channels = 1 if samples.ndim == 2 else samples.shape[2]
    if channels in (1, 3):
        return samples, ()
    if channels not in (2, 4):
        raise InputError(f"it has {channels} channels; grey, RGB, and either with alpha can be read")
    colour, alpha = samples[:, :, : channels - 1], samples[:, :, channels - 1]
    opaque = np.iinfo(alpha.dtype).max if alpha.dtype.kind == "u" else 1
    notices = () if bool(np.all(alpha == opaque)) else ("alpha channel left out",)
    return (colour[:, :, 0] if channels == 2 else colour), notices


def _to_unit_range(samples: NDArray[Any]) -> tuple[NDArray[np.float32], int]:
    if samples.dtype == np.uint8:
        return samples.astype(np.float32) / np.float32(255), 8
    if samples.dtype == np.uint16:
        return samples.astype(np.float32) / np.float32(65535), 16
    if samples.dtype.kind == "f":
        low, high = float(np.min(samples)), float(np.max(samples))
        if not (low >= 0 and high <= 1):  # also true for NaN
            raise InputError(f"its floating point values run from {low:g} to {high:g}; scale them to 0..1")
        return samples.astype(np.float32), 32
    raise InputError(f"its samples are {samples.dtype}; 8 and 16 bits without sign and floating point can be read")


def turn_upright(pixels: NDArray[np.float32], orientation: int) -> NDArray[np.float32]:
    """The picture as it should be seen, for an EXIF orientation of 1 (upright already) to 8.

    Example:
        >>> turn_upright(np.array([[1, 2, 3]], np.float32), 6)[:, 0]
        array([1., 2., 3.], dtype=float32)
    """
    if orientation >= 5:  # 5 to 8 are stored with rows and columns exchanged
        pixels = np.swapaxes(pixels, 0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels
