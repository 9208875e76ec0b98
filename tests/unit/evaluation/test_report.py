"""The page: self-contained, well formed, and showing what it says."""

import itertools
import re

import numpy as np
import pytest
from page_reader import PageReader

from allfocus.evaluation import report
from allfocus.evaluation.benchmark import evaluate
from allfocus.evaluation.focus_windows import find_focus_windows
from allfocus.evaluation.plots import difference_plot, strip_plot
from allfocus.evaluation.scenes_to_show import choose_scenes
from allfocus.pages.pictures import crop, data_address, difference_map, heat_picture, shrink
from allfocus.pages.plots import nice_ticks


@pytest.fixture(scope="module")
def page(small_sets, tmp_path_factory):
    output = tmp_path_factory.mktemp("report") / "out"
    broken = output.with_name("broken.onnx")
    broken.write_bytes(b"no network")
    evaluate(
        {"real-mff": small_sets / "real-mff", "folder": small_sets / "folder"},
        ["laplacian-pyramid", "average", str(broken)],
        images={"A&B <x>": small_sets / "real-mff" / "Fusion"},
        output=output,
        workers=1,
    )
    return (output / "report.html").read_text()


def test_the_page_needs_no_other_file_and_no_network(page):
    reader = PageReader()
    reader.feed(page)
    assert reader.open == []
    assert reader.addresses
    assert all(address.startswith(("data:image/webp;base64,", "#")) for address in reader.addresses)
    styles = re.findall(r"<style>(.*?)</style>|<script>(.*?)</script>", page, re.DOTALL)
    assert not any("http" in part or "url(" in part for pair in styles for part in pair)


def test_names_are_escaped(page):
    assert "A&B <x>" not in page
    assert "A&amp;B &lt;x&gt;" in page


def test_the_page_shows_tables_plots_pictures_and_errors(page):
    reader = PageReader()
    reader.feed(page)
    text = " ".join(reader.text)
    for words in ("Real-MFF", "mean rank", "Printed in the paper, Table 3", "p: Wilcoxon", "source 2", "truth"):
        assert words in text
    assert "cells failed" in text
    assert page.count("<svg") == 2 * (8 + 6), (
        "for each metric of each set a strip plot and the differences from the best rival"
    )
    assert reader.classes.count("difference") >= 3 * 3 + 2
    assert reader.classes.count("scene") == 3 + 1


def test_scenes_without_room_are_left_out_and_counted(small_sets, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "PICTURE_BYTES", 1)
    evaluate(
        {"real-mff": small_sets / "real-mff"},
        ["average", "depth-map"],
        output=tmp_path / "o",
        metrics=["PSNR"],
        workers=1,
    )
    text = (tmp_path / "o/report.html").read_text()
    assert text.count('class="scene"') == 1
    assert re.search(r"[12] more scenes had no room", text)


def test_the_worst_picture_of_the_first_method_is_shown(small_sets, tmp_path):
    result = evaluate(
        {"real-mff": small_sets / "real-mff"},
        ["average", "depth-map", "laplacian-pyramid"],
        output=tmp_path / "o",
        metrics=["PSNR"],
        workers=1,
        report=False,
    )
    chosen = choose_scenes(result.summaries["real-mff"])
    assert "worst" in chosen[0][1]
    assert len({name for name, _ in chosen}) == len(chosen) <= 3


def test_windows_lie_where_the_focus_changes_and_do_not_overlap():
    noise = np.random.default_rng(0).random((300, 400, 3), dtype=np.float32)
    upper, lower = noise.copy(), noise.copy()
    upper[150:] = 0.5
    lower[:150] = 0.5
    windows = find_focus_windows([upper, lower], [noise, upper], count=3)
    assert len(windows) == 3
    for top, left, height, width in windows:
        assert top < 150 < top + height
        assert 0 <= left <= 400 - width
        assert crop(noise, (top, left, height, width)).shape[:2] == (height, width)
    lefts = sorted(left for _, left, _, _ in windows)
    assert all(after - before >= windows[0][3] for before, after in itertools.pairwise(lefts))


def test_windows_avoid_a_plain_background_with_noise():
    generator = np.random.default_rng(1)
    texture = generator.random((300, 400), dtype=np.float32)
    sources = []
    for sharp in (slice(20, 60), slice(60, 100)):
        source = (0.5 + 0.002 * generator.standard_normal((300, 400))).astype(np.float32)
        source[20:100, 20:100] = 0.5
        source[20:100, sharp] = texture[20:100, sharp]
        sources.append(source)
    [(top, left, _, width)] = find_focus_windows(sources, [], count=1)
    assert left < 60 < left + width
    assert top < 100


def test_a_picture_without_structure_still_gives_a_window():
    flat = np.full((40, 50), 0.5, np.float32)
    [(top, left, height, width)] = find_focus_windows([flat, flat], [flat])
    assert (top, height, width) == (0, 40, 40)
    assert 0 <= left <= 10


def test_difference_maps_are_dark_where_pictures_agree():
    grey, colour = np.zeros((4, 5), np.float32), np.full((4, 5, 3), 0.5, np.float32)
    assert difference_map(colour, grey).tolist() == np.full((4, 5), 0.5).tolist()
    heat = heat_picture(np.array([[0.0, 0.05, 0.1, 9.0]], np.float32), largest=0.1)
    brightness = heat.sum(axis=2)[0]
    assert brightness[0] < 0.1
    assert brightness[0] < brightness[1] < brightness[2] == brightness[3]


def test_large_pictures_shrink_and_small_ones_stay():
    large = np.zeros((1000, 2000, 3), np.float32)
    assert shrink(large, 640).shape == (320, 640, 3)
    assert shrink(large[:100, :100], 640).shape == (100, 100, 3)
    assert data_address(large[:8, :8, 0], quality=80).startswith("data:image/webp;base64,")


def test_plots_have_a_dot_for_each_picture_and_method_even_at_infinity():
    series = {"ips": np.array([40.0, np.inf]), "a<b": np.array([38.0, 39.0])}
    plot = strip_plot(
        series, pictures=["one", "two"], intervals={"ips": (40.0, np.inf), "a<b": (38.0, 39.0)}, digits=2, title="PSNR"
    )
    assert plot.count("<circle") == 4
    assert "a&lt;b" in plot
    assert "nan" not in plot
    bars = difference_plot(np.array([0.5, -0.2, np.inf]), pictures=["a", "b", "c"], digits=2, title="d")
    assert bars.count("<rect") == 3


def test_a_method_far_off_is_put_at_the_edge_and_marked():
    series = {name: np.array([0.5, 0.51 + step / 100]) for step, name in enumerate("abc")} | {"d": np.array([0.1, 0.2])}
    intervals = {name: (float(values.min()), float(values.max())) for name, values in series.items()}
    plot = strip_plot(series, pictures=["one", "two"], intervals=intervals, digits=2, title="Q")
    assert plot.count('class="outside"') == 2
    assert plot.count('class="mean"') == 3


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.8123, 0.8129), (30.0, 47.5), (-3, 1e4), (5, 5)])
def test_ticks_are_few_and_inside(low, high):
    ticks = nice_ticks(low, high)
    assert 1 <= len(ticks) <= 5
    assert all(low <= tick <= high for tick in ticks)
