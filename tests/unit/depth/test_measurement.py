"""Depth as a measurement, on scenes whose depth is known."""

import tracemalloc

import cv2
import numpy as np
import pytest

import allfocus
from allfocus.depth import measurement
from allfocus.depth.filling import fill_depth
from allfocus.depth.measurement import measure_depth
from allfocus.errors import InputError
from allfocus.fusion.frame_source import open_spool


def true_steps(scene):
    inverse = -1 / np.asarray(scene.focus_distances)
    return np.interp(-1 / scene.depth, inverse, np.arange(len(inverse))).astype(np.float32)


@pytest.fixture(scope="module")
def slope():
    scene = allfocus.render_scene("slope", frames=6, size=(240, 320), seed=31)
    fused = allfocus.fuse(scene.frames)
    return scene, fused, measure_depth(scene.frames, fused.decision, fused.image)


def test_a_slope_is_measured_between_the_frames(slope):
    scene, _, depth = slope
    error = (depth.position - true_steps(scene))[depth.measured]
    assert depth.measured.mean() > 0.8
    assert np.sqrt(np.mean(error**2)) < 0.15
    near_whole = np.mean(np.abs(depth.position - np.rint(depth.position))[depth.measured] < 0.05)
    assert near_whole < 0.15  # one tenth by chance; the decision itself has nearly all


def test_the_standard_error_has_the_size_of_the_error(slope):
    scene, _, depth = slope
    within = np.abs(depth.position - true_steps(scene)) <= depth.standard_error
    assert 0.3 < within[depth.measured].mean() < 0.95
    assert (np.isfinite(depth.standard_error) == depth.measured).all()


def test_nothing_is_measured_where_there_is_no_texture():
    generator = np.random.default_rng(5)
    texture = np.zeros((96, 192), np.float32)
    # Smooth from pixel to pixel, as what a lens draws is; otherwise it is noise.
    texture[:, :64] = cv2.GaussianBlur(generator.random((96, 64), np.float32), (0, 0), 1.0) * 0.6
    frames = [np.clip(texture * share + 0.2, 0, 1).astype(np.float32) for share in (0.5, 1.0, 0.5)]
    depth = measure_depth(frames, np.ones((96, 192), np.int16), frames[1])
    assert depth.measured[:, :56].mean() > 0.9
    assert not depth.measured[:, 80:].any()
    assert np.nanmax(np.abs(depth.position - 1)[:, 8:56]) < 0.02


def test_frames_on_disk_and_tiles_of_any_size_give_the_same(slope, monkeypatch):
    scene, fused, _ = slope
    # All curves must tell their shape, or another sample would give another one.
    monkeypatch.setattr(measurement, "SAMPLE_TILES", 100)
    monkeypatch.setattr(measurement, "SAMPLE", 10**6)
    monkeypatch.setattr(measurement, "NOISE_EVERY", 1)
    monkeypatch.setattr(measurement, "GROWTH_EVERY", 1)
    whole = measure_depth(scene.frames, fused.decision, fused.image)
    monkeypatch.setattr(measurement, "TILE", 128)
    with open_spool(8) as spool:
        for frame in scene.frames:
            spool.append(frame)
        tiled = measure_depth(spool, fused.decision, fused.image)
    assert np.array_equal(tiled.measured, whole.measured)
    assert np.allclose(tiled.position, whole.position, atol=1e-3, equal_nan=True)


def test_filled_depth_has_no_holes_and_keeps_what_was_measured(slope):
    _, fused, depth = slope
    filled = fill_depth(depth, fused.depth, fused.confidence, fused.image)
    assert np.isfinite(filled).all()
    assert np.array_equal(filled[depth.measured], depth.position[depth.measured])


def test_a_decision_of_another_size_is_refused(slope):
    scene, fused, _ = slope
    with pytest.raises(InputError) as caught:
        measure_depth(scene.frames, fused.decision[:-1], fused.image)
    assert caught.value.code == "unequal-frames"


def test_memory_does_not_grow_with_the_number_of_frames():
    generator = np.random.default_rng(3)
    texture = generator.random((200, 200), np.float32)
    peaks = []
    for count in (6, 36):
        decision = np.full((200, 200), count // 2, np.int16)
        with open_spool(8) as spool:
            for index in range(count):
                spool.append(texture * np.float32(1 / (1 + (index - count // 2) ** 2)))
            tracemalloc.start()
            measure_depth(spool, decision, texture)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.05 * peaks[0]


def test_frames_much_finer_than_the_depth_of_field_are_measured_too():
    scene = allfocus.render_scene("slope", frames=30, size=(160, 200), noise=0.01, seed=9)
    depth = measure_depth(scene.frames, scene.best_frame, scene.truth)
    error = (depth.position - true_steps(scene))[depth.measured]
    assert depth.measured.mean() > 0.4
    assert np.sqrt(np.mean(error**2)) < 0.6  # of a thirtieth of the depth of the scene
    assert 0.3 < np.mean(np.abs(error) <= depth.standard_error[depth.measured]) < 0.95


def test_dark_pictures_of_16_bits_are_measured_as_bright_ones_are(slope):
    scene, fused, bright = slope
    dark = [frame * np.float32(0.004) + np.float32(0.001) for frame in scene.frames]
    depth = measure_depth(dark, fused.decision, np.asarray(fused.image) * np.float32(0.004) + np.float32(0.001))
    assert np.mean(depth.measured == bright.measured) > 0.95
    both = depth.measured & bright.measured
    assert np.median(np.abs(depth.position - bright.position)[both]) < 0.01
