"""How sharp each part of a picture is, for decisions about whole frames: which to take, which add nothing."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST_SIDE = 1024
"""Pixels along the longer side at which sharpness is measured: what is blurred by less than that shows nowhere else."""
ROWS, COLUMNS = 18, 24
GREY_WEIGHTS = np.array([0.299, 0.587, 0.114], np.float32)
LEAST_SHARE = 0.02
"""Of the sharpest part: below it a part has nothing in it that could be sharp."""


def measure_sharpness(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    """How sharp each part of a picture is: the strength of its finest detail.

    Args:
        grey: (H, W) of any range.

    Returns:
        (ROWS, COLUMNS), or fewer for small pictures; 0 where nothing changes.

    Example:
        >>> measure_sharpness(np.zeros((64, 64), np.float32)).max()
        np.float32(0.0)
    """
    import cv2

    small = _shrink(grey, LONGEST_SIDE)
    # The noise of single pixels is no detail; below a pixel's width nothing is lost by this.
    smooth = cv2.GaussianBlur(small, (0, 0), 0.7)
    detail = np.abs(cv2.Laplacian(smooth, cv2.CV_32F, ksize=1, borderType=cv2.BORDER_REFLECT_101))
    height, width = detail.shape
    size = (max(1, min(COLUMNS, width // 4)), max(1, min(ROWS, height // 4)))
    squares = cv2.resize(detail * detail, size, interpolation=cv2.INTER_AREA)
    return np.sqrt(np.asarray(squares, np.float32))


def show_something(maps: NDArray[np.float32]) -> NDArray[np.bool_]:
    """(ROWS, COLUMNS): the parts that are sharp in some frame, of maps (N, ROWS, COLUMNS)."""
    best = maps.max(axis=0)
    return best > LEAST_SHARE * best.max() if best.max() > 0 else np.zeros(best.shape, np.bool_)


def needed_frames(maps: Sequence[NDArray[np.float32]], *, tolerance: float) -> list[int]:
    """The fewest frames, found greedily, that show every part as sharp as any frame does, within a tolerance.

    Args:
        maps: Of each frame, from :func:`measure_sharpness`.
        tolerance: How much less sharp than the sharpest a part may be, as a share.

    Returns:
        Indices in order; all of them where nothing is sharp.

    Example:
        >>> left, right, blurred = (np.float32([values]) for values in ((4, 1), (1, 4), (1, 1)))
        >>> needed_frames([left, blurred, right], tolerance=0.1)
        [0, 2]
    """
    stack = np.stack(maps)
    parts = show_something(stack)
    if not parts.any():
        return list(range(len(maps)))
    good = (stack >= (1 - tolerance) * stack.max(axis=0))[:, parts]
    missing = np.ones(good.shape[1], np.bool_)
    chosen: list[int] = []
    while missing.any():
        best = int(np.argmax((good & missing).sum(axis=1)))
        chosen.append(best)
        missing &= ~good[best]
    return sorted(chosen)


def grey_of(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """(H, W): a picture (H, W, 3) or (H, W) in grey."""
    return pixels if pixels.ndim == 2 else np.asarray(pixels @ GREY_WEIGHTS, np.float32)


def _shrink(grey: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    import cv2

    height, width = grey.shape
    scale = side / max(height, width)
    if scale >= 1:
        return np.ascontiguousarray(grey)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.float32)
