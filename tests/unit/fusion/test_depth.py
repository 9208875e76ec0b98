"""Depth maps: unsure depth follows sure depth along surfaces, edges stay, and colours are even."""

import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.fusion import depth as depth_module
from allfocus.fusion.depth import colour_depth, smooth_depth
from allfocus.fusion.stack_fusion import fuse
from allfocus.scenes.rendering import render_scene


@pytest.fixture
def two_things():
    """Two flat things side by side, at depths 0.2 and 0.9, each with a sure rim and an unsure middle full of errors."""
    generator = np.random.default_rng(4)
    truth = np.full((96, 128), 0.2, np.float32)
    truth[:, 64:] = 0.9
    guide = np.where(truth > 0.5, np.float32(0.8), np.float32(0.3))
    sure = np.zeros((96, 128), np.float32)
    sure[:8], sure[-8:], sure[:, :8], sure[:, -8:], sure[:, 58:70] = 1, 1, 1, 1, 1
    depth = np.where(sure > 0, truth, generator.random((96, 128), dtype=np.float32))
    return truth, depth, sure, guide


def test_unsure_depth_is_replaced_by_that_of_its_own_surface(two_things):
    truth, depth, sure, guide = two_things
    smooth = smooth_depth(depth, sure, guide, step=0.1)
    assert smooth.dtype == np.float32
    assert np.abs(smooth - truth).max() < 0.05
    assert np.abs(depth - truth).mean() > 0.2


def test_the_edge_between_two_things_stays_one_pixel_wide(two_things):
    _, depth, sure, guide = two_things
    smooth = smooth_depth(depth, sure, guide, step=0.1)
    assert (smooth[:, 63] < 0.25).all()
    assert (smooth[:, 64] > 0.85).all()


def test_an_edge_of_the_picture_stops_depth_where_nothing_is_sure_near_it():
    """The near thing is sure only at its far end; what lies across the edge in the picture is sure too."""
    truth = np.full((64, 128), 0.1, np.float32)
    truth[:, 64:] = 0.8
    sure = np.zeros_like(truth)
    sure[:, :56], sure[:, 100:] = 1, 1
    depth = np.where(sure > 0, truth, np.float32(0.45))
    with_edge = smooth_depth(depth, sure, np.where(truth > 0.5, np.float32(0.9), np.float32(0.1)), step=0.5)
    without = smooth_depth(depth, sure, np.zeros_like(truth), step=0.5)
    assert np.abs(with_edge - truth)[:, 58:70].mean() < 0.7 * np.abs(without - truth)[:, 58:70].mean()


def test_steps_between_neighbouring_frames_become_a_slope_and_larger_steps_stay():
    slope = np.tile(np.linspace(0, 1, 240, dtype=np.float32), (240, 1))
    stairs = np.rint(slope * 5) / np.float32(5)
    sure, guide = np.ones_like(slope), np.full_like(slope, 0.5)
    smooth = smooth_depth(stairs, sure, guide, step=0.2)
    assert np.abs(np.diff(smooth, axis=1)).max() < 0.06
    inside = slice(24, -24)
    assert np.abs(smooth - slope)[:, inside].mean() < 0.7 * np.abs(stairs - slope)[:, inside].mean()
    np.testing.assert_allclose(smooth_depth(stairs, sure, guide, step=0.0), stairs, atol=0.01)


def test_sure_specks_of_a_few_pixels_are_taken_for_errors():
    depth = np.full((64, 64), 0.3, np.float32)
    depth[20:22, 30:33] = 1.0
    depth[40, 10] = 0.0
    smooth = smooth_depth(depth, np.ones_like(depth), np.full_like(depth, 0.5), step=0.1)
    assert np.abs(smooth - 0.3).max() < 0.01


def test_a_rendered_scene_comes_nearer_to_its_truth():
    scene = render_scene("desk", frames=8, size=(240, 320))
    result = fuse(scene.frames)
    smooth = smooth_depth(result.depth, result.confidence, result.image, step=1 / 7)
    # The depth of the scene in the units of the stack, fitted where the result is sure.
    sure = result.confidence > 0.8
    basis = np.stack([1 / scene.depth[sure], np.ones(sure.sum())], axis=1)
    factor, offset = np.linalg.lstsq(basis, result.depth[sure], rcond=None)[0]
    truth = np.clip(factor / scene.depth + offset, 0, 1)
    before, after = np.abs(result.depth - truth).mean(), np.abs(smooth - truth).mean()
    assert after < 0.98 * before


def test_large_pictures_are_smoothed_at_half_scale_with_nearly_the_same_result(monkeypatch, two_things):
    truth, depth, sure, guide = two_things
    monkeypatch.setattr(depth_module, "LARGEST_FULL_SCALE", 1000)
    smooth = smooth_depth(depth, sure, guide, step=0.1)
    assert smooth.shape == truth.shape
    away = np.abs(np.arange(128) - 63.5) > 3
    assert np.abs(smooth - truth)[:, away].max() < 0.06


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (2, 2), (5, 3)])
def test_tiny_pictures_are_no_problem(shape):
    depth = np.full(shape, 0.5, np.float32)
    for sure in (0.0, 1.0):
        smooth = smooth_depth(depth, np.full(shape, sure, np.float32), np.zeros(shape, np.float32))
        np.testing.assert_allclose(smooth, 0.5, atol=1e-5)


def test_maps_of_different_size_are_refused():
    with pytest.raises(InputError, match="one size"):
        smooth_depth(np.zeros((4, 5), np.float32), np.zeros((4, 5), np.float32), np.zeros((5, 4, 3), np.float32))


def test_equal_steps_in_depth_are_about_equal_steps_in_lightness():
    colours = colour_depth(np.linspace(0, 1, 11, dtype=np.float32)[None])
    assert colours.shape == (1, 11, 3)
    luminance = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4) @ [
        0.2126,
        0.7152,
        0.0722,
    ]
    steps = np.diff(116 * np.cbrt(luminance[0]) - 16)
    assert steps.min() > 0.7 * steps.mean()
    assert steps.max() < 1.4 * steps.mean()
