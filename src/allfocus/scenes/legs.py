"""The scene "legs": an insect's thin legs and loose hairs over bright, even ground; out of focus they vanish.

At 1600 x 1200 legs are 2 to 6 pixels wide and hairs 1 to 2; widths grow with the picture. With the scene's own aperture
the widest blur has a radius of 60 pixels there: a leg is then a stain of a few levels, and a frame that shows nothing
of it looks as clean as the one that shows it.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.scenes import drawing
from allfocus.scenes.layers import Layer, Sprite, Stage
from allfocus.scenes.textures import Colour, Picture, fractal_noise, ramp

NEAREST, GROUND = 2.0, 0.5
"""Inverse distances of the highest knee and of the ground."""

_WIDEST_LEG, _THINNEST_LEG = 6 / 1200, 2 / 1200
_WIDEST_HAIR, _THINNEST_HAIR = 2 / 1200, 1 / 1200
_PIECES = 10
_BROWN: list[Colour] = [(0.05, 0.03, 0.02), (0.24, 0.13, 0.07), (0.52, 0.33, 0.16)]
_PALE: list[Colour] = [(0.42, 0.30, 0.18), (0.66, 0.50, 0.30), (0.80, 0.66, 0.44)]

# For each leg of the right side: hip, knee, ankle and foot, each x and y in units from the middle of the picture and
# the inverse distance. Knees are nearest to the lens, feet stand on the ground.
_LEGS = (
    ((0.02, -0.05, 1.10), (0.17, -0.25, 1.75), (0.30, -0.34, 1.10), (0.42, -0.42, 0.54)),
    ((0.03, 0.00, 1.10), (0.24, -0.06, NEAREST), (0.42, 0.02, 1.20), (0.60, 0.05, 0.56)),
    ((0.02, 0.05, 1.10), (0.20, 0.20, 1.60), (0.34, 0.32, 0.95), (0.46, 0.44, 0.52)),
)
_FEELER = ((0.02, -0.14, 1.22), (0.05, -0.24, 1.45), (0.12, -0.33, 1.70), (0.21, -0.40, 1.95))


def build_legs(stage: Stage) -> list[Layer]:
    """Return the layers of the scene with legs."""
    layers = [stage.fill(_paper(stage), 1 / GROUND), *_body(stage)]
    for number, joints in enumerate((*_LEGS, _FEELER)):
        for side in (-1, 1):
            generator = stage.generator(10 + number, side + 1)
            width = (_WIDEST_LEG, _THINNEST_LEG) if joints is not _FEELER else (3 / 1200, _THINNEST_LEG)
            layers += _limb(stage, joints, generator, side=side, width=width)
    return layers + _loose_hairs(stage)


def _paper(stage: Stage) -> Picture:
    """Return bright ground that is nearly even: faint clouds and a grain of about one level in a hundred."""
    generator = stage.generator(1)
    clouds = fractal_noise(stage.shape, generator, cell=stage.pixels(0.4), roughness=0.4, finest=stage.pixels(0.1))
    grain = fractal_noise(stage.shape, generator, cell=6.0, roughness=0.7, finest=1.5)
    value = 0.5 + 0.16 * clouds + 0.09 * grain
    return ramp(value, [(0.80, 0.74, 0.62), (0.88, 0.83, 0.72), (0.94, 0.90, 0.81)])


def _body(stage: Stage) -> list[Layer]:
    """Return abdomen, chest and head, each a shining oval at its own distance."""
    layers = []
    for key, (y, half_height, half_width, inverse) in enumerate(
        ((0.11, 0.095, 0.050, 0.92), (0.0, 0.060, 0.042, 1.05), (-0.11, 0.050, 0.046, 1.18))
    ):
        height, width = stage.pixels(2 * half_height, least=6), stage.pixels(2 * half_width, least=6)
        rows, columns = drawing.centred_grid(height, width)
        bright, mirror = drawing.lit_sphere(rows * np.float32(width / height), columns, 0.56 * width)
        pits = fractal_noise((height, width), stage.generator(2, key), cell=max(3.0, 0.008 * stage.unit), roughness=0.7)
        bands = np.sin(rows / height * 40) * (0.10 if key == 0 else 0.0)
        shell = ramp(0.40 + 0.14 * pits + bands, [(0.08, 0.04, 0.03), (0.36, 0.18, 0.08), (0.70, 0.46, 0.20)])
        colour = np.clip(shell * bright[..., None] + 0.35 * mirror[..., None], 0, 1).astype(np.float32)
        alpha = drawing.coverage(drawing.ellipse(rows, columns, height / 2 - 0.5, width / 2 - 0.5))
        middle = 0.5 + y * stage.unit / stage.height
        layers.append(stage.place(Sprite(colour, alpha), x=0.5, y=middle, distance=1 / inverse, anchor=0.5))
    return layers


def _limb(
    stage: Stage,
    joints: Sequence[tuple[float, float, float]],
    generator: np.random.Generator,
    *,
    side: int,
    width: tuple[float, float],
) -> list[Layer]:
    """Return a leg or feeler in pieces, each at its own distance and with hairs of its own."""
    wobbled = np.array(joints) * [side, 1, 1]
    wobbled[1:, :2] += generator.normal(0, 0.012, (len(joints) - 1, 2))
    count = 8 * _PIECES + 1
    at = np.linspace(0, len(joints) - 1, count)
    x, y, inverse = (np.interp(at, range(len(joints)), wobbled[:, axis]) for axis in range(3))
    points = np.stack([x, y], axis=1) * stage.unit + _middle(stage)
    widths = np.linspace(*width, count) * stage.unit
    layers = []
    for piece in range(_PIECES):
        part = slice(8 * piece, 8 * piece + 9)
        lines = [points[part][place : place + 2] for place in range(8)]
        thickness = [float(wide) for wide in widths[part][:8]]
        for root in points[part][::3]:
            angle = generator.uniform(0, 2 * math.pi)
            length = generator.uniform(0.012, 0.035) * stage.unit
            lines.append(np.stack([root, root + length * np.array([math.cos(angle), math.sin(angle)])]))
            thickness.append(generator.uniform(_THINNEST_HAIR, 1.4 * _THINNEST_HAIR) * stage.unit)
        layers += _strokes_layer(stage, lines, thickness, _BROWN, float(inverse[part].mean()), generator)
    return layers


def _loose_hairs(stage: Stage) -> list[Layer]:
    """Return bent hairs that lie about the picture, each at its own distance."""
    generator = stage.generator(3)
    layers = []
    for number, inverse in enumerate(np.linspace(GROUND + 0.05, NEAREST - 0.05, 36)):
        root = np.array([generator.uniform(0, stage.width), generator.uniform(0, stage.height)]) + stage.margin
        angle, length = generator.uniform(0, 2 * math.pi), generator.uniform(0.10, 0.24) * stage.unit
        ahead = np.array([math.cos(angle), math.sin(angle)]) * length
        sideways = np.array([-ahead[1], ahead[0]]) * generator.normal(0, 0.35)
        along = np.linspace(0, 1, 13)[:, None]
        line = root + ahead * along + sideways * along**2
        thickness = generator.uniform(_THINNEST_HAIR, _WIDEST_HAIR) * stage.unit
        colours = _PALE if number % 4 == 3 else _BROWN
        layers += _strokes_layer(stage, [line], [thickness], colours, float(inverse), generator)
    return layers


def _strokes_layer(
    stage: Stage,
    lines: Sequence[NDArray[np.float64]],
    thickness: Sequence[float],
    colours: Sequence[Colour],
    inverse: float,
    generator: np.random.Generator,
) -> list[Layer]:
    """Return one layer that is just large enough for the lines (x, y on the canvas), marked as thin; none outside."""
    reach = math.ceil(max(thickness)) + 2
    points = np.concatenate(lines)
    left, top = (math.floor(edge) for edge in points.min(axis=0) - reach)
    right, bottom = (math.ceil(edge) for edge in points.max(axis=0) + reach)
    if right <= 0 or bottom <= 0 or left >= stage.shape[1] or top >= stage.shape[0]:
        return []
    size = (bottom - top, right - left)
    alpha = drawing.strokes(*size, [line - [left, top] for line in lines], thickness)
    tint = fractal_noise(size, generator, cell=max(4.0, 0.02 * stage.unit), roughness=0.6)
    return [
        stage.put(Sprite(ramp(0.45 + 0.22 * tint, colours), alpha), top=top, left=left, distance=1 / inverse, thin=True)
    ]


def _middle(stage: Stage) -> NDArray[np.float64]:
    return np.array([0.5 * stage.width, 0.5 * stage.height]) + stage.margin
