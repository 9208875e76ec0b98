"""OME-TIFF, OME-Zarr and ImageJ's TIFF as other programs read them: pixels, sizes, names, dates."""

import dataclasses
import datetime

import numpy as np
import pytest
import tifffile
from PIL import Image as PillowImage

import allfocus
from allfocus.images.calibrated_files import (
    FusedPlanes,
    check_zarr_output,
    encode_imagej,
    encode_ome_tiff,
    write_ome_zarr,
)
from allfocus.images.dimensions import Channel, Dimensions, ObjectiveLens
from allfocus.images.ome_xml import describe_result
from allfocus.images.stack_file import open_stack_file

ome_types = pytest.importorskip("ome_types", reason="needs the extra dev")
zarr = pytest.importorskip("zarr", reason="needs the extra batch")

STACK = Dimensions(
    "well A1",
    (40, 50),
    "uint16",
    planes=20,
    times=3,
    channels=(
        Channel("DAPI", "#0000ff", 358.0, 461.0),
        Channel("GFP \N{GREEK SMALL LETTER ALPHA}", "#00ff00", fluor="EGFP"),
    ),
    pixel_size=(0.25, 0.26),
    z_step=1.5,
    time_step=60.0,
    acquired="2024-01-02T03:04:05",
    objective=ObjectiveLens("Plan-Apochromat", "Zeiss", 63.0, 1.4, "Oil"),
)
HISTORY = "fused by allfocus from 20 planes"


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 4000, (2, 3, 2, 40, 50)).astype(np.uint16)


def fused(pixels, stack=STACK, positions=1):
    held, origin = describe_result(stack, HISTORY)
    every = tuple(dataclasses.replace(held, name=f"well A{number + 1}") for number in range(positions))
    return FusedPlanes(every, lambda position, time, channel: pixels[position, time, channel], origin, "allfocus test")


def test_ome_types_reads_names_sizes_date_and_objective_of_an_ome_tiff(tmp_path, pixels):
    path = tmp_path / "a.ome.tif"
    path.write_bytes(encode_ome_tiff(fused(pixels, positions=2)))
    with PillowImage.open(path) as picture:  # another library finds the same description
        text = picture.tag_v2[270]
    # Checked against the schema's types; unknown elements and attributes are errors.
    read = ome_types.from_xml(text.encode("latin-1").decode() if "\xc2" in text else text)
    assert [image.name for image in read.images] == ["well A1", "well A2"]
    image = read.images[1]
    assert image.acquisition_date.replace(tzinfo=None) == datetime.datetime(2024, 1, 2, 3, 4, 5)
    assert (image.pixels.physical_size_x, image.pixels.physical_size_y, image.pixels.physical_size_z) == (
        0.26,
        0.25,
        1.5,
    )
    assert image.pixels.physical_size_x_unit.value == "\N{MICRO SIGN}m"
    assert (image.pixels.size_t, image.pixels.size_c, image.pixels.size_z) == (3, 2, 1)
    assert image.pixels.time_increment == 60
    assert [channel.name for channel in image.pixels.channels] == [channel.name for channel in STACK.channels]
    assert image.pixels.channels[0].color.as_rgb_tuple(alpha=False) == (0, 0, 255)
    assert (image.pixels.channels[0].excitation_wavelength, image.pixels.channels[0].emission_wavelength) == (358, 461)
    lens = read.instruments[1].objectives[0]
    assert (lens.model, lens.nominal_magnification, lens.lens_na, lens.immersion.value) == (
        "Plan-Apochromat",
        63,
        1.4,
        "Oil",
    )
    assert image.objective_settings.id == lens.id
    notes = {each.k: each.value for each in read.structured_annotations[0].value.ms}
    assert notes["history"] == HISTORY
    assert notes["z range in micrometres"] == "0.0 to 28.5"
    with tifffile.TiffFile(path) as tiff:
        assert [series.axes for series in tiff.series] == ["TCYX", "TCYX"]
        assert all(np.array_equal(series.asarray(), own) for series, own in zip(tiff.series, pixels, strict=True))


def test_a_date_that_the_schema_does_not_know_is_left_out_and_odd_names_are_kept(tmp_path, pixels):
    odd = dataclasses.replace(STACK, acquired="yesterday", channels=(Channel('<&"\x00\x01>'), Channel("2")))
    (tmp_path / "a.ome.tif").write_bytes(encode_ome_tiff(fused(pixels, odd)))
    read = ome_types.from_tiff(tmp_path / "a.ome.tif")
    assert read.images[0].acquisition_date is None
    assert read.images[0].pixels.channels[0].name == '<&">'


def test_pillow_reads_what_imagej_looks_for(tmp_path, pixels):
    """ImageJ takes the first lines of the description and the resolution; Pillow shows both as they are stored."""
    path = tmp_path / "a.tif"
    path.write_bytes(encode_imagej(fused(pixels)))
    with PillowImage.open(path) as picture:
        description, across, down = (picture.tag_v2[tag] for tag in (270, 282, 283))
        assert picture.n_frames == 6
        picture.seek(3)
        assert np.array_equal(np.asarray(picture), pixels[0, 1, 1])
    lines = dict(line.split("=", 1) for line in description.split("\n") if "=" in line)
    assert lines["ImageJ"]
    told = {
        name: lines.get(name) for name in ("channels", "frames", "hyperstack", "unit", "spacing", "finterval", "mode")
    }
    assert told == {
        **{"channels": "2", "frames": "3", "hyperstack": "true", "unit": "um", "mode": "composite"},
        **{"spacing": "1.5", "finterval": "60.0"},
    }
    assert (1 / float(across), 1 / float(down)) == pytest.approx((0.26, 0.25))


def test_ome_zarr_validates_and_another_reader_gives_its_pixels_and_sizes(tmp_path, pixels):
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader
    from ome_zarr_models.v05 import Image

    write_ome_zarr(fused(pixels), tmp_path / "a.ome.zarr", name="a")
    checked = Image.from_zarr(zarr.open_group(str(tmp_path / "a.ome.zarr"), mode="r"))
    multiscale = checked.ome_attributes.multiscales[0]
    assert [(axis.name, axis.unit) for axis in multiscale.axes] == [
        *(("t", "second"), ("c", None), ("y", "micrometer"), ("x", "micrometer")),
    ]
    assert multiscale.datasets[0].coordinateTransformations[0].scale == [60.0, 1.0, 0.25, 0.26]
    node = next(iter(Reader(parse_url(str(tmp_path / "a.ome.zarr")))()))
    assert np.array_equal(np.asarray(node.data[0]), pixels[0])
    assert node.metadata["channel_names"] == [channel.name for channel in STACK.channels]


def test_several_positions_of_an_ome_zarr_are_valid_images_each(tmp_path, pixels):
    from ome_zarr_models.v05 import Image

    write_ome_zarr(fused(pixels, positions=2), tmp_path / "a.ome.zarr", name="a")
    for number in range(2):
        Image.from_zarr(zarr.open_group(str(tmp_path / "a.ome.zarr" / str(number)), mode="r"))
        assert np.array_equal(zarr.open_array(str(tmp_path / f"a.ome.zarr/{number}/0"))[:], pixels[number])


@pytest.mark.parametrize("ending", [".ome.tif", ".tif", ".ome.zarr"])
def test_what_is_written_reads_back(tmp_path, pixels, ending):
    path = tmp_path / f"a{ending}"
    if ending == ".ome.zarr":
        write_ome_zarr(fused(pixels), path, name="a")
    else:
        path.write_bytes((encode_ome_tiff if ending == ".ome.tif" else encode_imagej)(fused(pixels)))
    held = open_stack_file(path).positions[0]
    for name in ("size", "dtype", "times", "pixel_size", "z_step", "time_step"):
        assert getattr(held, name) == pytest.approx(getattr(STACK, name)), name
    assert held.planes == 1
    assert [(own.name, own.colour) for own in held.channels] == [(own.name, own.colour) for own in STACK.channels]
    if ending != ".tif":  # ImageJ has only a free text for them
        assert (held.acquired, held.objective, held.name) == (STACK.acquired, STACK.objective, STACK.name)


def test_colour_floating_point_and_eight_bits_are_kept(tmp_path):
    rng = np.random.default_rng(1)
    for dtype, samples in (("uint8", 3), ("float32", 1), ("uint8", 1), ("uint16", 3)):
        pixels = (rng.random((40, 50, 3)[: 2 + samples // 3]) * 250).astype(dtype)
        held = Dimensions("1", (40, 50), dtype, planes=5, samples=samples, pixel_size=(0.5, 0.5))
        described, origin = describe_result(held, HISTORY)
        planes = FusedPlanes((described,), lambda *_, pixels=pixels: pixels, origin, "test")
        (tmp_path / "a.ome.tif").write_bytes(encode_ome_tiff(planes))
        assert np.array_equal(tifffile.imread(tmp_path / "a.ome.tif"), pixels)
        assert ome_types.from_tiff(tmp_path / "a.ome.tif").images[0].pixels.size_c == samples
        if (dtype, samples) == ("uint16", 3):
            with pytest.raises(allfocus.OutputError, match="colour pictures of 8 bits") as caught:
                encode_imagej(planes)
            assert caught.value.code == "unwritable-format"
            continue
        (tmp_path / "a.tif").write_bytes(encode_imagej(planes))
        assert np.array_equal(tifffile.imread(tmp_path / "a.tif"), pixels)


def test_a_folder_that_is_no_zarr_or_holds_something_else_is_not_replaced(tmp_path, pixels):
    target = tmp_path / "a.zarr"
    target.mkdir()
    (target / "thesis.txt").write_text("years of work")
    with pytest.raises(allfocus.OutputError, match="no Zarr"):
        check_zarr_output(target, overwrite=True)
    (target / "thesis.txt").unlink()
    target.rmdir()
    write_ome_zarr(fused(pixels), target, name="a")
    with pytest.raises(allfocus.OutputError, match="exists already"):
        check_zarr_output(target, overwrite=False)
    check_zarr_output(target, overwrite=True)
    (target / "thesis.txt").write_text("years of work")
    with pytest.raises(allfocus.OutputError, match=r"holds thesis\.txt"):
        check_zarr_output(target, overwrite=True)
