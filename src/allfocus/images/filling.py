"""Values where there are none: filled in from the nearest that are known."""

import cv2
import numpy as np
from numpy.typing import NDArray


def fill_from_surroundings(values: NDArray[np.float32], weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """The values, kept where the weight is 1 and taken from ever wider surroundings the smaller it is.

    Weighted means at growing scales, filled in from coarse to fine: the push-pull of Gortler, Grzeszczuk, Szeliski and
    Cohen, "The Lumigraph", 1996.

    Args:
        values: (H, W) or (H, W, C).
        weight: (H, W), 0..1: how much is known.

    Example:
        >>> known = np.ones((8, 8), np.float32); known[2:5, 2:5] = 0
        >>> values = np.where(known > 0, 0.5, 9.0).astype(np.float32)
        >>> bool(np.allclose(fill_from_surroundings(values, known), 0.5, atol=1e-3))
        True
    """
    weights = [np.maximum(weight, np.float32(1e-6))]
    weighted = [values * _beside(weights[0], values)]
    while min(weights[-1].shape) >= 4:
        weights.append(np.asarray(cv2.pyrDown(weights[-1]), np.float32))
        weighted.append(np.asarray(cv2.pyrDown(weighted[-1]), np.float32))
    filled = weighted[-1] / _beside(weights[-1], values)
    for known, value in zip(weights[-2::-1], weighted[-2::-1], strict=True):
        wider = np.asarray(cv2.pyrUp(filled, dstsize=(known.shape[1], known.shape[0])), np.float32)
        kept = _beside(np.minimum(known, 1), values)
        filled = kept * (value / _beside(known, values)) + (1 - kept) * wider
    return np.asarray(filled, np.float32)


def _beside(weight: NDArray[np.float32], values: NDArray[np.float32]) -> NDArray[np.float32]:
    return weight if values.ndim == 2 else weight[..., None]
