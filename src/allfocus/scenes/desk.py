"""The scene "desk": a wooden table seen from above one end, things standing and lying on it, books behind."""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.scenes import drawing, objects
from allfocus.scenes.layers import Layer, Sprite, Stage
from allfocus.scenes.textures import Picture, fractal_noise, printed_text, wood

_FAR_EDGE = 0.43
"""Row of the table's far edge, as a fraction of the picture's height."""
_FOCAL_LENGTH = 1.2
"""In picture heights; says how fast the table narrows."""
_BOOKS_DISTANCE = 1.25


def table_inverse_distance(row: NDArray[np.float32] | float) -> NDArray[np.float32]:
    """Return 1/distance of the table at a row (0 top, 1 bottom): 1 at the far edge, 2 at the bottom of the picture.

    The inverse distance of any plane is linear in the picture, which is what perspective is.
    """
    inverse: NDArray[np.float32] = 1.0 + (np.asarray(row, dtype=np.float32) - np.float32(_FAR_EDGE)) / np.float32(
        1.0 - _FAR_EDGE
    )
    return inverse


def build_desk(stage: Stage) -> list[Layer]:
    """Return the layers of the desk scene."""
    standing = [
        # sprite, x and y of its foot
        (_plant(stage), 0.155, 0.66),
        (objects.focus_card(stage.pixels(0.33), stage.generator(3)), 0.43, 0.575),
        (
            objects.mug(
                stage.pixels(0.30),
                stage.generator(4),
                glaze=[(0.03, 0.22, 0.27), (0.10, 0.47, 0.52), (0.38, 0.72, 0.70)],
                pattern=(0.95, 0.91, 0.80),
            ),
            0.745,
            0.72,
        ),
        (
            objects.orange(
                stage.pixels(0.20),
                stage.generator(5),
                colours=[(0.86, 0.28, 0.02), (0.98, 0.47, 0.05), (1.0, 0.62, 0.14)],
            ),
            0.375,
            0.80,
        ),
        (objects.yarn_ball(stage.pixels(0.145), stage.generator(6), colour=(0.80, 0.20, 0.34)), 0.575, 0.695),
        (objects.pebble(stage.pixels(0.125), stage.generator(11)), 0.305, 0.625),
        (objects.die(stage.pixels(0.115), stage.generator(7), colour=(0.16, 0.30, 0.72)), 0.585, 0.925),
    ]
    layers = [stage.fill(_bookshelf(stage), _BOOKS_DISTANCE)]
    contacts = [(x, y, sprite.alpha.shape[1] / stage.width) for sprite, x, y in standing]
    layers.append(_table(stage, contacts))
    for sprite, x, y in standing:
        layers.append(stage.place(sprite, x=x, y=y, distance=float(1.0 / table_inverse_distance(y - 0.015))))
    layers.append(_near_grass(stage))
    return layers


def _bookshelf(stage: Stage) -> Picture:
    """Return books side by side in front of a dark wall, as large as the canvas."""
    generator = stage.generator(1)
    height, width = stage.shape
    wall = fractal_noise((height, width), generator, cell=stage.pixels(0.2), roughness=0.6)
    picture: Picture = np.full((height, width, 3), (0.10, 0.085, 0.075), dtype=np.float32)
    picture *= 1 + np.float32(0.1) * wall[..., None]
    foot = stage.margin + round((_FAR_EDGE + 0.03) * stage.height)
    colours = [
        (0.62, 0.16, 0.15),
        (0.14, 0.33, 0.42),
        (0.83, 0.62, 0.24),
        (0.24, 0.40, 0.27),
        (0.86, 0.82, 0.72),
        (0.34, 0.22, 0.38),
        (0.80, 0.40, 0.20),
        (0.16, 0.20, 0.32),
        (0.52, 0.60, 0.58),
        (0.44, 0.12, 0.22),
    ]
    left, last = 0, -1
    while left < width:
        thick = stage.pixels(generator.uniform(0.050, 0.095), least=6)
        tall = stage.pixels(generator.uniform(0.36, 0.47), least=12) + round(0.6 * stage.margin)
        choice = int(generator.integers(len(colours) - 1))
        choice, last = (choice + 1 if choice >= last >= 0 else choice), choice
        spine = objects.book(tall, thick, generator, colour=colours[choice])
        drawing.paste(picture, spine, x=left + thick / 2, y=foot - tall / 2, shadow=max(1.0, 0.006 * stage.unit))
        left += thick
    rows, columns = stage.grid()
    light = 0.98 - 0.35 * np.clip(rows / _FAR_EDGE, 0, 1) ** 3 - 0.22 * (columns - 0.25)
    picture *= light[..., None].astype(np.float32)
    return picture


def _table(stage: Stage, contacts: list[tuple[float, float, float]]) -> Layer:
    """Return the table top with what lies flat on it and the shadows of what stands on it."""
    seen = _project_ground(stage, _table_top(stage))
    rows, columns = stage.grid()
    dark = np.zeros(stage.shape, dtype=np.float32)
    for x, y, wide in contacts:
        across, down = (columns - x - 0.16 * wide) / (0.62 * wide), (rows - y + 0.008) / (0.20 * wide)
        dark = np.maximum(dark, 0.62 * np.exp(-(across**2 + down**2) * 1.6))
        across, down = (columns - x) / (0.46 * wide), (rows - y + 0.004) / (0.055 * wide + 0.006)
        dark = np.maximum(dark, 0.75 * np.exp(-((across**2 + down**2) ** 2)))
    light = 1.05 - 0.22 * np.abs(columns - 0.35) - 0.10 * (1 - rows)
    seen *= (light * (1 - dark))[..., None]
    edge = stage.margin + _FAR_EDGE * stage.height
    alpha = np.clip(np.arange(stage.shape[0], dtype=np.float32)[:, None] - np.float32(edge) + 0.5, 0, 1)
    # The edge catches the light: one thin bright line, as on any varnished board.
    glint = np.exp(-(((rows - _FAR_EDGE - 0.004) / 0.003) ** 2)) * 0.25
    seen += glint[..., None] * np.asarray((1.0, 0.9, 0.75), dtype=np.float32)
    distance = 1.0 / table_inverse_distance(np.maximum(rows, _FAR_EDGE) + 0 * columns)
    sprite = Sprite(seen, np.broadcast_to(alpha, stage.shape).astype(np.float32))
    return stage.cover(sprite, distance.astype(np.float32))


def _ground_matrix(stage: Stage, resolution: float, origin: tuple[float, float]) -> NDArray[np.float64]:
    """Return the 3 x 3 matrix from canvas points to points of the table picture, seen from straight above."""
    slope = 1.0 / ((1.0 - _FAR_EDGE) * stage.height)
    inverse = np.array([0.0, slope, 1.0 - slope * (stage.margin - 0.5 + _FAR_EDGE * stage.height)])
    across = np.array([1.0, 0.0, -(stage.margin - 0.5 + stage.width / 2)]) / (_FOCAL_LENGTH * stage.unit)
    # Ground point = (across / inverse, 1 / inverse), in homogeneous coordinates.
    away = np.array([0.0, 0.0, 1.0])
    return np.stack([resolution * (across - origin[0] * inverse), resolution * (away - origin[1] * inverse), inverse])


def _project_ground(stage: Stage, ground: Picture) -> Picture:
    """Return the table picture in perspective, (canvas height, canvas width, 3).

    Far rows shrink it, so they are taken from smaller copies; otherwise the grain would flicker there.
    """
    resolution = _ground_resolution(stage)
    origin = _ground_origin(stage)
    seen = np.zeros((*stage.shape, 3), dtype=np.float32)
    rows, _ = stage.grid()
    inverse = np.maximum(table_inverse_distance(rows), 0.5)
    # Pixels of the table picture per pixel of the canvas, along x.
    shrink = np.log2(np.maximum(resolution / (_FOCAL_LENGTH * stage.unit * inverse), 1.0)) * 2
    for level in range(4):
        weight = np.maximum(0.0, 1.0 - np.abs(np.minimum(shrink, 3.0) - level)).astype(np.float32)
        if not weight.any():
            continue
        across, down = 2.0 ** (-level / 2), 2.0 ** (-level)
        copy = cv2.resize(ground, None, fx=across, fy=down, interpolation=cv2.INTER_AREA) if level else ground
        scale = np.diag([copy.shape[1] / ground.shape[1], copy.shape[0] / ground.shape[0], 1.0])
        matrix = scale @ _ground_matrix(stage, resolution, origin)
        size = (stage.shape[1], stage.shape[0])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        # Not mirrored: points near the horizon lie so far away that folding them back step by step takes minutes.
        seen += weight[..., None] * cv2.warpPerspective(
            copy, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE
        )
    return seen


def _ground_resolution(stage: Stage) -> float:
    """Return the pixels of the table picture per unit of length: enough for its nearest row."""
    return 2.0 * _FOCAL_LENGTH * stage.unit


def _ground_origin(stage: Stage) -> tuple[float, float]:
    """Return the ground point (across, away) at the table picture's first pixel."""
    return -0.62 * stage.width / (_FOCAL_LENGTH * stage.unit), 0.42


def _table_top(stage: Stage) -> Picture:
    """Return the table seen from straight above: planks of wood with paper, pencil and coins on them."""
    resolution = _ground_resolution(stage)
    left, _ = _ground_origin(stage)
    height, width = round(0.60 * resolution), round(-2 * left * resolution)
    generator = stage.generator(2)
    planks = []
    count = 5
    tones = [(0.30, 0.17, 0.09), (0.58, 0.37, 0.20), (0.77, 0.55, 0.33), (0.90, 0.71, 0.47)]
    for number in range(count):
        rows = height * (number + 1) // count - height * number // count
        plank = wood((rows, width), generator, period=0.024 * resolution, colours=tones)
        plank *= np.float32(generator.uniform(0.86, 1.06))
        seam = max(1, round(0.0025 * resolution))
        plank[:seam] *= 0.35
        plank[seam : 2 * seam] *= 1.12
        planks.append(plank)
    top = np.concatenate(planks)
    _lay_things(stage, top, resolution)
    return top


def _lay_things(stage: Stage, top: Picture, resolution: float) -> None:
    """Lay paper, pencil and coins on the table picture, in place."""
    left, near = _ground_origin(stage)

    def at(x: float, y: float) -> tuple[float, float]:
        """Return the point of the table picture that is seen at (x, y), fractions of the picture."""
        inverse = float(table_inverse_distance(y))
        across = (x - 0.5) * stage.width / (_FOCAL_LENGTH * stage.unit * inverse)
        return (across - left) * resolution, (1.0 / inverse - near) * resolution

    generator = stage.generator(8)
    shadow = 0.006 * resolution
    sheet = (round(0.155 * resolution), round(0.20 * resolution))
    paper = printed_text(sheet, generator, line_height=0.0085 * resolution)
    page = drawing.rotated(Sprite(paper[::-1], np.ones(sheet, dtype=np.float32)), -14)
    x, y = at(0.145, 0.885)
    drawing.paste(top, page, x=x, y=y, shadow=shadow)
    stick = objects.pencil(round(0.19 * resolution), round(0.0135 * resolution), generator, colour=(0.93, 0.70, 0.10))
    x, y = at(0.20, 0.845)
    drawing.paste(top, drawing.rotated(stick, 22), x=x, y=y, shadow=shadow)
    metals = [(0.86, 0.62, 0.38), (0.88, 0.78, 0.50), (0.80, 0.80, 0.80)]
    for x, y, metal in (
        (0.76, 0.865, 1),
        (0.84, 0.915, 0),
        (0.715, 0.955, 2),
        (0.475, 0.655, 0),
        (0.92, 0.80, 2),
        (0.44, 0.965, 1),
    ):
        piece = objects.coin(round(0.044 * resolution), generator, metal=metals[metal])
        column, row = at(x, y)
        drawing.paste(top, Sprite(piece.colour[::-1], piece.alpha), x=column, y=row, shadow=shadow)


def _plant(stage: Stage) -> Sprite:
    """Return a flower pot with a dozen leaves."""
    generator = stage.generator(9)
    tall = stage.pixels(0.50, least=24)
    picture = np.zeros((tall, round(0.95 * tall), 4), dtype=np.float32)
    clay = objects.pot(
        stage.pixels(0.185, least=8), generator, colours=[(0.52, 0.22, 0.13), (0.74, 0.38, 0.24), (0.86, 0.53, 0.36)]
    )
    green = [(0.04, 0.16, 0.07), (0.12, 0.36, 0.15), (0.34, 0.60, 0.24), (0.66, 0.82, 0.42)]
    middle, rim = picture.shape[1] / 2, tall - 0.86 * clay.alpha.shape[0]
    angles = np.array([64, -66, 40, -44, 82, -84, 22, -24, 52, -10, 8, -52], dtype=np.float64)
    for number, angle in enumerate(angles):
        reach = (0.40 - 0.08 * abs(angle) / 90) * tall * generator.uniform(0.85, 1.1)
        blade = drawing.rotated(objects.leaf(round(0.86 * reach), generator, colours=green, slim=0.40), -angle)
        turn = math.radians(angle)
        x, y = middle + 0.54 * reach * math.sin(turn), rim - 0.56 * reach * math.cos(turn)
        _paste_sprite(picture, blade, x=x, y=y, shade=0.72 + 0.28 * number / len(angles))
    _paste_sprite(picture, clay, x=middle, y=tall - clay.alpha.shape[0] / 2, shade=1.0)
    alpha = picture[..., 3]
    colour = picture[..., :3] / np.maximum(alpha, 1e-6)[..., None]
    return Sprite(colour.astype(np.float32), alpha)


def _paste_sprite(picture: Picture, sprite: Sprite, *, x: float, y: float, shade: float) -> None:
    """Lay a sprite over premultiplied colour and alpha (h, w, 4), in place."""
    height, width = sprite.alpha.shape
    opaque = np.ones((height, width, 1), dtype=np.float32)
    colour = np.concatenate([sprite.colour * np.float32(shade), opaque], axis=2)
    drawing.paste(picture, Sprite(colour, sprite.alpha), x=x, y=y)


def _near_grass(stage: Stage) -> Layer:
    """Return a few blades in the right corner, nearer than the table: their blur spreads over what is behind."""
    generator = stage.generator(10)
    height, width = stage.pixels(0.62, least=24), stage.pixels(0.34, least=16)
    roots = np.stack([generator.uniform(0.45, 0.95, 9) * width, np.full(9, height + 4.0)], axis=1)
    tips = np.stack([generator.uniform(-0.45, 0.20, 9) * width, -generator.uniform(0.45, 0.95, 9) * height], axis=1)
    greens = [(0.16, 0.30, 0.08), (0.45, 0.62, 0.18), (0.78, 0.84, 0.42)]
    blades = objects.hairs(
        height, width, roots, tips, generator, thickness=0.016 * stage.unit, colours=greens, curl=0.12
    )
    streaks = fractal_noise((height, width), generator, cell=(40.0, 3.0), roughness=0.6, finest=1.0)
    blades = Sprite(np.clip(blades.colour * (1 + 0.12 * streaks[..., None]), 0, 1).astype(np.float32), blades.alpha)
    return stage.place(blades, x=0.93, y=1.0 + stage.margin / stage.height, distance=1 / 2.25)
