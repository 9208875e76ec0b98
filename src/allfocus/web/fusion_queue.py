"""The queue of long work: a bounded line of stacks in front of a few threads, each of which minds one process."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from allfocus.web.processes import WorkerProcess
from allfocus.web.refusals import Refusal


@dataclass(eq=False)
class Work:
    """One piece of long work."""

    job_id: str
    method: str
    alternative: bool = False
    """False for the fusion of the job, True for another method's result beside it."""
    process: WorkerProcess = field(default_factory=WorkerProcess)
    cancelled: bool = False
    slabs: tuple[int, int] | None = None
    """Frames and overlap of the slabs to make of the open result."""
    began: float | None = None
    """When it left the line, by ``time.monotonic``; None while it waits."""


class FusionQueue:
    """Runs work in the order in which it came, unless told another, a few at a time.

    Args:
        carry_out: Does one piece of work and does not raise.
        workers: How many at a time.
        waiting: How many may wait besides those that run.
        moved: Called after a piece of work has ended and runs no more.
        keep: Called with whether the queue is paused and with what waits whenever somebody has changed that.
        line: What waits already.
        paused: Whether nothing begins for now.
    """

    def __init__(
        self,
        carry_out: Callable[[Work], None],
        *,
        workers: int,
        waiting: int,
        moved: Callable[[], None] = lambda: None,
        keep: Callable[[bool, Sequence[Work]], None] = lambda paused, line: None,
        line: Sequence[Work] = (),
        paused: bool = False,
    ) -> None:
        self._carry_out, self._moved, self._keep = carry_out, moved, keep
        self._workers, self._most_waiting = workers, waiting
        self._line: deque[Work] = deque(line)
        self._running: list[Work] = []
        self._changed = threading.Condition()
        self._closing, self._paused = False, paused
        self._threads = [threading.Thread(target=self._work, name=f"fusion-{n}", daemon=True) for n in range(workers)]

    def begin(self) -> None:
        """Begin to work on what waits; before that nothing is carried out."""
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many wait now."""
        with self._changed:
            return len(self._line)

    @property
    def paused(self) -> bool:
        """True while nothing new begins."""
        return self._paused

    def pause(self, paused: bool) -> None:
        """Let nothing new begin until told otherwise; what runs goes on to its end."""
        with self._changed:
            self._paused = paused
            self._keep(paused, self._line)
            self._changed.notify_all()

    def order(self, job_ids: Sequence[str]) -> None:
        """Put the work of these jobs first, in this order; what else waits follows as it was.

        Jobs that do not wait any more are passed over: whoever orders has seen the line as it was a moment ago.
        """
        places = {job_id: place for place, job_id in reversed(list(enumerate(job_ids)))}
        with self._changed:
            self._line = deque(sorted(self._line, key=lambda work: places.get(work.job_id, len(places))))
            self._keep(self._paused, self._line)

    def snapshot(self) -> tuple[list[Work], list[Work]]:
        """What runs, and what waits in its order."""
        with self._changed:
            return list(self._running), list(self._line)

    def submit(self, work: Work) -> None:
        """Put work in the line.

        Raises:
            Refusal: the line is full.
        """
        with self._changed:
            idle = 0 if self._paused else self._workers - len(self._running)
            if len(self._line) - idle >= self._most_waiting:
                raise Refusal(429, f"{len(self._line)} stacks wait already; try again later", retry_after=20)
            self._line.append(work)
            self._keep(self._paused, self._line)
            self._changed.notify()

    def cancel(self, job_id: str) -> list[Work]:
        """Take a job's work out of the line, and end what runs; what was only waiting comes back."""
        with self._changed:
            taken = [work for work in self._line if work.job_id == job_id]
            for work in taken:
                self._line.remove(work)
            if taken:
                self._keep(self._paused, self._line)
            for work in (*taken, *(work for work in self._running if work.job_id == job_id)):
                work.cancelled = True
                work.process.kill()
            return taken

    def close(self) -> None:
        """End what runs and wait for the threads; what waits stays in the line, and is kept."""
        with self._changed:
            self._closing = True
            for work in self._running:
                work.process.kill()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=10)

    @property
    def closing(self) -> bool:
        """True once the server stops."""
        return self._closing

    def _work(self) -> None:
        while True:
            with self._changed:
                while (self._paused or not self._line) and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                work = self._line.popleft()
                work.began = time.monotonic()
                self._running.append(work)
            try:
                self._carry_out(work)
            finally:
                work.process.close()
                with self._changed:
                    self._running.remove(work)
                    self._keep(self._paused, self._line)
                self._moved()
