"""Stacks of planes that are larger than the memory, read in tiles: OME-Zarr, or TIFF files with tiles or strips."""

import dataclasses
import itertools
import os
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from allfocus.batch.planes.ome_zarr_files import (
    ZarrStack,
    describe_zarr,
    is_zarr,
    pixel_size_of,
    require_chunks,
    require_zarr,
)
from allfocus.batch.planes.tiled_tiff import read_pixel_size
from allfocus.errors import InputError
from allfocus.fusion.frame_source import decision_scale
from allfocus.fusion.windows import Area
from allfocus.images.conversion import from_integers
from allfocus.images.reading import FrameFile, list_frames
from allfocus.images.spool import reduce_frame
from allfocus.images.tiff_decoder import require_segments

CACHE_BYTES = 400_000_000
"""Tiles that a worker keeps, so that windows that overlap do not unpack them again."""
SMALLEST_TILE = 512
"""Smaller chunks are read several at a time."""
LARGEST_TILE_BYTES = 200_000_000
MOST_PIXELS = 10**14
"""Of all planes together: what a header says beyond that is no size."""
KINDS = ("uint8", "uint16", "float32")


@dataclass(frozen=True)
class PlaneStack:
    """Where the planes lie and what they hold; small enough to send to a worker, whatever their size."""

    name: str
    size: tuple[int, int]
    """Height and width."""
    channels: int
    """1 (grey) or 3 (red, green, blue)."""
    count: int
    """Planes in the stack."""
    dtype: str
    """``uint8``, ``uint16`` or ``float32`` (0..1)."""
    tile: tuple[int, int]
    """Height and width of what is read at a time."""
    zarr: ZarrStack | None = None
    """For OME-Zarr."""
    pages: tuple[tuple[str, int], ...] = ()
    """For TIFF: the file and page of each plane."""
    channel: int | None = None
    """The one channel to take of several; None takes all."""
    pixel_size: tuple[float, float] | None = None
    """Height and width of a pixel in micrometres; None where it is not known."""
    icc_profile: bytes | None = None
    fill_missing: bool = False
    """Whether chunks that an OME-Zarr lacks are empty; otherwise they are lost, and an error."""

    @property
    def files(self) -> list[Path]:
        """The files that hold the planes; none for OME-Zarr, all of whose folder does."""
        return [Path(path) for path in dict.fromkeys(path for path, _ in self.pages)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each plane: (H, W) or (H, W, 3)."""
        return self.size if self.channels == 1 else (*self.size, 3)

    def states(self) -> list[Any]:
        """What changes when the planes do, as far as can be told without reading them.

        Sizes and times of the files; of Zarr only those of its metadata, because it may have millions of files.
        """
        files = [Path(path) for path, _ in self.pages]
        if self.zarr is not None:
            group = Path(self.zarr.path)
            files = [folder / name for folder in (group, group / self.zarr.array) for name in ("zarr.json", ".zarray")]
        found = [os.stat(path) for path in files if path.exists()]
        return [[state.st_size, state.st_mtime_ns] for state in found]


def describe_planes(path: Path, *, channel: int | None = None, fill_missing: bool = False) -> PlaneStack:
    """What a stack of planes holds, by its metadata alone.

    Args:
        path: An OME-Zarr, a folder of TIFF files, or one multi-page TIFF.
        channel: The one to take of several, from 0; by default three are red, green and blue.
        fill_missing: Take chunks that an OME-Zarr lacks as empty.

    Raises:
        InputError: It cannot be read in parts, or is no stack.
    """
    path = path.absolute()
    if path.is_dir() and is_zarr(path):
        stack = dataclasses.replace(_describe_zarr_planes(path, channel), fill_missing=fill_missing)
    else:
        stack = _describe_tiff_planes(path, channel)
    height, width = stack.size
    if height < 1 or width < 1 or height * width * stack.count > MOST_PIXELS:
        raise InputError(
            f"{path}: says it has {stack.count} planes of {width}x{height} pixels, more than can be; it is damaged"
        )
    return stack


def _describe_zarr_planes(path: Path, channel: int | None) -> PlaneStack:
    stack = describe_zarr(path)
    channels = stack.size_of("c")
    if stack.size_of("t") > 1:
        raise InputError(f"{path}: holds {stack.size_of('t')} points in time; a stack has one: save one of them")
    if stack.size_of("z") < 2:
        raise InputError(f"{path}: has only one plane (z); a stack needs at least two")
    if channel is not None and not 0 <= channel < channels:
        raise InputError(f"{path}: has no channel {channel}; its channels are 0 to {channels - 1}")
    if channel is None and channels not in (1, 3):
        raise InputError(
            f"has {channels} channels", where=path, hint=f"{{channel}} to one of 0 to {channels - 1}", code="bad-option"
        )
    _require_kind(path, stack.dtype)
    kept = channels if channel is None else 1
    chunks = dict(zip(stack.axes, stack.chunks, strict=True))
    tile = (_tile_side(chunks["y"]), _tile_side(chunks["x"]))
    _require_tile(path, tile, kept, stack.dtype)
    size = (stack.size_of("y"), stack.size_of("x"))
    return PlaneStack(
        path.name,
        size,
        kept,
        stack.size_of("z"),
        stack.dtype,
        tile,
        zarr=stack,
        channel=channel,
        pixel_size=pixel_size_of(stack),
    )


def _describe_tiff_planes(path: Path, channel: int | None) -> PlaneStack:
    import tifffile

    require_zarr()
    frames = list_frames(path)
    first = frames[0]
    if len(frames) < 2:
        raise InputError(f"{path}: has only one plane; a stack needs at least two")
    if channel is not None:
        raise InputError(f"{path}: a channel can be chosen only in OME-Zarr; save one channel as TIFF")
    for frame in frames:
        _require_plain(frame)
        if frame.header.size != first.header.size or frame.header.channels != first.header.channels:
            raise InputError(
                f"planes differ: {first.name} is {first.width}x{first.height}, {frame.name} is "
                f"{frame.width}x{frame.height}; all planes of a stack need one size and one number of channels"
            )
    try:
        with tifffile.TiffFile(first.path) as tiff:
            page: Any = tiff.pages[first.page]
            dtype, chunks = _dtype_of(page), page.chunks
            pixel_size, profile = read_pixel_size(tiff), page.iccprofile
    except tifffile.TiffFileError as error:
        raise InputError(f"{first.path}: is no TIFF file; planes are read in parts from TIFF or OME-Zarr") from error
    _require_kind(first.path, dtype)
    for path_of_file, group in itertools.groupby(frames, key=lambda frame: frame.path):
        _require_same_kind(path_of_file, list(group), dtype, first.name)
    tile = (_tile_side(int(chunks[0])), _tile_side(int(chunks[1])))
    _require_tile(first.path, tile, first.header.channels, dtype)
    pages = tuple((str(frame.path.absolute()), frame.page) for frame in frames)
    return PlaneStack(
        path.stem,
        first.header.size,
        first.header.channels,
        len(frames),
        dtype,
        tile,
        pages=pages,
        pixel_size=pixel_size,
        icc_profile=profile,
    )


def _require_plain(frame: FrameFile) -> None:
    """Raise InputError when a plane is turned, which parts of it cannot be."""
    if frame.header.orientation != 1:
        raise InputError(f"{frame.path}: {frame.name} is turned by its orientation tag; save it upright")


def _dtype_of(page: Any) -> str:
    """The type of the samples in the byte order of this machine."""
    return str(page.dtype.newbyteorder("=")) if page.dtype is not None else "?"


def _require_same_kind(path: Path, frames: list[FrameFile], dtype: str, first: str) -> None:
    """Raise InputError when a plane of a file is not stored as the first plane of the stack is.

    Planes are read as they are stored, so one of another type, or with white as zero, would be read as something else.
    """
    import tifffile

    try:
        with tifffile.TiffFile(path) as tiff:
            for frame in frames:
                page: Any = tiff.pages[frame.page]
                photometric = str(getattr(page.photometric, "name", page.photometric))
                colour = page.axes == "YXS" and page.samplesperpixel == 3 and photometric == "RGB"
                if not colour and not (page.axes == "YX" and photometric == "MINISBLACK"):
                    raise InputError(
                        f"{path}: {frame.name} is {photometric} with the axes {page.axes}; only grey with black as "
                        "zero and RGB without alpha can be read in parts; save it so"
                    )
                if _dtype_of(page) != dtype:
                    raise InputError(
                        f"{path}: planes differ: {first} holds {dtype}, {frame.name} {_dtype_of(page)}; save all of "
                        "them with the same number of bits"
                    )
                if page.bitspersample not in (8, 16, 32):
                    raise InputError(
                        f"{path}: {frame.name} has {page.bitspersample} bits per sample; save it with 8 or 16"
                    )
    except (tifffile.TiffFileError, IndexError) as error:
        raise InputError(f"{path}: is no TIFF file; planes are read in parts from TIFF or OME-Zarr") from error


def _require_kind(path: Path, dtype: str) -> None:
    if dtype not in KINDS:
        raise InputError(f"{path}: holds {dtype}; uint8, uint16 and float32 (0..1) can be fused")


def _tile_side(chunk: int) -> int:
    return chunk * -(-SMALLEST_TILE // chunk)


def _require_tile(path: Path, tile: tuple[int, int], channels: int, dtype: str) -> None:
    size = tile[0] * tile[1] * channels * np.dtype(dtype).itemsize
    if size > LARGEST_TILE_BYTES:
        raise InputError(
            f"{path}: its pieces are {tile[1]}x{tile[0]} pixels ({size // 10**6} MB), too large to read in parts; save "
            "it with tiles or chunks of about 1024 pixels a side"
        )


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
        self._scale = decision_scale(*planes.size)
        self._sharpness = sharpness
        self._reduced = reduced
        self._tiles: OrderedDict[tuple[int, int, int], NDArray[Any]] = OrderedDict()
        self._held = 0
        self._arrays: dict[int, Any] = {}
        self._checked: dict[int, tuple[Any, BinaryIO]] = {}
        self._stores: list[Any] = []
        # Files stay open as long as the reader lives, and no longer.
        weakref.finalize(self, _close_all, self._stores)
        # Workers of somebody else's cluster may have several threads.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return self.planes.count

    def read(self, index: int, area: Area) -> NDArray[np.float32]:
        """Returns an area of a plane at full scale."""
        return from_integers(self.read_levels(index, area))

    def read_reduced(self, index: int, area: Area, level: int = 0) -> NDArray[np.float32]:
        """Returns an area of a plane at a level: from the survey where that is the one it has, else from its pixels."""
        if self._reduced is not None and self._reduced[1] == 2**level:
            return self._reduced[0][index][area]
        factor = self._scale * 2**level
        rows, columns = (
            slice((side.start or 0) * factor, length if side.stop is None else min(side.stop * factor, length))
            for side, length in zip(area, self.planes.size, strict=True)
        )
        reduced = reduce_frame(self.read(index, (rows, columns)), self._scale)
        for _ in range(level):
            reduced = reduce_frame(np.ascontiguousarray(reduced), 2)
        return reduced

    def read_valid(self, index: int, area: Area) -> NDArray[np.bool_] | None:
        """Returns None: planes have pixels everywhere."""
        return None

    def sharpness(self) -> NDArray[np.float32]:
        """Returns the sharpness of each plane in blocks."""
        if self._sharpness is None:
            raise ValueError("the sharpness of the planes has not been measured")
        return self._sharpness

    def read_levels(self, index: int, area: Area) -> NDArray[Any]:
        """Returns an area of a plane as it is stored."""
        rows, columns = area
        height, width = self.planes.tile
        result = np.empty((rows.stop - rows.start, columns.stop - columns.start, *self.shape[2:]), self.planes.dtype)
        for row in range(rows.start // height, -(-rows.stop // height)):
            for column in range(columns.start // width, -(-columns.stop // width)):
                tile = self._tile(index, row, column)
                top, left = row * height, column * width
                first, last = max(rows.start, top), min(rows.stop, top + tile.shape[0])
                begin, end = max(columns.start, left), min(columns.stop, left + tile.shape[1])
                result[first - rows.start : last - rows.start, begin - columns.start : end - columns.start] = tile[
                    first - top : last - top, begin - left : end - left
                ]
        return result

    def _tile(self, index: int, row: int, column: int) -> NDArray[Any]:
        key = (index, row, column)
        with self._lock:
            if key in self._tiles:
                self._tiles.move_to_end(key)
                return self._tiles[key]
            tile = self._load(index, row, column)
            self._tiles[key] = tile
            self._held += tile.nbytes
            while self._held > CACHE_BYTES and len(self._tiles) > 1:
                _, dropped = self._tiles.popitem(last=False)
                self._held -= dropped.nbytes
            return tile

    def _load(self, index: int, row: int, column: int) -> NDArray[Any]:
        height, width = self.planes.tile
        rows = slice(row * height, min((row + 1) * height, self.planes.size[0]))
        columns = slice(column * width, min((column + 1) * width, self.planes.size[1]))
        try:
            tile = self._load_zarr(index, rows, columns) if self.planes.zarr else self._load_tiff(index, rows, columns)
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

    def _load_zarr(self, index: int, rows: slice, columns: slice) -> NDArray[Any]:
        stack = self.planes.zarr
        if stack is None:
            raise ValueError("the planes are not OME-Zarr")
        everything = slice(None) if self.planes.channel is None else self.planes.channel
        places: dict[str, Any] = {"t": 0, "c": everything, "z": index, "y": rows, "x": columns}
        chosen = tuple(places[axis] for axis in stack.axes)
        samples = np.asarray(self._zarr_array[chosen])
        if not self.planes.fill_missing:
            require_chunks(self._zarr_array, chosen, samples, Path(stack.path, stack.array))
        left = [axis for axis in stack.axes if not isinstance(places[axis], int)]
        samples = np.moveaxis(samples, [left.index("y"), left.index("x")], [0, 1])
        return samples if self.planes.channels == 3 else samples.reshape(samples.shape[:2])

    @cached_property
    def _zarr_array(self) -> Any:
        stack = self.planes.zarr
        if stack is None:
            raise ValueError("the planes are not OME-Zarr")
        return require_zarr().open_group(stack.path, mode="r")[stack.array]

    def _load_tiff(self, index: int, rows: slice, columns: slice) -> NDArray[Any]:
        samples = self._page(index)[rows, columns]
        page, file = self._checked[index]
        require_segments(page, file, LARGEST_TILE_BYTES, chosen=_tiles_of(page, rows, columns))
        return np.asarray(samples)

    def _page(self, index: int) -> Any:
        """One page of a TIFF file as an array that reads only the tiles it is asked for."""
        if index not in self._arrays:
            import tifffile

            path, number = self.planes.pages[index]
            tiff = tifffile.TiffFile(path)
            self._stores.append(tiff)
            page: Any = tiff.pages[number]
            store = page.aszarr()
            self._stores.append(store)
            self._arrays[index] = require_zarr().open_array(store, mode="r")
            file = open(path, "rb")  # noqa: SIM115 (closed with the others)
            self._stores.append(file)
            self._checked[index] = (page, file)
        return self._arrays[index]


def _tiles_of(page: Any, rows: slice, columns: slice) -> set[int]:
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
