import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.metrics.grey_levels import as_eight_bit, as_grey_levels, stretch_to_full_range


def test_every_eight_bit_level_survives_the_way_through_the_other_types() -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert np.array_equal(as_eight_bit(levels.astype(np.uint16) * 257), levels)
    assert np.array_equal(as_eight_bit((levels / 255).astype(np.float32)), levels)
    assert np.array_equal(as_eight_bit((levels / 255).astype(np.float16)), levels)
    assert np.array_equal(as_eight_bit(levels / 255), levels)


def test_grey_is_rounded_with_the_canonical_weights() -> None:
    # 0.298936*1 + 0.587043*0 + 0.114021*2 = 0.526978: rounds to 1; red alone rounds to 0.
    assert as_grey_levels(np.array([[[1, 0, 2], [1, 0, 0], [255, 255, 255]]], np.uint8)).tolist() == [[1, 0, 255]]


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.zeros((4, 4, 4), np.uint8), "without alpha"),
        (np.zeros(4, np.uint8), "shape"),
        (np.zeros((4, 4), np.int64), "int64"),
        (np.full((4, 4), 37.0), "must lie in 0..1"),
        (np.full((4, 4), -0.1), "must lie in 0..1"),
        (np.full((4, 4), np.inf), "not numbers"),
        (np.zeros((0, 4)), "empty"),
    ],
)
def test_what_is_no_picture_is_refused_with_its_name(picture: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        as_eight_bit(picture, what="frame 3")
    assert str(caught.value).startswith("frame 3")


def test_the_stretch_rounds_halves_upwards_and_leaves_a_flat_plane_alone() -> None:
    assert stretch_to_full_range(np.array([[0.0, 1.0, 2.0]])).tolist() == [[0, 128, 255]]
    assert stretch_to_full_range(np.full((2, 2), 9.0)).tolist() == [[9, 9], [9, 9]]
