"""Depth maps of stacks of files: holes, units, standard errors, and reliefs made of them."""

import struct

import numpy as np
import pytest
import tifffile
import trimesh

import allfocus
from allfocus.depth.files import read_depth
from allfocus.errors import InputError
from allfocus.images.exif import build_block
from allfocus.images.image import Image
from allfocus.images.tiff_directories import Directory
from allfocus.images.tiff_layout import EXIF_DIRECTORY

FRAMES, STEP, PIXEL = 6, 2.5, 0.8


@pytest.fixture(scope="module")
def slope(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slope")
    scene = allfocus.render_scene("slope", frames=FRAMES, size=(200, 260), seed=41)
    for number, frame in enumerate(scene.frames):
        allfocus.write_image(frame, folder / f"{number}.png")
    inverse = -1 / np.asarray(scene.focus_distances)
    return folder, np.interp(-1 / scene.depth, inverse, np.arange(FRAMES)).astype(np.float32)


@pytest.fixture(scope="module")
def measured(slope, tmp_path_factory):
    folder, truth = slope
    place = tmp_path_factory.mktemp("measured")
    result = allfocus.fuse_files(
        folder,
        place / "fused.png",
        align=False,
        z_step=f"{STEP}um",
        pixel_size=f"{PIXEL}um",
        depth_map=place / "depth.tif",
        error_map=place / "error.tif",
    )
    return place, truth, result


def test_depth_is_written_in_units_with_its_holes_and_error(measured):
    place, truth, result = measured
    depth, error = read_depth(place / "depth.tif"), read_depth(place / "error.tif")
    assert depth.unit == error.unit == "um"
    assert depth.pixel_size.metres == pytest.approx(PIXEL * 1e-6)
    there = np.isfinite(depth.values)
    assert np.array_equal(there, result.measured_depth.measured.measured)
    assert 0.7 < there.mean() < 1
    off = (depth.values / STEP - truth)[there]
    assert np.sqrt(np.mean(off**2)) < 0.15
    within = np.abs(off) <= error.values[there] / STEP
    assert 0.3 < within.mean() < 0.95
    assert any("um" in sentence for sentence in result.notices)


def test_other_programs_read_the_map_calibrated(measured):
    with tifffile.TiffFile(measured[0] / "depth.tif") as file:
        assert file.asarray().dtype == np.float32
        assert file.imagej_metadata["vunit"] == "um"


def test_a_relief_of_the_map_has_its_size_and_heights(measured):
    place, _, _ = measured
    (path,) = allfocus.write_relief(place / "fused.png", place / "depth.tif", place / "model.ply", join=True)
    mesh = trimesh.load(path, force="mesh", process=False)
    depth = read_depth(place / "depth.tif").values
    columns = np.rint(mesh.vertices[:, 0] * 1000 / PIXEL).astype(int)
    rows = depth.shape[0] - 1 - np.rint(mesh.vertices[:, 1] * 1000 / PIXEL).astype(int)
    heights = (np.nanmax(depth) - depth[rows, columns]) / 1000
    assert np.allclose(mesh.vertices[:, 2], heights, atol=1e-6)


def test_a_grey_map_is_transparent_in_holes_and_filled_when_asked(slope, tmp_path):
    options = {"align": False, "method": "ips", "depth_map": tmp_path / "depth.png", "overwrite": True}
    result = allfocus.fuse_files(slope[0], tmp_path / "a.png", **options)
    image = allfocus.read_image(tmp_path / "depth.png")
    assert np.array_equal(image.valid, result.measured_depth.measured.measured)
    allfocus.fuse_files(slope[0], tmp_path / "a.png", filled=True, **options)
    image = allfocus.read_image(tmp_path / "depth.png")
    assert image.alpha is None
    assert np.sqrt(np.mean(np.square(image.pixels * (FRAMES - 1) - slope[1]))) < 0.15
    assert allfocus.read_image(tmp_path / "depth_preview.png").alpha is None


def test_focus_distances_in_exif_give_the_unit_where_no_step_is_said(slope, tmp_path):
    for number in range(FRAMES):
        frame = allfocus.read_image(slope[0] / f"{number}.png")
        entry = (0x9206, 5, 1, struct.pack("<II", 300 + 2 * number, 1000))
        exif = build_block(Directory([], {EXIF_DIRECTORY: Directory([entry])}))
        allfocus.write_image(Image(frame.pixels, exif=exif), tmp_path / f"{number}.png")
    paths = [tmp_path / f"{number}.png" for number in range(FRAMES)]
    result = allfocus.fuse_files(paths, tmp_path / "f.png", align=False, depth_map=tmp_path / "depth.tif")
    assert result.measured_depth.scale.places == pytest.approx([2 * number for number in range(FRAMES)])
    assert read_depth(tmp_path / "depth.tif").unit == "mm"


@pytest.mark.parametrize("name", ["z_step", "pixel_size"])
def test_a_length_without_a_unit_is_refused_before_the_work(slope, tmp_path, name):
    with pytest.raises(InputError) as caught:
        allfocus.fuse_files(slope[0], tmp_path / "f.png", **{name: "2.5"})
    assert caught.value.code == "bad-option"
    assert not list(tmp_path.iterdir())


def test_a_method_that_blends_knows_no_error(slope, tmp_path):
    with pytest.raises(InputError) as caught:
        allfocus.fuse_files(slope[0], tmp_path / "f.png", method="average", error_map=tmp_path / "e.png")
    assert caught.value.code == "method-cannot"


def test_two_frames_tell_no_depth_and_this_is_said(slope, tmp_path):
    paths = [slope[0] / "0.png", slope[0] / "5.png"]
    result = allfocus.fuse_files(paths, tmp_path / "f.png", align=False, depth_map=tmp_path / "depth.tif")
    assert np.isnan(read_depth(tmp_path / "depth.tif").values).all()
    assert np.isfinite(result.smooth_depth).all()
    assert any("two frames" in sentence for sentence in result.notices)
    with pytest.raises(InputError, match="nothing in it is measured"):
        allfocus.write_relief(tmp_path / "f.png", tmp_path / "depth.tif", tmp_path / "m.glb")


def test_step_and_pixel_size_come_from_the_file_of_a_microscope(tmp_path):
    scene = allfocus.render_scene("slope", frames=FRAMES, size=(200, 260), seed=41)
    planes = np.stack([np.rint(frame.mean(axis=2) * 65535).astype(np.uint16) for frame in scene.frames])
    sizes = {"PhysicalSizeX": 0.4, "PhysicalSizeY": 0.4, "PhysicalSizeZ": 1.5}
    units = {f"{name}Unit": "µm" for name in sizes}
    tifffile.imwrite(tmp_path / "z.ome.tif", planes, ome=True, metadata={"axes": "ZYX", **sizes, **units})
    allfocus.fuse_files(tmp_path / "z.ome.tif", tmp_path / "f.png", align=False, depth_map=tmp_path / "depth.tif")
    depth = read_depth(tmp_path / "depth.tif")
    assert (depth.unit, depth.step) == ("um", 1.5)
    assert depth.pixel_size.metres == pytest.approx(0.4e-6)
    assert 1.5 * (FRAMES - 2) < np.nanmax(depth.values) <= 1.5 * (FRAMES - 0.5)
