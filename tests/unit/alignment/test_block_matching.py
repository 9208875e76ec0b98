"""Blocks measured together with the difference of their blur."""

import cv2
import numpy as np
import pytest
from backlit_hairs import draw_backlit_hairs

from allfocus.alignment.block_matching import match_blocks
from allfocus.alignment.estimation import FIRM
from allfocus.alignment.octaves import prepare_frame
from allfocus.alignment.transforms import corner_motion, motion_of
from allfocus.scenes.textures import to_linear_light, to_srgb_curve

SIZE = (240, 320)


def hairs():
    """Bright strokes that point away from the middle: their blurred tips draw in, which looks like a shrinking."""
    picture = np.full((SIZE[0] * 4, SIZE[1] * 4), 0.1, np.float32)
    generator = np.random.default_rng(4)
    middle = np.array([SIZE[1] * 2, SIZE[0] * 2])
    for angle in generator.uniform(0, 2 * np.pi, 160):
        outward = np.array([np.cos(angle), np.sin(angle)])
        root = middle + outward * generator.uniform(100, 250)
        tip = root + outward * generator.uniform(60, 160)
        cv2.line(picture, root.astype(int).tolist(), tip.astype(int).tolist(), 0.6, 9, cv2.LINE_AA)
    return cv2.resize(picture, SIZE[::-1], interpolation=cv2.INTER_AREA)


def test_blur_is_not_taken_for_motion():
    sharp = hairs()
    blurred = to_srgb_curve(cv2.GaussianBlur(to_linear_light(sharp), (0, 0), 1.2))  # a lens blurs light
    found = match_blocks(prepare_frame(blurred), prepare_frame(sharp), np.eye(3), 4)
    assert found is not None
    assert corner_motion(found.fetch, SIZE) < 0.05


@pytest.mark.parametrize(("moving", "fixed"), [(0, 1), (1, 0), (1, 2), (2, 1)])
def test_hairs_before_white_do_not_grow_with_their_blur(moving, fixed):
    frames = [prepare_frame(draw_backlit_hairs(focus, size=(480, 640))) for focus in (moving, fixed)]
    found = match_blocks(*frames, np.eye(3), 4)
    assert found is not None
    assert corner_motion(found.fetch, (480, 640)) < 0.2


def test_the_error_is_that_of_the_corners():
    sharp = hairs()
    generator = np.random.default_rng(5)
    misses, errors = [], []
    for _ in range(6):
        noisy = [(sharp + generator.normal(0, 0.02, SIZE)).astype(np.float32) for _ in range(2)]
        found = match_blocks(*(prepare_frame(frame) for frame in noisy), motion_of(np.array([0.4, 0.3])), 4)
        assert found is not None
        misses.append(corner_motion(found.fetch, SIZE))
        errors.append(found.error * np.hypot(*SIZE) / 2)
    assert 0.2 < np.median(misses) / np.median(errors) < 3


def test_too_few_blocks_say_nothing():
    one_thing = np.full(SIZE, 0.2, np.float32)
    one_thing[100:104, 150:160] = 0.8
    assert match_blocks(prepare_frame(one_thing), prepare_frame(one_thing[::-1]), np.eye(3), 4) is None


def test_a_slope_without_detail_leaves_the_motion_open():
    frame = prepare_frame(np.tile(np.linspace(0, 1, SIZE[1], dtype=np.float32), (SIZE[0], 1)))
    found = match_blocks(frame, frame, np.eye(3), 4)
    assert found is None or found.error > FIRM


def test_blocks_in_which_two_things_overlap_have_no_say():
    generator = np.random.default_rng(6)
    near, far = (cv2.GaussianBlur(generator.random(SIZE).astype(np.float32), (0, 0), 1.5) for _ in range(2))
    through = np.zeros(SIZE, np.float32)
    through[:, :200] = 0.6  # a thing that one sees through moves over most of the picture

    def frame(shift):
        light = far + through * np.roll(near, shift, axis=1)
        return prepare_frame(to_srgb_curve(np.clip(light - 0.3, 0, 1)))

    found = match_blocks(frame(2), frame(0), np.eye(3), 4)
    assert found is not None
    assert corner_motion(found.fetch, SIZE) < 0.05
