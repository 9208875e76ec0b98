"""Medians, ratios and goals; and the plots of them."""

import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from allfocus.benchmarking.inputs import RECIPES
from allfocus.benchmarking.measuring import BenchmarkResult, ModeMeasurement
from allfocus.benchmarking.plots import arrange_panels, growth_panel, log_ticks, quality_over_cost
from allfocus.benchmarking.quality import Quality
from allfocus.benchmarking.summary import TABLE_COLUMNS, summarise_modes, table_row, text_table

check_goals = runpy.run_path(str(Path(__file__).resolve().parents[3] / "benchmarks" / "rivals" / "goals.py"))[
    "check_goals"
]


def run(
    name: str, repeat: int, cpu: float, psnr: float = 40.0, *, on: str = "stack", peak: float = 100.0
) -> ModeMeasurement:
    peer = name.split()[0]
    return ModeMeasurement(
        on, name, peer, repeat, cpu, cpu, peak, Quality(psnr, 0.99, 1.0, "none") if repeat == 0 else None
    )


def result(measurements: list[ModeMeasurement]) -> BenchmarkResult:
    names = dict.fromkeys(entry.set for entry in measurements)
    return BenchmarkResult([RECIPES[name] for name in names], 3, False, {}, {}, measurements, True)


def test_ratios_are_taken_within_a_round():
    # The machine is three times slower in the second round, for both.
    rows = summarise_modes(
        result([run("allfocus", 0, 1.0), run("enfuse", 0, 2.0), run("enfuse", 1, 6.0), run("allfocus", 1, 3.0)])
    )
    assert [row.own_ratio for row in rows] == [1.0, 0.5]


def test_a_mode_that_failed_once_has_no_numbers():
    broken = ModeMeasurement("stack", "enfuse", "enfuse", 1, error="broken lens")
    rows = summarise_modes(result([run("allfocus", 0, 1.0), run("enfuse", 0, 2.0), broken]))
    assert rows[1].cpu_seconds is None
    assert rows[1].own_ratio is None
    assert table_row(rows[1])[1] == "failed: broken lens"


def test_the_goals_compare_cost_memory_and_quality():
    own, other = run("allfocus", 0, 12.0, 41.0, peak=150), run("focus-stack", 0, 10.0, 40.0, peak=200)
    rows = summarise_modes(result([own, other, run("enfuse", 0, 5.0, 42.0)]))
    goals = {goal.text: goal for goal in check_goals(rows, [RECIPES["stack"]])}
    assert {text: (round(goal.value, 2), goal.limit, goal.met) for text, goal in goals.items()} == {
        "stack: CPU seconds, times those of focus-stack": (1.2, 1.0, False),
        "stack: peak memory, times that of focus-stack": (0.75, 1.0, True),
        "stack: dB above focus-stack": (1.0, 0.0, True),
        "stack: CPU seconds, times those of enfuse": (2.4, 2.0, False),
        "stack: dB above enfuse": (-1.0, 0.0, False),
    }


def test_occlusions_ask_for_two_decibels():
    rows = summarise_modes(
        result([run("allfocus", 0, 1.0, 31.9, on="occlusion"), run("enfuse", 0, 1.0, 30.0, on="occlusion")])
    )
    [goal] = check_goals(rows, [RECIPES["occlusion"]])
    assert not goal.met


def test_tables_are_aligned_and_nothing_is_cut():
    rows = summarise_modes(result([run("allfocus", 0, 1.0), run("enfuse", 0, 12.5)]))
    lines = text_table(TABLE_COLUMNS, [table_row(row) for row in rows]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "12.50" in lines[2]


def test_the_plot_has_a_dot_and_a_name_for_each_mode():
    rows = summarise_modes(result([run("allfocus", 0, 1.0), run("enfuse", 0, 12.5, 30.0)]))
    plot = ElementTree.fromstring(quality_over_cost(rows, {"stack": "ten frames < 12 MP"}))
    circles = list(plot.iter("{http://www.w3.org/2000/svg}circle"))
    texts = [text.text for text in plot.iter("{http://www.w3.org/2000/svg}text")]
    assert len(circles) == 2
    assert "2  enfuse: 30.0 dB, 12.5 s" in texts
    assert "ten frames < 12 MP" in texts
    # Cheaper is further left, better is higher up.
    own = next(circle for circle in circles if circle.get("class") == "own")
    other = next(circle for circle in circles if circle.get("class") == "other")
    assert float(own.get("cx")) < float(other.get("cx"))
    assert float(own.get("cy")) < float(other.get("cy"))


def test_the_plot_of_one_equal_result_is_still_a_plot():
    rows = summarise_modes(result([run("allfocus", 0, 1.0, float("inf"))]))
    ElementTree.fromstring(quality_over_cost(rows, {"stack": "ten frames"}))


def test_growth_is_drawn_with_its_guide():
    panel = growth_panel("title", "frames", "CPU seconds", [(1, 2), (10, 20)], proportional=True)
    plot = ElementTree.fromstring(arrange_panels([panel], "growth"))
    guide, line = list(plot.iter("{http://www.w3.org/2000/svg}polyline"))
    assert guide.get("points") == line.get("points")


@pytest.mark.parametrize(("low", "high"), [(0.09, 0.11), (1, 100), (0.001, 5000)])
def test_ticks_lie_inside_and_are_few(low, high):
    ticks = log_ticks(low, high)
    assert 1 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)
