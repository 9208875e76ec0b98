"""Steps over blocks on a cluster, which remember what is done: an interrupted run goes on where it stopped."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from allfocus.batch.cluster import Cluster, Lost
from allfocus.batch.planes.tasks import PixelBlock
from allfocus.errors import AllfocusError, OutputError
from allfocus.progress import StepProgress

Work = TypeVar("Work")
"""What a step is told: a :class:`PlaneJob`, or the arrays of a result."""


class BlockSteps:
    """Runs one step after the other, each on all its blocks, and remembers which blocks are done."""

    def __init__(self, cluster: Cluster, folder: Path, progress: StepProgress | None) -> None:
        self._cluster = cluster
        self._folder = folder
        self._progress = progress or (lambda step, done, count: None)
        self.blocks = 0
        self.done_before = 0
        self.peak_memory = 0

    def run(self, step: str, function: Callable[[Work, PixelBlock], int], job: Work, blocks: list[PixelBlock]) -> None:
        """Has a step done on the blocks that are not done yet."""
        markers = {block: self._folder / "done" / f"{step} {block[0]} {block[2]}" for block in blocks}
        waiting = [block for block in blocks if not markers[block].exists()]
        self.blocks += len(blocks)
        self.done_before += len(blocks) - len(waiting)
        done = len(blocks) - len(waiting)
        for number, outcome in self._cluster.run_all(_Call(function, job), waiting):
            if isinstance(outcome, Lost):
                raise AllfocusError(
                    f"{step} failed at rows {waiting[number][0]} to {waiting[number][1]}, columns {waiting[number][2]} "
                    f"to {waiting[number][3]}: {outcome.reason} (run the same command again to go on)"
                )
            self.peak_memory = max(self.peak_memory, outcome)
            try:
                markers[waiting[number]].touch()
            except OSError as error:
                raise OutputError(f"{self._folder}: cannot be written ({error.strerror}); free some space") from error
            done += 1
            self._progress(step, done, len(blocks))


@dataclass(frozen=True)
class _Call(Generic[Work]):
    """A function with its job, which can be sent to a worker."""

    function: Callable[[Work, PixelBlock], int]
    job: Work

    def __call__(self, block: PixelBlock) -> int:
        return self.function(self.job, block)
