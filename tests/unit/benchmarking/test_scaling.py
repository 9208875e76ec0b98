"""How cost grows."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from allfocus.benchmarking import scaling
from allfocus.benchmarking.processes import ProcessCost
from allfocus.benchmarking.scaling import ScalingPoint, ScalingResult, exponent, run_scaling


def test_growth_leaves_out_the_start_up_of_small_stacks():
    points = [(1.0, 1.1), (2.0, 1.2), (4.0, 2.0), (8.0, 4.0), (16.0, 8.0)]
    assert exponent(points) == pytest.approx(1.0)


def test_a_constant_does_not_grow():
    assert exponent([(1, 5), (2, 5), (4, 5)]) == 0


def test_stacks_grow_as_asked_and_are_deleted(tmp_path, monkeypatch):
    seen = []

    def measured(commands, *, folder):
        seen.append(len(list((folder / "frames").glob("*.png"))))
        return ProcessCost(float(len(seen)), 1.0, 100.0, "")

    monkeypatch.setattr(scaling, "measure_commands", measured)
    result = run_scaling(
        cache=tmp_path / "cache", output=tmp_path / "scaling.json", sides=(1, 2), lengths=(2, 3), tile=(40, 50)
    )
    assert [(point.megapixels, point.frames) for point in result.by_size] == [(0.002, 4), (0.008, 4)]
    assert [(point.megapixels, point.frames) for point in result.by_length] == [(0.008, 2), (0.008, 3)]
    assert seen == [4, 4, 2, 3]
    assert list((tmp_path / "cache").iterdir()) == []
    kept = json.loads((tmp_path / "scaling.json").read_text())
    assert kept["finished"] is True
    assert set(kept["growth"]) == {"cpu_by_pixels", "cpu_by_frames", "memory_by_frames"}


def test_the_plot_has_four_panels():
    points = [ScalingPoint(float(size), 4, float(size), 1.0, 300.0) for size in (1, 10, 100)]
    plot = ElementTree.fromstring(ScalingResult({}, points, points).as_svg())
    assert len(list(plot.iter("{http://www.w3.org/2000/svg}g"))) == 4


def test_an_interrupted_run_keeps_what_it_has(tmp_path, monkeypatch):
    def interrupted(cache, frames, side, tile):
        if side == 2:
            raise KeyboardInterrupt
        return ScalingPoint(1.0, frames, 1.0, 1.0, 100.0)

    monkeypatch.setattr(scaling, "_measure", interrupted)
    result = run_scaling(cache=tmp_path, output=tmp_path / "scaling.json", sides=(1, 2), lengths=(2,))
    assert not result.finished
    assert len(json.loads((tmp_path / "scaling.json").read_text())["by_size"]) == 1
