"""What every classical method needs of its frames: that they fit together, their grey, and picking pixels from them."""

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.frames_on_disk import FramesOnDisk, not_finite


def check_frames(frames: Sequence[NDArray[np.float32]]) -> Sequence[NDArray[np.float32]]:
    """The frames as float32 arrays that share one shape; those on disk stay there.

    Args:
        frames: two or more pictures, each (H, W, 3) RGB or each (H, W), floating point in 0..1, all of one size.

    Raises:
        InputError: fewer than two frames, a frame that is no picture or is empty, integers, differing shapes, or a
            value that is not a number. The message names the frame, counted from 1.

    Example:
        >>> len(check_frames([np.zeros((4, 5), np.float32), np.ones((4, 5), np.float32)]))
        2
    """
    if len(frames) < 2:
        raise InputError(f"fusion needs at least 2 frames, got {len(frames)}; give every picture of the stack")
    if isinstance(frames, FramesOnDisk):
        return frames  # a spool takes none that does not fit
    checked = []
    for number, frame in enumerate(frames, start=1):
        array = np.asarray(frame)
        if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)) or array.size == 0:
            raise InputError(f"frame {number} has shape {array.shape}; expected (height, width) or (height, width, 3)")
        if not np.issubdtype(array.dtype, np.floating):
            raise InputError(f"frame {number} holds {array.dtype}; scale it to floating point in 0..1 first")
        if array.shape != np.shape(frames[0]):
            raise InputError(
                f"frame {number} has shape {array.shape} but frame 1 has {np.shape(frames[0])};"
                " align or crop the frames to one size first"
            )
        if not np.isfinite(array).all():
            raise not_finite(number)
        checked.append(array.astype(np.float32, copy=False))
    return checked


def check_picture(
    picture: NDArray[Any], size: tuple[int, ...], *, what: str = "the fused picture", beside: str = "the frames"
) -> NDArray[np.float32]:
    """A picture that lies beside others of one size, as float32.

    Args:
        picture: (H, W, 3) or (H, W), floating point.
        size: Height and width of the others.
        what: What messages call it.
        beside: What messages call the others.

    Raises:
        InputError: it is no such picture, has another size, or a value that is not a number.

    Example:
        >>> check_picture(np.zeros((4, 5)), (4, 5)).dtype
        dtype('float32')
    """
    array = np.asarray(picture)
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3)) or array.size == 0:
        raise InputError(f"{what} has shape {array.shape}; expected (height, width) or (height, width, 3)")
    if array.shape[:2] != size:
        raise unequal_picture(what, array.shape, beside, size)
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(f"{what} holds {array.dtype}; scale it to floating point as the frames are")
    if not np.isfinite(array).all():
        raise InputError(f"{what} holds values that are not finite; replace them first")
    return array.astype(np.float32, copy=False)


def unequal_picture(what: str, shape: Sequence[int], beside: str, size: Sequence[int]) -> InputError:
    """The error for a picture of another size than those beside it."""
    return InputError(
        f"{what} is {shape[1]}x{shape[0]}, {beside} {size[1]}x{size[0]}; give the frames as they were fused, aligned "
        "and cropped",
        code="unequal-frames",
    )


def grey_levels(frame: NDArray[np.float32]) -> NDArray[np.float32]:
    """The brightness (H, W) of a frame in the frame's own 0..1 scale; a one-channel frame is returned as it is.

    Weights of Rec. 601 luma (0.299, 0.587, 0.114), as MATLAB's ``rgb2gray`` that the published methods call.

    Example:
        >>> float(grey_levels(np.full((1, 1, 3), 0.5, np.float32))[0, 0])
        0.5
    """
    if frame.ndim == 2:
        return frame
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(frame), cv2.COLOR_RGB2GRAY), np.float32)


def pick_pixels(frames: Sequence[NDArray[np.float32]], decision: NDArray[np.int16]) -> NDArray[np.float32]:
    """The picture that takes each pixel from the frame whose index, from 0, the decision (H, W) names.

    Example:
        >>> frames = [np.zeros((1, 2), np.float32), np.ones((1, 2), np.float32)]
        >>> pick_pixels(frames, np.array([[1, 0]], np.int16)).tolist()
        [[1.0, 0.0]]
    """
    fused = frames[0].copy()
    for index in range(1, len(frames)):
        chosen = decision == index
        fused[chosen] = frames[index][chosen]
    return fused
