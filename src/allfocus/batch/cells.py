"""A benchmark on a cluster: every cell of ``allfocus.evaluate`` is one task."""

from collections.abc import Callable, Iterator, Sequence

from allfocus.batch.cluster import PATIENCE, Cluster, Lost
from allfocus.evaluation.cells import Cell, CellTask, run_cell


def run_on_cluster(
    scheduler: str | None, *, workers: int | None = None, patience: float = PATIENCE
) -> Callable[[Sequence[CellTask]], Iterator[tuple[int, Cell]]]:
    """A function that fills cells on Dask, to be given to ``allfocus.evaluate`` as ``run``.

    The data sets and the output folder must lie, under the same absolute paths, on a file system that all workers
    share. A cell whose worker dies again and again becomes an error; a lost scheduler is waited for.

    Args:
        scheduler: Address or scheduler file of a running scheduler; None starts a cluster on this machine.
        workers: Of that local cluster.
        patience: Seconds to wait for a scheduler that is gone.
    """

    def run(tasks: Sequence[CellTask]) -> Iterator[tuple[int, Cell]]:
        with Cluster(scheduler, workers=workers, patience=patience) as cluster:
            for number, outcome in cluster.run_all(fill_cell, tasks):
                if isinstance(outcome, Lost):
                    task = tasks[number]
                    outcome = Cell(task.dataset, task.sample.name, task.method, error=outcome.reason)
                yield number, outcome

    return run


def fill_cell(task: CellTask) -> Cell:
    """The cell of a task, by a worker with one thread, so that processor times compare."""
    import cv2

    cv2.setNumThreads(1)
    return run_cell(task)
