"""How the programs that people stack with today are run: for each mode its command line.

    allfocus benchmark --rivals benchmarks/rivals/peers.py

Every mode writes TIFF, which costs all of them little; frames are PNG. Options are those that the programs' own manuals
recommend for focus stacking; where a program does more than asked by default, it is measured with and without.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from allfocus.benchmarking.inputs import RenderedStack
from allfocus.benchmarking.tools import Command, Mode, Peer
from allfocus.errors import InputError

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


def _interpreter_of(program: str) -> str:
    """Return the Python that an installed command runs in, from the first line of its script."""
    path = shutil.which(program)
    first = Path(path).read_bytes().splitlines()[0] if path else b""
    if not first.startswith(b"#!"):
        raise InputError(f"{program}: is not the script of a Python package; install it with pip")
    return first[2:].decode().strip()


def _version_of_align_image_stack(program: str) -> Command:
    return [program, "--help" if program == "align_image_stack" else "--version"]


def _version_of_shinestacker(program: str) -> Command:
    code = "import importlib.metadata as m; print('shinestacker', m.version('shinestacker'))"
    return [_interpreter_of(program), "-c", code]


PEERS: dict[str, Peer] = {
    "enfuse": Peer(
        "apt install enfuse hugin-tools, or https://enblend.sourceforge.net",
        (
            Mode("enfuse", "enfuse", ("enfuse",), False, _enfuse),
            Mode("align_image_stack + enfuse", "enfuse", ("align_image_stack", "enfuse"), True, _align_and_enfuse),
        ),
        _version_of_align_image_stack,
    ),
    "focus-stack": Peer(
        "https://github.com/PetteriAimonen/focus-stack",
        (
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
        ),
    ),
    "shinestacker": Peer(
        "pip install shinestacker, with its command on the PATH",
        (
            Mode(
                "shinestacker pyramid", "shinestacker", ("shinestacker",), False, _shinestacker("pyramid", align=False)
            ),
            Mode(
                "shinestacker depth map",
                "shinestacker",
                ("shinestacker",),
                False,
                _shinestacker("depth-map", align=False),
            ),
            Mode(
                "shinestacker align + pyramid",
                "shinestacker",
                ("shinestacker",),
                True,
                _shinestacker("pyramid", align=True),
            ),
        ),
        _version_of_shinestacker,
    ),
}
"""Every peer: where to get it, and every way in which it is run."""
