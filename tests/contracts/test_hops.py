"""Few hands between a command and its work: a new function that only hands options on fails here."""

from pathlib import Path

import pytest
from scripts import load_script

from allfocus.images.writing import write_image
from allfocus.scenes.rendering import render_scene

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def count_hops():
    return load_script("tools/hops.py").count_hops


@pytest.fixture
def frames(tmp_path):
    scene = render_scene("slope", frames=3, size=(96, 128))
    return [str(write_image(frame, tmp_path / f"{number}.png")) for number, frame in enumerate(scene.frames)]


def test_fuse_goes_through_four_hands_and_one_more_for_maps_and_report(count_hops, frames, tmp_path):
    plain = ["fuse", *frames, "-o", str(tmp_path / "o.png")]
    everything = [
        *("--skip-bad", "--slab", "2,1", "--keep-size", "--prefer", "near", "--quality", "90", "--overwrite"),
        *(f"--depth-map={tmp_path / 'd.png'}", f"--report={tmp_path / 'r.html'}"),
    ]
    expected = ["run", "fuse", "fuse_files", "plan_stack"]
    assert count_hops(plain) == expected
    assert count_hops([*plain, *everything]) == [*expected, "ResultWriter"]


def test_a_batch_adds_four_hands_to_those_of_fuse_files(count_hops, frames, tmp_path):
    pytest.importorskip("distributed", reason="needs the extra batch")
    found = count_hops(["batch", str(tmp_path), "-o", str(tmp_path / "out"), "--skip-bad", "--prefer", "near"])
    assert found == ["run", "batch", "fuse_stacks", "fuse_stack", "fuse_files", "plan_stack"]


def test_align_goes_through_three_hands(count_hops, frames, tmp_path):
    found = count_hops(["align", *frames, "-o", str(tmp_path / "aligned"), "--skip-bad", "--keep-size"])
    assert found == ["run", "align", "align_files"]


def test_train_goes_through_three_hands(count_hops, frames, tmp_path):
    pytest.importorskip("torch")
    recipe = str(ROOT / "recipes" / "ips-paper.toml")
    small = {
        **{"data.licence_classes": "[]", "data.held_out_every": 3, "data.crop": 32, "data.batch": 1},
        **{"optimizer.iterations": 1, "log.validation_samples": 1},
        **{"paper_network.source_channels": 4, "paper_network.mamba_blocks": 1},
    }
    settings = [word for name, value in small.items() for word in ("--set", f"{name}={value}")]
    run = str(tmp_path / "run")
    found = count_hops(["train", str(tmp_path), "--recipe", recipe, "-o", run, "--device", "cpu", *settings])
    assert found == ["run", "train", "train"]


def test_a_hand_that_only_forwards_is_counted(count_hops, frames, tmp_path, monkeypatch):
    from allfocus.stack import pipeline, plan

    source = "def forward(paths, outputs, options, **more):\n    return plan_stack(paths, outputs, options, **more)"
    names = {"plan_stack": plan.plan_stack}
    exec(compile(source, plan.__file__, "exec"), names)
    monkeypatch.setattr(pipeline, "plan_stack", names["forward"])
    assert "forward" in count_hops(["fuse", *frames, "-o", str(tmp_path / "o.png")])
