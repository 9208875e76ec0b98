"""The scene "insect": a hairy head at high magnification; thin hairs at many depths, each blurred into a wide band."""

import numpy as np

from allfocus.scenes import drawing, objects
from allfocus.scenes.layers import Layer, Sprite, Stage
from allfocus.scenes.textures import Colour, Picture, fractal_noise, mix, ramp, step

_FUR: list[list[Colour]] = [
    [(0.20, 0.12, 0.05), (0.50, 0.34, 0.14), (0.80, 0.62, 0.34)],
    [(0.10, 0.07, 0.05), (0.26, 0.19, 0.13), (0.50, 0.40, 0.28)],
    [(0.55, 0.45, 0.28), (0.88, 0.80, 0.60), (1.0, 0.97, 0.85)],
]


def build_insect(stage: Stage) -> list[Layer]:
    """Return the layers of the insect scene."""
    layers = [stage.fill(_meadow(stage), 2.0)]
    layers.append(_fur(stage, 3, count=260, inverse=0.80, spread=(0.56, 0.50), length=0.16))
    head = _head(stage)
    layers.append(stage.place(head, x=0.5, y=0.60, distance=1 / 0.95, anchor=0.5))
    layers.append(_fur(stage, 4, count=240, inverse=1.10, spread=(0.44, 0.40), length=0.15))
    eye_size = stage.pixels(0.46, least=24)
    for x in (0.285, 0.715):
        eye = _eye(stage, eye_size, mirrored=x > 0.5)
        layers.append(stage.place(eye, x=x, y=0.50, distance=1 / 1.25, anchor=0.5))
    layers.append(_fur(stage, 5, count=150, inverse=1.38, spread=(0.24, 0.34), length=0.14))
    layers.append(_feelers(stage))
    layers.append(_fur(stage, 6, count=90, inverse=1.62, spread=(0.16, 0.24), length=0.13))
    layers.append(_fur(stage, 7, count=40, inverse=1.95, spread=(0.50, 0.46), length=0.26))
    return layers


def _meadow(stage: Stage) -> Picture:
    """Return a soft green and yellow background with fine structure of its own."""
    generator = stage.generator(1)
    large = fractal_noise(stage.shape, generator, cell=stage.pixels(0.5), roughness=0.45, finest=stage.pixels(0.05))
    fine = fractal_noise(stage.shape, generator, cell=(stage.pixels(0.08), 5.0), roughness=0.7, finest=1.0)
    colours = [(0.10, 0.22, 0.14), (0.26, 0.45, 0.22), (0.55, 0.66, 0.30), (0.88, 0.82, 0.52), (0.93, 0.66, 0.62)]
    return ramp(0.42 + 0.17 * large + 0.05 * fine, colours)


def _head(stage: Stage) -> Sprite:
    """Return the dark head with a pitted, faintly shining shell."""
    generator = stage.generator(2)
    height, width = stage.pixels(0.86, least=24), stage.pixels(0.86, least=24)
    y, x = drawing.centred_grid(height, width)
    bright, mirror = drawing.lit_sphere(y, x, 0.52 * width)
    pits = fractal_noise((height, width), generator, cell=max(3.0, 0.012 * stage.unit), roughness=0.6)
    patches = fractal_noise((height, width), generator, cell=0.2 * width, roughness=0.6)
    shell = ramp(
        0.42 + 0.14 * patches + 0.10 * pits,
        [(0.07, 0.05, 0.05), (0.24, 0.16, 0.12), (0.46, 0.32, 0.22), (0.62, 0.50, 0.40)],
    )
    pale = step(0.10 - np.abs(x / width) + 0.04 * patches, 0.0, 0.05) * step(y / height, 0.0, 0.1)
    shell = mix(shell, (0.82, 0.72, 0.48), (0.7 * pale).astype(np.float32))
    slope = pits - np.roll(pits, (1, 1), axis=(0, 1))
    colour = shell * (bright + 0.18 * slope)[..., None] + (0.30 * mirror)[..., None]
    return Sprite(colour.astype(np.float32), drawing.coverage(drawing.ellipse(y, x, height / 2 - 1, 0.45 * width)))


def _eye(stage: Stage, size: int, *, mirrored: bool) -> Sprite:
    """Return a compound eye: a dome of hexagonal facets with coloured bands."""
    height, width = size, round(0.72 * size)
    y, x = drawing.centred_grid(height, width)
    u, v = x / (width / 2), y / (height / 2)
    stretch = 1 + 0.35 * (u**2 + v**2)
    column, row = u * stretch * width / 2, v * stretch * height / 2
    pitch = max(4.0, 0.017 * stage.unit)
    # Three cosines at 60 degrees have their peaks on a hexagonal grid.
    waves = [
        np.cos(2 * np.pi / pitch * (column * np.cos(turn) + row * np.sin(turn)))
        for turn in (0.0, np.pi / 3, 2 * np.pi / 3)
    ]
    facets = (waves[0] + waves[1] + waves[2]) / 3
    bands = np.sin(6.0 * v + 1.8 * u**2) * 0.5 + 0.5
    tone = ramp(
        bands.astype(np.float32), [(0.32, 0.05, 0.04), (0.66, 0.16, 0.07), (0.80, 0.50, 0.12), (0.25, 0.50, 0.30)]
    )
    bright, mirror = drawing.lit_sphere(v * np.float32(1.0), u * np.float32(1.0), 1.06)
    glint = 0.6 * mirror * step(facets.astype(np.float32), 0.35, 0.4)
    colour = tone * (bright * (0.62 + 0.45 * facets))[..., None] + glint[..., None]
    picture = Sprite(
        np.clip(colour, 0, 1).astype(np.float32), drawing.coverage(drawing.ellipse(y, x, height / 2 - 1, width / 2 - 1))
    )
    return Sprite(picture.colour[:, ::-1], picture.alpha[:, ::-1]) if mirrored else picture


def _fur(stage: Stage, key: int, *, count: int, inverse: float, spread: tuple[float, float], length: float) -> Layer:
    """Return hairs at one distance that point away from the middle of the head."""
    generator = stage.generator(key)
    height, width = stage.shape
    angle = generator.uniform(0, 2 * np.pi, count)
    ring = np.sqrt(generator.uniform(0.35, 1.0, count))
    outward = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    middle = np.array([stage.margin + 0.5 * stage.width, stage.margin + 0.58 * stage.height])
    roots = middle + outward * ring[:, None] * np.array(spread) * stage.unit
    tips = outward * (length * stage.unit * generator.uniform(0.5, 1.2, count))[:, None]
    tips[:, 1] -= 0.25 * length * stage.unit
    thickness = max(0.8, 0.0048 * inverse * stage.unit)
    fur = objects.hairs(height, width, roots, tips, generator, thickness=thickness, colours=_FUR[key % 3])
    return stage.cover(fur, 1.0 / inverse)


def _feelers(stage: Stage) -> Layer:
    """Return the two jointed feelers."""
    generator = stage.generator(8)
    height, width = stage.shape
    lines, widths = [], []
    for side in (-1, 1):
        points = np.array([[0.04, 0.52], [0.09, 0.36], [0.24, 0.20], [0.40, 0.10]])
        x = stage.margin + 0.5 * stage.width + side * points[:, 0] * stage.unit
        y = stage.margin + points[:, 1] * stage.height
        joints = np.stack(
            [np.interp(np.linspace(0, 3, 25), range(4), x), np.interp(np.linspace(0, 3, 25), range(4), y)], axis=1
        )
        for number in range(24):
            lines.append(np.stack([joints[number], 0.12 * joints[number] + 0.88 * joints[number + 1]]))
            widths.append((0.022 + 0.012 * number / 24) * stage.unit)
    alpha = drawing.strokes(height, width, lines, widths)
    grain = fractal_noise((height, width), generator, cell=4.0, roughness=0.8, finest=1.0)
    colour = ramp(0.4 + 0.16 * grain, [(0.06, 0.04, 0.03), (0.25, 0.16, 0.09), (0.62, 0.44, 0.24)])
    return stage.cover(Sprite(colour, alpha), 1 / 1.5)
