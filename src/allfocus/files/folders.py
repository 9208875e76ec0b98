"""A folder as a result, such as an OME-Zarr: it appears whole or not at all.

It is built in a hidden folder beside its place. One that a killed run left there is known by its lock, which nobody
holds any more, and is taken away by the next run that writes the same name.
"""

import glob
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from allfocus.errors import OutputError
from allfocus.files.journal import new_token
from allfocus.files.locking import lock

LOCK, WHOLE, OLD = "allfocus.lock", "whole", "old"


class StagedFolder:
    """A folder that waits for its name.

    Args:
        path: The name it gets.
        overwrite: Replace a folder of that name.

    Raises:
        OutputError: nothing can be made beside the path.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self._path = path
        self._overwrite = overwrite
        self._hidden = path.with_name(f".{path.name}.{new_token()}.partial")
        self._lock: IO[bytes] | None = None
        self._bring_in_order()
        try:
            self._hidden.mkdir()
            self._lock = (self._hidden / LOCK).open("ab")
            lock(self._lock)
        except OSError as error:
            raise self._failed(error) from error

    def build(self, build: Callable[[Path], None]) -> None:
        """Has the folder made in its hidden place."""
        build(self._hidden / WHOLE)

    def give_name(self) -> None:
        """Puts the folder in its place; what was there comes back when that fails.

        Raises:
            OutputError: something is there and may not be replaced, or the system refused.
        """
        old = self._hidden / OLD
        try:
            if os.path.lexists(self._path):
                if not self._overwrite:
                    raise OutputError(
                        "appeared in the meantime; choose another name", where=self._path, code="output-exists"
                    )
                self._path.rename(old)
            (self._hidden / WHOLE).rename(self._path)
        except OSError as error:
            if os.path.lexists(old) and not os.path.lexists(self._path):
                old.rename(self._path)
            raise self._failed(error) from error

    def remove(self) -> None:
        """Takes away what only the work needed."""
        if self._lock is not None:
            self._lock.close()
        with suppress(OSError):
            _take_away(self._hidden)

    def _bring_in_order(self) -> None:
        """Finishes or removes what killed runs left for the same name."""
        pattern = f".{glob.escape(self._path.name)}.*.partial"
        for left in self._path.parent.glob(pattern):
            with suppress(OSError):
                if not (left / LOCK).is_file() or left.is_symlink():
                    continue  # not ours
                with (left / LOCK).open("ab") as file:
                    if lock(file) is not True:
                        continue
                if (left / OLD).is_dir() and not os.path.lexists(self._path):
                    (left / OLD).rename(self._path)
                _take_away(left)

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(f"could not be written ({error.strerror}); choose another folder", where=self._path)


def _take_away(folder: Path) -> None:
    """Removes a hidden folder; its lock last, because what is left without it is not ours."""
    for name in (WHOLE, OLD):
        if os.path.lexists(folder / name):
            shutil.rmtree(folder / name)
    (folder / LOCK).unlink(missing_ok=True)
    folder.rmdir()
