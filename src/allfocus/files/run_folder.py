"""The folder of a training run: whether one may begin in it, asked before any photo is read."""

import csv
import os
from pathlib import Path

from allfocus.errors import InputError, OutputError
from allfocus.files.opening import open_plain, parse_json

STATE, RECIPE = "state.safetensors", "recipe.json"
"""From which a run goes on, and what it writes first of all."""
TABLES = ("log.csv", "validation.csv")
"""What a run writes down row by row, each with the number of its iteration."""
WRITTEN = (STATE, "weights.safetensors", RECIPE, "previews", *TABLES)
"""Everything that a run makes or replaces in its folder."""
LARGEST_TABLE, LARGEST_RECIPE = 10**8, 10**6
"""Bytes; the rows of a million iterations are less, and so is every recipe."""


def check_run_folder(run: Path, *, resume: bool) -> None:
    """Raises when a run would replace something that lies in its folder, or could not go on from it.

    Args:
        run: the folder; it need not exist.
        resume: whether a run that was stopped is to go on.

    Raises:
        InputError: a run is there and was not to be resumed; or none is there, or its tables are not as it left them.
        OutputError: somebody else's files have the names that a run gives to its own.
    """
    if resume:
        open_plain(run / STATE).close()
        for name in TABLES:
            if os.path.lexists(run / name):
                _check_table(run / name)
        return
    there = [name for name in WRITTEN if os.path.lexists(run / name)]
    if STATE in there:
        raise InputError(
            "holds a run already",
            where=run,
            hint=["{resume=on} to go on", "name another folder"],
            code="output-exists",
        )
    if there and not _is_our_recipe(run / RECIPE):  # otherwise a run ended before its first checkpoint
        raise OutputError(
            f"holds {' and '.join(there[:2])}, which a run would replace; name another folder",
            where=run,
            code="output-exists",
        )


def _is_our_recipe(path: Path) -> bool:
    """Whether a run has written this file, and so everything else in the folder that has a name of its own."""
    try:
        with open_plain(path) as file:
            content = parse_json(file.read(LARGEST_RECIPE))
    except (InputError, OSError, ValueError):
        return False
    return isinstance(content, dict) and {"network", "data", "shuffle", "optimizer", "log"} <= content.keys()


def _check_table(path: Path) -> None:
    """Rows after the last checkpoint are dropped when a run goes on; each must tell its iteration for that."""
    with open_plain(path) as file:
        data = file.read(LARGEST_TABLE + 1)
    try:
        if len(data) > LARGEST_TABLE:
            raise ValueError(f"more than {LARGEST_TABLE} bytes")
        for row in csv.DictReader(data.decode().splitlines()):
            int(row["iteration"])
            if None in row:
                raise ValueError("a row with more values than names")
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise InputError(
            "is not as the run left it: every row must begin with the number of its iteration; move it away",
            where=path,
        ) from error
