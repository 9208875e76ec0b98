"""Cells in parallel: one single-threaded process for each, so that times compare and no processor is claimed twice."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from allfocus.evaluation.cells import Cell, CellTask, run_cell

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Read by numerical libraries when they are loaded, so they must be set before a worker starts."""


def run_cells(tasks: Sequence[CellTask], *, workers: int) -> Iterator[tuple[int, Cell]]:
    """The number of each task with its cell, as they are finished.

    One worker runs in this process. More are processes of their own; if one dies (for want of memory, say), only the
    cell that killed it becomes an error.
    """
    if workers == 1 or len(tasks) == 1:
        with _one_thread():
            for number, task in enumerate(tasks):
                yield number, run_cell(task)
        return
    done: set[int] = set()
    try:
        with _pool(min(workers, len(tasks))) as pool:
            for number, cell in _collect(pool, tasks):
                done.add(number)
                yield number, cell
    except BrokenProcessPool:
        # Nobody knows which cell it was: the rest goes one at a time, each able to kill only its own process.
        for number, task in enumerate(tasks):
            if number not in done:
                yield number, _run_alone(task)


def _collect(pool: ProcessPoolExecutor, tasks: Sequence[CellTask]) -> Iterator[tuple[int, Cell]]:
    numbers: dict[Future[Cell], int] = {}
    try:
        for number, task in enumerate(tasks):
            numbers[pool.submit(run_cell, task)] = number
        for future in as_completed(numbers):
            yield numbers[future], future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _run_alone(task: CellTask) -> Cell:
    try:
        with _pool(1) as pool:
            return pool.submit(run_cell, task).result()
    except BrokenProcessPool:
        text = f"the process that ran {task.method} died; it may have run out of memory"
        return Cell(task.dataset, task.sample.name, task.method, error=text)


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        # Spawned, not forked: a forked copy of a process that has threads may hang.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare_worker) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _prepare_worker() -> None:
    import cv2

    # Ctrl-C reaches all processes; this one finishes its cell, and the parent stops.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(1)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)
