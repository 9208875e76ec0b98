"""A path -> what its planes are, by their metadata: OME-Zarr, or TIFF files with tiles or strips."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allfocus.batch.planes.plane_stack import PlaneStack
from allfocus.batch.planes.reading import LARGEST_TILE_BYTES, PlaneSource
from allfocus.batch.planes.tiled_tiff import read_pixel_size
from allfocus.errors import InputError
from allfocus.fusion.channels import Composite, measure_composite, sample_numbers, sample_squares
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.images.colour_profile import wrong_space
from allfocus.images.dimensions import EACH, EVERY, Dimensions
from allfocus.images.frame_file import FrameFile
from allfocus.images.ome_zarr_folders import require_zarr
from allfocus.images.ome_zarr_planes import ZarrStack
from allfocus.images.spool import reduce_frame
from allfocus.images.stack_file import StackFile, as_colour, open_stack_file
from allfocus.images.tiff_series import page_of

if TYPE_CHECKING:
    from tifffile import TiffPage

SMALLEST_TILE = 512
"""Smaller chunks are read several at a time."""

MOST_PIXELS = 10**14
"""Of all planes together: what a header says beyond that is no size."""

KINDS = ("uint8", "uint16", "float32")


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
        files=() if found.zarr else tuple(str(file.absolute()) for file in found.inputs),
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
            page = page_of(tiff, first.page)
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
        icc_profile=None if profile and wrong_space(profile, colour=first.is_colour) else profile,
    )


def _require_plain(frame: FrameFile) -> None:
    """Raise InputError when a plane is turned, which parts of it cannot be."""
    if frame.header.orientation != 1:
        raise InputError(f"{frame.path}: {frame.name} is turned by its orientation tag; save it upright")


def _dtype_of(page: "TiffPage") -> str:
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
                page = page_of(tiff, frame.page)
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
