"""Things to put into a scene: each function draws one object as a sprite, lit from the upper left.

Edges are anti-aliased: alpha is the share of a pixel that the object covers. Sizes are in pixels.
"""

import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.scenes.drawing import (
    centred_grid,
    coverage,
    ellipse,
    empty,
    lit_cylinder,
    lit_sphere,
    over,
    polygon,
    rounded_box,
    strokes,
)
from allfocus.scenes.layers import Sprite
from allfocus.scenes.textures import (
    Colour,
    fabric,
    fractal_noise,
    line_chart,
    mix,
    printed_text,
    ramp,
    siemens_star,
    step,
    stone,
)


def orange(diameter: int, generator: np.random.Generator, *, colours: Sequence[Colour]) -> Sprite:
    """Return a round fruit with a dimpled skin; its colours run from the shaded to the bright side."""
    y, x = centred_grid(diameter + 2, diameter + 2)
    radius = diameter / 2
    bright, mirror = lit_sphere(y, x, radius)
    shape = (diameter + 2, diameter + 2)
    dimples = fractal_noise(shape, generator, cell=max(3.0, diameter / 28), roughness=0.6)
    blush = fractal_noise(shape, generator, cell=diameter / 2.5, roughness=0.5)
    # Dimples are lit on the side away from the light: the slope of the skin along it.
    slope = dimples - np.roll(dimples, (1, 1), axis=(0, 1))
    skin = ramp(0.5 + 0.12 * blush + 0.05 * dimples, colours)
    stem = np.exp(-(((y + 0.62 * radius) / (0.07 * radius)) ** 2 + ((x + 0.1 * radius) / (0.11 * radius)) ** 2))
    skin = mix(skin, (0.28, 0.33, 0.12), np.clip(1.4 * stem, 0, 0.9).astype(np.float32))
    colour = skin * (bright + 0.12 + 0.055 * slope)[..., None] + (0.42 * mirror * (1 + 0.5 * dimples))[..., None]
    return Sprite(colour.astype(np.float32), coverage(np.hypot(x, y) - np.float32(radius)))


def pebble(width: int, generator: np.random.Generator) -> Sprite:
    """Return a smooth grey stone with veins, wider than tall."""
    shape = (round(0.62 * width) + 2, width + 2)
    y, x = centred_grid(*shape)
    bright, _ = lit_sphere(y / np.float32(0.31 * width), x / np.float32(0.5 * width), 1.05)
    greys = [(0.36, 0.37, 0.40), (0.60, 0.61, 0.62), (0.82, 0.82, 0.80)]
    skin = stone(shape, generator, cell=max(4.0, width / 3), colours=greys) * bright[..., None]
    return Sprite(skin.astype(np.float32), coverage(ellipse(y, x, 0.31 * width, 0.5 * width)))


def yarn_ball(diameter: int, generator: np.random.Generator, *, colour: Colour) -> Sprite:
    """Return a ball of wool: bundles of parallel threads that cross in several directions."""
    shape = (diameter + 2, diameter + 2)
    y, x = centred_grid(*shape)
    radius = diameter / 2
    bright, _ = lit_sphere(y, x, radius)
    thread = max(3.0, diameter / 22)
    surface, depth = np.zeros(shape, dtype=np.float32), np.full(shape, -1.0, dtype=np.float32)
    # Threads run along great circles: constant latitude about a random axis.
    z = np.sqrt(np.maximum(radius**2 - x**2 - y**2, 0.0))
    for bundle in range(9):
        axis = generator.standard_normal(3)
        axis /= np.linalg.norm(axis)
        latitude = (x * axis[0] + y * axis[1] + z * axis[2]).astype(np.float32)
        inside = np.abs(latitude - generator.uniform(-0.4, 0.4) * radius) < generator.uniform(0.22, 0.4) * radius
        wave = np.abs(np.sin(np.pi * latitude / thread))
        along = (x * axis[1] - y * axis[0]).astype(np.float32)
        twist = 0.16 * np.sin(2 * np.pi * (along / (0.8 * thread) + latitude / thread))
        inside |= bundle == 0
        surface, depth = np.where(inside, wave + twist, surface), np.where(inside, np.float32(bundle), depth)
    fuzz = fractal_noise(shape, generator, cell=3.0, roughness=0.8, finest=1.0)
    shade = bright * (0.42 + 0.62 * surface + 0.05 * fuzz + 0.015 * depth)
    wool = np.asarray(colour, dtype=np.float32) * shade[..., None]
    return Sprite(wool.astype(np.float32), coverage(np.hypot(x, y) - np.float32(radius)))


def mug(height: int, generator: np.random.Generator, *, glaze: Sequence[Colour], pattern: Colour) -> Sprite:
    """Return a glazed mug with a handle on the right, a painted band and dark coffee in it."""
    width, radius = round(1.22 * height), 0.40 * height
    y, x = centred_grid(height, width)
    x = x + np.float32(0.16 * height)  # room for the handle
    lip = 0.10 * height
    body_top, body_bottom = -0.5 * height + lip + 1, 0.5 * height - 0.8 * lip - 1
    bright, mirror = lit_cylinder(x + 0 * y, radius)
    speckle = fractal_noise((height, width), generator, cell=5.0, roughness=0.8, finest=1.0)
    cloud = fractal_noise((height, width), generator, cell=height / 3, roughness=0.5)
    skin = ramp(0.5 + 0.10 * cloud + 0.05 * speckle - 0.35 * step(speckle, 2.0, 0.6) - 0.25 * y / height, glaze)
    # The pattern follows the round body: rows sink in the middle, columns crowd at the sides.
    turn = np.arcsin(np.clip(x / np.float32(radius), -1, 1))
    row = (y - body_top - lip * np.sqrt(1 - np.clip(x / radius, -1, 1) ** 2)) / height
    petals = np.cos(turn * 12) * 0.5 + 0.5
    band = step(0.055 + 0.05 * petals - np.abs(row - 0.33), 0.0, 2.0 / height)
    ring = step(0.008 - np.abs(np.abs(row - 0.33) - 0.14), 0.0, 2.0 / height)
    holes = step(0.02 - np.hypot(row - 0.33, (np.mod(turn * 12 / (2 * np.pi) + 0.5, 1) - 0.5) * 0.1), 0.0, 2.0 / height)
    painted = mix(skin, pattern, np.clip(band + ring - holes, 0, 1).astype(np.float32))
    colour = painted * bright[..., None] + 0.38 * mirror[..., None]
    handle_y, handle_x = y - 0.02 * height, x - np.float32(radius * 0.98)
    tube = np.abs(ellipse(handle_y, handle_x, 0.25 * height, 0.23 * height)) - np.float32(0.048 * height)
    tube_light = (
        0.75 - 0.25 * np.clip(handle_y / (0.25 * height), -1, 1) - 0.25 * np.clip(tube / (0.05 * height) + 1, 0, 1)
    )
    picture = over(empty(height, width), skin * (tube_light * 0.95)[..., None], coverage(tube) * (x > radius * 0.9))
    straight = np.maximum(np.abs(x) - radius, np.maximum(body_top - y, y - body_bottom))
    base = ellipse(y - body_bottom, x, 0.8 * lip, radius)
    rim = ellipse(y - body_top, x, lip, radius)
    picture = over(picture, colour, coverage(np.minimum(np.minimum(straight, base), rim)))
    inner = ellipse(y - body_top, x, 0.86 * lip, 0.93 * radius)
    wall = ramp((0.5 + 0.5 * x / radius + 0 * y).astype(np.float32), [(0.42, 0.44, 0.42), (0.90, 0.90, 0.85)])
    picture = over(picture, np.clip(skin * 1.15 + 0.12, 0, 1), coverage(rim))
    picture = over(picture, wall, coverage(inner))
    coffee = np.maximum(inner, ellipse(y - body_top - 0.42 * lip, x, 0.78 * lip, 0.92 * radius))
    foam = fractal_noise((height, width), generator, cell=height / 14, roughness=0.7)
    surface = ramp(
        (0.32 + 0.07 * foam + 0.25 * x / radius).astype(np.float32),
        [(0.16, 0.08, 0.04), (0.45, 0.27, 0.13), (0.80, 0.62, 0.40)],
    )
    return over(picture, surface, coverage(coffee))


def die(size: int, generator: np.random.Generator, *, colour: Colour) -> Sprite:
    """Return a die that shows three faces with their pips."""
    half, tall, slant = 0.5 * size, 0.52 * size, 0.26 * size
    height, width = math.ceil(tall + 2 * slant) + 2, size + 2
    centre = np.array([width / 2, 1.0])
    top = centre + np.array([[0, 0], [half, slant], [0, 2 * slant], [-half, slant]])
    left = np.array([top[3], top[2], top[2] + [0, tall], top[3] + [0, tall]])
    right = np.array([top[2], top[1], top[1] + [0, tall], top[2] + [0, tall]])
    grain = fractal_noise((height, width), generator, cell=size / 6, roughness=0.75)
    sparkle = step(fractal_noise((height, width), generator, cell=2.5, roughness=0.7, finest=1.0), 1.9, 0.8)
    picture = empty(height, width)
    for corners, shade, pips in ((left, 0.86, _PIPS[5]), (right, 0.52, _PIPS[3]), (top, 1.12, _PIPS[2])):
        face = np.asarray(colour, dtype=np.float32) * np.float32(shade) * (1 + 0.05 * grain)[..., None]
        face = face + (0.16 * sparkle * shade)[..., None]
        picture = over(picture, face.astype(np.float32), polygon(height, width, corners))
        origin, across, down = corners[0], corners[1] - corners[0], corners[3] - corners[0]
        angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)[:, None]
        for u, v in pips:
            rim = origin + (u + 0.1 * np.cos(angles)) * across + (v + 0.1 * np.sin(angles)) * down
            picture = over(
                picture, tuple(np.array((0.98, 0.95, 0.88)) * min(1.0, shade + 0.1)), polygon(height, width, rim)
            )
    edges = strokes(height, width, [np.array([top[3], top[2], top[1]]), np.array([top[2], right[3]])], [size / 45] * 2)
    return Sprite(mix(picture.colour, (1.0, 0.9, 0.85), 0.55 * edges), picture.alpha)


_PIPS: dict[int, list[tuple[float, float]]] = {
    2: [(0.28, 0.28), (0.72, 0.72)],
    3: [(0.25, 0.25), (0.5, 0.5), (0.75, 0.75)],
    5: [(0.25, 0.25), (0.25, 0.75), (0.5, 0.5), (0.75, 0.25), (0.75, 0.75)],
}


def leaf(length: int, generator: np.random.Generator, *, colours: Sequence[Colour], slim: float = 0.42) -> Sprite:
    """Return a leaf that points up, with midrib, side veins and cells; ``slim`` is its width over its length."""
    width = max(4, round(slim * length)) + 4
    height = length + 4
    y, x = centred_grid(height, width)
    along = np.clip((y + length / 2) / length, 0.0, 1.0)  # 0 at the tip, 1 at the stalk
    half = (slim * length / 2) * (np.maximum(np.sin(np.pi * along**0.75), 0.0) ** 0.8) * (1 - 0.15 * along)
    bend = np.float32(0.05 * slim * length) * np.sin(2.2 * np.pi * along)
    offset = x - bend
    edge = np.abs(offset) - half
    slope = 1.0 + (np.pi * slim / 2) * np.abs(np.cos(np.pi * along))
    alpha = coverage((np.maximum(edge / slope, np.abs(y) - length / 2)).astype(np.float32))
    side = np.abs(offset) / np.maximum(slim * length / 2, 1.0)
    vein_phase = (along * 11 + side * 2.4 + 0.25 * (offset > 0)) % 1.0
    thin = max(0.045, 11 * 0.7 / length)
    veins = np.clip(1 - np.abs(vein_phase - 0.5) / thin, 0, 1) * np.clip(half - np.abs(offset), 0, 1)
    rib = coverage(np.abs(offset) - np.maximum(0.45, 0.013 * length * along))
    cells = fractal_noise((height, width), generator, cell=max(3.0, length / 40), roughness=0.75)
    patches = fractal_noise((height, width), generator, cell=length / 4, roughness=0.5)
    # The two halves are folded: the left one faces the light, and the skin bulges between veins.
    bulge = 0.10 * np.cos(2 * np.pi * (vein_phase - 0.5))
    value = 0.52 + 0.10 * patches + 0.055 * cells + np.where(offset < 0, 0.10, -0.12) - bulge - 0.15 * side
    colour = ramp(value.astype(np.float32), colours)
    pale = tuple(0.5 * np.asarray(colours[-1]) + 0.42)
    return Sprite(mix(colour, pale, np.clip(0.55 * rib + 0.33 * veins, 0, 1).astype(np.float32)), alpha)


def coin(diameter: int, generator: np.random.Generator, *, metal: Colour) -> Sprite:
    """Return a coin lying flat: milled rim, ring of beads, a head of relief in the middle."""
    shape = (diameter + 2, diameter + 2)
    y, x = centred_grid(*shape)
    radius = diameter / 2
    polar, angle = np.hypot(x, y) / radius, np.arctan2(y, x)
    height = 0.8 * step(polar, 0.90, 0.05) + 0.25 * np.cos(angle * 60) * step(polar, 0.95, 0.04)
    height = height + 0.5 * step(np.cos(angle * 44), 0.3, 0.8) * (np.abs(polar - 0.82) < 0.04)
    letters = fractal_noise(shape, generator, cell=diameter / 16, roughness=0.4)
    height = height + 0.7 * step(letters, 0.4, 0.5) * (np.abs(polar - 0.66) < 0.09)
    figure = fractal_noise(shape, generator, cell=diameter / 4.5, roughness=0.55) - 2.2 * polar
    height = height + 0.9 * step(figure, -0.9, 0.5) * (polar < 0.52) + 0.08 * letters * (polar < 0.5)
    scratches = fractal_noise(shape, generator, cell=(2.0, 30.0), roughness=0.6, finest=1.0)
    relief = cv2.GaussianBlur(height.astype(np.float32), (0, 0), max(0.5, diameter / 160))
    down, across = np.gradient(relief)
    light = 0.78 + (0.030 * diameter) * (-0.6 * across - 0.8 * down).clip(-0.25, 0.25) * 2
    sheen = 0.16 * np.cos(2 * (angle + 0.8)) * (0.3 + polar)
    shade = np.clip(light + sheen + 0.025 * scratches, 0.12, 1.4)
    colour = np.asarray(metal, dtype=np.float32) * shade[..., None]
    return Sprite(colour.astype(np.float32), coverage((polar - 1.0) * radius))


def focus_card(height: int, generator: np.random.Generator) -> Sprite:
    """Return an upright focus chart: Siemens star, line groups and writing on white card."""
    width = round(0.78 * height)
    card = np.full((height, width, 3), (0.96, 0.95, 0.92), dtype=np.float32)
    foot = height - round(0.79 * height)
    card[-foot:] = printed_text((foot, width), generator, line_height=max(4.0, height / 24), paper=(0.96, 0.95, 0.92))
    star_size = round(0.56 * height)
    top, left = round(0.05 * height), (width - star_size) // 2
    y, x = centred_grid(star_size, star_size)
    inside = coverage(np.hypot(x, y) - np.float32(star_size / 2 - 1))
    star = ramp(siemens_star((star_size, star_size)), [(0.07, 0.07, 0.09), (0.96, 0.95, 0.92)])
    view = card[top : top + star_size, left : left + star_size]
    view[...] = mix(view, star, inside)
    lines = line_chart((max(2, round(0.07 * height)), round(0.84 * width)), coarsest=max(6.0, height / 14))
    row, column = round(0.65 * height), round(0.08 * width)
    card[row : row + lines.shape[0], column : column + lines.shape[1]] = ramp(
        lines, [(0.07, 0.07, 0.09), (0.96, 0.95, 0.92)]
    )
    squares = [(0.80, 0.18, 0.16), (0.93, 0.66, 0.12), (0.20, 0.55, 0.32), (0.14, 0.36, 0.66), (0.45, 0.24, 0.55)]
    for number, square in enumerate(squares):
        start = round((0.08 + number * 0.172) * width)
        card[round(0.74 * height) : round(0.785 * height), start : start + round(0.15 * width)] = square
    y, x = centred_grid(height, width)
    shade = 0.98 - 0.10 * (y / height + x / width)
    alpha = coverage(rounded_box(y, x, height / 2 - 0.5, width / 2 - 0.5, 0.02 * height))
    return Sprite((card * shade[..., None]).astype(np.float32), alpha)


def book(height: int, width: int, generator: np.random.Generator, *, colour: Colour) -> Sprite:
    """Return the spine of a book: cloth, gilt bands, a title down the spine."""
    cloth = fabric((height, width), generator, period=max(2.4, width / 24), warp=(1, 1, 1), weft=(0.9, 0.9, 0.9))
    worn = fractal_noise((height, width), generator, cell=max(4.0, width / 2), roughness=0.6)
    y, x = centred_grid(height, width)
    bright, mirror = lit_cylinder(x + 0 * y, 0.62 * width)
    body = np.asarray(colour, dtype=np.float32) * (0.62 + 0.48 * cloth + 0.05 * worn[..., None])
    gilt = tuple(np.array((0.93, 0.78, 0.42)) if generator.random() < 0.6 else np.array((0.93, 0.92, 0.88)))
    row = y / height + 0.5
    bands = np.zeros((height, width), dtype=np.float32)
    for place in (0.06, 0.085, 0.80, 0.825, 0.95):
        bands = np.maximum(bands, (step(0.005 - np.abs(row - place), 0.0, 1.5 / height) + 0 * x).astype(np.float32))
    title_height, title_width = max(4, round(0.66 * width)), max(8, round(0.62 * height))
    label = printed_text(
        (title_width, title_height)[::-1],
        generator,
        line_height=max(4.0, 0.42 * title_height),
        paper=(0.0, 0.0, 0.0),
        ink=(1.0, 1.0, 1.0),
    )[..., 0]
    label = np.rot90(label, 3)
    top, left = round(0.13 * height), (width - title_height) // 2
    view = bands[top : top + title_width, left : left + title_height]
    view[...] = np.maximum(view, np.clip(label[: view.shape[0], : view.shape[1]], 0, 1))
    body = mix(body.astype(np.float32), gilt, 0.85 * bands)
    picture = body * bright[..., None] + 0.05 * mirror[..., None]
    return Sprite(picture.astype(np.float32), coverage(rounded_box(y, x, height / 2, width / 2, 0.12 * width)))


def pot(height: int, generator: np.random.Generator, *, colours: Sequence[Colour]) -> Sprite:
    """Return a clay flower pot that narrows towards its foot."""
    width = round(1.08 * height)
    y, x = centred_grid(height, width)
    row = y / height + 0.5
    half = np.where(row < 0.24, 0.50, 0.45 - 0.13 * row) * height
    bright, mirror = lit_cylinder(x / half, 1.0)
    clay = fractal_noise((height, width), generator, cell=(height / 12, height / 3), roughness=0.65, finest=1.0)
    chalk = fractal_noise((height, width), generator, cell=height / 4, roughness=0.65)
    skin = mix(ramp(0.5 + 0.12 * clay, colours), (0.90, 0.84, 0.76), 0.35 * step(chalk, 1.2, 1.2))
    under_lip = 1 - 0.40 * np.exp(-(((row - 0.27) / 0.05) ** 2)) * (row > 0.24)
    colour = skin * (bright * under_lip)[..., None] + 0.05 * mirror[..., None]
    edge = np.maximum(
        np.abs(x) - half, np.maximum(-y - height / 2 + 1, y - height / 2 + 1 + 0.06 * height * (x / half) ** 2)
    )
    return Sprite(colour.astype(np.float32), coverage(edge.astype(np.float32)))


def pencil(length: int, thickness: int, generator: np.random.Generator, *, colour: Colour) -> Sprite:
    """Return a pencil lying with its point to the right."""
    height, width = thickness + 2, length + 2
    y, x = centred_grid(height, width)
    along = (x + length / 2) / length + 0 * y
    tip = 3.2 * thickness / length
    half = np.where(along > 1 - tip, (1 - along) / tip, 1.0) * thickness / 2
    facet = np.where(y < -thickness / 6, 1.15, np.where(y < thickness / 6, 0.92, 0.62))
    grain = fractal_noise((height, width), generator, cell=(2.0, 20.0), roughness=0.6, finest=1.0)
    body = np.asarray(colour, dtype=np.float32) * facet[..., None] * np.ones((1, width, 1), dtype=np.float32)
    bare = np.asarray((0.86, 0.68, 0.47), dtype=np.float32) * (facet * 0.9 + 0.1 + 0.06 * grain)[..., None]
    wavy = along - (1 - tip) + 0.12 * tip * np.cos(y / thickness * 6 * np.pi)
    body = np.where((wavy > 0)[..., None], bare, body)
    body = np.where((along > 1 - 0.28 * tip)[..., None], np.asarray((0.16, 0.16, 0.18), dtype=np.float32), body)
    metal = np.asarray((0.80, 0.78, 0.70), dtype=np.float32) * (facet + 0.12 * np.sin(along * length * 1.3))[..., None]
    body = np.where(((along > 0.05) & (along < 0.10))[..., None], metal, body)
    body = np.where(
        (along <= 0.05)[..., None], np.asarray((0.86, 0.46, 0.46), dtype=np.float32) * facet[..., None], body
    )
    edge = np.maximum(np.abs(y) - half, np.abs(x) - length / 2)
    return Sprite(np.clip(body, 0, 1).astype(np.float32), coverage(edge.astype(np.float32)))


def hairs(
    height: int,
    width: int,
    roots: NDArray[np.float64],
    directions: NDArray[np.float64],
    generator: np.random.Generator,
    *,
    thickness: float,
    colours: Sequence[Colour],
    curl: float = 0.3,
) -> Sprite:
    """Return thin bent hairs that taper to a point.

    Args:
        height: Height of the sprite.
        width: Width of the sprite.
        roots: (n, 2), x and y of each root.
        directions: (n, 2), x and y from root to tip.
        generator: Source of the bends.
        thickness: Thickness at the root in pixels.
        colours: Colours between which the hairs vary.
        curl: Sideways bend over length.
    """
    lines: list[NDArray[np.float64]] = []
    widths: list[float] = []
    pieces = 6
    for root, direction in zip(roots, directions, strict=True):
        t = np.linspace(0.0, 1.0, 4 * pieces + 1)[:, None]
        sideways = np.array([-direction[1], direction[0]]) * generator.normal(0.0, curl)
        points = root + direction * t + sideways * t**2
        for piece in range(pieces):
            lines.append(points[4 * piece : 4 * piece + 5])
            widths.append(thickness * (1.0 - 0.85 * piece / pieces))
    alpha = strokes(height, width, lines, widths)
    tint = fractal_noise((height, width), generator, cell=max(6.0, width / 8), roughness=0.6)
    return Sprite(ramp(0.5 + 0.25 * tint, colours), alpha)
