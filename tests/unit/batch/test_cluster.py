"""What does not need a running cluster; the rest is in tests/end_to_end/test_batch.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="needs the extra batch")

from allfocus.batch.cluster import Cluster, run_task
from allfocus.batch.local_cluster import MEMORY_FOR_A_WORKER, local_size
from allfocus.errors import InputError, MissingDependencyError
from allfocus.version import __version__

ROOT = Path(__file__).resolve().parents[3]


def test_the_cluster_is_sized_to_processors_and_memory(monkeypatch):
    monkeypatch.setattr("dask.system.CPU_COUNT", 8)
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 3 * MEMORY_FOR_A_WORKER + 1)
    assert local_size(None, None) == (3, (3 * MEMORY_FOR_A_WORKER + 1) // 3)
    assert local_size(None, MEMORY_FOR_A_WORKER // 10)[0] == 8
    assert local_size(5, None)[0] == 5
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 1000)
    assert local_size(None, None)[0] == 1


def test_a_worker_of_another_version_refuses():
    assert run_task(__version__, max, 1, 2) == 2
    with pytest.raises(InputError, match="install the same version"):
        run_task("0.0.0", max, 1, 2)


def test_a_running_scheduler_has_its_own_workers():
    with pytest.raises(InputError, match="brings its own workers"):
        Cluster("tcp://127.0.0.1:1", workers=2)


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"allfocus\[batch\]"):
        Cluster()


def test_local_workers_leave_ctrl_c_and_the_terminal_to_the_program():
    code = (
        "import signal, sys\n"
        "from allfocus.batch.worker_setup import dask_setup\n"
        "dask_setup(None)\n"
        "sys.stderr.write('a warning of some library')\n"
        "print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment.pop("ALLFOCUS_TRACEBACK", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert (done.stdout.strip(), done.stderr) == ("True", "")


def test_importing_the_package_and_its_help_load_no_dask():
    code = (
        "import sys\n"
        "import allfocus.batch.running, allfocus.batch.planes.fusion\n"
        "from allfocus.cli.main import run\n"
        "run(['batch', '--help'])\n"
        "print(sorted({'dask', 'distributed', 'zarr'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


HELD = """
import multiprocessing, os, signal, sys
from allfocus.batch.cluster import hold_interruptions

def is_blocked():
    sys.exit(signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, []))

if __name__ == "__main__":
    try:
        with hold_interruptions():
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(2):  # the first one starts a helper of Python's
                child = multiprocessing.get_context("spawn").Process(target=is_blocked)
                child.start()
                child.join()
                print(child.exitcode)
            print("whole")
    except KeyboardInterrupt:
        print("interrupted", signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


def test_ctrl_c_waits_for_the_cluster_to_start_and_does_not_reach_its_processes(tmp_path):
    (tmp_path / "held.py").write_text(HELD)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "held.py"], capture_output=True, text=True, env=environment, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["0", "0", "whole", "interrupted", "False"]
