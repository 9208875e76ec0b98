"""What single commands do that needs no process of its own."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from allfocus.cli import demo_command, main, printing
from allfocus.cli.demo_command import DemoScores, before_and_after
from allfocus.cli.export_command import weights_of_run
from allfocus.cli.fuse_command import default_output
from allfocus.errors import InputError
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image


def test_the_default_output_is_not_matched_by_the_pattern_of_the_frames(tmp_path):
    assert default_output(Path("shots/DSC1.JPG")) == Path("shots/allfocus_DSC1.jpg")
    assert default_output(Path("a.webp")) == Path("allfocus_a.png")
    (tmp_path / "stack").mkdir()
    assert default_output(tmp_path / "stack") == tmp_path.resolve() / "allfocus_stack.png"


def test_json_is_valid_even_for_infinity_and_paths(capsys):
    printing.print_json({"a": float("inf"), "b": [float("nan"), Path("x")], "c": {"d": True, "e": None}})
    assert json.loads(capsys.readouterr().out) == {"a": "inf", "b": [None, "x"], "c": {"d": True, "e": None}}


def test_the_gain_is_over_the_best_single_frame():
    scores = DemoScores(frames=[(20.0, 0.5), (23.0, 0.6)], fused=(31.5, 0.9))
    assert scores.best_frame == 1
    assert scores.gain == pytest.approx(8.5)


def test_before_and_after_enlarges_the_part_that_gained_most():
    truth = np.full((40, 60, 3), 0.5, np.float32)
    frame = truth.copy()
    frame[25:35, 40:50] = 1.0
    picture = before_and_after(frame, truth, truth)
    lower_left = picture[24 * 2 + 40 : 24 * 2 + 80, 8:68]
    assert (lower_left == 1.0).all(axis=2).mean() > 0.4


def test_a_demo_that_gains_too_little_fails_with_clear_words(tmp_path, capsys):
    assert main.run(["demo", "-o", str(tmp_path / "demo"), "--method", "average"]) == 1
    assert "dB above the best single frame" in capsys.readouterr().err


def test_a_demo_that_gains_enough_succeeds_as_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo_command, "SMALLEST_GAIN", -100.0)
    folder = tmp_path / "demo"
    assert main.run(["demo", "-o", str(folder), "--method", "average", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["gain"] == pytest.approx(report["fused"]["psnr"] - max(f["psnr"] for f in report["frames"]))
    assert {path.name for path in folder.iterdir()} >= {"frames", "truth.png", "fused.png", "before_after.png"}


def test_a_scene_is_written_with_its_truth_outside_the_folder_of_frames(tmp_path, capsys):
    arguments = ["scene", "slope", "-o", str(tmp_path / "s"), "--frames", "3", "--size", "64x48", "--bit-depth", "16"]
    assert main.run([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "slope"
    assert sorted(path.name for path in (tmp_path / "s" / "frames").iterdir()) == [
        f"frame_0{number}.png" for number in range(3)
    ]
    truth = read_image(tmp_path / "s" / "truth.png")
    assert (truth.width, truth.height, truth.bit_depth) == (64, 48, 16)
    assert len(json.loads((tmp_path / "s" / "scene.json").read_text())["focus_distances"]) == 3
    assert main.run(arguments) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main.run([*arguments, "--overwrite"]) == 0


def test_an_unknown_scene_names_the_nearest(tmp_path, capsys):
    assert main.run(["scene", "dsek", "-o", str(tmp_path)]) == 2
    assert "'desk'" in capsys.readouterr().err


def test_scores_are_computed_on_the_levels_of_the_file(tmp_path, capsys):
    ramp = np.arange(1024, dtype=np.uint16).reshape(32, 32) * 64
    for name in ("fused.png", "a.png", "b.png"):
        write_image(ramp, tmp_path / name)
    a, b, fused = (str(tmp_path / name) for name in ("a.png", "b.png", "fused.png"))
    assert main.run(["score", fused, "--source", a, "--source", b, "--reference", a, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["PSNR"] == "inf"
    assert scores["SSIM"] == pytest.approx(1)
    assert main.run(["score", fused, "--source", a, "--source", b]) == 0
    assert "Q_MI" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["methods", "metrics", "datasets"])
def test_lists_are_printed_for_people_and_as_json(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "60")
    assert main.run([command]) == 0
    table = capsys.readouterr().out
    assert main.run([command, "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)[command]
    assert len(entries) >= 3
    assert all(entry["name"] in table.splitlines() for entry in entries)
    # Nothing is cut to the width of the terminal: addresses and titles are there to be copied.
    words = {word for entry in entries for key in ("citation", "where", "paper") for word in entry.get(key, "").split()}
    assert words <= set(table.split())
    assert max(map(len, table.splitlines())) <= 100


def test_methods_that_need_an_extra_say_which_and_are_not_among_those_that_can_run(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main.run(["methods"]) == 0
    ready, _, waiting = capsys.readouterr().out.partition("\nThese cannot run here:\n")
    assert "ips-paper" not in ready.splitlines()
    assert "ips-paper" in waiting.splitlines()
    assert "it needs the extra train: pip install 'allfocus[train]'" in waiting
    assert "it needs the extra rivals: pip install 'allfocus[rivals]'" in waiting


def test_only_the_metrics_that_were_asked_for_are_scored_and_which_way_is_better_is_said(tmp_path, capsys):
    ramp = np.arange(1024, dtype=np.uint16).reshape(32, 32) * 64
    write_image(ramp, tmp_path / "ramp.png")
    ramp_file = str(tmp_path / "ramp.png")
    arguments = ["score", ramp_file, "--source", ramp_file, "--source", ramp_file]
    assert main.run([*arguments, "--metric", "q_cv", "--metric", "Q_MI"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "Q_" in line]
    assert [(row[0], row[2]) for row in rows] == [("Q_CV", "lower"), ("Q_MI", "higher")]
    assert main.run([*arguments, "--metric", "psnr"]) == 2
    assert "give a reference" in capsys.readouterr().err


def test_a_run_without_weights_is_named(tmp_path):
    with pytest.raises(InputError, match=r"weights\.safetensors: no such file"):
        weights_of_run(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"")
    assert weights_of_run(tmp_path) == tmp_path / "weights.safetensors"


@pytest.mark.parametrize(
    "arguments",
    [["train", "photos", "--recipe", "r.toml", "-o", "run"], ["export", "weights.safetensors", "-o", "m.onnx"]],
)
def test_without_torch_the_message_names_the_extra(tmp_path, capsys, monkeypatch, arguments):
    loaded_with_torch = ("torch", "allfocus.network", "allfocus.training")
    for name in [name for name in sys.modules if name.startswith(loaded_with_torch)]:
        monkeypatch.delitem(sys.modules, name)
    import allfocus

    for name in ("train", "export_onnx", "read_recipe"):
        monkeypatch.delitem(vars(allfocus), name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.safetensors").write_bytes(b"")
    assert main.run(arguments) == 2
    assert "pip install 'allfocus[train]'" in capsys.readouterr().err


@pytest.mark.parametrize(("rank", "printed"), [(None, 1), ("0", 1), ("1", 0)])
def test_of_all_processes_of_a_training_run_only_the_first_prints_the_weights(capsys, monkeypatch, rank, printed):
    import allfocus

    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    monkeypatch.setitem(vars(allfocus), "read_recipe", lambda path, overrides: None)
    monkeypatch.setitem(vars(allfocus), "train", lambda photos, run, **options: run / "weights.safetensors")
    assert main.run(["train", "photos", "--recipe", "r.toml", "-o", "run"]) == 0
    assert capsys.readouterr().out.count("weights.safetensors") == printed
