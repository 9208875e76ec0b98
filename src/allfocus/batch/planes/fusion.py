"""A stack of planes larger than any memory -> one plane, block by block on a cluster, from and to OME-Zarr or TIFF."""

import dataclasses
import functools
import os
import time as clock
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from allfocus.batch.cluster import PATIENCE, Cluster
from allfocus.batch.planes.description import describe_planes
from allfocus.batch.planes.plane_stack import PlaneStack
from allfocus.batch.planes.steps import BlockSteps
from allfocus.batch.planes.tasks import (
    MAPS,
    MEASURED,
    PixelBlock,
    PlaneJob,
    cut_blocks,
    fuse_block,
    learn_depth,
    make_plan,
    map_kind,
    measure_block,
    peak_memory,
    shrink_block,
    survey_block,
    survey_side,
)
from allfocus.batch.planes.tiled_tiff import TiffLabels, write_plane_tiff
from allfocus.batch.planes.work_folder import (
    KEY,
    clear_unless_same,
    discard,
    put_beside,
    put_in_place,
    refuse_inputs,
    work_folder,
)
from allfocus.batch.stack_task import software_key
from allfocus.depth.units import DepthScale, Length, read_length
from allfocus.errors import InputError, OutputError
from allfocus.files.protection import existing_file
from allfocus.fusion.method import weights_files
from allfocus.fusion.methods import METHODS
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.images.dimensions import EVERY, Channel, Dimensions
from allfocus.images.listing import TIFF_SUFFIXES
from allfocus.images.ome_xml import describe_result
from allfocus.images.ome_zarr_folders import find_foreign, is_zarr, require_zarr
from allfocus.images.ome_zarr_results import CHUNK, ZarrResult, create_result, write_metadata
from allfocus.progress import StepProgress
from allfocus.version import __version__

BLOCK_SIDE = 4096
"""Pixels a side of what a worker fuses at a time: less than 2 GB at the peak, whatever the planes measure."""
LAYERS_OF_A_BLOCK = 3
"""Layers of a block of that side; blocks of more channels are smaller, so that they take no more memory."""


@dataclass(frozen=True)
class PlaneFusion:
    """What fusing planes gave."""

    output: Path
    """The OME-Zarr or TIFF."""
    maps: dict[str, Path]
    """The maps that were written, by their name."""
    size: tuple[int, int]
    """Height and width."""
    planes: int
    levels: int
    """The plane and its smaller copies."""
    blocks: int
    blocks_done_before: int
    """Blocks of all steps that an interrupted run had left."""
    peak_memory: int
    """Bytes: the most that a worker used."""
    seconds: float


def fuse_planes(
    planes: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    channel: int | None = None,
    channels: str | None = None,
    position: str | None = None,
    time: str | None = None,
    decide_by: str = EVERY,
    maps: Collection[str] = (),
    z_step: str | None = None,
    pixel_size: str | None = None,
    prefer: str | None = None,
    device: str = "auto",
    block: int = BLOCK_SIDE,
    scheduler: str | None = None,
    workers: int | None = None,
    memory_limit: int | None = None,
    patience: float = PATIENCE,
    fill_missing: bool = False,
    overwrite: bool = False,
    settings: DecisionSettings = AS_CHOSEN,
    progress: StepProgress | None = None,
) -> PlaneFusion:
    """One plane that is sharp wherever one of the planes is, with smaller copies; by the method ips.

    The planes are taken as registered, as microscope stages leave them. The network first sees all planes as a whole,
    reduced; with that context every block is fused as if the whole plane were, so that blocks agree: the result does
    not depend on their size. A run that was interrupted goes on where it stopped.

    Args:
        planes: An OME-Zarr with z, a folder of large TIFF files, or one multi-page TIFF (OME, ImageJ or plain).
        output: The OME-Zarr (``.zarr``) or tiled TIFF (``.tif``, ``.ome.tif``) to write; it appears when it is whole.
        channel: The only one to take of several, from 0.
        channels: Those to take of several, by name or number from 1, with commas; None takes all.
        position: The one to take of several, by name or number from 1.
        time: The one to take of several, by its number from 1.
        decide_by: The channels by which all are decided, by name or number from 1; ``all``, or ``each`` by itself.
        maps: Also write these beside the result: "depth" and its standard "error" (32-bit numbers, NaN where nothing
            can be told), "confidence" and "decision" (grey); ``x.zarr`` gets ``x_depth.zarr``.
        z_step: How far neighbouring planes are apart, such as 2.5um; None for what the file says, else steps.
        pixel_size: How far neighbouring pixels are apart; None for what the file says.
        prefer: "near" favours the first planes where planes conflict, "far" the last.
        device: "auto", "cpu" or "cuda".
        block: Pixels a side that a worker fuses at a time, a multiple of 1024; its memory grows with the square.
        scheduler: Address or scheduler file of a running Dask scheduler; None starts a cluster on this machine.
        workers: Of the local cluster; None sizes it to the machine.
        memory_limit: Bytes for each local worker.
        patience: Seconds to wait for a scheduler that is gone.
        fill_missing: Take chunks that an OME-Zarr lacks as empty, which is what Zarr says, instead of as lost.
        overwrite: Replace an OME-Zarr or a TIFF that is there already.
        settings: At which scales, in which windows and how firmly focus is decided.
        progress: Called after each block; see ``StepProgress``.

    Raises:
        InputError: The planes cannot be used.
        OutputError: The output cannot be written.
        AllfocusError: A block could not be fused; what is done is kept for the next run.
    """
    began = clock.monotonic()
    target = Path(output).absolute()
    if block < CHUNK or block % CHUNK:
        raise InputError(f"block is a multiple of {CHUNK} pixels; found {block}")
    if channel is not None and channel < 0:
        raise InputError(f"channel = {channel}; channels count from 0", code="bad-option")
    stack = describe_planes(
        Path(planes),
        position=position,
        time=time,
        channels=channels if channel is None else str(channel + 1),
        decide_by=decide_by,
        fill_missing=fill_missing,
        settings=settings,
    )
    scale = _depth_scale(stack, z_step)
    if pixel_size is not None:
        size = 1e6 * read_length(pixel_size, name="pixel_size").metres
        stack = dataclasses.replace(
            stack,
            pixel_size=(size, size),
            held=None if stack.held is None else dataclasses.replace(stack.held, pixel_size=(size, size)),
        )
    targets = {name: map_path(target, name) for name in _check_maps(maps, stack)}
    for path in (target, *targets.values()):
        refuse_inputs(path, stack.files, Path(planes).absolute() if stack.zarr else None)
        _check_place(path)
    block = block_side(block, stack.channels)
    asked: dict[str, Any] = {
        "prefer": prefer,
        "block": block,
        "software": software_key(weights_files(METHODS["ips"])),
        "maps": sorted(targets),
    }
    asked |= {"z_step": scale.places[-1:], "unit": scale.unit}
    content = [{**dataclasses.asdict(stack), "icc_profile": None}, stack.states(), asked]
    with work_folder(target) as folder:
        for path in (target, *targets.values()):
            _require_free(folder, target, path, overwrite=overwrite)
        clear_unless_same(folder, target, content)
        with Cluster(scheduler, workers=workers, memory_limit=memory_limit, patience=patience) as cluster:
            result = create_result(
                folder / "image.zarr", stack.size, stack.channels, stack.dtype, stack.zarr, chunk=CHUNK
            )
            wanted = tuple(
                (name, create_result(folder / f"{name}.zarr", stack.size, 1, map_kind(name, stack.count), None))
                for name in targets
            )
            decided = None
            if any(name in MEASURED for name in targets):
                decided = create_result(folder / "decided.zarr", stack.decided_size, 1, "int16", None)
            steps = BlockSteps(cluster, folder, progress)
            run = uuid.uuid4().hex
            for number, own in enumerate(_parts(stack)):
                depth: dict[str, Any] = {"decided": decided, "scale": scale}
                job = PlaneJob(own, str(folder), result, prefer, device, layer=number, maps=wanted, run=run, **depth)
                _fuse_in_blocks(steps, job, block)
            _shrink(steps, result, "")
            for name, made in wanted:
                _shrink(steps, made, f"{name} ")
                _finish(steps, job, made, targets[name], _map_dimensions(stack, name, scale))
            _finish(steps, job, result, target, stack.held)
        if stack.states() != content[1]:
            raise InputError(f"{planes}: was changed while it was fused; run it again when it is whole")
        for path in (target, *targets.values()):
            _require_free(folder, target, path, overwrite=overwrite)
        for name, path in targets.items():
            put_beside(folder, f"{name}.zarr" if path.suffix == ".zarr" else path.name, path, overwrite=overwrite)
        put_in_place(folder, target, overwrite=overwrite)
    return PlaneFusion(
        output=target,
        maps=targets,
        size=stack.size,
        planes=stack.count,
        levels=len(result.shapes),
        blocks=steps.blocks,
        blocks_done_before=steps.done_before,
        peak_memory=steps.peak_memory,
        seconds=clock.monotonic() - began,
    )


def block_side(asked: int, layers: int) -> int:
    """Pixels a side of a block that takes no more memory with so many layers than a colour picture takes.

    Example:
        >>> block_side(4096, 3), block_side(4096, 4), block_side(4096, 12)
        (4096, 3072, 2048)
    """
    return max(CHUNK, int(asked / max(1.0, (layers / LAYERS_OF_A_BLOCK) ** 0.5)) // CHUNK * CHUNK)


def map_path(target: Path, name: str) -> Path:
    """Where a map of a result goes.

    Example:
        >>> map_path(Path("a.ome.zarr"), "depth").name, map_path(Path("b.tif"), "depth").name
        ('a_depth.ome.zarr', 'b_depth.tif')
    """
    stem, dot, endings = target.name.partition(".")
    if endings.lower() not in ("zarr", "ome.zarr", "tif", "tiff", "ome.tif", "ome.tiff"):
        stem, dot, endings = target.stem, ".", target.suffix.lstrip(".")
    return target.with_name(f"{stem}_{name}{dot}{endings}")


def _check_maps(maps: Collection[str], stack: PlaneStack) -> list[str]:
    unknown = [name for name in maps if name not in MAPS]
    if unknown:
        raise InputError(f"planes have no {unknown[0]} maps; there are {', '.join(MAPS)}", code="bad-option")
    if maps and len(_parts(stack)) > 1:
        raise InputError(
            "each channel is decided by itself, so there is no one map of them",
            hint=["{decide_by=default}", "leave out the maps"],
            code="method-cannot",
        )
    return [name for name in MAPS if name in maps]


def _parts(stack: PlaneStack) -> list[PlaneStack]:
    """What is decided at once: all of it, or each channel by itself."""
    together = stack.taken is None or stack.composite is not None or stack.channels == 1
    return [stack] if together else [stack.only(layer) for layer in range(stack.channels)]


def _depth_scale(stack: PlaneStack, z_step: str | None) -> DepthScale:
    """What a step is: as asked for, or as the file says."""
    if z_step is not None:
        return DepthScale.of_step(read_length(z_step), range(stack.count))
    if stack.held is not None and stack.held.z_step is not None:
        return DepthScale.of_step(Length(abs(stack.held.z_step), "um"), range(stack.count))
    return DepthScale.in_steps(stack.count)


def _map_dimensions(stack: PlaneStack, name: str, scale: DepthScale) -> Dimensions:
    channel = Channel(f"{name} ({scale.unit})" if name in MEASURED else name)
    own: dict[str, Any] = {"channels": (channel,), "samples": 1, "dtype": map_kind(name, stack.count)}
    return dataclasses.replace(stack.held or Dimensions(name, stack.size, stack.dtype), **own)


def _fuse_in_blocks(steps: BlockSteps, job: PlaneJob, block: int) -> None:
    stack = job.planes
    which = f" {job.layer}" if job.layer else ""
    steps.run(f"surveying{which}", survey_block, job, cut_blocks(stack.size, survey_side(stack)))
    steps.run(f"planning{which}", _plan_once, job, [(0, 0, 0, 0)])
    steps.run(f"fusing{which}", fuse_block, job, cut_blocks(stack.size, block))
    if job.decided is not None:
        steps.run("learning depth", _learn_once, job, [(0, 0, 0, 0)])
        steps.run("measuring", measure_block, job, cut_blocks(stack.size, block))


def _shrink(steps: BlockSteps, result: ZarrResult, name: str) -> None:
    for level, shape in enumerate(result.shapes[1:], start=1):
        sides = dict(zip(result.axes, shape, strict=True))
        shrink = functools.partial(_shrink_level, level)
        steps.run(f"shrinking {name}{level}", shrink, result, cut_blocks((sides["y"], sides["x"]), 2 * CHUNK))


def _finish(steps: BlockSteps, job: PlaneJob, result: ZarrResult, target: Path, held: Dimensions | None) -> None:
    """Makes the fused blocks a whole OME-Zarr or TIFF, still in the work folder."""
    stack = job.planes
    history = f"fused by allfocus {__version__} from {stack.count} planes with ips"
    name = target.name.split(".")[0]
    known = held or Dimensions(name, stack.size, stack.dtype, samples=3 if stack.is_colour else 1)
    known = dataclasses.replace(known, pixel_size=known.pixel_size or stack.pixel_size, planes=stack.count, times=1)
    described, origin = describe_result(known, history)
    if described.name.isdecimal():
        described = dataclasses.replace(described, name=name)
    picture = held is stack.held
    if target.suffix == ".zarr":
        like = stack.zarr if picture else None
        ranges = [] if stack.zarr else _ranges(result)
        options: dict[str, Any] = {"channels": stack.taken, "origin": origin.to_plain(), "ranges": ranges}
        write_metadata(result, like, name=name, history=history, dimensions=described, **options)
    else:
        profile = stack.icc_profile if picture else None
        labels = TiffLabels(described, origin, f"allfocus {__version__}", profile)
        write = functools.partial(_write_tiff_once, target.name, labels, job.folder)
        steps.run(f"writing {target.name}", write, result, [(0, 0, 0, 0)])


def _ranges(result: ZarrResult) -> list[tuple[float, float]]:
    """The values between which a viewer shows each layer, from the smallest copy."""
    array = require_zarr().open_group(result.path, mode="r")[str(len(result.shapes) - 1)]
    found = []
    for layer in range(result.layers):
        values = np.asarray(array[result.slices(slice(None), slice(None), layer)])
        known = values[np.isfinite(values)]
        low, high = (float(value) for value in np.quantile(known, (0.001, 0.999))) if known.size else (0.0, 1.0)
        found.append((low, max(high, low + 1e-6)))
    return found


def _plan_once(job: PlaneJob, block: PixelBlock) -> int:
    del block
    return make_plan(job)


def _learn_once(job: PlaneJob, block: PixelBlock) -> int:
    del block
    return learn_depth(job)


def _shrink_level(level: int, result: ZarrResult, block: PixelBlock) -> int:
    return shrink_block(result, level, block)


def _write_tiff_once(name: str, labels: TiffLabels, folder: str, result: ZarrResult, block: PixelBlock) -> int:
    del block
    write_plane_tiff(result, Path(folder, name), labels)
    return peak_memory()


def _check_place(target: Path) -> None:
    if target.suffix not in (".zarr", *TIFF_SUFFIXES):
        raise OutputError(f"{target}: planes are written as OME-Zarr or TIFF; give a name that ends in .zarr or .tif")
    if not os.path.isdir(target.parent):
        raise OutputError(f"{target}: the folder {target.parent} does not exist; make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{target}: the folder {target.parent} is read-only; choose another")


def _require_free(folder: Path, target: Path, path: Path, *, overwrite: bool) -> None:
    """Raise OutputError when what lies at a path may not be replaced; a work folder made for nothing goes again."""
    try:
        _check_target(path, overwrite=overwrite)
    except OutputError:
        if not (folder / KEY).exists():  # nothing of an interrupted run is in it
            discard(folder, target)
        raise


def _check_target(target: Path, *, overwrite: bool) -> None:
    if os.path.lexists(target) and not overwrite:
        raise existing_file(target)
    same_kind = target.is_dir() and is_zarr(target) if target.suffix == ".zarr" else target.is_file()
    if os.path.lexists(target) and not same_kind:
        kind = "Zarr" if target.suffix == ".zarr" else "file"
        raise OutputError(f"{target}: exists and is no {kind}; it will not be replaced, choose another name")
    foreign = find_foreign(target) if target.suffix == ".zarr" and same_kind else None
    if foreign is not None:
        raise OutputError(f"{target}: holds {foreign}, which is no part of a Zarr; move it away, then run again")
