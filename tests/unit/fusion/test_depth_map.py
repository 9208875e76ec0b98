import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.fusion.depth_map import fuse_depth_map


def test_every_pixel_is_that_of_the_frame_in_the_map(triple):
    image, decision, *_ = fuse_depth_map(triple.frames)
    rows, columns = np.indices(decision.shape)
    assert (image == np.stack(triple.frames)[decision, rows, columns]).all()


def test_the_map_follows_the_stripes_within_the_smoothing(triple):
    _, decision, *_ = fuse_depth_map(triple.frames, smoothing=2.0)
    wrong = decision != triple.decision
    distance = np.min([abs(np.arange(240) - edge) for edge in (80, 160)], axis=0)
    assert not wrong[:, distance > 12].any()


def test_opposite_curvatures_do_not_cancel():
    """A saddle has a Laplacian of zero but is sharp structure: the sum-modified Laplacian sees it."""
    position = np.linspace(-1, 1, 32, dtype=np.float32)
    saddle = 0.5 + 0.4 * (position[:, np.newaxis] ** 2 - position[np.newaxis] ** 2)
    _, decision, *_ = fuse_depth_map([np.full((32, 32), 0.5, np.float32), saddle.astype(np.float32)])
    assert (decision == 1).all()


def test_the_earliest_of_equal_frames_wins(pair):
    assert (fuse_depth_map([pair.truth, pair.truth])[1] == 0).all()


def test_no_smoothing_compares_single_pixels(pair):
    _, decision, *_ = fuse_depth_map(pair.frames, smoothing=0)
    assert 0.6 < np.mean(decision == pair.decision) < 0.999


@pytest.mark.parametrize("smoothing", [-1.0, float("nan")])
def test_a_smoothing_that_makes_no_sense_is_refused(pair, smoothing):
    with pytest.raises(InputError, match="smoothing is"):
        fuse_depth_map(pair.frames, smoothing=smoothing)
