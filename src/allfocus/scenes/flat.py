"""The scene "flat": large areas without any texture, where nothing tells focus, and few things with detail."""

import numpy as np

from allfocus.scenes import drawing, objects
from allfocus.scenes.layers import Layer, Sprite, Stage
from allfocus.scenes.textures import ramp


def build_flat(stage: Stage) -> list[Layer]:
    """Return the layers of the flat scene."""
    generator = stage.generator(1)
    rows, columns = stage.grid()
    wall = ramp((0.25 + 0.5 * columns + 0.1 * rows).astype(np.float32), [(0.86, 0.80, 0.74), (0.72, 0.74, 0.76)])
    layers = [stage.fill(wall, 1.5)]
    frame = objects.focus_card(stage.pixels(0.24, least=24), generator)
    layers.append(stage.place(frame, x=0.22, y=0.40, distance=1.42))
    layers.append(_block(stage, x=0.70, y=1.2, height=0.62, width=0.50, colour=(0.36, 0.52, 0.60), distance=1.0))
    fruit = objects.orange(
        stage.pixels(0.20), generator, colours=[(0.52, 0.06, 0.06), (0.80, 0.16, 0.10), (0.92, 0.55, 0.20)]
    )
    layers.append(stage.place(fruit, x=0.70, y=0.585, distance=0.95))
    layers.append(_block(stage, x=0.25, y=1.2, height=0.46, width=0.60, colour=(0.88, 0.66, 0.42), distance=0.62))
    ball = objects.yarn_ball(stage.pixels(0.26), generator, colour=(0.20, 0.42, 0.36))
    layers.append(stage.place(ball, x=0.27, y=0.75, distance=0.55))
    return layers


def _block(
    stage: Stage,
    *,
    x: float,
    y: float,
    height: float,
    width: float,
    colour: tuple[float, float, float],
    distance: float,
) -> Layer:
    """Return a plain board with rounded corners, a little darker towards its foot."""
    tall, wide = round(height * stage.height), round(width * stage.width)
    down, across = drawing.centred_grid(tall, wide)
    shade = 1.0 - 0.18 * (down / tall + 0.5) + 0 * across
    picture = np.asarray(colour, dtype=np.float32) * shade[..., None]
    alpha = drawing.coverage(drawing.rounded_box(down, across, tall / 2 - 1, wide / 2 - 1, 0.03 * stage.unit))
    return stage.place(Sprite(picture.astype(np.float32), alpha), x=x, y=y, distance=distance)
