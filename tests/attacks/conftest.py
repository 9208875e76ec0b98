"""What the attacks share."""

import pytest


class OneByOne:
    """Stands for the cluster: does the tasks in this process, so that a batch takes milliseconds."""

    dashboard, worker_count, restarts = "", 1, 0

    def __init__(self, *values: object, **options: object) -> None:
        self._outcomes: dict[object, object] = {}

    def __enter__(self) -> "OneByOne":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @property
    def waiting(self) -> int:
        return len(self._outcomes)

    def submit(self, key, function, *arguments):
        self._outcomes[key] = function(*arguments)

    def collect(self, seconds: float = 0.0):
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes

    collect_finished = collect


@pytest.fixture
def without_cluster(monkeypatch):
    """Batches do their stacks in this process."""
    monkeypatch.setattr("allfocus.batch.running.Cluster", OneByOne)
