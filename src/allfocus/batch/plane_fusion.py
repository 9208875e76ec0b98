"""A stack of planes larger than any memory -> one plane, block by block on a cluster, from and to OME-Zarr."""

import dataclasses
import functools
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allfocus.batch.cluster import PATIENCE, Cluster, Lost
from allfocus.batch.ome_zarr_files import CHUNK, create_result, is_zarr, write_metadata
from allfocus.batch.plane_reading import describe_planes
from allfocus.batch.plane_tasks import (
    Block,
    PlaneJob,
    cut_blocks,
    fuse_block,
    make_plan,
    shrink_block,
    survey_block,
    survey_side,
)
from allfocus.errors import AllfocusError, InputError, OutputError
from allfocus.version import __version__

BLOCK_SIDE = 4096
"""Pixels a side of what a worker fuses at a time: about 1.5 GB at the peak, whatever the planes measure."""

Progress = Callable[[str, int, int], None]
"""Called with the step ("surveying", "planning", "fusing", "shrinking 1" ...), blocks done, and blocks in all."""


@dataclass(frozen=True)
class PlaneFusion:
    """What fusing planes gave."""

    output: Path
    """The OME-Zarr."""
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
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PlaneFusion:
    """One plane that is sharp wherever one of the planes is, as OME-Zarr with smaller copies; by the method ips.

    The planes are taken as registered, as microscope stages leave them. The network first sees all planes as a whole,
    reduced; with that context every block is fused as if the whole plane were, so that blocks agree: the result does
    not depend on their size. A run that was interrupted goes on where it stopped.

    Args:
        planes: An OME-Zarr with z, a folder of large TIFF files, or one multi-page TIFF.
        output: The OME-Zarr to write; it appears when it is whole.
        channel: The one to take of several, from 0; three are taken as red, green and blue.
        prefer: "near" favours the first planes where planes conflict, "far" the last.
        device: "auto", "cpu" or "cuda".
        block: Pixels a side that a worker fuses at a time, a multiple of 1024; its memory grows with the square.
        scheduler: Address or scheduler file of a running Dask scheduler; None starts a cluster on this machine.
        workers: Of the local cluster; None sizes it to the machine.
        memory_limit: Bytes for each local worker.
        patience: Seconds to wait for a scheduler that is gone.
        overwrite: Replace an OME-Zarr that is there already.
        progress: Called after each block; see ``Progress``.

    Raises:
        InputError: The planes cannot be used.
        OutputError: The output cannot be written.
        AllfocusError: A block could not be fused; what is done is kept for the next run.
    """
    began = time.monotonic()
    target = Path(output).absolute()
    if block < CHUNK or block % CHUNK:
        raise InputError(f"block is a multiple of {CHUNK} pixels; found {block}")
    stack = describe_planes(Path(planes), channel=channel)
    _check_target(target, overwrite=overwrite)
    settings = {"prefer": prefer, "block": block, "version": __version__}
    folder = _open_work_folder(target, [dataclasses.asdict(stack), stack.states(), settings])
    result = create_result(folder / "image.zarr", stack.size, stack.channels, stack.dtype, stack.zarr, chunk=CHUNK)
    job = PlaneJob(stack, str(folder), result, prefer, device)
    with Cluster(scheduler, workers=workers, memory_limit=memory_limit, patience=patience) as cluster:
        steps = _Steps(cluster, folder, progress)
        steps.run("surveying", survey_block, job, cut_blocks(stack.size, survey_side(stack)))
        steps.run("planning", _plan_once, job, [(0, 0, 0, 0)])
        steps.run("fusing", fuse_block, job, cut_blocks(stack.size, block))
        for level, shape in enumerate(result.shapes[1:], start=1):
            sides = dict(zip(result.axes, shape, strict=True))
            shrink = functools.partial(_shrink_level, level)
            steps.run(f"shrinking {level}", shrink, job, cut_blocks((sides["y"], sides["x"]), 2 * CHUNK))
    history = f"fused by allfocus {__version__} from {stack.count} planes with ips"
    write_metadata(result, stack.zarr, name=target.name.split(".")[0], history=history)
    _put_in_place(folder, target)
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


def _plan_once(job: PlaneJob, block: Block) -> int:
    del block
    return make_plan(job)


def _shrink_level(level: int, job: PlaneJob, block: Block) -> int:
    return shrink_block(job, level, block)


class _Steps:
    """Runs one step after the other, each on all its blocks, and remembers which blocks are done."""

    def __init__(self, cluster: Cluster, folder: Path, progress: Progress | None) -> None:
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
            markers[waiting[number]].touch()
            done += 1
            self._progress(step, done, len(blocks))


@dataclass(frozen=True)
class _Call:
    """A function with its job, which can be sent to a worker."""

    function: Callable[[PlaneJob, Block], int]
    job: PlaneJob

    def __call__(self, block: Block) -> int:
        return self.function(self.job, block)


def _check_target(target: Path, *, overwrite: bool) -> None:
    if target.suffix != ".zarr":
        raise OutputError(f"{target}: planes are written as OME-Zarr; give a name that ends in .zarr")
    if not target.parent.is_dir():
        raise OutputError(f"{target}: the folder {target.parent} does not exist; make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise OutputError(f"{target}: the folder {target.parent} is read-only; choose another")
    if os.path.lexists(target) and not overwrite:
        raise OutputError(f"{target}: exists already; choose another name or allow it to be overwritten (--overwrite)")
    if os.path.lexists(target) and not (target.is_dir() and is_zarr(target)):
        raise OutputError(f"{target}: exists and is no Zarr; it will not be replaced, choose another name")


def _open_work_folder(target: Path, content: list[Any]) -> Path:
    """The folder beside the target in which a run works; what another kind of run left there is cleared away."""
    folder = target.with_name(f".{target.name}.partial")
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    known = folder / "key.txt"
    try:
        if folder.exists() and not (known.is_file() and known.read_text() == key):
            shutil.rmtree(folder)
        for name in ("survey", "done"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        known.write_text(key)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error
    return folder


def _put_in_place(folder: Path, target: Path) -> None:
    old = folder / "replaced.zarr"
    if target.exists():
        target.rename(old)
    (folder / "image.zarr").rename(target)
    shutil.rmtree(folder)
