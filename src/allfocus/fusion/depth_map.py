"""Fusion by a depth map: each pixel is taken as it is from the frame that is sharpest around it.

This is the "depth map" mode of focus stackers. Focus measure: the sum-modified Laplacian of S. K. Nayar and
Y. Nakagawa, "Shape from focus", IEEE TPAMI 16(8), 1994, whose second derivatives cannot cancel each other.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.frame_checks import check_frames, grey_levels
from allfocus.fusion.maps import FusedMaps


def fuse_depth_map(frames: Sequence[NDArray[np.float32]], *, smoothing: float = 5.0) -> FusedMaps:
    """The picture of the sharpest frame at each pixel, and the index of that frame: a map of depth.

    No pixel is mixed, so colours and noise stay those of a frame. Where all frames are flat the choice follows the
    nearest structure within reach of the smoothing; where they are equal, the earliest frame wins.

    Args:
        frames: two or more frames, (H, W, 3) RGB or (H, W), 0..1, of one size.
        smoothing: standard deviation in pixels of the Gaussian over the focus measure. Small follows edges closely,
            large is calmer in flat regions; 0 compares single pixels.

    Returns:
        The fused picture, shaped like a frame, and the decision (H, W): the index of the frame, from 0.

    Raises:
        InputError: frames that do not fit together, or a negative smoothing.

    Example:
        >>> sharp = np.eye(16, dtype=np.float32)
        >>> image, decision, *_ = fuse_depth_map([np.full((16, 16), 0.5, np.float32), sharp])
        >>> bool((image == sharp).all()), np.unique(decision).tolist()
        (True, [1])
    """
    checked = check_frames(frames)
    if not smoothing >= 0:
        raise InputError(f"smoothing is {smoothing}; it must be 0 or more pixels")
    fused = checked[0].copy()
    decision = np.zeros(fused.shape[:2], np.int16)
    sharpest = _focus_measure(grey_levels(fused), smoothing=smoothing)
    for index in range(1, len(checked)):
        frame = checked[index]
        sharpness = _focus_measure(grey_levels(frame), smoothing=smoothing)
        wins = sharpness > sharpest
        decision[wins] = index
        sharpest[wins] = sharpness[wins]
        fused[wins] = frame[wins]
    return FusedMaps(fused, decision)


def _focus_measure(grey: NDArray[np.float32], *, smoothing: float) -> NDArray[np.float32]:
    """The strength (H, W) of the second derivatives in both directions, smoothed."""
    curvature = np.array([-1.0, 2.0, -1.0])
    plain = np.ones(1)
    measure = np.abs(cv2.sepFilter2D(grey, -1, curvature, plain, borderType=cv2.BORDER_REFLECT_101))
    measure += np.abs(cv2.sepFilter2D(grey, -1, plain, curvature, borderType=cv2.BORDER_REFLECT_101))
    if smoothing > 0:
        measure = cv2.GaussianBlur(measure, (0, 0), smoothing, borderType=cv2.BORDER_REFLECT)
    result: NDArray[np.float32] = measure
    return result
