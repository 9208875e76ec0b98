"""Small plots as SVG text, which follow the theme of the page they are on."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.pages.html import escape


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
