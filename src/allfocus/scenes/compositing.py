"""Puts layers together far to near, each blurred by the lens: one frame, or the distance map of the truth."""

import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.scenes.layers import Layer, Stage
from allfocus.scenes.lens import SHARP_RADIUS, blur_disk, blur_radius, blur_varying

INTERPOLATION_REACH = 4
"""Pixels that the Lanczos interpolation of a shaken frame looks beyond the frame."""


def composite_frame(
    layers: Sequence[Layer], stage: Stage, *, focus: float, strength: float, transform: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return what the lens draws on the sensor, (H, W, 3), in the light of the layers, not clipped.

    Args:
        layers: Far to near.
        stage: The pixel grid that the layers lie on.
        focus: Distance at which the lens is focused.
        strength: Blur radius in pixels per unit of |1/focus - 1/distance|; 0 is sharp everywhere.
        transform: 3 x 3, from points of the frame to points of the picture.
    """
    top, bottom, left, right = _needed_window(stage, transform)
    picture = np.zeros((bottom - top, right - left, 3), dtype=np.float32)
    for layer in layers:
        lay_over(picture, layer, window=(top, left), focus=focus, strength=strength)
    if np.array_equal(transform, np.eye(3)):
        return picture
    to_window = np.array([[1, 0, stage.margin - left], [0, 1, stage.margin - top], [0, 0, 1]], dtype=np.float64)
    # OpenCV rounds positions to 1/32 pixel here; the transforms are exact up to 1/64 pixel therefore.
    frame = cv2.warpAffine(
        picture,
        (to_window @ transform)[:2],
        (stage.width, stage.height),
        flags=cv2.INTER_LANCZOS4 | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return frame.astype(np.float32, copy=False)


def lay_over(
    picture: NDArray[np.float32], layer: Layer, *, window: tuple[int, int], focus: float, strength: float
) -> None:
    """Blur a layer and lay it over ``picture``, in place.

    Args:
        picture: (h, w, 3), the light collected so far.
        layer: What comes nearer than all of it.
        window: Row and column of the canvas at which ``picture`` begins.
        focus: Distance at which the lens is focused.
        strength: Blur radius in pixels per unit of |1/focus - 1/distance|.
    """
    radius = blur_radius(layer.distance, focus=focus, strength=strength)
    largest = float(radius.max())
    reach = math.ceil(largest) if largest > SHARP_RADIUS else 0
    top, left = layer.top - window[0], layer.left - window[1]
    # The part of the layer that can reach the window, in the layer's own rows and columns.
    rows = slice(max(0, -top - reach), max(0, min(layer.light.shape[0], picture.shape[0] - top + reach)))
    columns = slice(max(0, -left - reach), max(0, min(layer.light.shape[1], picture.shape[1] - left + reach)))
    light = layer.light[rows, columns]
    if light.size == 0:
        return
    if reach:
        light = np.pad(light, ((reach, reach), (reach, reach), (0, 0)))
        if radius.ndim == 0:
            light = blur_disk(light, largest)
        else:
            light = blur_varying(light, np.pad(radius[rows, columns], reach, mode="edge"))
    top, left = top + rows.start - reach, left + columns.start - reach
    light = light[max(0, -top) : picture.shape[0] - top, max(0, -left) : picture.shape[1] - left]
    top, left = max(0, top), max(0, left)
    behind = picture[top : top + light.shape[0], left : left + light.shape[1]]
    behind *= 1.0 - light[..., 3:]
    behind += light[..., :3]


def visible_distance(layers: Sequence[Layer], stage: Stage) -> NDArray[np.float32]:
    """Return the distance of the nearest layer that covers at least half of each pixel, (H, W)."""
    distance = np.zeros(stage.shape, dtype=np.float32)
    for layer in layers:
        height, width = layer.light.shape[:2]
        view = distance[layer.top : layer.top + height, layer.left : layer.left + width]
        np.copyto(view, layer.distance, where=layer.light[..., 3] >= 0.5)
    return _inside(distance, stage)


def visible_thin_things(layers: Sequence[Layer], stage: Stage) -> NDArray[np.bool_]:
    """Return where layers that are marked as thin make up a quarter or more of what is seen, (H, W).

    A quarter, because a hair one pixel wide that runs between two columns covers half of both at most.
    """
    share = np.zeros(stage.shape, dtype=np.float32)
    for layer in layers:
        height, width = layer.light.shape[:2]
        view = share[layer.top : layer.top + height, layer.left : layer.left + width]
        view *= 1 - layer.light[..., 3]
        if layer.thin:
            view += layer.light[..., 3]
    return _inside(share, stage) >= 0.25


def _inside(canvas: NDArray[np.float32], stage: Stage) -> NDArray[np.float32]:
    """Return the picture within the margin of a canvas."""
    inside = slice(stage.margin, stage.margin + stage.height), slice(stage.margin, stage.margin + stage.width)
    return canvas[inside].copy()


def distance_range(layers: Sequence[Layer], stage: Stage) -> tuple[float, float]:
    """Return the nearest and the farthest distance of the layers inside the picture, its margin left out.

    Things too thin to fill half a pixel count as well, so that the default focus reaches the finest hair.
    """
    nearest, farthest = math.inf, 0.0
    for layer in layers:
        rows = slice(max(0, stage.margin - layer.top), max(0, stage.margin + stage.height - layer.top))
        columns = slice(max(0, stage.margin - layer.left), max(0, stage.margin + stage.width - layer.left))
        seen = layer.light[rows, columns, 3] > 0.1
        if seen.any():
            distance = np.broadcast_to(layer.distance, layer.light.shape[:2])[rows, columns][seen]
            nearest, farthest = min(nearest, float(distance.min())), max(farthest, float(distance.max()))
    return nearest, farthest


def _needed_window(stage: Stage, transform: NDArray[np.float64]) -> tuple[int, int, int, int]:
    """Return top, bottom, left, right on the canvas of what a frame shows, with room for interpolation."""
    corners = np.array(
        [[0, 0, 1], [stage.width - 1, 0, 1], [0, stage.height - 1, 1], [stage.width - 1, stage.height - 1, 1]]
    )
    x, y, _ = transform @ corners.T.astype(np.float64) + stage.margin
    reach = 0 if np.array_equal(transform, np.eye(3)) else INTERPOLATION_REACH
    top, left = math.floor(y.min()) - reach, math.floor(x.min()) - reach
    bottom, right = math.ceil(y.max()) + reach + 1, math.ceil(x.max()) + reach + 1
    return max(0, top), min(stage.shape[0], bottom), max(0, left), min(stage.shape[1], right)
