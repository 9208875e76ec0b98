"""What the commands share in talking to the user: tables and JSON on stdout, progress and notices on stderr."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from allfocus.errors import AllfocusError
from allfocus.fusion.devices import DEVICES, TORCH_DEVICES

Function = TypeVar("Function", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace output files that exist.")


def _device_option(names: Iterable[str]) -> Callable[[Function], Function]:
    return click.option(
        "--device", type=click.Choice(list(names)), default="auto", show_default=True, help="Where a network runs."
    )


device_option = _device_option(DEVICES)
torch_device_option = _device_option(TORCH_DEVICES)
protocol_option = click.option(
    "--protocol",
    type=click.Choice(["grey", "rgb-mean"]),
    default="grey",
    show_default=True,
    help="Score the grey picture, or each channel and then the mean.",
)


UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Control characters, those that turn the reading direction or break lines, and bytes of a name that are no letters."""


def printable(text: str) -> str:
    r"""A text, such as a message with a file name in it, that a terminal shows and does not obey.

    Example:
        >>> printable("a\x1b[31mb"), printable("caf\udce9.png")
        ('a\\x1b[31mb', 'caf\\xe9.png')
    """
    return UNPRINTABLE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # how Python hands on a byte of a name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def echo(message: object, *, err: bool = False, lines: bool = False) -> None:
    """Print a message on stdout or stderr, with nothing in it that a terminal would obey.

    Args:
        message: What to print.
        err: On stderr.
        lines: It has several lines; otherwise a line break is part of some name, and shown as such.
    """
    text = str(message)
    shown = "\n".join(map(printable, text.split("\n"))) if lines else printable(text)
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    click.echo(shown.encode(encoding, "backslashreplace").decode(encoding), err=err)


def print_json(content: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout; infinity, which JSON lacks, becomes the text "inf", not a number null."""
    text = json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)
    # What a terminal would take for a command is as good when it is escaped, and stays the same text for a program.
    echo(UNPRINTABLE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text), lines=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> None:
    """Print a table on stdout; with ``numbers`` all columns but the first are flush right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if numbers and index else "left", no_wrap=index == 0)
    for row in rows:
        table.add_row(*map(printable, row))
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
        echo(name)
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
                echo(line)


_VERBOSITY = "allfocus.verbosity"


def _set_verbosity(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_VERBOSITY] = context.meta.get(_VERBOSITY, 0) + (1 if parameter.name == "verbose" else -1)


def verbosity_options(command: Function) -> Function:
    """Adds ``--quiet`` and ``--verbose`` to a command; what is printed here obeys them."""
    words: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": _set_verbosity}
    command = click.option("-v", "--verbose", help="Also tell how it was done, step by step.", **words)(command)
    return click.option("-q", "--quiet", help="Print nothing but errors.", **words)(command)


def verbosity() -> int:
    """How much is to be told: 0 as usual, below that nothing but errors, above it more."""
    context = click.get_current_context(silent=True)
    return 0 if context is None else int(context.meta.get(_VERBOSITY, 0))


def print_notice(message: str) -> None:
    """Print one line on stderr, unless the user asked for quiet."""
    if verbosity() >= 0:
        echo(message, err=True)


def print_passed_over(plugins: Iterable[AllfocusError]) -> None:
    """Print on stderr which plug-ins are not in the table that was printed, and why, with the code of the error."""
    for error in plugins:
        print_notice(f"warning: {error} ({error.code})")


def print_result(message: object) -> None:
    """Print one line on stdout about what was done, unless the user asked for quiet."""
    if verbosity() >= 0:
        echo(message)


def print_details(facts: Mapping[str, object]) -> None:
    """Print facts on stderr, one a line, if the user wants to know how it was done; empty ones are left out."""
    if verbosity() > 0:
        for name, value in facts.items():
            if value not in (None, ""):
                echo(f"  {name:<10} {value}", err=True)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr for each step, with the time left; nothing when stderr is no terminal, or quiet is asked for.

    It moves while a step does not, so that one can see that the program has not stopped.

    Yields a function to call with (step, done, count).
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        SpinnerColumn("line", finished_text=" "),
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    silent = not console.is_terminal or verbosity() < 0
    with Progress(*columns, console=console, transient=True, disable=silent) as bar:
        tasks: dict[str, TaskID] = {}

        def update(step: str, done: int, count: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=count)
            bar.update(tasks[step], completed=done, total=count)

        yield update


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, int):
        return value
    return re.sub("[\ud800-\udfff]", _escape, str(value))  # JSON has no place for bytes that are no letters
