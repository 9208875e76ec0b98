"""What several end-to-end tests share: stacks that stay in the middle of their fusion for as long as a test wants, and
an end to tests that hang, with a word on where.
"""

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

LONGEST_TEST = 600.0
"""Seconds after which a test in a browser hangs. The slowest takes 10 with two free cores; the driver has no time limit
for what runs in a page, for keys, downloads and the end of a window."""
FAILED = pytest.StashKey[bool]()
"""Whether a test has failed, for the fixtures that it used."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let fixtures know that their test has failed."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


def processes_below(parent: int) -> list[int]:
    """The processes that a process has started, and those that they have; of Linux only."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    found = [parent]
    for process in found:
        found += [child for child, of in parents.items() if of == process]
    return found[1:]


def end_browsers() -> None:
    """Kill the browsers that this process has started, so that whoever waits for one of their pages gets an error."""
    for process in processes_below(os.getpid()):
        with suppress(OSError):
            if b"chrom" in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]:
                os.kill(process, signal.SIGKILL)


@pytest.fixture
def has_failed(request: pytest.FixtureRequest) -> Callable[[], bool]:
    """Tells whether the test has failed, to fixtures that end."""
    return lambda: request.node.stash.get(FAILED, False)


@pytest.fixture(scope="session")
def not_for_ever() -> Callable[..., AbstractContextManager[None]]:
    """What hangs inside is ended with an error, after a word on where it hangs, which pytest shows with the failure."""
    return _not_for_ever


@contextmanager
def _not_for_ever(describe: Callable[[], str], *, seconds: float = LONGEST_TEST) -> Iterator[None]:

    def end() -> None:
        print(f"nothing has come of this test in {seconds:.0f} s; where it is:", file=sys.__stderr__, flush=True)
        faulthandler.dump_traceback(file=sys.__stderr__)
        print(describe(), file=sys.__stderr__, flush=True)
        end_browsers()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


WAIT_AFTER_PROGRESS = """
import os
import sys
import time

if "allfocus.web.worker" in sys.orig_argv:
    from allfocus.web import fusing_steps

    tell = fusing_steps.StepShares.__call__

    def tell_and_wait(self, *step):
        tell(self, *step)
        while os.path.exists({file!r}):
            time.sleep(0.02)

    fusing_steps.StepShares.__call__ = tell_and_wait
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
