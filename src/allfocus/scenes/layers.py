"""What a scene is made of: a stage with its pixel grid, and layers of colour with a shape and a distance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allfocus.scenes.textures import to_linear_light


@dataclass(frozen=True)
class Sprite:
    """One thing to be placed on the stage: a rectangle of colour and its shape."""

    colour: NDArray[np.float32]
    """(h, w, 3), 0..1, sRGB curve, not premultiplied."""
    alpha: NDArray[np.float32]
    """(h, w), 0..1; 1 where the thing covers the whole pixel."""


@dataclass(frozen=True)
class Layer:
    """A sprite at its place on the canvas, in linear light."""

    light: NDArray[np.float32]
    """(h, w, 4): red, green, blue in linear light premultiplied by alpha, then alpha."""
    top: int
    """Row of the canvas on which the layer begins."""
    left: int
    """Column of the canvas on which the layer begins."""
    distance: float | NDArray[np.float32]
    """Distance from the lens: one number, or (h, w) for a surface that recedes smoothly."""
    thin: bool = False
    """True for legs and hairs, which blur to nothing: the truth's mask of thin things shows them."""

    @property
    def nearest(self) -> float:
        """Smallest distance in the layer."""
        return float(np.min(self.distance))

    @property
    def farthest(self) -> float:
        """Largest distance in the layer."""
        return float(np.max(self.distance))


@dataclass(frozen=True)
class Stage:
    """The pixel grid of a scene: the picture and a margin around it, into which the layers continue.

    The margin depends on the size alone. Therefore a scene has the same content for every aperture, shake and number
    of frames, and blur or shake bring real content across the border.
    """

    height: int
    width: int
    seed: int

    @property
    def margin(self) -> int:
        """Pixels around the picture on each side."""
        return 12 + round(0.08 * max(self.height, self.width))

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the canvas, margin included."""
        return self.height + 2 * self.margin, self.width + 2 * self.margin

    @property
    def unit(self) -> float:
        """Length in pixels that sizes are given in: the height, or less in pictures narrower than 4:3."""
        return min(float(self.height), 0.75 * self.width)

    def pixels(self, length: float, least: int = 4) -> int:
        """Return a length given in units as whole pixels, at least ``least``."""
        return max(least, round(length * self.unit))

    def generator(self, *key: int) -> np.random.Generator:
        """Return the random generator of one part of the scene; parts do not influence each other."""
        return np.random.default_rng([self.seed, *key])

    def grid(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return (canvas height, 1) and (1, canvas width): 0..1 from the top left to the bottom right of the picture.

        In the margin the values go on below 0 and above 1.
        """
        rows = (np.arange(self.shape[0]) - self.margin + 0.5) / self.height
        columns = (np.arange(self.shape[1]) - self.margin + 0.5) / self.width
        return rows.astype(np.float32)[:, None], columns.astype(np.float32)[None, :]

    def fill(self, colour: NDArray[np.float32], distance: float | NDArray[np.float32]) -> Layer:
        """Return a layer that covers the whole canvas with ``colour`` (canvas height, canvas width, 3; sRGB curve)."""
        return self.cover(Sprite(colour, np.ones(self.shape, dtype=np.float32)), distance)

    def cover(self, sprite: Sprite, distance: float | NDArray[np.float32]) -> Layer:
        """Return a layer from a sprite as large as the canvas."""
        rows, columns = (np.flatnonzero(sprite.alpha.any(axis=axis)) for axis in (1, 0))
        if not rows.size:
            return Layer(np.zeros((0, 0, 4), dtype=np.float32), 0, 0, float(np.mean(distance)))
        # Empty rows and columns around the shape would be blurred for nothing.
        box = slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
        cut = Sprite(sprite.colour[box], sprite.alpha[box])
        there = distance if isinstance(distance, float) else distance[box]
        return Layer(_premultiplied(cut), box[0].start, box[1].start, there)

    def place(self, sprite: Sprite, *, x: float, y: float, distance: float, anchor: float = 1.0) -> Layer:
        """Return a layer with the sprite's middle column at ``x`` and the row ``anchor`` of it at ``y``.

        Args:
            sprite: The thing; parts outside the canvas are cut off.
            x: Column as a fraction of the picture's width.
            y: Row as a fraction of the picture's height.
            distance: Distance from the lens.
            anchor: 0 for the sprite's top, 0.5 for its middle, 1 for its bottom, on which things stand.
        """
        height, width = sprite.alpha.shape
        top = round(y * self.height - anchor * height) + self.margin
        left = round(x * self.width - 0.5 * width) + self.margin
        return self.put(sprite, top=top, left=left, distance=distance)

    def put(self, sprite: Sprite, *, top: int, left: int, distance: float, thin: bool = False) -> Layer:
        """Return a layer with the sprite's corner at a row and column of the canvas; parts outside are cut off."""
        height, width = sprite.alpha.shape
        rows = slice(max(0, -top), max(0, min(height, self.shape[0] - top)))
        columns = slice(max(0, -left), max(0, min(width, self.shape[1] - left)))
        cut = Sprite(sprite.colour[rows, columns], sprite.alpha[rows, columns])
        return Layer(_premultiplied(cut), max(0, top), max(0, left), distance, thin)


def _premultiplied(sprite: Sprite) -> NDArray[np.float32]:
    """Return (h, w, 4): linear light times alpha, and alpha."""
    light = np.empty((*sprite.alpha.shape, 4), dtype=np.float32)
    light[..., :3] = to_linear_light(np.clip(sprite.colour, 0.0, 1.0)) * sprite.alpha[..., None]
    light[..., 3] = sprite.alpha
    return light
