"""Brightness of frames against each other."""

import numpy as np
import pytest

from allfocus.alignment.brightness import apply_gains, estimate_gains, light_and_slope
from allfocus.scenes.rendering import render_scene
from allfocus.scenes.textures import to_linear_light, to_srgb_curve


def test_light_is_that_of_the_srgb_curve():
    values = np.linspace(0, 1, 256, dtype=np.float32)
    light, slope = light_and_slope(values)
    assert light == pytest.approx(to_linear_light(values), abs=1e-6)
    assert slope[1:-1] == pytest.approx(np.gradient(light.astype(float), values.astype(float))[1:-1], rel=0.03)


def test_a_gain_multiplies_the_light():
    values = np.linspace(0.002, 0.8, 500, dtype=np.float32).reshape(20, 25)
    expected = to_srgb_curve(to_linear_light(values) * np.float32(1.1))
    assert np.abs(apply_gains(values, (1.1,)) - expected).max() < 2e-4


def test_the_gain_of_each_channel_is_found_in_spite_of_blur_and_a_stain():
    scene = render_scene("desk", frames=2, size=(120, 160))
    near, far = (to_linear_light(frame) for frame in scene.frames)
    near[:30, :30] *= 0.2
    found = estimate_gains(near * np.array([0.95, 1.0, 1.08], np.float32), far, np.eye(3))
    assert found.gains == pytest.approx([1 / 0.95, 1.0, 1 / 1.08], rel=0.01)


def test_pictures_that_are_burnt_out_have_no_gain():
    white = np.ones((40, 50), np.float32)
    found = estimate_gains(white, white, np.eye(3))
    assert found.gains.tolist() == [1.0]
    assert np.isinf(found.errors).all()
