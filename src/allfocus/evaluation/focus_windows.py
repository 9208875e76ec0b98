"""Where to look closely: windows in which the focus changes from one source to another."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.pages.pictures import Pixels, Window


def find_focus_windows(
    sources: Sequence[Pixels], results: Sequence[Pixels], *, count: int = 2, side: int | None = None
) -> list[Window]:
    """Windows on the boundary between what one source shows sharply and what another does, most telling first.

    There methods differ: a window counts by how much boundary it holds and how much the results disagree in it.

    Args:
        sources: The partly focused pictures, one size.
        results: The methods' results, same size; may be empty.
        count: How many windows; fewer where the picture is too small for windows that do not overlap.
        side: Of a window; by default a sixth of the picture's smaller side, 64 at least.

    Example:
        >>> noise = np.random.default_rng(0).random((200, 200), dtype=np.float32)
        >>> left, right = noise.copy(), noise.copy()
        >>> left[:, 100:] = 0.5
        >>> right[:, :100] = 0.5
        >>> [(top, x, height, width)] = find_focus_windows([left, right], [], count=1)
        >>> x < 100 < x + width
        True
    """
    height, width = sources[0].shape[:2]
    side = min(max(64, min(height, width) // 6) if side is None else side, height, width)
    interest = _mean_over(_boundary(sources), side)
    if len(results) > 1:
        spread = np.stack([_grey(result) for result in results]).std(axis=0)
        interest = interest * (_mean_over(spread, side) + 1e-4)
    interest = interest + 1e-12 * _mean_over(np.abs(_grey(sources[0]) - _grey(sources[-1])), side)
    found: list[Window] = []
    half = side // 2
    allowed = np.zeros((height, width), bool)
    allowed[half : height - side + half + 1, half : width - side + half + 1] = True
    while len(found) < count and allowed.any():
        row, column = np.unravel_index(int(np.where(allowed, interest, -1.0).argmax()), interest.shape)
        top, left = int(row) - half, int(column) - half
        found.append((top, left, side, side))
        allowed[max(0, top + half - side) : top + half + side, max(0, left + half - side) : left + half + side] = False
    return found


def _boundary(sources: Sequence[Pixels]) -> NDArray[np.float32]:
    """Positive where the sharpest source changes from one pixel to the next, the more the clearer; 0 elsewhere."""
    reach = max(5, min(sources[0].shape[:2]) // 24) | 1
    sharpness = np.stack(
        [
            np.sqrt(cv2.GaussianBlur(cv2.Laplacian(_grey(source), cv2.CV_32F, ksize=3) ** 2, (0, 0), reach / 3))
            for source in sources
        ]
    )
    sharpest = cv2.medianBlur(sharpness.argmax(axis=0).astype(np.uint8), min(reach, 31))
    kernel = np.ones((3, 3), np.uint8)
    changes = np.asarray(cv2.dilate(sharpest, kernel) != cv2.erode(sharpest, kernel))
    # In a plain background the sharpest source changes by chance; there is a boundary only where it matters nearby.
    contrast = cv2.GaussianBlur(sharpness.max(axis=0) - sharpness.min(axis=0), (0, 0), reach)
    return np.asarray(changes * contrast, np.float32)


def _grey(picture: Pixels) -> Pixels:
    return picture if picture.ndim == 2 else picture.mean(axis=2, dtype=np.float32)


def _mean_over(values: Pixels, side: int) -> NDArray[np.float64]:
    return np.asarray(cv2.boxFilter(values.astype(np.float64), -1, (side, side), borderType=cv2.BORDER_REFLECT))
