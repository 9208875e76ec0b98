"""Dark frames, hot pixels, and frames that add nothing."""

import numpy as np
import pytest

import allfocus
from allfocus.errors import InputError
from allfocus.images.colour_profile import srgb_profile
from allfocus.images.hot_pixels import HotPixelFinder, fill_hot_pixels
from allfocus.images.image import Image
from allfocus.images.transfer import SRGB
from allfocus.images.writing import write_image
from allfocus.stack.corrections import NOTHING_TO_ADD

SIZE = (360, 480)
HOT = ((20, 30), (50, 51), (0, 0), (359, 479))


@pytest.fixture(scope="module")
def scene():
    return allfocus.render_scene("insect", frames=3, size=SIZE, noise=0.003)


def save(folder, frames, *, profile=None):
    folder.mkdir(exist_ok=True)
    return [
        write_image(Image(np.asarray(frame, np.float32), bit_depth=16, icc_profile=profile), folder / f"{number}.png")
        for number, frame in enumerate(frames)
    ]


def with_hot_pixels(frame, value=0.95):
    shining = frame.copy()
    for place in HOT:
        shining[place] = (value, 0.2, value)
    return shining


def fuse(paths, folder, **options):
    return allfocus.fuse_files(paths, folder / "out.png", align=False, method="laplacian-pyramid", **options)


def test_hot_pixels_are_filled_and_nothing_else_is_touched(tmp_path, scene):
    clean = fuse(save(tmp_path / "clean", scene.frames), tmp_path)
    paths = save(tmp_path / "hot", [with_hot_pixels(frame) for frame in scene.frames])
    spoilt = fuse(paths, tmp_path, overwrite=True)
    mended = fuse(paths, tmp_path, overwrite=True, hot_pixels=True)
    assert "4 hot pixels are filled from around" in mended.notices
    for row, column in HOT:
        assert np.abs(spoilt.image[row, column] - clean.image[row, column]).max() > 0.3
        assert np.abs(mended.image[row, column] - clean.image[row, column]).max() < 0.25
    assert np.abs(mended.image - clean.image).mean() < 1e-3


def test_detail_of_the_scene_is_not_taken_for_hot_pixels(tmp_path, scene):
    assert "no hot pixels" in fuse(save(tmp_path / "clean", scene.frames), tmp_path, hot_pixels=True).notices


def test_what_shines_in_some_frames_only_is_no_hot_pixel():
    finder = HotPixelFinder()
    for number in range(3):
        plane = np.full((32, 32), 0.2, np.float32)
        plane[10, 10] = 0.9
        plane[20, 20] = 0.9 if number else 0.2
        finder.add(plane)
    assert np.argwhere(finder.find()).tolist() == [[10, 10]]


def test_filling_reaches_over_borders():
    plane = np.full((8, 8), 0.25, np.float32)
    hot = np.zeros((8, 8), bool)
    for place in ((0, 0), (7, 7), (0, 4), (3, 0)):
        plane[place], hot[place] = 1.0, True
    assert (fill_hot_pixels(plane, hot) == 0.25).all()


@pytest.mark.parametrize("profile", [None, srgb_profile()], ids=["as stored", "in linear light"])
def test_a_dark_frame_is_subtracted_in_the_light_of_the_frames(tmp_path, scene, profile):
    glow = np.linspace(0, 0.1, SIZE[1], dtype=np.float32)[None, :, None] * np.ones((*SIZE, 3), np.float32)
    if profile:
        glow = SRGB.to_linear(np.sqrt(glow))
        spoilt = [SRGB.from_linear(np.minimum(SRGB.to_linear(frame) + glow, 1)) for frame in scene.frames]
        dark = SRGB.from_linear(glow)
    else:
        spoilt, dark = [np.minimum(frame + glow, 1) for frame in scene.frames], glow
    write_image(Image(np.float32(dark), bit_depth=16, icc_profile=profile), tmp_path / "dark.png")
    expected = fuse(save(tmp_path / "clean", scene.frames, profile=profile), tmp_path)
    paths = save(tmp_path / "glow", spoilt, profile=profile)
    found = fuse(paths, tmp_path, overwrite=True, dark=str(tmp_path / "dark.png"))
    clipped = np.max(np.stack(spoilt), axis=(0, 3)) >= 1
    assert np.abs(found.image - expected.image)[~clipped].mean() < 2e-3
    assert np.abs(fuse(paths, tmp_path, overwrite=True).image - expected.image).mean() > 0.02


def test_hot_pixels_are_found_in_a_dark_frame_for_stacks_of_two(tmp_path, scene):
    paths = save(tmp_path / "hot", [with_hot_pixels(frame) for frame in scene.frames[:2]])
    with pytest.raises(InputError, match="cannot be told from detail in 2 frames") as caught:
        fuse(paths, tmp_path, hot_pixels=True)
    assert caught.value.code == "bad-option"
    dark = with_hot_pixels(np.zeros((*SIZE, 3), np.float32), 0.5)
    write_image(Image(dark, bit_depth=16), tmp_path / "dark.png")
    result = fuse(paths, tmp_path, hot_pixels=True, dark=str(tmp_path / "dark.png"))
    assert "4 hot pixels are filled from around" in result.notices


def test_a_pattern_is_not_filled_as_hot_pixels(tmp_path):
    frame = np.full((96, 128, 3), 0.3, np.float32)
    frame[::3, ::3] = 0.9
    result = fuse(save(tmp_path / "grid", [frame] * 3), tmp_path, hot_pixels=True)
    assert "no hot pixels" in result.notices
    assert np.abs(result.image - frame).max() < 1e-3


def test_a_dark_frame_that_does_not_fit_is_refused_before_the_work(tmp_path, scene):
    paths = save(tmp_path / "clean", scene.frames)
    write_image(np.zeros((90, 128, 3), np.float32), tmp_path / "small.png")
    with pytest.raises(InputError, match=r"frames differ in size.*small\.png"):
        fuse(paths, tmp_path, dark=str(tmp_path / "small.png"))
    with pytest.raises(InputError, match="no such file"):
        fuse(paths, tmp_path, dark=str(tmp_path / "nowhere.png"))


def test_the_dark_frame_is_never_replaced(tmp_path, scene):
    paths = save(tmp_path / "clean", scene.frames)
    dark = write_image(np.zeros((*SIZE, 3), np.float32), tmp_path / "out.png")
    before = dark.read_bytes()
    with pytest.raises(InputError):
        fuse(paths, tmp_path, dark=str(dark), overwrite=True)
    assert dark.read_bytes() == before


def test_frames_that_add_nothing_are_left_out_and_the_picture_stays(tmp_path):
    """Frames focused far before the scene and far behind it: nothing is sharp in them."""
    inside = allfocus.render_scene("insect", size=(192, 256), frames=4).focus_distances
    distances = [0.45 * inside[0], 0.6 * inside[0], *inside, 3 * inside[-1]]
    scene = allfocus.render_scene("insect", size=(192, 256), frames=7, focus_distances=distances, noise=0.002)
    paths = save(tmp_path / "all", scene.frames)
    whole = fuse(paths, tmp_path)
    culled = fuse(paths, tmp_path, overwrite=True, cull=True)
    assert culled.left_out == dict.fromkeys(("0.png", "1.png", "6.png"), NOTHING_TO_ADD)

    def decibels(image):
        return -10 * np.log10(np.mean((image - scene.truth) ** 2))

    assert decibels(culled.image) > decibels(whole.image) - 0.2


def test_no_frame_is_culled_from_a_stack_in_which_all_add(tmp_path, scene):
    result = fuse(save(tmp_path / "all", scene.frames), tmp_path, cull=True)
    assert not result.left_out


def test_frames_that_are_blank_or_alike_are_not_culled(tmp_path):
    for number, frame in enumerate((np.zeros((96, 128, 3)), np.random.default_rng(0).random((96, 128, 3)))):
        result = fuse(save(tmp_path / str(number), [frame] * 3), tmp_path, cull=True, overwrite=True)
        assert not result.left_out


def test_a_finished_composite_among_the_frames_is_told_and_left_out_on_request(tmp_path, scene):
    paths = save(tmp_path / "all", scene.frames)
    fuse(paths, tmp_path)
    paths.append((tmp_path / "out.png").rename(tmp_path / "all" / "3.png"))
    told = fuse(paths, tmp_path)
    assert any("3.png: was itself fused by allfocus" in sentence for sentence in told.notices)
    result = fuse(paths, tmp_path, overwrite=True, skip_bad=True)
    assert result.left_out == {"3.png": "is a finished composite (allfocus)"}


def test_slabs_are_composites_all_and_are_fused(tmp_path, scene):
    for name in "ab":
        fuse(save(tmp_path / name, scene.frames), tmp_path)
        (tmp_path / "out.png").rename(tmp_path / f"slab_{name}.png")
    assert not fuse([tmp_path / "slab_a.png", tmp_path / "slab_b.png"], tmp_path, skip_bad=True).left_out


def test_detail_that_is_blurred_in_some_frame_is_no_hot_pixel():
    finder = HotPixelFinder()
    for brightness in (0.9, 0.5, 0.35):
        plane = np.full((32, 32), 0.2, np.float32)
        plane[10, 10], plane[20, 20] = 0.9, brightness
        finder.add(plane)
    assert np.argwhere(finder.find()).tolist() == [[10, 10]]


def test_frames_in_units_of_their_own_have_no_dark_frame(tmp_path):
    paths = [
        write_image(Image(np.full((64, 64), value, np.float32), bit_depth=32), tmp_path / f"{value}.tif")
        for value in (5.0, 3000.0)
    ]
    dark = write_image(Image(np.full((64, 64), 1.0, np.float32), bit_depth=32), tmp_path / "dark.tif")
    with pytest.raises(InputError, match="have no dark frame"):
        allfocus.fuse_files(paths, tmp_path / "out.tif", align=False, method="average", dark=str(dark))
