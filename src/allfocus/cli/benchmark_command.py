"""``allfocus benchmark``: what fusing costs, beside the programs people use today."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allfocus.cli.interruption import INTERRUPTED
from allfocus.cli.known_names import complete_method
from allfocus.cli.paths import NamedPath
from allfocus.cli.printing import echo, json_option, print_json, print_notice, print_table, progress_bar

if TYPE_CHECKING:
    from allfocus.benchmarking.measuring import BenchmarkResult


@click.command(short_help="Measure cost and quality beside other programs.")
@click.option("--sets", help="Stacks to measure on, with commas: pair, occlusion, stack, large, moved; default all.")
@click.option("--repeat", type=click.IntRange(1, 100), help="Rounds; default 3, or 1 with --quick.")
@click.option(
    "--rivals",
    type=NamedPath(dir_okay=False),
    help="A Python file that describes other programs, such as benchmarks/rivals/peers.py of the source tree.",
)
@click.option("--peers", help="Which of them to compare with, with commas, or none; default all.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    shell_complete=complete_method,
    help="A method of ours; once for each. Default: ips.",
)
@click.option("--quick", is_flag=True, help="Small pictures and one round: a trial, whose numbers mean nothing.")
@click.option("--scaling", is_flag=True, help="Instead: how cost grows from 1 to 100 megapixels and with the frames.")
@click.option("--flops", is_flag=True, help="Instead: floating-point operations of the network, from its ONNX file.")
@click.option(
    "-o",
    "--output",
    type=NamedPath(file_okay=False),
    default=Path("allfocus_benchmark"),
    show_default=True,
    help="The folder for tables and plots.",
)
@click.option("--cache", type=NamedPath(file_okay=False), help="The folder that keeps the stacks.")
@json_option
def benchmark(
    sets: str | None,
    repeat: int | None,
    rivals: Path | None,
    peers: str | None,
    methods: tuple[str, ...],
    quick: bool,
    scaling: bool,
    flops: bool,
    output: Path,
    cache: Path | None,
    as_json: bool,
) -> int:
    """Measure CPU seconds, memory and quality of allfocus, and of other programs that are installed (--rivals).

    The stacks are rendered once, with their truth, into a folder (about 1.2 GB). Programs take turns, each in a process
    of its own. OUTPUT gets benchmark.json, with machine and versions, and benchmark.svg. Many rounds take hours;
    Ctrl-C keeps what was measured.
    """
    if flops and scaling:
        raise click.UsageError("--flops and --scaling are two different things; choose one")
    if flops:
        return _print_operations(as_json=as_json)
    # Other programs run in folders of their own, where a relative path leads elsewhere.
    kept = (cache or output / "inputs").absolute()
    if scaling:
        _make_folder(output, "scaling")
        return _measure_growth(output, kept, quick=quick, as_json=as_json)
    from allfocus.benchmarking.inputs import choose_recipes
    from allfocus.benchmarking.measuring import run_benchmark
    from allfocus.benchmarking.tools import describe_versions, find_peer_modes, load_peers, own_modes
    from allfocus.fusion.method_choice import require_method

    chosen = methods or ("ips",)
    for method in chosen:
        require_method(method)
    recipes = choose_recipes(_split(sets), quick=quick)
    known = load_peers(rivals) if rivals else {}
    found, missing = find_peer_modes(known, _split(peers))
    _make_folder(output, "benchmark")
    for mode, reason in missing.items():
        print_notice(f"skipped {mode}: {reason}")
    with progress_bar() as progress:
        result = run_benchmark(
            recipes,
            [*own_modes(chosen), *found],
            cache=kept,
            output=output / "benchmark.json",
            repeats=repeat or (1 if quick else 3),
            quick=quick,
            missing=missing,
            versions=describe_versions(known, found),
            progress=progress,
            notice=print_notice,
        )
    _report(result, output, as_json=as_json)
    failed = any(entry.error for entry in result.measurements)
    return INTERRUPTED if not result.finished else int(failed)


def _split(names: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip()) if names else ()


def _make_folder(folder: Path, name: str) -> None:
    """Make the folder for the results; what has the same names there and is not ours is not replaced."""
    import json

    from allfocus.errors import OutputError

    present = [path for path in (folder / f"{name}.json", folder / f"{name}.svg") if os.path.lexists(path)]
    if present:
        try:
            document = json.loads((folder / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            document = None
        if not isinstance(document, dict) or "finished" not in document:
            raise OutputError(f"{present[0]}: exists and was not made by allfocus benchmark; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror}); choose another folder") from error


def _report(result: "BenchmarkResult", output: Path, *, as_json: bool) -> None:
    """Write the plot and print the tables."""
    import dataclasses

    from allfocus.benchmarking.plots import quality_over_cost
    from allfocus.benchmarking.summary import TABLE_COLUMNS, summarise_modes, table_row, text_table
    from allfocus.images.writing import replace_file

    rows = summarise_modes(result)
    plot = quality_over_cost(rows, {recipe.name: recipe.summary for recipe in result.recipes})
    replace_file(output / "benchmark.svg", plot.encode(), overwrite=True)
    if as_json:
        print_json(
            {
                "finished": result.finished,
                "quick": result.quick,
                "missing": result.missing,
                "origin": result.origin,
                "rows": [dataclasses.asdict(row) for row in rows],
                "folder": output,
            }
        )
        return
    for recipe in result.recipes:
        here = [row for row in rows if row.set == recipe.name]
        if here:
            echo(f"{recipe.name}: {recipe.summary}")
            echo(text_table(TABLE_COLUMNS, [table_row(row) for row in here]), lines=True)
            for row in here:
                if row.steps:
                    steps = ", ".join(f"{step} {seconds:.2f}" for step, seconds in row.steps.items())
                    echo(f"  {row.mode}, wall seconds by step: {steps}")
    echo(f"{output}: benchmark.json, benchmark.svg")


def _measure_growth(output: Path, cache: Path, *, quick: bool, as_json: bool) -> int:
    from allfocus.benchmarking.scaling import run_scaling
    from allfocus.images.writing import replace_file

    small: dict[str, Any] = {"sides": (1, 2, 3), "lengths": (2, 4, 8), "tile": (240, 240)} if quick else {}
    with progress_bar() as progress:
        result = run_scaling(
            cache=cache, output=output / "scaling.json", progress=progress, notice=print_notice, **small
        )
    replace_file(output / "scaling.svg", result.as_svg().encode(), overwrite=True)
    if as_json:
        print_json(result.as_json() | {"folder": output})
    else:
        print_table(
            ["frames", "MP a frame", "CPU s", "CPU s per MP and frame", "peak MB"],
            [
                [
                    str(point.frames),
                    f"{point.megapixels:g}",
                    f"{point.cpu_seconds:.2f}",
                    f"{point.cpu_seconds / point.megapixels / point.frames:.3f}",
                    f"{point.peak_megabytes:.0f}",
                ]
                for point in [*result.by_size, *result.by_length]
            ],
            numbers=True,
        )
        for name, value in result.growth().items():
            echo(f"exponent of {name.replace('_', ' ')}: {value:.2f} (1 is proportional, 0 is no growth)")
        echo(f"{output}: scaling.json, scaling.svg")
    return 0 if result.finished else INTERRUPTED


def _print_operations(*, as_json: bool) -> int:
    from allfocus.benchmarking.network_cost import LARGEST_COST, count_operations

    cost = count_operations()
    if as_json:
        print_json(
            {
                "sources": cost.sources,
                "height": cost.height,
                "width": cost.width,
                "levels": cost.levels,
                "operations": cost.total,
                "per_pixel_and_source": cost.per_pixel_and_source,
                "limit": LARGEST_COST,
                "by_operator": cost.by_operator,
            }
        )
        return 0
    print_table(
        ["operator", "operations per pixel and source", "share"],
        [
            [name, f"{count / cost.sources / cost.height / cost.width:,.0f}", f"{count / cost.total:.1%}"]
            for name, count in cost.by_operator.items()
        ],
        numbers=True,
    )
    echo(
        f"{cost.per_pixel_and_source / 1000:.1f} kFLOP per pixel and source over all levels ({cost.sources} frames of "
        f"{cost.width}x{cost.height} at {cost.levels} levels); at most {LARGEST_COST / 1000:g} allowed"
    )
    return 0
