"""How much memory there is, and whether a picture fits into it, asked before room is made for its pixels."""

import os
from pathlib import Path

from allfocus.errors import MemoryShortageError

BYTES_OF_A_VALUE = 8
"""A sample becomes a float32, and is copied once when the picture is turned or its alpha taken apart."""


def require_room(width: int, height: int, samples: int, bytes_per_sample: int) -> None:
    """Raise MemoryShortageError when a picture would need more memory than there is.

    Args:
        width: Columns.
        height: Rows.
        samples: Of each pixel, alpha included.
        bytes_per_sample: In the file, unpacked.
    """
    needed = width * height * samples * (bytes_per_sample + BYTES_OF_A_VALUE)
    free = available_memory()
    if free is not None and needed > free:
        raise MemoryShortageError(
            f"a picture of {width}x{height} pixels needs about {needed / 1e9:.1f} GB of memory, and "
            f"{free / 1e9:.1f} GB are free; close other programs, or use smaller frames"
        )


def available_memory() -> int | None:
    """Bytes that this process can still take, by the system, its container and its own limits; None if unknown.

    Example:
        >>> free = available_memory()
        >>> free is None or free > 0
        True
    """
    found = [_free_of_system(), _free_of_container(), _free_of_process()]
    known = [value for value in found if value is not None]
    return max(0, min(known)) if known else None


def _free_of_system() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _free_of_container() -> int | None:
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            most = int(Path(limit).read_text(encoding="utf-8"))
            # What is kept of files can be given back, and may be most of what is used.
            now = int(Path(used).read_text(encoding="utf-8")) - _kept_of_files(Path(used).parent)
        except (OSError, ValueError):
            continue
        return most - now if most < 2**60 else None
    return None


def _kept_of_files(place: Path) -> int:
    try:
        for line in (place / "memory.stat").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(value)
    except (OSError, ValueError):
        pass
    return 0


def _free_of_process() -> int | None:
    try:
        import resource

        pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()
    except (ImportError, OSError):
        return None
    size = os.sysconf("SC_PAGE_SIZE")
    free = []
    for kind, used in ((resource.RLIMIT_AS, int(pages[0])), (resource.RLIMIT_DATA, int(pages[5]))):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            free.append(soft - used * size)
    return min(free) if free else None
