"""Any range of values becomes 0..1 and comes back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allfocus.errors import InputError
from allfocus.images.value_range import UNIT, ValueRange, common_range, extremes_of, range_of_arrays

numbers = st.floats(-(2.0**100), 2.0**100, width=32)


@given(values=st.lists(numbers, min_size=1, max_size=40))
def test_what_goes_in_comes_back_within_a_24_bit_step_of_the_range(values):
    frame = np.array([values], np.float32)
    found = range_of_arrays([frame])
    unit = found.to_unit(frame)
    assert unit.dtype == np.float32
    assert unit.min() >= 0
    assert unit.max() <= 1
    span = float(frame.max()) - float(frame.min())
    back = found.from_unit(unit)
    # Half a step of 24 bits inside, and half a step of float32 for the number itself.
    assert (np.abs(back.astype(np.float64) - frame) <= 6e-8 * span + 6e-8 * np.abs(frame) + 1e-44).all()


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16, ">u2", ">i2", "<i2"])
def test_integers_of_up_to_16_bits_come_back_exactly(dtype):
    kind = np.dtype(dtype)
    values = np.arange(np.iinfo(kind).min, np.iinfo(kind).max + 1).astype(kind).reshape(-1, 8)
    found = range_of_arrays([values])
    back = found.from_unit(found.to_unit(values), kind)
    assert back.dtype == kind
    np.testing.assert_array_equal(back, values)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_integers_of_32_bits_keep_24_of_them(dtype):
    values = np.linspace(0, 4e9 if dtype == np.uint32 else 2e9, 4000).astype(dtype)[None]
    found = range_of_arrays([values])
    back = found.from_unit(found.to_unit(values), np.dtype(dtype))
    assert np.abs(back.astype(np.float64) - values).max() <= 6e-8 * float(values.max()) + 0.5


def test_values_within_0_to_1_are_taken_as_they_are():
    frame = np.array([[0.25, 0.75]], np.float32)
    assert range_of_arrays([frame]) == UNIT
    assert UNIT.to_unit(frame) is frame
    assert UNIT.from_unit(frame) is frame


def test_a_little_beyond_0_to_1_loses_nothing():
    frame = np.array([[-0.01, 0.5, 1.02]], np.float32)
    found = range_of_arrays([frame])
    np.testing.assert_allclose(found.from_unit(found.to_unit(frame)), frame, atol=1e-7)


def test_the_range_is_that_of_all_frames_and_only_of_pixels_that_are_there():
    frames = [np.array([[1.0, 7.0]]), np.array([[-9999.0, 40.0]])]
    assert range_of_arrays(frames) == ValueRange(-9999.0, 40.0)
    masks = [np.array([[True, True]]), np.array([[False, True]])]
    assert range_of_arrays(frames, masks) == ValueRange(1.0, 40.0)
    assert extremes_of(frames[1], np.array([[False, False]])) == (0.0, 0.0)


@pytest.mark.parametrize("value", [3000.0, -7.0, 1e30])
def test_a_stack_of_one_value_comes_back(value):
    frame = np.full((2, 2), value, np.float32)
    found = range_of_arrays([frame, frame])
    np.testing.assert_array_equal(found.from_unit(found.to_unit(frame)), frame)


def test_dark_pixels_of_an_hdr_picture_keep_their_digits():
    frame = np.array([[0.0, 1e-4, 0.0123456, 1e5]], np.float32)
    found = range_of_arrays([frame])
    np.testing.assert_allclose(found.from_unit(found.to_unit(frame)), frame, rtol=3e-7)


def test_values_that_are_not_finite_change_no_range_and_are_left_for_those_who_name_the_frame():
    assert common_range([(0.0, 3000.0), (0.0, float("inf"))]) == UNIT
    assert common_range([(float("nan"), float("nan")), (0.0, 3000.0)]) == UNIT


def test_values_too_far_apart_are_refused():
    with pytest.raises(InputError, match=r"from -1\.5e\+308 to 1\.5e\+308"):
        range_of_arrays([np.array([[-1.5e308, 1.5e308]])])


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint64, np.complex64])
def test_types_that_stand_for_no_brightness_are_refused(dtype):
    with pytest.raises(InputError, match=f"frame 1 holds {np.dtype(dtype)}; give uint8, uint16, int8, int16"):
        range_of_arrays([np.zeros((2, 2), dtype)])


def test_frames_of_two_types_are_refused():
    with pytest.raises(InputError, match="frame 2 holds int16 but frame 1 holds uint16"):
        range_of_arrays([np.zeros((2, 2), np.uint16), np.zeros((2, 2), np.int16)])
