"""Scores against the truth, wherever a tool put its pixel grid."""

import cv2
import numpy as np
import pytest

from allfocus.benchmarking.inputs import StackRecipe, prepare_stack
from allfocus.benchmarking.processes import ProgramFailedError
from allfocus.benchmarking.quality import _rescale, register_and_score, score_result
from allfocus.images.reading import read_image
from allfocus.images.writing import write_image
from allfocus.scenes.rendering import render_scene


@pytest.fixture(scope="module")
def truth() -> np.ndarray:
    picture = render_scene("slope", frames=1, size=(360, 480), aperture=0.0).truth
    return cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)


def moved(picture: np.ndarray, scale: float, angle: float, shift: tuple[float, float]) -> np.ndarray:
    height, width = picture.shape
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), angle, scale)
    matrix[:, 2] += shift
    return cv2.warpAffine(picture, matrix, (width, height), flags=cv2.INTER_LANCZOS4, borderMode=cv2.BORDER_REFLECT)


def test_a_crop_of_the_truth_is_equal_to_it(truth):
    quality = register_and_score(truth[7:350, 12:470], truth)
    assert (quality.registration, quality.psnr) == ("crop", np.inf)
    assert quality.scored_share < 1


def test_a_moved_truth_scores_far_better_registered_than_not(truth):
    smooth = cv2.GaussianBlur(truth, (0, 0), 1.5)
    result = np.clip(moved(smooth, 1.012, 0.4, (5.3, -3.7)), 0, 1)
    quality = register_and_score(result, smooth)
    plain = -10 * np.log10(np.mean((result - smooth) ** 2))
    assert quality.registration == "affine"
    assert quality.psnr > 45 > plain + 15


def test_blur_is_not_taken_for_movement(truth):
    blurred = cv2.GaussianBlur(truth, (0, 0), 1.0)
    quality = register_and_score(blurred, truth)
    plain = -10 * np.log10(np.mean((blurred - truth)[16:-16, 16:-16] ** 2))
    assert quality.psnr == pytest.approx(plain, abs=0.1)


def test_a_picture_of_nothing_is_told(truth):
    with pytest.raises(ProgramFailedError, match="cannot be registered"):
        register_and_score(np.full((300, 400), 0.5, np.float32), truth)


def test_the_grid_that_fits_best_is_taken(tmp_path):
    recipe = StackRecipe("small", "for tests", "slope", 3, (240, 320), aperture=0.0, breathing=0.01, shake=2.0)
    stack = prepare_stack(recipe, tmp_path)
    for frame in stack.frames:
        assert score_result(frame, stack).psnr == np.inf


def test_a_result_of_the_right_size_is_compared_as_it_is(tmp_path):
    stack = prepare_stack(StackRecipe("small", "for tests", "slope", 2, (64, 80), aperture=0.01), tmp_path)
    truth = read_image(stack.truths[0])
    write_image(truth, tmp_path / "fused.tif")
    quality = score_result(tmp_path / "fused.tif", stack)
    assert (quality.psnr, quality.ssim, quality.scored_share, quality.registration) == (np.inf, 1.0, 1.0, "none")
    assert score_result(stack.frames[0], stack).psnr < 50


def test_a_missing_result_is_told(tmp_path):
    stack = prepare_stack(StackRecipe("small", "for tests", "slope", 2, (64, 80)), tmp_path)
    with pytest.raises(ProgramFailedError, match="left no readable result"):
        score_result(tmp_path / "nothing.tif", stack)


def test_a_transform_means_the_same_in_reduced_pictures():
    matrix = np.array([[1.5, -0.2, 3.0], [0.2, 1.5, -7.0]])
    point, scale = np.array([40.0, 30.0]), 0.25
    reduced = _rescale(matrix, scale)
    # Pixel centres lie at whole numbers, so the border of the picture is at -0.5 at every scale.
    small = (point + 0.5) * scale - 0.5
    there = matrix[:, :2] @ point + matrix[:, 2]
    np.testing.assert_allclose(reduced[:, :2] @ small + reduced[:, 2], (there + 0.5) * scale - 0.5)
    np.testing.assert_allclose(_rescale(reduced, 1 / scale), matrix)
