"""Crop, straightening and turns: whole pixels are copied, others lie where geometry says."""

import cv2
import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.finishing.finish import Crop, Finish, Spot
from allfocus.finishing.framing import cut_frame, cut_piece, find_frame
from allfocus.finishing.rendering import OutputSize, finish_image, finished_size
from allfocus.images.image import Image


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    return np.random.default_rng(2).random((30, 47, 3)).astype(np.float32)


@pytest.mark.parametrize("turns", range(4))
def test_crops_and_turns_copy_pixels_bit_for_bit(picture: np.ndarray, turns: int) -> None:
    finish = Finish(turns=turns, crop=Crop(5, 3, 20, 11))
    made = finish_image(Image(picture), finish).pixels
    assert np.array_equal(made, np.rot90(picture[3:14, 5:25], -turns))
    assert finished_size(finish, 47, 30) == made.shape[1::-1]


def test_pieces_are_parts_of_the_whole(picture: np.ndarray) -> None:
    for finish in (Finish(turns=1), Finish(angle=11.5, turns=2), Finish(crop=Crop(9, 8, 16, 12), angle=-8)):
        frame = find_frame(finish, 47, 30)
        whole = cut_frame(picture, frame)
        piece = cut_piece(picture, frame, (2, 3, 9, 8))
        assert piece == pytest.approx(whole[3:8, 2:9], abs=2e-3)


def test_a_straightened_line_is_level() -> None:
    """A line that rises to the right by 6 degrees is level after the picture is turned to the right by 6."""
    slope = np.tan(np.radians(6))
    rows, columns = np.mgrid[0:200, 0:300]
    line = np.exp(-(((rows - 100) + slope * (columns - 150)) ** 2) / 8).astype(np.float32)
    made = finish_image(Image(line), Finish(angle=6)).pixels
    peaks = made.argmax(axis=0)
    assert np.ptp(peaks) <= 1
    assert np.ptp(line.argmax(axis=0)) > 20
    assert made.shape[0] < 200
    assert made.shape[1] / made.shape[0] == pytest.approx(1.5, abs=0.02)


def test_turning_is_that_of_opencv() -> None:
    smooth = cv2.GaussianBlur(np.random.default_rng(4).random((80, 120)).astype(np.float32), (0, 0), 4)
    made = finish_image(Image(smooth), Finish(angle=20, crop=Crop(40, 25, 40, 30))).pixels
    # OpenCV counts angles to the left, and turns about pixel centres.
    matrix = cv2.getRotationMatrix2D((59.5, 39.5), -20, 1)
    turned = cv2.warpAffine(smooth, matrix, (120, 80), flags=cv2.INTER_CUBIC)
    assert made == pytest.approx(turned[25:55, 40:80], abs=3e-3)


@pytest.mark.parametrize("crop", [Crop(40, 0, 10, 10), Crop(0, 25, 5, 6), Crop(0, 0, 48, 30)])
def test_a_crop_beyond_the_picture_is_refused(picture: np.ndarray, crop: Crop) -> None:
    with pytest.raises(InputError, match="beyond the picture"):
        finish_image(Image(picture), Finish(crop=crop))
    with pytest.raises(InputError, match="beyond the picture"):
        find_frame(Finish(crop=Crop(0, 0, 47, 30), angle=1), 47, 30)


def test_metadata_follows_the_frame(picture: np.ndarray) -> None:
    alpha = np.linspace(0, 1, 30 * 47, dtype=np.float32).reshape(30, 47)
    image = Image(picture, alpha=alpha, resolution=(300.0, 150.0), bit_depth=16)
    made = finish_image(image, Finish(turns=1), size=OutputSize(percent=200))
    assert made.pixels.shape == (94, 60, 3)
    assert made.alpha is not None
    assert made.alpha.shape == (94, 60)
    assert made.resolution == (300.0, 600.0)
    assert made.bit_depth == 16


def test_sizes_are_those_asked_for(picture: np.ndarray) -> None:
    assert finish_image(Image(picture), Finish(), size=OutputSize(long_side=20)).pixels.shape == (13, 20, 3)
    same = finish_image(Image(picture), Finish(), size=OutputSize(percent=100)).pixels
    assert np.array_equal(same, picture)
    for wrong in ({"long_side": 0}, {"percent": 0.5}, {"long_side": 5, "percent": 5}):
        with pytest.raises(InputError):
            OutputSize(**wrong)


def test_the_picture_it_is_made_of_is_not_touched(picture: np.ndarray) -> None:
    before = picture.copy()
    finish_image(Image(picture), Finish(exposure=1, spots=(Spot(9, 9, 3),)))
    assert np.array_equal(picture, before)
