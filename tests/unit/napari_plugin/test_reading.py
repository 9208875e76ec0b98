"""Files of microscopes become layers with names, colours and scale."""

import numpy as np
import pytest
import tifffile

pytest.importorskip("dask", reason="needs the extra batch")

from allfocus.napari_plugin.reading import find_reader, read_layers


@pytest.fixture
def cells(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 65535, (2, 2, 3, 40, 50), np.uint16)
    sizes = {"PhysicalSizeX": 0.3, "PhysicalSizeY": 0.25, "PhysicalSizeZ": 1.5, "TimeIncrement": 10.0}
    units = {f"PhysicalSize{axis}Unit": "\N{MICRO SIGN}m" for axis in "XYZ"}
    channel = {"Channel": {"Name": ["DAPI", "GFP"], "Color": [65535, 16711935]}}
    with tifffile.TiffWriter(tmp_path / "cells.ome.tif", ome=True) as writer:
        for position in range(2):
            about = {"axes": "TCZYX", "Name": f"field {position + 1}", **sizes, **units, **channel}
            writer.write(pixels + position, metadata=about)
    return tmp_path / "cells.ome.tif", pixels


def test_each_channel_of_each_position_is_a_layer_with_scale_and_colour(cells):
    path, pixels = cells
    assert find_reader(str(path)) is read_layers
    layers = read_layers(str(path))
    assert [about["name"] for _, about, _ in layers] == [
        *("field 1, DAPI", "field 1, GFP", "field 2, DAPI", "field 2, GFP"),
    ]
    data, about, kind = layers[3]
    assert (kind, about["rgb"]) == ("image", False)
    assert about["scale"][1:] == (1.5, 0.25, 0.3)
    assert about["units"] == ("second", "micrometer", "micrometer", "micrometer")
    assert np.array_equal(about["colormap"][1][-1], [0, 1, 0, 1])
    assert np.array_equal(np.asarray(data), pixels[:, 1] + 1)


def test_what_is_no_stack_is_left_to_others(tmp_path):
    (tmp_path / "notes.tif").write_text("no picture")
    (tmp_path / "empty").mkdir()
    assert find_reader(str(tmp_path / "notes.tif")) is None
    assert find_reader(str(tmp_path / "empty")) is None
    assert find_reader([str(tmp_path / "a.tif")]) is None
