"""The server's end of its worker processes: one that can be killed at any point, and a small pool for short tasks."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from allfocus.errors import AllfocusError, error_from_plain
from allfocus.web.refusals import Refusal
from allfocus.web.worker import MEMORY_LIMIT

Message = dict[str, Any]

LONGEST_WAIT = 60.0
"""Seconds that a short task may wait for a free process."""

LONGEST_TASK = 300.0
"""Seconds that a short task may take; a decoder that hangs on a crafted file is ended then."""


class TaskError(Exception):
    """A task that could not be carried out; ``bad`` when its input is at fault."""

    def __init__(self, error: AllfocusError, *, bad: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.bad = bad


class WorkerProcess:
    """A process that carries out tasks, one at a time.

    It is started when it is first needed, and again after it has ended.

    Args:
        memory: Bytes that it may take; None sets no limit.
    """

    def __init__(self, memory: int | None = None) -> None:
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._lock = threading.Lock()

    def run(self, name: str, values: dict[str, Any], *, tell: Callable[[Message], None] | None = None) -> Any:
        """What the task returns.

        Raises:
            TaskError: the task failed, or its process ended (crashed, ran out of memory, or was killed).
        """
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"name": name, "values": values}).encode() + b"\n")
            process.stdin.flush()
            for line in process.stdout:
                message = json.loads(line)
                if "error" in message:
                    raise TaskError(error_from_plain(message["error"]), bad=message["bad"])
                if "done" in message:
                    return message["done"]
                if tell is not None:
                    tell(message)
        except (OSError, ValueError):
            pass  # a broken pipe: the process has ended, as below
        code = self._reap(process)
        raise TaskError(_why_it_ended(code))

    def kill(self) -> None:
        """End the process at once; a task under way fails. It does not start again."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                self._process.kill()

    def interrupt(self) -> None:
        """End the process at once; the next task gets a new one."""
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        if self._process is not None:
            self._reap(self._process)

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._ended:
                raise TaskError(AllfocusError("it was cancelled"))
            if self._process is None or self._process.poll() is not None:
                # As for this process, so that a library that was found here is found there.
                environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
                environment[MEMORY_LIMIT] = str(self._memory or "")
                try:
                    self._process = subprocess.Popen(
                        [sys.executable, "-P", "-m", "allfocus.web.worker"],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        env=environment,
                    )
                except OSError as error:
                    raise TaskError(_why_none_starts(error)) from error
            return self._process

    def _reap(self, process: "subprocess.Popen[bytes]") -> int:
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not yet written has nobody to read it
                    pipe.close()
        return code


def _why_none_starts(error: OSError) -> AllfocusError:
    return AllfocusError(
        f"no process can be started for it ({error.strerror}); end other programs, and try again", code="memory"
    )


def _why_it_ended(code: int) -> AllfocusError:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return AllfocusError(f"its worker process ended ({how}), perhaps for want of memory; try fewer or smaller frames")


class ProcessPool:
    """A few processes for short tasks on clients' files; who asks waits for a free one."""

    def __init__(self, count: int, memory: int | None = None) -> None:
        self._all = [WorkerProcess(memory) for _ in range(count)]
        self._free: queue.LifoQueue[WorkerProcess] = queue.LifoQueue()
        for process in self._all:
            self._free.put(process)

    def run(self, name: str, values: dict[str, Any]) -> Any:
        """What the task returns.

        Raises:
            TaskError: the task failed.
            Refusal: all processes were busy for too long.
        """
        try:
            process = self._free.get(timeout=LONGEST_WAIT)
        except queue.Empty:
            raise Refusal(429, "the server is busy with other pictures; try again soon", retry_after=10) from None
        watchdog = threading.Timer(LONGEST_TASK, process.interrupt)
        watchdog.daemon = True
        watchdog.start()
        try:
            return process.run(name, values)
        finally:
            watchdog.cancel()
            self._free.put(process)

    def close(self) -> None:
        """End all processes."""
        for process in self._all:
            process.close()
