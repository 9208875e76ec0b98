"""What the objects of a scene are drawn with: distances to edges, coverage, light, and sprites laid over each other.

Edges are anti-aliased: coverage is the share of a pixel that a shape covers. Sizes are in pixels.
"""

import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.scenes.layers import Sprite
from allfocus.scenes.textures import Colour, Picture, Values, mix

_LIGHT = np.array([-0.45, -0.62, 0.64], dtype=np.float32)
"""Direction towards the light: x to the right, y down, z towards the viewer."""


def centred_grid(height: int, width: int) -> tuple[Picture, Picture]:
    """Return y (h, 1) and x (1, w) in pixels from the middle of a picture."""
    y = np.arange(height, dtype=np.float32)[:, None] - np.float32((height - 1) / 2)
    x = np.arange(width, dtype=np.float32)[None, :] - np.float32((width - 1) / 2)
    return y, x


def coverage(signed_distance: Values) -> Picture:
    """Return how much of each pixel is covered by a shape, from the distance to its edge (negative inside)."""
    share: Picture = np.clip(0.5 - signed_distance, 0.0, 1.0).astype(np.float32)
    return share


def rounded_box(y: Picture, x: Picture, half_height: float, half_width: float, corner: float) -> Picture:
    """Return the signed distance to a rectangle around the origin with rounded corners."""
    corner = min(corner, half_height, half_width)
    down, across = np.abs(y) - np.float32(half_height - corner), np.abs(x) - np.float32(half_width - corner)
    outside = np.hypot(np.maximum(down, 0.0), np.maximum(across, 0.0))
    distance: Picture = outside + np.minimum(np.maximum(down, across), 0.0) - np.float32(corner)
    return distance


def ellipse(y: Picture, x: Picture, half_height: float, half_width: float) -> Picture:
    """Return the signed distance to an ellipse around the origin, accurate near its edge."""
    radius = np.hypot(y / half_height, x / half_width)
    slope = np.hypot(y / half_height**2, x / half_width**2) / np.maximum(radius, 1e-6)
    distance: Picture = (radius - 1.0) / np.maximum(slope, 1e-6)
    return distance.astype(np.float32)


def polygon(height: int, width: int, points: Sequence[tuple[float, float]] | NDArray[np.float64]) -> Picture:
    """Return the coverage (h, w) of the polygon through ``points`` (x, y), sampled four times per axis."""
    scale = 4
    canvas = np.zeros((height * scale, width * scale), dtype=np.uint8)
    corners = np.rint(np.asarray(points, dtype=np.float64) * scale * 16).astype(np.int32)
    cv2.fillPoly(canvas, [corners], 255, cv2.LINE_8, 4)
    return cv2.resize(canvas, (width, height), interpolation=cv2.INTER_AREA).astype(np.float32) / np.float32(255)


def strokes(height: int, width: int, lines: Sequence[NDArray[np.float64]], thickness: Sequence[float]) -> Picture:
    """Return the coverage (h, w) of open lines through points (x, y), each with its own thickness in pixels.

    Lines thinner than a pixel become fainter instead, as a lens would draw them.
    """
    scale = 4 if height * width < 4_000_000 else 2  # lines are many pixels wide in large pictures
    canvas = np.zeros((height * scale, width * scale), dtype=np.uint8)
    for line, wide in zip(lines, thickness, strict=True):
        drawn = max(1, round(wide * scale))
        corners = np.rint(line * scale * 16).astype(np.int32)
        cv2.polylines(canvas, [corners], False, 255, drawn, cv2.LINE_AA, 4)
    return cv2.resize(canvas, (width, height), interpolation=cv2.INTER_AREA).astype(np.float32) / np.float32(255)


def over(below: Sprite, colour: Picture | Colour, alpha: Picture) -> Sprite:
    """Return a sprite with ``colour`` laid over it where ``alpha`` says."""
    above = np.broadcast_to(np.asarray(colour, dtype=np.float32), below.colour.shape)
    union = below.alpha + alpha - below.alpha * alpha
    share = np.where(union > 0, alpha / np.maximum(union, 1e-6), 0.0)
    return Sprite(mix(below.colour, above, share), union)


def empty(height: int, width: int) -> Sprite:
    """Return a sprite with nothing in it."""
    return Sprite(np.zeros((height, width, 3), dtype=np.float32), np.zeros((height, width), dtype=np.float32))


def rotated(sprite: Sprite, degrees: float) -> Sprite:
    """Return the sprite turned anticlockwise about its middle, on a canvas large enough."""
    height, width = sprite.alpha.shape
    turn = math.radians(degrees)
    new_width = math.ceil(abs(width * math.cos(turn)) + abs(height * math.sin(turn))) + 2
    new_height = math.ceil(abs(height * math.cos(turn)) + abs(width * math.sin(turn))) + 2
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
    matrix[:, 2] += [(new_width - width) / 2, (new_height - height) / 2]
    size = (new_width, new_height)
    colour = cv2.warpAffine(sprite.colour, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    alpha = cv2.warpAffine(sprite.alpha, matrix, size, flags=cv2.INTER_LINEAR, borderValue=0)
    return Sprite(np.clip(colour, 0.0, 1.0).astype(np.float32), alpha.astype(np.float32, copy=False))


def paste(picture: Picture, sprite: Sprite, *, x: float, y: float, shadow: float = 0.0) -> None:
    """Lay a sprite with its middle at (x, y) onto a picture, in place; ``shadow`` is its reach in pixels."""
    height, width = sprite.alpha.shape
    top, left = round(y - height / 2), round(x - width / 2)
    if shadow > 0:
        pad = math.ceil(2 * shadow) + 1
        dark = cv2.GaussianBlur(np.pad(sprite.alpha, pad), (0, 0), shadow / 2)
        _blend(
            picture,
            (0.0, 0.0, 0.0),
            dark * np.float32(0.5),
            round(top - pad + shadow),
            round(left - pad + 0.8 * shadow),
        )
    _blend(picture, sprite.colour, sprite.alpha, top, left)


def _blend(picture: Picture, colour: Picture | Colour, alpha: Picture, top: int, left: int) -> None:
    """Mix a colour into the part of a picture that begins at (top, left), in place."""
    height, width = alpha.shape
    rows = slice(max(0, -top), max(0, min(height, picture.shape[0] - top)))
    columns = slice(max(0, -left), max(0, min(width, picture.shape[1] - left)))
    above = np.asarray(colour, dtype=np.float32)
    above = above[rows, columns] if above.ndim == 3 else above
    view = picture[
        max(0, top) : max(0, top) + rows.stop - rows.start, max(0, left) : max(0, left) + columns.stop - columns.start
    ]
    if view.size:
        view += (above - view) * alpha[rows, columns, None]


def lit_sphere(y: Picture, x: Picture, radius: float) -> tuple[Picture, Picture]:
    """Return the brightness of a matt sphere (about 0.25..1.1) and its mirror highlight (0..1), both (h, w)."""
    normal_x, normal_y = x / np.float32(radius), y / np.float32(radius)
    normal_z = np.sqrt(np.maximum(1.0 - normal_x**2 - normal_y**2, 0.0))
    matt = np.maximum(normal_x * _LIGHT[0] + normal_y * _LIGHT[1] + normal_z * _LIGHT[2], 0.0)
    bounce = 0.12 * np.maximum(normal_y, 0.0)
    mirror = np.maximum(2 * matt * normal_z - _LIGHT[2], 0.0) ** 24
    return (0.30 + 0.80 * matt + bounce).astype(np.float32), mirror.astype(np.float32)


def lit_cylinder(x: Picture, radius: float) -> tuple[Picture, Picture]:
    """Return the brightness of an upright cylinder and its highlight, in the shape of ``x``."""
    across = np.clip(x / np.float32(radius), -1.0, 1.0)
    depth = np.sqrt(1.0 - across**2)
    matt = np.maximum(-0.55 * across + 0.80 * depth, 0.0)
    mirror = np.exp(-(((across + 0.42) / 0.09) ** 2)) + 0.4 * np.exp(-(((across - 0.72) / 0.05) ** 2))
    return (0.32 + 0.72 * matt).astype(np.float32), mirror.astype(np.float32)


def softened(sprite: Sprite, spread: float) -> Sprite:
    """Return the sprite with the edge of its shape blurred by a Gaussian of standard deviation ``spread``."""
    soft = cv2.GaussianBlur(sprite.alpha, (0, 0), max(0.3, spread))
    return Sprite(sprite.colour, soft.astype(np.float32, copy=False))
