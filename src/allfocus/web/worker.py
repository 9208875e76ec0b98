"""A worker process: takes one task at a time as a line of JSON on stdin, and answers with lines of JSON on stdout.

Answers are ``{"progress": ...}`` and ``{"notice": ...}`` on the way, then ``{"done": value}`` or ``{"error": plain}``
(``AllfocusError.to_plain``) with ``"bad": true`` when the input is at fault. It ends when stdin does, so it outlives no
server that was killed.
"""

import contextlib
import json
import logging
import os
import queue
import signal
import sys
import threading
import traceback
from typing import Any, BinaryIO, TextIO

MEMORY_LIMIT = "ALLFOCUS_WORKER_MEMORY"
"""The variable that tells a worker process how many bytes it may take."""


def main() -> None:
    """Work until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends this process
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("800")  # when the memory is full, the system shall take this process and not the server
    _limit_memory(os.environ.get(MEMORY_LIMIT))
    logging.getLogger("tifffile").addHandler(logging.NullHandler())
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not get between the answers
    tasks: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, tasks), daemon=True).start()
    while True:
        task = tasks.get()
        _answer(answers, _carry_out(task, answers))


def _limit_memory(limit: str | None) -> None:
    """Let the system refuse memory beyond the limit, so that no file a client sends can take that of the machine."""
    if not limit:
        return
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        # What is written to, and not addresses: libraries reserve many more of those than they ever use.
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))


def _listen(source: BinaryIO, tasks: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in source:
        tasks.put(json.loads(line))
    os._exit(1)  # the server is gone; in the middle of a task there is nobody left to finish it for


def _carry_out(task: dict[str, Any], answers: TextIO) -> dict[str, Any]:
    from allfocus.errors import AllfocusError, MemoryShortageError, OutputError
    from allfocus.web.channel_tasks import CHANNEL_TASKS
    from allfocus.web.tasks import TASKS

    try:
        return {
            "done": (TASKS | CHANNEL_TASKS)[task["name"]](
                **task["values"], tell=lambda message: _answer(answers, message)
            )
        }
    except AllfocusError as error:
        return {"error": error.to_plain(), "bad": True}
    except MemoryError:  # what our own errors say of it is above
        short = MemoryShortageError("there is not enough memory; use fewer or smaller frames")
        return {"error": short.to_plain(), "bad": True}
    except OSError as error:
        full = OutputError(f"the disk refused ({error.strerror or error}); free some space")
        return {"error": full.to_plain(), "bad": False}
    except Exception as error:
        traceback.print_exc()
        return {"error": AllfocusError(f"unexpected {type(error).__name__}: {error}").to_plain(), "bad": False}


def _answer(answers: TextIO, message: dict[str, Any]) -> None:
    try:
        answers.write(json.dumps(message) + "\n")
        answers.flush()
    except OSError:
        os._exit(1)  # nobody listens any more


if __name__ == "__main__":
    main()
