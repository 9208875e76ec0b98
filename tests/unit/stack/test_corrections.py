"""Dark frames, hot pixels, and frames that add nothing."""

import numpy as np
import pytest
import tifffile
from PIL import Image as PillowImage

import allfocus
from allfocus.errors import InputError
from allfocus.images.colour_profile import SRGB_PRIMARIES, make_profile, srgb_profile
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


def test_a_dark_frame_in_other_units_is_refused(tmp_path, scene):
    """Subtracted as it stands it would leave nothing but black."""
    paths, dark = save(tmp_path / "clean", scene.frames), tmp_path / "counts.tif"
    tifffile.imwrite(dark, np.full((*SIZE, 3), 300, np.float32), photometric="rgb")
    with pytest.raises(InputError, match=r"counts\.tif: its values run from 300 to 300"):
        fuse(paths, tmp_path, dark=str(dark))
    assert not (tmp_path / "out.png").exists()


def test_a_dark_frame_that_is_one_of_the_frames_is_refused(tmp_path, scene):
    paths = save(tmp_path / "clean", scene.frames)
    (tmp_path / "link.png").symlink_to(paths[1])
    for dark in (paths[1], tmp_path / "link.png"):
        with pytest.raises(InputError, match="is the dark frame, and one of the frames as well"):
            fuse(paths, tmp_path, dark=str(dark))


def test_a_dark_frame_that_is_bright_is_told(tmp_path, scene):
    paths = save(tmp_path / "clean", scene.frames)
    dark = write_image(scene.frames[0], tmp_path / "dark.png", bit_depth=16)
    result = fuse(paths, tmp_path, dark=str(dark))
    assert "the dark frame is 100% as bright as 0.png; was it taken without light?" in result.notices


@pytest.mark.parametrize(("place", "why"), [("", "is empty"), ("clean", "this is a folder")])
def test_a_folder_is_no_dark_frame(tmp_path, scene, monkeypatch, place, why):
    paths = save(tmp_path / "clean", scene.frames)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=why):
        fuse(paths, tmp_path, dark=place)


def test_a_dark_frame_of_a_camera_that_was_held_otherwise_is_refused(tmp_path, scene):
    """Turned upright, its pixels lie where other pixels of the sensor do."""
    paths = save(tmp_path / "clean", scene.frames)
    exif = PillowImage.Exif()
    exif[0x0112] = 3
    PillowImage.new("RGB", SIZE[::-1]).save(tmp_path / "turned.png", exif=exif.tobytes())
    with pytest.raises(InputError, match=r"turned\.png: the camera was held otherwise than for 0\.png"):
        fuse(paths, tmp_path, dark=str(tmp_path / "turned.png"))


def test_the_dark_frame_as_output_is_refused_before_the_work(tmp_path, scene):
    paths = save(tmp_path / "clean", scene.frames)
    dark = write_image(np.zeros((*SIZE, 3), np.float32), tmp_path / "dark.png")
    seen = []
    with pytest.raises(InputError, match="will not be replaced"):
        fuse(
            paths,
            tmp_path,
            dark=str(dark),
            check_map=str(dark),
            overwrite=True,
            progress=lambda *step: seen.append(step),
        )
    assert seen == []


def test_depth_counts_the_steps_of_frames_that_are_left_out(tmp_path):
    """With every second frame damaged, the others are two steps apart."""
    scene = allfocus.render_scene("slope", frames=9, size=(96, 128))
    whole = save(tmp_path / "whole", scene.frames)
    holed = save(tmp_path / "holed", scene.frames)
    for number in (1, 3, 5):
        holed[number].write_bytes(b"damaged")
    few = [path for number, path in enumerate(whole) if number not in (1, 3, 5)]
    options = {"align": False, "z_step": "10um", "skip_bad": True, "overwrite": True}

    def places(paths):
        result = allfocus.fuse_files(paths, tmp_path / "x.png", depth_map=tmp_path / "depth.tif", **options)
        return result.measured_depth.scale.places

    assert places(holed) == (0, 20, 40, 60, 70, 80)
    assert places(few) == (0, 10, 20, 30, 40, 50)
    assert places(whole) == tuple(range(0, 90, 10))


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "grey"])
def test_a_dark_frame_with_another_curve_is_refused(tmp_path, scene, colour):
    frames = [frame if colour else frame[..., 1] for frame in scene.frames]
    own, linear = (make_profile("own", exponent, SRGB_PRIMARIES if colour else None) for exponent in (2.2, 1.0))
    paths = save(tmp_path / "clean", frames, profile=own)
    for profile in (None, own, linear):
        (dark,) = save(tmp_path / "dark", [np.zeros_like(frames[0])], profile=profile)
        if profile != linear:
            fuse(paths, tmp_path, dark=str(dark), overwrite=True)
            dark.unlink()
    with pytest.raises(InputError, match=r"0\.png: its colour profile has another curve"):
        fuse(paths, tmp_path, dark=str(dark), overwrite=True)


def test_the_reference_is_counted_among_the_files_that_are_taken(tmp_path, scene):
    """RAW files that are passed over do not count."""
    paths = save(tmp_path / "shots", scene.frames)
    for path in paths:
        write_image(allfocus.read_image(path), path.with_suffix(".jpg"))
        path.with_suffix(".nef").write_bytes(b"passed over")
        path.unlink()
    result = allfocus.fuse_files(tmp_path / "shots", tmp_path / "x.png", method="average", pairs="jpeg", reference=3)
    assert result.frames[result.alignment.reference] == "2.jpg"
    assert result.alignment.reference == 2
