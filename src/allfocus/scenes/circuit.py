"""The scene "circuit": parts of different height on a circuit board seen from above, as inspection sees it."""

import numpy as np

from allfocus.scenes import drawing
from allfocus.scenes.layers import Layer, Sprite, Stage
from allfocus.scenes.textures import Picture, fractal_noise, mix, printed_text, ramp

_BOARD = 1.0
"""1/distance of the board; parts are nearer by their height."""


def build_circuit(stage: Stage) -> list[Layer]:
    """Return the layers of the circuit scene."""
    generator = stage.generator(2)
    board = _board(stage)
    layers: list[Layer] = []
    for x, y, size in ((0.30, 0.36, 0.34), (0.72, 0.66, 0.26), (0.62, 0.20, 0.16), (0.14, 0.80, 0.14)):
        layers.append(_put(stage, board, _chip(stage, generator, size), x=x, y=y, inverse=1.15))
    for number in range(14):
        x, y = 0.50 + 0.065 * (number % 7), 0.395 + 0.075 * (number // 7)
        layers.append(_put(stage, board, _resistor(stage, generator, number), x=x, y=y, inverse=1.06))
    for x, y, size, inverse in (
        (0.42, 0.84, 0.17, 1.75),
        (0.60, 0.90, 0.12, 1.5),
        (0.90, 0.30, 0.20, 1.9),
        (0.08, 0.14, 0.15, 1.6),
    ):
        layers.append(_put(stage, board, _capacitor(stage, generator, size), x=x, y=y, inverse=inverse))
    layers.append(_put(stage, board, _connector(stage, generator), x=0.30, y=0.66, inverse=1.38))
    return [stage.fill(board, 1.0 / _BOARD), *layers]


def _put(stage: Stage, board: Picture, sprite: Sprite, *, x: float, y: float, inverse: float) -> Layer:
    """Return the part as a layer, and leave its shadow on the board."""
    reach = (inverse - _BOARD) * 0.06 * stage.unit + 2.0
    column, row = x * stage.width + stage.margin, y * stage.height + stage.margin
    pad = round(2 * reach) + 2
    shade = Sprite(np.zeros((*np.add(sprite.alpha.shape, 2 * pad), 3), dtype=np.float32), np.pad(sprite.alpha, pad))
    soft = drawing.softened(shade, reach / 2)
    drawing.paste(board, Sprite(soft.colour, 0.6 * soft.alpha), x=column + 0.7 * reach, y=row + reach)
    return stage.place(sprite, x=x, y=y, distance=1.0 / inverse, anchor=0.5)


def _board(stage: Stage) -> Picture:
    """Return green board with copper tracks, vias and white print."""
    generator = stage.generator(1)
    height, width = stage.shape
    weave = fractal_noise(stage.shape, generator, cell=3.0, roughness=0.8, finest=1.0)
    cloud = fractal_noise(stage.shape, generator, cell=stage.pixels(0.5), roughness=0.5)
    board = ramp(0.45 + 0.06 * weave + 0.08 * cloud, [(0.01, 0.12, 0.07), (0.04, 0.30, 0.16), (0.14, 0.48, 0.27)])
    pitch = max(5.0, 0.024 * stage.unit)
    lines, rings = [], []
    for _ in range(150):
        point = np.array([generator.uniform(0, width), generator.uniform(0, height)]) // pitch * pitch
        path = [point]
        direction = int(generator.integers(8))
        for _ in range(int(generator.integers(2, 6))):
            turn = direction * np.pi / 4
            length = pitch * generator.integers(2, 9)
            path.append(path[-1] + length * np.array([np.cos(turn), np.sin(turn)]))
            direction += int(generator.choice([-1, 1]))
        lines.append(np.array(path))
        rings.extend([path[0], path[-1]])
    tracks = drawing.strokes(height, width, lines, [0.32 * pitch] * len(lines))
    board = mix(board, (0.20, 0.56, 0.33), 0.75 * tracks)
    angles = np.linspace(0, 2 * np.pi, 25)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    pads = drawing.strokes(height, width, [ring + 0.30 * pitch * circle for ring in rings], [0.28 * pitch] * len(rings))
    holes = drawing.strokes(
        height, width, [ring + 0.08 * pitch * circle for ring in rings], [0.22 * pitch] * len(rings)
    )
    shine = ramp(0.5 + 0.2 * weave, [(0.60, 0.42, 0.14), (0.90, 0.74, 0.36), (1.0, 0.92, 0.65)])
    board = mix(mix(board, shine, pads), (0.03, 0.04, 0.03), holes)
    for _ in range(26):
        shape = (stage.pixels(0.036, least=6), stage.pixels(0.10, least=12))
        word = printed_text(shape, generator, line_height=0.45 * shape[0], paper=(0, 0, 0), ink=(1, 1, 1))[..., 0]
        place = generator.uniform(0, width), generator.uniform(0, height)
        label = Sprite(np.full((*shape, 3), 0.93, dtype=np.float32), np.clip(word, 0, 1) * np.float32(0.95))
        drawing.paste(board, label, x=place[0], y=place[1])
    return board


def _chip(stage: Stage, generator: np.random.Generator, size: float) -> Sprite:
    """Return a black package with bright legs on all sides and its type printed on it."""
    side = stage.pixels(size, least=20)
    y, x = drawing.centred_grid(side, side)
    legs = max(3, round(size * 36))
    pitch = 0.74 * side / legs
    band_x = np.abs((x / pitch + legs / 2) % 1.0 - 0.5) * pitch - 0.27 * pitch
    band_y = np.abs((y / pitch + legs / 2) % 1.0 - 0.5) * pitch - 0.27 * pitch
    across = np.maximum(np.maximum(band_x, np.abs(x) - legs * pitch / 2), np.abs(y) - side / 2 + 1)
    down = np.maximum(np.maximum(band_y, np.abs(y) - legs * pitch / 2), np.abs(x) - side / 2 + 1)
    noise = fractal_noise((side, side), generator, cell=4.0, roughness=0.8, finest=1.0)
    metal = ramp(0.55 + 0.14 * noise - 0.3 * (y + x) / side, [(0.35, 0.36, 0.38), (0.74, 0.75, 0.78), (1, 1, 1)])
    part = drawing.over(drawing.empty(side, side), metal, drawing.coverage(np.minimum(across, down).astype(np.float32)))
    half = 0.41 * side
    body = ramp(
        0.4 + 0.10 * noise - 0.25 * (y + x) / side, [(0.05, 0.05, 0.06), (0.15, 0.15, 0.17), (0.30, 0.30, 0.33)]
    )
    rim = np.clip(1 - np.abs(drawing.rounded_box(y, x, half * 0.95, half * 0.95, 0.02 * side)) / 1.2, 0, 1)
    body = mix(body, (0.40, 0.40, 0.43), 0.5 * rim)
    shape = (max(8, round(0.34 * side)), max(12, round(0.62 * side)))
    word = printed_text(shape, generator, line_height=0.24 * shape[0], paper=(0, 0, 0), ink=(1, 1, 1))[..., 0]
    label = Sprite(np.full((*shape, 3), 0.82, dtype=np.float32), np.clip(word, 0, 1) * np.float32(0.9))
    drawing.paste(body, label, x=side / 2, y=0.52 * side)
    dot = drawing.coverage(np.hypot(x + 0.31 * side, y + 0.31 * side) - np.float32(0.03 * side))
    body = mix(body, (0.62, 0.62, 0.60), dot)
    return drawing.over(part, body, drawing.coverage(drawing.rounded_box(y, x, half, half, 0.02 * side)))


def _resistor(stage: Stage, generator: np.random.Generator, number: int) -> Sprite:
    """Return a small chip part with tinned ends: black with a number, or brown without."""
    height, width = stage.pixels(0.05, least=8), stage.pixels(0.028, least=5)
    y, x = drawing.centred_grid(height, width)
    noise = fractal_noise((height, width), generator, cell=3.0, roughness=0.7, finest=1.0)
    tone = (0.10, 0.10, 0.11) if number % 3 else (0.66, 0.50, 0.36)
    body = np.asarray(tone, dtype=np.float32) * (1 + 0.12 * noise - 0.3 * x / width)[..., None]
    word = printed_text(
        (height // 2, width), generator, line_height=max(4.0, 0.4 * height), paper=(0, 0, 0), ink=(1, 1, 1)
    )
    middle = body[height // 4 : height // 4 + height // 2]
    if number % 3:
        middle += 0.7 * word
    ends = drawing.coverage((0.30 * height - np.abs(y) + 0 * x).astype(np.float32))
    tin = ramp(0.7 + 0.15 * noise - 0.3 * x / width, [(0.4, 0.4, 0.42), (0.95, 0.95, 0.96)])
    picture = mix(body.astype(np.float32), tin, ends)
    return Sprite(picture, drawing.coverage(drawing.rounded_box(y, x, height / 2 - 0.5, width / 2 - 0.5, 0.1 * width)))


def _capacitor(stage: Stage, generator: np.random.Generator, size: float) -> Sprite:
    """Return the round aluminium top of a capacitor with its cross and dark segment."""
    side = stage.pixels(size, least=12)
    y, x = drawing.centred_grid(side, side)
    radius, angle = np.hypot(x, y) / (side / 2), np.arctan2(y, x)
    brushed = fractal_noise((side, side), generator, cell=(2.5, 40.0), roughness=0.6, finest=1.0)
    sheen = 0.5 + 0.22 * np.cos(2 * (angle + 0.9)) + 0.07 * brushed - 0.1 * (y + x) / side
    top = ramp(sheen.astype(np.float32), [(0.45, 0.46, 0.48), (0.76, 0.77, 0.78), (0.97, 0.97, 0.97)])
    cross = np.minimum(np.abs(x), np.abs(y)) - np.float32(0.012 * side)
    top = mix(top, (0.30, 0.30, 0.32), 0.8 * drawing.coverage(cross) * (radius < 0.7) * ((y > 0) | (x > -0.02 * side)))
    segment = drawing.coverage((0.18 * side - x + 0 * y).astype(np.float32)) * (radius < 0.88)
    top = mix(top, (0.13, 0.14, 0.30), segment.astype(np.float32))
    shape = (max(6, round(0.3 * side)), max(8, round(0.5 * side)))
    word = printed_text(shape, generator, line_height=0.4 * shape[0], paper=(0, 0, 0), ink=(1, 1, 1))[..., 0]
    drawing.paste(
        top, Sprite(np.full((*shape, 3), 0.1, dtype=np.float32), np.clip(word, 0, 1)), x=0.38 * side, y=0.34 * side
    )
    ring = np.clip(1 - np.abs(radius - 0.91) * side / 2 / max(1.0, 0.03 * side), 0, 1).astype(np.float32)
    top = mix(top, (0.35, 0.36, 0.38), 0.7 * ring)
    return Sprite(top, drawing.coverage(((radius - 1.0) * side / 2 + 0.5).astype(np.float32)))


def _connector(stage: Stage, generator: np.random.Generator) -> Sprite:
    """Return a long white socket with two rows of gold contacts."""
    height, width = stage.pixels(0.11, least=14), stage.pixels(0.42, least=30)
    y, x = drawing.centred_grid(height, width)
    noise = fractal_noise((height, width), generator, cell=5.0, roughness=0.8, finest=1.0)
    body = ramp(0.7 + 0.05 * noise - 0.3 * y / height, [(0.55, 0.53, 0.48), (0.93, 0.92, 0.87)])
    pitch = width / 14
    row = np.abs(np.abs(y) - 0.2 * height)
    column = np.abs((x / pitch) % 1.0 - 0.5) * pitch
    hole = np.maximum(row - 0.11 * height, column - 0.30 * pitch)
    pin = np.maximum(row - 0.05 * height, column - 0.12 * pitch)
    inside = np.abs(x) < width / 2 - 0.6 * pitch
    body = mix(body, (0.10, 0.10, 0.10), drawing.coverage(hole) * inside)
    gold = ramp(0.5 + 0.2 * noise, [(0.62, 0.44, 0.12), (0.96, 0.80, 0.36)])
    body = mix(body, gold, (drawing.coverage(pin) * inside).astype(np.float32))
    return Sprite(body, drawing.coverage(drawing.rounded_box(y, x, height / 2 - 0.5, width / 2 - 0.5, 0.08 * height)))
