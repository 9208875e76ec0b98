import time

import numpy as np
import pytest

from allfocus.scenes.catalogue import SCENES
from allfocus.scenes.rendering import render_scene


@pytest.fixture(scope="module", params=sorted(SCENES))
def scene(request):
    return render_scene(request.param, frames=5, size=(180, 240))


def test_there_are_the_six_scenes_that_the_documentation_names():
    assert sorted(SCENES) == ["circuit", "desk", "flat", "foliage", "insect", "slope"]
    assert all(name == description.name and description.summary for name, description in SCENES.items())


def test_every_scene_has_detail_colour_and_depth(scene):
    assert scene.truth.std() > 0.05
    assert np.ptp(scene.truth, axis=2).mean() > 0.02
    assert scene.depth.max() > 1.5 * scene.depth.min()
    assert len(np.unique(scene.best_frame)) >= 3


def test_no_single_frame_is_sharp_everywhere(scene):
    for frame in scene.frames:
        assert np.abs(frame - scene.truth).max() > 0.2


def test_a_frame_is_closer_to_the_truth_where_it_is_the_best_one(scene):
    for number, frame in enumerate(scene.frames):
        here = scene.best_frame == number
        if here.mean() < 0.01:
            continue
        mean_error = np.abs(frame - scene.truth).mean(axis=2)
        others = np.mean([np.abs(other - scene.truth).mean(axis=2)[here].mean() for other in scene.frames])
        assert mean_error[here].mean() < others


def test_only_the_slope_has_no_jump_in_depth(scene):
    jump = np.abs(np.diff(1 / scene.depth, axis=0)).max()

    assert (jump < 0.02) == (scene.name == "slope")


def test_flat_is_mostly_without_texture():
    truth = render_scene("flat", frames=1, size=(180, 240)).truth.mean(axis=2)
    steps = np.abs(np.diff(truth, axis=1))

    assert np.mean(steps < 2.5 / 255) > 0.75


@pytest.mark.parametrize("size", [(200, 64), (64, 260)])
@pytest.mark.parametrize("name", sorted(SCENES))
def test_tall_and_wide_pictures_work(name, size):
    scene = render_scene(name, frames=2, size=size)

    assert scene.truth.shape == (*size, 3)
    assert (scene.depth > 0).all()


def test_the_demo_renders_in_a_few_seconds():
    start = time.process_time()
    render_scene("desk", frames=8, size=(480, 640))

    # About 1 s on one core; the limit leaves room for slow and busy machines.
    assert time.process_time() - start < 10
