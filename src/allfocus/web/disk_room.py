"""How much of the disk the jobs of a studio take, and whether more fits."""

import shutil
import threading

from allfocus.web.layer_cache import LayerCache
from allfocus.web.refusals import Refusal
from allfocus.web.settings import ServerSettings
from allfocus.web.store import JobStore

DISK_RESERVE = 256 * 2**20
"""Bytes of the disk that are left free whatever the limit says, for everything else on the machine."""


class DiskRoom:
    """The room of all jobs together, within the limit of the server and what the disk has."""

    def __init__(self, settings: ServerSettings, store: JobStore, cache: LayerCache) -> None:
        self._settings = settings
        self._store = store
        self._cache = cache
        self._coming = 0
        self._lock = threading.Lock()

    def used(self) -> int:
        """Bytes of all jobs together, with what is on its way in."""
        with self._store.lock:
            jobs = list(self._store.jobs.values())
            return sum(job.bytes_on_disk for job in jobs) + self._coming + self._cache.used

    def free(self) -> int:
        """Bytes for which there is room now, layers that can be made again counted as room."""
        return max(0, self._left() + self._cache.used)

    def require(self, size: int) -> None:
        """Make sure that so many bytes fit, if need be by deleting layers that can be made again.

        Raises:
            Refusal: they do not.
        """
        if self._left() < size:
            self._cache.shrink(size - self._left())
        if self._left() < size:
            raise Refusal(507, "the work folder is full; delete jobs that are no longer needed")

    def _left(self) -> int:
        """Bytes until the limit or the end of the disk; below 0 where it is passed."""
        on_disk = shutil.disk_usage(self._settings.work).free - DISK_RESERVE
        return min(self._settings.disk_bytes - self.used(), on_disk)

    def count_coming(self, size: int) -> None:
        """Count so many bytes more (or fewer) as on their way in."""
        with self._lock:
            self._coming += size


class Reservation:
    """Bytes of one upload, counted as used while they come in."""

    def __init__(self, room: DiskRoom) -> None:
        self._room = room
        self._size = 0

    def grow(self, size: int) -> None:
        """Reserve so many bytes more.

        Raises:
            Refusal: there is no room for them.
        """
        # Counted before it is asked, so that two uploads cannot both be promised the last room.
        self._room.count_coming(size)
        self._size += size
        self._room.require(0)

    def release(self) -> None:
        """Count the bytes no longer."""
        self._room.count_coming(-self._size)
        self._size = 0
