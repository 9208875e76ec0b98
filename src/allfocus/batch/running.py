"""A batch: every stack below a folder fused once, on a cluster, with what was done written down as it is done."""

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from allfocus.batch.batch_run import BatchRun
from allfocus.batch.checks import check_seconds, prepare_output
from allfocus.batch.cluster import PATIENCE, Cluster
from allfocus.batch.manifest import FILE_NAME, BatchManifest, frame_states, settings_key
from allfocus.batch.outcome import BatchListener, BatchResult
from allfocus.batch.result_names import DEFAULT, check_template, name_result
from allfocus.batch.stack_task import StackTask, software_key
from allfocus.batch.stacks import DEFAULT_GAP, Stack, find_stacks, require_folder
from allfocus.batch.summary import SHEET_NAME, SUMMARY_NAME
from allfocus.errors import InputError, OutputError
from allfocus.files.protection import InputFiles
from allfocus.images.limits import Storing
from allfocus.images.ome_zarr_folders import is_zarr
from allfocus.images.writing import check_output, default_ending
from allfocus.stack.options import FuseOptions
from allfocus.stack.outputs import FuseOutputs


def fuse_stacks(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    by: str = "folder",
    gap: float = DEFAULT_GAP,
    size: int | None = None,
    manifest: str | os.PathLike[str] | None = None,
    options: FuseOptions | None = None,
    maps: Collection[str] = (),
    ending: str | None = None,
    name: str = DEFAULT,
    scheduler: str | None = None,
    workers: int | None = None,
    memory_limit: int | None = None,
    patience: float = PATIENCE,
    overwrite: bool = False,
    watch: bool = False,
    settle: float = 10.0,
    stop_after: float | None = None,
    progress: BatchListener | None = None,
    notice: Callable[[str], None] | None = None,
) -> BatchResult:
    """Every stack below a folder, fused; a second run fuses only what is missing or has changed.

    Args:
        folder: The top of a tree of pictures.
        output: The folder for the results, made if need be. It may lie inside the other one.
        by: What makes a stack; see ``allfocus.batch.stacks.find_stacks``, also for the next three.
        gap: Seconds between shots that begin a new stack.
        size: Frames in each stack, where they are counted off.
        manifest: A CSV file that lists the stacks.
        options: How to fuse; by default as ``allfocus.fuse_files`` does.
        maps: What to write beside each result, out of depth, confidence, check, veil, decision and report.
        ending: Of the results, like ".tif"; by default that of the first frame where it can be written, else ".png".
        name: What results are called, without the ending; ``allfocus.batch.result_names.VALUES`` lists what can stand
            in braces.
        scheduler: Address or scheduler file of a running Dask scheduler; None starts a cluster on this machine.
        workers: Of the local cluster; None sizes it to the machine.
        memory_limit: Bytes for each local worker.
        patience: Seconds to wait for a scheduler that is gone.
        overwrite: Also replace results that this batch did not make, or that were edited since, when their stack must
            be fused; and begin in a folder that holds other things under our names.
        watch: Go on looking for new stacks until interrupted.
        settle: While watching, seconds without a change after which a stack is complete.
        stop_after: While watching, seconds without anything to do after which to end; None never does.
        progress: Called with where the batch stands, several times a second.
        notice: Called with a sentence about each picture that belongs to no stack.

    Raises:
        InputError: The folder, an option or the method cannot be used. (A bad stack is a row of the result instead.)
        OutputError: The output cannot be written.
        MissingDependencyError: Dask is not installed.

    Example:
        >>> import tempfile
        >>> import allfocus
        >>> scene = allfocus.render_scene("desk", frames=2, size=(64, 80))
        >>> with tempfile.TemporaryDirectory() as place:
        ...     Path(place, "shots/beetle").mkdir(parents=True)
        ...     for number, frame in enumerate(scene.frames):
        ...         _ = allfocus.write_image(frame, f"{place}/shots/beetle/{number}.png")
        ...     options = allfocus.FuseOptions(method="average", align=False)
        ...     first = fuse_stacks(f"{place}/shots", f"{place}/out", options=options, workers=1)
        ...     second = fuse_stacks(f"{place}/shots", f"{place}/out", options=options, workers=1)
        >>> [row.output for row in first.fused], len(second.fused), len(second.unchanged)
        (['beetle.png'], 0, 1)
    """
    # Imported here because it brings in the numerical libraries, which a wrong option should not wait for.
    from allfocus.fusion.method import weights_files
    from allfocus.fusion.method_choice import absolute_name, require_method

    chosen = options or FuseOptions()
    # Workers have folders of their own.
    chosen = replace(chosen, method=absolute_name(chosen.method))
    if chosen.dark is not None:
        chosen = replace(chosen, dark=os.path.abspath(chosen.dark))
    root, target = require_folder(folder), Path(output).absolute()
    probe = FuseOutputs.beside(target / f"result{ending or '.png'}", "result", maps)
    method = require_method(chosen.method, **chosen.demands(probe))
    check_template(name)
    check_seconds(settle=settle, patience=patience, stop_after=stop_after)
    if os.path.realpath(target) == os.path.realpath(root):
        raise OutputError(f"{output}: is the folder of the frames, and results would be taken for frames; name another")

    left_out: dict[Path, str] = {}

    def leave_out(path: Path, reason: str) -> None:
        if left_out.get(path) != reason and notice is not None:
            notice(f"left out {path.relative_to(root)}: {reason}")
        left_out[path] = reason

    def look() -> list[Stack]:
        return find_stacks(
            root,
            by=by,
            gap=gap,
            size=size,
            manifest=manifest,
            skip=target,
            pairs=chosen.pairs,
            on_left_out=leave_out,
        )

    stacks = look()
    if not stacks and not watch:
        raise _nothing_to_fuse(folder, left_out)
    inputs = [Path(manifest)] if manifest is not None else []
    pages = [target / name for name in (SUMMARY_NAME, SHEET_NAME, FILE_NAME)]
    InputFiles([*inputs, *(frame for stack in stacks for frame in stack.frames)]).refuse(pages)
    prepare_output(target, overwrite=overwrite)
    # What the frames are, RAW or not, and by that the format of a result without an ending, is seen stack by stack.
    storing: Storing = chosen.storing() if ending else {"quality": chosen.quality}
    check_output(probe.picture, overwrite=True, in_camera_colours=True, **storing)
    software = software_key(weights_files(method))
    dark = None if chosen.dark is None else [chosen.dark, frame_states([Path(chosen.dark)], root)]
    key = settings_key({**chosen.settings(), "dark": dark, "maps": sorted(maps)}, software)

    def task_of(stack: Stack) -> StackTask:
        label = name_result(name, stack, chosen.method)
        return StackTask(
            name=stack.name,
            frames=tuple(map(str, stack.frames)),
            root=str(root),
            folder=str(target),
            output=label + (ending or default_ending(stack.frames[0])),
            options=chosen,
            settings_key=key,
            kinds=tuple(maps),
            software=software,
            label=Path(label).name,
        )

    with BatchManifest(target).opened() as records:
        run = BatchRun(root, target, records, task_of, inputs=inputs, overwrite=overwrite, progress=progress)
        try:
            if not watch:
                run.plan(stacks)
            if watch or run.tasks:
                with Cluster(scheduler, workers=workers, memory_limit=memory_limit, patience=patience) as cluster:
                    try:
                        if watch:
                            run.watch(cluster, look, settle=settle, stop_after=stop_after)
                        else:
                            run.fuse_all(cluster)
                    except KeyboardInterrupt:
                        run.take(cluster.collect_finished())
                        raise
            run.tell(None)
        finally:
            run.write_summary()
    taken = {frame for stack in stacks for frame in stack.frames}
    return replace(run.result(), left_out={path: why for path, why in left_out.items() if path not in taken})


def _nothing_to_fuse(folder: str | os.PathLike[str], left_out: dict[Path, str]) -> InputError:
    """Says why a folder holds no stack, and what may help."""
    if left_out:
        path, reason = next(iter(left_out.items()))
        return InputError(
            f"none of its {len(left_out)} pictures belongs to a stack; the first: {path.name}: {reason}",
            where=folder,
            hint="find stacks by folder, by time or by number",
            code="too-few-frames",
        )
    cures = ["check the folder", "{watch=on} to wait"]
    cure = ["name an output that ends in .zarr or .tif"] if is_zarr(require_folder(folder)) else cures
    return InputError("no pictures were found below it", where=folder, hint=cure, code="no-such-file")
