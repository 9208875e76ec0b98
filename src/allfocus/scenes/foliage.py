"""The scene "foliage": bright leaves and flowers before dark bark, the worst case for halos around near things."""

import math

import numpy as np

from allfocus.scenes import drawing, objects
from allfocus.scenes.layers import Layer, Sprite, Stage
from allfocus.scenes.textures import Colour, Picture, fractal_noise, ramp, step

_GREENS: list[list[Colour]] = [
    [(0.10, 0.26, 0.08), (0.30, 0.52, 0.16), (0.58, 0.76, 0.30), (0.84, 0.93, 0.55)],
    [(0.25, 0.30, 0.05), (0.58, 0.62, 0.14), (0.85, 0.84, 0.32), (0.98, 0.96, 0.62)],
    [(0.45, 0.14, 0.05), (0.80, 0.32, 0.08), (0.96, 0.58, 0.18), (1.00, 0.82, 0.45)],
]


def build_foliage(stage: Stage) -> list[Layer]:
    """Return the layers of the foliage scene."""
    layers = [stage.fill(_bark(stage), 1.6)]
    generator = stage.generator(2)
    # number of leaves, length in units, 1/distance
    for count, length, inverse in ((9, 0.30, 0.95), (7, 0.38, 1.25), (5, 0.48, 1.6), (3, 0.62, 2.0)):
        for number in range(count):
            length_here = stage.pixels(length * generator.uniform(0.8, 1.2), least=10)
            green = _GREENS[int(generator.choice(3, p=[0.6, 0.25, 0.15]))]
            blade = objects.leaf(length_here, generator, colours=green, slim=generator.uniform(0.34, 0.5))
            blade = drawing.rotated(blade, generator.uniform(-180, 180))
            x, y = (number + generator.uniform(0.1, 0.9)) / count, generator.uniform(0.0, 1.0)
            distance = 1.0 / (inverse + generator.uniform(-0.08, 0.08))
            layers.append(stage.place(blade, x=x, y=y, distance=distance, anchor=0.5))
    for x, y, inverse in ((0.30, 0.36, 1.45), (0.68, 0.62, 1.75), (0.80, 0.22, 1.1)):
        flower = _flower(stage, generator, round(0.15 * inverse * stage.unit))
        layers.append(stage.place(flower, x=x, y=y, distance=1.0 / inverse, anchor=0.5))
    return layers


def _bark(stage: Stage) -> Picture:
    """Return dark cracked bark with a little moss."""
    generator = stage.generator(1)
    ridges = np.abs(fractal_noise(stage.shape, generator, cell=(stage.pixels(0.30), stage.pixels(0.06)), roughness=0.6))
    grain = fractal_noise(stage.shape, generator, cell=(9.0, 4.0), roughness=0.75, finest=1.0)
    moss = fractal_noise(stage.shape, generator, cell=stage.pixels(0.2), roughness=0.7)
    bark = ramp(
        0.16 + 0.28 * ridges + 0.07 * grain,
        [(0.01, 0.01, 0.01), (0.14, 0.10, 0.08), (0.30, 0.24, 0.20), (0.45, 0.38, 0.32)],
    )
    green = ramp(0.5 + 0.2 * grain, [(0.03, 0.07, 0.02), (0.16, 0.24, 0.07)])
    share = step(moss, 1.1, 0.5)[..., None]
    return bark + (green - bark) * share


def _flower(stage: Stage, generator: np.random.Generator, size: int) -> Sprite:
    """Return a daisy: white petals around a yellow disk of florets."""
    size = max(16, size)
    y, x = drawing.centred_grid(size, size)
    radius, angle = np.hypot(x, y) / (size / 2), np.arctan2(y, x)
    petals = 17
    phase = (angle * petals / (2 * math.pi) + 0.1 * np.sin(5 * angle)) % 1.0 - 0.5
    reach = 0.97 * (1 - np.abs(phase * 2) ** 4 * 0.22) + 0.02 * np.sin(7 * angle)
    gap = (0.43 - np.abs(phase)) * radius * size * math.pi / petals
    alpha = np.minimum(np.clip(gap + 0.5, 0, 1), drawing.coverage(((radius - reach) * size / 2).astype(np.float32)))
    streak = 0.05 * np.cos(phase * 40) - 0.35 * (phase**2) * 4
    white = ramp(
        (0.75 + streak - 0.35 * (1 - radius)).astype(np.float32), [(0.55, 0.56, 0.62), (0.92, 0.92, 0.95), (1, 1, 0.98)]
    )
    flower = Sprite(white, alpha.astype(np.float32))
    florets = fractal_noise((size, size), generator, cell=max(2.5, size / 28), roughness=0.5)
    bright, _ = drawing.lit_sphere(y, x, 0.34 * size)
    heart = ramp(0.5 + 0.22 * florets, [(0.55, 0.30, 0.02), (0.93, 0.68, 0.06), (1.0, 0.9, 0.35)]) * bright[..., None]
    return drawing.over(flower, heart.astype(np.float32), drawing.coverage(np.hypot(x, y) - np.float32(0.16 * size)))
