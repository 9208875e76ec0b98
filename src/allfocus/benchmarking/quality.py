"""How near a result is to the truth, on the area that both show, wherever the tool put its pixel grid.

A tool that aligns crops the picture and keeps the grid of a frame of its choice. So the result is registered to the
truth before it is scored: a coarse shift by matching the middle of the picture, then an affine transform by OpenCV's
enhanced correlation on the picture reduced to 2048 pixels and, for the truth that fits best, at full size. The truth is
resampled (Lanczos) onto the grid of the result, or only cropped by the nearest whole-pixel shift, whichever fits
better: a tool that kept the grid of a frame is not charged for errors of this registration. A rim of 16 pixels is left
out.
This is the registration of OpenCV, not that of this package, so that our own errors of alignment are counted.
"""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.benchmarking.inputs import RenderedStack
from allfocus.benchmarking.processes import ProgramFailedError
from allfocus.errors import AllfocusError
from allfocus.images.reading import read_image
from allfocus.metrics.peak_signal_noise_ratio import peak_signal_to_noise
from allfocus.metrics.structural_similarity import structural_similarity_index

Pixels = NDArray[np.float32]

RIM = 16
"""Pixels along the border that are not scored after a registration."""
_LARGEST_SIDE = 2048
_MATCHED_SIDE = 1024


@dataclass(frozen=True)
class Quality:
    """Scores of one result against the truth."""

    psnr: float
    """Peak signal to noise in dB on grey levels."""
    ssim: float
    """Structural similarity on grey levels."""
    scored_share: float
    """Share of the picture that was scored: 1 unless it was registered."""
    registration: str
    """``none``: same size, compared as it is; ``crop``: a whole-pixel shift; ``affine``: the truth was resampled."""


def score_result(path: Path, stack: RenderedStack) -> Quality:
    """Return the scores of a fused picture, against the truth on the grid that suits it best.

    Raises:
        ProgramFailedError: The file is not there or cannot be read.
    """
    try:
        result = _grey(path)
    except AllfocusError as error:
        raise ProgramFailedError(f"left no readable result: {error}") from error
    truths = [_grey(truth) for truth in stack.truths]
    if not stack.recipe.moved and result.shape == truths[0].shape:
        return _scores(result, truths[0], 1.0, "none")
    scored = [register_and_score(result, truth, largest_side=_LARGEST_SIDE) for truth in truths]
    best = max(range(len(truths)), key=lambda place: scored[place].psnr)
    if max(result.shape) <= _LARGEST_SIDE:
        return scored[best]
    return max(scored[best], register_and_score(result, truths[best]), key=lambda quality: quality.psnr)


def register_and_score(result: Pixels, truth: Pixels, *, largest_side: int | None = None) -> Quality:
    """Return the scores of a grey result (H, W) on the area it shares with a grey truth, both 0..1.

    Args:
        result: A fused picture.
        truth: What it should show, on a grid of its own.
        largest_side: Pictures are reduced to this for the registration; by default they are not.

    Example:
        >>> truth = cv2.GaussianBlur(np.random.default_rng(1).random((300, 400), dtype=np.float32), (0, 0), 2)
        >>> quality = register_and_score(truth[9:280, 5:390], truth)
        >>> quality.registration, quality.psnr
        ('crop', inf)
    """
    matrix = _to_truth(result, truth, largest_side or max(result.shape))
    height, width = result.shape
    middle = np.array([(width - 1) / 2, (height - 1) / 2, 1])
    shift = np.rint(matrix @ middle - middle[:2]).astype(int)
    whole = np.array([[1, 0, shift[0]], [0, 1, shift[1]]], np.float64)
    rows, columns = _shared(whole, result.shape, truth.shape)
    there = truth[rows.start + shift[1] : rows.stop + shift[1], columns.start + shift[0] : columns.stop + shift[0]]
    cropped = _scores(result[rows, columns], there, result[rows, columns].size / result.size, "crop")
    rows, columns = _shared(matrix, result.shape, truth.shape)
    flags = cv2.INTER_LANCZOS4 | cv2.WARP_INVERSE_MAP
    there = np.asarray(cv2.warpAffine(truth, matrix, (width, height), flags=flags), np.float32)[rows, columns]
    here = result[rows, columns]
    moved = _scores(here, np.clip(there, 0, 1), here.size / result.size, "affine")
    return max(cropped, moved, key=lambda quality: quality.psnr)


def _grey(path: Path) -> Pixels:
    pixels = read_image(path).pixels
    return pixels if pixels.ndim == 2 else np.asarray(cv2.cvtColor(pixels[..., :3], cv2.COLOR_RGB2GRAY))


def _scores(result: Pixels, truth: Pixels, share: float, kind: str) -> Quality:
    psnr = peak_signal_to_noise(result, truth)
    return Quality(round(psnr, 3), round(structural_similarity_index(result, truth), 5), round(share, 4), kind)


def _to_truth(result: Pixels, truth: Pixels, largest_side: int) -> NDArray[np.float64]:
    """Return the 2 x 3 matrix from points (x, y) of the result to those of the truth."""
    matrix = np.eye(2, 3)
    matrix[:, 2] = _coarse_shift(result, truth)
    for side in sorted({_MATCHED_SIDE, _LARGEST_SIDE, largest_side}):
        if side > largest_side:
            break
        scale = min(1.0, side / max(result.shape))
        small, target = _reduce(result, scale), _reduce(truth, scale)
        guess = _rescale(matrix, scale).astype(np.float32)
        stop = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 60 if side <= _LARGEST_SIDE else 10, 1e-6)
        try:
            # OpenCV looks for the transform from the template (the result) to the picture (the truth).
            _, found = cv2.findTransformECC(small, target, guess, cv2.MOTION_AFFINE, stop)
        except cv2.error as error:
            raise ProgramFailedError("its result cannot be registered to the truth; it shows something else") from error
        matrix = _rescale(np.asarray(found, np.float64), 1 / scale)
    return matrix


def _coarse_shift(result: Pixels, truth: Pixels) -> NDArray[np.float64]:
    """Return where the result's first pixel lies in the truth, to about the pixels of a quarter of the scale."""
    scale = min(1.0, _MATCHED_SIDE / max(truth.shape))
    small, target = _reduce(result, scale), _reduce(truth, scale)
    top, left = small.shape[0] // 4, small.shape[1] // 4
    middle = small[top : small.shape[0] - top, left : small.shape[1] - left]
    found = cv2.minMaxLoc(cv2.matchTemplate(target, middle, cv2.TM_CCOEFF_NORMED))[3]
    return np.asarray(np.array([found[0] - left, found[1] - top]) / scale, np.float64)


def _reduce(picture: Pixels, scale: float) -> Pixels:
    if scale == 1.0:
        return picture
    size = round(picture.shape[1] * scale), round(picture.shape[0] * scale)
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA))


def _rescale(matrix: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Return the matrix for pictures reduced by the scale; pixel centres are at whole numbers."""
    offset = (scale - 1) / 2
    linear, shift = matrix[:, :2], matrix[:, 2]
    return np.column_stack([linear, scale * shift + offset - linear @ np.array([offset, offset])])


def _corners(matrix: NDArray[np.float64], height: int, width: int) -> NDArray[np.float64]:
    points = np.array([[0, 0, 1], [width - 1, 0, 1], [0, height - 1, 1], [width - 1, height - 1, 1]], np.float64)
    return np.asarray(points @ matrix.T)


def _shared(matrix: NDArray[np.float64], shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[slice, slice]:
    """Return the rows and columns of the result that lie well inside the truth."""
    corners = _corners(matrix, shape[0], shape[1])
    left, top = np.ceil(np.maximum(0, -corners.min(axis=0))).astype(int) + RIM
    beyond = corners.max(axis=0) - (np.array([other[1], other[0]]) - 1)
    right, bottom = np.ceil(np.maximum(0, beyond)).astype(int) + RIM
    if top + bottom + 11 > shape[0] or left + right + 11 > shape[1]:
        raise ProgramFailedError("its result shares next to nothing with the truth")
    return slice(int(top), int(shape[0] - bottom)), slice(int(left), int(shape[1] - right))
