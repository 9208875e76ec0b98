"""Camera RAW in, linear DNG out: files as a sensor with a Bayer filter would see our rendered scenes."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tifffile
from scripts import load_script

import allfocus
from allfocus.errors import InputError, OutputError
from allfocus.images.camera_colour import Development
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.stack_opening import open_stack
from allfocus.images.writing import write_image

rawpy = pytest.importorskip("rawpy", reason="rawpy is not installed (pip install 'allfocus[raw]')")

sensor = load_script("benchmarks/rendered_sensor.py")
BALANCE, BLACK, MATRIX, WHITE = sensor.BALANCE, sensor.BLACK, sensor.MATRIX, sensor.WHITE
camera_light, decibels, develop, to_light = sensor.camera_light, sensor.decibels, sensor.develop, sensor.to_light
write_dng, write_mosaic = sensor.write_dng, sensor.write_mosaic


@pytest.fixture(scope="module")
def burst(tmp_path_factory):
    """A rendered stack and the DNG of each of its frames."""
    folder = tmp_path_factory.mktemp("burst")
    scene = allfocus.render_scene("desk", frames=4, size=(208, 288))
    paths = [write_dng(folder / f"{n}.dng", frame, noise=0.002, seed=n) for n, frame in enumerate(scene.frames)]
    return scene, paths


@pytest.fixture(scope="module")
def fused(burst, tmp_path_factory):
    """The burst fused to a DNG, and fused after it was developed."""
    folder = tmp_path_factory.mktemp("fused")
    for name in ("x.dng", "x.tif"):
        allfocus.fuse_files(burst[1], folder / name, align=False)
    return folder / "x.dng", folder / "x.tif"


def test_a_developed_frame_is_the_scene_within_the_errors_of_demosaicing(burst):
    scene, paths = burst
    assert decibels(read_image(paths[0]).pixels, scene.frames[0]) > 33


def test_the_develop_of_a_fused_dng_is_the_fusion_of_the_develops_within_noise(burst, fused):
    scene, paths = burst
    noise = decibels(read_image(paths[0]).pixels, scene.frames[0])
    developed, direct = develop(fused[0]), read_image(fused[1]).pixels
    assert decibels(developed, direct) > noise + 3  # they differ by less than half of the noise of a frame
    assert abs(decibels(developed, scene.truth) - decibels(direct, scene.truth)) < 0.2


def test_a_fused_dng_says_what_grading_needs(burst, fused):
    with tifffile.TiffFile(fused[0]) as file:
        first = file.pages[0]
        light, preview = first.pages
        tags = {tag.code: tag.value for tag in first.tags}
    assert tags[50706] == (1, 4, 0, 0) or bytes(tags[50706]) == bytes((1, 4, 0, 0))
    assert np.allclose(np.reshape(tags[50721], (9, 2))[:, 0] / np.reshape(tags[50721], (9, 2))[:, 1], MATRIX.ravel())
    assert np.allclose(np.reshape(tags[50728], (3, 2)) @ [1, 0] / (np.reshape(tags[50728], (3, 2)) @ [0, 1]),
                       1 / np.array(BALANCE), atol=1e-4)  # fmt: skip
    assert tags[50730] == (1, 2)  # the exposure that its maker wants, copied
    assert (tags[274], tags[271], tags[50708]) == (1, "Hopeful", "Hopeful One")
    assert (int(light.photometric), light.dtype, light.shape) == (34892, np.uint16, (208, 288, 3))
    assert preview.shape[2] == 3
    with rawpy.imread(str(fused[0])) as raw:
        assert raw.extract_thumb().format == rawpy.ThumbFormat.JPEG


def test_the_preview_looks_like_the_develop(fused):
    with tifffile.TiffFile(fused[0]) as file:
        preview = file.pages[0].pages[1].asarray() / 255
    assert decibels(preview, develop(fused[0])) > 30


def test_dcraw_develops_the_same_picture(fused, tmp_path):
    if (dcraw := shutil.which("dcraw")) is None:
        pytest.skip("dcraw is not installed (Debian: apt-get install dcraw)")
    made = subprocess.run([dcraw, "-w", "-W", "-4", "-T", "-c", fused[0]], capture_output=True, check=True).stdout
    (tmp_path / "x.tif").write_bytes(made)
    assert decibels(tifffile.imread(tmp_path / "x.tif") / 65535, to_light(develop(fused[0]))) > 80


def test_a_dng_read_and_written_again_is_the_same_light(burst, tmp_path):
    image = read_image(burst[1][0], development=Development(in_camera_colours=True))
    write_image(image, tmp_path / "a.dng")
    again = read_image(tmp_path / "a.dng", development=Development(in_camera_colours=True))
    assert np.abs(again.pixels - image.pixels).max() < 2e-3
    with tifffile.TiffFile(tmp_path / "a.dng") as file:
        light = file.pages[0].pages[0].asarray() / 65535
    middle = (slice(8, -8), slice(8, -8))
    assert decibels(light[middle], camera_light(burst[0].frames[0])[middle]) > 38


def test_no_highlight_is_cut_in_the_cameras_colours(tmp_path):
    """Red at twice the light of white: balanced, it would be cut."""
    mosaic = np.full((32, 32), BLACK + 0.9 * (WHITE - BLACK))
    write_mosaic(tmp_path / "a.dng", mosaic)
    image = read_image(tmp_path / "a.dng", development=Development(in_camera_colours=True))
    write_image(image, tmp_path / "b.dng")
    with tifffile.TiffFile(tmp_path / "b.dng") as file:
        assert np.allclose(file.pages[0].pages[0].asarray() / 65535, 0.9, atol=1e-3)


def test_exposure_does_not_depend_on_what_a_frame_shows(tmp_path):
    """LibRaw would take the brightest pixel of a frame for white."""
    for name, brightest in (("a", 0.8), ("b", 0.99)):
        mosaic = np.full((32, 32), BLACK + 0.2 * (WHITE - BLACK))
        mosaic[:4, :4] = BLACK + brightest * (WHITE - BLACK)
        write_mosaic(tmp_path / f"{name}.dng", mosaic)
    one, two = (read_image(tmp_path / f"{name}.dng").pixels[20:, 20:] for name in "ab")
    assert np.array_equal(one, two)


def test_all_frames_have_the_white_balance_of_the_first(tmp_path):
    mosaic = np.full((32, 32), BLACK + 0.3 * (WHITE - BLACK))
    write_mosaic(tmp_path / "a.dng", mosaic)
    write_mosaic(tmp_path / "b.dng", mosaic, balance=(1.4, 1.0, 2.2))
    stack = open_stack(tmp_path)
    assert np.array_equal(stack.read(0).pixels, stack.read(1).pixels)
    assert not np.array_equal(stack.read(0).pixels, read_image(tmp_path / "b.dng").pixels)


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_a_turned_camera_gives_an_upright_dng(tmp_path, orientation):
    light = np.zeros((24, 40, 3))
    light[:8, :8] = 0.8
    write_dng(tmp_path / "a.dng", light, orientation=orientation)
    image = read_image(tmp_path / "a.dng", development=Development(in_camera_colours=True))
    write_image(image, tmp_path / "b.dng")
    shape = (24, 40, 3) if orientation in (1, 3) else (40, 24, 3)
    upright = develop(tmp_path / "b.dng")
    assert upright.shape == shape
    assert np.abs(upright - develop(tmp_path / "a.dng")).max() < 2e-3


def test_demosaicing_can_be_chosen(burst, tmp_path):
    found = {
        name: read_image(burst[1][0], development=Development(name)).pixels
        for name in ("ahd", "dht", "dcb", "vng", "ppg", "linear")
    }
    scene = burst[0].frames[0]
    assert len({pixels.tobytes() for pixels in found.values()}) == len(found)
    assert decibels(found["ahd"], scene) > decibels(found["linear"], scene)


@pytest.fixture
def grey_files(tmp_path):
    """Two files of a sensor without a colour filter."""
    samples = np.tile(np.linspace(1000, 60000, 64, dtype=np.uint16), (48, 1))
    tags = [(271, "s", 0, "M", True), (272, "s", 0, "Mono", True), (50706, "B", 4, bytes([1, 4, 0, 0]), True)]
    paths = [tmp_path / f"{name}.dng" for name in "ab"]
    for path in paths:
        tifffile.imwrite(path, samples, photometric="minisblack", extratags=tags, metadata=None)
        with tifffile.TiffFile(path, mode="r+b") as file:
            file.pages[0].tags[262].overwrite(34892)
    return paths


def test_grey_sensors_give_grey_pictures(grey_files):
    stack = open_stack(grey_files)
    assert (stack.channels, stack.read(0).pixels.shape) == (1, (48, 64))


def test_a_dng_is_refused_for_frames_that_are_no_raw_before_anything_is_read(tmp_path):
    for name in "ab":
        write_image(np.zeros((64, 64, 3), np.float32), tmp_path / f"{name}.png")
    with pytest.raises(OutputError, match="no picture from camera RAW") as caught:
        allfocus.fuse_files([tmp_path / "a.png", tmp_path / "b.png"], tmp_path / "x.dng")
    assert caught.value.code == "unwritable-format"
    with pytest.raises(OutputError, match="no picture from camera RAW"):
        write_image(Image(np.zeros((8, 8, 3), np.float32)), tmp_path / "y.dng")


def test_maps_are_never_written_as_dng(burst, tmp_path):
    with pytest.raises(OutputError, match="no picture from camera RAW"):
        allfocus.fuse_files(burst[1], tmp_path / "x.dng", depth_map=tmp_path / "depth.dng")
    assert not list(tmp_path.iterdir())


def test_cameras_whose_colours_nobody_knows_are_refused_before_the_work(tmp_path):
    for name in "ab":
        senseless = [(50721, "2i", 9, (0, 1) * 9, True)]
        write_mosaic(tmp_path / f"{name}.dng", np.full((64, 64), 3000.0), extra=senseless)
    told = []
    with pytest.raises(OutputError, match="colours of the Hopeful One are not known to LibRaw"):
        allfocus.fuse_files(tmp_path, tmp_path / "x.dng", progress=lambda *steps: told.append(steps))
    assert not told


def test_grey_sensors_are_refused_for_dng_before_the_work(tmp_path, grey_files):
    with pytest.raises(OutputError, match="sees grey"):
        allfocus.fuse_files(grey_files, tmp_path / "x.dng")


@pytest.fixture
def pairs(burst, tmp_path):
    """A folder with the burst as RAW, and as the JPEG files that the camera wrote beside them, at half size."""
    folder = tmp_path / "shots"
    folder.mkdir()
    for number, (frame, path) in enumerate(zip(burst[0].frames, burst[1], strict=True)):
        shutil.copy(path, folder / f"DSC{number}.DNG")
        write_image(frame[::2, ::2], folder / f"dsc{number}.jpg")
    return folder


@pytest.mark.parametrize(("choice", "ending", "width"), [("raw", ".DNG", 288), ("jpeg", ".jpg", 144)])
def test_of_raw_and_jpeg_of_one_shot_one_is_fused_and_a_notice_says_which(pairs, tmp_path, choice, ending, width):
    result = allfocus.fuse_files(pairs, tmp_path / "x.png", method="average", align=False, pairs=choice)
    assert [Path(name).suffix for name in result.frames] == [ending] * 4
    assert result.image.shape[1] == width
    assert any("4 shots lie here as RAW and as JPEG" in sentence for sentence in result.notices)


def test_a_file_of_a_pair_that_is_passed_over_is_never_replaced(pairs):
    with pytest.raises(InputError, match="frame") as caught:
        allfocus.fuse_files(pairs, pairs / "dsc0.jpg", method="average", align=False, overwrite=True)
    assert caught.value.code == "is-an-input"


def test_hot_pixels_are_filled_on_the_sensor_before_demosaicing_spreads_them(tmp_path):
    scene = allfocus.render_scene("desk", frames=3, size=(360, 480))
    for name, shining in (("clean", False), ("hot", True)):
        (tmp_path / name).mkdir()
        for number, frame in enumerate(scene.frames):
            path = write_dng(tmp_path / name / f"{number}.dng", frame, noise=0.001, seed=number)
            if shining:
                mosaic = tifffile.imread(path).astype(float)
                mosaic[20, 30] = mosaic[51, 70] = mosaic[80, 101] = WHITE
                write_mosaic(path, mosaic)
    options = {"align": False, "method": "average"}
    clean = allfocus.fuse_files(tmp_path / "clean", tmp_path / "clean.tif", **options).image
    spoilt = allfocus.fuse_files(tmp_path / "hot", tmp_path / "spoilt.tif", **options).image
    mended = allfocus.fuse_files(tmp_path / "hot", tmp_path / "mended.tif", hot_pixels=True, **options)
    assert "3 hot pixels are filled from around" in mended.notices
    assert np.abs(mended.image - clean).max() < 0.15 < np.abs(spoilt - clean).max()


def test_a_raw_dark_frame_is_developed_as_the_frames_are(tmp_path):
    glow = np.zeros((64, 64))
    glow[:, 32:] = 0.1 * (WHITE - BLACK)
    for name in "ab":
        write_mosaic(tmp_path / f"{name}.dng", np.full((64, 64), BLACK + 0.2 * (WHITE - BLACK)) + glow)
    write_mosaic(tmp_path / "dark.dng", BLACK + glow, balance=(1.3, 1.0, 2.0))
    frames = [tmp_path / "a.dng", tmp_path / "b.dng"]
    dark = str(tmp_path / "dark.dng")
    result = allfocus.fuse_files(frames, tmp_path / "x.tif", align=False, method="average", dark=dark)
    assert np.abs(result.image[:, 40:60] - result.image[:, 4:24].mean(axis=(0, 1))).max() < 0.01
    write_image(np.zeros((64, 64, 3), np.float32), tmp_path / "dark.png", bit_depth=16)
    with pytest.raises(InputError, match="one of dark frame and frames is camera RAW"):
        allfocus.fuse_files(frames, tmp_path / "y.tif", dark=str(tmp_path / "dark.png"))
