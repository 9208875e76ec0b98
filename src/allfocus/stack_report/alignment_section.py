"""How the frames were brought onto one grid, in plain words and plots."""

import math
from collections.abc import Sequence

import numpy as np

from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.alignment.transforms import Matrix, corner_motion, move_points
from allfocus.pages.html import escape
from allfocus.pages.plots import line_plot

DOUBTFUL = 0.4
"""Confidence below which a frame is marked, as in the warnings of the alignment."""
RELIABLE = 0.8


def alignment_section(alignment: StackAlignment | None, names: Sequence[str]) -> str:
    """The HTML about the alignment of the stack: a sentence, and plots of what was done to each frame."""
    if alignment is None:
        return "<h2>Alignment</h2><p>Switched off: the frames were fused as they are.</p>"
    if not alignment.measured:
        return f"<h2>Alignment</h2><p>Not measured: {escape('; '.join(alignment.warnings))}.</p>"
    plots = [line_plot({"confidence": alignment.confidences}, title="Confidence", ends=(0, 1))]
    if alignment.registered:
        text = "The frames were measured to lie on one grid already; none was moved."
    else:
        motions = np.array([measure_motion(transform, alignment.size) for transform in alignment.transforms])
        farthest = [corner_motion(transform, alignment.size) for transform in alignment.transforms]
        most = int(np.argmax(farthest))
        text = (
            f"Model: {alignment.model}. {names[alignment.reference]} (frame {alignment.reference + 1}) stayed "
            f"as it is. {names[most]} (frame {most + 1}) was moved most, by {farthest[most]:.1f} pixels at a "
            "corner."
        )
        plots = [
            line_plot({"right": motions[:, 0], "down": motions[:, 1]}, title="Shift of the middle, pixels"),
            line_plot({"growth": motions[:, 2] * 100}, title="Growth, %"),
            line_plot({"turn": motions[:, 3]}, title="Turn, degrees clockwise"),
            *plots,
        ]
    gains = np.array([np.mean(gains) for gains in alignment.brightness])
    if np.abs(gains - 1).max() >= 0.0005:
        plots.insert(-1, line_plot({"brightness": (gains - 1) * 100}, title="Brightness matched, %"))
    figures = "".join(f'<figure class="plot">{plot}</figure>' for plot in plots)
    return (
        f'<h2>Alignment</h2><p>{escape(text)}</p><p class="quiet">Across: the frames in order. Up: what was done to '
        f'each.</p><div class="plots">{figures}</div>'
    )


def alignment_lines(alignment: StackAlignment | None, index: int) -> list[str]:
    """What is to be said about one frame, as lines of HTML; none when nothing was measured."""
    if alignment is None or not alignment.measured:
        return []
    confidence = alignment.confidences[index]
    words = "reliable" if confidence >= RELIABLE else "fair" if confidence >= DOUBTFUL else "doubtful"
    kind = ' class="warning"' if confidence < DOUBTFUL else ""
    lines = [f"<span{kind}>alignment {words} ({confidence:.2f})</span>"]
    if not alignment.registered:
        lines.append(describe_motion(alignment.transforms[index], alignment.size))
    gain = float(np.mean(alignment.brightness[index]))
    if abs(gain - 1) >= 0.0005:
        lines.append(f"made {abs(gain - 1) * 100:.1f} % {'brighter' if gain > 1 else 'darker'}")
    return lines


def describe_motion(transform: Matrix, size: tuple[int, int]) -> str:
    """What was done to a frame to bring it onto the grid, in plain words.

    Args:
        transform: 3 x 3, point (x, y, 1) of the frame to the grid.
        size: Height and width of the frame.

    Example:
        >>> describe_motion(np.array([[1.01, 0, 0], [0, 1.01, 0], [0, 0, 1.0]]), (101, 201))
        'moved 1.0 px right and 0.5 px down, enlarged 1.00 %'
        >>> describe_motion(np.eye(3), (101, 201))
        'not moved'
    """
    across, down, growth, turn = measure_motion(transform, size)
    shifts = [
        f"{abs(amount):.1f} px {words[amount > 0]}"
        for amount, words in ((across, ("left", "right")), (down, ("up", "down")))
        if abs(amount) >= 0.05
    ]
    parts = [f"moved {' and '.join(shifts)}"] if shifts else []
    if abs(growth) >= 0.00005:
        parts.append(f"{'enlarged' if growth > 0 else 'made smaller by'} {abs(growth) * 100:.2f} %")
    if abs(turn) >= 0.005:
        parts.append(f"turned {abs(turn):.2f}° {'clockwise' if turn > 0 else 'anticlockwise'}")
    if not parts and corner_motion(transform, size) >= 0.05:
        parts.append(f"bent by up to {corner_motion(transform, size):.1f} px")
    return ", ".join(parts) or "not moved"


def measure_motion(transform: Matrix, size: tuple[int, int]) -> tuple[float, float, float, float]:
    """Shift across and down of the middle of a frame in pixels, growth (0 for none), and turn in degrees, clockwise."""
    height, width = size
    middle = np.array([[(width - 1) / 2, (height - 1) / 2]])
    across, down = (move_points(transform, middle) - middle)[0]
    a, b, c, d = transform[0, 0], transform[0, 1], transform[1, 0], transform[1, 1]
    growth = math.sqrt(max(a * d - b * c, 0.0)) - 1
    return float(across), float(down), float(growth), math.degrees(math.atan2(c - b, a + d))
