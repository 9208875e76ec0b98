"""What can be told to be wrong before a batch begins: times to wait, and the folder for the results."""

import os
from pathlib import Path

from allfocus.batch.manifest import FILE_NAME, BatchManifest
from allfocus.batch.own_files import HIDDEN_FOLDER
from allfocus.batch.summary import SHEET_NAME, SUMMARY_NAME
from allfocus.errors import InputError, OutputError
from allfocus.files.protection import name_key
from allfocus.images.listing import SUFFIXES

OWN_NAMES = frozenset(name_key(name) for name in (FILE_NAME, HIDDEN_FOLDER, SHEET_NAME, SUMMARY_NAME))
"""What lies in the output folder beside the results."""


def is_own_place(name: str) -> bool:
    """Whether a result of that name would lie where a batch keeps its own files, on any system.

    Example:
        >>> is_own_place(".Thumbnails/beetle.webp"), is_own_place("day1/summary.csv")
        (True, False)
    """
    return name_key(name.partition("/")[0]) in OWN_NAMES


def check_seconds(*, settle: float, patience: float, stop_after: float | None) -> None:
    """Raises InputError where a time to wait is none; patience, and watching, may last for ever."""
    if not 0 <= settle < float("inf"):
        raise InputError(f"settle is a number of seconds, 0 or more; found {settle:g}", code="bad-option")
    if not patience >= 0 or (stop_after is not None and not stop_after >= 0):
        raise InputError(
            "patience, and the time after which watching ends, are numbers of seconds, 0 or more", code="bad-option"
        )


def prepare_output(target: Path, *, overwrite: bool) -> None:
    """Makes the output folder; raises OutputError where it cannot be one, or holds somebody else's summary."""
    if os.path.exists(target) and not os.path.isdir(target):
        raise OutputError(f"{target}: is a file; name a folder for the results")
    if target.suffix.lower() in SUFFIXES and not os.path.exists(target):
        raise OutputError(f"{target}: is named like a picture, but a batch has many; name a folder for the results")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{target}: cannot be made ({error.strerror}); choose another folder") from error
    if (target / BatchManifest(target).path).exists() or overwrite:
        return
    for name in (SUMMARY_NAME, SHEET_NAME):
        if os.path.lexists(target / name):
            raise OutputError(
                "exists and was not made by a batch",
                where=target / name,
                hint=["choose another folder", "{overwrite=on}"],
                code="output-exists",
            )
