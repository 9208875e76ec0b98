"""The scene "slope": one printed page on cloth that recedes across the whole picture; nothing hides anything."""

import numpy as np

from allfocus.scenes import drawing, objects
from allfocus.scenes.layers import Layer, Sprite, Stage
from allfocus.scenes.textures import Picture, fabric, fractal_noise, printed_text, ramp, siemens_star


def build_slope(stage: Stage) -> list[Layer]:
    """Return the one layer of the slope scene."""
    generator = stage.generator(1)
    height, width = stage.shape
    cloth = fabric(
        stage.shape, generator, period=max(3.0, 0.011 * stage.unit), warp=(0.80, 0.30, 0.24), weft=(0.92, 0.74, 0.48)
    )
    page_shape = (round(0.74 * height), round(0.62 * width))
    page = printed_text(page_shape, generator, line_height=max(5.0, 0.026 * stage.unit), columns=2)
    _print_pictures(page, generator)
    sheet = drawing.rotated(Sprite(page, np.ones(page_shape, dtype=np.float32)), 7)
    drawing.paste(cloth, sheet, x=0.47 * width, y=0.5 * height, shadow=0.012 * stage.unit)
    coins = ((0.83, 0.22, (0.86, 0.62, 0.38)), (0.86, 0.50, (0.80, 0.80, 0.80)), (0.82, 0.78, (0.88, 0.78, 0.50)))
    for x, y, metal in coins:
        piece = objects.coin(stage.pixels(0.15, least=8), generator, metal=metal)
        drawing.paste(cloth, piece, x=x * width, y=y * height, shadow=0.012 * stage.unit)
    rows, columns = stage.grid()
    light = (1.05 - 0.18 * rows - 0.12 * columns).astype(np.float32)
    inverse = 1.0 + rows + 0.15 * (columns - 0.5)
    return [stage.fill(cloth * light[..., None], (1.0 / inverse).astype(np.float32))]


def _print_pictures(page: Picture, generator: np.random.Generator) -> None:
    """Print a landscape of noise and a star into the page, in place."""
    height, width = page.shape[0] // 3, round(page.shape[1] * 0.44)
    top, left = round(0.36 * page.shape[0]), round(0.52 * page.shape[1])
    hills = fractal_noise((height, width), generator, cell=(height / 2, width / 2), roughness=0.6)
    rows = np.linspace(1.0, 0.0, height, dtype=np.float32)[:, None]
    colours = [(0.10, 0.22, 0.16), (0.36, 0.50, 0.25), (0.85, 0.75, 0.50), (0.55, 0.72, 0.86), (0.85, 0.92, 0.97)]
    _clear(page, top, left, height, width)
    page[top : top + height, left : left + width] = ramp(rows + 0.16 * hills, colours)
    size = min(height, width) // 2
    star = ramp(siemens_star((size, size), spokes=24), [(0.1, 0.1, 0.12), (0.94, 0.92, 0.86)])
    start = round(0.06 * page.shape[0]), round(0.06 * page.shape[1])
    _clear(page, *start, size, size)
    page[start[0] : start[0] + size, start[1] : start[1] + size] = star


def _clear(page: Picture, top: int, left: int, height: int, width: int) -> None:
    """Leave blank paper under a printed picture and a little around it, in place."""
    rim = max(2, page.shape[1] // 40)
    page[max(0, top - rim) : top + height + rim, max(0, left - rim) : left + width + rim] = (0.94, 0.92, 0.86)
