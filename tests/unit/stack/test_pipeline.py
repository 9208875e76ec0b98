"""From files to file: frames are aligned, checked, fused and written with their maps, as `fuse_files` promises."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import ImageCms

from allfocus.alignment.placement import common_window, whole_pixels
from allfocus.alignment.transforms import corner_motion, warp_picture
from allfocus.errors import InputError, OutputError
from allfocus.fusion.depth import colour_depth
from allfocus.fusion.frame_source import open_spool
from allfocus.fusion.stack_fusion import fuse
from allfocus.images.exif import add_history
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.stack_opening import open_stack
from allfocus.images.writing import to_integers, write_image
from allfocus.scenes.rendering import Scene, render_scene
from allfocus.stack.command_words import command_words
from allfocus.stack.frames import PlacedFrames
from allfocus.stack.notes import RunNotes
from allfocus.stack.pipeline import fuse_files
from allfocus.stack.result import StackFusion, decision_picture

SIZE = (160, 208)


def write_frames(folder: Path, frames: list[NDArray[np.float32]], *, ending: str = "png", bits: int = 8) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [
        write_image(to_integers(frame, bits), folder / f"frame_{number}.{ending}")
        for number, frame in enumerate(frames)
    ]


def peak_signal_noise_ratio(image, truth) -> float:
    return float(-10 * np.log10(np.mean((image - truth) ** 2)))


@pytest.fixture(scope="module")
def desk() -> Scene:
    """Six registered frames."""
    return render_scene("desk", frames=6, size=SIZE)


@pytest.fixture
def desk_files(tmp_path, desk) -> list[Path]:
    return write_frames(tmp_path / "frames", desk.frames)


@pytest.fixture
def output(tmp_path) -> Path:
    return tmp_path / "fused.png"


@pytest.fixture
def no_reading(monkeypatch):
    """Fails the test when a frame is decoded."""

    def read(self, index):
        raise AssertionError(f"frame {index} was read")

    monkeypatch.setattr("allfocus.images.stack_reader.StackReader.read", read)


# Alignment


@pytest.fixture(scope="module")
def moved() -> Scene:
    """Four frames by a shaking hand, through a lens that breathes."""
    return render_scene("desk", frames=4, size=SIZE, shake=4.0, breathing=0.006)


def test_a_moved_stack_is_aligned_cropped_and_far_better_than_fused_as_it_is(tmp_path, moved, output):
    paths = write_frames(tmp_path / "frames", moved.frames)
    result = fuse_files(paths, output)
    assert result.alignment is not None
    assert not result.alignment.registered
    assert any("aligned" in sentence and "cropped" in sentence for sentence in result.notices)

    top, left, bottom, right = result.alignment.common_area()
    assert result.image.shape == (bottom - top, right - left, 3)
    assert result.decision.shape == result.depth.shape == result.image.shape[:2]
    assert SIZE[0] * 0.8 < bottom - top < SIZE[0]
    written = read_image(output)
    np.testing.assert_array_equal(to_integers(written.pixels, 8), to_integers(result.image, 8))

    # The truth lies on the grid of frame 0, the result on that of the reference frame.
    to_reference = np.linalg.inv(moved.transforms[result.alignment.reference])
    truth = warp_picture(moved.truth, to_reference)[top:bottom, left:right]
    as_they_are = fuse_files(paths, tmp_path / "as_they_are.png", align=False)
    assert as_they_are.alignment is None
    assert as_they_are.image.shape == (*SIZE, 3)
    aligned = peak_signal_noise_ratio(result.image, truth)
    assert aligned > 31
    assert aligned > peak_signal_noise_ratio(as_they_are.image[top:bottom, left:right], truth) + 8


def test_a_registered_stack_is_left_alone_and_says_so(desk, desk_files, output):
    heard: list[str] = []
    result = fuse_files(desk_files, output, notice=heard.append)
    assert result.notices == ("the frames are registered already; nothing was moved",)
    assert heard == list(result.notices)
    assert result.alignment is not None
    assert result.alignment.registered
    # Not one pixel differs from what fusing the frames in memory gives.
    np.testing.assert_array_equal(result.image, fuse(desk.frames).image)
    assert peak_signal_noise_ratio(read_image(output).pixels, desk.truth) > 38


def test_the_report_names_frames_steps_and_times(desk_files, output):
    steps: list[tuple[str, int, int]] = []
    result = fuse_files(desk_files, output, progress=lambda *step: steps.append(step))
    assert isinstance(result, StackFusion)
    assert result.frames == tuple(path.name for path in desk_files)
    assert result.left_out == {}
    assert list(result.seconds) == ["aligning", "reading", "fusing", "writing"]
    assert all(value >= 0 for value in result.seconds.values())
    assert list(dict.fromkeys(step for step, _, _ in steps)) == [
        "aligning",
        "reading",
        "fusing",
        "comparing",
        "writing",
    ]
    for step in ("aligning", "reading", "fusing", "comparing", "writing"):
        done, count = [counted[1:] for counted in steps if counted[0] == step][-1]
        assert done == count > 0
    assert steps[-1] == ("writing", 1, 1)


# Frames that cannot be used


def truncate(path: Path) -> None:
    """Damage that the structure of the file shows."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def spoil_pixels(path: Path) -> None:
    """Damage that shows only when the pixels are decoded."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [truncate, spoil_pixels])
def test_a_damaged_frame_stops_with_its_name_or_is_left_out(desk, desk_files, output, damage):
    damage(desk_files[2])
    with pytest.raises(InputError, match=r"frame_2\.png"):
        fuse_files(desk_files, output)
    assert not output.exists()

    result = fuse_files(desk_files, output, skip_bad=True)
    assert list(result.left_out) == ["frame_2.png"]
    assert any("left out frame_2.png" in sentence for sentence in result.notices)
    assert result.frames == tuple(path.name for path in desk_files if path != desk_files[2])
    expected = fuse([frame for number, frame in enumerate(desk.frames) if number != 2]).image
    np.testing.assert_array_equal(result.image, expected)


def test_a_frame_of_another_size_is_left_out_when_asked(desk_files, output):
    write_image(np.zeros((50, 60, 3), np.float32), desk_files[4], overwrite=True)
    with pytest.raises(InputError, match="60x50"):
        fuse_files(desk_files, output)
    result = fuse_files(desk_files, output, skip_bad=True)
    assert list(result.left_out) == ["frame_4.png"]
    assert len(result.frames) == 5


def foreign_frame(kind: str) -> NDArray[np.float32]:
    if kind == "noise":
        return np.random.default_rng(0).random((*SIZE, 3), dtype=np.float32)
    return render_scene("circuit", frames=1, size=SIZE).frames[0]


@pytest.mark.parametrize("kind", ["noise", "another scene"])
def test_a_frame_that_does_not_belong_stops_with_its_name_or_is_left_out(desk, desk_files, output, kind):
    write_image(foreign_frame(kind), desk_files[3], overwrite=True)
    with pytest.raises(InputError, match=r"frame_3\.png: does not seem to belong") as caught:
        fuse_files(desk_files, output)
    assert "pass skip_bad=True" in str(caught.value)
    assert "add --skip-bad" in caught.value.told(command_words)
    assert not output.exists()

    result = fuse_files(desk_files, output, skip_bad=True)
    assert list(result.left_out) == ["frame_3.png"]
    assert len(result.frames) == 5
    assert peak_signal_noise_ratio(result.image, desk.truth) > 30


def test_all_frames_that_do_not_belong_are_named_at_once(desk_files, output):
    for place in (0, 4):
        write_image(foreign_frame("noise"), desk_files[place], overwrite=True)
    with pytest.raises(InputError, match=r"frame_0\.png \(also frame_4\.png\): does not seem to belong"):
        fuse_files(desk_files, output)


def test_a_blank_frame_is_said_to_be_blank(desk_files, output):
    write_image(np.full((*SIZE, 3), 0.5, np.float32), desk_files[4], overwrite=True)
    with pytest.raises(InputError, match=r"frame_4\.png: is blank: there is nothing in it to align.*skip_bad=True"):
        fuse_files(desk_files, output)
    result = fuse_files(desk_files, output, skip_bad=True)
    assert result.left_out == {"frame_4.png": "is blank: there is nothing in it to align"}


def test_the_result_of_an_earlier_run_among_the_frames_is_noticed(desk_files, output):
    before = fuse_files(desk_files, output, method="average")
    assert not any("itself fused" in notice for notice in before.notices)
    again = fuse_files([*desk_files, output], output.with_name("again.png"), method="average")
    assert any(notice.startswith(f"{output.name}: was itself fused by allfocus") for notice in again.notices)


@pytest.mark.parametrize("damage", [truncate, spoil_pixels])
def test_when_skipping_leaves_one_frame_the_message_names_it_and_those_left_out(desk_files, output, damage):
    for path in desk_files[:-1]:
        damage(path)
    words = r"of 6 frames only frame_5\.png can be used, .*two; left out: .*frame_0\.png: .*frame_1\.png: .*and 3 more"
    with pytest.raises(InputError, match=words):
        fuse_files(desk_files, output, skip_bad=True)
    assert not output.exists()


# Which end of the stack wins


def test_prefer_decides_where_all_frames_are_equal(tmp_path, desk, output):
    paths = write_frames(tmp_path / "frames", [desk.truth] * 4)
    near = fuse_files(paths, output, prefer="near")
    far = fuse_files(paths, output, prefer="far", overwrite=True)
    assert (near.decision == 0).all()
    assert (far.decision == 3).all()
    for result in (near, far):
        np.testing.assert_array_equal(to_integers(result.image, 8), to_integers(desk.truth, 8))


def test_prefer_leans_to_its_end_where_frames_conflict_and_nowhere_else(tmp_path, desk, desk_files, output):
    generator = np.random.default_rng(2)
    textures = [cv2.GaussianBlur(generator.random((64, 96, 3), dtype=np.float32), (0, 0), 1.5) for _ in range(2)]
    paths = write_frames(tmp_path / "textures", textures)
    shares = {
        prefer: fuse_files(paths, output, align=False, prefer=prefer, overwrite=True).decision.mean()
        for prefer in ("near", None, "far")
    }
    # Without a preference it may fall to either side; with one it goes where it is told.
    assert shares["near"] < 0.05
    assert shares["far"] > 0.95
    assert shares["near"] <= shares[None] <= shares["far"]
    near, far = (fuse_files(desk_files, output, prefer=end, overwrite=True) for end in ("near", "far"))
    assert near.depth.mean() < far.depth.mean()
    assert (near.decision == far.decision).mean() > 0.95
    assert min(peak_signal_noise_ratio(result.image, desk.truth) for result in (near, far)) > 38


@pytest.mark.usefixtures("no_reading")
@pytest.mark.parametrize(("prefer", "method"), [("near", "average"), ("far", "dsift"), ("middle", "ips")])
def test_prefer_is_refused_before_reading_where_it_means_nothing(desk_files, output, prefer, method):
    with pytest.raises(InputError, match=prefer):
        fuse_files(desk_files, output, prefer=prefer, method=method)


# Maps


def textured(picture: NDArray[np.float32]) -> NDArray[np.bool_]:
    """The half of the pixels around which there is most detail."""
    energy = cv2.blur(cv2.Laplacian(picture.mean(axis=2), cv2.CV_32F) ** 2, (7, 7))
    return energy > np.median(energy)


def test_the_depth_map_has_16_bits_and_follows_the_depth_of_the_scene(tmp_path, desk, desk_files, output):
    result = fuse_files(desk_files, output, depth_map=tmp_path / "depth.png", filled=True)
    depth = read_image(tmp_path / "depth.png")
    assert depth.bit_depth == 16
    assert depth.pixels.shape == SIZE
    np.testing.assert_allclose(depth.pixels, result.smooth_depth, atol=1 / 65535)
    # Levels between those of 8 bits are used.
    assert (to_integers(depth.pixels, 16) % 257 != 0).any()
    # Focus is spread evenly in 1/distance; near is black.
    known = textured(desk.truth)
    assert np.corrcoef(depth.pixels[known], -1 / desk.depth[known])[0, 1] > 0.8
    # A corner of one percent is in focus in the first frame: there the map is filled in from what is around it.
    parts = [known & (desk.best_frame == number) for number in range(len(desk_files))]
    means = [depth.pixels[part].mean() for part in parts if part.mean() > 0.02]
    assert len(means) == len(desk_files) - 1
    assert (np.diff(means) > 0).all()


def test_the_decision_map_shows_the_number_of_the_frame_as_grey(tmp_path, desk_files, output):
    result = fuse_files(desk_files, output, decision_map=tmp_path / "decision.png")
    written = to_integers(read_image(tmp_path / "decision.png").pixels, 8)
    np.testing.assert_array_equal(written, result.decision.astype(int) * 51)
    assert len(np.unique(written)) == 6


def test_more_frames_than_8_bits_have_levels_get_a_decision_map_of_16():
    decision = np.arange(300).reshape(10, 30)
    picture = decision_picture(decision, 300)
    assert picture.bit_depth == 16
    assert len(np.unique(to_integers(picture.pixels, 16))) == 300
    assert decision_picture(decision % 256, 256).bit_depth == 8


@pytest.mark.usefixtures("no_reading")
@pytest.mark.parametrize("option", ["decision_map", "depth_map"])
@pytest.mark.parametrize("method", ["average", "laplacian-pyramid", "guided-filter"])
def test_a_method_without_decision_refuses_maps_before_reading(tmp_path, desk_files, output, method, option):
    with pytest.raises(InputError, match=method):
        fuse_files(desk_files, output, method=method, **{option: tmp_path / "map.png"})
    assert not output.exists()


@pytest.mark.usefixtures("no_reading")
@pytest.mark.parametrize("option", ["decision_map", "depth_map"])
def test_a_map_never_replaces_a_frame(desk_files, output, option):
    with pytest.raises(InputError, match=r"frame_1\.png.*frame of the stack"):
        fuse_files(desk_files, output, overwrite=True, **{option: desk_files[1]})


def test_the_preview_of_the_depth_lies_beside_it_in_colours(tmp_path, desk_files, output):
    result = fuse_files(desk_files, output, depth_map=tmp_path / "depth.tif")
    preview = read_image(tmp_path / "depth_preview.tif")
    assert (preview.bit_depth, preview.is_colour, preview.pixels.shape[:2]) == (8, True, SIZE)
    np.testing.assert_array_equal(to_integers(preview.pixels, 8), to_integers(colour_depth(result.smooth_depth), 8))
    assert result.outputs["depth_preview"] == tmp_path / "depth_preview.tif"


def test_depth_is_smoothed_only_for_those_who_want_it_and_the_raw_one_stays(tmp_path, desk, desk_files, output):
    plain = fuse_files(desk_files, output)
    assert plain.smooth_depth is None
    mapped = fuse_files(desk_files, output, depth_map=tmp_path / "depth.png", overwrite=True)
    np.testing.assert_array_equal(mapped.depth, plain.depth)
    np.testing.assert_array_equal(mapped.image, plain.image)
    assert np.abs(mapped.smooth_depth - plain.depth).max() > 0.02


@pytest.mark.parametrize("method", ["ips", "depth-map"])
def test_the_confidence_map_is_white_where_there_is_texture_and_black_where_there_is_none(tmp_path, method):
    scene = render_scene("desk", frames=3, size=SIZE)
    frames = [frame.copy() for frame in scene.frames]
    for frame in frames:
        frame[40:100, 60:140] = 0.5
    paths = write_frames(tmp_path / "frames", frames)
    result = fuse_files(paths, tmp_path / "o.png", method=method, confidence_map=tmp_path / "c.png", align=False)
    written = read_image(tmp_path / "c.png").pixels
    np.testing.assert_allclose(written, result.confidence, atol=0.5001 / 255)
    assert written[52:88, 72:128].max() < 0.05
    outside = textured(scene.truth)
    outside[30:110, 50:150] = False
    assert np.median(written[outside]) > 0.5


# Lost detail


def test_every_result_says_which_detail_it_lost(desk_files, output):
    kept = fuse_files(desk_files, output, method="laplacian-pyramid")
    assert kept.lost_detail.share < 0.1
    assert kept.worst_place is None
    assert not any("detail lost" in sentence for sentence in kept.notices)
    mixed = fuse_files(desk_files, output, method="average", overwrite=True)
    assert mixed.lost_detail.share > 2
    assert mixed.lost_detail.warning in mixed.notices
    assert mixed.lost_detail.map.shape == (SIZE[0] // 2, SIZE[1] // 2)


def test_the_worst_place_is_shown_beside_the_frame_that_has_more(desk_files, desk, output):
    result = fuse_files(desk_files, output, method="average", align=False)
    place = result.lost_detail.places[0]
    rows, columns = place.window(SIZE, side=192)
    left, right = np.split(result.worst_place, 2, axis=1)
    np.testing.assert_array_equal(left, result.image[rows, columns])
    np.testing.assert_allclose(right, desk.frames[place.frame][rows, columns], atol=0.5001 / 255)


def test_the_check_map_is_warm_where_detail_is_lost_and_grey_elsewhere(tmp_path, desk_files, output):
    result = fuse_files(desk_files, output, method="average", check_map=tmp_path / "check.png")
    written = read_image(tmp_path / "check.png").pixels
    assert written.shape == (*SIZE, 3)
    lost = np.repeat(np.repeat(result.lost_detail.map, 2, axis=0), 2, axis=1)
    inside = cv2.erode((lost > 0).astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    outside = cv2.dilate((lost > 0).astype(np.uint8), np.ones((5, 5), np.uint8)) == 0
    warmth = written[..., 0] - written[..., 2]
    assert warmth[inside].min() > 0.2
    assert np.abs(warmth[outside]).max() < 0.02
    assert result.outputs["check_map"] == tmp_path / "check.png"


def test_the_border_that_some_frames_lack_is_not_taken_for_lost(tmp_path, moved, output):
    paths = write_frames(tmp_path / "frames", moved.frames)
    kept = fuse_files(paths, output, method="laplacian-pyramid", crop=False)
    assert kept.lost_detail.share < 0.2


# Slabs


def test_slabs_are_the_fused_parts_of_the_stack_on_the_grid_of_the_whole(tmp_path, moved):
    paths = write_frames(tmp_path / "frames", moved.frames, ending="tif", bits=16)
    result = fuse_files(paths, tmp_path / "o.tif", slabs=(3, 2), method="depth-map")
    assert [path.name for path in result.slabs] == ["o_slab01_frames001-003.tif", "o_slab02_frames002-004.tif"]
    aligned = [pixels for pixels, _ in aligned_frames(paths, result.alignment)]
    whole = read_image(tmp_path / "o.tif")
    for number, path in enumerate(result.slabs):
        slab = read_image(path)
        assert slab.pixels.shape == whole.pixels.shape
        assert slab.bit_depth == 16
        expected = fuse(aligned[number : number + 3], method="depth-map").image
        assert np.abs(slab.pixels - expected).max() < 2 / 65535
    np.testing.assert_allclose(whole.pixels, result.image, atol=0.5001 / 65535)
    assert list(result.seconds) == ["aligning", "reading", "slabs", "fusing", "writing"]


def aligned_frames(paths, alignment):
    reader = open_stack(paths)
    return PlacedFrames(reader, range(reader.count), alignment, RunNotes(), area=common_window(alignment))


@pytest.mark.parametrize("bit_depth", [8, 16])
def test_frames_that_stay_where_they_are_go_to_disk_as_their_files_have_them(tmp_path, small_stack, bit_depth):
    paths = [write_image(frame, tmp_path / f"{n}.tif", bit_depth=bit_depth) for n, frame in enumerate(small_stack)]
    reader = open_stack(paths)
    frames = PlacedFrames(reader, range(reader.count), None, RunNotes(), area=None)
    with open_spool(bit_depth) as spool:
        frames.fill(spool)
        last = reader.count - 1
        assert reader.read(last).levels is not None  # no pixels were made of them
        stored = spool[last][:, :]
        np.testing.assert_array_equal(stored, reader.read(last).pixels)
    # Frames that are held in another type still go through their pixels.
    with open_spool(24 - bit_depth) as spool:
        frames.fill(spool)
        np.testing.assert_allclose(spool[last][:, :], stored, atol=0.5001 / 255)
    assert frames.opacity is None


def test_slabs_carry_profile_exif_and_history_as_the_whole_does(tmp_path, profile, small_stack):
    exif = add_history(None, software="a camera", history="taken", width=128, height=96)
    for number, frame in enumerate(small_stack):
        write_image(Image(frame, icc_profile=profile, exif=exif), tmp_path / f"{number}.png")
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    result = fuse_files(paths, tmp_path / "o.jpg", slabs=(2, 0), method="average", quality=90)
    for path, count in zip([tmp_path / "o.jpg", *result.slabs], (3, 2, 2), strict=True):
        image = read_image(path)
        assert image.icc_profile == profile
        assert f"from {count} frames with average".encode() in image.exif


def test_slabs_are_cut_anew_when_frames_are_left_out(tmp_path, desk_files, output):
    truncate(desk_files[0])
    options = {"skip_bad": True, "slabs": (3, 1), "method": "average"}
    result = fuse_files(desk_files, output, **options)
    assert [path.name for path in result.slabs] == ["fused_slab01_frames001-003.png", "fused_slab02_frames003-005.png"]
    # Now five are left of which one more shows damage only when it is decoded: too few for slabs of five.
    spoil_pixels(desk_files[1])
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(InputError, match="holds all 4 frames"):
        fuse_files(desk_files, tmp_path / "other.png", **{**options, "slabs": (4, 1)})
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_run_that_fails_leaves_none_of_its_files_and_all_of_the_others(tmp_path, monkeypatch, desk_files):
    from allfocus.images import picture_files

    for name in ("depth.png", "fused_slab01_frames001-003.png"):
        (tmp_path / name).write_text(f"the older {name}")
    encoded = picture_files.encode_image

    def fail_at_the_picture(image, path, **options):
        if Path(path).name == "fused.png":
            raise OutputError(f"{path}: No space left")
        return encoded(image, path, **options)

    monkeypatch.setattr(picture_files, "encode_image", fail_at_the_picture)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(OutputError, match="No space left"):
        fuse_files(
            desk_files,
            tmp_path / "fused.png",
            slabs=(3, 0),
            depth_map=tmp_path / "depth.png",
            decision_map=tmp_path / "decision.png",
            overwrite=True,
            method="depth-map",
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    for name in ("depth.png", "fused_slab01_frames001-003.png"):
        assert (tmp_path / name).read_text() == f"the older {name}"


def test_a_run_that_is_stopped_while_files_get_their_names_brings_the_old_ones_back(tmp_path, monkeypatch, desk_files):
    import allfocus.files.placing as placing

    kept = {name: tmp_path / name for name in ("fused.png", "decision.png", "depth.png", "depth_preview.png")}
    for name in ("fused.png", "depth.png"):
        kept[name].write_text(f"the older {name}")
    linked = placing._link
    before = sorted(path.name for path in tmp_path.iterdir())
    given: list[Path] = []

    def stop_at_the_last(source, path):
        given.append(path)
        if len(given) == len(kept):
            raise KeyboardInterrupt
        linked(source, path)

    descriptor = placing.open_nameless(tmp_path)
    if descriptor is None:
        pytest.skip("this system has no files without a name")
    os.close(descriptor)
    monkeypatch.setattr(placing, "_link", stop_at_the_last)
    with pytest.raises(KeyboardInterrupt):
        fuse_files(
            desk_files,
            kept["fused.png"],
            depth_map=kept["depth.png"],
            decision_map=kept["decision.png"],
            overwrite=True,
            method="depth-map",
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    for name in ("fused.png", "depth.png"):
        assert kept[name].read_text() == f"the older {name}"


def test_a_format_with_fewer_bits_than_the_frames_is_told(tmp_path, small_stack):
    paths = [
        write_image(Image(frame, bit_depth=16), tmp_path / f"{number}.tif") for number, frame in enumerate(small_stack)
    ]
    told = "the frames have 16 bits per channel, JPEG has 8; .tif keeps them all"
    options = {"method": "average", "align": False}
    assert told in fuse_files(paths, tmp_path / "a.jpg", **options).notices
    assert told not in fuse_files(paths, tmp_path / "a.png", **options).notices
    assert told not in fuse_files(paths, tmp_path / "b.jpg", bit_depth=8, **options).notices


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (12, 12), (1, 40)])
def test_the_smallest_pictures_are_fused_as_they_lie(tmp_path, small_stack, size):
    paths = [
        write_image(np.ascontiguousarray(frame[: size[0], : size[1]]), tmp_path / f"{number}.png")
        for number, frame in enumerate(small_stack)
    ]
    result = fuse_files(paths, tmp_path / "fused.png", report=tmp_path / "r.html", depth_map=tmp_path / "d.png")
    assert result.image.shape[:2] == size
    assert any("too small to be aligned" in notice for notice in result.notices)
    assert not any("registered already" in notice for notice in result.notices)
    assert "Not measured: frames of" in (tmp_path / "r.html").read_text()


def test_equal_blank_frames_come_back(tmp_path):
    paths = [write_image(np.full((80, 90, 3), 0.2, np.float32), tmp_path / f"{number}.png") for number in range(2)]
    result = fuse_files(paths, tmp_path / "fused.png")
    np.testing.assert_array_equal(read_image(tmp_path / "fused.png").pixels, read_image(paths[0]).pixels)
    assert any("all frames are blank" in notice for notice in result.notices)


@pytest.mark.skipif(os.name != "posix", reason="names of files are bytes on POSIX systems only")
def test_names_that_are_no_text_are_reported(tmp_path, small_stack):
    folder = os.path.join(os.fsencode(tmp_path), b"b\xfe")
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system takes only names that are text")
    for number, frame in enumerate(small_stack):
        picture = write_image(frame, tmp_path / f"{number}.png")
        os.rename(picture, os.path.join(folder, b"f\xff%d.png" % number))
    fuse_files(os.fsdecode(folder), tmp_path / "fused.png", report=tmp_path / "r.html", method="average")
    assert "f?0.png" in (tmp_path / "r.html").read_text()


# Linear light


@pytest.fixture
def profile() -> bytes:
    return ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@pytest.fixture
def profiled(tmp_path, desk, profile) -> list[Path]:
    """The registered frames, with a profile."""
    return [
        write_image(Image(frame, bit_depth=16, icc_profile=profile), tmp_path / f"{number}.tif")
        for number, frame in enumerate(desk.frames)
    ]


def test_known_profiles_make_mixed_pixels_lighter_as_light_adds_up_and_change_no_other(tmp_path, profiled):
    light = fuse_files(profiled, tmp_path / "light.png")
    plain = fuse_files(profiled, tmp_path / "plain.png", linear_light=False)
    assert light.settings["linear_light"] is True
    assert plain.settings["linear_light"] is False
    difference = light.image - plain.image
    # The mean of lights is never darker than the mean of stored values, because the curve is convex.
    assert difference.min() > -1e-4
    assert difference.max() > 1e-3
    assert (np.abs(difference) < 1e-5).mean() > 0.7


@pytest.mark.parametrize("told", ["by nothing", "by a linear profile"])
def test_values_are_mixed_as_they_are_where_no_curve_is_known(tmp_path, desk, told):
    linear = None
    if told == "by a linear profile":
        linear = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        start = linear.index(b"para\x00")
        linear = linear.replace(linear[start : start + 12], b"curv" + bytes(8))
    paths = [
        write_image(Image(frame, icc_profile=linear), tmp_path / f"{number}.png")
        for number, frame in enumerate(desk.frames[:3])
    ]
    result = fuse_files(paths, tmp_path / "o.png")
    assert result.settings["linear_light"] is False
    np.testing.assert_array_equal(result.image, fuse(desk.frames[:3]).image)


def test_equal_frames_of_16_bits_with_a_profile_come_back_bit_for_bit(tmp_path, profile):
    levels = np.random.default_rng(6).integers(0, 65536, (60, 72, 3), dtype=np.uint16)
    image = Image(levels.astype(np.float32) / np.float32(65535), bit_depth=16, icc_profile=profile)
    paths = [write_image(image, tmp_path / f"{number}.tif") for number in range(3)]
    result = fuse_files(paths, tmp_path / "fused.tif", linear_light=True)
    assert result.settings["linear_light"] is True
    np.testing.assert_array_equal(to_integers(read_image(tmp_path / "fused.tif").pixels, 16), levels)


def test_another_profile_among_the_frames_is_mentioned(tmp_path, profile, small_stack):
    profiles = [profile, profile, None]
    paths = [
        write_image(Image(frame, icc_profile=own), tmp_path / f"{number}.png")
        for number, (frame, own) in enumerate(zip(small_stack, profiles, strict=True))
    ]
    result = fuse_files(paths, tmp_path / "o.png", method="average")
    assert "2.png: has another colour profile than 0.png, which the result gets" in result.notices


# Frames that do not cover everything


def test_with_the_size_kept_the_middle_is_the_same_and_borders_come_from_the_frames_that_reach_there(tmp_path, moved):
    paths = write_frames(tmp_path / "frames", moved.frames)
    cropped = fuse_files(paths, tmp_path / "cropped.png", method="depth-map")
    kept = fuse_files(paths, tmp_path / "kept.png", method="depth-map", crop=False, confidence_map=tmp_path / "c.png")
    assert kept.image.shape == (*SIZE, 3)
    assert kept.covered is None
    assert any("size is kept" in sentence for sentence in kept.notices)
    top, left, bottom, right = kept.alignment.common_area()
    inner = (slice(top + 16, bottom - 16), slice(left + 16, right - 16))
    same = (kept.image[inner] == cropped.image[16:-16, 16:-16]).all(axis=2)
    assert same.mean() > 0.95
    # Every pixel is one of a frame that has it: nothing comes from a repeated border.
    masks = [kept.alignment.apply(index, frame)[1] for index, frame in enumerate(moved.frames)]
    chosen = np.choose(kept.decision, masks)
    assert chosen.all()
    assert not np.all(masks)
    # Borders are less sure, because the sharpest frame may be missing there.
    missing = ~np.all(masks, axis=0)
    assert kept.confidence[missing].mean() < 0.8 * kept.confidence[~missing].mean()


def test_the_default_method_keeps_the_size_too_and_takes_borders_from_frames_that_have_them(tmp_path, moved):
    paths = write_frames(tmp_path / "frames", moved.frames)
    kept = fuse_files(paths, tmp_path / "kept.png", crop=False)
    masks = [kept.alignment.apply(index, frame)[1] for index, frame in enumerate(moved.frames)]
    assert np.choose(kept.decision, masks).all()
    to_reference = np.linalg.inv(moved.transforms[kept.alignment.reference])
    truth = warp_picture(moved.truth, to_reference)
    assert peak_signal_noise_ratio(kept.image, truth) > 26


def write_with_alpha(folder: Path, frames, alphas, *, profile=None) -> list[Path]:
    return [
        write_image(Image(frame, alpha=alpha), folder / f"{number}.png")
        for number, (frame, alpha) in enumerate(zip(frames, alphas, strict=True))
    ]


@pytest.mark.parametrize("method", ["ips", "depth-map", "average"])
def test_alpha_is_a_mask_and_the_result_is_transparent_only_where_no_frame_shows_anything(tmp_path, desk, method):
    alphas = [np.ones(SIZE, np.float32) for _ in range(3)]
    frames = [frame.copy() for frame in desk.frames[:3]]
    generator = np.random.default_rng(8)
    for number, (frame, alpha) in enumerate(zip(frames, alphas, strict=True)):
        alpha[:40, : 30 * (number + 1)] = 0
        hidden = alpha == 0
        frame[hidden] = generator.random((hidden.sum(), 3), dtype=np.float32)
    alphas[0][100:120, 100:120] = 0.4
    alphas[1][100:120, 120:140] = 0.6
    result = fuse_files(write_with_alpha(tmp_path, frames, alphas), tmp_path / "o.png", method=method, align=False)
    written = read_image(tmp_path / "o.png")
    expected = np.ones(SIZE, bool)
    expected[:40, :30] = False
    np.testing.assert_array_equal(written.alpha, expected.astype(np.float32))
    np.testing.assert_array_equal(result.covered, expected)
    # Where the last frame alone is hidden, the noise below it does not show.
    low = np.minimum(desk.frames[0], desk.frames[1])[:40, 60:90] - 0.1
    high = np.maximum(desk.frames[0], desk.frames[1])[:40, 60:90] + 0.1
    part = result.image[:40, 60:90]
    assert ((part >= low) & (part <= high)).mean() > 0.97
    if result.decision is not None:
        assert not (result.decision[100:120, 100:120] == 0).any()
        assert not (result.decision[:40, 31:60] == 1).any()


def test_whole_frames_make_no_alpha_and_neither_does_a_gap_that_others_fill(tmp_path, desk):
    alphas = [np.ones(SIZE, np.float32), np.ones(SIZE, np.float32)]
    alphas[0][:10] = 0
    fuse_files(write_with_alpha(tmp_path, desk.frames[:2], alphas), tmp_path / "o.png", method="average", align=False)
    assert read_image(tmp_path / "o.png").alpha is None


def test_a_mask_moves_with_its_frame_and_does_not_mislead_the_alignment(tmp_path, moved):
    """A black rim below a mask, the same in each frame, would pass for a thing that did not move."""
    alphas = [np.zeros(SIZE, np.float32) for _ in moved.frames]
    frames = [frame.copy() for frame in moved.frames]
    for frame, alpha in zip(frames, alphas, strict=True):
        alpha[24:-24, 24:-24] = 1
        frame[alpha == 0] = 0
    plain = fuse_files(write_frames(tmp_path / "plain", moved.frames), tmp_path / "plain.png", method="average")
    paths = write_with_alpha(tmp_path, frames, alphas)
    result = fuse_files(paths, tmp_path / "o.png", method="depth-map", crop=False)
    assert not result.alignment.registered
    for found, expected in zip(result.alignment.transforms, plain.alignment.transforms, strict=True):
        assert corner_motion(found @ np.linalg.inv(expected), SIZE) < 2.5
    warped = [
        warp_picture(alpha, transform) >= 0.5
        for alpha, transform in zip(alphas, result.alignment.transforms, strict=True)
    ]
    np.testing.assert_array_equal(read_image(tmp_path / "o.png").alpha == 1, np.any(warped, axis=0))
    # The black of the hidden rim does not bleed into what is shown.
    shown = np.all(warped, axis=0)
    rim = shown & (cv2.erode(shown.astype(np.uint8), np.ones((3, 3), np.uint8)) == 0)
    truth = warp_picture(moved.truth, np.linalg.inv(moved.transforms[result.alignment.reference]))
    assert np.abs(result.image - truth)[rim].mean() < 0.02


def test_pixels_below_a_mask_are_filled_in_from_around_and_the_others_left_alone():
    pixels = np.full((20, 30, 3), 0.6, np.float32)
    alpha = np.ones((20, 30), np.float32)
    alpha[:, 20:] = 0
    pixels[:, 20:] = 0
    whole = whole_pixels(Image(pixels, alpha=alpha))
    np.testing.assert_array_equal(whole[:, :20], pixels[:, :20])
    np.testing.assert_allclose(whole, 0.6, atol=1e-3)
    for other in (Image(pixels), Image(pixels, alpha=np.zeros_like(alpha))):
        assert whole_pixels(other) is pixels


def test_jpeg_which_has_no_transparency_says_so(tmp_path, desk):
    alphas = [np.ones(SIZE, np.float32), np.ones(SIZE, np.float32)]
    for alpha in alphas:
        alpha[:10] = 0
    paths = write_with_alpha(tmp_path, desk.frames[:2], alphas)
    result = fuse_files(paths, tmp_path / "o.jpg", method="average", align=False)
    assert any("JPEG has no transparency" in sentence for sentence in result.notices)


def test_metadata_come_from_the_first_frame_that_is_used(tmp_path, desk_files, profile, desk, output):
    truncate_later = desk_files[0]
    spoil_pixels(truncate_later)
    write_image(Image(desk.frames[1], icc_profile=profile), desk_files[1], overwrite=True)
    fuse_files(desk_files, output, skip_bad=True, method="average")
    assert read_image(output).icc_profile == profile


# The report


def test_the_report_is_one_page_about_this_run(tmp_path, desk_files, output):
    result = fuse_files(desk_files, output, report=tmp_path / "report.html", slabs=(3, 0), method="depth-map")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    for words in (*result.frames, "allfocus fuse", "--slab 3,0", "--method depth-map", "registered already"):
        assert words in page, words
    assert result.outputs == {"picture": output, "report": tmp_path / "report.html"}
    assert result.smooth_depth is not None
    assert list(result.seconds)[-1] == "reporting"


# Bits and formats


def test_16_bits_stay_16_bits(tmp_path):
    scene = render_scene("desk", frames=3, size=(96, 128), bit_depth=16)
    paths = write_frames(tmp_path / "frames", scene.frames, ending="tif", bits=16)
    result = fuse_files(paths, tmp_path / "fused.tif")
    written = read_image(tmp_path / "fused.tif")
    assert written.bit_depth == 16
    np.testing.assert_array_equal(to_integers(written.pixels, 16), to_integers(fuse(scene.frames).image, 16))
    assert (to_integers(result.image, 16) % 257 != 0).any()


def test_equal_frames_of_16_bits_come_back_bit_for_bit(tmp_path):
    levels = np.random.default_rng(6).integers(0, 65536, (60, 72, 3), dtype=np.uint16)
    paths = [write_image(levels, tmp_path / f"{number}.tif") for number in range(3)]
    fuse_files(paths, tmp_path / "fused.tif")
    np.testing.assert_array_equal(to_integers(read_image(tmp_path / "fused.tif").pixels, 16), levels)


@pytest.mark.parametrize(("found", "asked"), [(8, 16), (16, 8)])
def test_the_bit_depth_of_the_output_can_be_chosen(tmp_path, small_stack, found, asked):
    paths = write_frames(tmp_path / "frames", small_stack, ending="tif", bits=found)
    result = fuse_files(paths, tmp_path / "fused.tif", bit_depth=asked, method="average")
    written = read_image(tmp_path / "fused.tif")
    assert written.bit_depth == asked
    np.testing.assert_allclose(written.pixels, result.image, atol=0.5001 / (2**asked - 1))


def test_moved_frames_of_8_bits_use_levels_between_when_16_are_asked_for(tmp_path, moved):
    paths = write_frames(tmp_path / "frames", moved.frames)
    fuse_files(paths, tmp_path / "fused.tif", bit_depth=16)
    assert (to_integers(read_image(tmp_path / "fused.tif").pixels, 16) % 257 != 0).mean() > 0.1


@pytest.mark.parametrize(("name", "code"), [("none", 1), ("lzw", 5), ("deflate", 8), ("zstd", 50000)])
def test_the_compression_of_tiff_is_the_one_asked_for_and_loses_nothing(tmp_path, small_stack, name, code):
    paths = write_frames(tmp_path / "frames", small_stack, ending="tif", bits=16)
    result = fuse_files(paths, tmp_path / "o.tif", compression=name, method="average", slabs=(2, 0))
    for path in (tmp_path / "o.tif", *result.slabs):
        with tifffile.TiffFile(path) as tiff:
            assert tiff.pages[0].compression in (code, 32946 if code == 8 else code)
    assert read_image(tmp_path / "o.tif").bit_depth == 16
    np.testing.assert_allclose(read_image(tmp_path / "o.tif").pixels, result.image, atol=0.5001 / 65535)


def test_a_higher_level_makes_a_smaller_png(tmp_path, stack_folder):
    sizes = []
    for level in (0, 9):
        fuse_files(stack_folder, tmp_path / f"{level}.png", compression=level, method="average")
        sizes.append((tmp_path / f"{level}.png").stat().st_size)
    assert sizes[1] < 0.9 * sizes[0]


def test_less_quality_makes_a_smaller_file(tmp_path, stack_folder):
    sizes = []
    for quality in (30, 95):
        fuse_files(stack_folder, tmp_path / f"{quality}.jpg", quality=quality, method="average")
        sizes.append((tmp_path / f"{quality}.jpg").stat().st_size)
    assert sizes[0] < 0.7 * sizes[1]


@pytest.mark.usefixtures("no_reading")
def test_too_many_pixels_are_refused_before_reading(desk_files, output):
    with pytest.raises(InputError, match=r"frame_0\.png"):
        fuse_files(desk_files, output, max_pixels=SIZE[0] * SIZE[1] - 1)


def test_frames_are_held_on_disk_one_at_a_time(monkeypatch, desk_files, output):
    """Whatever the length of the stack, at most two decoded frames exist at once while it is read."""
    import weakref

    from allfocus.images.stack_reader import StackReader

    alive: list[weakref.ref] = []
    most = 0
    read = StackReader.read

    def watched(self, index):
        nonlocal most
        image = read(self, index)
        alive.append(weakref.ref(image.pixels))
        most = max(most, sum(reference() is not None for reference in alive))
        return image

    monkeypatch.setattr(StackReader, "read", watched)
    fuse_files(desk_files, output, align=False)
    assert len(alive) == len(desk_files)
    assert most <= 2


@pytest.mark.parametrize(("room", "times"), [(2**29, 1), (0, 3)])
def test_frames_are_decoded_once_where_memory_allows(monkeypatch, desk_files, output, room, times):
    """Checking, alignment and fusion each want every frame."""
    from allfocus.images import reading
    from allfocus.stack import pipeline

    decoded: list[str] = []
    decode = reading.decode_picture

    def watched(file, path, **options):
        decoded.append(path.name)
        return decode(file, path, **options)

    monkeypatch.setattr(reading, "decode_picture", watched)
    monkeypatch.setattr(pipeline, "MOST_KEPT", room)
    fuse_files(desk_files, output, skip_bad=True, method="average")
    counts = {path.name: decoded.count(path.name) for path in desk_files}
    # The last frame of one step may be the first of the next, which costs nothing.
    assert set(counts.values()) <= {times, max(1, times - 1)}
    assert max(counts.values()) == times


def test_frames_are_called_as_they_are_given_and_no_folder_is_shown(tmp_path, desk_files, output):
    damaged = tmp_path / "0123abcd"
    damaged.write_bytes(desk_files[0].read_bytes()[:-200])
    files = [*desk_files, damaged]
    names = [f"shot {number}.png" for number in range(len(files))]
    with pytest.raises(InputError) as caught:
        fuse_files(files, output, names=names, method="average")
    assert caught.value.where == names[-1]
    assert str(tmp_path) not in str(caught.value)
    page = tmp_path / "page.html"
    result = fuse_files(files, output, names=names, method="average", skip_bad=True, report=page)
    assert result.frames == tuple(names[:-1])
    assert result.sources == tuple(desk_files)
    assert list(result.left_out) == [names[-1]]
    told = page.read_text() + " ".join(result.notices) + " ".join(result.left_out.values())
    assert names[0] in told
    assert str(tmp_path) not in told
    assert damaged.name not in told


def test_notices_are_told_when_they_happen_and_not_lost_with_a_failure(tmp_path, desk_files, output, monkeypatch):
    from allfocus.stack import pipeline

    def fail(*_, **__):
        raise InputError("it failed")

    told: list[str] = []
    monkeypatch.setattr(pipeline, "fuse", fail)
    with pytest.raises(InputError, match="it failed"):
        fuse_files(desk_files, output, notice=told.append)
    assert told == ["the frames are registered already; nothing was moved"]


# Any range of values


def write_own_units(folder: Path, frames: list[NDArray[np.float32]]) -> list[Path]:
    """The frames in a unit of their own, -5 black and 3000 white, as floating-point TIFF."""
    folder.mkdir()
    paths = [folder / f"frame_{number}.tif" for number in range(len(frames))]
    for path, frame in zip(paths, frames, strict=True):
        tifffile.imwrite(path, (frame * 3005 - 5).astype(np.float32), photometric="rgb")
    return paths


@pytest.mark.parametrize("method", ["ips", "laplacian-pyramid", "depth-map"])
def test_floating_point_frames_of_any_range_are_fused_in_their_own_units(tmp_path, desk, method):
    paths = write_own_units(tmp_path / "own", desk.frames)
    result = fuse_files(paths, tmp_path / "fused.tif", method=method)
    written = read_image(tmp_path / "fused.tif")
    assert written.bit_depth == 32
    np.testing.assert_array_equal(written.pixels, result.image)
    assert peak_signal_noise_ratio((result.image + 5) / 3005, desk.truth) > 24
    expected = fuse([read_image(path).pixels for path in paths], method=method).image
    # The frames are registered, so files and arrays give the same.
    assert np.mean(np.abs(result.image - expected) > 0.3) < 0.001


def test_moved_frames_report_maps_and_slabs_of_any_range_work(tmp_path, moved):
    paths = write_own_units(tmp_path / "own", moved.frames)
    result = fuse_files(
        paths,
        tmp_path / "fused.tif",
        depth_map=tmp_path / "depth.png",
        report=tmp_path / "report.html",
        slabs=(2, 1),
    )
    assert result.alignment is not None
    assert not result.alignment.registered
    for path in (tmp_path / "fused.tif", *result.slabs):
        pixels = read_image(path).pixels
        assert pixels.max() > 2000
        assert pixels.min() < 500


def test_an_integer_format_gets_them_scaled_and_says_so(tmp_path, desk):
    paths = write_own_units(tmp_path / "own", desk.frames)
    result = fuse_files(paths, tmp_path / "fused.png", method="average")
    [notice] = [sentence for sentence in result.notices if "run from" in sentence]
    assert "the lowest is black, the highest white" in notice
    found = [(frame * 3005 - 5).astype(np.float32) for frame in desk.frames]
    low, high = min(frame.min() for frame in found), max(frame.max() for frame in found)
    assert f"from {low:g} to {high:g}" in notice
    scaled = read_image(tmp_path / "fused.png")
    assert scaled.bit_depth == 16
    np.testing.assert_allclose(scaled.pixels, (result.image - low) / (high - low), atol=1e-4)
    assert result.image.max() > 2000


def test_a_profile_says_nothing_about_values_beyond_0_to_1(tmp_path, desk):
    frames = [frame * np.float32(100) for frame in desk.frames[:2]]
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    paths = [
        write_image(Image(frame, bit_depth=32, icc_profile=profile), tmp_path / f"{number}.tif")
        for number, frame in enumerate(frames)
    ]
    result = fuse_files(paths, tmp_path / "fused.tif")
    assert result.settings["linear_light"] is False
    assert read_image(tmp_path / "fused.tif").icc_profile == profile
    with pytest.raises(InputError, match=r"beyond 0\.\.1, which no colour profile describes"):
        fuse_files(paths, tmp_path / "light.tif", linear_light=True)
