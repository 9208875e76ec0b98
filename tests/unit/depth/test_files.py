"""Depth maps written and read back, by us and by others."""

import numpy as np
import pytest
import tifffile

from allfocus.depth.files import encode_depth, read_depth
from allfocus.depth.units import Length
from allfocus.errors import InputError

DEPTH = np.array([[0, 0.25, np.nan], [0.5, 0.75, 1]], np.float32)


def written(folder, name, depth=DEPTH, **options):
    path = folder / name
    path.write_bytes(encode_depth(depth, path, **options))
    return path


def test_tiff_keeps_values_holes_and_calibration(tmp_path):
    path = written(tmp_path, "depth.tif", DEPTH * 10, unit="um", pixel_size=Length(0.8, "um"))
    back = read_depth(path)
    assert np.array_equal(back.values, DEPTH * 10, equal_nan=True)
    assert back.unit == "um"
    assert back.pixel_size.metres == pytest.approx(0.8e-6)
    with tifffile.TiffFile(path) as file:
        assert file.is_imagej
        assert file.imagej_metadata["unit"] == "um"
        assert file.imagej_metadata["vunit"] == "um"
        above, below = file.pages[0].tags["XResolution"].value
        assert below / above == pytest.approx(0.8)


def test_png_has_16_bits_and_is_transparent_where_nothing_was_measured(tmp_path):
    path = written(tmp_path, "depth.png", unit="step")
    back = read_depth(path)
    assert back.unit == "fraction"
    assert np.allclose(back.values, DEPTH, atol=1e-4, equal_nan=True)
    assert path.read_bytes()[24:26] == bytes([16, 4])  # of its header: 16 bits, grey with alpha


def test_depth_without_holes_is_plain_grey(tmp_path):
    path = written(tmp_path, "depth.png", np.nan_to_num(DEPTH), unit="step")
    assert path.read_bytes()[24:26] == bytes([16, 0])


def test_a_float_tiff_without_a_unit_is_no_depth_map(tmp_path):
    tifffile.imwrite(tmp_path / "x.tif", np.full((4, 4), 7, np.float32))
    with pytest.raises(InputError) as caught:
        read_depth(tmp_path / "x.tif")
    assert caught.value.code == "unsupported-picture"
