"""``allfocus align`` from files to files."""

import json

import cv2
import numpy as np
import pytest

from allfocus.alignment.stack_alignment import StackAlignment, align
from allfocus.cli.main import run
from allfocus.errors import OutputError
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


def test_frames_of_a_format_that_is_only_read_come_out_as_png(tmp_path):
    frames = render_scene("slope", frames=2, size=(120, 160), shake=3.0).frames
    for number, frame in enumerate(frames):
        cv2.imwrite(str(tmp_path / f"{number}.bmp"), np.rint(frame[..., ::-1] * 255).astype(np.uint8))
    assert run(["align", str(tmp_path / "0.bmp"), str(tmp_path / "1.bmp"), "-o", str(tmp_path / "out")]) == 0
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["0.png", "1.png", "transforms.json"]


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


def test_a_run_that_fails_leaves_nothing_and_replaces_nothing(folder, tmp_path, capsys, monkeypatch):
    from allfocus.stack import aligned_files

    encoded = aligned_files.encode_image

    def fail_at_the_last(image, path, **options):
        if path.name == "shot2.tif":
            raise OutputError(f"{path}: No space left")
        return encoded(image, path, **options)

    monkeypatch.setattr(aligned_files, "encode_image", fail_at_the_last)
    assert run(["align", str(folder), "-o", str(tmp_path / "new" / "deep")]) == 2
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "shot0.tif").write_text("older")
    assert run(["align", str(folder), "-o", str(tmp_path / "old"), "--overwrite"]) == 2
    assert [(path.name, path.read_text()) for path in (tmp_path / "old").iterdir()] == [("shot0.tif", "older")]


def test_damaged_frames_may_be_left_out_and_are_told(folder, tmp_path, capsys):
    data = (folder / "shot1.tif").read_bytes()
    (folder / "shot3.tif").write_bytes(data[:-4000])
    (folder / "shot4.tif").write_text("no picture")
    assert run(["align", str(folder), "-o", str(tmp_path / "out")]) == 2
    assert "shot4.tif" in capsys.readouterr().err
    assert run(["align", str(folder), "-o", str(tmp_path / "out"), "--skip-bad", "--json"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert sorted(report["left_out"]) == ["shot3.tif", "shot4.tif"]
    assert "left out shot3.tif" in printed.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("shot0.tif", "shot1.tif", "shot2.tif", "transforms.json")
    ]


def test_the_limit_of_pixels_can_be_set(folder, tmp_path, capsys):
    assert run(["align", str(folder), "-o", str(tmp_path / "out"), "--max-pixels", "19199"]) == 2
    assert "--max-pixels" in capsys.readouterr().err
    assert run(["align", str(folder), "-o", str(tmp_path / "out"), "--max-pixels", "19200"]) == 0


def test_transparent_parts_do_not_mislead_the_measurement(tmp_path, capsys):
    """A grid without pixels lies still over a moved scene, with black below it, as programs leave it."""
    scene = render_scene("slope", frames=2, size=(160, 200), shake=6.0)
    alpha = np.ones((160, 200), np.float32)
    alpha[:, 8::40] = alpha[:, 9::40] = alpha[8::40] = alpha[9::40] = 0
    for number, frame in enumerate(scene.frames):
        write_image(Image(frame * alpha[..., None], alpha=alpha), tmp_path / f"{number}.png")
    paths = [str(tmp_path / f"{number}.png") for number in (0, 1)]
    assert run(["align", *paths, "-o", str(tmp_path / "out"), "--keep-size", "--json"]) == 0
    alignment = StackAlignment.from_json(json.loads(capsys.readouterr().out))
    assert not alignment.registered
    truth = np.linalg.inv(scene.transforms[1]) @ scene.transforms[0]
    moved = alignment.transforms[0] @ np.array([100.0, 110.0, 1.0])
    expected = truth @ np.array([100.0, 110.0, 1.0])
    assert np.abs(moved - expected).max() < 1.0


def test_frames_too_small_to_align_are_said_to_be(tmp_path, capsys):
    for number in range(2):
        write_image(np.full((9, 9, 3), 0.1 * number, np.float32), tmp_path / f"{number}.png")
    paths = [str(tmp_path / f"{number}.png") for number in (0, 1)]
    assert run(["align", *paths, "-o", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert "2 frames, not aligned" in printed.out
    assert "too small to be aligned" in printed.err


def test_floating_point_frames_of_any_range_keep_their_units(tmp_path):
    scene = render_scene("slope", frames=3, size=(120, 160), shake=3.0, bit_depth=16)
    (tmp_path / "stack").mkdir()
    own = [frame * np.float32(3000) - np.float32(5) for frame in scene.frames]
    for number, frame in enumerate(own):
        write_image(Image(frame, bit_depth=32), tmp_path / "stack" / f"{number}.tif")
    assert run(["align", str(tmp_path / "stack"), "-o", str(tmp_path / "out")]) == 0
    aligned = align(own)
    assert not aligned.alignment.registered
    for number, expected in enumerate(aligned.frames):
        found = read_image(tmp_path / "out" / f"{number}.tif").pixels
        np.testing.assert_allclose(found, expected, atol=0.01)
        assert found.max() > 1500
