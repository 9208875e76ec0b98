"""The script that writes the tables of the literature's networks into docs/rivals.md."""

import argparse

import numpy as np
import pytest
from PIL import Image
from scripts import load_script

METRICS = {"lytro": ("Q_MI", "Q_SF", "Q_S", "Q_CB", "Q_AB/F", "Q_NCIE")}


@pytest.fixture(scope="module")
def script():
    return load_script("benchmarks/rival_tables.py")


@pytest.fixture(scope="module")
def table(script, tmp_path_factory):
    """Two methods on two pairs, measured under both protocols."""
    folder = tmp_path_factory.mktemp("rivals")
    (folder / "lytro").mkdir()
    random = np.random.default_rng(1)
    for name in ("lytro-01-A", "lytro-01-B", "lytro-02-A", "lytro-02-B"):
        picture = (random.random((12, 14, 3)) * 255).astype(np.uint8).repeat(4, axis=0).repeat(4, axis=1)
        Image.fromarray(picture).save(folder / "lytro" / f"{name}.jpg")
    arguments = argparse.Namespace(
        data=folder, output=folder / "out", page=folder / "page.md", ours=None, seconds=3600.0, limit=None, workers=1,
        method=[], protocol=None, device="cpu",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ALLFOCUS_RIVALS", raising=False)
        patch.setattr(script, "OURS", ("dsift", "average"))
        found = script.Table(arguments, METRICS)
        grey = found.fill("grey")
        return found, {"grey": grey, "rgb-mean": found.collect("rgb-mean", "grey")}


def test_networks_take_part_once_for_each_file_of_weights(script, tmp_path, monkeypatch):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder, names in (
        (theirs, ("ifcnn_max.pth", "mff_gan_lytro.index", "mff_gan_mfi-whu.index")),
        (ours, ("ifcnn.safetensors", "cnn.safetensors")),
    ):
        folder.mkdir()
        for name in names:
            (folder / name).touch()
    monkeypatch.delenv("ALLFOCUS_RIVALS", raising=False)
    assert script.methods_at_hand(None) == list(script.OURS)
    monkeypatch.setenv("ALLFOCUS_RIVALS", str(theirs))
    assert [script.short_name(name) for name in script.methods_at_hand(ours)[len(script.OURS) :]] == [
        "cnn@cnn.safetensors",
        "ifcnn@ifcnn_max.pth",
        "ifcnn@ifcnn.safetensors",
        "mff-gan@mff_gan_lytro.index",
        "mff-gan@mff_gan_mfi-whu.index",
    ]


def test_the_page_says_which_rows_of_the_paper_are_reached(script, table):
    measured, results = table
    text = script.generated_part(measured, results)
    assert text.startswith(script.BEGIN)
    assert text.endswith(script.END)
    (summary,) = results["grey"][0].summaries.values()
    found = {row.method: row for row in summary.methods}["dsift"].estimates["Q_MI"].mean
    reached = found >= 1.0271
    cell = f"{found:.4f} (1.0271)"
    line = next(line for line in text.splitlines() if line.startswith("| DSIFT | `dsift` |"))
    assert f"| **{cell}** |" in line if reached else f"| {cell} |" in line
    assert line.count("**") // 2 == int(line.rpartition(" of 6 |")[0].rpartition("| ")[2])
    assert "| SwinFusion | not run | - |" in text
    assert "`average`" in text
    # Grey and per channel are scores of the same pictures.
    pictures = [{cell.sha256 for cell in results[protocol][0].cells} for protocol in ("grey", "rgb-mean")]
    assert pictures[0] == pictures[1]
    assert results["grey"][0].cells[0].scores != results["rgb-mean"][0].cells[0].scores


def test_what_there_was_no_time_for_is_named_with_its_cost(script, table):
    measured, _ = table
    row = next(row for row in measured.rows if row.method == "average")
    row.done, row.seconds = False, 7200.0
    try:
        text = script.generated_part(measured, {"grey": measured.collect("grey")})
    finally:
        row.done = True
    assert "| `average` | Lytro | 2 | 2.0 h |" in text
    assert text.count("`average`") == 1


def test_without_a_limit_of_time_everything_is_run(script, table):
    measured, results = table
    arguments = argparse.Namespace(**{**vars(measured.arguments), "seconds": None})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "OURS", ("dsift", "average"))
        patch.delenv("ALLFOCUS_RIVALS", raising=False)
        whole = script.Table(arguments, METRICS)
        assert [result.cells for result in whole.fill("grey")] == [result.cells for result in results["grey"]]
    assert all(row.done for row in whole.rows)


def test_without_any_time_there_is_no_page(script, table):
    measured, _ = table
    arguments = argparse.Namespace(**{**vars(measured.arguments), "seconds": 0.0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "OURS", ("average",))
        patch.delenv("ALLFOCUS_RIVALS", raising=False)
        with pytest.raises(script.InputError, match="more time"):
            script.make_page(arguments, METRICS)
