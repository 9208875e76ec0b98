"""What can be told to be wrong before a batch begins: options, and the folder for the results."""

import os
from pathlib import Path

from allfocus.batch.records import Manifest
from allfocus.batch.stack_task import FuseSettings
from allfocus.batch.summary import SHEET_NAME, SUMMARY_NAME
from allfocus.errors import InputError, OutputError
from allfocus.images.reading import SUFFIXES


def check_settings(settings: FuseSettings, settle: float) -> None:
    """Raises InputError where the method, the device or an option cannot be used."""
    # Imported here because it brings in the numerical libraries, which a wrong option should not wait for.
    from allfocus.fusion.methods import require_method

    maps = settings.depth_maps or settings.confidence_maps or settings.decision_maps
    require_method(settings.method, device=settings.device, prefer=settings.prefer, maps=maps)
    if not 0 <= settle < float("inf"):
        raise InputError(f"settle is a number of seconds, 0 or more; found {settle:g}")


def prepare_output(target: Path, *, overwrite: bool) -> None:
    """Makes the output folder; raises OutputError where it cannot be one, or holds somebody else's summary."""
    if target.exists() and not target.is_dir():
        raise OutputError(f"{target}: is a file; name a folder for the results")
    if target.suffix.lower() in SUFFIXES and not target.exists():
        raise OutputError(f"{target}: is named like a picture, but a batch has many; name a folder for the results")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{target}: cannot be made ({error.strerror}); choose another folder") from error
    if (target / Manifest(target).path).exists() or overwrite:
        return
    for name in (SUMMARY_NAME, SHEET_NAME):
        if os.path.lexists(target / name):
            raise OutputError(
                f"{target / name}: exists and was not made by a batch; choose another folder or --overwrite"
            )


def check_ending(target: Path, ending: str | None, settings: FuseSettings) -> None:
    """Raises OutputError where pictures with that ending and those settings could not be written."""
    from allfocus.images.writing import check_output

    probe = target / f"result{ending or '.png'}"
    check_output(probe, overwrite=True, bit_depth=settings.bit_depth if ending else None, quality=settings.quality)
