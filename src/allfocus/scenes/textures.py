"""Procedural colour textures: pictures made of random numbers and a few formulas, none of them anybody's photo.

Every texture is (h, w, 3), RGB, about 0..1 on the sRGB curve, unless its function says otherwise. ``period`` and
``cell`` are lengths in pixels; all randomness comes from the generator given.
"""

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Colour = tuple[float, float, float]
Picture = NDArray[np.float32]
Values = NDArray[np.floating[Any]]


def to_linear_light(encoded: Picture) -> Picture:
    """Return linear light for values 0..1 on the sRGB curve (IEC 61966-2-1).

    Example:
        >>> to_linear_light(np.float32([0.0, 0.5, 1.0])).round(3).tolist()
        [0.0, 0.21400000154972076, 1.0]
    """
    low = encoded / np.float32(12.92)
    high = ((np.maximum(encoded, 0.0) + np.float32(0.055)) / np.float32(1.055)) ** np.float32(2.4)
    light: Picture = np.where(encoded <= 0.04045, low, high).astype(np.float32)
    return light


def to_srgb_curve(light: Picture) -> Picture:
    """Return values on the sRGB curve for linear light, clipped to 0..1.

    Example:
        >>> to_srgb_curve(np.float32([-1.0, 0.214, 2.0])).round(2).tolist()
        [0.0, 0.5, 1.0]
    """
    light = np.clip(light, 0.0, 1.0)
    encoded: Picture = np.where(
        light <= 0.0031308,
        light * np.float32(12.92),
        np.float32(1.055) * light ** np.float32(1 / 2.4) - np.float32(0.055),
    ).astype(np.float32)
    return encoded


def fractal_noise(
    shape: tuple[int, int],
    generator: np.random.Generator,
    *,
    cell: float | tuple[float, float],
    roughness: float = 0.55,
    finest: float = 1.5,
) -> Picture:
    """Return noise (h, w) with mean 0 and standard deviation 1, made of octaves from ``cell`` down to ``finest``.

    Args:
        shape: Height and width.
        generator: Source of the random numbers.
        cell: Size of the largest blobs in pixels, or (vertical, horizontal) for streaks.
        roughness: Strength of each octave against the next larger one, 0 (smooth) to 1 (grainy).
        finest: Octaves stop when the smaller cell side falls below this many pixels.
    """
    down, across = cell if isinstance(cell, tuple) else (cell, cell)
    noise = np.zeros(shape, dtype=np.float32)
    strength, total = 1.0, 0.0
    while True:
        noise += np.float32(strength) * _value_noise(shape, generator, down, across)
        total += strength**2
        strength *= roughness
        down, across = down / 2, across / 2
        if min(down, across) < finest:
            break
    spread = float(noise.std())
    centred: Picture = (noise - noise.mean()) / np.float32(spread if spread > 1e-6 else 1.0)
    return centred


def _value_noise(shape: tuple[int, int], generator: np.random.Generator, down: float, across: float) -> Picture:
    """Return one octave: random values on a coarse grid, joined by cubic interpolation."""
    height, width = shape
    down, across = min(max(down, 1.0), 4.0 * height), min(max(across, 1.0), 4.0 * width)
    rows, columns = math.ceil(height / down) + 3, math.ceil(width / across) + 3
    grid = generator.standard_normal((rows, columns), dtype=np.float32)
    start = generator.uniform(0.0, 1.0, 2)
    matrix = np.array([[1 / across, 0, start[0] + 0.5], [0, 1 / down, start[1] + 0.5]], dtype=np.float64)
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    octave = cv2.warpAffine(grid, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REFLECT_101)
    return octave.astype(np.float32, copy=False)


def ramp(value: Values, colours: Sequence[Colour]) -> Picture:
    """Return colours (h, w, 3) for values 0..1: the given ones evenly spaced, mixed linearly between.

    Example:
        >>> ramp(np.float32([[0.0, 0.5, 2.0]]), [(0, 0, 0), (1, 0.5, 0)])[0].tolist()
        [[0.0, 0.0, 0.0], [0.5, 0.25, 0.0], [1.0, 0.5, 0.0]]
    """
    stops = np.linspace(0.0, 1.0, len(colours))
    channels = [np.interp(value, stops, [colour[index] for colour in colours]) for index in range(3)]
    return np.stack(channels, axis=-1).astype(np.float32)


def mix(below: Picture, above: Picture | Colour, share: Values) -> Picture:
    """Return ``below`` with ``share`` (h, w), 0..1, of the colour or picture ``above`` in it."""
    mixed: Picture = below + (np.asarray(above, dtype=np.float32) - below) * share[..., None].astype(np.float32)
    return mixed


def step(value: Values, edge: float, softness: float) -> Picture:
    """Return 0 below ``edge``, 1 above it, with a linear ramp of width ``softness`` between."""
    share: Picture = np.clip((value - edge) / softness + 0.5, 0.0, 1.0).astype(np.float32)
    return share


def wood(
    shape: tuple[int, int], generator: np.random.Generator, *, period: float, colours: Sequence[Colour]
) -> Picture:
    """Return sawn wood with its grain along x: year rings, fibres and dark pores; ``period`` is the ring spacing."""
    height, width = shape
    rows = np.arange(height, dtype=np.float32)[:, None]
    drift = fractal_noise(shape, generator, cell=(7 * period, 40 * period), roughness=0.4, finest=0.5 * period)
    rings = rows / np.float32(period) + np.float32(1.6) * drift
    saw = rings - np.floor(rings)
    band = saw**2 * (1 - step(saw, 0.93, 0.14))
    fibres = fractal_noise(shape, generator, cell=(3.0, 90.0), roughness=0.7, finest=1.0)
    pores = fractal_noise(shape, generator, cell=(1.6, 22.0), roughness=0.6, finest=1.0)
    broad = fractal_noise(shape, generator, cell=(0.5 * height, 0.7 * width), roughness=0.5, finest=0.1 * height)
    value = 0.58 - 0.22 * band + 0.055 * fibres + 0.06 * broad
    return ramp(value - 0.20 * step(pores, 1.7, 0.8), colours)


def stone(shape: tuple[int, int], generator: np.random.Generator, *, cell: float, colours: Sequence[Colour]) -> Picture:
    """Return stone: clouds, thin veins and fine speckles; ``cell`` is the size of the clouds."""
    clouds = fractal_noise(shape, generator, cell=cell, roughness=0.6)
    veins = np.abs(fractal_noise(shape, generator, cell=1.3 * cell, roughness=0.5))
    speckle = fractal_noise(shape, generator, cell=3.0, roughness=0.8, finest=1.0)
    value = 0.5 + 0.13 * clouds + 0.09 * speckle - 0.35 * (1 - step(veins, 0.05, 0.1))
    return ramp(value, colours)


def fabric(
    shape: tuple[int, int], generator: np.random.Generator, *, period: float, warp: Colour, weft: Colour
) -> Picture:
    """Return plain-woven cloth; ``period`` is the width of one thread in pixels, at least 2 to be visible."""
    wobble = fractal_noise(shape, generator, cell=14 * period, roughness=0.5, finest=2 * period) * np.float32(0.12)
    rows = np.arange(shape[0], dtype=np.float32)[:, None] / np.float32(period) + wobble
    columns = np.arange(shape[1], dtype=np.float32)[None, :] / np.float32(period) + wobble
    over = (np.floor(rows) + np.floor(columns)) % 2 < 0.5
    across_row, across_column = np.sin(np.pi * (rows % 1.0)), np.sin(np.pi * (columns % 1.0))
    # A thread is bright along its middle and sinks at both ends, where it dives under the next one.
    height = np.where(over, across_row * (0.55 + 0.45 * across_column), across_column * (0.55 + 0.45 * across_row))
    colour = np.where(over[..., None], np.asarray(weft, dtype=np.float32), np.asarray(warp, dtype=np.float32))
    fibres = fractal_noise(shape, generator, cell=max(2.0, 0.5 * period), roughness=0.7, finest=1.0)
    shade = 0.45 + 0.6 * height + 0.07 * fibres
    cloth: Picture = (colour * shade[..., None]).astype(np.float32)
    return cloth


def printed_text(
    shape: tuple[int, int],
    generator: np.random.Generator,
    *,
    line_height: float,
    paper: Colour = (0.94, 0.92, 0.86),
    ink: Colour = (0.12, 0.12, 0.15),
    columns: int = 1,
) -> Picture:
    """Return a page of made-up writing: lines of words of strokes, headings now and then."""
    height, width = shape
    scale = 4 if height * width < 4_000_000 else 2
    page = np.zeros((height * scale, width * scale), dtype=np.uint8)
    margin, gap = 0.8 * line_height, 1.2 * line_height
    column_width = (width - 2 * margin - (columns - 1) * gap) / columns
    for column in range(columns):
        left, top = margin + column * (column_width + gap), margin
        while top + line_height < height - 0.5 * margin:
            heading = generator.random() < 0.08
            glyph = line_height * (0.95 if heading else 0.62)
            end = left + column_width * (generator.uniform(0.4, 0.75) if heading or generator.random() < 0.12 else 1.0)
            _write_line(page, generator, scale=scale, left=left, right=end, top=top, glyph=glyph, bold=heading)
            top += line_height * (1.7 if heading else 1.15)
    coverage = cv2.resize(page, (width, height), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    fibre = fractal_noise(shape, generator, cell=6.0, roughness=0.8, finest=1.0)[..., None] * np.float32(0.012)
    printed = mix(np.full((height, width, 3), paper, dtype=np.float32), ink, coverage) + fibre
    return printed


_LETTERS: list[list[tuple[float, float]]] = [
    [(0, 3), (0, 1), (2, 1), (2, 3)],
    [(0, 1), (0, 3), (2, 3), (2, 1)],
    [(0, 1), (2, 1), (2, 3), (0, 3), (0, 1)],
    [(0, 0), (0, 3), (1, 3)],
    [(1, 1), (1, 3)],
    [(1, 0), (1, 3), (2, 3), (1, 3), (1, 1), (0, 1), (2, 1)],
    [(0, 0), (0, 3), (0, 1.4), (2, 1.4), (2, 3)],
    [(2, 0), (2, 3), (0, 3), (0, 1.4), (2, 1.4)],
    [(0, 0), (0, 3), (2, 3), (2, 1.4), (0, 1.4)],
    [(0, 2), (2, 2), (2, 1), (0, 1), (0, 3), (2, 3)],
    [(0, 3), (0, 1), (0, 1.5), (0.7, 1), (1.8, 1)],
    [(2, 1), (0, 1), (0, 2), (2, 2), (2, 3), (0, 3)],
    [(0, 1), (1, 3), (2, 1)],
    [(0, 3), (0, 1), (1.2, 1), (1.2, 3), (1.2, 1), (2.4, 1), (2.4, 3)],
    [(2, 1), (0, 1), (0, 3), (2, 3)],
    [(0, 1), (2, 1), (0, 3), (2, 3)],
]
"""The letters of the made-up writing: one line each through points (x, y) with y from 0 (top) to 3 (foot)."""


def _write_line(
    page: NDArray[np.uint8],
    generator: np.random.Generator,
    *,
    scale: int,
    left: float,
    right: float,
    top: float,
    glyph: float,
    bold: bool,
) -> None:
    """Draw one line of words into ``page``, enlarged by ``scale``."""
    x, letters_left = left, int(generator.integers(2, 9))
    thickness = max(1, round(glyph * scale * (0.17 if bold else 0.11)))
    while x + glyph * 0.7 < right:
        if letters_left == 0:
            x, letters_left = x + 0.45 * glyph, int(generator.integers(2, 10))
            continue
        letter = np.array(_LETTERS[int(generator.integers(len(_LETTERS)))], dtype=np.float64)
        place = letter * [0.19 * glyph, 0.33 * glyph] + [x, top]
        corners = np.rint(place * scale * 8).astype(np.int32)
        cv2.polylines(page, [corners], False, 255, thickness, cv2.LINE_AA, 3)
        x, letters_left = x + (0.19 * letter[:, 0].max() + 0.24) * glyph, letters_left - 1


def siemens_star(shape: tuple[int, int], *, spokes: int = 36) -> Picture:
    """Return a star of black and white spokes around the middle, (h, w), 0..1, anti-aliased; grey where too fine."""
    height, width = shape
    y = np.arange(height, dtype=np.float32)[:, None] - np.float32((height - 1) / 2)
    x = np.arange(width, dtype=np.float32)[None, :] - np.float32((width - 1) / 2)
    distance = np.hypot(x, y) + np.float32(1e-3)
    angle = np.arctan2(y, x) * np.float32(spokes)
    # The slope of the wave in pixels tells how wide the grey edge of a spoke is.
    pixels = distance / np.float32(spokes)
    visible = np.clip(pixels * np.float32(3.5) - np.float32(1.0), 0.0, 1.0)
    star: Picture = 0.5 + 0.5 * np.clip(np.sin(angle) * pixels * 2, -1, 1) * visible
    return star


def line_chart(shape: tuple[int, int], *, coarsest: float, finest: float = 2.0) -> Picture:
    """Return groups of vertical lines, (h, w), 0..1: their period falls from ``coarsest`` to ``finest`` pixels."""
    height, width = shape
    column = (np.arange(width, dtype=np.float32) + 0.5) / np.float32(width)
    period = coarsest * (finest / coarsest) ** column
    phase = np.cumsum(1.0 / period)
    wave = 0.5 + 0.5 * np.clip(np.sin(2 * np.pi * phase) * period / 4, -1, 1)
    chart: Picture = np.repeat(wave[None, :].astype(np.float32), height, axis=0)
    return chart
