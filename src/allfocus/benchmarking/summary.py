"""From single runs to what is read: medians, and ratios within a round."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from allfocus.benchmarking.measuring import BenchmarkResult, ModeMeasurement
from allfocus.benchmarking.quality import Quality


@dataclass(frozen=True)
class ModeSummary:
    """One mode on one stack, over all rounds."""

    set: str
    """Name of the stack."""
    mode: str
    """Name of the mode."""
    peer: str
    """The program."""
    cpu_seconds: float | None
    """Median; None where a run failed."""
    wall_seconds: float | None
    """Median."""
    peak_megabytes: float | None
    """Largest."""
    quality: Quality | None
    """Scores."""
    own_ratio: float | None
    """CPU seconds of our default mode over those of this one: below 1 we are cheaper. Median of the ratios of rounds,
    because a machine that is slow for a while is slow for both."""
    steps: dict[str, float] = field(default_factory=dict)
    """Median wall seconds by step, for our own modes."""
    error: str = ""
    """Why numbers are missing."""


def summarise_modes(result: BenchmarkResult) -> list[ModeSummary]:
    """Return one row for each mode and stack, stacks and modes in the order in which they were run."""
    rows = []
    for recipe in result.recipes:
        runs = [entry for entry in result.measurements if entry.set == recipe.name]
        own = [entry for entry in runs if entry.peer == "allfocus"]
        default = [entry for entry in own if entry.mode == own[0].mode]
        for mode in dict.fromkeys(entry.mode for entry in runs):
            rows.append(_summarise([entry for entry in runs if entry.mode == mode], default))
    return rows


def _summarise(runs: Sequence[ModeMeasurement], default: Sequence[ModeMeasurement]) -> ModeSummary:
    first = runs[0]
    errors = [entry.error for entry in runs if entry.error]
    # Nothing is averaged over the survivors: a mode that failed once has no numbers.
    cpu = None if errors else statistics.median(_numbers(entry.cpu_seconds for entry in runs))
    by_round = {entry.repeat: entry.cpu_seconds for entry in default}
    pairs = [(by_round.get(entry.repeat), entry.cpu_seconds) for entry in runs]
    ratios = [own / other for own, other in pairs if own and other]
    return ModeSummary(
        first.set,
        first.mode,
        first.peer,
        cpu,
        None if errors else statistics.median(_numbers(entry.wall_seconds for entry in runs)),
        None if errors else max(_numbers(entry.peak_megabytes for entry in runs)),
        next((entry.quality for entry in runs if entry.quality is not None), None),
        statistics.median(ratios) if ratios and not errors else None,
        {step: statistics.median(entry.steps.get(step, 0.0) for entry in runs) for step in first.steps},
        errors[0] if errors else "",
    )


def _numbers(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as lines of text; all columns but the first are flush right, and nothing is cut off.

    Example:
        >>> print(text_table(["mode", "CPU s"], [["enfuse", "15.40"]]))
          mode    CPU s
          enfuse  15.40
    """
    lines = [list(columns), *map(list, rows)]
    # A cell that tells of a failure is long and alone in its row; it does not widen its column.
    widths = [
        max(len(line[place]) for line in lines if len(line) < 3 or any(line[2:])) for place in range(len(columns))
    ]
    widths[0] = max(len(line[0]) for line in lines)
    text = []
    for line in lines:
        first, *others = line
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        text.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(text)


TABLE_COLUMNS = ("mode", "CPU s", "ours / this", "wall s", "peak MB", "PSNR dB", "SSIM", "scored")


def table_row(row: ModeSummary) -> list[str]:
    """Return the cells of a row as text; a failure shows in the place of its numbers.

    Example:
        >>> table_row(ModeSummary("pair", "enfuse", "enfuse", 0.4, 0.5, 22.6, None, 1.5))
        ['enfuse', '0.40', '1.50', '0.5', '23', '-', '-', '-']
    """
    if row.error or row.cpu_seconds is None or row.wall_seconds is None or row.peak_megabytes is None:
        return [row.mode, f"failed: {row.error}", "", "", "", "", "", ""]
    quality = row.quality
    return [
        row.mode,
        f"{row.cpu_seconds:.2f}",
        "-" if row.own_ratio is None else f"{row.own_ratio:.2f}",
        f"{row.wall_seconds:.1f}",
        f"{row.peak_megabytes:.0f}",
        *(
            ["-", "-", "-"]
            if quality is None
            else [f"{quality.psnr:.2f}", f"{quality.ssim:.4f}", f"{quality.scored_share:.1%} {quality.registration}"]
        ),
    ]
