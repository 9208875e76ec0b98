"""A stack of planes larger than any memory -> one plane, block by block on a cluster, from and to OME-Zarr or TIFF."""

import dataclasses
import functools
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allfocus.batch.cluster import PATIENCE, Cluster, Lost
from allfocus.batch.planes.ome_zarr_files import CHUNK, create_result, find_foreign, is_zarr, write_metadata
from allfocus.batch.planes.reading import describe_planes
from allfocus.batch.planes.tasks import (
    Block,
    PlaneJob,
    cut_blocks,
    fuse_block,
    make_plan,
    peak_memory,
    shrink_block,
    survey_block,
    survey_side,
)
from allfocus.batch.planes.tiled_tiff import ENDINGS as TIFF_ENDINGS
from allfocus.batch.planes.tiled_tiff import TiffLabels, write_plane_tiff
from allfocus.batch.planes.work_folder import (
    KEY,
    clear_unless_same,
    discard,
    put_in_place,
    refuse_inputs,
    work_folder,
)
from allfocus.batch.stack_task import software_key
from allfocus.errors import AllfocusError, InputError, OutputError
from allfocus.files.protection import existing_file
from allfocus.progress import StepProgress
from allfocus.version import __version__

BLOCK_SIDE = 4096
"""Pixels a side of what a worker fuses at a time: about 1.5 GB at the peak, whatever the planes measure."""


@dataclass(frozen=True)
class PlaneFusion:
    """What fusing planes gave."""

    output: Path
    """The OME-Zarr or TIFF."""
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
    prefer: str | None = None,
    device: str = "auto",
    block: int = BLOCK_SIDE,
    scheduler: str | None = None,
    workers: int | None = None,
    memory_limit: int | None = None,
    patience: float = PATIENCE,
    fill_missing: bool = False,
    overwrite: bool = False,
    progress: StepProgress | None = None,
) -> PlaneFusion:
    """One plane that is sharp wherever one of the planes is, with smaller copies; by the method ips.

    The planes are taken as registered, as microscope stages leave them. The network first sees all planes as a whole,
    reduced; with that context every block is fused as if the whole plane were, so that blocks agree: the result does
    not depend on their size. A run that was interrupted goes on where it stopped.

    Args:
        planes: An OME-Zarr with z, a folder of large TIFF files, or one multi-page TIFF.
        output: The OME-Zarr (``.zarr``) or tiled TIFF (``.tif``, ``.ome.tif``) to write; it appears when it is whole.
        channel: The one to take of several, from 0; three are taken as red, green and blue.
        prefer: "near" favours the first planes where planes conflict, "far" the last.
        device: "auto", "cpu" or "cuda".
        block: Pixels a side that a worker fuses at a time, a multiple of 1024; its memory grows with the square.
        scheduler: Address or scheduler file of a running Dask scheduler; None starts a cluster on this machine.
        workers: Of the local cluster; None sizes it to the machine.
        memory_limit: Bytes for each local worker.
        patience: Seconds to wait for a scheduler that is gone.
        fill_missing: Take chunks that an OME-Zarr lacks as empty, which is what Zarr says, instead of as lost.
        overwrite: Replace an OME-Zarr or a TIFF that is there already.
        progress: Called after each block; see ``StepProgress``.

    Raises:
        InputError: The planes cannot be used.
        OutputError: The output cannot be written.
        AllfocusError: A block could not be fused; what is done is kept for the next run.
    """
    began = time.monotonic()
    target = Path(output).absolute()
    if block < CHUNK or block % CHUNK:
        raise InputError(f"block is a multiple of {CHUNK} pixels; found {block}")
    stack = describe_planes(Path(planes), channel=channel, fill_missing=fill_missing)
    refuse_inputs(target, stack.files, Path(planes).absolute() if stack.zarr else None)
    _check_place(target)
    settings = {"prefer": prefer, "block": block, "software": software_key("ips")}
    content = [{**dataclasses.asdict(stack), "icc_profile": None}, stack.states(), settings]
    with work_folder(target) as folder:
        _require_free(folder, target, overwrite=overwrite)
        clear_unless_same(folder, target, content)
        with Cluster(scheduler, workers=workers, memory_limit=memory_limit, patience=patience) as cluster:
            result = create_result(
                folder / "image.zarr", stack.size, stack.channels, stack.dtype, stack.zarr, chunk=CHUNK
            )
            job = PlaneJob(stack, str(folder), result, prefer, device, uuid.uuid4().hex)
            steps = _Steps(cluster, folder, progress)
            _fuse_in_blocks(steps, job, block)
            _finish(steps, job, target)
        if stack.states() != content[1]:
            raise InputError(f"{planes}: was changed while it was fused; run it again when it is whole")
        _require_free(folder, target, overwrite=overwrite)
        put_in_place(folder, target, overwrite=overwrite)
    return PlaneFusion(
        output=target,
        size=stack.size,
        planes=stack.count,
        levels=len(result.shapes),
        blocks=steps.blocks,
        blocks_done_before=steps.done_before,
        peak_memory=steps.peak_memory,
        seconds=time.monotonic() - began,
    )


def _fuse_in_blocks(steps: "_Steps", job: PlaneJob, block: int) -> None:
    stack, result = job.planes, job.result
    steps.run("surveying", survey_block, job, cut_blocks(stack.size, survey_side(stack)))
    steps.run("planning", _plan_once, job, [(0, 0, 0, 0)])
    steps.run("fusing", fuse_block, job, cut_blocks(stack.size, block))
    for level, shape in enumerate(result.shapes[1:], start=1):
        sides = dict(zip(result.axes, shape, strict=True))
        shrink = functools.partial(_shrink_level, level)
        steps.run(f"shrinking {level}", shrink, job, cut_blocks((sides["y"], sides["x"]), 2 * CHUNK))


def _finish(steps: "_Steps", job: PlaneJob, target: Path) -> None:
    """Makes the fused blocks a whole OME-Zarr or TIFF, still in the work folder."""
    stack = job.planes
    history = f"fused by allfocus {__version__} from {stack.count} planes with ips"
    name = target.name.split(".")[0]
    if target.suffix == ".zarr":
        options: dict[str, Any] = {"channel": stack.channel, "pixel_size": stack.pixel_size}
        write_metadata(job.result, stack.zarr, name=name, history=history, **options)
    else:
        labels = TiffLabels(name, history, stack.pixel_size, stack.icc_profile)
        steps.run("writing", functools.partial(_write_tiff_once, target.name, labels), job, [(0, 0, 0, 0)])


def _plan_once(job: PlaneJob, block: Block) -> int:
    del block
    return make_plan(job)


def _shrink_level(level: int, job: PlaneJob, block: Block) -> int:
    return shrink_block(job, level, block)


def _write_tiff_once(name: str, labels: TiffLabels, job: PlaneJob, block: Block) -> int:
    del block
    write_plane_tiff(job.result, Path(job.folder, name), labels)
    return peak_memory()


class _Steps:
    """Runs one step after the other, each on all its blocks, and remembers which blocks are done."""

    def __init__(self, cluster: Cluster, folder: Path, progress: StepProgress | None) -> None:
        self._cluster = cluster
        self._folder = folder
        self._progress = progress or (lambda step, done, count: None)
        self.blocks = 0
        self.done_before = 0
        self.peak_memory = 0

    def run(self, step: str, function: Callable[[PlaneJob, Block], int], job: PlaneJob, blocks: list[Block]) -> None:
        """Has a step done on the blocks that are not done yet."""
        markers = {block: self._folder / "done" / f"{step} {block[0]} {block[2]}" for block in blocks}
        waiting = [block for block in blocks if not markers[block].exists()]
        self.blocks += len(blocks)
        self.done_before += len(blocks) - len(waiting)
        done = len(blocks) - len(waiting)
        for number, outcome in self._cluster.run_all(_Call(function, job), waiting):
            if isinstance(outcome, Lost):
                raise AllfocusError(
                    f"{step} failed at rows {waiting[number][0]} to {waiting[number][1]}, columns {waiting[number][2]} "
                    f"to {waiting[number][3]}: {outcome.reason} (run the same command again to go on)"
                )
            self.peak_memory = max(self.peak_memory, outcome)
            try:
                markers[waiting[number]].touch()
            except OSError as error:
                raise OutputError(f"{self._folder}: cannot be written ({error.strerror}); free some space") from error
            done += 1
            self._progress(step, done, len(blocks))


@dataclass(frozen=True)
class _Call:
    """A function with its job, which can be sent to a worker."""

    function: Callable[[PlaneJob, Block], int]
    job: PlaneJob

    def __call__(self, block: Block) -> int:
        return self.function(self.job, block)


def _check_place(target: Path) -> None:
    if target.suffix not in (".zarr", *TIFF_ENDINGS):
        raise OutputError(f"{target}: planes are written as OME-Zarr or TIFF; give a name that ends in .zarr or .tif")
    if not os.path.isdir(target.parent):
        raise OutputError(f"{target}: the folder {target.parent} does not exist; make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{target}: the folder {target.parent} is read-only; choose another")


def _require_free(folder: Path, target: Path, *, overwrite: bool) -> None:
    """Raise OutputError when what lies at the target may not be replaced; a work folder made for nothing goes again."""
    try:
        _check_target(target, overwrite=overwrite)
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
