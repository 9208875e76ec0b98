"""Fusion by guided filtering (GFF): two layers, each blended by weights that follow the edges of the picture.

S. Li, X. Kang and J. Hu, "Image fusion with guided filtering", IEEE Trans. Image Processing 22(7), 2013; the filter is
that of K. He, J. Sun and X. Tang, "Guided image filtering", IEEE TPAMI 35(6), 2013.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.frame_checks import check_frames, grey_levels
from allfocus.fusion.maps import FusedMaps

# All numbers are the paper's.
BASE_WINDOW = 31
SALIENCY_RADIUS = 5
SALIENCY_SIGMA = 5.0
BASE_RADIUS, BASE_REGULARISATION = 45, 0.3
DETAIL_RADIUS, DETAIL_REGULARISATION = 7, 1e-6


def fuse_guided_filter(frames: Sequence[NDArray[np.float32]]) -> FusedMaps:
    """The picture blended from a coarse and a fine layer of all frames, and no decision map: weights are soft.

    The frame with the strongest Laplacian around a pixel gets weight 1 there, the others 0. A guided filter bends
    these weights to the edges of each frame: widely for the coarse layer, closely for the fine one.

    Args:
        frames: two or more frames, (H, W, 3) RGB or (H, W), 0..1, of one size.

    Returns:
        The fused picture, shaped like a frame and clipped to 0..1.

    Raises:
        InputError: frames that do not fit together.

    Example:
        >>> image, decision, *_ = fuse_guided_filter([np.zeros((8, 8), np.float32), np.eye(8, dtype=np.float32)])
        >>> image.shape, decision
        ((8, 8), None)
    """
    checked = check_frames(frames)
    winner = _most_salient(checked)
    shape = checked[0].shape
    coarse, fine = _Blend(shape), _Blend(shape)
    for index, frame in enumerate(checked):
        grey = grey_levels(frame)
        chosen = (winner == index).astype(np.float32)
        base = np.asarray(cv2.blur(frame, (BASE_WINDOW, BASE_WINDOW), borderType=cv2.BORDER_REPLICATE), np.float32)
        coarse.add(base, _guided_weight(chosen, grey, radius=BASE_RADIUS, regularisation=BASE_REGULARISATION))
        detail_weight = _guided_weight(chosen, grey, radius=DETAIL_RADIUS, regularisation=DETAIL_REGULARISATION)
        fine.add(frame - base, detail_weight)
    return FusedMaps(np.clip(coarse.mean() + fine.mean(), 0.0, 1.0))


class _Blend:
    """A weighted mean of layers, added one by one so that memory does not grow with the length of the stack."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._layers = np.zeros(shape, np.float32)
        self._weights = np.zeros(shape[:2] + (1,) * (len(shape) - 2), np.float32)

    def add(self, layer: NDArray[np.float32], weight: NDArray[np.float32]) -> None:
        """Takes in a layer, (H, W) or (H, W, 3), with its weight (H, W)."""
        spread = weight.reshape(self._weights.shape)
        self._layers += layer * spread
        self._weights += spread

    def mean(self) -> NDArray[np.float32]:
        """The layers' mean by their weights, which must have a positive sum everywhere."""
        return self._layers / self._weights


def _most_salient(frames: Sequence[NDArray[np.float32]]) -> NDArray[np.int16]:
    """The index (H, W) of the frame with the strongest Laplacian around each pixel, the earliest of equals."""
    strongest = _saliency(grey_levels(frames[0]))
    winner = np.zeros(strongest.shape, np.int16)
    for index in range(1, len(frames)):
        saliency = _saliency(grey_levels(frames[index]))
        wins = saliency > strongest
        winner[wins] = index
        strongest[wins] = saliency[wins]
    return winner


def _saliency(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean strength (H, W) of the Laplacian around each pixel."""
    edges = np.abs(cv2.Laplacian(grey, cv2.CV_32F, ksize=1, borderType=cv2.BORDER_REPLICATE))
    side = 2 * SALIENCY_RADIUS + 1
    blurred = cv2.GaussianBlur(edges, (side, side), SALIENCY_SIGMA, borderType=cv2.BORDER_REPLICATE)
    return np.asarray(blurred, np.float32)


def _guided_weight(
    chosen: NDArray[np.float32], guide: NDArray[np.float32], *, radius: int, regularisation: float
) -> NDArray[np.float32]:
    """The 0/1 choice (H, W) bent to the edges of the guide, in 0..1 and nowhere quite 0.

    The filter overshoots; the paper's program cuts that off. The small rest makes the sum over the frames positive.
    """
    # Double precision: the fine layer's regularisation of 1e-6 is of the size of float32's rounding of the variance.
    choice, edges = chosen.astype(np.float64), guide.astype(np.float64)
    mean_guide, mean_choice = _window_mean(edges, radius), _window_mean(choice, radius)
    variance = _window_mean(edges * edges, radius) - mean_guide**2
    slope = (_window_mean(edges * choice, radius) - mean_guide * mean_choice) / (variance + regularisation)
    offset = mean_choice - slope * mean_guide
    weight = _window_mean(slope, radius) * edges + _window_mean(offset, radius)
    return (np.clip(weight, 0.0, 1.0) + 1e-12).astype(np.float32)


def _window_mean(values: NDArray[np.float64], radius: int) -> NDArray[np.float64]:
    """The mean over the part of the window around each pixel that lies inside the picture."""
    window = (2 * radius + 1, 2 * radius + 1)
    sums = cv2.boxFilter(values, -1, window, normalize=False, borderType=cv2.BORDER_CONSTANT)
    counts = cv2.boxFilter(np.ones_like(values), -1, window, normalize=False, borderType=cv2.BORDER_CONSTANT)
    return np.asarray(sums, np.float64) / np.asarray(counts, np.float64)
