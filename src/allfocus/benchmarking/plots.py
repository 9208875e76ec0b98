"""Plots of cost as SVG files that stand alone: sharp at any size, readable on light and on dark pages."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from allfocus.benchmarking.summary import ModeSummary

PANEL_WIDTH, PANEL_HEIGHT, LEGEND_WIDTH = 420, 280, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 34, 44
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222; }
.title { font-weight: 600; }
.tick { font-size: 11px; fill: #555; }
.grid { stroke: #ddd; fill: none; }
.number { font-size: 10px; font-weight: 600; fill: #fff; }
.line { fill: none; stroke-width: 2; }
.own { fill: #b4291f; stroke: #b4291f; }
.other { fill: #3a6ea5; stroke: #3a6ea5; }
text.own, text.other { stroke: none; }
path.own, path.other { fill: none; }
.guide { stroke: #999; stroke-dasharray: 4 4; fill: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #eee; } .number { fill: #111; } .tick { fill: #aaa; } .grid { stroke: #444; }
  .own { fill: #ff8a75; stroke: #ff8a75; } .other { fill: #8fbbe8; stroke: #8fbbe8; } .guide { stroke: #777; }
}
"""

Point = tuple[float, float]


def quality_over_cost(rows: Sequence[ModeSummary], titles: Mapping[str, str]) -> str:
    """Return a picture with one panel for each stack: PSNR over CPU seconds, every mode a numbered dot with a legend.

    Args:
        rows: What :func:`allfocus.benchmarking.summary.summarise_modes` returned; modes without numbers, and results
            that equal the truth, have no dot.
        titles: Name of a stack -> what stands above its panel.
    """
    panels = []
    for name, title in titles.items():
        here = [
            _Dot(row.mode, row.peer == "allfocus", row.cpu_seconds, row.quality.psnr)
            for row in rows
            if row.set == name and row.cpu_seconds and row.quality is not None and math.isfinite(row.quality.psnr)
        ]
        if here:
            panels.append(_scatter(title, here))
    return arrange_panels(panels, "Quality over cost", columns=1, width=PANEL_WIDTH + LEGEND_WIDTH)


class _Dot(NamedTuple):
    name: str
    own: bool
    seconds: float
    decibels: float


def _scatter(title: str, dots: Sequence[_Dot]) -> str:
    seconds, decibels = [dot.seconds for dot in dots], [dot.decibels for dot in dots]
    place = _Axes((min(seconds) / 1.5, max(seconds) * 1.5), _padded(decibels), logarithmic_y=False)
    parts = [place.frame(title, "CPU seconds", "PSNR in dB")]
    best_first = sorted(dots, key=lambda dot: -dot.decibels)
    # The best is drawn last, so that no other dot lies on it.
    for number, dot in reversed(list(enumerate(best_first, start=1))):
        x, y = place.x(dot.seconds), place.y(dot.decibels)
        kind = "own" if dot.own else "other"
        line = _TOP + 18 * number - 2
        told = f"{dot.name}: {dot.decibels:.1f} dB, {dot.seconds:.3g} s"
        parts.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="8"><title>{html.escape(told)}</title></circle>'
        )
        parts.append(f'<text class="number" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{number}</text>')
        parts.append(f'<text class="{kind}" x="{PANEL_WIDTH + 6}" y="{line}">{number}  {html.escape(told)}</text>')
    return "".join(parts)


def growth_panel(title: str, across: str, up: str, points: Sequence[Point], *, proportional: bool) -> str:
    """Return one panel with a measured line, both axes logarithmic.

    Args:
        title: Above the panel.
        across: Name of the horizontal axis.
        up: Name of the vertical axis.
        points: Measured.
        proportional: Draw a dashed line of equal cost per unit through the last point, or of no growth.
    """
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    guide = [ys[-1] * x / xs[-1] if proportional else ys[-1] for x in xs]
    heights = [*ys, *guide]
    place = _Axes((min(xs) / 1.2, max(xs) * 1.2), (min(heights) / 1.6, max(heights) * 1.6), logarithmic_y=True)
    line = " ".join(f"{place.x(x):.1f},{place.y(y):.1f}" for x, y in points)
    dashes = " ".join(f"{place.x(x):.1f},{place.y(y):.1f}" for x, y in zip(xs, guide, strict=True))
    dots = "".join(f'<circle class="own" cx="{place.x(x):.1f}" cy="{place.y(y):.1f}" r="4"/>' for x, y in points)
    return (
        place.frame(title, across, up)
        + f'<polyline class="guide" points="{dashes}"/><polyline class="line own" style="fill:none" points="{line}"/>'
        + dots
    )


def arrange_panels(panels: Sequence[str], title: str, *, columns: int = 2, width: int = PANEL_WIDTH) -> str:
    """Return one SVG file with the panels, each of that width, side by side."""
    columns = max(1, min(columns, len(panels)))
    rows = max(1, -(-len(panels) // columns))
    step, height = width, rows * PANEL_HEIGHT
    width = columns * step
    body = "".join(
        f'<g transform="translate({number % columns * step} {number // columns * PANEL_HEIGHT})">{panel}</g>'
        for number, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{html.escape(title)}"><style>{_STYLE}</style>{body}</svg>\n'
    )


class _Axes:
    """Where values lie in a panel; the horizontal axis is logarithmic."""

    def __init__(self, xs: Point, ys: Point, *, logarithmic_y: bool) -> None:
        self._xs, self._ys, self._logarithmic = xs, ys, logarithmic_y

    def x(self, value: float) -> float:
        share = math.log(value / self._xs[0]) / math.log(self._xs[1] / self._xs[0])
        return _LEFT + share * (PANEL_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self._ys
        share = math.log(value / low) / math.log(high / low) if self._logarithmic else (value - low) / (high - low)
        return PANEL_HEIGHT - _BOTTOM - share * (PANEL_HEIGHT - _TOP - _BOTTOM)

    def frame(self, title: str, across: str, up: str) -> str:
        """Return title, names and ticks of the axes."""
        bottom, right = PANEL_HEIGHT - _BOTTOM, PANEL_WIDTH - _RIGHT
        parts = [f'<text class="title" x="{_LEFT}" y="20">{html.escape(title)}</text>']
        for value in log_ticks(*self._xs):
            x = self.x(value)
            parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
            parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{value:g}</text>')
        for value in log_ticks(*self._ys) if self._logarithmic else even_ticks(*self._ys):
            y = self.y(value)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
            parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
        middle = (_TOP + bottom) / 2
        parts.append(f'<text x="{right}" y="{bottom + 34}" text-anchor="end">{html.escape(across)}</text>')
        parts.append(
            f'<text transform="rotate(-90 12 {middle})" x="12" y="{middle}" text-anchor="middle">'
            f"{html.escape(up)}</text>"
        )
        return "".join(parts)


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two values.

    Example:
        >>> log_ticks(0.4, 12)
        [0.5, 1.0, 2.0, 5.0, 10.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    inside = [round(value, 12) for value in values if low <= value <= high]
    # Over many powers of ten, the powers themselves are enough.
    return inside if len(inside) <= 8 else [value for value in inside if math.log10(value).is_integer()]


def even_ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Return round numbers between two values.

    Example:
        >>> even_ticks(27.3, 31.2)
        [28.0, 29.0, 30.0, 31.0]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    first = math.ceil(low / step)
    return [round(number * step, 12) for number in range(first, math.floor(high / step) + 1)]


def _padded(values: Sequence[float]) -> Point:
    margin = 0.12 * (max(values) - min(values)) or 1.0
    return min(values) - margin, max(values) + margin
