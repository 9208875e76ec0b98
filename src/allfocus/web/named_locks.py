"""Locks by name that are gone when nobody holds them, so that a long-lived server keeps none of what it deleted."""

import threading
import weakref
from collections.abc import Hashable


class NamedLocks:
    """One lock for each name, for as long as somebody uses it.

    Example:
        >>> locks = NamedLocks()
        >>> with locks.of("job"):
        ...     len(locks)
        1
        >>> len(locks)
        0
    """

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[Hashable, threading.Lock] = weakref.WeakValueDictionary()
        self._own = threading.Lock()

    def __len__(self) -> int:
        return len(self._locks)

    def of(self, name: Hashable) -> threading.Lock:
        """The lock of that name; the same for all who ask while one of them has it."""
        with self._own:
            lock = self._locks.get(name)
            if lock is None:
                self._locks[name] = lock = threading.Lock()
            return lock
