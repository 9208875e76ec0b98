"""Frames as the network sees them, and its logits where frames lack pixels."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.frame_source import FrameSource
from allfocus.fusion.inference import three_channels
from allfocus.fusion.windows import Area, pad_to_steps, whole_area
from allfocus.network.contract import LEFT_OUT

BRIGHTEST = np.float32(1.25)
"""What the network sees at the most: highlights beyond the robust range."""


def prepare_frames(
    frames: Sequence[NDArray[np.float32]],
    order: Sequence[int],
    low: float,
    span: float,
    region: Area | None = None,
) -> NDArray[np.float32]:
    """Returns frames as the network wants them: (n, 3, H, W), about 0..1, the sides repeated up to the region's end."""
    height, width = frames[0].shape[:2]
    if region is None:
        region = pad_to_steps(whole_area((height, width)))
    rows, columns = (side.stop - side.start for side in region)
    stack = np.empty((len(frames), 3, rows, columns), np.float32)
    for place, index in enumerate(order):
        values = np.clip((three_channels(frames[index]) - np.float32(low)) / np.float32(span), 0, BRIGHTEST)
        stack[place, :, :height, :width] = values.transpose(2, 0, 1)
    stack[..., height:, :] = stack[..., height - 1 : height, :]
    stack[..., :, width:] = stack[..., :, width - 1 : width]
    return stack


def forbid_missing(
    logits: NDArray[np.float32], source: FrameSource, chosen: Sequence[int], area: Area, level: int, scale: int
) -> NDArray[np.float32]:
    """Returns the logits of an area of a level, with frames out of the running where they have no pixels."""
    factor = scale * 2**level
    height, width = source.shape[:2]
    full = (
        slice(area[0].start * factor, min(area[0].stop * factor, height)),
        slice(area[1].start * factor, min(area[1].stop * factor, width)),
    )
    masks = [source.read_valid(index, full) for index in chosen]
    if all(mask is None or mask.all() for mask in masks):
        return logits
    result = logits.copy()
    for own, mask in zip(result, masks, strict=True):
        if mask is not None and not mask.all():
            padded = np.pad(mask, [(0, -side % factor) for side in mask.shape], mode="edge")
            small = cv2.resize(padded.astype(np.float32), own.shape[::-1], interpolation=cv2.INTER_AREA)
            own[small < 1] = np.float32(LEFT_OUT)
    return result
