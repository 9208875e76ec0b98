"""``allfocus evaluate``: the benchmark."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from allfocus.cli.known_names import complete_dataset, complete_method, complete_metric
from allfocus.cli.printing import (
    device_option,
    echo,
    json_option,
    print_json,
    print_notice,
    print_passed_over,
    progress_bar,
    protocol_option,
)
from allfocus.errors import AllfocusError

if TYPE_CHECKING:
    from allfocus.evaluation.benchmark import EvaluationResult


@click.command(short_help="Score methods on benchmark sets.")
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    required=True,
    shell_complete=complete_dataset,
    help="A benchmark set (see: allfocus datasets); give the option once for each.",
)
@click.option(
    "--data",
    "folders",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="The folder of the set, or the one that holds all sets; once, or once for each --dataset.",
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    shell_complete=complete_method,
    help="A method (see: allfocus methods); once for each. The first is compared with the best of the others.",
)
@click.option(
    "--images",
    "images",
    multiple=True,
    metavar="NAME=DIR",
    help="Score the fused pictures that other software left in a folder.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    shell_complete=complete_metric,
    help="A metric, instead of the paper's eight; once for each.",
)
@protocol_option
@click.option(
    "--jpeg", metavar="QUALITY,SUBSAMPLING", help="Score the methods' pictures after saving as JPEG, like 75,4:2:0."
)
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many pictures of each set.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes at a time; default: one for each processor.")
@click.option("--scheduler", help="Run on a Dask scheduler: its address, like tcp://host:8786, or its file.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the bootstrap intervals.")
@click.option("--resume/--no-resume", default=True, show_default=True, help="Reuse what an earlier run left there.")
@device_option
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="The folder for tables, report and pictures."
)
@json_option
def evaluate(
    datasets: tuple[str, ...],
    folders: tuple[Path, ...],
    methods: tuple[str, ...],
    images: tuple[str, ...],
    metrics: tuple[str, ...],
    protocol: Literal["grey", "rgb-mean"],
    jpeg: str | None,
    limit: int | None,
    workers: int | None,
    scheduler: str | None,
    seed: int,
    resume: bool,
    device: str,
    output: Path,
    as_json: bool,
) -> None:
    """Fuse and score benchmark sets with several methods; tables, statistics and a report are in the OUTPUT folder.

    An interrupted run goes on where it stopped when it is started again. The exit code is 1 if any picture could not
    be fused or scored.
    """
    import allfocus
    from allfocus.datasets.catalogue import dataset_catalogue
    from allfocus.evaluation.compression import parse_compression
    from allfocus.fusion.methods import method_catalogue
    from allfocus.metrics.catalogue import metric_catalogue

    if not methods and not images:
        raise click.UsageError("give at least one --method or --images")
    if scheduler is not None and workers is not None:
        raise click.UsageError("--scheduler brings its own workers; leave out --workers")
    for catalogue in (method_catalogue(), metric_catalogue(), dataset_catalogue()):
        print_passed_over(catalogue.passed_over)
    pairs = pair_folders(datasets, folders)
    named = dict(_name_and_folder(text) for text in images)
    run = None
    if scheduler is not None:
        from allfocus.batch.cells import run_on_cluster

        run = run_on_cluster(scheduler)
        # Workers have working folders of their own.
        pairs = {name: folder.absolute() for name, folder in pairs.items()}
        named = {name: folder.absolute() for name, folder in named.items()}
    with progress_bar() as update:
        result = allfocus.evaluate(
            pairs,
            methods,
            output=output,
            metrics=metrics or None,
            protocol=protocol,
            images=named,
            jpeg=None if jpeg is None else parse_compression(jpeg),
            limit=limit,
            workers=workers,
            resume=resume,
            seed=seed,
            device=device,
            run=run,
            progress=update,
        )
    if as_json:
        print_json(result.document)
    else:
        _print_summaries(result)
        print_notice(f"tables, pictures and report: {result.output / 'report.html'}")
    if result.errors:
        first = result.errors[0]
        raise AllfocusError(
            f"{len(result.errors)} of {len(result.cells)} cells failed; the first: {first.dataset} {first.sample} "
            f"with {first.method}: {first.error} (all are in {result.output / 'results.csv'})"
        )


def pair_folders(datasets: tuple[str, ...], folders: tuple[Path, ...]) -> dict[str, Path]:
    """The folder of each data set; one that holds a folder with the set's name stands for that one."""
    if len(set(datasets)) < len(datasets):
        raise click.UsageError(f"a data set is named twice: {', '.join(datasets)}")
    if len(folders) == 1:
        folders = folders * len(datasets)
    if len(folders) != len(datasets):
        raise click.UsageError(
            f"{len(datasets)} --dataset and {len(folders)} --data; give --data once, or once for each --dataset"
        )
    pairs = zip(datasets, folders, strict=True)
    return {name: folder / name if os.path.isdir(folder / name) else folder for name, folder in pairs}


def _name_and_folder(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise click.UsageError(f"--images {text!r} is not NAME=DIR")
    return name, Path(folder)


def _print_summaries(result: "EvaluationResult") -> None:
    from allfocus.evaluation.benchmark import describe_scoring
    from allfocus.evaluation.summary import format_value, state_p_value
    from allfocus.evaluation.tables import count_of_pictures

    for summary in result.summaries.values():
        rows = []
        for row in summary.methods:
            values = [
                format_value(metric, row.estimates[metric].mean) if row.estimates else f"error ({row.errors})"
                for metric in summary.metrics
            ]
            rank = "-" if row.mean_rank is None else f"{row.mean_rank:.2f}"
            lost = "-" if row.lost_detail is None else f"{row.lost_detail:.2f}"
            rows.append([row.method, *values, rank, lost, "-" if row.seconds is None else f"{row.seconds:.2f}"])
        echo(f"{summary.dataset}: {count_of_pictures(summary)}, protocol {describe_scoring(result)}")
        _print_aligned(["method", *summary.metrics, "mean rank", "lost %", "s/picture"], rows)
        for metric, found in summary.comparisons.items():
            echo(
                f"  {metric}: {found.first} against {found.rival}: better on {found.wins}, worse on {found.losses}, "
                f"{state_p_value(found.test.p_value)}"
            )
        for metric, test in summary.friedman.items():
            best = min(test.mean_ranks)
            near = [
                f"{method} {place:.2f}"
                for place, method in sorted(zip(test.mean_ranks, summary.complete, strict=True))
                if place - best < test.critical_difference
            ]
            echo(
                f"  {metric}: Friedman {state_p_value(test.p_value)}, critical difference of mean places "
                f"{test.critical_difference:.2f}; not to be told from the best: {', '.join(near)}"
            )


def _print_aligned(header: list[str], rows: list[list[str]]) -> None:
    """Numbers are never cut to the width of the terminal: a table that says 0.7… is of no use."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        echo("  " + "  ".join(cells))
