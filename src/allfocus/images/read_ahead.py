"""What is needed next, made in other threads while what was made before is used."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, TypeVar

Made = TypeVar("Made")


class ReadAhead(Generic[Made]):
    """Makes things by their number: when they are asked for, or before, if it was told which those will be.

    What goes wrong in another thread goes wrong where the thing is asked for, and never if it is not.
    """

    def __init__(self, make: Callable[[int], Made]) -> None:
        self._make = make
        self._most = 0
        self._next: deque[int] = deque()
        self._coming: dict[int, Future[Made]] = {}
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def expecting(self, numbers: Iterable[int], *, most: int) -> Iterator[None]:
        """Inside, these are made ahead in their order, at most so many at a time; 0 and below for none.

        When it ends no other thread is at work, and what nobody asked for is gone.
        """
        if most < 1 or self._pool is not None:
            yield
            return
        self._most, self._next = most, deque(numbers)
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="allfocus-ahead")
        self._begin()
        try:
            yield
        finally:
            self._next.clear()
            self._pool.shutdown(cancel_futures=True)
            self._drop()
            self._pool = None

    def take(self, number: int) -> Made:
        """One of them; it is let go."""
        if number in self._coming:
            while (passed := next(iter(self._coming))) != number:
                self._coming.pop(passed).cancel()
        elif number in self._next:
            self._drop()
            while self._next.popleft() != number:
                pass
        coming = self._coming.pop(number, None)
        self._begin()
        return self._make(number) if coming is None else coming.result()

    def _begin(self) -> None:
        """Begins with the next ones, as far as there may be more at a time."""
        while self._pool is not None and self._next and len(self._coming) < self._most:
            number = self._next.popleft()
            self._coming[number] = self._pool.submit(self._make, number)

    def _drop(self) -> None:
        """Lets go of what was begun and is not wanted."""
        for coming in self._coming.values():
            coming.cancel()
        self._coming.clear()
