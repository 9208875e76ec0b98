"""Frames in the form in which they are compared."""

import cv2
import numpy as np
import pytest

from allfocus.alignment.octaves import BLOCK, block_sums, prepare_frame, thumbnail_to_frame, to_working
from allfocus.alignment.transforms import move_points


@pytest.mark.parametrize("scale", [0.5, 0.25, 0.2])
def test_a_reduced_pixel_lies_in_the_middle_of_the_area_it_stands_for(scale):
    # Each value is its own column, so an area average is the column that the reduced pixel stands for.
    columns = np.tile(np.arange(200, dtype=np.float32), (80, 1))
    reduced = cv2.resize(columns, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    middle = reduced.shape[1] // 2
    there = move_points(to_working(scale), np.array([[float(reduced[10, middle]), 0.0]]))
    assert there[0, 0] == pytest.approx(middle, abs=1e-3)
    back = move_points(thumbnail_to_frame(scale), there)
    assert back[0, 0] == pytest.approx(float(reduced[10, middle]), abs=1e-3)


def test_a_reduced_frame_knows_where_its_pixels_are():
    frame = np.zeros((400, 600), np.float32)
    frame[200:, 300:] = 0.8  # the edge lies at 199.5, 299.5
    prepared = prepare_frame(frame, working_pixels=24_000)
    assert prepared.scale == pytest.approx(1 / np.sqrt(10))
    # Between the dark and the light half of the band is the edge.
    row = prepared.bands[0][-30]
    near = int(np.argmax(row)) - np.arange(6)
    crossing = np.interp(0.0, row[near][::-1], near[::-1]) if row[near[-1]] < 0 else np.nan
    expected = move_points(to_working(prepared.scale), np.array([[299.5, 0.0]]))[0, 0]
    assert crossing == pytest.approx(expected, abs=0.12)


def test_block_sums_drop_what_does_not_fill_a_block():
    plane = np.ones((BLOCK * 2 + 5, BLOCK * 3 + 1), np.float32)
    assert block_sums(plane).shape == (2, 3)
    assert np.allclose(block_sums(plane), BLOCK * BLOCK)


def test_the_steps_of_an_eight_bit_file_are_no_detail():
    ramp = np.tile(np.linspace(0.3, 0.4, 400, dtype=np.float32), (300, 1))
    ramp[:40, :40] += np.random.default_rng(0).random((40, 40)).astype(np.float32) * 0.3
    stepped = np.rint(ramp * 255).astype(np.float32) / np.float32(255)
    outlines = prepare_frame(stepped)
    assert np.abs(outlines.octaves[0][100:-20, 100:-20]).max() < 0.5
    assert outlines.noises[0].mean() > 1000 * prepare_frame(ramp).noises[0][8:, 8:].mean()
