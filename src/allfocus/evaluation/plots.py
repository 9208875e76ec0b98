"""Plots as SVG text: small, sharp at any size, coloured by the style sheet of the page they are put into."""

import html
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.pages.plots import nice_ticks

WIDTH = 360
"""Of a plot, in SVG units; about the pixels it is shown at."""
LABELS = 116
"""Room for the names of the methods."""
ROW = 20
"""Height of one method."""


def strip_plot(
    values: Mapping[str, NDArray[np.float64]],
    *,
    pictures: Sequence[str],
    intervals: Mapping[str, tuple[float, float]],
    digits: int,
    title: str,
) -> str:
    """One line a method: a dot for each picture, a tick for the mean, a bar for its interval.

    Args:
        values: Method -> one number a picture; the first method is emphasised.
        pictures: Their names, shown when the pointer rests on a dot.
        intervals: Method -> ends of the interval of the mean.
        digits: Decimals in the labels.
        title: What screen readers say.
    """
    low, high = plot_range(values)

    def place(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(LABELS + share * (WIDTH - LABELS - 10), 1)

    height = ROW * len(values) + 26
    parts = [_open(height, title)]
    for tick in nice_ticks(low, high):
        x = place(tick)
        parts.append(f'<path class="grid" d="M{x} 4V{height - 20}"/>')
        parts.append(f'<text class="tick" x="{x}" y="{height - 6}" text-anchor="middle">{_short(tick)}</text>')
    for row, (method, series) in enumerate(values.items()):
        y = 4 + ROW * row + ROW / 2
        kind = "own" if row == 0 else "other"
        name = html.escape(method)
        parts.append(f'<g class="{kind}"><text class="name" x="0" y="{y + 4}">{_fit(name)}</text>')
        for number, value in enumerate(series):
            label = f"{html.escape(pictures[number])}: {name} {value:.{digits}f}"
            # Spread a little, always in the same way, so that equal values do not hide each other.
            lift = ((number * 7) % 5 - 2) * 1.4
            outside = "" if low <= value <= high else ' class="outside"'
            parts.append(
                f'<circle{outside} data-picture="{number}" cx="{place(float(value))}" cy="{y + lift:.1f}" r="2.4">'
                f"<title>{label}</title></circle>"
            )
        ends = intervals[method]
        if all(math.isfinite(end) for end in ends):
            parts.append(f'<path class="interval" d="M{place(ends[0])} {y}H{place(ends[1])}"/>')
        mean = float(series.mean())
        if low <= mean <= high:
            parts.append(f'<path class="mean" d="M{place(mean)} {y - 6}V{y + 6}"/>')
        parts.append("</g>")
    return "".join(parts) + "</svg>"


def plot_range(values: Mapping[str, NDArray[np.float64]]) -> tuple[float, float]:
    """The ends of the axis: those of all values, but without a method that alone would more than double its length.

    A method that is far off (the average, on sharpness) would press all the others into a corner.

    Example:
        >>> series = {"a": np.array([5.0, 6.0]), "b": np.array([5.5, 6.5]), "c": np.array([0.0, 1.0])}
        >>> low, high = plot_range(series)
        >>> 4 < low < 5 and 6.5 < high < 7
        True
    """
    finite = [series[np.isfinite(series)] for series in values.values()]
    finite = [series for series in finite if len(series)] or [np.array([0.0, 1.0])]

    def ends(chosen: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
        return min(float(series.min()) for series in chosen), max(float(series.max()) for series in chosen)

    low, high = ends(finite)
    if len(finite) > 2:
        without = [ends(finite[:number] + finite[number + 1 :]) for number in range(len(finite))]
        shortest = min(without, key=lambda pair: pair[1] - pair[0])
        if 0 < shortest[1] - shortest[0] < (high - low) / 2:
            low, high = shortest
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def difference_plot(differences: NDArray[np.float64], *, pictures: Sequence[str], digits: int, title: str) -> str:
    """One bar a picture, sorted: upwards where the first method is better, downwards where the rival is.

    Args:
        differences: One number a picture, positive where the first method is better.
        pictures: Their names.
        digits: Decimals in the labels.
        title: What screen readers say.
    """
    height, middle = 84, 42
    finite = np.where(np.isfinite(differences), differences, 0.0)
    largest = float(np.abs(finite).max()) or 1.0
    order = np.argsort(finite)[::-1]
    step = WIDTH / max(len(order), 1)
    thickness = min(step * 0.75, 22)
    parts = [_open(height, title), f'<path class="axis" d="M0 {middle}H{WIDTH}"/>']
    for column, number in enumerate(order):
        value = float(finite[number])
        length = round(abs(value) / largest * (middle - 4), 1)
        kind = "win" if value > 0 else "loss"
        top = middle - length if value > 0 else middle
        label = f"{html.escape(pictures[number])}: {value:+.{digits}f}"
        parts.append(
            f'<rect class="{kind}" data-picture="{number}" x="{column * step + (step - thickness) / 2:.1f}" '
            f'y="{top}" width="{thickness:.1f}" height="{max(length, 0.8)}"><title>{label}</title></rect>'
        )
    return "".join(parts) + "</svg>"


def _open(height: float, title: str) -> str:
    name = html.escape(title)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{name}">'


def _short(value: float) -> str:
    return f"{value:.6g}"


def _fit(name: str) -> str:
    return name if len(name) <= 17 else name[:16] + "…"
