"""Stacks of planes that are larger than the memory, read in tiles: OME-Zarr, or TIFF files with tiles or strips."""

import dataclasses
import itertools
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from allfocus.batch.planes.tiled_tiff import read_pixel_size
from allfocus.errors import InputError
from allfocus.fusion.channels import Composite, measure_composite, sample_numbers, sample_squares
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.fusion.windows import Area
from allfocus.images.conversion import from_integers
from allfocus.images.dimensions import EACH, EVERY, Dimensions
from allfocus.images.frame_file import FrameFile
from allfocus.images.ome_zarr_folders import require_zarr
from allfocus.images.ome_zarr_planes import ZarrStack, open_array
from allfocus.images.spool import reduce_frame
from allfocus.images.stack_file import StackFile, as_colour, open_stack_file
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
    """Layers of a plane: 1 for grey, 3 for red, green and blue, else one for each channel that is taken."""
    count: int
    """Planes in the stack."""
    dtype: str
    """``uint8``, ``uint16`` or ``float32`` (0..1)."""
    tile: tuple[int, int]
    """Height and width of what is read at a time."""
    zarr: ZarrStack | None = None
    """For OME-Zarr."""
    pages: tuple[tuple[str, int], ...] = ()
    """For TIFF: the file and page of each plane, channel after channel."""
    taken: tuple[int, ...] | None = None
    """The channels that are taken, from 0; None where planes are grey or colour pictures."""
    time: int = 0
    """The point in time that is taken, from 0."""
    held: Dimensions | None = None
    """What the file says about what is taken of it."""
    composite: Composite | None = None
    """What is decided on where there are several channels; None decides on the planes as they are."""
    pixel_size: tuple[float, float] | None = None
    """Height and width of a pixel in micrometres; None where it is not known."""
    icc_profile: bytes | None = None
    fill_missing: bool = False
    """Whether chunks that an OME-Zarr lacks are empty; otherwise they are lost, and an error."""
    settings: DecisionSettings = AS_CHOSEN
    """How focus is decided on them."""

    @property
    def scale(self) -> int:
        """By how much planes are reduced where focus is decided."""
        return self.settings.scale(*self.size)

    @property
    def decided_size(self) -> tuple[int, int]:
        """Height and width there."""
        return -(-self.size[0] // self.scale), -(-self.size[1] // self.scale)

    @property
    def is_colour(self) -> bool:
        """Whether the layers are red, green and blue, read together."""
        return self.channels == 3 and self.taken is None

    @property
    def decided_shape(self) -> tuple[int, ...]:
        """Of what is decided on: (H, W) or (H, W, 3)."""
        seen = self.composite is not None and len(self.composite.chosen) > 1
        return (*self.size, 3) if seen or self.is_colour else self.size

    def only(self, layer: int) -> "PlaneStack":
        """The same planes with one channel of those that are taken, which is decided by itself."""
        if self.taken is None:
            return self
        pages = self.pages[layer * self.count : (layer + 1) * self.count]
        return dataclasses.replace(self, channels=1, taken=(self.taken[layer],), pages=pages, composite=None)

    @property
    def files(self) -> list[Path]:
        """The files that hold the planes; none for OME-Zarr, all of whose folder does."""
        return [Path(path) for path in dict.fromkeys(path for path, _ in self.pages)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each plane: (H, W), or (H, W, layers)."""
        return self.size if self.channels == 1 else (*self.size, self.channels)

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


def describe_planes(
    path: Path,
    *,
    position: str | None = None,
    time: str | None = None,
    channels: str | None = None,
    decide_by: str = EVERY,
    fill_missing: bool = False,
    settings: DecisionSettings = AS_CHOSEN,
) -> PlaneStack:
    """What a stack of planes holds, by its metadata alone, and a look at a few tiles where channels are weighed.

    Args:
        path: An OME-Zarr, a folder of TIFF files, or one multi-page TIFF.
        position: The one to take of several: its name, or its number from 1.
        time: The one to take of several: its number from 1.
        channels: Those to take of several, by name or number from 1, with commas; None takes all.
        decide_by: The channels that are decided on, the same way; ``all`` of them, or ``each`` by itself.
        fill_missing: Take chunks that an OME-Zarr lacks as empty.
        settings: How focus will be decided.

    Raises:
        InputError: It cannot be read in parts, or is no stack.
    """
    path = path.absolute()
    found = open_stack_file(path)
    position_number, time_number = _require_one(found, position, time)
    held = found.positions[position_number]
    if found.zarr and channels is None:
        held = as_colour(held)
    taken = held.choose_channels(channels)
    if held.planes < 2:
        raise InputError("has only one plane (z); a stack needs at least two", where=path, code="too-few-frames")
    chosen = dataclasses.replace(held, channels=tuple(held.channels[number] for number in taken))
    if found.zarr:
        stack = _describe_zarr_planes(path, found.zarr[position_number], chosen, taken)
    else:
        frames = [found.frames(position_number, time_number, number) for number in taken]
        stack = _describe_tiff_planes(path, frames, chosen)
    several = held.samples == 1 and (len(held.channels) > 1)
    stack = dataclasses.replace(
        stack,
        taken=tuple(taken) if several else None,
        time=time_number,
        held=chosen,
        fill_missing=fill_missing,
        settings=settings,
    )
    height, width = stack.size
    if height < 1 or width < 1 or height * width * stack.count > MOST_PIXELS:
        raise InputError(
            f"{path}: says it has {stack.count} planes of {width}x{height} pixels, more than can be; it is damaged"
        )
    if stack.channels > 1 and several and decide_by.strip().casefold() != EACH:
        deciding = chosen.choose_channels(None if decide_by.strip().casefold() == EVERY else decide_by)
        stack = dataclasses.replace(stack, composite=_measure(stack, deciding))
    return stack


def _require_one(found: StackFile, position: str | None, time: str | None) -> tuple[int, int]:
    """The position and the time that are meant, from 0."""
    positions = found.position_numbers(position)
    times = found.time_numbers(positions[0], time)
    if len(positions) > 1 or len(times) > 1:
        raise InputError(
            "planes are fused one position and time at a time; name one of each", where=found.path, code="bad-option"
        )
    return positions[0], times[0]


def _measure(stack: PlaneStack, deciding: Sequence[int]) -> Composite:
    """How the channels are seen, from squares of some planes that lie evenly over them."""
    source, scale = PlaneSource(stack), stack.scale

    def samples(layer: int) -> list[NDArray[np.float32]]:
        squares = sample_squares(stack.size)
        return [
            np.concatenate([reduce_frame(source.read_layer(index, layer, area), scale) for area in squares], axis=1)
            for index in sample_numbers(stack.count)
        ]

    return measure_composite(deciding, samples)


def _describe_zarr_planes(path: Path, stack: ZarrStack, held: Dimensions, taken: Sequence[int]) -> PlaneStack:
    _require_kind(path, stack.dtype)
    kept = 3 if held.samples == 3 else len(taken)
    chunks = dict(zip(stack.axes, stack.chunks, strict=True))
    tile = (_tile_side(chunks["y"]), _tile_side(chunks["x"]))
    _require_tile(path, tile, 3 if held.samples == 3 else 1, stack.dtype)
    return PlaneStack(
        path.name, held.size, kept, held.planes, stack.dtype, tile, zarr=stack, pixel_size=held.pixel_size
    )


def _describe_tiff_planes(path: Path, channels: Sequence[Sequence[FrameFile]], held: Dimensions) -> PlaneStack:
    import tifffile

    require_zarr()
    frames = [frame for own in channels for frame in own]
    first = frames[0]
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
            pixel_size, profile = held.pixel_size or read_pixel_size(tiff), page.iccprofile
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
        3 if first.header.channels == 3 else len(channels),
        len(channels[0]),
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
        self.scale = planes.scale
        self._sharpness = sharpness
        self._reduced = reduced
        self._tiles: OrderedDict[tuple[int, int, int, int], NDArray[Any]] = OrderedDict()
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
