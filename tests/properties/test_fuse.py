"""What must hold for `fuse` with the shipped network, whatever the frames, their number, size and type."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from allfocus.fusion import areas, frame_source, learned, planning
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.fusion.stack_fusion import fuse
from allfocus.scenes.catalogue import SCENES
from allfocus.scenes.rendering import render_scene

SEEDS = st.integers(0, 2**16)
SIZES = st.tuples(st.integers(1, 40), st.integers(1, 40))
CHANNELS = st.sampled_from([(), (3,)])


def random_frames(seed, count, shape):
    generator = np.random.default_rng(seed)
    return [generator.random(shape, dtype=np.float32) for _ in range(count)]


def as_type(frame, dtype):
    if np.issubdtype(dtype, np.integer):
        return np.rint(frame * np.iinfo(dtype).max).astype(dtype)
    return frame.astype(dtype)


@settings(max_examples=15)
@given(name=st.sampled_from(sorted(SCENES)), seed=SEEDS, count=st.integers(2, 6), data=st.data())
def test_the_order_of_the_frames_of_a_scene_does_not_matter(name, seed, count, data):
    frames = render_scene(name, frames=count, size=(48, 56), seed=seed).frames
    order = np.asarray(data.draw(st.permutations(range(count))))
    result, permuted = fuse(frames), fuse([frames[index] for index in order])
    np.testing.assert_array_equal(permuted.image, result.image)
    np.testing.assert_array_equal(permuted.confidence, result.confidence)
    # Where two frames are equal either may be named.
    assert np.mean(order[permuted.decision] != result.decision) < 0.005


@settings(max_examples=25)
@given(seed=SEEDS, count=st.integers(2, 6), size=SIZES, channels=CHANNELS, data=st.data())
def test_the_order_of_frames_of_pure_noise_does_not_matter(seed, count, size, channels, data):
    """The worst case: frames that differ by the full range at every pixel turn rounding in the network into levels."""
    frames = random_frames(seed, count, (*size, *channels))
    order = np.asarray(data.draw(st.permutations(range(count))))
    result, permuted = fuse(frames), fuse([frames[index] for index in order])
    np.testing.assert_array_equal(permuted.image, result.image)
    np.testing.assert_array_equal(order[permuted.decision], result.decision)
    np.testing.assert_array_equal(permuted.confidence, result.confidence)


@settings(max_examples=30)
@given(
    seed=SEEDS,
    count=st.integers(2, 12),
    size=SIZES,
    channels=CHANNELS,
    dtype=st.sampled_from([np.uint8, np.uint16, np.float32]),
)
def test_equal_frames_return_that_frame(seed, count, size, channels, dtype):
    frame = as_type(random_frames(seed, 1, (*size, *channels))[0], dtype)
    image = fuse([frame] * count).image
    assert image.dtype == dtype
    if np.issubdtype(dtype, np.integer):
        np.testing.assert_array_equal(image, frame)
    else:
        np.testing.assert_allclose(image, frame, atol=1e-6, rtol=0)


@settings(max_examples=30)
@given(
    seed=SEEDS,
    count=st.integers(2, 12),
    size=SIZES,
    channels=CHANNELS,
    dtype=st.sampled_from([np.uint8, np.uint16, np.float32, np.float64]),
)
def test_every_pixel_lies_between_the_sources_at_that_pixel(seed, count, size, channels, dtype):
    """Without taking veils off, that is; what lay behind a veil is in no source."""
    frames = [as_type(frame, dtype) for frame in random_frames(seed, count, (*size, *channels))]
    result = fuse(frames, unveil=False)
    assert result.image.dtype == dtype
    assert result.image.shape == (*size, *channels)
    slack = 0 if np.issubdtype(dtype, np.integer) else 1e-6
    assert (result.image >= np.min(frames, axis=0) - slack).all()
    assert (result.image <= np.max(frames, axis=0) + slack).all()
    assert 0 <= result.decision.min() <= result.decision.max() < count
    assert 0 <= result.confidence.min() <= result.confidence.max() <= 1


@settings(max_examples=20)
@given(seed=SEEDS, count=st.integers(2, 5), size=SIZES, share=st.floats(0.1, 1))
def test_a_pixel_comes_from_a_frame_that_has_one_wherever_there_is_one(seed, count, size, share):
    frames = random_frames(seed, count, (*size, 3))
    generator = np.random.default_rng(seed)
    masks = [generator.random(size) < share for _ in frames]
    result = fuse(frames, valid=masks, unveil=False)
    covered = np.any(masks, axis=0)
    named = np.take_along_axis(np.stack(masks), result.decision[None].astype(int), axis=0)[0]
    assert named[covered].all()
    low, high = (
        edge([np.where(mask[..., None], frame, beyond) for frame, mask in zip(frames, masks, strict=True)], axis=0)
        for edge, beyond in ((np.min, 2), (np.max, -1))
    )
    assert (result.image >= low - 1e-6)[covered].all()
    assert (result.image <= high + 1e-6)[covered].all()


@settings(max_examples=8)
@given(
    seed=SEEDS,
    count=st.integers(2, 4),
    size=st.tuples(st.integers(100, 260), st.integers(100, 260)),
    core=st.sampled_from([16, 64, 512]),
    half=st.booleans(),
    data=st.data(),
)
def test_any_area_is_that_part_of_the_whole_whatever_the_cores(seed, count, size, core, half, data):
    rows, columns = (
        slice(*sorted(data.draw(st.sets(st.integers(0, length), min_size=2, max_size=2)))) for length in size
    )
    frames = render_scene("slope", frames=count, size=size, seed=seed).frames
    settings = DecisionSettings(
        # More than the network can see; what the smaller margin costs is tested in tests/unit/fusion/test_windows.py.
        margin=48,
        largest_whole_side=64,
        plan_pixels=count * 65 * 65,
        largest_full_scale=1 if half else AS_CHOSEN.largest_full_scale,
    )
    source = frame_source.MemorySource(frames, settings=settings)
    plan = planning.plan_fusion(source, settings=settings)
    assert plan.level > 0 or max(size) <= 128
    whole = learned.fuse_ips(frames, settings=settings)
    in_cores = dataclasses.replace(plan, settings=dataclasses.replace(settings, core=core))
    part = areas.fuse_area(in_cores, source, (rows, columns))
    np.testing.assert_allclose(part.image, whole.image[rows, columns], atol=1e-5)
    assert np.mean(part.decision != whole.decision[rows, columns]) < 1e-4
    np.testing.assert_allclose(part.depth, whole.depth[rows, columns], atol=1e-4)


@settings(max_examples=10)
@given(
    name=st.sampled_from(["desk", "slope", "circuit"]),
    seed=SEEDS,
    factor=st.floats(0.002, 1),
    offset=st.sampled_from([0.0, 0.0, 0.5]),
)
def test_the_range_in_which_frames_are_stored_does_not_matter(name, seed, factor, offset):
    frames = render_scene(name, frames=3, size=(64, 96), seed=seed, bit_depth=16).frames
    for frame in frames:
        frame[:, :4], frame[:, -4:] = 0, 1
    factor = factor / 2 if offset else factor
    result = learned.fuse_ips(frames)
    other = learned.fuse_ips([(factor * frame + offset).astype(np.float32) for frame in frames])
    if offset and offset / (offset + factor) < 0.3:
        # Black is kept where it is near zero already.
        return
    assert np.mean(other.decision == result.decision) >= 0.99
    assert np.abs((other.image - offset) / factor - result.image).max() <= 2e-3 + 2e-7 / factor


@settings(max_examples=20)
@given(seed=SEEDS, count=st.integers(2, 5), position=st.integers(0, 4))
def test_a_frame_given_twice_changes_nothing_that_can_be_seen(seed, count, position):
    """Photographers do shoot a frame twice; both halves share what the one had, and the picture stays."""
    frames = render_scene("circuit", frames=count, size=(48, 56), seed=seed).frames
    twice = [*frames, frames[position % count]]
    assert np.abs(fuse(twice).image - fuse(frames).image).mean() < 2 / 255
