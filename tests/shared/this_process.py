"""A cluster that is this process, so that what a test sets holds for its workers too."""

from collections.abc import Callable, Iterator, Sequence

import pytest

pytest.importorskip("distributed", reason="needs the extra batch")

from allfocus.batch.cluster import Lost
from allfocus.errors import AllfocusError


class ThisProcess:
    """Stands in for :class:`allfocus.batch.cluster.Cluster`."""

    def __init__(self, *arguments: object, **options: object) -> None:
        pass

    def __enter__(self) -> "ThisProcess":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def run_all(self, function: Callable[[object], object], items: Sequence[object]) -> Iterator[tuple[int, object]]:
        for number, item in enumerate(items):
            try:
                yield number, function(item)
            except AllfocusError as error:
                yield number, Lost(str(error))
