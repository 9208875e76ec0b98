"""What all tests share: where the reference data lies, how the command is run, and small stacks to run it on."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]

# Threads of PyTorch that wait for each other spin by default. With as many test processes as cores they spin while
# those they wait for cannot run: the tests of ips-paper took seven times the processor time. It must be said before
# PyTorch is loaded, and the programs that tests start take it over.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Shared machines are slow at random: a time limit per example would fail for reasons that are not in the code.
settings.register_profile("allfocus", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("allfocus")

# A job in the background ignores Ctrl-C, and so would every program it starts, those to be interrupted included.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _do_not_wait_for_the_disk(descriptor: int) -> None:
    os.fstat(descriptor)  # what is no open file fails as before


# Whether bytes outlast a power cut is nothing that a test can see, and waiting for the disk was nine tenths of the time
# of the fault injector. What fails or is killed there still does: tests put their own in its place. Programs that tests
# start wait as they do for users.
os.fsync = _do_not_wait_for_the_disk

RunCommand = Callable[..., subprocess.CompletedProcess[str]]


def _data_folder() -> Path:
    return Path(os.environ.get("ALLFOCUS_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with third-party pictures, which are not part of this repository."""
    folder = _data_folder()
    if not folder.is_dir():
        pytest.skip(f"no pictures at {folder}; set ALLFOCUS_DATA to the folder that holds them")
    return folder


@pytest.fixture(scope="session")
def shared_metrics() -> Path:
    """The folder with golden metric values, beside the data folder."""
    folder = _data_folder().parent / "metrics"
    if not folder.is_dir():
        pytest.skip(f"no golden values at {folder}; set ALLFOCUS_DATA to the data folder beside them")
    return folder


@pytest.fixture(scope="session")
def run_command() -> RunCommand:
    """Runs ``allfocus ...`` in a process of its own, as a user would; returns what it printed and its exit code."""

    def run(
        *arguments: object, cwd: Path | None = None, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        search = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))
        inherited = {**os.environ, "PYTHONPATH": search, "PYTHONWARNINGS": "error", "NO_COLOR": "1"}
        return subprocess.run(
            [sys.executable, "-m", "allfocus.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**inherited, **(environment or {})},
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture
def one_thread() -> Iterator[None]:
    """PyTorch works in one thread: on small tensors more only cost, and sums depend on how many there are."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def small_stack() -> list[NDArray[np.float32]]:
    """Three frames of a small rendered scene, each (96, 128, 3), 0..1."""
    from allfocus.scenes.rendering import render_scene

    return render_scene("desk", frames=3, size=(96, 128)).frames


@pytest.fixture(scope="session")
def stack_folder(tmp_path_factory: pytest.TempPathFactory, small_stack: list[NDArray[np.float32]]) -> Path:
    """A folder with the frames of ``small_stack`` as PNG; tests must not write into it."""
    from allfocus.images.writing import write_image

    folder = tmp_path_factory.mktemp("stack")
    for number, frame in enumerate(small_stack):
        write_image(frame, folder / f"frame_{number}.png")
    return folder
