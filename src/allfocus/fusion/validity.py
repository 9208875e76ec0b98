"""Frames that do not cover the whole picture: masks of where they have pixels, and what to put where they have none.

A mask is True where its frame has a pixel. It is an array (H, W) of bool, or anything that gives one when it is sliced
with rows and columns, as the masks of :class:`allfocus.images.spool.FrameSpool` do.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.spool import Mask

EVERYTHING = (slice(None), slice(None))


def check_masks(valid: Sequence[NDArray[Any]], count: int, size: tuple[int, ...]) -> list[NDArray[np.bool_]]:
    """The masks as arrays of bool.

    Raises:
        InputError: there is not one mask for each frame, or one has another size; it is named by its frame, from 1.

    Example:
        >>> len(check_masks([np.ones((4, 5), bool), np.ones((4, 5), bool)], 2, (4, 5)))
        2
    """
    if len(valid) != count:
        raise InputError(f"there are {len(valid)} masks for {count} frames; give one mask for each frame")
    masks = [np.asarray(mask) for mask in valid]
    for number, mask in enumerate(masks, start=1):
        if mask.dtype != np.bool_ or mask.shape != size:
            raise InputError(
                f"the mask of frame {number} is {mask.dtype} of shape {mask.shape}; expected bool of shape {size}"
            )
    return masks


def covered_area(valid: Sequence[Mask]) -> NDArray[np.bool_]:
    """(H, W): True where at least one frame has a pixel.

    Example:
        >>> covered_area([np.array([[True, False, False]]), np.array([[True, True, False]])]).tolist()
        [[True, True, False]]
    """
    covered = np.array(valid[0][EVERYTHING], bool)
    for mask in valid[1:]:
        covered |= mask[EVERYTHING]
    return covered


def fill_invalid(frames: Sequence[NDArray[np.float32]], valid: Sequence[Mask]) -> list[NDArray[np.float32]]:
    """The frames with the pixels they lack taken from the mean of those that have them; the frames stay as they are.

    A mean is never sharper than the sharpest of its parts, so a method that looks for sharpness has no reason to take
    it. Where no frame has a pixel it is the mean of all, so that nothing stands out.

    Args:
        frames: (H, W, 3) or (H, W), float32.
        valid: the mask of each.

    Example:
        >>> frames = [np.full((1, 2), 0.25, np.float32), np.full((1, 2), 0.75, np.float32)]
        >>> fill_invalid(frames, [np.array([[True, False]]), np.array([[True, True]])])[0].tolist()
        [[0.25, 0.75]]
    """
    mean = mean_of_valid(frames, valid)
    return [put_where_missing(frame, mask, mean) for frame, mask in zip(frames, valid, strict=True)]


def mean_of_valid(frames: Iterable[NDArray[np.float32]], valid: Sequence[Mask]) -> NDArray[np.float32]:
    """The mean of those frames that have a pixel, and of all where none has; one frame at a time is looked at.

    Example:
        >>> frames = [np.full((1, 2), 0.25, np.float32), np.full((1, 2), 0.75, np.float32)]
        >>> mean_of_valid(frames, [np.array([[True, False]]), np.array([[True, True]])]).tolist()
        [[0.5, 0.75]]
    """
    total, everything, count = np.zeros(()), np.zeros(()), np.zeros((), np.int64)
    for number, (frame, mask) in enumerate(zip(frames, valid, strict=True)):
        inside = _spread(mask, frame)
        if number == 0:
            total, everything = np.zeros(frame.shape, np.float64), np.zeros(frame.shape, np.float64)
            count = np.zeros(inside.shape, np.int64)
        total += np.where(inside, frame, 0)
        everything += frame
        count += inside
    return np.where(count > 0, total / np.maximum(count, 1), everything / len(valid)).astype(np.float32)


def put_where_missing(frame: NDArray[np.float32], mask: Mask, filling: NDArray[np.float32]) -> NDArray[np.float32]:
    """The frame with the filling in those pixels that it lacks."""
    return np.where(_spread(mask, frame), frame, filling)


def _spread(mask: Mask, frame: NDArray[np.float32]) -> NDArray[np.bool_]:
    """A mask (H, W) as one that fits the channels of a frame."""
    return mask[EVERYTHING].reshape(frame.shape[:2] + (1,) * (frame.ndim - 2))


def nearest_valid(decision: NDArray[np.int16], valid: Sequence[Mask]) -> NDArray[np.int16]:
    """The decision (H, W) with frames that have no pixel there replaced by the nearest in the stack that has one.

    Where no frame has one it stays.

    Example:
        >>> masks = [np.array([[True, False]]), np.array([[True, True]])]
        >>> nearest_valid(np.zeros((1, 2), np.int16), masks).tolist()
        [[0, 1]]
    """
    result = decision.copy()
    best = np.full(decision.shape, len(valid), np.int16)
    for index, mask in enumerate(valid):
        distance = np.abs(decision - np.int16(index))
        nearer = mask[EVERYTHING] & (distance < best) & (decision >= 0)
        result[nearer] = index
        best[nearer] = distance[nearer]
    return result
