"""``allfocus align`` from files to files."""

import json

import numpy as np
import pytest

from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.cli.main import run
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image
from allfocus.scenes.rendering import render_scene


@pytest.fixture
def folder(tmp_path):
    scene = render_scene("slope", frames=3, size=(120, 160), shake=3.0, bit_depth=16)
    place = tmp_path / "stack"
    place.mkdir()
    for number, frame in enumerate(scene.frames):
        write_image(Image(frame, bit_depth=16, icc_profile=b"profile"), place / f"shot{number}.tif")
    return place


def test_aligned_frames_and_transforms_are_written(folder, tmp_path, capsys):
    output = tmp_path / "out" / "deep"
    assert run(["align", str(folder), "-o", str(output), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report == {"folder": str(output), **json.loads((output / "transforms.json").read_text())}
    alignment = StackAlignment.from_json(report)
    assert not alignment.registered
    assert [frame["file"] for frame in report["frames"]] == ["shot0.tif", "shot1.tif", "shot2.tif"]
    top, left, bottom, right = alignment.common_area()
    image = read_image(output / "shot2.tif")
    assert (image.height, image.width) == (bottom - top, right - left)
    assert image.bit_depth == 16
    assert image.icc_profile == b"profile"
    moved, _ = alignment.apply(2, read_image(folder / "shot2.tif").pixels)
    assert np.abs(image.pixels - moved[top:bottom, left:right]).max() <= 0.51 / 65535


def test_kept_size_marks_what_is_outside(folder, tmp_path, capsys):
    assert run(["align", str(folder), "-o", str(tmp_path / "out"), "--keep-size", "--reference", "1"]) == 0
    assert "3 frames aligned" in capsys.readouterr().out
    first, last = (read_image(tmp_path / "out" / f"shot{number}.tif") for number in (0, 2))
    assert (last.height, last.width) == (120, 160)
    assert first.alpha is None
    assert last.alpha is not None
    assert 0 < last.alpha.mean() < 1


def test_a_registered_stack_is_copied_and_said_to_be(tmp_path, capsys):
    frames = render_scene("desk", frames=3, size=(120, 160)).frames
    paths = [str(write_image(frame, tmp_path / f"{number}.png")) for number, frame in enumerate(frames)]
    assert run(["align", *paths, "-o", str(tmp_path / "out")]) == 0
    assert "registered already" in capsys.readouterr().out
    for number, frame in enumerate(frames):
        assert np.array_equal(read_image(tmp_path / "out" / f"{number}.png").pixels, frame)


def test_a_frame_that_does_not_belong_stops_the_run_unless_it_may_be_left_out(folder, tmp_path, capsys):
    stranger = render_scene("desk", frames=1, size=(120, 160)).frames[0]
    write_image(Image(stranger, bit_depth=16), folder / "shot9.tif")
    assert run(["align", str(folder), "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "shot9.tif" in error
    assert "--skip-bad" in error
    assert not list((tmp_path / "out").glob("*.tif"))
    assert run(["align", str(folder), "-o", str(tmp_path / "out"), "--skip-bad", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["outliers"] == [3]
    assert report["frames"][3]["file"] is None
    assert not (tmp_path / "out" / "shot9.tif").exists()


def test_nothing_is_overwritten_unasked_and_no_frame_ever(folder, tmp_path, capsys):
    assert run(["align", str(folder), "-o", str(folder), "--overwrite"]) == 2
    assert "will not be replaced" in capsys.readouterr().err
    arguments = ["align", str(folder), "-o", str(tmp_path / "out")]
    assert run(arguments) == 0
    assert run(arguments) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run([*arguments, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("extra", "message"),
    [(["--model", "elastic"], "elastic"), (["--reference", "7"], "frame 7"), (["--reference", "0"], "frame 0")],
)
def test_options_that_cannot_be_met_are_refused(folder, tmp_path, capsys, extra, message):
    assert run(["align", str(folder), "-o", str(tmp_path / "out"), *extra]) == 2
    assert message in capsys.readouterr().err


def test_one_frame_is_no_stack(folder, tmp_path, capsys):
    assert run(["align", str(folder / "shot0.tif"), "-o", str(tmp_path / "out")]) == 2
    assert "only one frame" in capsys.readouterr().err
