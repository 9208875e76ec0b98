"""A command of the user's that runs after a stack: ``--after``."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allfocus.cli.printing import echo, print_notice, verbosity
from allfocus.errors import AllfocusError
from allfocus.stack.after import PLACES, run_after, split_command

if TYPE_CHECKING:
    from allfocus.batch.manifest import StackRecord
    from allfocus.stack.result import StackFusion


def _check(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        split_command(value)
    return value


after_option = click.option(
    "--after",
    metavar="COMMAND",
    callback=_check,
    help="Run this command when a stack is fused; no shell reads it. In it "
    f"{', '.join('{' + name + '}' for name in PLACES)} stand for files and names; without any, the picture is its last "
    "word.",
)


def run_after_one(command: str, result: "StackFusion") -> None:
    """Run the command after one stack; what it prints on stdout goes to stderr.

    Raises:
        AllfocusError: it failed.
    """
    said = run_after(command, result.outputs["picture"], report=result.outputs.get("report"), frames=result.sources)
    _tell(said)


def _tell(said: str) -> None:
    if said and verbosity() >= 0:
        echo(said, err=True, lines=True)


class AfterStacks:
    """Runs the command after every stack of a batch that was fused, and remembers what failed.

    It runs here, not on the workers: one after the other, as the stacks come in.
    """

    def __init__(self, command: str | None, root: Path, output: Path) -> None:
        """A command, or None for none, for frames below one folder and results below another."""
        self._command, self._root, self._output = command, root, output
        self._failures: list[AllfocusError] = []
        self._ran = 0

    def run(self, records: Iterable["StackRecord"]) -> None:
        """Run it after each of these stacks."""
        for record in records if self._command is not None else ():
            if record.status != "fused" or record.unchanged:
                continue
            picture = self._output / record.output
            pages = [self._output / name for name, *_ in record.files if name.endswith("_report.html")]
            frames = [self._root / name for name, *_ in record.inputs]
            self._ran += 1
            try:
                said = run_after(str(self._command), picture, report=next(iter(pages), None), frames=frames)
            except AllfocusError as error:
                self._failures.append(error)
                print_notice(str(error))
            else:
                _tell(said)

    def raise_failures(self) -> None:
        """Raise AllfocusError when it failed after some stack."""
        if self._failures:
            raise AllfocusError(
                f"{len(self._failures)} of {self._ran} commands after a stack failed; the first: {self._failures[0]}",
                code="after-failed",
            )
