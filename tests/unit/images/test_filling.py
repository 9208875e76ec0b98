import numpy as np
import pytest

from allfocus.images.filling import fill_from_surroundings


@pytest.mark.parametrize("shape", [(40, 56), (40, 56, 3), (3, 5), (1, 1)])
def test_known_values_stay_bit_for_bit(shape):
    values = np.random.default_rng(0).random(shape, dtype=np.float32)
    known = np.ones(shape[:2], np.float32)
    known[: shape[0] // 2] = 0
    filled = fill_from_surroundings(values, known)
    assert filled.shape == shape
    np.testing.assert_array_equal(filled[known == 1], values[known == 1])


def test_a_hole_is_filled_from_around_and_what_lay_there_does_not_matter():
    ramp = np.tile(np.linspace(0.2, 0.8, 64, dtype=np.float32), (64, 1))
    known = np.ones((64, 64), np.float32)
    known[20:40, 20:40] = 0
    for junk in (0.0, 1.0):
        filled = fill_from_surroundings(np.where(known == 1, ramp, np.float32(junk)), known)
        assert np.abs(filled - ramp).max() < 0.08
        assert np.isfinite(filled).all()
