"""What several end-to-end tests share: stacks that stay in the middle of their fusion for as long as a test wants."""

from collections.abc import Iterator
from pathlib import Path

import pytest

WAIT_AFTER_PROGRESS = """
import os
import sys
import time

if "allfocus.web.worker" in sys.orig_argv:
    from allfocus.web import tasks

    tell = tasks._StepShares.__call__

    def tell_and_wait(self, *step):
        tell(self, *step)
        while os.path.exists({file!r}):
            time.sleep(0.02)

    tasks._StepShares.__call__ = tell_and_wait
"""


class Brake:
    """Holds the fusions of a studio in their middle, so that no test has to be faster than one of them.

    Python runs ``sitecustomize`` of its search path at every start; ours makes workers wait after a word of progress.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """To be put first in the PYTHONPATH of the server."""
        self._file = folder / "hold"
        (folder / "sitecustomize.py").write_text(WAIT_AFTER_PROGRESS.format(file=str(self._file)))

    def hold(self) -> None:
        """From now on fusions wait once they have told that they are at work."""
        self._file.touch()

    def release(self) -> None:
        """Let them go on."""
        self._file.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def module_brake(tmp_path_factory: pytest.TempPathFactory) -> Brake:
    """The brake of the servers of one module of tests."""
    return Brake(tmp_path_factory.mktemp("brake"))


@pytest.fixture
def brake(module_brake: Brake) -> Iterator[Brake]:
    """The same, released before and after each test."""
    module_brake.release()
    yield module_brake
    module_brake.release()
