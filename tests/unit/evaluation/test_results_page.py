"""The script that writes the tables into docs/results.md."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "results.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("results_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_only_what_is_between_the_markers_is_replaced(script, tmp_path):
    page = tmp_path / "results.md"
    page.write_text(f"# Results\n\nby hand\n\n{script.BEGIN}\nold\n{script.END}\n\nalso by hand\n")
    script.replace_part(page, f"{script.BEGIN}\nnew\n{script.END}")
    expected = f"# Results\n\nby hand\n\n{script.BEGIN}\nnew\n{script.END}\n\nalso by hand\n"
    assert page.read_text() == expected
    script.replace_part(page, f"{script.BEGIN}\nnew\n{script.END}")
    assert page.read_text() == expected


def test_rivals_take_part_when_their_weights_are_at_hand(script, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="needs the extra rivals")
    monkeypatch.setenv("ALLFOCUS_RIVALS", str(tmp_path))
    assert script.rivals_at_hand() == []
    for name in ("ifcnn_max.pth", "u2fusion.index"):
        (tmp_path / name).touch()
    assert script.rivals_at_hand() == ["ifcnn", "u2fusion"]


def test_a_page_without_markers_gets_them(script, tmp_path):
    script.replace_part(tmp_path / "docs/results.md", f"{script.BEGIN}\nnew\n{script.END}")
    assert (tmp_path / "docs/results.md").read_text() == f"# Results\n\n{script.BEGIN}\nnew\n{script.END}\n"
