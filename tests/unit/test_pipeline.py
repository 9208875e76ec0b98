"""From files to file: frames are aligned, checked, fused and written with their maps, as `fuse_files` promises."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from allfocus.alignment.transforms import warp_picture
from allfocus.errors import InputError
from allfocus.fusion.methods import fuse
from allfocus.images.reading import read_image
from allfocus.images.writing import to_integers, write_image
from allfocus.pipeline import StackFusion, decision_picture, fuse_files
from allfocus.scenes.rendering import Scene, render_scene

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

    monkeypatch.setattr("allfocus.images.reading.StackReader.read", read)


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
    for step in ("aligning", "reading", "fusing", "writing"):
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
    assert "--skip-bad" in str(caught.value)
    assert not output.exists()

    result = fuse_files(desk_files, output, skip_bad=True)
    assert list(result.left_out) == ["frame_3.png"]
    assert len(result.frames) == 5
    assert peak_signal_noise_ratio(result.image, desk.truth) > 30


@pytest.mark.parametrize(
    ("damage", "words"), [(truncate, r"only one frame.*frame_5\.png"), (spoil_pixels, r"fewer than 2.*frame_0\.png")]
)
def test_with_fewer_than_two_usable_frames_skipping_stops_too(desk_files, output, damage, words):
    for path in desk_files[:-1]:
        damage(path)
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
    assert shares["near"] + 0.05 < shares[None] < shares["far"] - 0.05
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
    result = fuse_files(desk_files, output, depth_map=tmp_path / "depth.png")
    depth = read_image(tmp_path / "depth.png")
    assert depth.bit_depth == 16
    assert depth.pixels.shape == SIZE
    np.testing.assert_allclose(depth.pixels, result.depth, atol=1 / 65535)
    # Levels between those of 8 bits are used.
    assert (to_integers(depth.pixels, 16) % 257 != 0).any()
    # Focus is spread evenly in 1/distance; near is black.
    known = textured(desk.truth)
    assert np.corrcoef(depth.pixels[known], -1 / desk.depth[known])[0, 1] > 0.8
    means = [depth.pixels[known & (desk.best_frame == number)].mean() for number in np.unique(desk.best_frame[known])]
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

    from allfocus.images.reading import StackReader

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
