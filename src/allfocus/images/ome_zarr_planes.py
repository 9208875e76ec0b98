"""Planes of an OME-Zarr, larger than any memory: where each lies in its array, and the samples of an area of it."""

import dataclasses
import itertools
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.ome_zarr_folders import open_zarr_group, require_plain_files, require_zarr

AXES_OF_OLD_FILES = ("t", "c", "z", "y", "x")
"""Versions before 0.3 do not name their axes; they have these. Later ones want them in this order."""
LARGEST_EXTRA = 2**20
"""Bytes that a chunk may take besides twice those of its samples: for what packs badly, and for the list of a shard."""


@dataclass(frozen=True)
class ZarrStack:
    """Where the planes of an OME-Zarr lie, and what it says about them; small enough to send to a worker."""

    path: str
    """The group that holds the image."""
    array: str
    """Name of the largest array in the group."""
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...]
    zarr_format: int

    def size_of(self, axis: str) -> int:
        """How long an axis is; 1 when there is none of that name."""
        return self.shape[self.axes.index(axis)] if axis in self.axes else 1

    def plane(self, time: int, channel: int | None, plane: int) -> "ZarrPlane":
        """Where one plane lies; None takes all channels."""
        return ZarrPlane(self, time, channel, plane)


@dataclass(frozen=True)
class ZarrPlane:
    """One plane of an OME-Zarr."""

    stack: ZarrStack
    time: int
    channel: int | None
    """None for all of them, as a colour picture."""
    number: int
    """Along z."""

    def chosen(self, rows: slice, columns: slice) -> tuple[Any, ...]:
        """What an area of the plane is in its array: a number or a slice for each axis."""
        everything = slice(None) if self.channel is None else self.channel
        places: dict[str, Any] = {"t": self.time, "c": everything, "z": self.number, "y": rows, "x": columns}
        return tuple(places[axis] for axis in self.stack.axes)

    def read(self, rows: slice, columns: slice, *, array: Any = None, fill_missing: bool = False) -> NDArray[Any]:
        """The samples of an area: (H, W), or (H, W, C) where all channels are taken.

        Args:
            rows: With a start and a stop.
            columns: The same.
            array: The array of Zarr, where it is open already.
            fill_missing: Take chunks that are not there as empty, which is what Zarr says, instead of as lost.

        Raises:
            InputError: a chunk is missing.
        """
        array = open_array(self.stack) if array is None else array
        chosen = self.chosen(rows, columns)
        place = Path(self.stack.path, self.stack.array)
        require_chunks(array, chosen, place, fill_missing=fill_missing)
        samples = np.asarray(array[chosen])
        if not fill_missing:
            require_whole_shards(array, chosen, samples, place)
        left = [axis for axis, own in zip(self.stack.axes, chosen, strict=True) if not isinstance(own, int)]
        samples = np.moveaxis(samples, [left.index("y"), left.index("x")], [0, 1])
        return samples if self.channel is None and "c" in left else samples.reshape(samples.shape[:2])


def open_array(stack: ZarrStack) -> Any:
    """The largest array of an image."""
    return open_zarr_group(stack.path)[stack.array]


def require_chunks(array: Any, chosen: tuple[Any, ...], path: Path, *, fill_missing: bool = False) -> None:
    """Raise InputError when a chunk is not there, for which Zarr gives its fill value without a word, or no plain file.

    Args:
        array: The array of Zarr.
        chosen: What will be read: a number or a slice for each axis.
        path: Where the array lies.
        fill_missing: Chunks that are not there are empty.
    """
    whole = math.prod(array.metadata.chunk_grid.chunk_shape) * array.dtype.itemsize
    sides = array.metadata.chunk_grid.chunk_shape
    ranges = []
    for each, side, length in zip(chosen, sides, array.shape, strict=True):
        first, last = (each, each + 1) if isinstance(each, int) else each.indices(length)[:2]
        ranges.append(range(first // side, -(-last // side)))
    for place in itertools.product(*ranges):
        key = array.metadata.encode_chunk_key(place)
        if not os.path.lexists(path / key) and fill_missing:
            continue
        require_plain_files(path, [key], most_bytes=2 * whole + LARGEST_EXTRA)
        if not os.path.isfile(path / key):
            raise _missing_chunk(path, key)


def require_whole_shards(array: Any, chosen: tuple[Any, ...], samples: NDArray[Any], path: Path) -> None:
    """Raise InputError when a part of a shard that was read is not there; the rest is as in :func:`require_chunks`."""
    if array.shards is not None and (samples == array.fill_value).any():
        # Inside a shard chunks have no names: what is there is the same whatever the fill value is said to be.
        other = 1 if array.fill_value == 0 else 0
        metadata = dataclasses.replace(array.metadata, fill_value=array.metadata.data_type.cast_scalar(other))
        again = require_zarr().Array(type(array.async_array)(metadata=metadata, store_path=array.store_path))
        if not np.array_equal(np.asarray(again[chosen]), samples):
            raise _missing_chunk(path, "a part of a shard")


def _missing_chunk(path: Path, key: str) -> InputError:
    return InputError(
        f"the chunk {key} is missing",
        where=path,
        hint=["copy the stack again", "{fill_missing=on} if empty chunks were never written"],
        code="damaged-picture",
    )
