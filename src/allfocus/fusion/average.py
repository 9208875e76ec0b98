"""Fusion by the plain mean of all frames: the floor that every other method has to beat."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.frame_checks import check_frames
from allfocus.fusion.maps import FusedMaps


def fuse_average(frames: Sequence[NDArray[np.float32]]) -> FusedMaps:
    """The mean of the frames, and no decision map: every frame has the same say in every pixel.

    Args:
        frames: two or more frames, (H, W, 3) RGB or (H, W), 0..1, of one size.

    Returns:
        The fused picture, shaped like a frame.

    Example:
        >>> image, decision, *_ = fuse_average([np.zeros((2, 2), np.float32), np.ones((2, 2), np.float32)])
        >>> float(image[0, 0]), decision
        (0.5, None)
    """
    checked = check_frames(frames)
    # The sum is kept in double precision: a stack may hold hundreds of frames.
    total = np.zeros(checked[0].shape, np.float64)
    for frame in checked:
        total += frame
    return FusedMaps((total / len(checked)).astype(np.float32))
