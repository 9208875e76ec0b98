"""Stacks of planes that are larger than the memory, read in tiles: OME-Zarr, or TIFF files with tiles or strips."""

import threading
import weakref
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from allfocus.batch.planes.plane_stack import PlaneStack
from allfocus.errors import InputError
from allfocus.fusion.windows import Area
from allfocus.images.conversion import from_integers
from allfocus.images.ome_zarr_folders import require_zarr
from allfocus.images.ome_zarr_planes import open_array
from allfocus.images.spool import reduce_frame
from allfocus.images.tiff_decoder import require_segments
from allfocus.images.tiff_series import page_of

if TYPE_CHECKING:
    from tifffile import TiffPage

CACHE_BYTES = 400_000_000
"""Tiles that a worker keeps, so that windows that overlap do not unpack them again."""
LARGEST_TILE_BYTES = 200_000_000


class PlaneSource:
    """The planes as a source for fusion (:class:`allfocus.fusion.frame_source.FrameSource`), read in tiles.

    Args:
        planes: What to read.
        sharpness: Of all planes in blocks, where it has been measured.
        reduced: Each plane as a whole, reduced by a factor beyond the scale at which focus is decided; with the factor.
    """

    def __init__(
        self,
        planes: PlaneStack,
        *,
        sharpness: NDArray[np.float32] | None = None,
        reduced: tuple[list[NDArray[np.float32]], int] | None = None,
    ) -> None:
        self.planes = planes
        self.shape = planes.shape
        self.scale = planes.scale
        self._sharpness = sharpness
        self._reduced = reduced
        self._tiles: OrderedDict[tuple[int, int, int, int], NDArray[Any]] = OrderedDict()
        self._held = 0
        self._arrays: dict[int, Any] = {}
        self._checked: dict[int, tuple[TiffPage, BinaryIO]] = {}
        self._stores: list[Any] = []
        # Files stay open as long as the reader lives, and no longer.
        weakref.finalize(self, _close_all, self._stores)
        # Workers of somebody else's cluster may have several threads.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return self.planes.count

    def read(self, index: int, area: Area) -> NDArray[np.float32]:
        """Returns an area of a plane at full scale, with all its layers."""
        return from_integers(self.read_levels(index, area))

    def read_layer(self, index: int, layer: int, area: Area) -> NDArray[np.float32]:
        """Returns an area (h, w) of one channel of a plane at full scale."""
        return from_integers(self._read_part(index, layer, area))

    def read_decided(self, index: int, area: Area, halvings: int = 0) -> NDArray[np.float32]:
        """Returns what is decided on of an area of a plane, (h, w) or (h, w, 3), at the scale of decision.

        Args:
            index: Of the plane.
            area: At full scale.
            halvings: By how many more halves it is reduced.
        """
        composite = self.planes.composite
        if composite is None:
            return self._reduce(self.read(index, area), halvings)
        # Reduced first, channel by channel: a composite at full scale would be the most that a worker holds.
        return composite.compose(lambda layer: self._reduce(self.read_layer(index, layer, area), halvings))

    def _reduce(self, part: NDArray[np.float32], halvings: int) -> NDArray[np.float32]:
        reduced = reduce_frame(part, self.scale)
        for _ in range(halvings):
            reduced = reduce_frame(np.ascontiguousarray(reduced), 2)
        return reduced

    def read_reduced(self, index: int, area: Area, level: int = 0) -> NDArray[np.float32]:
        """Returns an area of a plane at a level: from the survey where that is the one it has, else from its pixels."""
        if self._reduced is not None and self._reduced[1] == 2**level:
            return self._reduced[0][index][area]
        factor = self.scale * 2**level
        rows, columns = (
            slice((side.start or 0) * factor, length if side.stop is None else min(side.stop * factor, length))
            for side, length in zip(area, self.planes.size, strict=True)
        )
        return self.read_decided(index, (rows, columns), level)

    def read_valid(self, index: int, area: Area) -> NDArray[np.bool_] | None:
        """Returns None: planes have pixels everywhere."""
        return None

    def sharpness(self) -> NDArray[np.float32]:
        """Returns the sharpness of each plane in blocks."""
        if self._sharpness is None:
            raise ValueError("the sharpness of the planes has not been measured")
        return self._sharpness

    def read_levels(self, index: int, area: Area) -> NDArray[Any]:
        """Returns an area of a plane as it is stored, with all its layers."""
        if self.planes.channels == 1 or self.planes.is_colour:
            return self._read_part(index, 0, area)
        return np.stack([self._read_part(index, layer, area) for layer in range(self.planes.channels)], axis=-1)

    def _read_part(self, index: int, layer: int, area: Area) -> NDArray[Any]:
        """Returns an area of one channel, or of a colour picture, as it is stored."""
        rows, columns = area
        height, width = self.planes.tile
        colours = (3,) if self.planes.is_colour else ()
        result = np.empty((rows.stop - rows.start, columns.stop - columns.start, *colours), self.planes.dtype)
        for row in range(rows.start // height, -(-rows.stop // height)):
            for column in range(columns.start // width, -(-columns.stop // width)):
                tile = self._tile(index, layer, row, column)
                top, left = row * height, column * width
                first, last = max(rows.start, top), min(rows.stop, top + tile.shape[0])
                begin, end = max(columns.start, left), min(columns.stop, left + tile.shape[1])
                result[first - rows.start : last - rows.start, begin - columns.start : end - columns.start] = tile[
                    first - top : last - top, begin - left : end - left
                ]
        return result

    def _tile(self, index: int, layer: int, row: int, column: int) -> NDArray[Any]:
        key = (index, layer, row, column)
        with self._lock:
            if key in self._tiles:
                self._tiles.move_to_end(key)
                return self._tiles[key]
            tile = self._load(index, layer, row, column)
            self._tiles[key] = tile
            self._held += tile.nbytes
            while self._held > CACHE_BYTES and len(self._tiles) > 1:
                _, dropped = self._tiles.popitem(last=False)
                self._held -= dropped.nbytes
            return tile

    def _load(self, index: int, layer: int, row: int, column: int) -> NDArray[Any]:
        height, width = self.planes.tile
        rows = slice(row * height, min((row + 1) * height, self.planes.size[0]))
        columns = slice(column * width, min((column + 1) * width, self.planes.size[1]))
        try:
            load = self._load_zarr if self.planes.zarr else self._load_tiff
            tile = load(index, layer, rows, columns)
        except InputError:
            raise
        except Exception as error:  # each codec fails in its own way
            raise InputError(
                f"{self.planes.name}: plane {index + 1} cannot be read at rows {rows.start} to {rows.stop}, columns "
                f"{columns.start} to {columns.stop} ({type(error).__name__}: {error}); the file is damaged or gone"
            ) from error
        if tile.dtype.newbyteorder("=") != np.dtype(self.planes.dtype):
            raise InputError(f"{self.planes.name}: plane {index + 1} holds {tile.dtype}, not {self.planes.dtype}")
        tile = np.ascontiguousarray(tile, self.planes.dtype)  # in the byte order of this machine
        if tile.dtype.kind == "f" and not (tile.min() >= 0 and tile.max() <= 1):
            raise InputError(
                f"{self.planes.name}: plane {index + 1} holds values from {tile.min():g} to {tile.max():g}; floating "
                "point must be in 0..1"
            )
        return tile

    def _load_zarr(self, index: int, layer: int, rows: slice, columns: slice) -> NDArray[Any]:
        stack, taken = self.planes.zarr, self.planes.taken
        if stack is None:
            raise ValueError("the planes are not OME-Zarr")
        channel = None if self.planes.is_colour else (0 if taken is None else taken[layer])
        plane = stack.plane(self.planes.time, channel, index)
        return plane.read(rows, columns, array=self._zarr_array, fill_missing=self.planes.fill_missing)

    @cached_property
    def _zarr_array(self) -> Any:
        stack = self.planes.zarr
        if stack is None:
            raise ValueError("the planes are not OME-Zarr")
        return open_array(stack)

    def _load_tiff(self, index: int, layer: int, rows: slice, columns: slice) -> NDArray[Any]:
        number = layer * self.planes.count + index
        samples = self._page(number)[rows, columns]
        page, file = self._checked[number]
        require_segments(page, file, LARGEST_TILE_BYTES, chosen=_tiles_of(page, rows, columns))
        return np.asarray(samples)

    def _page(self, index: int) -> Any:
        """One page of a TIFF file as an array that reads only the tiles it is asked for."""
        if index not in self._arrays:
            import tifffile

            path, number = self.planes.pages[index]
            tiff = tifffile.TiffFile(path)
            self._stores.append(tiff)
            page = page_of(tiff, number)
            store = page.aszarr()
            self._stores.append(store)
            self._arrays[index] = require_zarr().open_array(store, mode="r")
            file = open(path, "rb")  # noqa: SIM115 (closed with the others)
            self._stores.append(file)
            self._checked[index] = (page, file)
        return self._arrays[index]


def _tiles_of(page: "TiffPage", rows: slice, columns: slice) -> set[int]:
    """The numbers of the strips or tiles of a page that an area lies in."""
    height, width = page.chunks[:2]
    across = page.chunked[1]
    found = range(rows.start // height, -(-rows.stop // height))
    return {
        row * across + column for row in found for column in range(columns.start // width, -(-columns.stop // width))
    }


def _close_all(stores: list[Any]) -> None:
    for store in reversed(stores):
        store.close()
