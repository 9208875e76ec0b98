"""Ctrl-C while packages are loaded: an end at once and in order, where Python itself would print a traceback.

Libraries written in C may turn the exception for Ctrl-C into another one while they are loaded, or lose it. Nothing has
been begun then, so there is nothing to clean up, and the process can simply end. Afterwards Ctrl-C is an exception
again, so that work can be undone.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""128 + SIGINT, as shells report a command stopped with Ctrl-C."""


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Inside, Ctrl-C ends the process with one line and exit code 130; meant for imports only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: object) -> None:
    # The line begins anew, because the terminal has written ^C on the old one.
    os.write(2, b"\nallfocus: interrupted\n")
    os._exit(INTERRUPTED)
