"""The programs that are compared, as a table: for each mode its command line, and how to tell whether it is there.

Every mode writes TIFF, which costs all of them little; frames are PNG. Options are those that the programs' own manuals
recommend for focus stacking; where a program does more than asked by default, it is measured with and without.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
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


ENFUSE_OPTIONS = ["--exposure-weight=0", "--saturation-weight=0", "--contrast-weight=1", "--hard-mask"]
"""What enfuse's manual gives for focus stacks."""


def _enfuse(stack: RenderedStack, output: Path, work: Path) -> list[Command]:
    return [["enfuse", *ENFUSE_OPTIONS, "-o", str(output), *map(str, stack.frames)]]


def _align_and_enfuse(stack: RenderedStack, output: Path, work: Path) -> list[Command]:
    aligned = [str(work / f"aligned{number:04d}.tif") for number in range(len(stack.frames))]
    # -m: optimise the field of view of each frame, which is what focus breathing changes; -C: crop to what all show.
    align = ["align_image_stack", "-m", "-C", "--use-given-order", "-a", str(work / "aligned"), *map(str, stack.frames)]
    return [align, ["enfuse", *ENFUSE_OPTIONS, "-o", str(output), *aligned]]


def _focus_stack(*options: str) -> Callable[[RenderedStack, Path, Path], list[Command]]:
    return lambda stack, output, work: [["focus-stack", *options, f"--output={output}", *map(str, stack.frames)]]


def _shinestacker(algorithm: str, *, align: bool) -> Callable[[RenderedStack, Path, Path], list[Command]]:
    def commands(stack: RenderedStack, output: Path, work: Path) -> list[Command]:
        arguments = [algorithm, "align" if align else "", str(work), str(stack.folder), str(output)]
        return [[_interpreter_of("shinestacker"), "-c", _SHINESTACKER_DRIVER, *arguments]]

    return commands


# Its own command opens a window; this uses its Python interface as its documentation shows.
_SHINESTACKER_DRIVER = """
import os, shutil, sys
from pathlib import Path
from shinestacker.algorithms import AlignFrames, CombinedActions, DepthMapStack, FocusStack, PyramidStack, StackJob
algorithm, align, work, frames, output = sys.argv[1:]
os.symlink(frames, os.path.join(work, "frames"))
job = StackJob("job", work, input_path="frames")
if align:
    job.add_action(CombinedActions("aligned", [AlignFrames()]))
job.add_action(FocusStack("fused", {"pyramid": PyramidStack, "depth-map": DepthMapStack}[algorithm]()))
job.run()
[made] = [path for path in Path(work, "fused").iterdir() if path.is_file()]
shutil.copyfile(made, output)
"""

PEER_MODES: tuple[Mode, ...] = (
    Mode("enfuse", "enfuse", ("enfuse",), False, _enfuse),
    Mode("align_image_stack + enfuse", "enfuse", ("align_image_stack", "enfuse"), True, _align_and_enfuse),
    Mode("focus-stack", "focus-stack", ("focus-stack",), None, _focus_stack()),
    Mode(
        "focus-stack, no colour match",
        "focus-stack",
        ("focus-stack",),
        None,
        _focus_stack("--no-whitebalance", "--no-contrast"),
    ),
    Mode(
        "focus-stack --no-align",
        "focus-stack",
        ("focus-stack",),
        False,
        _focus_stack("--no-align"),
        needs_option="--no-align",
    ),
    Mode("shinestacker pyramid", "shinestacker", ("shinestacker",), False, _shinestacker("pyramid", align=False)),
    Mode("shinestacker depth map", "shinestacker", ("shinestacker",), False, _shinestacker("depth-map", align=False)),
    Mode("shinestacker align + pyramid", "shinestacker", ("shinestacker",), True, _shinestacker("pyramid", align=True)),
)
"""Every way in which peers are run."""

PEERS: dict[str, str] = {
    "enfuse": "apt install enfuse hugin-tools, or https://enblend.sourceforge.net",
    "focus-stack": "https://github.com/PetteriAimonen/focus-stack",
    "shinestacker": "pip install shinestacker, with its command on the PATH",
}
"""Every peer, with where to get it."""


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


def find_peer_modes(names: Sequence[str]) -> tuple[list[Mode], dict[str, str]]:
    """Return the modes of the peers that can be run here, and for all that cannot the reason.

    Args:
        names: Peers to look for; none means all of them, ``none`` means no peer.

    Raises:
        InputError: There is no peer of that name.
    """
    for name in names:
        if name not in PEERS and name != "none":
            raise InputError(f"there is no peer {name!r}; choose from: {', '.join(PEERS)}, none")
    wanted = [name for name in PEERS if name in names] if names else list(PEERS)
    found, missing = [], {}
    for mode in PEER_MODES:
        if mode.peer not in wanted:
            continue
        absent = [program for program in mode.programs if shutil.which(program) is None]
        if absent:
            missing[mode.name] = f"{' and '.join(absent)} not installed ({PEERS[mode.peer]})"
        elif mode.needs_option and mode.needs_option not in _help_of(mode.programs[0]):
            missing[mode.name] = f"this version of {mode.programs[0]} has no {mode.needs_option}"
        else:
            found.append(mode)
    return found, missing


def describe_version(program: str) -> str:
    """Return what a program says about its version, in one line."""
    if program == "shinestacker":
        code = "import importlib.metadata as m; print('shinestacker', m.version('shinestacker'))"
        return _version_line([_interpreter_of(program), "-c", code])
    if program == "align_image_stack":
        return _version_line([program, "--help"])
    return _version_line([program, "--version"])


def _interpreter_of(program: str) -> str:
    """Return the Python that an installed command runs in, from the first line of its script."""
    path = shutil.which(program)
    first = Path(path).read_bytes().splitlines()[0] if path else b""
    if not first.startswith(b"#!"):
        raise InputError(f"{program}: is not the script of a Python package; install it with pip")
    return first[2:].decode().strip()


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
