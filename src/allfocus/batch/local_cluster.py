"""A cluster on this machine: how many workers fit, and how they are started so that nobody else can speak to them."""

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Any

from allfocus.batch.credentials import make_credentials
from allfocus.errors import InputError

MEMORY_FOR_A_WORKER = 2_500_000_000
"""Bytes: what fusing 24-megapixel frames takes at its peak. Fewer workers than processors are started if need be."""


def local_size(workers: int | None, memory_limit: int | None) -> tuple[int, int]:
    """How many workers a local cluster gets, and how many bytes each of them may use.

    Example:
        >>> local_size(2, 10**9)
        (2, 1000000000)
    """
    from dask.system import CPU_COUNT
    from distributed.system import MEMORY_LIMIT

    if workers is None:
        share = MEMORY_FOR_A_WORKER if memory_limit is None else memory_limit
        workers = max(1, min(int(CPU_COUNT), int(MEMORY_LIMIT) // share))
    if workers < 1:
        raise InputError(f"a cluster has 1 worker or more; found {workers}")
    return workers, int(MEMORY_LIMIT) // workers if memory_limit is None else memory_limit


def start_local(workers: int, memory_limit: int) -> Any:
    """A scheduler with so many workers of one thread each, which may use so many bytes each."""
    import distributed

    local_cluster: Any = distributed.LocalCluster
    return local_cluster(
        # Only the processes of this run: whoever else could speak to the scheduler could run code in the workers.
        security=_private_security(),
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=memory_limit,
        # Any free port on this machine alone: two batches at a time must not quarrel about one.
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        preload="allfocus.batch.worker_setup",
        env={"DASK_LOGGING__DISTRIBUTED": "critical"},
    )


def _private_security() -> Any:
    """Dask's settings for TLS with credentials that only this run has."""
    import distributed

    own = make_credentials()
    roles = {f"tls_{role}_{part}" for role in ("client", "scheduler", "worker") for part in ("key", "cert")}
    files = {name: own.key if name.endswith("key") else own.certificate for name in roles}
    security: Any = distributed.Security
    return security(require_encryption=True, tls_ca_file=own.certificate, **files)


@contextlib.contextmanager
def hold_interruptions() -> Iterator[None]:
    """Ctrl-C inside waits until the end, and never reaches the processes that are started inside.

    Half a cluster cannot be stopped in order, and a worker must not end by a Ctrl-C before it has learnt to ignore it.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Python starts this helper with the first process, and lets signals through again when it has: so before.
    resource_tracker.ensure_running()
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    # Threads and processes that are started take over what is blocked; a handler they would not.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, before)
    if received:
        if callable(before):
            before(received[0], None)  # raises, and may count
        raise KeyboardInterrupt
