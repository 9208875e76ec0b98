"""What the machine offers to this process."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def usable_cores() -> int:
    """How many processors this process may run on.

    Example:
        >>> usable_cores() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_LIMIT: list[int] = []
"""The limits on cores that are in force, the newest last."""


def core_limit() -> int | None:
    """How many cores this process was told to use; None for all."""
    return _LIMIT[-1] if _LIMIT else None


@contextmanager
def limited_cores(most: int | None) -> Iterator[None]:
    """Inside, work is spread over at most so many cores; None changes nothing.

    Example:
        >>> with limited_cores(1):
        ...     core_limit()
        1
    """
    if most is None:
        yield
        return
    import cv2

    before = cv2.getNumThreads()
    _LIMIT.append(most)
    cv2.setNumThreads(most)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
        _LIMIT.remove(most)


def processor_count() -> int:
    """Cores to use: what it was told, what OMP_NUM_THREADS says, or those this process may run on.

    The variable is what numerical libraries agree on, and what parallel workers set to 1.
    """
    if (limit := core_limit()) is not None:
        return limit
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return usable_cores()


def cache_folder() -> Path:
    """Where this program may keep what can be made again: a folder in the user's cache, as the system has it.

    Example:
        >>> cache_folder().name
        'allfocus'
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    if base:
        return Path(base) / "allfocus"
    own = "Library/Caches" if sys.platform == "darwin" else ".cache"
    try:
        return Path.home() / own / "allfocus"
    except RuntimeError:  # nobody's home is known
        return Path(tempfile.gettempdir()) / "allfocus"
