"""Steps and lengths."""

import struct

import numpy as np
import pytest

from allfocus.depth.units import DepthScale, Length, read_length, scale_of_exif
from allfocus.errors import InputError
from allfocus.images.exif import build_block
from allfocus.images.tiff_directories import Directory
from allfocus.images.tiff_layout import EXIF_DIRECTORY


def exif_of(distance, order="<"):
    entry = (0x9206, 5, 1, struct.pack(f"{order}II", *distance))
    return build_block(Directory([], {EXIF_DIRECTORY: Directory([entry])}), order)


@pytest.mark.parametrize(("text", "metres"), [("2.5um", 2.5e-6), ("0.01 mm", 1e-5), ("1e-5m", 1e-5), ("3µm", 3e-6)])
def test_lengths_are_read_with_their_unit(text, metres):
    assert read_length(text).metres == pytest.approx(metres)


@pytest.mark.parametrize("text", ["", "2.5", "um", "2.5 parsec", "-1um", "0mm", "nanm", "1e999m"])
def test_what_is_no_length_is_refused_with_a_code(text):
    with pytest.raises(InputError) as caught:
        read_length(text)
    assert caught.value.code == "bad-option"


def test_depth_and_error_follow_unequal_frames():
    scale = DepthScale((0.0, 1.0, 4.0), "mm")
    steps = np.array([0.5, 1.5, np.nan], np.float32)
    assert scale.convert(steps)[:2].tolist() == [0.5, 2.5]
    assert np.isnan(scale.convert(steps)[2])
    assert scale.convert_error(np.full(3, 0.1, np.float32), steps)[:2] == pytest.approx([0.1, 0.3])


def test_depth_goes_on_beyond_the_ends():
    scale = DepthScale((0.0, 1.0, 4.0), "mm")
    assert scale.convert(np.array([-0.5, 2.5], np.float32)).tolist() == [-0.5, 5.5]


def test_the_step_is_kept_as_written():
    assert str(read_length("2.50 µm")) == "2.5um"
    assert DepthScale.of_step(Length(2.0, "um"), range(4)).step == 2.0


@pytest.mark.parametrize("order", ["<", ">"])
def test_focus_distances_in_exif_give_places_in_millimetres(order):
    scale = scale_of_exif([exif_of((30, 100), order), exif_of((31, 100), order), exif_of((33, 100), order)])
    assert scale.unit == "mm"
    assert scale.places == pytest.approx((0, 10, 30))


@pytest.mark.parametrize("second", [None, (0, 1), (1, 0), (0xFFFFFFFF, 1), (30, 100)])
def test_exif_that_lacks_a_distance_or_repeats_it_gives_none(second):
    assert scale_of_exif([exif_of((30, 100)), None if second is None else exif_of(second)]) is None
