"""What the machine offers to this process."""

import os


def usable_cores() -> int:
    """How many processors this process may run on.

    Example:
        >>> usable_cores() >= 1
        True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
