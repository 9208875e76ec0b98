"""``allfocus batch``: every stack of a folder, on this machine or on a cluster."""

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allfocus.cli.after import AfterStacks, after_option
from allfocus.cli.fusion_options import fusion_options, map_flag, map_options, preset_option, take_kinds
from allfocus.cli.interruption import INTERRUPTED, ending_at_once
from allfocus.cli.printing import (
    echo,
    json_option,
    overwrite_option,
    print_json,
    print_notice,
    print_result,
    printable,
    progress_bar,
    verbosity,
    verbosity_options,
)
from allfocus.cli.sizes import parse_bytes
from allfocus.errors import InputError
from allfocus.stack.command_words import option_flags
from allfocus.stack.option_fields import BATCH
from allfocus.stack.options import FuseOptions, offered
from allfocus.stack.outputs import KINDS

if TYPE_CHECKING:
    from rich.table import Table

    from allfocus.batch.manifest import StackRecord
    from allfocus.batch.outcome import BatchListener, BatchProgress, BatchResult
    from allfocus.batch.stacks import Stack

PLANE_MAPS = ("depth", "error", "confidence", "decision")
"""Maps that planes have too."""
PLANES_TAKE = (
    *("prefer", "device", "position", "time", "channels", "decide_by", "z_step", "pixel_size"),
    *(f"{kind}_maps" for kind in PLANE_MAPS),
)
"""Options of a fusion that planes have too."""
ONLY_FOR_STACKS = (
    *("by", "gap", "size", "manifest", "watch", "settle", "stop_after", "ending", "name_template", "after", "dry_run"),
    *(name for name in offered(BATCH) if name not in PLANES_TAKE),
    *(f"{kind}_maps" for kind in KINDS if kind not in PLANE_MAPS),
)
"""Options that say nothing about planes; given with them, they are a mistake."""
ROWS = 8
"""Stacks that the live table shows."""


LEAST_MEMORY = 10**8
"""Bytes that a worker needs to begin at all."""
MOST_MEMORY = 10**18


def parse_memory(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Bytes of a text like 3GB, 2.5GiB or 800MB."""
    if value is None:
        return None
    size = parse_bytes(value)
    if size < LEAST_MEMORY:
        raise click.BadParameter(f"{value!r} is too little memory for a worker; give 100MB or more", context, parameter)
    if size >= MOST_MEMORY:
        raise click.BadParameter(f"{value!r} is more memory than a machine can have; give less", context, parameter)
    return size


@click.command(short_help="Fuse all stacks of a folder, also on a cluster.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder for the results; for planes a .zarr or .tif.",
)
@click.option(
    "--by",
    type=click.Choice(["folder", "file", "time", "number", "auto"]),
    default="folder",
    show_default=True,
    help="What makes a stack: a folder, a multi-page file, EXIF times without a gap, numbers without a gap; auto goes "
    "by what the camera noted (focus bracketing, exposure, focus, time) and what the pictures show.",
)
@click.option(
    "--gap",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds between two frames that begin a new stack (--by time, --by auto).",
)
@click.option("--size", type=click.IntRange(min=2), help="Frames in each stack, counted off (--by number).")
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    help="A CSV file with the columns stack and frame that lists the stacks, in place of --by.",
)
@click.option("--dry-run", is_flag=True, help="Only show the stacks that were found.")
@click.option("--scheduler", help="Address or scheduler file of a running Dask scheduler, like tcp://host:8786.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes on this machine; default: what it can hold.")
@click.option(
    "--memory", "memory_limit", callback=parse_memory, help="Memory of each process on this machine, like 3GB."
)
@click.option(
    "--patience", type=float, default=120.0, show_default=True, help="Seconds to wait for a scheduler that is gone."
)
@click.option("--watch", is_flag=True, help="Go on fusing new stacks as they arrive, until Ctrl-C.")
@click.option(
    "--settle", type=float, default=10.0, show_default=True, help="Seconds without a change that end a stack (--watch)."
)
@click.option("--stop-after", type=float, help="Seconds without anything to do that end --watch; default: never.")
@click.option(
    "--format",
    "ending",
    type=click.Choice(["png", "tif", "jpg", "webp", "heic", "dng", "ome.tif"]),
    help="Format of the results; by default as the frames.",
)
@click.option(
    "--name",
    "name_template",
    default="{stack}",
    show_default=True,
    metavar="TEMPLATE",
    help="What results are called, without the ending, of {stack} (or {folder} and {name}), {first}, {last} (frames), "
    "{count}, {method}, {date} and {time}; / makes folders.",
)
@after_option
@preset_option
@fusion_options(BATCH)
@map_options
@click.option("--fill-missing", is_flag=True, help="Treat missing chunks of an OME-Zarr as empty, not as an error.")
@click.option(
    "--channel", type=click.IntRange(min=0), help="Only this channel of planes, counted from 0; see --channels."
)
@overwrite_option
@verbosity_options
@json_option
def batch(
    folder: Path,
    output: Path,
    by: str,
    gap: float,
    size: int | None,
    manifest: Path | None,
    dry_run: bool,
    scheduler: str | None,
    workers: int | None,
    memory_limit: int | None,
    patience: float,
    watch: bool,
    settle: float,
    stop_after: float | None,
    ending: str | None,
    name_template: str,
    after: str | None,
    channel: int | None,
    fill_missing: bool,
    overwrite: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Find the stacks below FOLDER and fuse them all into the OUTPUT folder, on this machine or on a cluster.

    Started again, it fuses only what is missing or has changed. A stack that cannot be fused is a row of summary.csv,
    never the end of the run; the exit code is then 2. Ctrl-C keeps what is finished.

    With an OUTPUT that ends in .zarr or .tif, FOLDER is one stack of planes larger than the memory (an OME-Zarr, a
    folder of large TIFF files, or one multi-page TIFF), which is fused block by block into an OME-Zarr or a tiled TIFF.
    """
    _end_at_the_third_interruption()
    if output.suffix in (".zarr", ".tif", ".tiff"):
        options = {"channel": channel, "scheduler": scheduler, "workers": workers, "memory_limit": memory_limit}
        chosen = {name: values[name] for name in PLANES_TAKE if name in offered(BATCH)}
        chosen |= {"maps": [kind for kind in PLANE_MAPS if values[f"{kind}_maps"]], "overwrite": overwrite}
        options["fill_missing"] = fill_missing
        _fuse_planes(folder, output, as_json=as_json, patience=patience, **options, **chosen)
        return
    if channel is not None or fill_missing:
        option = "--channel" if channel is not None else "--fill-missing"
        raise click.UsageError(f"{option} is for planes: give an output that ends in .zarr or .tif")
    with ending_at_once():
        from allfocus.batch.result_names import check_template
        from allfocus.batch.running import fuse_stacks
        from allfocus.batch.stacks import find_stacks

    where: dict[str, Any] = {"by": by, "gap": gap, "size": size, "manifest": manifest}
    maps, chosen_options = take_kinds(values), FuseOptions(**values)
    check_template(name_template)
    if dry_run:
        left_out: dict[Path, str] = {}
        stacks = find_stacks(
            folder,
            **where,
            skip=output,
            pairs=chosen_options.pairs,
            on_left_out=lambda path, why: left_out.update({path: why}),
        )
        _print_stacks(stacks, left_out, folder, as_json=as_json)
        return
    hooks = AfterStacks(after, folder, output)
    with live_table(quiet=as_json) as show:

        def progress(state: "BatchProgress") -> None:
            show(state)
            hooks.run(state.latest)

        result = fuse_stacks(
            folder,
            output,
            **where,
            options=chosen_options,
            maps=maps,
            ending=None if ending is None else f".{ending}",
            name=name_template,
            scheduler=scheduler,
            workers=workers,
            memory_limit=memory_limit,
            patience=patience,
            overwrite=overwrite,
            watch=watch,
            settle=settle,
            stop_after=stop_after,
            progress=progress,
            notice=None if as_json else print_notice,
        )
    _print_result(result, as_json=as_json)
    hooks.raise_failures()
    if result.failed:
        first = result.failed[0]
        raise InputError(
            f"{len(result.failed)} of {len(result.rows)} stacks failed; the first: {first.stack}: {first.error} "
            f"(all are in {result.output / 'summary.csv'})"
        )


def _end_at_the_third_interruption() -> None:
    """Lets the first Ctrl-C end the run in order, keeps the second from breaking that off, and ends with the third.

    All that is finished has been written down by then, and workers end when they find that the program is gone.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    presses = itertools.count(1)

    def interrupt(number: int, frame: object) -> None:
        press = next(presses)
        if press == 1:
            raise KeyboardInterrupt
        if press > 2:
            os._exit(INTERRUPTED)
        os.write(2, b"\nallfocus: ending the workers; Ctrl-C once more ends at once\n")

    signal.signal(signal.SIGINT, interrupt)


def _fuse_planes(folder: Path, output: Path, *, as_json: bool, **options: Any) -> None:
    with ending_at_once():
        from allfocus.batch.planes.fusion import fuse_planes
    context = click.get_current_context()
    for name in ONLY_FOR_STACKS:
        if context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
            kind = name.removesuffix("_maps")
            flag = map_flag(kind) if kind in KINDS else option_flags(name)[0]
            raise click.UsageError(f"{flag} is for stacks of pictures, not for planes; leave it out")
    with progress_bar() as progress:
        result = fuse_planes(folder, output, progress=progress, **options)
    if as_json:
        print_json({**vars(result), "size": list(result.size)})
        return
    for path in result.maps.values():
        echo(path)
    height, width = result.size
    echo(
        f"{result.output}: {width}x{height}, {result.planes} planes, {result.levels} levels, "
        f"{result.peak_memory / 1e9:.1f} GB at most in a worker, {result.seconds:.0f} s"
    )


def _print_stacks(stacks: "list[Stack]", left_out: dict[Path, str], folder: Path, *, as_json: bool) -> None:
    if as_json:
        listed = [{"stack": each.name, "frames": each.frames, "problem": each.problem} for each in stacks]
        print_json({"folder": folder, "stacks": listed, "left_out": {str(path): why for path, why in left_out.items()}})
        return
    for path, why in left_out.items():
        echo(f"left out {path.name}: {why}")
    for stack in stacks:
        names = [path.name for path in stack.frames]
        shown = names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"
        echo(f"{stack.name}: {len(names)} files, {shown}" + (f" ({stack.problem})" if stack.problem else ""))
    frames = sum(len(stack.frames) for stack in stacks)
    echo(f"{len(stacks)} stacks, {frames} files; nothing was fused")


def _print_result(result: "BatchResult", *, as_json: bool) -> None:
    if as_json:
        rows = [{**vars(row), "inputs": [name for name, *_ in row.inputs]} for row in result.rows]
        counts = {name: len(getattr(result, name)) for name in ("fused", "unchanged", "failed")}
        left_out = {str(path): why for path, why in result.left_out.items()}
        print_json({"output": result.output, **counts, "stacks": rows, "left_out": left_out})
        return
    flagged = sum(row.lost_flag for row in result.rows)
    lost = f", {flagged} with detail lost" if flagged else ""
    print_result(
        f"{result.output}: {len(result.fused)} fused, {len(result.unchanged)} unchanged, {len(result.failed)} failed"
        f"{lost}; see contact_sheet.html"
    )


@contextmanager
def live_table(*, quiet: bool = False) -> Iterator["BatchListener"]:
    """A function to call with where a batch stands: a table on a terminal, else one line for each stack.

    Args:
        quiet: Say nothing where there is no terminal.
    """
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not console.is_terminal or verbosity() < 0:
        yield _line_printer(quiet=quiet or verbosity() < 0)
        return
    latest: list[StackRecord] = []
    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def update(state: "BatchProgress") -> None:
            latest.extend(state.latest)
            del latest[:-ROWS]
            live.update(_table(state, latest))

        yield update


def _line_printer(*, quiet: bool) -> "BatchListener":
    announced: list[str] = []

    def update(state: "BatchProgress") -> None:
        if quiet:
            return
        if state.dashboard and state.dashboard not in announced:
            announced.append(state.dashboard)
            print_notice(f"{state.waiting} stacks on {state.workers} workers; dashboard: {state.dashboard}")
        if state.trouble and state.trouble not in announced:
            announced.append(state.trouble)
            print_notice(f"cannot look for stacks just now: {state.trouble}")
        for row in state.latest:
            print_notice(f"{row.stack}: " + (row.error or f"{row.width}x{row.height}, {row.seconds:.1f} s"))
            for sentence in row.notices if verbosity() > 0 else ():
                print_notice(f"  {sentence}")

    return update


def _table(state: "BatchProgress", latest: "list[StackRecord]") -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    done = state.fused + state.failed
    rate = done / state.seconds if state.seconds and done else 0.0
    left = f", {state.waiting / rate / 60:.0f} min left" if rate and state.waiting else ""
    title = (
        f"{state.fused} fused, {state.failed} failed, {state.unchanged} unchanged, {state.waiting} waiting of "
        f"{state.found} stacks, {state.seconds:.0f} s{left}"
    )
    lost = f", scheduler found again {state.restarts} times" if state.restarts else ""
    caption = f"{state.workers} workers{lost}; dashboard: {state.dashboard}" if state.dashboard else None
    if state.trouble:
        caption = f"cannot look for stacks just now: {printable(state.trouble)}"
    table = Table(box=box.SIMPLE_HEAD, title=title, caption=caption, title_justify="left", caption_justify="left")
    for column in ("stack", "size", "frames", "seconds", "worker", ""):
        table.add_column(column, no_wrap=column != "", overflow="ellipsis")
    for row in latest:
        size = f"{row.width}x{row.height}" if row.width else ""
        told = row.error or "fused"
        cells = (row.stack, size, str(len(row.inputs)), f"{row.seconds:.1f}", row.worker, told)
        table.add_row(*(Text(printable(cell)) for cell in cells))  # as it is: a file name is no markup
    return table
