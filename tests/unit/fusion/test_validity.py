"""Frames that lack pixels: masks are checked, gaps filled from the others, decisions kept to frames that are there."""

import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.fusion.methods import METHODS
from allfocus.fusion.stack_fusion import fuse
from allfocus.fusion.validity import check_masks, covered_area, fill_invalid, nearest_valid
from allfocus.images.image import Image, ImageStack
from allfocus.images.spool import FrameSpool
from allfocus.scenes.rendering import render_scene

READY = [name for name, method in METHODS.items() if not method.extra]


@pytest.fixture(scope="module")
def spoilt():
    """Three frames of which one is white noise, the sharpest thing there is, in a corner where its mask is False."""
    scene = render_scene("desk", frames=3, size=(96, 128))
    masks = [np.ones((96, 128), bool) for _ in scene.frames]
    masks[1][:48, :64] = False
    noise = np.random.default_rng(3).random((96, 128, 3), dtype=np.float32)
    frames = [frame.copy() for frame in scene.frames]
    frames[1][~masks[1]] = noise[~masks[1]]
    return scene, frames, masks


@pytest.mark.parametrize("method", READY)
def test_pixels_below_a_mask_are_never_chosen(spoilt, method):
    scene, frames, masks = spoilt
    result = fuse(frames, method=method, valid=masks)
    hidden = ~masks[1]
    np.testing.assert_array_equal(fuse_with_other_junk(spoilt, method), result.image)
    near = scene.frames[0][hidden], scene.frames[2][hidden]
    low, high = np.minimum(*near) - 0.1, np.maximum(*near) + 0.1
    assert ((result.image[hidden] >= low) & (result.image[hidden] <= high)).mean() > 0.95
    if result.decision is not None:
        assert not (result.decision[hidden] == 1).any()


def fuse_with_other_junk(spoilt, method):
    _, frames, masks = spoilt
    other = [frame.copy() for frame in frames]
    other[1][~masks[1]] = 0.5
    return fuse(other, method=method, valid=masks).image


def test_alpha_of_a_stack_and_masks_of_a_spool_are_found(spoilt):
    _, frames, masks = spoilt
    expected = fuse(frames, method="depth-map", valid=masks)
    alphas = [None, masks[1].astype(np.float32), None]
    stack = ImageStack([Image(frame, alpha=alpha) for frame, alpha in zip(frames, alphas, strict=True)])
    with FrameSpool(bit_depth=32) as spool:
        for frame, mask in zip(frames, masks, strict=True):
            spool.append(frame, mask)
        for given in (stack, spool):
            result = fuse(given, method="depth-map")
            np.testing.assert_array_equal(result.image, expected.image)
            np.testing.assert_array_equal(result.decision, expected.decision)


def test_a_gap_is_the_mean_of_the_frames_that_have_pixels_there():
    frames = [np.full((2, 3), value, np.float32) for value in (0.1, 0.3, 0.8)]
    masks = [np.ones((2, 3), bool) for _ in frames]
    masks[0][0, 0] = False
    for mask in masks:
        mask[1, 2] = False
    filled = fill_invalid(frames, masks)
    assert filled[0][0, 0] == pytest.approx(0.55)
    assert filled[0][0, 1] == frames[0][0, 1]
    assert [part[1, 2] for part in filled] == pytest.approx([0.4] * 3)
    assert frames[0][0, 0] == np.float32(0.1)


def test_a_decision_moves_to_the_nearest_frame_that_is_there():
    masks = [np.array([[value]]) for value in (True, False, False, True)]
    decided = [int(nearest_valid(np.array([[index]], np.int16), masks)[0, 0]) for index in (-1, 0, 1, 2, 3)]
    assert decided == [-1, 0, 0, 3, 3]
    assert nearest_valid(np.array([[2]], np.int16), [np.array([[False]])] * 3)[0, 0] == 2


def test_the_covered_area_is_where_any_frame_is():
    masks = [np.array([[True, False, False]]), np.array([[False, True, False]])]
    assert covered_area(masks).tolist() == [[True, True, False]]
    assert masks[0].tolist() == [[True, False, False]]


@pytest.mark.parametrize(
    ("masks", "words"),
    [
        ([np.ones((4, 5), bool)], "1 masks for 2 frames"),
        ([np.ones((4, 5), bool), np.ones((5, 4), bool)], "mask of frame 2"),
        ([np.ones((4, 5), np.uint8), np.ones((4, 5), bool)], "mask of frame 1 is uint8"),
    ],
)
def test_masks_that_do_not_fit_are_refused(masks, words):
    with pytest.raises(InputError, match=words):
        check_masks(masks, 2, (4, 5))
    frames = [np.zeros((4, 5), np.float32)] * 2
    with pytest.raises(InputError, match=words):
        fuse(frames, method="average", valid=masks)
