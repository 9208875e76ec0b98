"""What commands cost."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from allfocus.benchmarking.processes import ProgramFailedError, measure_commands


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_processor_time_is_counted_and_waiting_is_not(tmp_path):
    busy = measure_commands([python("import time\nwhile time.process_time() < 0.3: pass")], folder=tmp_path)
    waiting = measure_commands([python("import time; time.sleep(0.3)")], folder=tmp_path)
    assert busy.cpu_seconds >= 0.3
    assert waiting.cpu_seconds < 0.2
    assert waiting.wall_seconds >= 0.3


def test_time_of_grandchildren_is_counted(tmp_path):
    inner = "import time\nwhile time.process_time() < 0.2: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {inner!r}])"
    assert measure_commands([python(code)], folder=tmp_path).cpu_seconds >= 0.2


def test_a_small_program_is_not_charged_for_the_memory_of_the_benchmark(tmp_path):
    ballast = np.ones(30_000_000, np.float64)  # 240 MB
    small = measure_commands([["true"]], folder=tmp_path)
    large = measure_commands([python("data = bytearray(100_000_000)")], folder=tmp_path)
    assert ballast[0] == 1
    assert small.peak_megabytes < 60
    assert 95 < large.peak_megabytes < 160


def test_commands_add_up_and_the_last_one_speaks(tmp_path):
    code = "import time\nwhile time.process_time() < 0.1: pass\nprint({})"
    cost = measure_commands([python(code.format(1)), python(code.format(2))], folder=tmp_path)
    assert cost.cpu_seconds >= 0.2
    assert cost.output.strip() == "2"


def test_a_failure_tells_what_the_program_said(tmp_path):
    with pytest.raises(ProgramFailedError, match="exit code 3: no such lens"):
        measure_commands([python("import sys; print('no such lens', file=sys.stderr); sys.exit(3)")], folder=tmp_path)


def test_a_program_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ProgramFailedError, match="could not be started"):
        measure_commands([["no-such-program-anywhere"]], folder=tmp_path)


def test_an_interruption_ends_the_program_too(tmp_path):
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    code = "import os, time; open('number', 'w').write(str(os.getpid())); time.sleep(60)"
    try:
        signal.setitimer(signal.ITIMER_REAL, 2.0)
        with pytest.raises(KeyboardInterrupt):
            measure_commands([python(code)], folder=tmp_path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    number = int((tmp_path / "number").read_text())
    for _ in range(50):
        if not is_running(number):
            return
        time.sleep(0.1)
    pytest.fail("the program still runs")


def is_running(number: int) -> bool:
    """Whether a process does anything any more; one that nobody has asked after yet does not."""
    try:
        os.kill(number, 0)
        status = Path(f"/proc/{number}/stat")
        return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")
    except (ProcessLookupError, FileNotFoundError):
        return False
