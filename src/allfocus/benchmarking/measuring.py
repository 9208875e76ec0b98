"""Runs every mode on every stack, several times and in changing order, and keeps each number as soon as it is there."""

import dataclasses
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from allfocus.benchmarking.inputs import RenderedStack, StackRecipe, prepare_stack
from allfocus.benchmarking.processes import ProcessCost, ProgramFailedError, measure_commands
from allfocus.benchmarking.quality import Quality, score_result
from allfocus.benchmarking.result_file import kept_result, save_result
from allfocus.benchmarking.tools import Mode
from allfocus.errors import InputError
from allfocus.evaluation.provenance import describe_origin
from allfocus.progress import StepProgress

FORMAT_VERSION = 1
"""Of the JSON file; grows when the meaning of a field changes."""


@dataclass(frozen=True)
class ModeMeasurement:
    """One run of one mode on one stack."""

    set: str
    """Name of the stack."""
    mode: str
    """Name of the mode."""
    peer: str
    """The program it belongs to; ``allfocus`` for our own."""
    repeat: int
    """Which round, from 0."""
    cpu_seconds: float | None = None
    """User and system time; None where the run failed."""
    wall_seconds: float | None = None
    """From start to end."""
    peak_megabytes: float | None = None
    """Largest resident memory of a process."""
    quality: Quality | None = None
    """Scores against the truth; of the first round, because every tool here gives the same picture each time."""
    steps: dict[str, float] = field(default_factory=dict)
    """Wall seconds by step, for our own runs."""
    error: str = ""
    """Why there is no number."""


@dataclass
class BenchmarkResult:
    """Everything that was measured in one run."""

    recipes: list[StackRecipe]
    """The stacks."""
    repeats: int
    """Rounds that were asked for."""
    quick: bool
    """Whether the stacks were made small, which makes the numbers useless for anything but a trial."""
    missing: dict[str, str]
    """Modes of peers that could not be run, with the reason."""
    origin: dict[str, Any]
    """Commit, versions, machine, the versions of the peers, and when."""
    measurements: list[ModeMeasurement] = field(default_factory=list)
    """In the order in which they were made."""
    finished: bool = False
    """False when the run was interrupted."""

    def as_json(self) -> dict[str, Any]:
        """Return everything as a dictionary that JSON can hold."""
        content = dataclasses.asdict(self)
        for entry in content["measurements"]:
            quality = entry["quality"]
            if quality is not None and math.isinf(quality["psnr"]):
                quality["psnr"] = "inf"
        return {"format_version": FORMAT_VERSION, **content}


def read_benchmark(path: Path) -> BenchmarkResult:
    """Return what a run wrote to its JSON file.

    Raises:
        InputError: The file is of another kind or version.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format_version") != FORMAT_VERSION:
            raise InputError(f"{path}: was written by another version of allfocus benchmark; run it again")
        recipes = [StackRecipe(**entry | {"size": tuple(entry["size"])}) for entry in content.pop("recipes")]
        measurements = [
            ModeMeasurement(**entry | {"quality": _quality(entry)}) for entry in content.pop("measurements")
        ]
        return BenchmarkResult(recipes=recipes, measurements=measurements, **content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: is no result of allfocus benchmark ({error})") from error


def _quality(entry: dict[str, Any]) -> Quality | None:
    told = entry["quality"]
    return None if told is None else Quality(**told | {"psnr": float(told["psnr"])})


def run_benchmark(
    recipes: Sequence[StackRecipe],
    modes: Sequence[Mode],
    *,
    cache: Path,
    output: Path,
    repeats: int = 3,
    quick: bool = False,
    missing: dict[str, str] | None = None,
    versions: dict[str, str] | None = None,
    progress: StepProgress | None = None,
    notice: Callable[[str], None] | None = None,
) -> BenchmarkResult:
    """Return what each mode cost on each stack, and write it to a file after every single run.

    The modes take turns, and every other round goes through them backwards, so that a machine that gets slower in
    between does so for all of them. Ctrl-C ends the run early with what there is.

    Args:
        recipes: The stacks.
        modes: The programs; those that do not suit a stack are not run on it.
        cache: Folder that keeps the rendered stacks.
        output: The JSON file to write; replaced.
        repeats: Rounds.
        quick: Noted in the result.
        missing: Noted in the result.
        versions: What the programs of the peers say about theirs.
        progress: See :data:`StepProgress`.
        notice: Called with a sentence about what goes on.
    """
    origin = describe_origin() | {
        "peers": dict(versions or {}),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    result = BenchmarkResult(list(recipes), repeats, quick, dict(missing or {}), origin)
    save_result(result, output)
    with kept_result(result, output, notice):
        for recipe in recipes:
            stack = prepare_stack(recipe, cache, notice=notice)
            suitable = [mode for mode in modes if mode.suits(recipe)]
            for done, (repeat, mode) in enumerate(_turns(suitable, repeats)):
                if progress is not None:
                    progress(recipe.name, done, repeats * len(suitable))
                result.measurements.append(measure_mode(mode, stack, repeat=repeat, score=repeat == 0))
                save_result(result, output)
            if progress is not None:
                progress(recipe.name, repeats * len(suitable), repeats * len(suitable))
    return result


def _turns(modes: Sequence[Mode], repeats: int) -> list[tuple[int, Mode]]:
    return [
        (repeat, mode) for repeat in range(repeats) for mode in (modes if repeat % 2 == 0 else list(reversed(modes)))
    ]


def measure_mode(mode: Mode, stack: RenderedStack, *, repeat: int = 0, score: bool = True) -> ModeMeasurement:
    """Return the cost of one run, and with ``score`` how good its picture is; a failure is told, not raised."""
    with tempfile.TemporaryDirectory(prefix="allfocus-benchmark-") as place:
        work = Path(place) / "work"
        work.mkdir()
        fused = Path(place) / "fused.tif"
        start = ModeMeasurement(stack.recipe.name, mode.name, mode.peer, repeat)
        try:
            cost = measure_commands(mode.commands(stack, fused, work), folder=work)
            quality = score_result(fused, stack) if score else None
        except ProgramFailedError as error:
            return dataclasses.replace(start, error=str(error))
    return dataclasses.replace(
        start,
        cpu_seconds=round(cost.cpu_seconds, 3),
        wall_seconds=round(cost.wall_seconds, 3),
        peak_megabytes=round(cost.peak_megabytes, 1),
        quality=quality,
        steps=_steps(cost) if mode.peer == "allfocus" else {},
    )


def _steps(cost: ProcessCost) -> dict[str, float]:
    """Return the times by step that our own command prints with --json."""
    try:
        return {step: float(seconds) for step, seconds in json.loads(cost.output)["seconds_by_step"].items()}
    except (ValueError, KeyError, TypeError):
        return {}
