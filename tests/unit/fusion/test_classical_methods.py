"""The shared check: what every classical method must do, whatever it is."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allfocus.errors import InputError
from allfocus.fusion.methods import METHODS

CLASSICAL = [method for method in METHODS.values() if not method.extra and not method.abilities.devices]
"""Those of the table that need neither a network nor another package."""
AVERAGE = METHODS["average"].load()
SELECTING = [method.load() for method in CLASSICAL if method.decides]
BLENDING = [method.load() for method in CLASSICAL if not method.decides and method.load() is not AVERAGE]
FUNCTIONS = [*SELECTING, *BLENDING, AVERAGE]

every_method = pytest.mark.parametrize("fuse", FUNCTIONS)


@every_method
@pytest.mark.parametrize("name", ["pair", "grey_pair", "triple"])
def test_the_result_has_the_shape_and_type_of_a_frame_and_stays_in_range(fuse, name, request):
    frames = request.getfixturevalue(name).frames
    image, *_ = fuse(frames)
    assert image.shape == frames[0].shape
    assert image.dtype == np.float32
    assert image.min() >= 0
    assert image.max() <= 1


@pytest.mark.parametrize("fuse", SELECTING)
def test_a_selecting_method_returns_the_frame_of_each_pixel(fuse, triple):
    image, decision, *_ = fuse(triple.frames)
    assert decision.dtype == np.int16
    assert decision.shape == image.shape[:2]
    assert set(np.unique(decision)) <= {-1, 0, 1, 2}


@pytest.mark.parametrize("fuse", [*BLENDING, AVERAGE])
def test_a_blending_method_has_no_decision(fuse, pair):
    assert fuse(pair.frames)[1] is None


@every_method
@given(seed=st.integers(0, 10**6), height=st.integers(1, 40), width=st.integers(1, 40), count=st.integers(2, 4))
def test_equal_frames_fuse_to_themselves_at_any_size(fuse, seed, height, width, count):
    frame = np.random.default_rng(seed).random((height, width, 3), dtype=np.float32)
    image, *_ = fuse([frame] * count)
    np.testing.assert_allclose(image, frame, atol=2e-6)


@every_method
def test_two_runs_give_the_same_bits(fuse, pair):
    assert (fuse(pair.frames)[0] == fuse(pair.frames)[0]).all()


@every_method
def test_the_frames_are_left_untouched(fuse, pair):
    before = [frame.copy() for frame in pair.frames]
    fuse(pair.frames)
    assert all((frame == kept).all() for frame, kept in zip(pair.frames, before, strict=True))


@pytest.mark.parametrize("fuse", [*SELECTING, *BLENDING])
@pytest.mark.parametrize("name", ["pair", "grey_pair", "triple"])
def test_the_sharp_part_of_each_frame_is_found(fuse, name, request):
    stack = request.getfixturevalue(name)
    image, decision, *_ = fuse(stack.frames)
    # Within 24 pixels of a boundary a method may mix; DSIFT's descriptors alone reach 12.
    inside = np.ones_like(stack.decision, dtype=bool)
    for column in np.flatnonzero(np.diff(stack.decision[0])):
        inside[:, max(0, column - 24) : column + 25] = False
    inside[:4] = inside[-4:] = inside[:, :4] = inside[:, -4:] = False
    error = np.sqrt(np.mean((image - stack.truth)[inside] ** 2))
    blurred_error = min(np.sqrt(np.mean((frame - stack.truth)[inside] ** 2)) for frame in stack.frames)
    assert error < 0.1 * blurred_error
    if decision is not None:
        assert np.mean(decision[inside] == stack.decision[inside]) > 0.999


@pytest.mark.parametrize("fuse", [*SELECTING, *BLENDING])
def test_the_order_of_the_frames_does_not_decide(fuse, pair):
    forward, backward = fuse(pair.frames)[0], fuse(pair.frames[::-1])[0]
    assert np.mean(np.abs(forward - backward) > 1e-4) < 0.01


@every_method
@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "at least 2 frames, got 0"),
        ([np.zeros((4, 4), np.float32)], "at least 2 frames, got 1"),
        ([np.zeros((4, 4), np.float32), np.zeros((4, 5), np.float32)], r"frame 2 has shape \(4, 5\)"),
        ([np.zeros((4, 4), np.float32), np.zeros((4, 4, 3), np.float32)], r"frame 2 has shape \(4, 4, 3\)"),
        ([np.zeros((4, 4, 4), np.float32)] * 2, r"frame 1 has shape \(4, 4, 4\)"),
        ([np.zeros((0, 4), np.float32)] * 2, r"frame 1 has shape \(0, 4\)"),
        ([np.zeros((4, 4), np.uint8)] * 2, "frame 1 holds uint8"),
        (
            [np.zeros((4, 4), np.float32), np.full((4, 4), np.nan, np.float32)],
            "frame 2 holds values that are not finite",
        ),
    ],
)
def test_frames_that_do_not_fit_are_refused_by_name(fuse, frames, message):
    with pytest.raises(InputError, match=message):
        fuse(frames)


@pytest.mark.parametrize("fuse", [*SELECTING, *BLENDING])
def test_a_later_frame_must_beat_the_best_so_far(fuse, pair):
    """Sharpest is the second of three; the third is sharper than the first, and still must not win."""
    frames = [cv2.GaussianBlur(pair.truth, (0, 0), 3), pair.truth, cv2.GaussianBlur(pair.truth, (0, 0), 1)]
    image, decision, *_ = fuse(frames)
    inside = np.s_[24:-24, 24:-24]
    # Where bands cross zero the published Laplacian pyramid takes blurred coefficients: 0.11; the third frame has 1.
    assert np.abs(image - pair.truth)[inside].mean() < 0.15 * np.abs(frames[2] - pair.truth)[inside].mean()
    if decision is not None:
        assert (decision[inside] == 1).all()
