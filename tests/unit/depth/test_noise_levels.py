"""Noise by brightness, with detail in the way."""

import numpy as np
import pytest

import allfocus
from allfocus.depth.focus_curves import CurveGathering
from allfocus.depth.noise_levels import LEAST_NOISE, measure_noise


def noise_of(scene):
    gathering = CurveGathering(np.zeros(scene.depth.shape, np.int16), frames=len(scene.frames))
    for index, frame in enumerate(scene.frames):
        gathering.add(index, frame)
    brightness = scene.truth.mean(axis=2)
    return measure_noise(brightness.ravel(), gathering.finish().noise.ravel(), least=LEAST_NOISE)


@pytest.mark.parametrize("noise", [0.01, 0.03])
def test_the_noise_of_a_picture_full_of_detail_is_found(noise):
    levels = noise_of(allfocus.render_scene("slope", frames=4, size=(160, 200), noise=noise, seed=3))
    found = float(np.sqrt(levels.at(np.array([0.5], np.float32))[0]))
    assert found == pytest.approx(noise, rel=0.2)


def test_a_picture_without_noise_has_what_rounding_leaves():
    levels = noise_of(allfocus.render_scene("slope", frames=4, size=(160, 200), seed=3))
    assert np.sqrt(max(levels.variance)) < 2 * LEAST_NOISE
