"""A file of a microscope from end to end: 2 positions, 3 times, 4 channels, 20 planes of 16 bits."""

import dataclasses
import itertools
import json

import cv2
import numpy as np
import pytest
import tifffile

import allfocus
from allfocus.cli.main import run

zarr = pytest.importorskip("zarr", reason="needs the extra batch")
ome_types = pytest.importorskip("ome_types", reason="needs the extra dev")

POSITIONS, TIMES, CHANNELS, PLANES, SIZE = 2, 3, 4, 20, (48, 64)
NAMES = ["DAPI", "GFP", "Texas Red", "Cy5"]
GAINS = (20000, 800, 3000, 40000)
PIXEL, STEP = (0.25, 0.3), 1.5


def render(position):
    """(times, channels, planes, rows, columns): a surface that moves, each channel with detail of its own."""
    rng = np.random.default_rng(position)
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    planes = np.zeros((TIMES, CHANNELS, PLANES, *SIZE), np.uint16)
    for time, channel in itertools.product(range(TIMES), range(CHANNELS)):
        depth = (0.5 + 0.4 * np.sin((columns + 10 * time) / 15 + position) * np.cos(rows / 12)) * (PLANES - 1)
        sharp = cv2.GaussianBlur(rng.random(SIZE).astype(np.float32), (0, 0), 1.0)
        sharp = (sharp - sharp.min()) / np.ptp(sharp)
        blurred = np.stack([sharp, *(cv2.GaussianBlur(sharp, (0, 0), 0.4 * away) for away in range(1, PLANES))])
        for plane in range(PLANES):
            away = np.abs(depth - plane).round().astype(int)
            seen = np.take_along_axis(blurred, away[None], axis=0)[0]
            planes[time, channel, plane] = seen * GAINS[channel] + 200 + rng.normal(0, 5, SIZE)
    return planes


@pytest.fixture(scope="module")
def pixels():
    return np.stack([render(position) for position in range(POSITIONS)])


def told(**more):
    content = {"PhysicalSizeX": PIXEL[1], "PhysicalSizeY": PIXEL[0], "PhysicalSizeZ": STEP, **more}
    content |= {f"PhysicalSize{axis}Unit": "\N{MICRO SIGN}m" for axis in "XYZ"}
    return content | {"Channel": {"Name": NAMES, "Color": [65535, 16711935, -16776961, -1]}}


@pytest.fixture(scope="module")
def cells(pixels, tmp_path_factory):
    path = tmp_path_factory.mktemp("cells") / "cells.ome.tif"
    with tifffile.TiffWriter(path, ome=True) as writer:
        for position in range(POSITIONS):
            writer.write(pixels[position], metadata=told(axes="TCZYX", Name=f"field {position + 1}"))
    return path


@pytest.fixture(scope="module")
def series(cells, tmp_path_factory):
    """All of it, fused into one OME-TIFF."""
    output = tmp_path_factory.mktemp("series") / "fused.ome.tif"
    result = allfocus.fuse_files(cells, output, position="all", time="all")
    return result, output


def test_each_picture_of_a_series_is_that_of_its_planes_alone(pixels, series, tmp_path):
    result, output = series
    assert len(result.series) == POSITIONS * TIMES
    with tifffile.TiffFile(output) as tiff:
        found = [each.asarray() for each in tiff.series]
        assert [each.axes for each in tiff.series] == ["TCYX"] * POSITIONS
    for position, time in itertools.product(range(POSITIONS), range(TIMES)):
        alone = tmp_path / f"{position}_{time}.ome.tif"
        tifffile.imwrite(alone, pixels[position, time], ome=True, metadata=told(axes="CZYX"))
        allfocus.fuse_files(alone, tmp_path / "fused.ome.tif", overwrite=True)
        expected = tifffile.imread(tmp_path / "fused.ome.tif")
        assert expected.shape == (CHANNELS, *SIZE)
        assert np.array_equal(found[position][time], expected), (position, time)


def test_one_channel_of_one_time_is_that_of_a_folder_with_its_planes(pixels, cells, tmp_path):
    (tmp_path / "planes").mkdir()
    for plane in range(PLANES):
        tifffile.imwrite(tmp_path / f"planes/{plane:02}.tif", pixels[1, 2, 3, plane])
    expected = allfocus.fuse_files(tmp_path / "planes", tmp_path / "a.png")
    options = {"position": "field 2", "time": "3", "channels": "cy5"}
    result = allfocus.fuse_files(cells, tmp_path / "b.png", **options)
    assert np.array_equal(result.image, expected.image)
    assert (tmp_path / "a.png").stat().st_size
    assert result.dimensions.pixel_size == PIXEL


def test_other_libraries_read_names_and_sizes_of_the_series(series):
    _, output = series
    read = ome_types.from_tiff(output)
    assert [image.name for image in read.images] == ["field 1", "field 2"]
    for image in read.images:
        assert (image.pixels.physical_size_y, image.pixels.physical_size_x, image.pixels.physical_size_z) == (
            *PIXEL,
            STEP,
        )
        assert [channel.name for channel in image.pixels.channels] == NAMES
        assert image.pixels.size_t == TIMES


@pytest.mark.parametrize("way", [(".ome.zarr", ".ome.tif", ".tif"), (".tif", ".ome.zarr", ".ome.tif")])
def test_names_and_sizes_survive_a_way_through_all_formats(cells, tmp_path, way):
    """Each result is made a stack again (twice the same plane), and fused into the next format."""
    source, options = cells, {"position": "1", "time": "2"}
    for number, ending in enumerate(way):
        output = tmp_path / f"step{number}{ending}"
        allfocus.fuse_files(source, output, method="depth-map", align=False, **options)
        held = allfocus.open_stack_file(output).positions[0]
        assert [channel.name for channel in held.channels] == NAMES
        assert [channel.colour for channel in held.channels] == ["#0000ff", "#00ff00", "#ff0000", "#ffffff"]
        assert held.pixel_size == pytest.approx(PIXEL)
        assert held.z_step == pytest.approx(STEP)
        source, options = as_stack(output, tmp_path / f"stack{number}{ending}", held), {}


def as_stack(fused, path, held):
    """A stack of three planes in the format of a fused file, with what that says about itself."""
    from allfocus.images.calibrated_files import FusedPlanes, encode_imagej, encode_ome_tiff, write_ome_zarr
    from allfocus.images.ome_xml import FusedFrom
    from allfocus.images.stack_reader import StackReader

    found = allfocus.open_stack_file(fused)
    layers = []
    for channel in range(len(held.channels)):
        frame = found.frames(0, 0, channel)[0]
        pixels = StackReader([frame, frame]).read(0).pixels
        layers.append(np.rint(pixels * 65535).astype(np.uint16))
    if path.name.endswith(".zarr"):
        group = zarr.open_group(str(path), mode="w")
        samples = np.stack([np.stack(layers)] * 3, axis=1)
        group.create_array("0", shape=samples.shape, dtype=samples.dtype, chunks=(1, 1, *SIZE))[:] = samples
        attributes = json.loads(json.dumps(dict(zarr.open_group(str(fused), mode="r").attrs)))
        multiscale = attributes["ome"]["multiscales"][0]
        axes = {axis["name"]: axis for axis in multiscale["axes"]}
        space = {"type": "space", "unit": "micrometer"}
        multiscale["axes"] = [axes["c"], {"name": "z", **space}, axes["y"], axes["x"]]
        scale = [1.0, STEP, *PIXEL]
        multiscale["datasets"] = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": scale}]}]
        group.attrs.update(attributes)
        return path
    if path.name.endswith(".ome.tif"):
        tifffile.imwrite(path, np.stack([np.stack(layers)] * 3, axis=1), ome=True, metadata=told(axes="CZYX"))
        return path
    del encode_ome_tiff, write_ome_zarr
    # ImageJ counts planes where we count times.
    three = dataclasses.replace(held, times=3)
    planes = FusedPlanes((three,), lambda position, time, channel: layers[channel], FusedFrom("", 3), "test")
    path.write_bytes(encode_imagej(planes))
    text = path.read_bytes().replace(b"frames=3", b"slices=3")
    path.write_bytes(text)
    return path


def test_the_command_shows_what_a_file_holds(cells, capsys):
    assert run(["info", str(cells)]) == 0
    shown = capsys.readouterr().out
    for words in (
        "OME-TIFF",
        "positions: 2 (field 1, field 2)",
        "planes: 20, 1.5",
        "times: 3",
        "3: Texas Red, #ff0000",
    ):
        assert words in shown
    assert "pixels: 64 x 48, uint16, 0.3 x 0.25" in shown
    assert run(["info", str(cells), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["positions"][1]["channels"][0] == {
        **{"name": "DAPI", "colour": "#0000ff", "excitation": None, "emission": None, "fluor": ""},
    }
    assert content["positions"][1]["z_step"] == STEP


def test_what_is_not_said_or_cannot_be_is_an_error_with_a_code(cells, tmp_path):
    one = {"position": "1", "time": "1"}
    for changes, output, code in (
        ({}, "a.ome.tif", "several-stacks"),
        ({"position": "1"}, "a.ome.tif", "several-stacks"),
        ({**one, "time": "9"}, "a.ome.tif", "no-such-plane"),
        ({**one, "channels": "mCherry"}, "a.ome.tif", "no-such-plane"),
        ({**one, "decide_by": "mCherry"}, "a.ome.tif", "no-such-plane"),
        (one, "a.png", "unwritable-format"),
        ({**one, "position": "all"}, "a.tif", "unwritable-format"),
        ({**one, "method": "average"}, "a.ome.tif", "method-cannot"),
        ({**one, "slabs": (4, 1)}, "a.ome.tif", "bad-option"),
        ({**one, "report": tmp_path / "a.html"}, "a.ome.tif", "bad-option"),
        ({**one, "time": "all", "depth_map": tmp_path / "d.png"}, "a.ome.tif", "unwritable-format"),
        ({**one, "time": "all", "check_map": tmp_path / "c.ome.tif"}, "a.ome.tif", "bad-option"),
        ({**one, "decide_by": "each", "depth_map": tmp_path / "d.png"}, "a.ome.tif", "method-cannot"),
    ):
        with pytest.raises(allfocus.AllfocusError) as caught:
            allfocus.fuse_files(cells, tmp_path / output, **changes)
        assert caught.value.code == code, (changes, caught.value)
        assert not list(tmp_path.iterdir())


def test_a_rehearsal_tells_stacks_and_channels_and_refuses_what_the_run_would(cells, tmp_path, capsys):
    words = ["fuse", str(cells), "-o", str(tmp_path / "a.ome.tif"), "--position", "1", "--time", "all", "--dry-run"]
    assert run(words) == 0
    shown = capsys.readouterr().out
    assert "the same for each of 3 stacks; channels: DAPI, GFP, Texas Red, Cy5" in shown
    assert "cells.ome.tif plane 20, channel DAPI, time 1, position field 1" in shown
    assert run([*words, "--slab", "4,1"]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["channels", "decide_by", "position", "time"])
def test_plain_pictures_have_no_channels_to_choose(tmp_path, stack_folder, option):
    with pytest.raises(allfocus.InputError, match="plain pictures") as caught:
        allfocus.fuse_files(stack_folder, tmp_path / "a.png", **{option: "DAPI"})
    assert caught.value.code == "bad-option"
    assert not (tmp_path / "a.png").exists()


def test_a_file_of_one_channel_has_none_to_decide_by(tmp_path):
    planes = np.random.default_rng(0).integers(0, 60000, (3, 32, 40), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "one.ome.tif", planes, metadata={"axes": "ZYX"}, ome=True)
    with pytest.raises(allfocus.InputError, match="no channel DAPI to decide by") as caught:
        allfocus.fuse_files(tmp_path / "one.ome.tif", tmp_path / "a.tif", decide_by="DAPI", align=False)
    assert caught.value.code == "bad-option"


@pytest.mark.parametrize("ending", [".ome.tif", ".ome.zarr"])
def test_photos_can_be_written_as_ome_too(tmp_path, stack_folder, ending):
    expected = allfocus.fuse_files(stack_folder, tmp_path / "a.png", method="depth-map")
    allfocus.fuse_files(stack_folder, tmp_path / f"a{ending}", method="depth-map")
    written = allfocus.read_image(tmp_path / "a.png").pixels
    if ending == ".ome.tif":
        found = tifffile.imread(tmp_path / "a.ome.tif") / 255
        assert ome_types.from_tiff(tmp_path / "a.ome.tif").images[0].pixels.size_c == 3
    else:
        found = np.moveaxis(zarr.open_array(str(tmp_path / "a.ome.zarr/0"))[:], 0, -1) / 255
    assert expected.image.shape == found.shape
    assert np.abs(found - written).max() < 1e-6


def test_a_zarr_is_fused_keeps_its_attributes_and_is_never_written_into(cells, tmp_path):
    allfocus.fuse_files(cells, tmp_path / "a.ome.zarr", position="1", time="1", method="depth-map", align=False)
    held = allfocus.open_stack_file(tmp_path / "a.ome.zarr").positions[0]
    stack = as_stack(tmp_path / "a.ome.zarr", tmp_path / "stack.ome.zarr", held)
    zarr.open_group(str(stack), mode="r+").attrs["laboratory"] = "Room 5"
    for output in (stack / "inside.ome.tif", stack):
        with pytest.raises(allfocus.AllfocusError):
            allfocus.fuse_files(stack, output, method="depth-map", overwrite=True)
    allfocus.fuse_files(stack, tmp_path / "b.ome.zarr", method="depth-map", align=False)
    group = zarr.open_group(str(tmp_path / "b.ome.zarr"), mode="r")
    assert group.attrs["laboratory"] == "Room 5"
    first = zarr.open_array(str(tmp_path / "a.ome.zarr/0"))[:]
    assert np.array_equal(zarr.open_array(str(tmp_path / "b.ome.zarr/0"))[:], first)


def test_one_calibrated_channel_as_tiff_is_what_imagej_opens_with_its_scale(cells, tmp_path):
    result = allfocus.fuse_files(cells, tmp_path / "a.tif", position="1", time="1", channels="GFP")
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        assert tiff.imagej_metadata["unit"] == "um"
        assert tiff.imagej_metadata["spacing"] == STEP
        assert tiff.pages[0].resolution == pytest.approx((1 / PIXEL[1], 1 / PIXEL[0]))
        assert np.array_equal(tiff.asarray(), np.rint(result.image * 65535).astype(np.uint16))


def test_floating_point_channels_keep_their_own_units(tmp_path):
    values = render(0)[0, :2, :6].astype(np.float32)
    values[0] = values[0] / 10 - 500
    tifffile.imwrite(tmp_path / "in.ome.tif", values, ome=True, metadata={"axes": "CZYX"})
    allfocus.fuse_files(tmp_path / "in.ome.tif", tmp_path / "out.ome.tif", method="ips-hard", align=False)
    found = tifffile.imread(tmp_path / "out.ome.tif")
    assert found.dtype == np.float32
    for channel in range(2):
        span = np.ptp(values[channel])
        nearest = np.abs(values[channel] - found[channel]).min(axis=0)
        assert float(np.quantile(nearest, 0.99)) < 1e-6 * span


@pytest.mark.parametrize("kind", ["int16", "uint32", "uint8"])
@pytest.mark.parametrize("ending", [".ome.tif", ".ome.zarr"])
def test_integers_of_any_kind_come_back_as_they_were(tmp_path, kind, ending):
    values = (render(0)[0, :2, :4] // 200).astype(kind)
    if kind == "int16":
        values -= 50
    tifffile.imwrite(tmp_path / "in.ome.tif", values, ome=True, metadata={"axes": "CZYX"})
    output = tmp_path / f"out{ending}"
    allfocus.fuse_files(tmp_path / "in.ome.tif", output, method="depth-map", align=False)
    found = tifffile.imread(output) if ending == ".ome.tif" else zarr.open_array(str(output / "0"))[:]
    assert found.dtype == kind
    assert (values.astype(int) == found.astype(int)[:, None]).any(axis=1).all()


def test_depth_and_other_maps_of_several_channels_are_written(cells, tmp_path):
    maps = {name: tmp_path / f"{name}.png" for name in ("depth_map", "confidence_map", "decision_map", "check_map")}
    options = {"position": "1", "time": "1", "decide_by": "DAPI,Cy5"}
    result = allfocus.fuse_files(cells, tmp_path / "a.ome.tif", **options, **maps)
    for path in maps.values():
        assert allfocus.read_image(path).pixels.shape[:2] == SIZE
    assert result.shown.shape == (*SIZE, 3)
    assert result.image.shape == (*SIZE, CHANNELS)


def test_maps_of_a_series_are_a_series_with_sizes_and_units(cells, tmp_path):
    import ome_types
    import zarr

    maps = {"depth_map": tmp_path / "depth.ome.tif", "error_map": tmp_path / "error.ome.zarr"}
    maps["decision_map"] = tmp_path / "decision.ome.tif"
    chosen = {"channels": "DAPI", "align": False}
    result = allfocus.fuse_files(cells, tmp_path / "a.ome.tif", position="all", time="all", **chosen, **maps)
    assert result.outputs.keys() == {"picture", *maps}
    assert not list(tmp_path.glob("*preview*"))
    images = ome_types.from_tiff(tmp_path / "depth.ome.tif").images
    assert [image.name for image in images] == ["field 1", "field 2"]
    assert {image.pixels.channels[0].name for image in images} == {"depth (um)"}
    assert {(image.pixels.size_t, image.pixels.physical_size_x) for image in images} == {(TIMES, PIXEL[1])}
    # Each is what fusing that time and position alone gives.
    place = {"position": "2", "time": "3"}
    allfocus.fuse_files(cells, tmp_path / "one.ome.tif", **place, **chosen, depth_map=tmp_path / "one_depth.tif")
    alone = tifffile.imread(tmp_path / "one_depth.tif")
    with tifffile.TiffFile(tmp_path / "depth.ome.tif") as file:
        found = file.series[1].asarray()
        assert found.dtype == np.float32
        assert np.array_equal(found[2], alone, equal_nan=True)
    assert np.isfinite(alone).any()
    with tifffile.TiffFile(tmp_path / "decision.ome.tif") as file:
        assert file.series[1].shape == (TIMES, *SIZE)
    error = zarr.open_array(str(tmp_path / "error.ome.zarr/1/0"))[:]
    assert np.array_equal(np.isfinite(error[2].squeeze()), np.isfinite(alone))


def test_moved_planes_of_several_channels_are_moved_alike(tmp_path):
    """Every channel of a plane is shifted by the same whole pixels; one of them shows too little to be aligned by."""
    frames = allfocus.render_scene("circuit", frames=4, size=(160, 240)).frames
    planes = np.stack([[np.roll(frame[..., 1], 3 * number, axis=1) for number, frame in enumerate(frames)]] * 2)
    planes[1] = 0.2 + 0.3 * (np.arange(240) == 120)
    for number in range(4):
        planes[1, number] = np.roll(planes[1, number], 3 * number, axis=1)
    pixels = np.rint(planes * 65535).astype(np.uint16)
    tifffile.imwrite(tmp_path / "in.ome.tif", pixels, ome=True, metadata={"axes": "CZYX"})
    result = allfocus.fuse_files(tmp_path / "in.ome.tif", tmp_path / "out.ome.tif", decide_by="1")
    assert not result.alignment.registered
    found = tifffile.imread(tmp_path / "out.ome.tif")
    assert found.shape[0] == 2
    assert found.shape[2] <= 240 - 8
    bright = np.flatnonzero(found[1].mean(axis=0) > 0.3 * 65535)
    assert len(bright) == 1  # the line is in one place again


def test_a_batch_of_files_takes_the_same_options(cells, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/cells.ome.tif").write_bytes(cells.read_bytes())
    options = [
        "--position",
        "2",
        "--time",
        "1",
        "--channels",
        "DAPI,GFP",
        "--decide-by",
        "DAPI",
        "--method",
        "depth-map",
    ]
    words = ["batch", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--by", "file", "--workers", "1", *options]
    assert run([*words, "--format", "ome.tif", "--no-align", "--json"]) == 0
    (found,) = (tmp_path / "out").glob("*.ome.tif")
    read = ome_types.from_tiff(found)
    assert [channel.name for channel in read.images[0].pixels.channels] == NAMES[:2]
    assert read.images[0].name == "field 2"


def test_no_output_lies_in_another_that_is_replaced_as_a_whole(cells, tmp_path):
    options = {"position": "1", "time": "1", "channels": "GFP", "method": "depth-map", "align": False}
    allfocus.fuse_files(cells, tmp_path / "a.ome.zarr", **options)
    before = sorted(path.name for path in (tmp_path / "a.ome.zarr").rglob("*"))
    with pytest.raises(allfocus.InputError, match=r"map\.png: lies in another of the outputs"):
        allfocus.fuse_files(
            cells,
            tmp_path / "a.ome.zarr",
            confidence_map=tmp_path / "a.ome.zarr" / "map.png",
            overwrite=True,
            **options,
        )
    assert sorted(path.name for path in (tmp_path / "a.ome.zarr").rglob("*")) == before
