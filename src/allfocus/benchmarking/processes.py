"""What a command costs: processor seconds, wall time and peak memory of its whole process, from the kernel's count."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allfocus.errors import AllfocusError, InputError

_LAUNCHER = Path(__file__).with_name("process_launcher.py")
_TOLD = 300
"""Characters of what a failed program said that are repeated."""
_PATIENCE = 5.0
"""Seconds that a program has to clean up after Ctrl-C."""


@dataclass(frozen=True)
class ProcessCost:
    """What one or several commands used."""

    cpu_seconds: float
    """User and system time of all threads and children. Other programs on the machine change it little."""
    wall_seconds: float
    """From start to end; means something only on an idle machine."""
    peak_megabytes: float
    """Largest resident memory of any one process."""
    output: str
    """What the last command printed on stdout."""


class ProgramFailedError(AllfocusError):
    """A program that was measured did not do its job."""


def measure_commands(
    commands: Sequence[Sequence[str]], *, folder: Path, environment: Mapping[str, str] | None = None
) -> ProcessCost:
    """Return what the commands cost, run one after the other.

    Args:
        commands: Each a program with its arguments.
        folder: Where they run.
        environment: Variables beside those of this process.

    Raises:
        InputError: This system does not count what a child used.
        ProgramFailedError: A command ended with an error; says what it printed last.

    Example:
        >>> cost = measure_commands([[sys.executable, "-c", "print(6 * 7)"]], folder=Path.cwd())
        >>> cost.output.strip(), cost.cpu_seconds > 0, cost.peak_megabytes > 1
        ('42', True, True)
    """
    if not hasattr(os, "wait4"):
        raise InputError("measuring needs a Unix system, whose kernel counts what a process used")
    cpu = wall = peak = 0.0
    text = ""
    for command in commands:
        with tempfile.TemporaryDirectory(prefix="allfocus-measure-") as place:
            report, stdout, stderr = (Path(place) / name for name in ("report.json", "stdout", "stderr"))
            launch = [sys.executable, "-I", "-S", str(_LAUNCHER), str(report), str(stdout), str(stderr), *command]
            _run_to_the_end(launch, folder, {**os.environ, **(environment or {})})
            said = stderr.read_text(errors="replace") if stderr.exists() else ""
            if not report.exists():
                raise ProgramFailedError(f"{command[0]}: could not be started")
            used = json.loads(report.read_text(encoding="utf-8"))
            text = stdout.read_text(errors="replace")
        if used["exit_code"]:
            last = " ".join((said or text).split())[-_TOLD:]
            raise ProgramFailedError(f"{Path(command[0]).name} ended with exit code {used['exit_code']}: {last}")
        cpu += used["cpu_seconds"]
        wall += used["wall_seconds"]
        peak = max(peak, used["peak_megabytes"])
    return ProcessCost(cpu, wall, peak, text)


def _run_to_the_end(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Run a command as a group of its own, which ends with it when this process is interrupted."""
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        child.wait()
    except BaseException:
        _end_group(child)
        raise


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """Ask all processes of the group to end, so that they can clean up, and make them after a while."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_PATIENCE)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
