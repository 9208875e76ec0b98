"""Layers made when they are first looked at and kept on disk within a limit; the least recently used ones go first."""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from allfocus.files.placing import recover_folder
from allfocus.web.layers import level_count
from allfocus.web.named_locks import NamedLocks
from allfocus.web.refusals import Refusal
from allfocus.web.store import size_of
from allfocus.web.work_folder import IN_A_LAYER, JOB_ID, RUN_NAME, remove_known


class LayerCache:
    """Folders of layers that can be made again.

    Args:
        limit: Bytes of all layers together.
        work: The work folder, in which layers from before a restart are found.
    """

    def __init__(self, limit: int, work: Path) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._making = NamedLocks()
        self._sizes: dict[Path, int] = {}
        self._used_at: dict[Path, float] = {}
        for folder in work.glob("jobs/*/layers/*/*"):
            job = folder.parents[2]
            if not JOB_ID.fullmatch(job.name) or not RUN_NAME.fullmatch(folder.parent.name):
                continue
            recover_folder(folder)
            if folder.name.endswith(".part") or not _is_whole(folder):
                _remove(folder)
            else:
                self._note(folder)

    @property
    def used(self) -> int:
        """Bytes of all layers together."""
        with self._lock:
            return sum(self._sizes.values())

    def get(self, folder: Path, size: int, make: Callable[[], object]) -> Path:
        """The folder, with the layer in it.

        Args:
            folder: Where the layer is or will be.
            size: About how many bytes it will take.
            make: Puts it there.

        Raises:
            Refusal: it is larger than all layers together may be.
        """
        with self._making.of(folder):
            if not (folder / "level0.npy").exists():
                self._make_room(size)
                make()
                self._note(folder)
            with self._lock:
                self._used_at[folder] = time.monotonic()
        return folder

    def add(self, folder: Path) -> None:
        """Count a layer that was made elsewhere."""
        if folder.exists():
            self._note(folder)
            self._make_room(0)

    def forget(self, below: Path) -> None:
        """Stop counting the layers below a folder, which is being deleted."""
        with self._lock:
            for folder in [folder for folder in self._sizes if below in folder.parents]:
                self._drop(folder)

    def shrink(self, size: int) -> None:
        """Delete the least recently used layers until so many bytes are free of them."""
        with self._lock:
            goal = max(0, sum(self._sizes.values()) - size)
            self._evict_to(goal)

    def _note(self, folder: Path) -> None:
        size = size_of(folder)
        with self._lock:
            self._sizes[folder] = size
            self._used_at.setdefault(folder, time.monotonic())

    def _make_room(self, size: int) -> None:
        if size > self._limit:
            raise Refusal(507, f"this layer needs {size} bytes, more than all may have ({self._limit})")
        with self._lock:
            self._evict_to(self._limit - size)

    def _evict_to(self, goal: int) -> None:
        for folder in sorted(self._sizes, key=lambda folder: self._used_at[folder]):
            if sum(self._sizes.values()) <= goal:
                return
            # A tile that is being read keeps its pages; the files go when it is done.
            _remove(folder)
            self._drop(folder)

    def _drop(self, folder: Path) -> None:
        self._sizes.pop(folder, None)
        self._used_at.pop(folder, None)


def _is_whole(folder: Path) -> bool:
    """Whether all levels of a layer are there: a server may have been killed while it deleted one."""
    try:
        # Mapped, so that only the headers are read, and a file that is too short is found out.
        levels = [np.load(folder / "level0.npy", mmap_mode="r")]
        height, width = levels[0].shape[:2]
        levels += [
            np.load(folder / f"level{level}.npy", mmap_mode="r") for level in range(1, level_count(width, height))
        ]
    except (OSError, ValueError, EOFError):
        return False
    return True


def _remove(folder: Path) -> None:
    remove_known(folder, IN_A_LAYER)
    with contextlib.suppress(OSError):  # something that we do not know is in it
        folder.rmdir()
