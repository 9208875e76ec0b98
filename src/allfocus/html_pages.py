"""Pages that need no other file and no network: the frame of a page, tables, and pictures embedded as text.

Reports differ in what they tell; how they look, in light and dark and in narrow windows, is decided here and in
``html_pages.css``. ``html_pages.js`` adds what is pleasant but not needed: a choice of theme, and enlarging pictures.
"""

import base64
import html
import importlib.resources
import math
from collections.abc import Mapping, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.images.image import Image
from allfocus.images.writing import encode_webp, to_integers

Pixels = NDArray[np.float32]
"""(H, W) or (H, W, 3), 0..1."""
Window = tuple[int, int, int, int]
"""Top, left, height, width in pixels."""

LARGEST_SIDE = 640
"""Pixels a side that a picture keeps on a page unless it is asked for larger."""

# Black, violet, orange, light yellow: rises evenly in lightness, so that it also reads in grey.
_HEAT = np.array([[0, 0, 4], [61, 15, 107], [140, 41, 129], [222, 73, 104], [254, 159, 109], [252, 253, 191]]) / 255


# --- the page -------------------------------------------------------------------------------------------------------


def build_page(
    title: str,
    *,
    byline: str,
    links: Mapping[str, str],
    body: str,
    footer: str,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    label: str = "Sections",
) -> str:
    """A whole page as text.

    A picture in ``<button class="frame" data-label="...">`` is enlarged by a click; the arrow keys then go on to the
    next one inside the same element of the class ``scene``.

    Args:
        title: Plain text, also the heading.
        byline: Plain text below the heading.
        links: Name of an element on the page -> plain text of the link to it, for the bar that stays on top.
        body: HTML.
        footer: HTML; can be linked to as ``origin``.
        styles: CSS beside that of all pages.
        scripts: JavaScript beside that of all pages.
        label: What screen readers call the bar of links.

    Example:
        >>> page = build_page("A < B", byline="by hand", links={"origin": "Origin"}, body="<p>hello</p>", footer="")
        >>> "<h1>A &lt; B</h1>" in page, "http" in page
        (True, False)
    """
    items = "".join(f'<li><a href="#{escape(name)}">{escape(text)}</a></li>' for name, text in links.items())
    style = "".join([read_asset("allfocus", "html_pages.css"), *styles])
    script = "\n".join([read_asset("allfocus", "html_pages.js"), *scripts])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header><div class="inner"><h1>{escape(title)}</h1><p class="quiet">{escape(byline)}</p></div></header>
<nav aria-label="{escape(label)}"><ul>{items}
<li class="theme"><button id="theme" type="button" hidden>theme: auto</button></li></ul></nav>
<main>{body}</main>
<footer id="origin">{footer}</footer>
<dialog id="viewer"><img alt=""><p><span></span>
<button type="button" data-step="-1" aria-label="Previous">←</button>
<button type="button" data-step="1" aria-label="Next">→</button>
<button type="button" data-step="close">close</button></p></dialog>
<script>{script}</script>
</body>
</html>
"""


def read_asset(package: str, name: str) -> str:
    """The text of a style sheet or script that is installed beside the code of a package."""
    return (importlib.resources.files(package) / name).read_text(encoding="utf-8")


def escape(text: object) -> str:
    """The text with the characters that mean something in HTML replaced.

    Bytes of a file name that are no text become question marks; a page could not hold them.

    Example:
        >>> escape('A&B <x> "y"')
        'A&amp;B &lt;x&gt; &quot;y&quot;'
    """
    return html.escape(str(text)).encode(errors="replace").decode()


def build_table(header: Sequence[str], rows: Sequence[str], *, kind: str = "", label: str = "") -> str:
    """A table that scrolls by itself where the window is narrow.

    Args:
        header: HTML of each column's title.
        rows: HTML of each row, ``<tr>`` included.
        kind: Class of the table.
        label: What screen readers call it; plain text.
    """
    head = "".join(f'<th scope="col">{title}</th>' for title in header)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def build_list(entries: Mapping[str, object]) -> str:
    """Names and what they stand for, both plain text, as a list of two columns.

    Example:
        >>> build_list({"method": "ips"})
        '<dl><dt>method</dt><dd>ips</dd></dl>'
    """
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in entries.items())}</dl>"


# --- pictures -------------------------------------------------------------------------------------------------------


def data_address(picture: Pixels, *, quality: int) -> str:
    """The picture as WebP in an address that a page can hold, so that it needs no other file.

    Example:
        >>> data_address(np.zeros((4, 4, 3), np.float32), quality=80)[:23]
        'data:image/webp;base64,'
    """
    image = Image(in_colour(picture))
    data = encode_webp(to_integers(image.pixels, 8), image, quality)
    return "data:image/webp;base64," + base64.b64encode(data).decode("ascii")


def draw_windows(windows: Sequence[Window], size: tuple[int, int]) -> str:
    """Outlines of parts of a picture, to be put behind its ``<img>`` in an element of the class ``frame``.

    Args:
        windows: In pixels of the picture.
        size: Height and width of the picture.
    """
    height, width = size
    return "".join(
        f'<i class="window" style="top:{100 * top / height:.2f}%;left:{100 * left / width:.2f}%;'
        f'height:{100 * tall / height:.2f}%;width:{100 * wide / width:.2f}%"></i>'
        for top, left, tall, wide in windows
    )


def shrink(picture: Pixels, largest_side: int = LARGEST_SIDE) -> Pixels:
    """The picture with no side above a limit; smaller ones are returned as they are."""
    height, width = picture.shape[:2]
    scale = largest_side / max(height, width)
    if scale >= 1:
        return picture
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.float32)


def crop(picture: Pixels, window: Window) -> Pixels:
    """The part of a picture in a window."""
    top, left, height, width = window
    return picture[top : top + height, left : left + width]


def difference_map(picture: Pixels, against: Pixels) -> NDArray[np.float32]:
    """How far each pixel is from another picture: (H, W), the mean over the channels, 0..1."""
    first, second = in_colour(picture), in_colour(against)
    difference: NDArray[np.float32] = np.abs(first - second).mean(axis=2).astype(np.float32)
    return difference


def common_scale(differences: Sequence[NDArray[np.float32]]) -> float:
    """The difference shown brightest: one for all maps, so that they compare; not so small that noise glows."""
    if not differences:
        return 1.0
    typical = float(np.median([np.percentile(difference, 99.5) for difference in differences]))
    return max(typical, 6 / 255)


def heat_picture(values: NDArray[np.float32], *, largest: float) -> Pixels:
    """Values as colours from black (0) over violet and orange to light yellow (``largest`` and above)."""
    positions = np.linspace(0, 1, len(_HEAT))
    scaled = np.clip(values / largest, 0, 1)
    return np.stack([np.interp(scaled, positions, _HEAT[:, channel]) for channel in range(3)], axis=2).astype(
        np.float32
    )


def in_colour(picture: Pixels) -> Pixels:
    """The picture (H, W, 3); one of one channel is repeated."""
    return picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)


# --- plots ----------------------------------------------------------------------------------------------------------


def nice_ticks(low: float, high: float, *, most: int = 4) -> list[float]:
    """Round numbers between two ends, a few of them.

    Example:
        >>> nice_ticks(0.83, 1.22)
        [0.9, 1.0, 1.1, 1.2]
    """
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if (high - low) / (factor * power) <= most)
    first = math.ceil(low / step)
    return [round(number * step, 12) for number in range(first, math.floor(high / step) + 1)]


def line_plot(
    series: Mapping[str, Sequence[float] | NDArray[np.float64]],
    *,
    title: str,
    ends: tuple[float, float] | None = None,
) -> str:
    """One or two numbers along a stack as SVG text: a dot for each frame, joined by lines.

    Args:
        series: Name -> one number a frame; two at most.
        title: Plain text above the plot, also what screen readers say.
        ends: Of the axis; by default those of the numbers, with 0 inside.

    Example:
        >>> line_plot({"growth": [0.0, 1.5, 3.0]}, title="Growth, %").count("<circle")
        3
    """
    width, height, left, top, bottom = 360, 150, 44, 8, 126
    values = np.array([list(map(float, own)) for own in series.values()])
    low, high = ends or (min(0.0, float(values.min())), max(0.0, float(values.max())))
    if not high > low:
        low, high = -1.0, 1.0
    margin = 0.0 if ends else 0.06 * (high - low)
    low, high = low - margin, high + margin
    count = values.shape[1]
    across = np.linspace(left + 8, width - 8, count) if count > 1 else np.array([(left + width) / 2])

    def up(value: float) -> float:
        return round(bottom - (value - low) / (high - low) * (bottom - top), 1)

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">']
    for tick in nice_ticks(low, high, most=5):
        kind = "axis" if tick == 0 else "grid"
        parts.append(f'<path class="{kind}" d="M{left} {up(tick)}H{width}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{up(tick) + 4}" text-anchor="end">{tick:.6g}</text>')
    for number in sorted({round(place) for place in np.linspace(1, count, min(count, 8))}):
        x = across[number - 1]
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 8}" text-anchor="middle">{number}</text>')
    for order, (name, own) in enumerate(zip(series, values, strict=True)):
        points = [(f"{x:.1f}", up(value)) for x, value in zip(across, own, strict=True)]
        line = "L".join(f"{x} {y}" for x, y in points)
        parts.append(f'<path class="line series-{order}" d="M{line}"/>')
        parts += [
            f'<circle class="series-{order}" cx="{x}" cy="{y}" r="2.6"><title>{number}: {escape(name)} {value:.4g}'
            "</title></circle>"
            for number, ((x, y), value) in enumerate(zip(points, own, strict=True), start=1)
        ]
    names = "".join(f' <span class="series series-{order}">{escape(name)}</span>' for order, name in enumerate(series))
    return f"<h4>{escape(title)}{names if len(series) > 1 else ''}</h4>" + "".join(parts) + "</svg>"
