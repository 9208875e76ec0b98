"""One stroke of the brush as it is kept: small, and all that is needed to paint it again."""

from dataclasses import dataclass, field

STROKE_MODES = ("replace", "lighten", "darken")
PEN_USES = ("none", "size", "opacity", "both")
LEAST_GAIN, MOST_GAIN = 0.25, 4.0
LEAST_TINT, MOST_TINT = 0.5, 2.0

MOST_WORK = 1_500_000_000
"""Pixels that one stroke may go over, each as often as it does: a few seconds of painting."""
MOST_WORK_OF_ALL = 6_000_000_000
"""The same of all strokes of a job, which are painted again after a crash."""
MOST_STROKES = 5000
MOST_POINTS = 300_000
"""Of all strokes of a job."""


@dataclass
class Stroke:
    """One stroke of the brush, which takes pixels from another layer into the result."""

    id: str
    source: str
    """The layer painted from: frame-ID or method-NAME."""
    points: list[list[float]]
    """[x, y] in pixels of the result; the first pixel reaches from 0 to 1, so its centre is at 0.5."""
    radius: float
    """Pixels; at this distance the stroke ends."""
    hardness: float
    """0..1: the part of the radius within which the source is taken as it is."""
    fault: str | None = None
    """The fault of the result that it mends; None for one drawn by hand."""
    opacity: float = 1.0
    """How much of the source is taken at most, above 0 to 1."""
    mode: str = "replace"
    """"lighten" and "darken" take only pixels that are lighter or darker than what is there."""
    hidden: bool = False
    """Whether it is left out of the picture for now."""
    flow: float = 1.0
    """How much of what is missing each dab along the line adds, above 0 to 1; 1 takes all at once."""
    tolerance: float | None = None
    """How far a colour of the source may be from that under the middle of the brush, above 0 to 1; None takes all."""
    pen: str = "none"
    """What the pressure of the pen changes: "none", "size", "opacity" or "both"."""
    pressures: list[float] = field(default_factory=list)
    """Of the pen at each point, 0..1; empty for a mouse."""
    gain: float = 1.0
    """What the source is multiplied with, so that it is as bright as what is around the stroke."""
    tint: list[float] = field(default_factory=list)
    """What its red, green and blue are multiplied with besides, so that it has the tint of what is around; empty for
    none, and without effect on other pictures than those in colour."""

    def is_sound(self) -> bool:
        """Whether it can be painted: its values are within their ranges and belong together."""
        return (
            0 < self.opacity <= 1
            and self.mode in STROKE_MODES
            and 0 < self.flow <= 1
            and (self.tolerance is None or 0 < self.tolerance <= 1)
            and self.pen in PEN_USES
            and len(self.pressures) in ((0,) if self.pen == "none" else (0, len(self.points)))
            and all(0 <= pressure <= 1 for pressure in self.pressures)
            and LEAST_GAIN <= self.gain <= MOST_GAIN
            and len(self.tint) in (0, 3)
            and all(LEAST_TINT <= factor <= MOST_TINT for factor in self.tint)
        )
