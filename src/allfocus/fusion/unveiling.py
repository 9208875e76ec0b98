"""Taking off the veils that the network finds, as far as what the frames show bears them out."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.settings import AS_CHOSEN
from allfocus.network import contract

LARGEST_OPACITY = np.float32(contract.LARGEST_OPACITY)
"""In the type of pictures."""
RANGE_WINDOW = 5
"""Side, in pixels of the plan, of the window over which frames are compared in :func:`light_range`."""
RANGE_SLACK = np.float32(0.5)
"""Share by which a place without its veil may be darker or brighter than in all frames: they are blurred there."""
DARKEST_REACH = 1
"""Pixels around a cell of the veil in which none may have less light than the veil adds."""


class Veil(NamedTuple):
    """What lies nearer than the focus of a frame, blurred over what it shows."""

    opacity: NDArray[np.float32]
    """(H, W), 0 to LARGEST_OPACITY."""
    light: NDArray[np.float32]
    """(H, W, 3), what it adds to the light, as the network sees values."""


def read_veil(maps: NDArray[np.float32], light: NDArray[np.float32]) -> Veil:
    """Returns the veil (h, w) of a frame that the network says in its maps.

    Args:
        maps: (4, h, w), opacity, and how the light of the near thing differs from the mean of what is there.
        light: of the frame, (4 h, 4 w, 3).
    """
    height, width = maps.shape[1:]
    opacity = np.clip(maps[0], 0, LARGEST_OPACITY)
    local = cv2.resize(light, (width, height), interpolation=cv2.INTER_AREA)
    # Nothing sheds less light than none.
    return Veil(opacity, opacity[..., None] * np.maximum(local + maps[1:].transpose(1, 2, 0), 0))


def light_range(stack: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the light (h, w, 3) around each pixel in the frame that has least of it there, and in that with most.

    Args:
        stack: (frames, 3, h, w) as the network sees values.
    """
    side = RANGE_WINDOW, RANGE_WINDOW
    least, most = None, None
    for frame in stack:
        light = cv2.blur(np.square(frame.transpose(1, 2, 0)), side, borderType=cv2.BORDER_REPLICATE)
        least = light if least is None else np.minimum(least, light)
        most = light if most is None else np.maximum(most, light)
    return np.asarray(least, np.float32), np.asarray(most, np.float32)


def believable(
    veil: Veil, light: NDArray[np.float32], least: NDArray[np.float32], most: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Returns how much of a veil (h, w) can be taken off, 0 to 1.

    The frame that is focused on the near thing has no veil beside it, and shows what is behind as brightly as it is,
    only blurred: so without its veil no place may be darker or brighter than in every frame. And no pixel may have less
    light than the veil adds.

    Args:
        veil: of the frame, (h, w).
        light: of the frame, (4 h, 4 w, 3).
        least: the light of the frame that has least of it there, (h, w, 3).
        most: the same of the frame that has most.
    """
    height, width = veil.opacity.shape
    local = cv2.resize(light, (width, height), interpolation=cv2.INTER_AREA)
    opacity, added = veil.opacity[..., None], veil.light
    lowest, highest = least * (1 - RANGE_SLACK), most * (1 + RANGE_SLACK)
    side = 2 * DARKEST_REACH + 1
    darkest = cv2.erode(light, np.ones((side, side), np.uint8)).reshape(height, 4, width, 4, 3).min(axis=(1, 3))
    # The share s of the veil that leaves (local - s added) / (1 - s opacity) at an end of the range.
    with np.errstate(divide="ignore", invalid="ignore"):
        behind = (local - added) / (1 - opacity)
        down = np.where(behind < lowest, (local - lowest) / (added - opacity * lowest), 1)
        up = np.where(behind > highest, (highest - local) / (opacity * highest - added), 1)
        room = np.where(added > darkest, darkest / added, 1)
    share = np.clip(np.minimum(np.minimum(down, up), room), 0, 1).min(axis=2)
    return np.asarray(share, np.float32)


def unveil(
    frame: NDArray[np.float32],
    veil: Veil,
    low: float,
    span: float,
    *,
    faintest_opacity: float = AS_CHOSEN.faintest_opacity,
    wanted: NDArray[np.bool_] | None = None,
    share: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Returns a frame (H, W[, 3]) without its veil: (I - aF) / (1 - a), in light.

    Args:
        frame: as it is stored.
        veil: of the same size.
        low: the value that the network sees as 0.
        span: how far above it is what it sees as 1.
        faintest_opacity: what is fainter stays.
        wanted: (H, W) where it matters; elsewhere the frame stays as it is. None for everywhere.
        share: (H, W) how much of the veil is taken off, from :func:`believable`; None for all of it.
    """
    fading = np.clip(veil.opacity / np.float32(faintest_opacity) - 1, 0, 1)
    there = fading > 0
    if wanted is not None:
        there &= wanted
    if not there.any():
        return frame
    result = frame.copy()
    pixels = frame[there]
    added, opacity, amount = veil.light[there], veil.opacity[there], fading[there]
    if share is not None:
        added, opacity = share[there][:, None] * added, share[there] * opacity
    if frame.ndim == 2:
        added = added.mean(axis=1)
    else:
        opacity, amount = opacity[:, None], amount[:, None]
    values = (pixels - np.float32(low)) / np.float32(span)
    light = (np.square(np.maximum(values, 0)) - added) / (1 - opacity)
    change = np.sqrt(np.maximum(light, 1e-6)) - values
    # What a veil hides can be guessed brighter than white; no value may leave the range of the frames.
    lowest, highest = np.minimum(pixels, np.float32(low)), np.maximum(pixels, np.float32(low + span))
    result[there] = np.clip(pixels + amount * change * np.float32(span), lowest, highest)
    return result
