"""Connections: how many there may be, how long one may take to say what it wants, and how much is logged about them.

Anybody who can reach the port can open connections, before any token is asked for. A connection that does not finish
its headers in time is ended, and when there are too many, those that have waited longest without a request go first.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

LONGEST_HEADERS = 15.0
"""Seconds in which a connection must have sent the headers of a request."""
MOST_CONNECTIONS = 800
"""At a time, event streams included."""
SPARE_FILES = 200
"""Open files that are left for everything else."""
RECORDS_A_MINUTE = 60
"""Lines of the log of each kind; what comes beyond that is counted and told once."""


def most_connections() -> int:
    """How many connections there may be, within what the process may open."""
    try:
        import resource
    except ImportError:
        return MOST_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(16, min(MOST_CONNECTIONS, soft - SPARE_FILES))


class ImpatientProtocol(H11Protocol):
    """A connection that is ended when its headers do not come, or when there are too many without a request."""

    _waiting: ClassVar["OrderedDict[ImpatientProtocol, asyncio.TimerHandle]"] = OrderedDict()

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for headers."""
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            oldest = next(iter(self._waiting), None)
            (oldest or self).transport.abort()
            if oldest is None:
                return
            oldest._stop_waiting()
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came; wait on when it was not the whole of the headers."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif not self.transport.is_closing():
            self._wait()

    def on_response_complete(self) -> None:
        """Leave the wait for the next request to the shorter one of a connection that is kept."""
        self._stop_waiting()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self not in self._waiting:
            self._waiting[self] = self.loop.call_later(LONGEST_HEADERS, self._give_up)

    def _stop_waiting(self) -> None:
        timer = self._waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()


class RecordLimit(logging.Filter):
    """Lets only so many records of a logger pass each minute, so that nobody can fill the disk by making mistakes."""

    def __init__(self, most: int = RECORDS_A_MINUTE) -> None:
        super().__init__()
        self._most = most
        self._since = 0.0
        self._seen = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return False  # a request that was broken off because the server ends: nobody's mistake
        now = time.monotonic()
        if now - self._since > 60 or not self._since:
            self._since, self._seen = now, 0
        self._seen += 1
        if self._seen == self._most:
            record.msg, record.args, record.exc_info = (
                f"{record.getMessage()} (more in this minute is left out)",
                (),
                None,
            )
        return self._seen <= self._most


def limit_logs() -> None:
    """Limit what the server and its libraries log about connections and requests."""
    for name in ("uvicorn", "uvicorn.error", "asyncio", "allfocus.web"):
        logger = logging.getLogger(name)
        if not any(isinstance(each, RecordLimit) for each in logger.filters):
            logger.addFilter(RecordLimit())
