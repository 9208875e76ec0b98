"""The programs that are compared: each mode with its command line, and how to tell whether it is there.

Other programs are described in a file of their own, ``benchmarks/rivals/peers.py`` of the source tree.
"""

import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allfocus.benchmarking.inputs import RenderedStack, StackRecipe
from allfocus.errors import InputError

Command = list[str]


@dataclass(frozen=True)
class Mode:
    """One way to run one program."""

    name: str
    """As it stands in the tables."""
    peer: str
    """The program it belongs to; ``allfocus`` for our own."""
    programs: tuple[str, ...]
    """Executables that must be found."""
    aligns: bool | None
    """True: for moved stacks only; False: for the others only; None: for both, because it always aligns."""
    commands: Callable[[RenderedStack, Path, Path], list[Command]]
    """Stack, output file, empty work folder -> what to run."""
    needs_option: str = ""
    """Text that the program's help must contain for this mode to exist."""

    def suits(self, recipe: StackRecipe) -> bool:
        """Whether this mode is for that stack."""
        return self.aligns is None or self.aligns == recipe.moved


def _ask_version(program: str) -> Command:
    return [program, "--version"]


@dataclass(frozen=True)
class Peer:
    """Another program, and every way in which it is run."""

    where: str
    """Where to get it."""
    modes: tuple[Mode, ...]
    version: Callable[[str], Command] = _ask_version
    """Program -> what to run to be told its version."""


def load_peers(path: Path) -> dict[str, Peer]:
    """Return the peers that a Python file describes as ``PEERS``, by their names.

    Raises:
        InputError: There is no such file, or it describes none.
    """
    try:
        found = runpy.run_path(str(path)).get("PEERS")
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror}); name a file that describes other programs", where=path
        ) from error
    if not isinstance(found, dict) or not all(isinstance(peer, Peer) for peer in found.values()):
        raise InputError("describes no other programs as PEERS; see benchmarks/rivals/peers.py", where=path)
    return found


def own_modes(methods: Sequence[str]) -> list[Mode]:
    """Return the ways in which this package is run: each method without and with alignment.

    Example:
        >>> [mode.name for mode in own_modes(["ips"])]
        ['allfocus ips --no-align', 'allfocus ips']
    """

    def commands(method: str, *options: str) -> Callable[[RenderedStack, Path, Path], list[Command]]:
        return lambda stack, output, work: [
            [*own_command(), "fuse", *map(str, stack.frames), "-o", str(output), "--method", method, "--json", *options]
        ]

    modes = []
    for method in methods:
        modes.append(Mode(f"allfocus {method} --no-align", "allfocus", (), False, commands(method, "--no-align")))
        modes.append(Mode(f"allfocus {method}", "allfocus", (), True, commands(method)))
    return modes


def own_command() -> Command:
    """Return how to start this very package as a command."""
    return [sys.executable, "-m", "allfocus.cli"]


def find_peer_modes(peers: Mapping[str, Peer], names: Sequence[str]) -> tuple[list[Mode], dict[str, str]]:
    """Return the modes of the peers that can be run here, and for all that cannot the reason.

    Args:
        peers: Those there are.
        names: Peers to look for; none means all of them, ``none`` means no peer.

    Raises:
        InputError: There is no peer of that name.
    """
    for name in names:
        if name not in peers and name != "none":
            raise InputError(
                f"there is no peer {name!r}; choose from: {', '.join([*peers, 'none'])}", code="bad-option"
            )
    found, missing = [], {}
    for peer in (own for name, own in peers.items() if not names or name in names):
        for mode in peer.modes:
            absent = [program for program in mode.programs if shutil.which(program) is None]
            if absent:
                missing[mode.name] = f"{' and '.join(absent)} not installed ({peer.where})"
            elif mode.needs_option and mode.needs_option not in _help_of(mode.programs[0]):
                missing[mode.name] = f"this version of {mode.programs[0]} has no {mode.needs_option}"
            else:
                found.append(mode)
    return found, missing


def describe_versions(peers: Mapping[str, Peer], modes: Sequence[Mode]) -> dict[str, str]:
    """Return what each program of some modes says about its version, in one line."""
    return {
        program: _version_line(peers[mode.peer].version(program))
        for mode in modes
        for program in mode.programs
        if mode.peer in peers
    }


def _help_of(program: str) -> str:
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def _version_line(command: Command) -> str:
    """Return the first line with a number in it."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\d\.\d", line)), "unknown")
