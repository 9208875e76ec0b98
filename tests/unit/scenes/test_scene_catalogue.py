import time

import cv2
import numpy as np
import pytest

from allfocus.scenes.catalogue import SCENES
from allfocus.scenes.compositing import visible_thin_things
from allfocus.scenes.layers import Sprite, Stage
from allfocus.scenes.rendering import render_scene


@pytest.fixture(scope="module", params=sorted(SCENES))
def scene(request):
    return render_scene(request.param, frames=5, size=(180, 240))


def test_there_are_the_seven_scenes_that_the_documentation_names():
    assert sorted(SCENES) == ["circuit", "desk", "flat", "foliage", "insect", "legs", "slope"]
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


def test_the_legs_are_thin_lie_at_many_depths_and_over_bright_even_ground():
    scene = render_scene("legs", frames=40, size=(300, 400))
    assert 0.005 < scene.thin_things.mean() < 0.1
    assert len(np.unique(scene.best_frame[scene.thin_things])) > 20
    ground = (scene.depth > 1.99) & ~scene.thin_things
    assert ground.mean() > 0.8
    assert scene.truth[ground].mean() > 0.75
    # Even: away from what is drawn over it, a pixel differs from those around it by a few levels at most.
    inside = cv2.erode(ground.astype(np.uint8), np.ones((9, 9))).astype(bool)
    assert np.abs(scene.truth - cv2.blur(scene.truth, (5, 5)))[inside].max() < 0.06


def test_the_widest_blur_of_the_legs_is_sixty_pixels_at_1600_by_1200():
    stage = Stage(height=1200, width=1600, seed=0)
    inverses = [1 / layer.nearest for layer in SCENES["legs"].build(stage)]
    assert (max(inverses) - min(inverses)) * SCENES["legs"].aperture * stage.unit == pytest.approx(60, abs=4)
    assert len({round(inverse, 2) for inverse in inverses}) > 40


def test_a_thin_thing_is_seen_where_nothing_hides_it_and_other_scenes_have_none():
    stage = Stage(height=40, width=40, seed=0)
    box, black = np.ones((10, 10), np.float32), np.zeros((10, 10, 3), np.float32)
    paper = stage.fill(np.ones((*stage.shape, 3), np.float32), 2.0)
    at = {"left": stage.margin + 5}
    thin = [
        stage.put(Sprite(black, box * share), top=stage.margin + 5, distance=1.5, thin=True, **at) for share in (1, 0.2)
    ]
    cover = stage.put(Sprite(black, box), top=stage.margin + 10, distance=1.0, **at)
    seen = visible_thin_things([paper, thin[0], cover], stage)
    assert seen[5:10, 5:15].all()
    assert seen.sum() == 50
    assert not visible_thin_things([paper, thin[1]], stage).any()
    assert not render_scene("insect", frames=1, size=(48, 64)).thin_things.any()
