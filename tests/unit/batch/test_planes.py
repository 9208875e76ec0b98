"""Planes larger than the memory: read in tiles, fused in blocks, equal to fusing them in memory."""

import dataclasses
import functools
import json
import os

import numpy as np
import pytest
import tifffile
from this_process import ThisProcess

pytest.importorskip("zarr", reason="needs the extra batch")

import zarr

from allfocus.batch.planes import fusion as plane_fusion
from allfocus.batch.planes import tasks as plane_tasks
from allfocus.batch.planes import work_folder as plane_work
from allfocus.batch.planes.description import describe_planes
from allfocus.batch.planes.reading import PlaneSource
from allfocus.errors import AllfocusError, InputError, OutputError
from allfocus.fusion.frame_source import MemorySource
from allfocus.fusion.methods import METHODS
from allfocus.fusion.settings import DecisionSettings
from allfocus.images.ome_zarr_reading import describe_zarr
from allfocus.images.ome_zarr_results import ZarrResult

AS_LARGE = DecisionSettings(plan_pixels=40_000, largest_full_scale=1000)
"""Planes of a million pixels are decided at half scale, with context."""
fuse_planes = functools.partial(plane_fusion.fuse_planes, settings=AS_LARGE)


@pytest.fixture
def as_if_large(monkeypatch):
    """Several windows for planes of a million pixels."""
    monkeypatch.setattr(plane_fusion, "Cluster", ThisProcess)
    monkeypatch.setattr(plane_tasks, "SURVEY_SIDE", 256)
    monkeypatch.setattr(plane_fusion, "CHUNK", 256)
    plane_tasks._source.cache_clear()


def read_result(path, level=0):
    return np.moveaxis(zarr.open_group(str(path), mode="r")[str(level)][:], 0, -1)


@pytest.fixture
def planes(tmp_path, plane_pixels, write_planes):
    return write_planes(tmp_path / "in.zarr", plane_pixels[:, :401, :901], extra={"laboratory": "ours"})


def in_memory(pixels):
    import allfocus

    method = dataclasses.replace(METHODS["ips"], options={"settings": AS_LARGE})
    return allfocus.fuse(list(pixels), method=method).image


def test_blocks_give_what_memory_gives(tmp_path, planes, plane_pixels, as_if_large):
    result = fuse_planes(planes, tmp_path / "out.zarr", block=512)
    expected = in_memory(plane_pixels[:, :401, :901]).astype(int)
    assert np.abs(read_result(tmp_path / "out.zarr").astype(int) - expected).max() <= 1
    assert result.planes == 3
    assert result.size == (401, 901)
    assert not list(tmp_path.glob(".*"))


def test_the_survey_in_blocks_finds_what_a_look_at_the_whole_finds(tmp_path, planes, plane_pixels, as_if_large):
    stack = describe_planes(planes, settings=AS_LARGE)
    (tmp_path / "survey").mkdir()
    job = plane_tasks.PlaneJob(stack, str(tmp_path), ZarrResult("", (), ()))
    blocks = plane_tasks.cut_blocks(stack.size, plane_tasks.survey_side(stack))
    assert len(blocks) > 4
    for block in blocks:
        plane_tasks.survey_block(job, block)
    surveyed = plane_tasks._surveyed_source(job)
    frames = [plane.astype(np.float32) / 255 for plane in plane_pixels[:, :401, :901]]
    whole = MemorySource(frames, settings=AS_LARGE)
    np.testing.assert_allclose(surveyed.sharpness(), whole.sharpness(), rtol=1e-5, atol=1e-9)
    factor = plane_tasks.context_factor(stack)
    assert factor > 1
    for index in range(3):
        everything, level = (slice(None), slice(None)), factor.bit_length() - 1
        expected = whole.read_reduced(index, everything, level)
        np.testing.assert_allclose(surveyed.read_reduced(index, everything, level), expected, atol=1e-6)


def test_tiled_tiff_files_give_the_same(tmp_path, plane_pixels, as_if_large):
    (tmp_path / "in").mkdir()
    pixels = plane_pixels[:, :300, :700].astype(np.uint16) * 257
    for number, plane in enumerate(pixels):
        path = tmp_path / f"in/{number}.tif"
        tifffile.imwrite(path, plane, tile=(128, 128), photometric="rgb", compression="deflate")
    fuse_planes(tmp_path / "in", tmp_path / "out.zarr", block=512)
    expected = in_memory(pixels).astype(int)
    found = read_result(tmp_path / "out.zarr").astype(int)
    assert found.max() > 256
    assert np.abs(found - expected).max() <= 257


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_result_is_valid_keeps_what_the_stack_says_and_has_levels(
    tmp_path, plane_pixels, as_if_large, zarr_format, write_planes
):
    models = pytest.importorskip("ome_zarr_models")
    source = write_planes(tmp_path / "in.zarr", plane_pixels, zarr_format=zarr_format, extra={"laboratory": "ours"})
    fuse_planes(source, tmp_path / "out.zarr", block=1024)
    group = zarr.open_group(str(tmp_path / "out.zarr"), mode="r")
    assert group.metadata.zarr_format == zarr_format
    models.open_ome_zarr(group)  # raises when it is not valid
    attributes = dict(group.attrs)
    assert attributes["laboratory"] == "ours"
    inner = attributes["ome"] if zarr_format == 3 else attributes
    assert [channel["label"] for channel in inner["omero"]["channels"]] == ["R", "G", "B"]
    multiscale = inner["multiscales"][0]
    assert multiscale["name"] == "slide 7"
    assert [axis["name"] for axis in multiscale["axes"]] == ["c", "y", "x"]
    assert multiscale["axes"][1]["unit"] == "micrometer"
    scales = [level["coordinateTransformations"][0]["scale"] for level in multiscale["datasets"]]
    assert scales == [[1.0, 0.25, 0.25], [1.0, 0.5, 0.5]]
    large, small = read_result(tmp_path / "out.zarr"), read_result(tmp_path / "out.zarr", 1)
    assert small.shape == (225, 451, 3)
    mean = large.reshape(225, 2, 451, 2, 3).mean(axis=(1, 3))
    assert np.abs(small - mean).max() <= 0.5
    assert "fused by allfocus" in attributes["allfocus"]["history"]


def test_the_ome_zarr_library_opens_the_result(tmp_path, planes, as_if_large):
    pytest.importorskip("ome_zarr")
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    fuse_planes(planes, tmp_path / "out.zarr", block=1024)
    nodes = list(Reader(parse_url(str(tmp_path / "out.zarr")))())
    assert nodes[0].data[0].shape == (3, 401, 901)
    assert len(nodes[0].data) == 2


def test_one_channel_of_several_is_taken_when_asked(tmp_path, plane_pixels, as_if_large, write_planes):
    two = write_planes(tmp_path / "in.zarr", plane_pixels[:, :300, :300, :2])
    fuse_planes(two, tmp_path / "out.zarr", channel=1, block=1024)
    expected = in_memory(plane_pixels[:, :300, :300, 1]).astype(int)
    assert np.abs(read_result(tmp_path / "out.zarr")[..., 0].astype(int) - expected).max() <= 1


def test_an_interrupted_run_goes_on_and_another_setting_begins_anew(tmp_path, planes, as_if_large, monkeypatch):
    calls, breaks = [], [True]

    def fuse_or_break(job, block):
        calls.append(block)
        if breaks[0] and len(calls) == 5:
            raise AllfocusError("the power went")
        return 1

    monkeypatch.setattr(plane_fusion, "fuse_block", fuse_or_break)
    with pytest.raises(AllfocusError, match=r"the power went.*run the same command again"):
        fuse_planes(planes, tmp_path / "out.zarr", block=256)
    assert not (tmp_path / "out.zarr").exists()
    surveyed = len(list((tmp_path / ".out.zarr.partial/survey").iterdir()))
    breaks[0] = False
    calls.clear()
    result = fuse_planes(planes, tmp_path / "out.zarr", block=256)
    assert len(calls) == 2 * 4 - 4
    assert result.blocks_done_before == surveyed + 1 + 4
    calls.clear()
    fuse_planes(planes, tmp_path / "out.zarr", block=256, prefer="far", overwrite=True)
    assert len(calls) == 2 * 4


def test_nothing_of_the_user_is_replaced(tmp_path, planes, as_if_large):
    target = tmp_path / "out.zarr"
    target.mkdir()
    (target / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="exists already"):
        fuse_planes(planes, target)
    with pytest.raises(OutputError, match="is no Zarr"):
        fuse_planes(planes, target, overwrite=True)
    assert (target / "thesis.txt").exists()


def test_tiles_that_are_held_stay_within_their_limit(planes, plane_pixels, monkeypatch):
    monkeypatch.setattr("allfocus.batch.planes.reading.CACHE_BYTES", 2_000_000)
    source = PlaneSource(describe_planes(planes))
    for index in range(3):
        area = (slice(10, 400), slice(3, 900))
        assert np.array_equal(source.read_levels(index, area), plane_pixels[index, 10:400, 3:900])
        assert source._held <= 2_000_000
    assert source._held == sum(tile.nbytes for tile in source._tiles.values())


@pytest.mark.parametrize("damage", ["no multiscales", "one plane", "times", "signed", "not a number", "chunk gone"])
def test_planes_that_cannot_be_fused_are_named(tmp_path, plane_pixels, as_if_large, damage, write_planes):
    pixels = plane_pixels[:, :300, :300]
    if damage == "one plane":
        pixels = pixels[:1]
    elif damage == "signed":
        pixels = pixels.astype(np.int32)
    elif damage == "not a number":
        pixels = np.full(pixels.shape, np.nan, np.float32)
    path = write_planes(tmp_path / "in.zarr", pixels)
    if damage == "no multiscales":
        zarr.open_group(str(path), mode="r+").attrs.put({})
    elif damage == "times":
        group = zarr.open_group(str(path), mode="r+")
        attributes = json.loads(json.dumps(dict(group.attrs)))
        attributes["ome"]["multiscales"][0]["axes"][0] = {"name": "t", "type": "time"}
        group.attrs.put(attributes)
    elif damage == "chunk gone":
        victim = next(file for file in (path / "0").rglob("*") if file.is_file() and file.name != "zarr.json")
        victim.write_bytes(b"damaged")
    words = {
        "no multiscales": "multiscales",
        "one plane": "only one plane",
        "times": "points in time",
        "signed": "int32",
        "not a number": "0..1",
        "chunk gone": "cannot be read at rows",
    }
    with pytest.raises(AllfocusError, match=words[damage]):
        fuse_planes(path, tmp_path / "out.zarr", block=1024)
    assert not (tmp_path / "out.zarr").exists()


def test_a_name_of_another_format_and_a_block_that_does_not_fit_are_refused(tmp_path, planes):
    with pytest.raises(OutputError, match=r"ends in \.zarr or \.tif"):
        fuse_planes(planes, tmp_path / "out.png")
    with pytest.raises(InputError, match="multiple of"):
        fuse_planes(planes, tmp_path / "out.zarr", block=1000)


def test_images_of_bio_formats_are_found_one_level_down(tmp_path, plane_pixels, write_planes):
    zarr.open_group(str(tmp_path / "in.zarr"), mode="w").attrs.update({"bioformats2raw.layout": 3})
    write_planes(tmp_path / "in.zarr/0", plane_pixels[:, :64, :64])
    assert describe_zarr(tmp_path / "in.zarr").path.endswith(os.path.join("in.zarr", "0"))


def in_order(pixels, axes):
    """Planes (z, y, x, channels) with other axes."""
    data = pixels[None] if "t" in axes else pixels
    source = "tzyxc" if "t" in axes else "zyxc"
    return data.transpose([source.index(axis) for axis in axes])


@pytest.mark.parametrize(("axes", "zarr_format"), [("tczyx", 2), ("tczyx", 3), ("zyxc", 3), ("zcyx", 2)])
def test_axes_in_any_order_give_a_valid_result_in_the_order_of_the_format(
    tmp_path, plane_pixels, as_if_large, axes, zarr_format, write_planes
):
    models = pytest.importorskip("ome_zarr_models")
    pixels = plane_pixels[:, :130, :150]
    path = write_planes(tmp_path / "in.zarr", pixels, zarr_format=zarr_format)
    group = zarr.open_group(str(path), mode="r+")
    data = in_order(pixels, axes)
    del group["0"]
    chunks = tuple(64 if axis in "yx" else 1 for axis in axes)
    group.create_array("0", shape=data.shape, chunks=chunks, dtype=data.dtype)[:] = data
    attributes = json.loads(json.dumps(dict(group.attrs)))
    multiscale = attributes.get("ome", attributes)["multiscales"][0]
    kinds = {"t": "time", "c": "channel"}
    multiscale["axes"] = [{"name": axis, "type": kinds.get(axis, "space")} for axis in axes]
    scale = [{"y": 0.5, "x": 0.25}.get(axis, 1.0) for axis in axes]
    multiscale["datasets"][0]["coordinateTransformations"] = [{"type": "scale", "scale": scale}]
    group.attrs.put(attributes)
    fuse_planes(path, tmp_path / "out.zarr", block=256)
    found = zarr.open_group(str(tmp_path / "out.zarr"), mode="r")
    models.open_ome_zarr(found)
    levels = found["0"][:].reshape(3, 130, 150)
    assert np.abs(np.moveaxis(levels, 0, -1).astype(int) - in_memory(pixels).astype(int)).max() <= 1
    written = dict(found.attrs)
    level = written.get("ome", written)["multiscales"][0]["datasets"][0]
    assert level["coordinateTransformations"][0]["scale"][-2:] == [0.5, 0.25]


def test_the_large_byte_first_is_read(tmp_path, plane_pixels, as_if_large, write_planes):
    pixels = (plane_pixels[:, :130, :150].astype(np.uint16) * 257).astype(">u2")
    path = write_planes(tmp_path / "in.zarr", pixels, zarr_format=2)
    assert json.loads((path / "0/.zarray").read_text())["dtype"] == ">u2"
    fuse_planes(path, tmp_path / "out.zarr", block=256)
    expected = in_memory(pixels.astype(np.uint16)).astype(int)
    assert np.abs(read_result(tmp_path / "out.zarr").astype(int) - expected).max() <= 257


def test_one_channel_keeps_its_own_name_and_no_lost_plane_is_shown(tmp_path, plane_pixels, as_if_large, write_planes):
    path = write_planes(tmp_path / "in.zarr", plane_pixels[:, :64, :64])
    group = zarr.open_group(str(path), mode="r+")
    attributes = json.loads(json.dumps(dict(group.attrs)))
    attributes["ome"]["omero"]["rdefs"] = {"defaultZ": 2, "model": "color"}
    group.attrs.put(attributes)
    fuse_planes(path, tmp_path / "out.zarr", channel=1, block=256)
    display = zarr.open_group(str(tmp_path / "out.zarr"), mode="r").attrs["ome"]["omero"]
    assert [channel["label"] for channel in display["channels"]] == ["G"]
    assert display["rdefs"] == {"defaultZ": 0, "model": "color"}


@pytest.mark.parametrize("name", ["out.ome.tif", "out.tif"])
@pytest.mark.parametrize("kind", ["zarr", "tiff"])
def test_a_tiled_tiff_has_the_pixels_levels_and_pixel_size(
    tmp_path, plane_pixels, as_if_large, write_planes, name, kind, monkeypatch
):
    pixels = plane_pixels[:, :130, :560]
    if kind == "zarr":
        source = write_planes(tmp_path / "in.zarr", pixels)
    else:
        source = tmp_path / "in.tif"
        tifffile.imwrite(
            source,
            pixels.astype(np.uint16) * 257,
            byteorder=">",
            bigtiff=True,
            tile=(128, 128),
            photometric="rgb",
            resolution=(40_000, 40_000),
            resolutionunit="CENTIMETER",
            metadata=None,
            iccprofile=b"profile",
        )
        monkeypatch.setattr("allfocus.batch.planes.tiled_tiff.LARGEST_CLASSIC_TIFF", 1000)
    fuse_planes(source, tmp_path / name, block=512)
    fuse_planes(source, tmp_path / "same.zarr", block=512)
    with tifffile.TiffFile(tmp_path / name) as tiff:
        levels = tiff.series[0].levels
        assert [level.shape for level in levels] == [(130, 560, 3), (65, 280, 3)]
        for number, level in enumerate(levels):
            assert np.array_equal(level.asarray(), read_result(tmp_path / "same.zarr", number))
        page = tiff.pages.first
        assert page.is_tiled
        assert (page.resolution, int(page.resolutionunit)) == ((40_000, 40_000), 3)
        assert tiff.is_bigtiff == (kind == "tiff")
        assert tiff.is_ome == (name == "out.ome.tif")
        assert page.iccprofile == (b"profile" if kind == "tiff" else None)
        if tiff.is_ome:
            assert 'PhysicalSizeX="0.25"' in str(tiff.ome_metadata)
    multiscale = zarr.open_group(str(tmp_path / "same.zarr"), mode="r").attrs["ome"]["multiscales"][0]
    assert multiscale["datasets"][0]["coordinateTransformations"][0]["scale"] == [1.0, 0.25, 0.25]
    assert multiscale["axes"][-1]["unit"] == "micrometer"
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(OutputError, match="exists already"):
        fuse_planes(source, tmp_path / name, block=512)


def test_planes_that_changed_between_two_runs_are_read_anew(tmp_path, plane_pixels, as_if_large, write_planes):
    path = write_planes(tmp_path / "in.zarr", plane_pixels[:, :64, :64])
    fuse_planes(path, tmp_path / "first.zarr", block=256)
    zarr.open_group(str(path), mode="r+")["0"][:] = 7  # in place, as a correction of the background would
    fuse_planes(path, tmp_path / "second.zarr", block=256)
    assert (read_result(tmp_path / "second.zarr") == 7).all()


def test_two_runs_do_not_write_one_result(tmp_path, planes, as_if_large):
    with plane_work.work_folder(tmp_path / "out.zarr"), pytest.raises(OutputError, match="another batch"):
        fuse_planes(planes, tmp_path / "out.zarr", block=256)


@pytest.mark.parametrize(
    ("unit", "size"), [("micron", 0.5), ("\\u00B5m", 0.5), ("nm", 0.0005), ("mm", 500.0), ("pixel", None)]
)
def test_the_pixel_size_of_imagej_is_known(tmp_path, unit, size):
    path = tmp_path / "in.tif"
    options = {"imagej": True, "resolution": (2, 2), "metadata": {"unit": unit, "axes": "ZYX"}}
    tifffile.imwrite(path, np.zeros((2, 64, 64), np.uint8), **options)
    assert describe_planes(path).pixel_size == (None if size is None else pytest.approx((size, size)))
