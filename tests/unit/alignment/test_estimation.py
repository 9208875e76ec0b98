"""The motion between two frames that are sharp in different places."""

import numpy as np
import pytest

from allfocus.alignment.estimation import estimate_pair, refine_pair
from allfocus.alignment.octaves import prepare_frame
from allfocus.alignment.transforms import corners, motion_of, move_points, unit_square, warp_picture
from allfocus.scenes.rendering import render_scene

SIZE = (360, 480)


def worst_corner(found, true, size=SIZE):
    points = corners(size)
    return float(np.hypot(*(move_points(found, points) - move_points(true, points)).T).max())


def moved_pair(amounts, *, scene="slope", frames=(1, 2)):
    """Two neighbours of a rendered stack, the first warped by a known motion, both cut to what remains valid."""
    stack = render_scene(scene, frames=5, size=(SIZE[0] + 80, SIZE[1] + 80)).frames
    to_unit = unit_square(SIZE)
    true = np.linalg.inv(to_unit) @ motion_of(np.array(amounts)) @ to_unit
    shift = motion_of(np.array([40.0, 40.0]))
    moved = warp_picture(stack[frames[0]], shift @ np.linalg.inv(true) @ np.linalg.inv(shift))
    return moved[40:-40, 40:-40], stack[frames[1]][40:-40, 40:-40], true


MOTIONS = {
    "translation": [0.031, -0.017],
    "similarity": [0.02, 0.01, 0.03, -0.012],
    "affine": [0.02, -0.01, 0.02, 0.01, 0.008, -0.006],
    "homography": [0.01, 0.02, -0.02, 0.01, 0.004, 0.003, 0.006, -0.004],
}


@pytest.mark.parametrize("model", MOTIONS)
def test_a_known_motion_is_found_between_frames_of_different_focus(model):
    moving, fixed, true = moved_pair(MOTIONS[model])
    found = estimate_pair(prepare_frame(moving), prepare_frame(fixed), model=model)
    assert worst_corner(found.transform, true) < 0.1
    assert found.belongs


def test_breathing_of_five_percent_and_a_large_shift_are_found():
    moving, fixed, true = moved_pair([0.1, -0.06, 0.05, 0.03], scene="circuit")
    found = estimate_pair(prepare_frame(moving), prepare_frame(fixed))
    assert worst_corner(found.transform, true) < 0.5


def test_values_in_a_small_part_of_the_range_are_matched_as_well():
    moving, fixed, true = moved_pair(MOTIONS["similarity"])
    low = [np.rint(50 + frame.mean(axis=2) * 550).astype(np.float32) / np.float32(65535) for frame in (moving, fixed)]
    found = estimate_pair(*(prepare_frame(frame) for frame in low))
    assert worst_corner(found.transform, true) < 0.25


def test_noise_does_not_break_the_match():
    moving, fixed, true = moved_pair(MOTIONS["similarity"])
    generator = np.random.default_rng(3)
    noisy = [np.clip(f + generator.normal(0, 0.04, f.shape), 0, 1).astype(np.float32) for f in (moving, fixed)]
    found = estimate_pair(*(prepare_frame(frame) for frame in noisy))
    assert worst_corner(found.transform, true) < 0.3


def test_a_reduced_working_size_gives_the_same_motion():
    moving, fixed, true = moved_pair(MOTIONS["similarity"])
    reduced = [prepare_frame(frame, working_pixels=60_000) for frame in (moving, fixed)]
    assert reduced[0].octaves[0].size <= 61_000
    assert worst_corner(estimate_pair(*reduced).transform, true) < 0.15


def test_frames_of_different_scenes_do_not_belong():
    frames = [render_scene(name, frames=2, size=(240, 320)).frames[0] for name in ("desk", "circuit", "foliage")]
    prepared = [prepare_frame(frame) for frame in frames]
    for first, second in ((0, 1), (1, 2), (2, 0)):
        assert not estimate_pair(prepared[first], prepared[second]).belongs


def test_a_blank_frame_does_not_belong():
    frame = render_scene("desk", frames=2, size=(120, 160)).frames[0]
    for blank in (np.zeros_like(frame), np.full_like(frame, 0.5)):
        prepared = prepare_frame(blank)
        assert prepared.blank
        assert not estimate_pair(prepared, prepare_frame(frame)).belongs


def test_the_estimate_does_not_change_what_it_is_given():
    frames = [prepare_frame(frame) for frame in render_scene("desk", frames=2, size=(120, 160)).frames]
    before = [[octave.copy() for octave in frame.octaves] for frame in frames]
    estimate_pair(*frames)
    for frame, octaves in zip(frames, before, strict=True):
        assert all(np.array_equal(now, then) for now, then in zip(frame.octaves, octaves, strict=True))


def test_a_guess_that_is_off_by_a_pixel_is_refined():
    moving, fixed, true = moved_pair(MOTIONS["similarity"])
    found = refine_pair(prepare_frame(moving), prepare_frame(fixed), motion_of(np.array([0.7, -0.6])) @ true)
    assert found is not None
    assert worst_corner(found.transform, true) < 0.1
    assert found.belongs


def test_frames_of_different_scenes_are_not_refined():
    frames = [prepare_frame(render_scene(name, frames=2, size=(240, 320)).frames[0]) for name in ("desk", "circuit")]
    assert refine_pair(*frames, np.eye(3)) is None
