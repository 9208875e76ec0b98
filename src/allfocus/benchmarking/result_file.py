"""The file of a benchmark: written anew after every number, and kept when the run is interrupted."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from allfocus.images.writing import replace_file


class GrowingResult(Protocol):
    """What a benchmark has measured so far."""

    finished: bool

    def as_json(self) -> dict[str, Any]:
        """Return everything as a dictionary that JSON can hold."""
        ...


def save_result(result: GrowingResult, output: Path) -> None:
    """Write what was measured so far, in place of what was written before."""
    text = json.dumps(result.as_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    replace_file(output, text.encode(), overwrite=True)


@contextmanager
def kept_result(result: GrowingResult, output: Path, notice: Callable[[str], None] | None) -> Iterator[None]:
    """Marks a result as finished and saves it at the end; after Ctrl-C only the latter, and ``notice`` is told."""
    try:
        yield
        result.finished = True
    except KeyboardInterrupt:
        if notice is not None:
            notice(f"interrupted; what was measured until now is in {output}")
    save_result(result, output)
