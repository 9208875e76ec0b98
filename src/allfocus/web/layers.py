"""Layers: pictures on the grid of the result, on disk at full depth and at halves of their size, cut into tiles.

A layer is a folder with ``level0.npy`` (full size, uint16 or float32) and ``level1.npy`` ... (each half the one before,
uint8, because they are only looked at). They are mapped into memory, so that a tile costs what a tile holds.
"""

import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.images.conversion import to_integers
from allfocus.web.job_records import TILE_SIDE

Area = tuple[int, int, int, int]
"""(left, top, right, bottom), ends excluded, in pixels of the full size."""

White = float | Sequence[float]
"""What is shown as the brightest, 0..1: for all samples of a pixel alike, or for each channel its own."""

Show = Callable[[NDArray[Any]], NDArray[np.uint8]]
"""Makes of samples (h, w) or (h, w, channels) of any level what is looked at: grey or colours."""

AMPLIFICATION = 4
"""Of differences, so that one of 2 in 256 levels can be seen."""

DARK, BRIGHT_SHARE, DARKEST_WHITE = 0.25, 0.999, 0.0005
"""A picture whose brightest parts, all but so few of its pixels, lie below DARK is shown brighter, up to 2000 times."""

GUIDE_REACH = 2
"""Pixels on each side that the smoothing of a guide looks at."""

ROWS_AT_ONCE = 512
MOST_AT_ONCE = 4
"""Channels that OpenCV takes."""
JPEG_QUALITY = 90


def level_count(width: int, height: int) -> int:
    """How many levels a layer has: the full size, and halves until one tile holds everything.

    Example:
        >>> level_count(256, 100), level_count(257, 100), level_count(6000, 4000)
        (1, 2, 6)
    """
    count = 1
    while max(width, height) > TILE_SIDE:
        width, height, count = (width + 1) // 2, (height + 1) // 2, count + 1
    return count


def layer_bytes(width: int, height: int, channels: int, working_depth: int) -> int:
    """About how many bytes a layer takes on disk."""
    return width * height * channels * working_depth // 8 + width * height * channels // 3 + 4096


def to_bytes(samples: NDArray[Any], white: White = 1.0) -> NDArray[np.uint8]:
    """Samples of uint8, uint16 or float32 in 0..1 as uint8, rounded to the nearest.

    Args:
        samples: Of any shape.
        white: What is shown as the brightest, 0..1; of uint8 always 1.

    Example:
        >>> to_bytes(np.array([[0, 128, 129, 65535]], np.uint16))
        array([[  0,   0,   1, 255]], dtype=uint8)
        >>> to_bytes(np.array([[0, 2048, 4096, 65535]], np.uint16), white=4096 / 65535)
        array([[  0, 128, 255, 255]], dtype=uint8)
    """
    if samples.dtype == np.uint8:
        return samples
    if samples.dtype == np.uint16 and isinstance(white, float | int) and white == 1:
        return np.asarray((samples.astype(np.uint32) + 128) // 257, np.uint8)
    full = 65535.0 if samples.dtype == np.uint16 else 1.0
    factor = np.asarray(1 / (full * np.asarray(white, np.float64)), np.float32)
    return np.asarray(to_integers(samples * factor, 8), np.uint8)


def choose_white(pixels: NDArray[np.float32]) -> float:
    """What to show as the brightest so that a dark picture can be seen: 1, or less when it uses little of the range.

    Cameras of microscopes write 10 to 14 bits into 16, which would all look black.

    Args:
        pixels: ``(H, W)`` or ``(H, W, 3)``, 0..1.

    Example:
        >>> choose_white(np.full((8, 8), 0.5, np.float32)), choose_white(np.full((8, 8), 0.05, np.float32))
        (1.0, 0.05)
    """
    step = max(1, max(pixels.shape[:2]) // 1000)
    brightest = round(float(np.quantile(pixels[::step, ::step], BRIGHT_SHARE)), 4)
    return max(brightest, DARKEST_WHITE) if brightest < DARK else 1.0


def halve(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The picture at half its size, each pixel the mean of four; the last row and column are repeated when odd.

    Example:
        >>> halve(np.array([[0, 4, 9], [4, 8, 9]], np.uint8))
        array([[4, 9]], dtype=uint8)
    """
    if pixels.ndim == 3 and pixels.shape[2] > MOST_AT_ONCE:
        return np.dstack([halve(pixels[..., number]) for number in range(pixels.shape[2])])
    height, width = pixels.shape[:2]
    even = np.ascontiguousarray(pixels)
    if height % 2 or width % 2:
        even = np.asarray(cv2.copyMakeBorder(even, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE), np.uint8)
    size = ((width + 1) // 2, (height + 1) // 2)
    halved = cv2.resize(even, size, interpolation=cv2.INTER_AREA)
    return np.asarray(halved, np.uint8).reshape(*size[::-1], *pixels.shape[2:])


def write_layer(folder: Path, samples: NDArray[Any], *, white: White = 1.0) -> None:
    """Put a layer on disk; the folder appears whole or not at all.

    Args:
        folder: Where to; an older layer there is replaced.
        samples: ``(H, W)`` or ``(H, W, 3)``; uint8, uint16, or float32 in 0..1.
        white: What the reduced levels show as the brightest.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{secrets.token_hex(4)}.part")
    temporary.mkdir()
    try:
        np.save(temporary / "level0.npy", samples)
        reduced = _first_reduction(samples, white)
        for level in range(1, level_count(samples.shape[1], samples.shape[0])):
            np.save(temporary / f"level{level}.npy", reduced)
            reduced = halve(reduced)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _first_reduction(samples: NDArray[Any], white: White) -> NDArray[np.uint8]:
    """The whole at half its size, made in strips so that a large picture is not held several times."""
    tops = range(0, samples.shape[0], ROWS_AT_ONCE)
    return np.concatenate([halve(to_bytes(samples[top : top + ROWS_AT_ONCE], white)) for top in tops])


def open_level(folder: Path, level: int, *, writable: bool = False) -> NDArray[Any]:
    """One level of a layer, mapped into memory.

    Raises:
        FileNotFoundError: the layer was deleted meanwhile, or has no such level.
    """
    opened: NDArray[Any] = np.load(folder / f"level{level}.npy", mmap_mode="r+" if writable else "r")
    return opened


def refresh_levels(folder: Path, area: Area, *, white: White = 1.0) -> None:
    """Make the reduced levels of a layer agree again with its full size within an area that was changed."""
    left, top, right, bottom = area
    finer = open_level(folder, 0)
    level = 1
    while (folder / f"level{level}.npy").exists():
        coarser = open_level(folder, level, writable=True)
        left, top, right, bottom = left // 2, top // 2, -(-right // 2), -(-bottom // 2)
        part = finer[2 * top : 2 * bottom, 2 * left : 2 * right]
        coarser[top:bottom, left:right] = halve(to_bytes(part, white))
        finer, level = coarser, level + 1


def tile_area(column: int, row: int) -> tuple[slice, slice]:
    """Rows and columns of a tile at its level."""
    return (
        slice(row * TILE_SIDE, (row + 1) * TILE_SIDE),
        slice(column * TILE_SIDE, (column + 1) * TILE_SIDE),
    )


def read_tile(folder: Path, level: int, column: int, row: int, *, show: Show = to_bytes) -> NDArray[np.uint8]:
    """The pixels of a tile, smaller at the right and lower edge; empty beyond them."""
    return show(np.array(open_level(folder, level)[tile_area(column, row)]))


def guide_tile(samples: NDArray[Any], column: int, row: int, *, show: Show = to_bytes) -> NDArray[np.uint8]:
    """A tile of a level with each pixel the median of the 25 around it: by this the brush knows one thing from another.

    Edges stay where they are and noise goes. Tiles fit each other: beyond the edge of a tile its neighbours count.

    Args:
        samples: The whole level, ``(H, W)`` or ``(H, W, 3)``; uint8, uint16, or float32 in 0..1.
        column: Of the tile.
        row: Of the tile.
        show: Makes of samples what is looked at.
    """
    rows, columns = tile_area(column, row)
    top, left = max(0, rows.start - GUIDE_REACH), max(0, columns.start - GUIDE_REACH)
    part = show(np.array(samples[top : rows.stop + GUIDE_REACH, left : columns.stop + GUIDE_REACH]))
    if part.size:
        part = np.asarray(cv2.medianBlur(part, 2 * GUIDE_REACH + 1), np.uint8)
    return part[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]


def read_guide_tile(folder: Path, level: int, column: int, row: int, *, show: Show) -> NDArray[np.uint8]:
    """The smoothed pixels of a tile; empty beyond the right and lower edge."""
    return guide_tile(open_level(folder, level), column, row, show=show)


def difference(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """How two tiles differ, made visible: black where they are equal.

    Example:
        >>> difference(np.array([[10, 20]], np.uint8), np.array([[10, 17]], np.uint8))
        array([[ 0, 12]], dtype=uint8)
    """
    apart = cv2.absdiff(first, second).reshape(first.shape)
    return np.asarray(np.minimum(apart.astype(np.uint16) * AMPLIFICATION, 255), np.uint8)


def jpeg_bytes(pixels: NDArray[np.uint8], *, icc_profile: bytes | None = None, quality: int = JPEG_QUALITY) -> bytes:
    """A JPEG file of a tile, with its colour profile so that the browser shows the right colours."""
    from PIL import Image as PillowImage

    file = io.BytesIO()
    PillowImage.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling=0, icc_profile=icc_profile)
    return file.getvalue()


def png_bytes(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of a tile, for layers whose colours mean something."""
    from PIL import Image as PillowImage

    file = io.BytesIO()
    PillowImage.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()


def blocks_of(area: Area, side: int = 512) -> Iterator[Area]:
    """The area in pieces of at most ``side`` pixels across and down."""
    left, top, right, bottom = area
    for y in range(top, bottom, side):
        for x in range(left, right, side):
            yield (x, y, min(x + side, right), min(y + side, bottom))
