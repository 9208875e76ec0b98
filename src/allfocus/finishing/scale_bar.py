"""The scale bar of a microscope's picture: a bar of a round length with its name, drawn in a corner."""

import functools
import math

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.finishing.finish import ScaleBar

Pixels = NDArray[np.float32]

USUAL_SHARE = 0.2
"""Of the width, that a bar takes whose length was not chosen."""
LARGEST_SHARE = 0.9
THICKNESS, LETTERS, MARGIN = 0.012, 0.045, 0.035
"""Of the shorter side of the picture."""


def bar_length(bar: ScaleBar, width: float) -> float:
    """Micrometres that the bar stands for.

    Args:
        bar: With or without a length of its own.
        width: Of the finished picture in pixels of the fused one.

    Raises:
        InputError: the length that was chosen is longer than the picture is wide.

    Example:
        >>> bar_length(ScaleBar(0.5), 1000)
        100.0
    """
    whole = width * bar.pixel_size
    if bar.length is not None:
        if bar.length > LARGEST_SHARE * whole:
            raise InputError(
                f"a scale bar of {name_length(bar.length)} does not fit a picture that shows {name_length(whole)}; "
                "choose a shorter one",
                code="bad-option",
            )
        return bar.length
    power = 10.0 ** math.floor(math.log10(USUAL_SHARE * whole))
    return max(step * power for step in (1, 2, 5) if step * power <= USUAL_SHARE * whole * (1 + 1e-9))


def name_length(micrometres: float) -> str:
    """A length in the unit that suits it; µ stands for the letter mu.

    Example:
        >>> name_length(50), name_length(2000), name_length(0.5), name_length(2e6)
        ('50 µm', '2 mm', '500 nm', '2 m')
    """
    for factor, unit in ((1e6, "m"), (1e3, "mm"), (1.0, "µm")):
        if micrometres >= factor * (1 - 1e-9):
            return f"{micrometres / factor:.4g} {unit}"
    return f"{micrometres * 1e3:.4g} nm"


def draw_bar(
    pixels: Pixels, bar: ScaleBar, *, size: tuple[int, int], scale: float, left: int = 0, top: int = 0
) -> None:
    """Draw the scale bar into a picture or a piece of one, in place.

    Args:
        pixels: ``(H, W)`` or ``(H, W, 3)``, 0..1.
        bar: What to draw.
        size: Width and height of the whole picture.
        scale: Pixels of the whole picture for one of the fused picture.
        left: Where the piece begins in the whole picture.
        top: The same, downwards.
    """
    micrometres = bar_length(bar, size[0] / scale)
    mask, x, y = _bar_mask(micrometres, micrometres / bar.pixel_size * scale, bar.corner, size)
    height, width = pixels.shape[:2]
    x0, y0 = max(x, left), max(y, top)
    x1, y1 = min(x + mask.shape[1], left + width), min(y + mask.shape[0], top + height)
    if x0 >= x1 or y0 >= y1:
        return
    share = mask[y0 - y : y1 - y, x0 - x : x1 - x]
    part = pixels[y0 - top : y1 - top, x0 - left : x1 - left]
    share = share if part.ndim == 2 else share[..., None]
    part += share * (np.float32(bar.colour == "white") - part)


@functools.lru_cache(maxsize=32)
def _bar_mask(micrometres: float, length: float, corner: str, size: tuple[int, int]) -> tuple[Pixels, int, int]:
    """How much of the colour each pixel takes, (H, W), and where in the picture that lies."""
    short = min(size)
    letters = _draw_text(name_length(micrometres), max(8, round(LETTERS * short)))
    thickness, gap, margin = max(1, round(THICKNESS * short)), max(1, round(LETTERS * short / 4)), round(MARGIN * short)
    wide = max(math.ceil(length), letters.shape[1])
    mask = np.zeros((letters.shape[0] + gap + thickness, wide), np.float32)
    start = (wide - letters.shape[1]) // 2
    mask[: letters.shape[0], start : start + letters.shape[1]] = letters
    begin = (wide - length) / 2
    columns = np.arange(wide)
    # The ends of the bar lie between pixels: those there take a share, so that its length is right.
    cover = np.clip(np.minimum(columns + 1, begin + length) - np.maximum(columns, begin), 0, 1)
    mask[-thickness:] = cover.astype(np.float32)
    x = margin if corner.endswith("left") else size[0] - margin - wide
    y = margin if corner.startswith("top") else size[1] - margin - mask.shape[0]
    return mask, x, y


def _draw_text(text: str, height: int) -> Pixels:
    """Letters as (H, W), 0..1. The font that comes with Pillow has no µ: an u gets its stroke here."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(height)
    plain = text.replace("µ", "u")
    box = font.getbbox(plain)
    stroke = max(1, round(height / 10))
    canvas = Image.new("L", (math.ceil(box[2]) + 2, math.ceil(box[3]) + 3 * stroke))
    draw = ImageDraw.Draw(canvas)
    draw.text((0, 0), plain, font=font, fill=255)
    if "µ" in text:
        at = font.getlength(plain[: text.index("µ")]) + font.getbbox("u")[0]
        x, bottom = round(at), math.ceil(font.getbbox("u")[3])
        draw.rectangle((x, bottom - stroke, x + stroke - 1, bottom + 2 * stroke), fill=255)
    return np.asarray(canvas, np.float32)[math.floor(box[1]) :] / np.float32(255)
