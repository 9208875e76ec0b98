"""The tables of docs/performance.md, from what `allfocus benchmark` left in a folder.

Run: python benchmarks/performance_tables.py FOLDER
FOLDER holds benchmark.json and, if they were made, scaling.json; prints Markdown. The count of operations is made anew.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from rivals.goals import check_goals

from allfocus.benchmarking.measuring import read_benchmark
from allfocus.benchmarking.network_cost import LARGEST_COST, count_operations
from allfocus.benchmarking.summary import TABLE_COLUMNS, summarise_modes, table_row


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def print_comparison(path: Path) -> None:
    result = read_benchmark(path)
    rows = summarise_modes(result)
    machine = result.origin["machine"]
    rounds = f"{result.repeats} round{'s' if result.repeats > 1 else ''}"
    print(f"Machine: {machine['processor']}, {machine['cores']} cores; {rounds}; commit", end=" ")
    print(f"{(result.origin['commit'] or 'unknown')[:10]}{' with changes' if result.origin['modified'] else ''}.")
    print("Peers: " + "; ".join(result.origin["peers"].values()) + ".\n")
    for recipe in result.recipes:
        here = [row for row in rows if row.set == recipe.name]
        print(f"**{recipe.name}**: {recipe.summary}\n")
        print(markdown(list(TABLE_COLUMNS), [table_row(row) for row in here]))
    for mode, reason in result.missing.items():
        print(f"Not measured: {mode}: {reason}.")
    print("Where the time goes (wall seconds by step, medians):\n")
    for row in rows:
        if row.steps:
            print(f"- {row.set}, {row.mode}: " + ", ".join(f"{step} {value:.2f}" for step, value in row.steps.items()))
    print()
    goals = check_goals(rows, result.recipes)
    cells = [[goal.text, f"{goal.value:.2f}", f"{goal.limit:g}", "yes" if goal.met else "**no**"] for goal in goals]
    print(markdown(["goal", "measured", "limit", "met"], cells))


def print_growth(path: Path) -> None:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        [
            str(point["frames"]),
            f"{point['megapixels']:g}",
            f"{point['cpu_seconds']:.1f}",
            f"{point['cpu_seconds'] / point['megapixels'] / point['frames']:.3f}",
            f"{point['peak_megabytes']:.0f}",
        ]
        for point in [*content["by_size"], *content["by_length"]]
    ]
    print(markdown(["frames", "MP a frame", "CPU s", "CPU s per MP and frame", "peak MB"], rows))
    print("Exponents of growth over the larger half (1 proportional, 0 none): " + json.dumps(content["growth"]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print_comparison(folder / "benchmark.json")
    if (folder / "scaling.json").exists():
        print_growth(folder / "scaling.json")
    cost = count_operations()
    print(
        f"Network: {cost.per_pixel_and_source / 1000:.1f} kFLOP per pixel and source (limit {LARGEST_COST / 1000:g})."
    )


if __name__ == "__main__":
    main()
