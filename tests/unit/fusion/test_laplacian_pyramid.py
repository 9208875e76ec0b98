import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.fusion.laplacian_pyramid import fuse_laplacian_pyramid


def test_colours_are_chosen_together():
    """A faint red detail beside a strong green one of the other frame must not survive in the same place."""
    rows = np.sin(np.arange(64)[:, np.newaxis] * 1.5).astype(np.float32) * np.ones((1, 64), np.float32)
    strong, faint = np.full((64, 64, 3), 0.5, np.float32), np.full((64, 64, 3), 0.5, np.float32)
    strong[..., 1] += 0.4 * rows
    faint[..., 0] += 0.1 * rows
    image, _ = fuse_laplacian_pyramid([faint, strong], levels=1)
    # What is left of the red detail comes from the averaged base, which holds almost nothing of so fine a pattern.
    assert np.std(image[8:-8, 8:-8, 0]) < 0.3 * np.std(faint[8:-8, 8:-8, 0])
    assert np.std(image[8:-8, 8:-8, 1]) > 0.9 * np.std(strong[8:-8, 8:-8, 1])


def test_more_levels_leave_less_of_the_blurred_frame_in_the_base(pair):
    errors = [np.mean((fuse_laplacian_pyramid(pair.frames, levels=n)[0] - pair.truth) ** 2) for n in (1, 4)]
    assert errors[1] < errors[0]


def test_a_constant_is_the_mean_of_constants():
    image, _ = fuse_laplacian_pyramid([np.full((33, 47), 0.2, np.float32), np.full((33, 47), 0.6, np.float32)])
    assert np.allclose(image, 0.4)


def test_no_levels_is_refused():
    with pytest.raises(InputError, match="levels is 0"):
        fuse_laplacian_pyramid([np.zeros((8, 8), np.float32)] * 2, levels=0)
