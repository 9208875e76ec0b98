"""Motions: their generators, and the pixels they move."""

import numpy as np
import pytest

from allfocus.alignment.transforms import (
    MODELS,
    amounts_of,
    corner_motion,
    corners,
    largest_rectangle,
    mask_of_spans,
    motion_of,
    move_points,
    valid_spans,
    warp_picture,
)


@pytest.mark.parametrize("model", MODELS)
def test_a_motion_gives_back_its_amounts(model):
    amounts = np.zeros(8)
    amounts[: MODELS[model]] = [0.3, -0.2, 0.05, 0.1, -0.03, 0.02, 0.01, -0.02][: MODELS[model]]
    assert amounts_of(motion_of(amounts)) == pytest.approx(amounts, abs=1e-9)


def test_a_rotation_is_a_rotation():
    quarter = motion_of(np.array([0, 0, 0, np.pi / 2]))
    assert move_points(quarter, np.array([[1.0, 0.0]]))[0] == pytest.approx([0, 1], abs=1e-9)


def test_a_whole_pixel_shift_moves_pixels_exactly():
    picture = np.random.default_rng(0).random((30, 40)).astype(np.float32)
    moved = warp_picture(picture, motion_of(np.array([3.0, -2.0])))
    assert np.abs(moved[5:20, 10:30] - picture[7:22, 7:27]).max() < 1e-6


def test_warping_does_not_ring_beside_an_edge():
    edge = np.where(np.arange(64) < 32, 0.2, 0.8).astype(np.float32) * np.ones((40, 1), np.float32)
    moved = warp_picture(edge, motion_of(np.array([0.5, 0.5])))
    assert moved.min() >= np.float32(0.2)
    assert moved.max() <= np.float32(0.8)


def test_warping_keeps_fine_detail():
    rows, columns = np.mgrid[:64, :96].astype(np.float32)

    def waves(shift):
        return (0.5 + 0.4 * np.sin((columns - shift) * 1.2) * np.cos(rows * 0.7)).astype(np.float32)

    moved = warp_picture(waves(0.0), motion_of(np.array([0.25, 0.0])))
    # Only peaks that lie between pixels are cut; linear interpolation would be off by 0.02 everywhere.
    assert np.abs(moved - waves(0.25))[8:-8, 8:-8].mean() < 0.006


def test_colour_is_warped_channel_by_channel():
    picture = np.random.default_rng(1).random((20, 24, 3)).astype(np.float32)
    transform = motion_of(np.array([0.4, 0.3]))
    moved = warp_picture(picture, transform)
    assert np.array_equal(moved[..., 1], warp_picture(picture[..., 1].copy(), transform))


@pytest.mark.parametrize("amounts", [[2.3, 1.2, 0.0], [0.0, 0.0, -0.03], [-1.5, 4.0, 0.02]])
def test_the_valid_pixels_are_those_whose_origin_is_inside(amounts):
    size = (24, 31)
    transform = motion_of(np.array(amounts))
    rows, columns = np.mgrid[: size[0], : size[1]]
    origin = move_points(np.linalg.inv(transform), np.stack([columns.ravel(), rows.ravel()], 1).astype(float))
    expected = (origin >= -1e-6).all(1) & (origin <= np.array([30, 23]) + 1e-6).all(1)
    assert np.array_equal(mask_of_spans(valid_spans(transform, size), size[1]).ravel(), expected)


def test_the_common_rectangle_is_valid_everywhere_and_cannot_grow():
    size = (40, 50)
    spans = [valid_spans(motion_of(np.array(a)), size) for a in ([3.2, -1.1, 0.02, 0.01], [-2.0, 2.0, -0.05, -0.02])]
    valid = np.logical_and.reduce([mask_of_spans(s, size[1]) for s in spans])
    top, left, bottom, right = largest_rectangle(spans)
    assert valid[top:bottom, left:right].all()
    areas = [
        (low - high) * (end - begin)
        for high in range(12)
        for low in range(28, 41)
        for begin in range(15)
        for end in range(35, 51)
        if valid[high:low, begin:end].all()
    ]
    assert (bottom - top) * (right - left) >= max(areas)


def test_pictures_without_common_area_give_an_empty_rectangle():
    assert largest_rectangle([valid_spans(motion_of(np.array([100.0, 0.0])), (20, 20))]) == (0, 0, 0, 0)


def test_corner_motion_takes_the_corner_that_moves_most():
    grow = np.diag([1.1, 1.1, 1.0])
    assert corner_motion(grow, (11, 11)) == pytest.approx(np.hypot(1, 1))
    assert corners((11, 21)).max() == 20
