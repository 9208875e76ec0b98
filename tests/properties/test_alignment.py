"""What holds for every motion."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from allfocus.alignment.stack_alignment import align
from allfocus.alignment.transforms import (
    amounts_of,
    largest_rectangle,
    mask_of_spans,
    motion_of,
    valid_spans,
    warp_picture,
)
from allfocus.scenes.rendering import render_scene

SMALL = st.floats(-0.05, 0.05, allow_nan=False)
MOTION = st.lists(SMALL, min_size=2, max_size=8).map(np.array)
PIXELS = st.tuples(st.floats(-6, 6), st.floats(-6, 6), st.floats(-0.1, 0.1), st.floats(-0.1, 0.1)).map(np.array)


@given(MOTION)
def test_amounts_and_motion_undo_each_other(amounts):
    assert np.allclose(amounts_of(motion_of(amounts))[: len(amounts)], amounts, atol=1e-9)


@given(PIXELS, st.integers(0, 99))
def test_warping_stays_in_the_range_of_the_picture(amounts, seed):
    picture = np.random.default_rng(seed).random((24, 32)).astype(np.float32)
    moved = warp_picture(picture, motion_of(amounts))
    assert moved.min() >= picture.min()
    assert moved.max() <= picture.max()


@given(st.lists(PIXELS, min_size=1, max_size=4))
def test_the_common_rectangle_is_valid_in_every_frame(motions):
    size = (24, 32)
    spans = [valid_spans(motion_of(amounts), size) for amounts in motions]
    top, left, bottom, right = largest_rectangle(spans)
    assert 0 <= top <= bottom <= size[0]
    assert 0 <= left <= right <= size[1]
    for span in spans:
        assert mask_of_spans(span, size[1])[top:bottom, left:right].all()


@settings(max_examples=6)
@given(st.integers(2, 4), st.integers(0, 50))
def test_equal_frames_come_back_bit_for_bit(count, seed):
    frame = render_scene("foliage", frames=1, size=(64, 80), seed=seed).frames[0]
    result = align([frame] * count)
    assert result.alignment.registered
    assert all(np.array_equal(frame, moved) for moved in result.frames)
