"""``allfocus fuse`` as a user runs it: in a process of its own, on files."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tifffile

from allfocus.images.reading import read_image
from allfocus.images.writing import to_integers, write_image


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def assert_refused(done, *words: str) -> None:
    """Exit code 2, nothing on stdout, and one line on stderr with these words."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


@pytest.fixture
def frames(tmp_path, stack_folder) -> Path:
    """A copy of the small stack that the test may damage."""
    return Path(shutil.copytree(stack_folder, tmp_path / "frames"))


def test_a_folder_becomes_one_picture(run_command, tmp_path, stack_folder):
    before = contents(stack_folder)
    done = run_command("fuse", stack_folder, "-o", tmp_path / "out.png", "--method", "laplacian-pyramid")
    assert done.returncode == 0, done.stderr
    assert "out.png" in done.stdout
    assert done.stderr == "the frames are registered already; nothing was moved\n"
    image = read_image(tmp_path / "out.png")
    assert (image.width, image.height, image.bit_depth) == (128, 96, 8)
    assert contents(stack_folder) == before
    assert list(contents(tmp_path)) == ["out.png"]


def test_the_default_method_comes_nearer_to_the_truth_than_any_frame(run_command, tmp_path):
    from allfocus.scenes.rendering import render_scene

    scene = render_scene("desk", frames=4, size=(192, 256))
    paths = [write_image(frame, tmp_path / f"{number}.png") for number, frame in enumerate(scene.frames)]
    done = run_command("fuse", *paths, "-o", tmp_path / "out.png", "--decision-map", tmp_path / "map.png", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["method"] == "ips"
    assert (report["width"], report["height"]) == (256, 192)
    errors = [float(((frame - scene.truth) ** 2).mean()) for frame in scene.frames]
    fused = read_image(tmp_path / "out.png").pixels
    assert ((fused - scene.truth) ** 2).mean() < min(errors) / 4
    levels = np.unique(to_integers(read_image(tmp_path / "map.png").pixels, 8))
    assert set(levels) <= {0, 85, 170, 255}
    assert len(levels) > 1


def test_16_bits_stay_16_bits_and_equal_frames_come_back_bit_for_bit(run_command, tmp_path):
    levels = np.random.default_rng(6).integers(0, 65536, (40, 48, 3), dtype=np.uint16)
    for name in ("a.tif", "b.tif"):
        write_image(levels, tmp_path / name)
    done = run_command("fuse", tmp_path / "a.tif", tmp_path / "b.tif", "--method", "average", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "allfocus_a.tif"), levels)


def test_a_multi_page_tiff_is_fused(run_command, tmp_path, small_stack):
    pages = np.stack([to_integers(frame, 16) for frame in small_stack])
    tifffile.imwrite(tmp_path / "stack.tif", pages, photometric="rgb")
    done = run_command("fuse", tmp_path / "stack.tif", "-o", tmp_path / "o.tif", "--method", "average")
    assert done.returncode == 0, done.stderr
    assert read_image(tmp_path / "o.tif").bit_depth == 16


def test_a_missing_file_is_named(run_command, tmp_path, frames):
    done = run_command("fuse", frames / "frame_0.png", frames / "frame_9.png", "-o", tmp_path / "o.png")
    assert_refused(done, "frame_9.png", "no such file")


@pytest.mark.parametrize("share", [0.3, 0.95])
def test_a_truncated_frame_is_named_and_nothing_is_written(run_command, tmp_path, frames, share):
    path = frames / "frame_1.png"
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    before = contents(tmp_path)
    assert_refused(run_command("fuse", frames, "-o", tmp_path / "o.png"), "frame_1.png", "too early")
    assert contents(tmp_path) == before


def test_what_is_no_picture_is_named(run_command, tmp_path, frames):
    (frames / "frame_1.png").write_text("not a picture at all")
    assert_refused(run_command("fuse", frames, "-o", tmp_path / "o.png"), "frame_1.png", "not a picture")


def test_different_sizes_are_named_with_both_files(run_command, tmp_path, frames):
    write_image(np.zeros((50, 60, 3), np.float32), frames / "frame_1.png", overwrite=True)
    done = run_command("fuse", frames, "-o", tmp_path / "o.png")
    assert_refused(done, "frame_0.png is 128x96", "frame_1.png is 60x50")


def test_one_frame_is_not_a_stack(run_command, tmp_path, frames):
    assert_refused(run_command("fuse", frames / "frame_0.png", "-o", tmp_path / "o.png"), "only one frame", "frame_0")


def test_an_empty_folder_is_named(run_command, tmp_path):
    (tmp_path / "empty").mkdir()
    assert_refused(run_command("fuse", tmp_path / "empty", "-o", tmp_path / "o.png"), "empty", "no pictures")


def test_an_existing_output_is_kept_without_overwrite(run_command, tmp_path, frames):
    output = tmp_path / "o.png"
    output.write_text("precious")
    arguments = ("fuse", frames, "-o", output, "--method", "average")
    assert_refused(run_command(*arguments), "o.png", "exists", "--overwrite")
    assert output.read_text() == "precious"
    assert run_command(*arguments, "--overwrite").returncode == 0
    assert read_image(output).width == 128


def test_a_frame_is_never_the_output(run_command, frames):
    before = contents(frames)
    done = run_command("fuse", frames, "-o", frames / "frame_0.png", "--overwrite", "--method", "average")
    assert_refused(done, "frame_0.png", "frame of the stack")
    assert contents(frames) == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_named(run_command, tmp_path, frames):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    assert_refused(run_command("fuse", frames, "-o", folder / "o.png"), "locked", "read-only")


@pytest.mark.parametrize(("name", "word"), [("nowhere/o.png", "does not exist"), ("o.xyz", ".tif"), ("o", ".png")])
def test_an_impossible_output_is_refused_before_the_work(run_command, tmp_path, frames, name, word):
    assert_refused(run_command("fuse", frames, "-o", tmp_path / name), word)


def test_an_unknown_method_names_the_nearest(run_command, tmp_path, frames):
    done = run_command("fuse", frames, "-o", tmp_path / "o.png", "--method", "laplacian-pyramide")
    assert_refused(done, "laplacian-pyramide", "'laplacian-pyramid'")


def test_a_notice_goes_to_stderr_and_json_stays_alone_on_stdout(run_command, tmp_path, frames):
    from PIL import Image as PillowImage

    for path in sorted(frames.iterdir()):
        with PillowImage.open(path) as picture:
            picture.convert("P").save(path)
    done = run_command("fuse", frames, "-o", tmp_path / "o.png", "--method", "average", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["notices"]) == 4
    assert "frame_0.png: palette expanded" in done.stderr
