"""What the commands share in talking to the user: tables and JSON on stdout, progress and notices on stderr."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace output files that exist.")
device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where a network runs.",
)
protocol_option = click.option(
    "--protocol",
    type=click.Choice(["grey", "rgb-mean"]),
    default="grey",
    show_default=True,
    help="Score the grey picture, or each channel and then the mean.",
)


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; infinity, which JSON lacks, becomes the text "inf", not a number null."""
    click.echo(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> None:
    """Print a table on stdout; with ``numbers`` all columns but the first are flush right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if numbers and index else "left", no_wrap=index == 0)
    for row in rows:
        table.add_row(*row)
    Console(soft_wrap=False, highlight=False).print(table)


def print_entries(entries: Mapping[str, Mapping[str, str]]) -> None:
    """Print on stdout each name and below it what is known about it, one label a line; empty texts are left out.

    For texts too long for the columns of a table. Lines are wrapped between words and nowhere else, so that an address
    or a DOI can be copied whole.
    """
    import shutil
    import textwrap

    width = max(40, min(shutil.get_terminal_size().columns, 100))
    for name, facts in entries.items():
        click.echo(name)
        indent = 4 + max(len(label) for label in facts)
        for label, text in facts.items():
            begin = f"  {label}".ljust(indent)
            for line in textwrap.wrap(
                text,
                width,
                initial_indent=begin,
                subsequent_indent=" " * indent,
                break_long_words=False,
                break_on_hyphens=False,
            ):
                click.echo(line)


def print_notice(message: str) -> None:
    """Print one line on stderr."""
    click.echo(message, err=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr for each step, with the time left; nothing when stderr is no terminal.

    Yields a function to call with (step, done, count).
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<8}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}

        def update(step: str, done: int, count: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=count)
            bar.update(tasks[step], completed=done, total=count)

        yield update


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    return value if isinstance(value, str | int | bool | None) else str(value)
