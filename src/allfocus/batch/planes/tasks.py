"""What workers do with planes larger than the memory, one block at a time; blocks agree because the plan is one.

Survey (how sharp, and how it looks from afar) -> plan -> fused blocks -> their depth -> smaller copies. Every step
reads from and writes to files that all workers share; what comes back is a few numbers.
"""

import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.batch.planes.plain_files import pack, unpack
from allfocus.batch.planes.plane_stack import PlaneStack
from allfocus.batch.planes.reading import PlaneSource
from allfocus.depth.measurement import CurveShape, FusedStack, enlarge_map, learn_shape, measure_tile, reduce_decision
from allfocus.depth.units import DepthScale
from allfocus.fusion.areas import fuse_area
from allfocus.fusion.inference import choose_device
from allfocus.fusion.planning import Plan, plan_fusion, plan_levels
from allfocus.fusion.windows import BLOCK, Area, block_sharpness
from allfocus.images.conversion import from_integers
from allfocus.images.ome_zarr_folders import require_zarr
from allfocus.images.ome_zarr_results import ZarrResult
from allfocus.images.spool import reduce_frame, reduce_known
from allfocus.images.writing import replace_file, to_integers

MEASURED_SIDE = 512
"""Pixels a side of what depth is measured of at a time, at the scale at which it is measured."""
SURVEY_SIDE = 2048
"""Pixels a side of the blocks in which planes are surveyed."""

PixelBlock = tuple[int, int, int, int]
"""First row, behind the last row, first column, behind the last column."""


MAPS = ("depth", "error", "confidence", "decision")
"""What can be written beside the picture: depth and its standard error as 32-bit numbers, the rest as grey."""
MEASURED = ("depth", "error")
"""Those that are measured once the whole plane is fused."""


def map_kind(name: str, planes: int) -> str:
    """The type of the samples of a map.

    Example:
        >>> map_kind("depth", 20), map_kind("decision", 20)
        ('float32', 'uint8')
    """
    if name in MEASURED:
        return "float32"
    return "uint16" if name == "decision" and planes > 256 else "uint8"


@dataclass(frozen=True)
class PlaneJob:
    """What every task of one job shares."""

    planes: PlaneStack
    folder: str
    """Where the tasks leave what the others need."""
    result: ZarrResult
    prefer: str | None = None
    device: str = "auto"
    layer: int = 0
    """The first layer of the result that is written: more than 0 where each channel is decided by itself."""
    maps: tuple[tuple[str, ZarrResult], ...] = ()
    """Maps to write beside the picture: a name out of :data:`MAPS`, and where."""
    decided: ZarrResult | None = None
    """Where the decision goes, at the scale at which depth is measured; None where no depth is asked for."""
    scale: DepthScale | None = None
    """What a step is, for depth."""
    run: str = ""
    """Tells one run from another: a worker may outlive several, and what it holds of the planes may have changed."""


def context_factor(planes: PlaneStack) -> int:
    """By how much a plane is reduced, beyond the scale of decision, for the network to see all planes as a whole."""
    finest, _ = plan_levels(planes.decided_size, planes.count, planes.settings)
    return int(2**finest)


def survey_side(planes: PlaneStack) -> int:
    """Side of a block of the survey: so large that it is whole blocks of sharpness and whole pixels of the context."""
    return max(SURVEY_SIDE, planes.scale * context_factor(planes))


def cut_blocks(size: tuple[int, int], side: int) -> list[PixelBlock]:
    """Squares that cover a plane, row by row.

    Example:
        >>> cut_blocks((5, 8), 6)
        [(0, 5, 0, 6), (0, 5, 6, 8)]
    """
    height, width = size
    return [
        (top, min(top + side, height), left, min(left + side, width))
        for top in range(0, height, side)
        for left in range(0, width, side)
    ]


def survey_block(job: PlaneJob, block: PixelBlock) -> int:
    """Measures the sharpness of every plane in a block and reduces it; both go into a file. Returns the peak memory."""
    source = _source(job.planes, job.run)
    scale, factor = job.planes.scale, context_factor(job.planes)
    sharpness, reduced = [], []
    margin = BLOCK * scale  # one more block all around, because the measure looks a few pixels beyond
    grown, cells = _grow(block, margin, job.planes.size, scale)
    for index in range(len(source)):
        part = source.read_decided(index, _area(grown))
        sharpness.append(block_sharpness(np.ascontiguousarray(part))[cells])
        own = part[_inside(block, grown, scale)]
        for _ in range(factor.bit_length() - 1):
            own = reduce_frame(np.ascontiguousarray(own), 2)
        reduced.append(own)
    path = _survey_path(job, block)
    temporary = path.with_suffix(".part.npz")
    np.savez(temporary, sharpness=np.stack(sharpness), reduced=np.stack(reduced))
    temporary.replace(path)
    return peak_memory()


def _grow(block: PixelBlock, margin: int, size: tuple[int, int], scale: int) -> tuple[PixelBlock, tuple[slice, slice]]:
    """The block with a margin as far as the plane goes, and which cells of sharpness are then its own."""
    grown, cells = [], []
    for first, last, length in ((block[0], block[1], size[0]), (block[2], block[3], size[1])):
        start = max(0, first - margin)
        grown += [start, min(length, last + margin)]
        skipped = (first - start) // (BLOCK * scale)
        cells.append(slice(skipped, skipped - (-(last - first) // (BLOCK * scale))))
    return (grown[0], grown[1], grown[2], grown[3]), (cells[0], cells[1])


def _inside(block: PixelBlock, grown: PixelBlock, scale: int) -> tuple[slice, slice]:
    top, left = (block[0] - grown[0]) // scale, (block[2] - grown[2]) // scale
    return (
        slice(top, top - (-(block[1] - block[0]) // scale)),
        slice(left, left - (-(block[3] - block[2]) // scale)),
    )


def make_plan(job: PlaneJob) -> int:
    """Plans the fusion from the survey, and leaves the plan in a file. Returns the peak memory."""
    source = _surveyed_source(job)
    # Haze is not removed from channels that are decided together: what the network sees of it is the composite's.
    unveil = job.planes.composite is None
    plan = plan_fusion(
        source, prefer=job.prefer, unveil=unveil, device=choose_device(job.device), settings=job.planes.settings
    )
    replace_file(_plan_path(job), pack(plan), overwrite=True)
    return peak_memory()


def _surveyed_source(job: PlaneJob) -> PlaneSource:
    """The planes with what the survey found, put together; without it where a plane is small enough to need none."""
    blocks = cut_blocks(job.planes.size, survey_side(job.planes))
    if not all(_survey_path(job, block).exists() for block in blocks):
        return PlaneSource(job.planes)
    scale, factor = job.planes.scale, context_factor(job.planes)
    height, width = job.planes.size
    cell, pixel = BLOCK * scale, factor * scale
    count = job.planes.count
    sharpness = np.empty((count, -(-height // cell), -(-width // cell)), np.float32)
    reduced = np.empty((count, -(-height // pixel), -(-width // pixel), *job.planes.decided_shape[2:]), np.float32)
    for block in blocks:
        with np.load(_survey_path(job, block)) as found:
            for whole, step, name in ((sharpness, cell, "sharpness"), (reduced, pixel, "reduced")):
                part = found[name]
                top, left = block[0] // step, block[2] // step
                whole[:, top : top + part.shape[1], left : left + part.shape[2]] = part
    return PlaneSource(job.planes, sharpness=sharpness, reduced=(list(reduced), factor))


def fuse_block(job: PlaneJob, block: PixelBlock) -> int:
    """Fuses a block and writes it into the result. Returns the peak memory."""
    path = _plan_path(job)
    plan = _read_plan(path, path.stat().st_mtime_ns)
    maps = fuse_area(plan, _source(job.planes, job.run), _area(block), device=choose_device(job.device))
    if job.decided is not None:
        scale = job.planes.scale
        small = reduce_decision(maps.decision, scale)
        top, left = block[0] // scale, block[2] // scale
        _write(job.decided, 0, (top, top + small.shape[0], left, left + small.shape[1]), small[..., None])
    for name, result in job.maps:
        if name in MEASURED:
            continue
        values = getattr(maps, name) / (np.float32(max(1, job.planes.count - 1)) if name == "decision" else 1)
        _write(result, 0, block, _samples(values, map_kind(name, job.planes.count))[..., None])
    image = maps.image if maps.image.ndim == 3 else maps.image[..., None]
    del maps
    for layer in range(image.shape[2]):  # one after the other, so that only one is there twice
        samples = _samples(image[..., layer], job.planes.dtype)
        _write(job.result, 0, block, samples[..., None], first=job.layer + layer)
    return peak_memory()


def learn_depth(job: PlaneJob) -> int:
    """Learns the shape of the focus curves from the fused plane, and leaves it in a file. Returns the peak memory."""
    replace_file(_shape_path(job), pack(learn_shape(_fused_stack(job))), overwrite=True)
    return peak_memory()


def measure_block(job: PlaneJob, block: PixelBlock) -> int:
    """Measures the depth of a block of the fused plane and writes it. Returns the peak memory."""
    path = _shape_path(job)
    shape = unpack(path.read_bytes(), CurveShape, path=path)
    stack, steps = _fused_stack(job), job.scale or DepthScale.in_steps(job.planes.count)
    # One pixel more all around, because what lies between two pixels is between their depths.
    top, left = block[0] // stack.scale, block[2] // stack.scale
    bottom, right = -(-block[1] // stack.scale), -(-block[3] // stack.scale)
    first, last = max(0, top - 1), min(stack.size[0], bottom + 1)
    begin, end = max(0, left - 1), min(stack.size[1], right + 1)
    position, error = (np.full((last - first, end - begin), np.nan, np.float32) for _ in range(2))
    for row, below, column, beside in cut_blocks(position.shape, MEASURED_SIDE):
        tile = first + row, first + below, begin + column, begin + beside
        position[row:below, column:beside], error[row:below, column:beside] = measure_tile(stack, tile, shape)
    inside = (
        slice(block[0] - first * stack.scale, block[1] - first * stack.scale),
        slice(block[2] - begin * stack.scale, block[3] - begin * stack.scale),
    )
    full = position.shape[0] * stack.scale, position.shape[1] * stack.scale
    depth, deviation = (enlarge_map(own, full)[inside] for own in (position, error))
    values = {"depth": steps.convert(depth), "error": steps.convert_error(deviation, depth)}
    for name, result in job.maps:
        if name in MEASURED:
            _write(result, 0, block, values[name][..., None])
    return peak_memory()


def _fused_stack(job: PlaneJob) -> FusedStack:
    """The planes with what fusing them gave, as depth is measured on them: on what they were decided on."""
    planes, scale = job.planes, job.planes.scale
    zarr = require_zarr()
    fused = zarr.open_group(job.result.path, mode="r")["0"]
    if job.decided is None:
        raise ValueError("the decision was not kept")
    kept = job.decided
    decided = zarr.open_group(kept.path, mode="r")["0"]

    def read_layer(layer: int, area: Area) -> NDArray[np.float32]:
        rows, columns = (
            slice(side.start * scale, min(side.stop * scale, length))
            for side, length in zip(area, planes.size, strict=True)
        )
        samples = np.asarray(fused[job.result.slices(rows, columns, job.layer + layer)])
        full = samples.reshape(rows.stop - rows.start, columns.stop - columns.start)
        return reduce_frame(np.ascontiguousarray(from_integers(full)), scale)

    def read_fused(area: Area) -> tuple[NDArray[np.integer], NDArray[np.float32]]:
        if planes.composite is not None:
            picture = planes.composite.compose(lambda layer: read_layer(layer, area))
        elif planes.is_colour:
            picture = np.stack([read_layer(layer, area) for layer in range(3)], axis=-1)
        else:
            picture = read_layer(0, area)
        seen = np.asarray(picture, np.float32)
        return np.asarray(decided[kept.slices(*area)], np.int16).reshape(seen.shape[:2]), seen

    return FusedStack(_DecidedSource(_source(planes, job.run)), read_fused, scale)


class _DecidedSource:
    """What planes are decided on, as frames of their own."""

    def __init__(self, source: PlaneSource) -> None:
        self._source = source
        self.shape = source.planes.decided_shape

    def __len__(self) -> int:
        return len(self._source)

    def read_reduced(self, index: int, area: Area) -> NDArray[np.float32]:
        """Returns an area of a frame."""
        return self._source.read_reduced(index, area)


def _samples(pixels: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """Values in 0..1 as they are stored."""
    if dtype == "float32":
        return np.clip(pixels, 0, 1)
    return to_integers(pixels, 8 * np.dtype(dtype).itemsize)


def shrink_block(result: ZarrResult, level: int, block: PixelBlock) -> int:
    """Writes a block of a smaller copy, from the next larger one. Returns the peak memory."""
    array = require_zarr().open_group(result.path, mode="r")[str(level - 1)]
    axes = result.axes
    height, width = (array.shape[axes.index(axis)] for axis in "yx")
    rows = slice(2 * block[0], min(2 * block[1], height))
    columns = slice(2 * block[2], min(2 * block[3], width))
    for layer in range(result.layers):
        larger = np.asarray(array[result.slices(rows, columns, layer)]).reshape(
            rows.stop - rows.start, columns.stop - columns.start
        )
        smaller = reduce_known(np.ascontiguousarray(larger, np.float32))
        samples = smaller if larger.dtype.kind == "f" else np.rint(smaller)
        _write(result, level, block, samples.astype(larger.dtype)[..., None], first=layer)
    return peak_memory()


def _write(result: ZarrResult, level: int, block: PixelBlock, samples: NDArray[Any], *, first: int = 0) -> None:
    """Writes samples (H, W, layers) of a block into the layers of a result from a first one on."""
    array = require_zarr().open_group(result.path, mode="r+")[str(level)]
    rows, columns = _area(block)
    for number in range(samples.shape[2]):
        where = result.slices(rows, columns, first + number)
        shape = tuple({"y": samples.shape[0], "x": samples.shape[1]}.get(axis, 1) for axis in result.axes)
        array[where] = samples[..., number].reshape(shape)


def _area(block: PixelBlock) -> tuple[slice, slice]:
    return slice(block[0], block[1]), slice(block[2], block[3])


def _survey_path(job: PlaneJob, block: PixelBlock) -> Path:
    return Path(job.folder, "survey", f"{block[0]}_{block[2]}{_tag(job)}.npz")


def _tag(job: PlaneJob) -> str:
    """What tells the files of one channel from those of another, where each is decided by itself."""
    return f"_{job.layer}" if job.layer else ""


@functools.lru_cache(maxsize=1)
def _source(planes: PlaneStack, run: str) -> PlaneSource:
    """The planes, kept between the blocks of a run for the tiles it holds."""
    del run  # part of the key
    return PlaneSource(planes)


@functools.lru_cache(maxsize=1)
def _read_plan(path: Path, changed: int) -> Plan:
    del changed  # part of the key: another run may leave another plan there
    return unpack(path.read_bytes(), Plan, path=path)


def _plan_path(job: PlaneJob) -> Path:
    return Path(job.folder, "survey" if job.layer else "", f"plan{_tag(job)}.npz")


def _shape_path(job: PlaneJob) -> Path:
    return Path(job.folder, "survey", "depth.npz")


def peak_memory() -> int:
    """The most memory that this process has used, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
