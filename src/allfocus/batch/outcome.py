"""What is told of a batch: where it stands while it runs, and what it did."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from allfocus.batch.manifest import FUSED, StackRecord


@dataclass(frozen=True)
class BatchProgress:
    """Where a batch stands."""

    found: int
    """Stacks in all."""
    unchanged: int
    """Stacks that were done before."""
    fused: int
    failed: int
    waiting: int
    """Stacks that are with the cluster."""
    workers: int
    dashboard: str
    """Address of Dask's own page; empty without a cluster."""
    restarts: int
    """How often the scheduler was lost and found again."""
    seconds: float
    trouble: str = ""
    """While watching, why the folder could not be looked through just now; empty when it could."""
    latest: tuple[StackRecord, ...] = ()
    """What has come in since the last call."""


BatchListener = Callable[[BatchProgress], None]


@dataclass(frozen=True)
class BatchResult:
    """What a batch did, which also lies in its folder."""

    output: Path
    """The folder: the results, ``summary.csv``, ``contact_sheet.html`` and ``manifest.jsonl``."""
    rows: tuple[StackRecord, ...]
    """Every stack that was found, in natural order."""
    left_out: Mapping[Path, str] = field(default_factory=dict)
    """Pictures that belong to no stack, with the reason; where stacks are found by themselves."""

    @property
    def fused(self) -> tuple[StackRecord, ...]:
        """The stacks that this run fused."""
        return tuple(row for row in self.rows if row.status == FUSED and not row.unchanged)

    @property
    def unchanged(self) -> tuple[StackRecord, ...]:
        """The stacks that were done before."""
        return tuple(row for row in self.rows if row.unchanged)

    @property
    def failed(self) -> tuple[StackRecord, ...]:
        """The stacks that could not be fused."""
        return tuple(row for row in self.rows if row.status != FUSED)
