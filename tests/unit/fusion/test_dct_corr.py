import cv2
import numpy as np
import pytest

from allfocus.fusion.dct_corr import _correlation_with_blur, _cosine_matrix, _split_into_blocks, fuse_dct_corr


@pytest.mark.parametrize("number", [1, 10])
def test_it_makes_the_picture_its_authors_made(number, lytro_fused_by_authors, save_as_authors_did):
    authors = lytro_fused_by_authors(number, "DCT_Corr")
    ours = save_as_authors_did(fuse_dct_corr(authors.frames)[0])
    assert np.mean((ours == authors.fused).all(axis=2)) > 0.99


def test_blocks_are_taken_whole(grey_pair):
    image, decision, *_ = fuse_dct_corr(grey_pair.frames)
    blocks = decision.reshape(16, 8, 24, 8)
    assert (blocks == blocks[:, :1, :, :1]).all()
    assert (image == np.where(decision == 0, *grey_pair.frames)).all()


def test_the_margin_beyond_whole_blocks_is_fused_too(pair):
    """The published program leaves it grey."""
    frames = [frame[:125, :187] for frame in pair.frames]
    image, decision, *_ = fuse_dct_corr(frames)
    assert (image[120:, 150:] == pair.truth[120:125, 150:187]).all()
    assert (decision[120:, 150:] == 1).all()
    # No edge is made up where the picture ends: a flat picture of any size stays flat.
    assert (_split_into_blocks(np.full((5, 11), 0.7)) == 0.7).all()


def test_a_lone_block_follows_its_neighbours(grey_pair):
    """Consistency verification: one sharp block amid blurred ones is outvoted."""
    blurred, sharp = grey_pair.frames[1][:, :88], grey_pair.truth[:, :88]
    lone = blurred.copy()
    lone[40:48, 40:48] = 0.0
    _, decision, *_ = fuse_dct_corr([lone, sharp])
    assert (decision == 1).all()
    patched = sharp.copy()
    patched[40:48, 40:48] = cv2.GaussianBlur(sharp, (0, 0), 6)[40:48, 40:48]
    _, decision, *_ = fuse_dct_corr([sharp, patched])
    assert (decision == 0).all()


def test_the_cosine_transform_is_that_of_opencv():
    block = np.random.default_rng(2).random((8, 8))
    assert np.allclose(_cosine_matrix() @ block @ _cosine_matrix().T, cv2.dct(block))


def test_blurring_raises_the_correlation_and_a_flat_block_counts_as_blurred(grey_pair):
    sharp = _correlation_with_blur(grey_pair.truth)
    soft = _correlation_with_blur(cv2.GaussianBlur(grey_pair.truth, (0, 0), 3))
    assert np.mean(soft > sharp) > 0.99
    # 128 is the level that the transform shifts to zero: nothing is left to correlate.
    assert np.allclose(_correlation_with_blur(np.full((8, 8), 128 / 255, np.float32)), 1)
    assert np.allclose(_correlation_with_blur(np.full((8, 8), 0.9, np.float32)), 1)


def test_colours_decide_one_by_one(pair):
    """Green sharp in the first frame, red and blue in the second: each is kept, most of them decide."""
    blurred = cv2.GaussianBlur(pair.truth, (0, 0), 3)
    first, second = blurred.copy(), pair.truth.copy()
    first[..., 1], second[..., 1] = pair.truth[..., 1], blurred[..., 1]
    image, decision, *_ = fuse_dct_corr([first, second])
    assert (image == pair.truth).all()
    assert (decision == 1).all()
