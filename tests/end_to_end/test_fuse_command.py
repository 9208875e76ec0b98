"""``allfocus fuse`` as a user runs it: in a process of its own, on files."""

import hashlib
import json
import os
import re
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


# Alignment, maps, bits, and frames that cannot be used


@pytest.fixture(scope="session")
def moved_folder(tmp_path_factory) -> Path:
    """Four frames of 160 x 208 by a shaking hand; tests must not write into it."""
    from allfocus.scenes.rendering import render_scene

    folder = tmp_path_factory.mktemp("moved")
    for number, frame in enumerate(render_scene("desk", frames=4, size=(160, 208), shake=4.0, breathing=0.006).frames):
        write_image(frame, folder / f"frame_{number}.png")
    return folder


def test_moved_frames_are_aligned_and_the_report_says_how(run_command, tmp_path, moved_folder):
    depth_map, decision_map = tmp_path / "depth.png", tmp_path / "decision.png"
    done = run_command(
        "fuse",
        moved_folder,
        "-o",
        tmp_path / "o.png",
        "--depth-map",
        depth_map,
        "--decision-map",
        decision_map,
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert "aligned (similarity) and cropped" in done.stderr
    report = json.loads(done.stdout)
    assert set(report) == {
        "output", "outputs", "method", "width", "height", "frames", "left_out", "aligned", "model", "confidences",
        "decision_map", "depth_map", "depth_preview", "confidence_map", "error_map", "check_map", "veil_map", "report",
        "slabs", "linear_light", "transparent", "lost_detail", "seconds", "seconds_by_step", "notices", "dimensions",
        "series", "faults",
    }  # fmt: skip
    assert report["output"] == str(tmp_path / "o.png")
    assert report["frames"] == [f"frame_{number}.png" for number in range(4)]
    assert report["left_out"] == {}
    assert report["aligned"] is True
    assert report["model"] == "similarity"
    assert len(report["confidences"]) == 4
    assert all(0.8 < value <= 1 for value in report["confidences"])
    assert (report["depth_map"], report["decision_map"]) == (str(depth_map), str(decision_map))
    assert list(report["seconds_by_step"]) == ["aligning", "reading", "fusing", "measuring", "writing"]
    assert 0 < sum(report["seconds_by_step"].values()) <= report["seconds"] + 0.01
    # The picture and its maps have one size, a little smaller than the frames.
    images = [read_image(path) for path in (tmp_path / "o.png", depth_map, decision_map)]
    assert {(image.width, image.height) for image in images} == {(report["width"], report["height"])}
    assert 170 < report["width"] < 208
    assert [image.bit_depth for image in images] == [8, 16, 8]


def test_without_alignment_moved_frames_keep_their_size(run_command, tmp_path, moved_folder):
    done = run_command("fuse", moved_folder, "-o", tmp_path / "o.png", "--no-align", "--method", "average", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("detail lost in ")  # the mean of frames that do not lie on each other
    assert done.stderr.count("\n") == 1
    report = json.loads(done.stdout)
    assert (report["width"], report["height"]) == (208, 160)
    assert report["aligned"] is False
    assert report["model"] is None
    assert report["confidences"] == []
    assert report["decision_map"] is None


def test_bad_frames_are_left_out_when_asked_and_named(run_command, tmp_path, frames):
    path = frames / "frame_1.png"
    path.write_bytes(path.read_bytes()[:2000])
    done = run_command("fuse", frames, "-o", tmp_path / "o.png", "--skip-bad", "--method", "average", "--json")
    assert done.returncode == 0, done.stderr
    assert "left out frame_1.png" in done.stderr
    report = json.loads(done.stdout)
    assert report["frames"] == ["frame_0.png", "frame_2.png"]
    assert list(report["left_out"]) == ["frame_1.png"]
    # Frames that need not move are not called aligned.
    assert report["aligned"] is False
    assert len(report["confidences"]) == 2


def test_a_frame_that_does_not_belong_is_named_with_both_ways_out(run_command, tmp_path, frames):
    noise = np.random.default_rng(0).random((96, 128, 3), dtype=np.float32)
    write_image(noise, frames / "frame_3.png")
    before = contents(tmp_path)
    done = run_command("fuse", frames, "-o", tmp_path / "o.png")
    assert_refused(done, "frame_3.png", "does not seem to belong", "--skip-bad", "--no-align")
    assert contents(tmp_path) == before


def test_prefer_far_takes_equal_frames_from_the_last(run_command, tmp_path, frames):
    for name in ("frame_1.png", "frame_2.png"):
        shutil.copy(frames / "frame_0.png", frames / name)
    map_path = tmp_path / "map.png"
    done = run_command("fuse", frames, "-o", tmp_path / "o.png", "--prefer", "far", "--decision-map", map_path)
    assert done.returncode == 0, done.stderr
    assert (read_image(map_path).pixels == 1).all()
    np.testing.assert_array_equal(read_image(tmp_path / "o.png").pixels, read_image(frames / "frame_0.png").pixels)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "average", "--depth-map", "map.png"), ("average", "depth map")),
        (("--method", "average", "--prefer", "near"), ("near", "ips")),
        (("--max-pixels", "100"), ("frame_0.png", "128x96", "--max-pixels")),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(run_command, tmp_path, frames, options, words):
    before = contents(tmp_path)
    assert_refused(run_command("fuse", frames, "-o", tmp_path / "o.png", *options, cwd=tmp_path), *words)
    assert contents(tmp_path) == before


def test_bits_and_quality_are_those_asked_for(run_command, tmp_path, frames):
    common = ("--method", "average", "--no-align")
    assert run_command("fuse", frames, "-o", tmp_path / "o.png", "--bit-depth", 16, *common).returncode == 0
    assert read_image(tmp_path / "o.png").bit_depth == 16
    for quality in (20, 90):
        assert (
            run_command("fuse", frames, "-o", tmp_path / f"{quality}.jpg", "--quality", quality, *common).returncode
            == 0
        )
    assert (tmp_path / "20.jpg").stat().st_size < 0.7 * (tmp_path / "90.jpg").stat().st_size


def everything(folder: Path) -> list[object]:
    """Options that ask for every kind of output."""
    names = {"--depth-map": "d.png", "--confidence-map": "c.png", "--decision-map": "m.png", "--check-map": "k.png"}
    names["--report"] = "r.html"
    return [word for option, name in names.items() for word in (option, folder / name)] + ["--slab", "2,1"]


def test_json_lists_every_file_and_the_terminal_too(run_command, tmp_path, frames):
    work = tmp_path / "work"
    work.mkdir()
    done = run_command("fuse", frames, "-o", work / "o.tif", *everything(work), "--method", "depth-map", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert sorted(report["outputs"]) == sorted(str(path) for path in work.iterdir())
    assert report["outputs"][0] == report["output"] == str(work / "o.tif")
    assert report["slabs"] == [str(work / f"o_slab0{n}_frames00{n}-00{n + 1}.tif") for n in (1, 2)]
    assert report["depth_preview"] == str(work / "d_preview.png")
    assert report["confidence_map"] == str(work / "c.png")
    assert report["check_map"] == str(work / "k.png")
    assert report["report"] == str(work / "r.html")
    done = run_command("fuse", frames, "-o", work / "o.tif", *everything(work), "--method", "depth-map", "--overwrite")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()[1:]) == sorted(set(report["outputs"]) - {str(work / "o.tif")})


def test_the_command_warns_where_detail_is_lost_and_says_where_to_look(run_command, tmp_path, frames):
    done = run_command("fuse", frames, "-o", tmp_path / "o.png", "--method", "average", "--no-align")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"detail lost in [0-9.]+ % of the picture, most at \d+, \d+: frame [123] shows more there; see --check-map\n",
        done.stderr,
    )
    check = tmp_path / "check.png"
    done = run_command(
        "fuse", frames, "-o", tmp_path / "p.png", "--method", "average", "--no-align", "--check-map", check, "--json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"shows more there; see {check}\n")
    told = json.loads(done.stdout)["lost_detail"]
    assert told["share"] > 0.3
    assert sorted(told["bands"]) == ["0", "1", "2"]
    assert {"left", "top", "width", "height", "frame", "lost"} == set(told["places"][0])
    worst = json.loads(done.stdout)["faults"][0]
    assert set(worst) == {"kind", "left", "top", "width", "height", "frame", "share", "strength"}
    assert worst["kind"] == "lost"
    assert worst["frame"] in (1, 2, 3)
    assert read_image(check).is_colour
    done = run_command("fuse", frames, "-o", tmp_path / "q.png", "--method", "laplacian-pyramid", "--no-align")
    assert done.stderr == ""


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(run_command, tmp_path, frames):
    before = contents(tmp_path)
    done = run_command("fuse", frames, "--dry-run", "--depth-map", tmp_path / "depth.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == [f"frame_{number}.png" for number in range(3)]
    assert "3 frames of 128x96, 8 bits" in done.stdout
    assert str(tmp_path / "allfocus_frames.png") in done.stdout
    assert done.stdout.splitlines()[4:] == [str(tmp_path / "depth.png"), str(tmp_path / "depth_preview.png")]
    assert contents(tmp_path) == before
    done = run_command("fuse", frames, "-o", tmp_path / "o.png", "--dry-run", "--json", "--slab", "2,1")
    assert json.loads(done.stdout) == {
        "output": str(tmp_path / "o.png"),
        "outputs": [
            str(tmp_path / name) for name in ("o.png", "o_slab01_frames001-002.png", "o_slab02_frames002-003.png")
        ],
        "frames": [f"frame_{number}.png" for number in range(3)],
        "left_out": {},
        "width": 128,
        "height": 96,
        "bit_depth": 8,
        "dimensions": None,
    }
    assert contents(tmp_path) == before


def test_a_dry_run_names_what_it_would_leave_out(run_command, tmp_path, frames):
    (frames / "frame_1.png").write_text("no picture")
    done = run_command("fuse", frames, "-o", tmp_path / "o.png", "--dry-run", "--skip-bad", "--json")
    assert done.returncode == 0, done.stderr
    assert "left out frame_1.png" in done.stderr
    report = json.loads(done.stdout)
    assert report["frames"] == ["frame_0.png", "frame_2.png"]
    assert list(report["left_out"]) == ["frame_1.png"]


def test_keeping_the_size_and_packing_with_zstd_work_from_the_command_line(run_command, tmp_path, moved_folder):
    arguments = ("--keep-size", "--compression", "zstd", "--method", "depth-map", "--json", "--linear-light")
    done = run_command("fuse", moved_folder, "-o", tmp_path / "o.tif", *arguments)
    assert_refused(done, "depth-map", "linear light")
    done = run_command("fuse", moved_folder, "-o", tmp_path / "o.tif", *arguments[:-1])
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["width"], report["height"], report["transparent"]) == (208, 160, False)
    with tifffile.TiffFile(tmp_path / "o.tif") as tiff:
        assert tiff.pages[0].compression == 50000


def test_a_dry_run_finds_what_would_stop_the_run(run_command, tmp_path, frames):
    (tmp_path / "o.png").write_text("precious")
    assert_refused(run_command("fuse", frames, "-o", tmp_path / "o.png", "--dry-run"), "o.png", "exists")
    done = run_command("fuse", frames, "-o", tmp_path / "p.png", "--dry-run", "--method", "averaje")
    assert_refused(done, "averaje", "'average'")


def test_floating_point_of_any_range_keeps_its_units_on_the_command_line(run_command, tmp_path, stack_folder):
    (tmp_path / "own").mkdir()
    originals = sorted(stack_folder.iterdir())
    for path in originals:
        tifffile.imwrite(tmp_path / "own" / f"{path.stem}.tif", read_image(path).pixels * 3000 - 5, photometric="rgb")
    done = run_command("fuse", tmp_path / "own", "-o", tmp_path / "out.tif", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert not any("scaled" in sentence for sentence in report["notices"])
    expected = run_command("fuse", stack_folder, "-o", tmp_path / "expected.tif")
    assert expected.returncode == 0, expected.stderr
    found = (read_image(tmp_path / "out.tif").pixels + 5) / 3000
    assert np.abs(found - read_image(tmp_path / "expected.tif").pixels).mean() < 0.002
    scaled = run_command("fuse", tmp_path / "own", "-o", tmp_path / "out.png")
    assert "the lowest is black, the highest white" in scaled.stderr
