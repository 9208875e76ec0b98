"""News about jobs, from the threads that make it to the clients that listen (server-sent events)."""

import asyncio
import contextlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator

from allfocus.web.refusals import Refusal

LISTENERS = 400
"""At a time; each is an open connection."""

LONGEST_PROMISE = 30.0
"""Seconds for which the place of a client is kept whose stream has not begun."""

LONGEST_BACKLOG = 1000
"""Events kept for a client that does not read; then it is hung up on, and may come back for the state."""

PAUSE_AFTER_STATE = 0.05
"""Seconds."""

LIBRARY = "library"
"""Under this name, which is no job's, news about all jobs are told."""

HEARTBEAT = 15.0
"""Seconds between signs of life when there is no news, so that nothing in between takes the line for dead."""


class _Listener:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.queue: asyncio.Queue[tuple[str, object] | None] = asyncio.Queue(LONGEST_BACKLOG)
        self.slow = False
        self.state_waits = False

    def put(self, item: tuple[str, object] | None) -> None:
        if item is not None and item[0] == "state":
            # The state is looked up when it is sent, so one that waits already will tell the news too.
            if self.state_waits:
                return
            self.state_waits = True
        try:
            self.queue.put_nowait(item)
        except asyncio.QueueFull:
            self.slow = True


class EventBus:
    """Who listens to which job."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[_Listener]] = defaultdict(set)
        self._promised: list[float] = []
        self._ended = False
        self._lock = threading.Lock()

    def publish(self, job_id: str, event: str, content: object) -> None:
        """Tell all who listen to a job; may be called from any thread.

        Args:
            job_id: The job.
            event: "state", "progress" or "notice".
            content: What JSON can hold, or a function that gives it when it is sent.
        """
        self._send(job_id, (event, content))

    def end(self, job_id: str) -> None:
        """Hang up on all who listen to a job, because it is gone."""
        self._send(job_id, None)

    def end_all(self) -> None:
        """Hang up on everybody, because the server stops; who is about to listen hears the state and no more."""
        with self._lock:
            self._ended = True
        for job_id in list(self._listeners):
            self._send(job_id, None)

    def _send(self, job_id: str, item: tuple[str, object] | None) -> None:
        with self._lock:
            listeners = list(self._listeners.get(job_id, ()))
        for listener in listeners:
            with contextlib.suppress(RuntimeError):  # its loop is closed: the server is stopping
                listener.loop.call_soon_threadsafe(listener.put, item)

    def require_room(self) -> None:
        """Promise a client that it may listen; raise a Refusal when too many do, or have been promised it."""
        now = time.monotonic()
        with self._lock:
            # A client that goes away before its stream begins does not keep the promise.
            self._promised = [since for since in self._promised if now - since < LONGEST_PROMISE]
            if sum(map(len, self._listeners.values())) + len(self._promised) >= LISTENERS:
                raise Refusal(429, "too many clients listen already; try again later", retry_after=30)
            self._promised.append(now)

    async def listen(self, job_id: str, first: object) -> AsyncIterator[str]:
        """The events of a job as text of the stream; the first is the ``state`` given."""
        listener = _Listener()
        with self._lock:
            self._listeners[job_id].add(listener)
            if self._promised:
                self._promised.pop(0)
            ended = self._ended
        try:
            yield format_event("state", first)
            while not listener.slow and not ended:
                try:
                    item = await asyncio.wait_for(listener.queue.get(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if item is None:
                    return
                if item[0] == "state":
                    listener.state_waits = False
                yield format_event(*item)
                if item[0] == "state":  # of many changes in a row, such as uploads, some are told together
                    await asyncio.sleep(PAUSE_AFTER_STATE)
        finally:
            with self._lock:
                self._listeners[job_id].discard(listener)
                if not self._listeners[job_id]:
                    del self._listeners[job_id]


def format_event(event: str, content: object) -> str:
    r"""One event of a stream.

    Example:
        >>> format_event("notice", {"text": "two\nlines"})
        'event: notice\ndata: {"text": "two\\nlines"}\n\n'
    """
    content = content() if callable(content) else content
    return f"event: {event}\ndata: {json.dumps(content)}\n\n"
