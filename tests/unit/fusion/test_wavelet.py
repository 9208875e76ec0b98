import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.fusion.wavelet import fuse_wavelet


def test_the_result_moves_with_the_scene(pair):
    """The property that ordinary wavelets lack: shifted frames give the shifted result."""
    frames = [frame[:, :, 0] for frame in pair.frames]
    here = fuse_wavelet([frame[:120, :180] for frame in frames], levels=2)[0]
    moved = fuse_wavelet([frame[1:121, 3:183] for frame in frames], levels=2)[0]
    # Away from the borders, whose mirrored surroundings differ.
    assert np.allclose(here[21:-20, 23:-20], moved[20:-21, 20:-23], atol=1e-6)


def test_the_stronger_of_two_details_wins_in_its_direction():
    """A horizontal pattern in one frame and a vertical one in the other both survive in full."""
    rows = 0.2 * np.sin(np.arange(64) * 1.5).astype(np.float32)[:, np.newaxis]
    flat = np.full((64, 64), 0.5, np.float32)
    image, *_ = fuse_wavelet([flat + rows, flat + rows.T])
    assert np.allclose(image[16:-16, 16:-16], (flat + rows + rows.T)[16:-16, 16:-16], atol=0.02)


def test_no_levels_is_refused():
    with pytest.raises(InputError, match="levels is 0"):
        fuse_wavelet([np.zeros((8, 8), np.float32)] * 2, levels=0)
