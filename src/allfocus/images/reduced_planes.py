"""One plane of an OME-Zarr or a TIFF of any size, reduced while it is read: memory holds a tile and what is kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.files.opening import open_plain
from allfocus.images.channel_colours import merge_channels
from allfocus.images.dimensions import Dimensions
from allfocus.images.ome_zarr_planes import open_array
from allfocus.images.stack_file import StackFile, as_colour, open_stack_file
from allfocus.images.tiff_decoder import require_segments
from allfocus.images.tiff_series import page_of

BLOCK = 1024
"""Pixels a side that are read of an OME-Zarr at a time."""
MOST_PIXELS = 10**11
"""Of a plane: what a header says beyond that is no size."""
LARGEST_TILE = 2**28
"""Bytes of a tile or strip of a TIFF; what is stored in larger ones cannot be read in parts."""

Block = tuple[int, int, NDArray[Any]]
"""Row and column of the first pixel, and the samples (h, w) or (h, w, colours)."""


@dataclass(frozen=True, eq=False)
class LargePlane:
    """A file that holds one plane, read in parts."""

    file: StackFile
    held: Dimensions
    """What it says about the plane."""

    def stride(self, most_pixels: int) -> int:
        """Every so many pixels are kept along each axis, a power of two, so that no more are."""
        stride = 1
        while -(-self.held.size[0] // stride) * -(-self.held.size[1] // stride) > most_pixels:
            stride *= 2
        return stride

    def read_values(self, stride: int) -> NDArray[np.float32]:
        """Every so many-th pixel of the only channel, (h, w), exactly as it is stored.

        Raises:
            InputError: the file is damaged.
        """
        return self._read(0, stride, mean=False).astype(np.float32)

    def read_picture(self, stride: int) -> NDArray[np.float32]:
        """The plane as a picture (h, w) or (h, w, 3), 0..1: squares averaged, channels in their colours.

        Raises:
            InputError: the file is damaged.
        """
        if self.held.samples == 3:
            return self._unit(self._read(None, stride, mean=True))
        layers = [self._unit(self._read(number, stride, mean=True)) for number in range(len(self.held.channels))]
        return layers[0] if len(layers) == 1 else merge_channels(np.stack(layers, axis=-1), self.held)

    def _unit(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.held.dtype not in ("uint8", "uint16"):
            return np.clip(values, 0, 1)
        return values / np.float32(np.iinfo(self.held.dtype).max)

    def _read(self, channel: int | None, stride: int, *, mean: bool) -> NDArray[np.float32]:
        height, width = (-(-side // stride) for side in self.held.size)
        kept = np.zeros((height, width, 3) if channel is None else (height, width), np.float32)
        for top, left, samples in self._blocks(channel):
            first = -top % stride, -left % stride
            part = samples[first[0] :: stride, first[1] :: stride].astype(np.float32)
            if mean and stride > 1 and not any(first):
                part = _mean_of_squares(samples, stride)
            row, column = (top + first[0]) // stride, (left + first[1]) // stride
            kept[row : row + part.shape[0], column : column + part.shape[1]] = part
        return kept

    def _blocks(self, channel: int | None) -> Iterator[Block]:
        if self.file.zarr:
            stack = self.file.zarr[0]
            plane, array = stack.plane(0, channel, 0), open_array(stack)
            height, width = self.held.size
            for top in range(0, height, BLOCK):
                for left in range(0, width, BLOCK):
                    rows, columns = slice(top, min(top + BLOCK, height)), slice(left, min(left + BLOCK, width))
                    yield top, left, plane.read(rows, columns, array=array)
            return
        yield from _tiff_blocks(self.file.path, self.file.frames(0, 0, channel or 0)[0].page, self.held.size)


def open_large_plane(path: Path) -> LargePlane | None:
    """A plane that is read in parts: an OME-Zarr, or an OME-TIFF; None for pictures, which are read whole.

    Raises:
        InputError: it cannot be read, or holds more than one plane.
    """
    if path.suffix.lower() not in (".zarr", ".tif", ".tiff"):
        return None
    found = open_stack_file(path)
    if not found.zarr and found.kind != "OME-TIFF":
        return None
    held = found.positions[0]
    if len(found.positions) > 1 or held.times > 1 or held.planes > 1:
        raise InputError("holds several planes; give a file with one", where=path, code="unsupported-picture")
    return LargePlane(found, as_colour(held) if found.zarr else held)


def _mean_of_squares(samples: NDArray[Any], stride: int) -> NDArray[np.float32]:
    """Each pixel the mean of a square; those at the right and lower edge of what of it is there."""
    rows, columns = np.arange(0, samples.shape[0], stride), np.arange(0, samples.shape[1], stride)
    sums = np.add.reduceat(np.add.reduceat(samples.astype(np.float32), rows, axis=0), columns, axis=1)
    heights = np.diff([*rows, samples.shape[0]]).astype(np.float32)
    widths = np.diff([*columns, samples.shape[1]]).astype(np.float32)
    weight = heights[:, None] * widths[None, :]
    return np.asarray(sums / weight.reshape(*weight.shape, *(1,) * (samples.ndim - 2)), np.float32)


def _tiff_blocks(path: Path, page: int, size: tuple[int, int]) -> Iterator[Block]:
    import tifffile

    try:
        with open_plain(path) as opened, tifffile.TiffFile(opened) as file:
            own = page_of(file, page)
            require_segments(own, opened, MOST_PIXELS)
            side = (own.tilelength or own.rowsperstrip or size[0]) * (own.tilewidth or size[1])
            if own.dtype is None:
                raise InputError("its samples are of no type that can be read", where=path, code="damaged-picture")
            if side * own.samplesperpixel * own.dtype.itemsize > LARGEST_TILE:
                raise InputError("is stored in parts too large to read one by one; save it with tiles", where=path)
            for samples, place, shape in own.segments(maxworkers=1):
                if samples is None:
                    continue
                top, left = int(place[2]), int(place[3])
                block = samples[0, : shape[1], : shape[2]]
                block = block[: size[0] - top, : size[1] - left]
                yield top, left, block[..., 0] if block.shape[2] == 1 else block
    except InputError:
        raise
    except Exception as error:
        # A decoder that is fed a damaged file may raise anything at all.
        raise InputError(
            "the file is truncated or damaged; copy it again", where=path, code="damaged-picture"
        ) from error
