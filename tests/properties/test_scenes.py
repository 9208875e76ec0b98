import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from allfocus.scenes.catalogue import SCENES
from allfocus.scenes.lens import blur_disk, disk_kernel
from allfocus.scenes.rendering import render_scene

sides = st.integers(32, 90)


@settings(max_examples=20, deadline=None)
@given(
    name=st.sampled_from(sorted(SCENES)),
    size=st.tuples(sides, sides),
    frames=st.integers(1, 4),
    shake=st.floats(0, 1.0),
    breathing=st.floats(0, 0.01),
    noise=st.floats(0, 0.1),
    bit_depth=st.sampled_from([8, 16]),
    seed=st.integers(0, 2**40),
)
def test_every_scene_has_consistent_parts(name, size, frames, shake, breathing, noise, bit_depth, seed):
    scene = render_scene(
        name, frames=frames, size=size, shake=shake, breathing=breathing, noise=noise, bit_depth=bit_depth, seed=seed
    )

    assert len(scene.frames) == len(scene.transforms) == len(scene.focus_distances) == len(scene.exposures) == frames
    for picture in [*scene.frames, scene.truth]:
        assert picture.shape == (*size, 3)
        assert picture.dtype == np.float32
        assert np.isfinite(picture).all()
        assert picture.min() >= 0
        assert picture.max() <= 1
    assert scene.depth.shape == scene.best_frame.shape == size
    assert scene.best_frame.min() >= 0
    assert scene.best_frame.max() < frames
    nearest, farthest = min(scene.focus_distances), max(scene.focus_distances)
    if frames > 1:
        assert scene.depth.min() >= nearest * (1 - 1e-5)
        assert scene.depth.max() <= farthest * (1 + 1e-5)


@settings(max_examples=10, deadline=None)
@given(name=st.sampled_from(sorted(SCENES)), size=st.tuples(sides, sides), seed=st.integers(0, 1000))
def test_without_aperture_every_frame_is_the_truth(name, size, seed):
    scene = render_scene(name, frames=2, size=size, aperture=0.0, seed=seed)

    np.testing.assert_array_equal(scene.frames[0], scene.truth)
    np.testing.assert_array_equal(scene.frames[1], scene.truth)


@settings(max_examples=30, deadline=None)
@given(radius=st.floats(0, 40))
def test_a_disk_of_any_radius_keeps_the_light(radius):
    reach = disk_kernel(radius).shape[0] // 2
    picture = np.zeros((2 * reach + 9, 2 * reach + 9), dtype=np.float32)
    picture[reach + 4, reach + 4] = 1.0

    assert abs(disk_kernel(radius).sum(dtype=np.float64) - 1) < 1e-5
    assert abs(blur_disk(picture, radius).sum(dtype=np.float64) - 1) < 1e-3
