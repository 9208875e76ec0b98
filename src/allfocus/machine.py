"""What the machine offers to this process."""

import os
import sys
import tempfile
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
