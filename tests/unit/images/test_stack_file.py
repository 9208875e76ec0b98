"""What files of microscopes hold: positions, times, channels, planes, sizes and names, in every format that is read."""

import itertools
import json

import numpy as np
import pytest
import tifffile

import allfocus
from allfocus.images.dimensions import Channel, ObjectiveLens
from allfocus.images.stack_file import as_colour, open_stack_file
from allfocus.images.stack_reader import StackReader

zarr = pytest.importorskip("zarr", reason="needs the extra batch")

NAMES = ("DAPI", "GFP", "Texas Red", "Cy5")
COLOURS = ("#0000ff", "#00ff00", "#ff0000", "#ffffff")
SHAPE = (3, 4, 5, 12, 16)
"""Times, channels, planes, rows, columns."""
OME_XML = """<?xml version="1.0" encoding="UTF-8"?>
<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">
  <Instrument ID="Instrument:0"><Objective ID="Objective:0" Manufacturer="Zeiss" Model="Plan-Apochromat"
    NominalMagnification="63" LensNA="1.4" Immersion="Oil"/></Instrument>
  <Image ID="Image:0" Name="well A1">
    <AcquisitionDate>2021-03-04T05:06:07</AcquisitionDate>
    <ObjectiveSettings ID="Objective:0"/>
    <Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint16" SizeX="16" SizeY="12" SizeZ="2" SizeC="2" SizeT="1"
      PhysicalSizeX="108" PhysicalSizeXUnit="nm" PhysicalSizeY="0.000108" PhysicalSizeYUnit="mm" PhysicalSizeZ="0.5">
      <Channel ID="Channel:0:0" Name="DAPI" SamplesPerPixel="1" Color="65535" EmissionWavelength="461"/>
      <Channel ID="Channel:0:1" Fluor="EGFP" SamplesPerPixel="1" ExcitationWavelength="0.488"
        ExcitationWavelengthUnit="\N{MICRO SIGN}m"/>
      <TiffData IFD="0" PlaneCount="4"/>
      <Plane TheZ="0" TheT="0" TheC="0" PositionZ="10" PositionZUnit="\N{MICRO SIGN}m"/>
      <Plane TheZ="1" TheT="0" TheC="0" PositionZ="10.5" PositionZUnit="\N{MICRO SIGN}m"/>
    </Pixels>
  </Image>
</OME>"""


def counted(shape=SHAPE, first=0):
    """Planes each of which has a value of its own."""
    planes = np.arange(first, first + int(np.prod(shape[:-2])), dtype=np.uint16)
    return np.broadcast_to(planes.reshape(*shape[:-2], 1, 1), shape).copy()


def plane_values(found, position, time, channel):
    """The one value of each plane, read through the frames."""
    reader = StackReader(found.frames(position, time, channel))
    return [round(float(image.pixels[0, 0]) * 65535) for image in reader]


def write_ome(path, positions=2, axes="TCZYX"):
    order = ["TCZYX".index(axis) for axis in axes]
    with tifffile.TiffWriter(path, ome=True) as writer:
        for number in range(positions):
            colours = [65535, 16711935, -16776961, -1]
            told = {
                "axes": axes,
                "Name": f"field {number}",
                "PhysicalSizeX": 0.25,
                "PhysicalSizeY": 300,
                "TimeIncrement": 2,
            }
            told |= {"PhysicalSizeXUnit": "\N{MICRO SIGN}m", "PhysicalSizeYUnit": "nm", "TimeIncrementUnit": "min"}
            told |= {"PhysicalSizeZ": 1.5, "Channel": {"Name": list(NAMES), "Color": colours}}
            writer.write(counted(first=1000 * number).transpose(order), metadata=told)
    return path


def write_ome_zarr(path, pixels, axes, *, zarr_format=3, channels=NAMES, unit="micrometer", name="cells"):
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    separator = {"name": "default" if zarr_format == 3 else "v2", "separator": "/"}
    # A fill value that no plane has: planes of it would not be stored at all.
    array = group.create_array(
        "0", shape=pixels.shape, dtype=pixels.dtype, chunks=pixels.shape, chunk_key_encoding=separator, fill_value=60000
    )
    array[:] = pixels
    kinds = {"t": {"type": "time", "unit": "second"}, "c": {"type": "channel"}}
    scales = {"t": 30.0, "c": 1.0, "z": 0.7, "y": 0.2, "x": 0.1}
    multiscale = {
        "name": name,
        "axes": [{"name": axis, **kinds.get(axis, {"type": "space", "unit": unit})} for axis in axes],
        "datasets": [
            {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [scales[axis] for axis in axes]}]}
        ],
    }
    window = {"min": 0, "max": 65535, "start": 0, "end": 1000}
    shown = [
        {"label": own, "color": colour[1:].upper(), "window": window}
        for own, colour in zip(channels, COLOURS, strict=False)
    ]
    content = {"multiscales": [multiscale], "omero": {"channels": shown}}
    if zarr_format == 3:
        group.attrs.update({"ome": {"version": "0.5", **content}})
    else:
        multiscale["version"] = "0.4"
        group.attrs.update(content)
    return path


@pytest.mark.parametrize("axes", ["TCZYX", "ZTCYX", "CZTYX"])
def test_ome_tiff_tells_positions_times_channels_and_sizes_in_any_order_of_its_planes(tmp_path, axes):
    found = open_stack_file(write_ome(tmp_path / "a.ome.tif", axes=axes))
    assert found.kind == "OME-TIFF"
    assert [held.name for held in found.positions] == ["field 0", "field 1"]
    for held in found.positions:
        assert (held.times, len(held.channels), held.planes, held.size, held.dtype) == (3, 4, 5, (12, 16), "uint16")
        assert held.pixel_size == pytest.approx((0.3, 0.25))
        assert held.z_step == 1.5
        assert held.time_step == 120
        assert [channel.name for channel in held.channels] == list(NAMES)
        assert [channel.colour for channel in held.channels] == list(COLOURS)
    for position, time, channel in itertools.product(range(2), range(3), range(4)):
        expected = (1000 * position + counted())[time, channel, :, 0, 0]
        assert plane_values(found, position, time, channel) == expected.tolist()


def test_ome_xml_tells_date_objective_z_range_and_light(tmp_path):
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, counted((4, 12, 16)), description=OME_XML.encode(), metadata=None, photometric="minisblack")
    held = open_stack_file(path).positions[0]
    assert held.name == "well A1"
    assert held.acquired == "2021-03-04T05:06:07"
    assert held.objective == ObjectiveLens("Plan-Apochromat", "Zeiss", 63.0, 1.4, "Oil")
    assert held.pixel_size == pytest.approx((0.108, 0.108))
    assert held.z_range == (10.0, 10.5)
    assert held.channels[0] == Channel("DAPI", "#0000ff", emission=461.0)
    assert held.channels[1].name == "EGFP"
    assert held.channels[1].excitation == pytest.approx(488)


def test_imagej_hyperstack_tells_channels_times_and_sizes(tmp_path):
    path = tmp_path / "a.tif"
    table = [
        np.stack([np.arange(256) * int(colour[k : k + 2] == "ff") for k in (1, 3, 5)]).astype(np.uint8)
        for colour in COLOURS
    ]
    told = {"axes": "TZCYX", "unit": "nm", "spacing": 1500, "finterval": 2.5, "Labels": list(NAMES) * 15, "LUTs": table}
    tifffile.imwrite(path, counted().transpose(0, 2, 1, 3, 4), imagej=True, resolution=(0.004, 0.005), metadata=told)
    found = open_stack_file(path)
    held = found.positions[0]
    assert found.kind == "ImageJ TIFF"
    assert (held.times, held.planes, held.time_step, held.z_step) == (3, 5, 2.5, 1.5)
    assert held.pixel_size == pytest.approx((0.2, 0.25))
    assert [(channel.name, channel.colour) for channel in held.channels] == list(zip(NAMES, COLOURS, strict=True))
    assert plane_values(found, 0, 2, 1) == counted()[2, 1, :, 0, 0].tolist()


@pytest.mark.parametrize(("axes", "zarr_format"), [("tczyx", 2), ("tczyx", 3), ("zcyx", 3)])
def test_ome_zarr_tells_what_it_holds_in_both_versions(tmp_path, axes, zarr_format):
    pixels = counted() if "t" in axes else counted()[0].transpose(1, 0, 2, 3)
    found = open_stack_file(write_ome_zarr(tmp_path / "a.ome.zarr", pixels, axes, zarr_format=zarr_format))
    held = found.positions[0]
    assert found.kind == ("OME-Zarr 0.5" if zarr_format == 3 else "OME-Zarr 0.4")
    assert (held.times, len(held.channels), held.planes) == (3 if "t" in axes else 1, 4, 5)
    assert held.pixel_size == pytest.approx((0.2, 0.1))
    assert held.z_step == pytest.approx(0.7)
    assert held.time_step == (30 if "t" in axes else None)
    assert [(channel.name, channel.colour) for channel in held.channels] == list(zip(NAMES, COLOURS, strict=True))
    time = held.times - 1
    assert plane_values(found, 0, time, 3) == counted()[time, 3, :, 0, 0].tolist()


def test_series_of_a_converter_and_fields_of_a_plate_are_positions(tmp_path):
    zarr.open_group(str(tmp_path / "b.zarr"), mode="w").attrs.update({"bioformats2raw.layout": 3})
    for number in range(2):
        write_ome_zarr(
            tmp_path / f"b.zarr/{number}", counted((2, 5, 12, 16), 100 * number), "czyx", name=f"scene {number}"
        )
    series = open_stack_file(tmp_path / "b.zarr")
    assert [held.name for held in series.positions] == ["scene 0", "scene 1"]
    assert plane_values(series, 1, 0, 1) == [105, 106, 107, 108, 109]

    wells = {"plate": {"wells": [{"path": "A/1"}, {"path": "B/2"}]}}
    zarr.open_group(str(tmp_path / "p.zarr"), mode="w").attrs.update(wells)
    for number, well in enumerate(("A/1", "B/2")):
        zarr.open_group(str(tmp_path / "p.zarr" / well), mode="w").attrs.update({"well": {"images": [{"path": "0"}]}})
        write_ome_zarr(tmp_path / "p.zarr" / well / "0", counted((5, 12, 16), 100 * number), "zyx", name="/")
    plate = open_stack_file(tmp_path / "p.zarr")
    assert [held.name for held in plate.positions] == ["A/1/0", "B/2/0"]
    assert plane_values(plate, 1, 0, 0) == [100, 101, 102, 103, 104]


def test_a_plate_whose_paths_lead_out_of_it_is_refused(tmp_path):
    attributes = {"plate": {"wells": [{"path": "../../etc"}]}}
    zarr.open_group(str(tmp_path / "p.zarr"), mode="w").attrs.update(attributes)
    with pytest.raises(allfocus.InputError, match="not plain paths"):
        open_stack_file(tmp_path / "p.zarr")


def test_three_channels_in_red_green_and_blue_are_a_colour_picture_and_others_are_not(tmp_path):
    colours = open_stack_file(write_ome_zarr(tmp_path / "a.zarr", counted((3, 5, 12, 16)), "czyx"))
    assert as_colour(colours.positions[0]).samples == 1  # blue, green, red
    group = zarr.open_group(str(tmp_path / "a.zarr"), mode="r+")
    attributes = json.loads(json.dumps(dict(group.attrs)))
    attributes["ome"]["omero"]["channels"].reverse()
    attributes["ome"]["omero"]["channels"] = attributes["ome"]["omero"]["channels"][-3:]
    group.attrs.put(attributes)
    found = open_stack_file(tmp_path / "a.zarr")
    assert as_colour(found.positions[0]).samples == 3
    assert StackReader(found.frames(0, 0, None)).read(1).pixels.shape == (12, 16, 3)


def test_names_of_files_tell_times_channels_and_planes(tmp_path):
    for number, (time, channel, plane) in enumerate(itertools.product(range(3), range(2), range(12))):
        pixels = np.full((12, 16), number, np.uint16)
        tifffile.imwrite(tmp_path / f"cells_t{time + 1:02}_c{channel + 1}_z{plane}.tif", pixels)
    found = open_stack_file(tmp_path)
    held = found.positions[0]
    assert (len(found.positions), held.times, len(held.channels), held.planes) == (1, 3, 2, 12)
    assert plane_values(found, 0, 2, 1) == list(range(60, 72))
    (tmp_path / "cells_t02_c1_z5.tif").unlink()
    with pytest.raises(allfocus.InputError, match="there is no t 02, c 1, z 5") as caught:
        open_stack_file(tmp_path)
    assert caught.value.code == "incomplete-stack"


def test_names_that_count_planes_alone_or_nothing_are_one_plain_stack(tmp_path):
    for number in range(3):
        tifffile.imwrite(tmp_path / f"a_z{number}.tif", np.zeros((12, 16), np.uint16))
    assert open_stack_file(tmp_path).is_plain
    tifffile.imwrite(tmp_path / "b.tif", counted((7, 12, 16)), metadata=None)
    pages = open_stack_file(tmp_path / "b.tif")
    assert (pages.kind, pages.positions[0].planes, pages.is_plain) == ("TIFF", 7, True)


def test_what_is_not_there_is_an_error_that_names_what_is(tmp_path):
    found = open_stack_file(write_ome(tmp_path / "a.ome.tif"))
    for asked, call in (
        ("field 9", lambda: found.position_numbers("field 9")),
        ("4", lambda: found.time_numbers(0, "4")),
        ("mCherry", lambda: found.positions[0].choose_channels("DAPI,mCherry")),
    ):
        with pytest.raises(allfocus.InputError, match=asked) as caught:
            call()
        assert caught.value.code == "no-such-plane"
    with pytest.raises(allfocus.InputError, match=r"2 positions \(field 0, field 1\)") as caught:
        found.position_numbers(None)
    assert caught.value.code == "several-stacks"
    assert found.position_numbers("2") == found.position_numbers("FIELD 1") == [1]
    assert found.time_numbers(0, "all") == [0, 1, 2]
    assert found.positions[0].choose_channels("cy5, 1") == [0, 3]


@pytest.mark.parametrize("damage", ["XML", "sizes", "pages"])
def test_a_damaged_description_is_an_error_and_nothing_else(tmp_path, damage):
    text = {
        "XML": OME_XML.replace("</Pixels>", ""),
        "sizes": OME_XML.replace('SizeZ="2"', 'SizeZ="-2"'),
        "pages": OME_XML.replace('SizeZ="2"', 'SizeZ="900"'),
    }[damage]
    path = tmp_path / "a.ome.tif"
    tifffile.imwrite(path, counted((4, 12, 16)), description=text.encode(), metadata=None, photometric="minisblack")
    with pytest.raises(allfocus.InputError, match=r"a\.ome\.tif"):
        open_stack_file(path)
