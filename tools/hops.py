"""Counts the hops of a command: how many hands its options go through before the work is done.

A hop is a function of ours, or a class, that is given options of the command and hands some of them on to another
function of ours. It is found by watching a run, not by reading. Not counted: functions that act on an option and hand
nothing on; the records that are handed (options, outputs, plan); and what happens inside the rooms (images, alignment,
fusion, files ...), where the work is done.

    python tools/hops.py fuse a.png b.png -o out.png --overwrite
    PYTHONPATH=/path/to/another/version/src python tools/hops.py fuse ...
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import CodeType, FrameType
from unittest.mock import patch

import allfocus
from allfocus.cli.main import allfocus as commands
from allfocus.cli.main import run

HOME = str(Path(allfocus.__file__).parent) + "/"
ROOMS = {
    *("images", "alignment", "fusion", "files", "network", "metrics", "datasets", "scenes", "pages", "stack_report"),
    *("depth", "relief"),
    *("html_pages.py", "version.py", "errors.py", "progress.py", "machine.py", "plugins.py", "__init__.py"),
    *(f"training/{name}.py" for name in ("photos", "samples", "losses", "recipe", "stepping", "validation")),
    *("training/run_log.py", "training/run_files.py", "batch/stacks.py", "batch/manifest.py"),
}
RECORDS = {"FuseOptions", "FuseOutputs", "FusionPlan", "StackPlan", "Recipe", "StackTask", "FuseSettings"}
NO_OPTIONS = {"frames", "photos", "output", "run", "as_json", "dry_run", "bit_depth"}
"""What is worked on; and a name that also stands for something else, the depth of a spool."""
OTHER_NAMES = {
    "fuse": {"crop", "slabs"},
    "align": {"crop", "match_brightness"},
    "batch": {"crop", "slabs", "maps", "kinds"},
    "train": {"stop_after_seconds"},
}
"""How Python calls what the command line calls otherwise."""


def count_hops(arguments: Sequence[str]) -> list[str]:
    """The hops of ``allfocus`` with these arguments, in the order in which they are entered."""
    command = arguments[0]
    names = {str(option.name) for option in commands.commands[command].params} - NO_OPTIONS
    if command == "batch":  # of its other options it makes use itself
        names &= {str(option.name) for option in commands.commands["fuse"].params} - {"overwrite", "quiet", "verbose"}
    names |= OTHER_NAMES[command]
    given: set[CodeType] = set()
    hops: dict[tuple[str, str], None] = {("", "run"): None}

    def watch(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not _is_ours(frame) or not _is_given(frame, names):
            return
        given.add(frame.f_code)
        caller = frame.f_back
        while caller is not None and not _is_ours(caller):
            caller = caller.f_back
        if caller is None or caller.f_code not in given or _is_room(caller) or _hand(frame) in RECORDS:
            return
        hand = (caller.f_code.co_filename, _hand(caller))
        if hand != (
            frame.f_code.co_filename,
            _hand(frame),
        ):  # a class that works on what it was given, in several steps
            hops.setdefault(hand)

    before = sys.getprofile()
    try:
        with patch("allfocus.batch.running.Cluster", _Here) if command == "batch" else nullcontext():
            sys.setprofile(watch)
            code = run(arguments)
    finally:
        sys.setprofile(before)
    if code:
        raise SystemExit(code)
    return [name for _, name in hops if name not in RECORDS]


class _Here:
    """Stands for the cluster of a batch: fuses the stacks in this process, where they can be watched."""

    dashboard, worker_count, restarts = "", 1, 0

    def __init__(self, *values: object, **options: object) -> None:
        self._outcomes: dict[str, object] = {}

    def __enter__(self) -> "_Here":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    @property
    def waiting(self) -> int:
        return len(self._outcomes)

    def submit(self, key: str, function: Callable[..., object], *arguments: object) -> None:
        self._outcomes[key] = function(*arguments)

    def collect(self, seconds: float = 0.0) -> dict[str, object]:
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes


def _is_ours(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith(HOME) and not code.co_name.startswith("<")


def _is_room(frame: FrameType) -> bool:
    place = frame.f_code.co_filename.removeprefix(HOME)
    return place in ROOMS or place.partition("/")[0] in ROOMS


def _hand(frame: FrameType) -> str:
    """The function, or the class of a method."""
    return frame.f_code.co_qualname.partition(".")[0]


def _is_given(frame: FrameType, names: set[str]) -> bool:
    """Whether a call is given a record of options, something that holds one, or an option by its name."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    for name in code.co_varnames[:count]:
        value = frame.f_locals.get(name)
        held = [value, *vars(value).values()] if hasattr(value, "__dict__") and not isinstance(value, type) else [value]
        if name in names or any(type(item).__name__ in RECORDS for item in held):
            return True
        if isinstance(value, dict) and names & {key for key in value if isinstance(key, str)}:
            return True
    return False


if __name__ == "__main__":
    found = count_hops(sys.argv[1:])
    print(f"{len(found)} hops: {' > '.join(found)}")
