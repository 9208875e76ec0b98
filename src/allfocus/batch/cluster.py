"""Work on Dask: a local cluster sized to this machine, or any running scheduler, with tasks that outlive both.

The cluster keeps every task until its result is there. A worker that dies costs Dask a new try; a scheduler that is
restarted has forgotten everything, so the connection is made anew and what is missing is given to it again.
"""

import contextlib
import importlib.util
import logging
import os
import pickle
import socket
import ssl
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from allfocus.batch.local_cluster import hold_interruptions, local_size, start_local
from allfocus.batch.scheduler_address import about_encryption, is_scheduler_file, read_scheduler_file, require_address
from allfocus.errors import AllfocusError, InputError, MissingDependencyError
from allfocus.version import __version__

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 120.0
"""Seconds that a scheduler may be gone before the run gives up."""
FAILURES = 1
"""How often a task may take a further local worker with it, before it is tried again when nothing else runs."""


@dataclass(frozen=True)
class Lost:
    """The outcome of a task whose worker died, or that Dask could not run."""

    reason: str
    worker_died: bool = False
    """Whether it was with workers that died, though another task may have been the cause."""


class Cluster:
    """A connection to Dask; a context manager that starts and stops it.

    Args:
        scheduler: Address (``tcp://host:8786``) or scheduler file of a running scheduler; None starts one here with its
            workers as processes of one thread each.
        workers: Processes of a local cluster; None sizes it to the machine: one for each processor, as far as the
            memory goes round.
        memory_limit: Bytes that each local worker may use before it is restarted; None shares what there is.
        patience: Seconds to wait for a scheduler that is gone.

    Raises:
        MissingDependencyError: Dask is not installed.
        InputError: No scheduler answers.
    """

    def __init__(
        self,
        scheduler: str | None = None,
        *,
        workers: int | None = None,
        memory_limit: int | None = None,
        patience: float = PATIENCE,
    ) -> None:
        if importlib.util.find_spec("distributed") is None:
            raise MissingDependencyError("Dask is not installed: pip install 'allfocus[batch]'")
        if scheduler is not None and (workers is not None or memory_limit is not None):
            raise InputError("a running scheduler brings its own workers: leave out their number and memory, or it")
        self.scheduler = scheduler
        self._workers, self._memory_limit = local_size(workers, memory_limit) if scheduler is None else (0, 0)
        self._patience = patience
        self._stack = contextlib.ExitStack()
        self._local: Any = None
        self._client: Any = None
        self._tasks: dict[Hashable, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._futures: dict[Hashable, Any] = {}
        self._outcomes: dict[Hashable, Any] = {}
        self._suspects: list[Hashable] = []
        self._tried_alone: set[Hashable] = set()
        self._submitted = 0
        self.restarts = 0
        """How often the scheduler was lost and found again."""

    def __enter__(self) -> "Cluster":
        import dask
        import distributed  # noqa: F401 (its settings must be there before ours, or they would go with ours in the end)

        settings = {
            "distributed.scheduler.allowed-failures": FAILURES,
            # Dask gives up a local worker that is not back after 15 s, for good; a busy machine may take longer.
            "distributed.deploy.lost-worker-timeout": "1 hour",
        }
        self._stack.enter_context(dask.config.set(settings))
        self._stack.enter_context(_quiet_logs())
        try:
            if self.scheduler is None:
                with hold_interruptions():
                    self._local = start_local(self._workers, self._memory_limit)
                    self._stack.callback(self._local.close, timeout=20)
            self._client = self._connect(timeout=min(15.0, self._patience))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._drop_client(cancel=True)
        finally:
            self._stack.close()

    def _connect(self, timeout: float) -> Any:
        import distributed

        client: Any = distributed.Client
        if self._local is not None:
            return client(self._local, timeout=timeout, set_as_default=False)
        address = str(self.scheduler)
        if is_scheduler_file(address):
            address = read_scheduler_file(Path(address), self._patience)
        try:
            # Before Dask sees it: a client of its own that cannot be made is closed later, with a wait and a traceback.
            require_address(address)
            return client(address=address, timeout=timeout, set_as_default=False)
        except ssl.SSLError as error:
            raise InputError(
                f"{address}: the certificates do not fit the scheduler's ({_first_line(error)}); both need one CA"
            ) from error
        except FileNotFoundError as error:
            missing = error.filename or address
            raise InputError(f"{missing}: no such file; check the settings of TLS and the scheduler file") from error
        except (OSError, ValueError) as error:
            raise InputError(
                f"{address}: no Dask scheduler answers there ({_first_line(error)}); start one with: dask scheduler"
                + about_encryption(address)
            ) from error

    def _drop_client(self, *, cancel: bool) -> None:
        client, self._client = self._client, None
        futures, self._futures = list(self._futures.values()), {}
        if client is None:
            return
        with contextlib.suppress(Exception):
            if cancel and futures and client.status == "running":
                client.cancel(futures, force=True)
        with contextlib.suppress(Exception):
            client.close(timeout=2)

    @property
    def dashboard(self) -> str:
        """The address of Dask's own page about the run; empty when it has none."""
        with contextlib.suppress(Exception):
            return str(self._client.dashboard_link or "")
        return ""

    @property
    def worker_count(self) -> int:
        """Workers at the moment, as far as is known."""
        with contextlib.suppress(Exception):
            return len(self._client.scheduler_info(n_workers=-1)["workers"])
        return 0

    @property
    def waiting(self) -> int:
        """Tasks without a result."""
        return len(self._tasks)

    def submit(self, key: Hashable, function: Callable[..., Any], *arguments: Any) -> None:
        """Has a function called on some worker; the outcome comes from ``collect`` under the key.

        Args:
            key: Names the task; not that of a task still waiting.
            function: Of a module that workers can import; one that cannot gives ``Lost``.
            arguments: Small: paths and options, never pixels.
        """
        self._tasks[key] = (function, arguments)
        self._give(key)

    def _give(self, key: Hashable) -> None:
        function, arguments = self._tasks[key]
        self._submitted += 1
        # A name of its own each time: a restarted scheduler and a worker that lived on must not mix up two tries.
        name = f"{getattr(function, '__name__', 'task')}-{os.getpid()}-{id(self):x}-{self._submitted}"
        try:
            future = self._client.submit(pickle.loads, _as_task(function, arguments), key=name, pure=False)
        except Exception:
            if self._client.status == "running":
                raise
            return  # the scheduler has just gone; the next look finds that out
        self._futures[key] = future

    def collect(self, seconds: float = 0.2) -> dict[Any, Any]:
        """The outcomes that have come in, after waiting for some: what the function returned, or ``Lost``.

        Raises:
            AllfocusError: The scheduler has been gone for too long.
        """
        deadline = time.monotonic() + seconds
        while True:
            self._gather()
            self._give_again()
            if self._outcomes or not self._tasks or time.monotonic() >= deadline:
                return self._hand_over()
            time.sleep(min(0.05, seconds))

    def collect_finished(self) -> dict[Any, Any]:
        """The outcomes that have come in, at once, with nothing given to the cluster again: for a run that ends."""
        self._gather()
        return self._hand_over()

    def _hand_over(self) -> dict[Any, Any]:
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes

    def _gather(self) -> None:
        # Each outcome is kept at once: an interruption while the next one comes over must not lose it.
        for key, future in list(self._futures.items()):
            status = future.status
            if status == "pending":
                continue
            outcome = _outcome(future, status)
            del self._futures[key]
            if isinstance(outcome, Lost) and outcome.worker_died and key not in self._tried_alone:
                self._suspects.append(key)
            elif outcome is not None:
                self._outcomes[key] = outcome
                del self._tasks[key]

    def _give_again(self) -> None:
        """Gives what was lost to the cluster again, which is found or filled up first."""
        if self._client is None or self._client.status != "running":
            self._reconnect()
        if self._local is not None:
            self._fill_up()
        for key in self._tasks:
            if key not in self._futures and key not in self._suspects:
                self._give(key)
        if self._suspects and not self._futures:
            # Dask blames every task that a dying worker held: alone, an innocent one shows that it is.
            key = self._suspects.pop(0)
            self._tried_alone.add(key)
            self._give(key)

    def _fill_up(self) -> None:
        """Starts local workers for those that have ended for good; one that is only restarting comes back by itself."""
        for name, worker in list(self._local.workers.items()):
            if worker.status.name in ("closed", "failed"):
                # From both, because a new one may get the same name, and would be taken for there already.
                self._local.worker_spec.pop(name, None)
                self._local.workers.pop(name, None)
        if len(self._local.worker_spec) < self._workers:
            self._local.scale(self._workers)

    def _reconnect(self) -> None:
        self._drop_client(cancel=False)
        deadline = time.monotonic() + self._patience
        while True:
            try:
                self._client = self._connect(timeout=min(5.0, self._patience))
                self.restarts += 1
                return
            except InputError as error:
                if time.monotonic() >= deadline:
                    raise AllfocusError(
                        f"the scheduler has been gone for {self._patience:.0f} s ({error}); run the same command again "
                        "to go on where it stopped"
                    ) from error
            time.sleep(0.5)

    def run_all(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result | Lost]]:
        """The number of each item with its outcome, as they come in."""
        for number, item in enumerate(items):
            self.submit(number, function, item)
        while self.waiting:
            yield from self.collect(1.0).items()


def _as_task(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """A pickle that calls the function when it is loaded, which a worker does as its task.

    A worker that cannot unpack a message ends (and would end all that are tried after it); one that cannot unpack its
    task reports an error. So what workers may lack, such as this package, is inside the task.
    """
    return pickle.dumps(_Call(function, arguments))


@dataclass(frozen=True)
class _Call:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return run_task, (__version__, self.function, *self.arguments)


def run_task(version: str, function: Callable[..., Result], *arguments: Any) -> Result:
    """What a function returns on a worker that has the same version of allfocus as the program that asks.

    Raises:
        InputError: The worker has another version, which could give another result.
    """
    if version != __version__:
        raise InputError(
            f"the worker on {socket.gethostname()} has allfocus {__version__}, but {version} was asked for; "
            "install the same version everywhere"
        )
    return function(*arguments)


def _outcome(future: Any, status: str) -> Any:
    """What became of a future that is no longer pending; None when the task must be given again."""
    if status not in ("finished", "error"):
        return None
    from distributed import KilledWorker

    try:
        if status == "finished":
            return future.result(timeout=30)
        error = future.exception(timeout=30)
    except Exception:  # the worker or the scheduler went away before the result came over
        return None
    if isinstance(error, KilledWorker):
        return Lost("workers died each time they ran it; it may need more memory than a worker has", True)
    if isinstance(error, AllfocusError):
        return Lost(str(error))
    if isinstance(error, ImportError):
        return Lost(f"a worker cannot import allfocus ({_first_line(error)}); install the same version everywhere")
    return Lost(f"{type(error).__name__}: {_first_line(error)}")


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    """What Dask logs about lost workers is told in our own words."""
    import distributed  # noqa: F401 (its loggers must be there, each of which has a level of its own)

    roots = ("distributed", "tornado", "asyncio")
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in roots]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]
