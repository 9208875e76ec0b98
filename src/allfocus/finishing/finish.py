"""What is done to a fused picture before it leaves: one record of plain numbers, which can be changed at any time.

The record says what is wanted, and nothing of the picture is changed by it; :mod:`.rendering` applies it. Coordinates
are pixels of the fused picture, whose first pixel reaches from 0 to 1.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from allfocus.errors import InputError
from allfocus.finishing.curves import Curves, curves_from_json

RANGES: dict[str, tuple[float, float]] = {
    "exposure": (-5.0, 5.0),
    "temperature": (-100.0, 100.0),
    "tint": (-100.0, 100.0),
    "black": (0.0, 1.0),
    "white": (0.0, 1.0),
    "gamma": (0.1, 10.0),
    "contrast": (-100.0, 100.0),
    "angle": (-45.0, 45.0),
}
"""The least and the most that each number may be."""

NARROWEST_LEVELS = 0.0002
"""The least distance between the black and the white point."""

MOST_SPOTS = 200
SMALLEST_SPOT, LARGEST_SPOT = 1.0, 300.0
"""Radius in pixels."""
MOST_HEALED = 4_000_000
"""Pixels in the squares around all spots: a few seconds of work."""
LARGEST_PLACE = 1_000_000
CORNERS = ("bottom-right", "bottom-left", "top-right", "top-left")
COLOURS = ("white", "black")
PIXEL_SIZES = (1e-6, 1e6)
BAR_LENGTHS = (1e-6, 1e9)
"""Micrometres."""


def require_number(name: str, value: object, least: float, most: float, *, whole: bool = False) -> None:
    """Refuse what is no number within its limits.

    Raises:
        InputError: it is none.
    """
    kinds = int if whole else int | float
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        shown = "a huge number" if isinstance(value, int) and abs(value) > 10**20 else repr(value)[:100]
        raise InputError(f"{name} is {kind} from {least:g} to {most:g}; found {shown}", code="bad-option")


@dataclass(frozen=True)
class Spot:
    """A round place that is healed from its surroundings."""

    x: float
    y: float
    radius: float

    def __post_init__(self) -> None:
        require_number("x of a spot", self.x, 0, LARGEST_PLACE)
        require_number("y of a spot", self.y, 0, LARGEST_PLACE)
        require_number("radius of a spot", self.radius, SMALLEST_SPOT, LARGEST_SPOT)


@dataclass(frozen=True)
class Crop:
    """The part that is kept: an upright rectangle, which is turned about its middle by the angle of the finish."""

    left: int
    top: int
    width: int
    height: int

    def __post_init__(self) -> None:
        for name in ("left", "top", "width", "height"):
            least = 0 if name in ("left", "top") else 1
            require_number(f"{name} of the crop", getattr(self, name), least, LARGEST_PLACE, whole=True)


@dataclass(frozen=True)
class ScaleBar:
    """A bar of a known length in a corner of the picture."""

    pixel_size: float
    """Micrometres from one pixel of the fused picture to the next."""
    length: float | None = None
    """Micrometres; None takes a round number that is about a fifth of the width."""
    corner: str = "bottom-right"
    colour: str = "white"

    def __post_init__(self) -> None:
        require_number("pixel_size", self.pixel_size, *PIXEL_SIZES)
        if self.length is not None:
            require_number("length of the scale bar", self.length, *BAR_LENGTHS)
        if self.corner not in CORNERS or self.colour not in COLOURS:
            raise InputError(
                f"a scale bar is {' or '.join(COLOURS)} and at {', '.join(CORNERS)}; "
                f"found {repr(self.colour)[:50]} at {repr(self.corner)[:50]}",
                code="bad-option",
            )


@dataclass(frozen=True)
class Finish:
    """All that is done to a picture; the default does nothing.

    Raises:
        InputError: a value is outside its range.

    Example:
        >>> Finish().is_neutral, Finish(exposure=0.5).is_neutral
        (True, False)
        >>> finish_from_json(Finish(crop=Crop(0, 0, 9, 4)).to_json()).crop
        Crop(left=0, top=0, width=9, height=4)
    """

    exposure: float = 0.0
    """Stops; 1 doubles the light."""
    temperature: float = 0.0
    """-100 (blue) to 100 (amber): at the ends red has twice the light and blue half of it, or the other way round."""
    tint: float = 0.0
    """-100 (green) to 100 (magenta)."""
    black: float = 0.0
    """The stored value that becomes black."""
    white: float = 1.0
    """The stored value that becomes white."""
    gamma: float = 1.0
    """Of the levels: above 1 brightens the middle, and leaves black and white."""
    contrast: float = 0.0
    """-100 to 100, about the middle; black and white stay."""
    curves: Curves = field(default_factory=Curves)
    """Free curves, after everything else that changes tones."""
    turns: int = 0
    """Quarter turns to the right, 0 to 3, after everything else."""
    angle: float = 0.0
    """Degrees by which the picture is turned to the right, to straighten it."""
    crop: Crop | None = None
    """None keeps everything, or with an angle the largest part of the same shape that is full."""
    spots: tuple[Spot, ...] = ()
    scale_bar: ScaleBar | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            require_number(name, getattr(self, name), least, most)
        if self.white - self.black < NARROWEST_LEVELS:
            raise InputError(
                f"black must lie below white by {NARROWEST_LEVELS} or more; found {self.black:g} and {self.white:g}",
                code="bad-option",
            )
        require_number("turns", self.turns, 0, 3, whole=True)
        self._require_parts()
        if len(self.spots) > MOST_SPOTS:
            raise InputError(f"at most {MOST_SPOTS} spots are healed; found {len(self.spots)}", code="bad-option")
        if sum((2 * spot.radius) ** 2 for spot in self.spots) > MOST_HEALED:
            raise InputError(
                f"the spots cover more than {MOST_HEALED} pixels; paint large places with the brush", code="bad-option"
            )

    def _require_parts(self) -> None:
        kinds = ((self.crop, Crop, "crop"), (self.scale_bar, ScaleBar, "scale_bar"))
        for part, kind, name in kinds:
            if part is not None and not isinstance(part, kind):
                raise InputError(f"{name} is a {kind.__name__}; found a {type(part).__name__}", code="bad-option")
        if not isinstance(self.spots, tuple) or not all(isinstance(spot, Spot) for spot in self.spots):
            raise InputError("spots are a tuple of Spot", code="bad-option")

    @property
    def is_neutral(self) -> bool:
        """Whether it does nothing."""
        return self == Finish()

    @property
    def balances(self) -> bool:
        """Whether colours are multiplied in linear light."""
        return (self.exposure, self.temperature, self.tint) != (0, 0, 0)

    @property
    def has_tones(self) -> bool:
        """Whether values of pixels change, besides healing."""
        levels = (self.black, self.white, self.gamma, self.contrast)
        return self.balances or levels != (0, 1, 1, 0) or not self.curves.is_neutral

    def to_json(self) -> dict[str, Any]:
        """As plain values; :func:`finish_from_json` takes them."""
        curves = {name: [list(point) for point in points] for name, points in asdict(self.curves).items()}
        return {**asdict(self), "curves": curves, "spots": [asdict(spot) for spot in self.spots]}

    def describe(self) -> str:
        """What was done, in a few words, for the history of a file; empty when nothing was.

        Example:
            >>> Finish(exposure=0.5, turns=1, spots=(Spot(3, 4, 5),)).describe()
            'exposure 0.5, turns 1, spots 1'
        """
        usual, words = Finish(), []
        for name in (each.name for each in fields(self)):
            value = getattr(self, name)
            if value == getattr(usual, name):
                continue
            if isinstance(value, Crop):
                value = f"{value.width}x{value.height}"
            elif isinstance(value, Curves):
                value = "of " + " and ".join(own for own, points in asdict(value).items() if points)
            elif isinstance(value, ScaleBar):
                value = f"{value.pixel_size:g} um per pixel"
            words.append(f"{name.replace('_', ' ')} {len(value) if isinstance(value, tuple) else value}")
        return ", ".join(words)


def finish_from_json(content: Mapping[str, Any]) -> Finish:
    """The finish that :meth:`Finish.to_json` described.

    Raises:
        InputError: it is not such a description, or a value is outside its range.
    """
    if not isinstance(content, Mapping):
        raise InputError(f"this describes no finish, but is a {type(content).__name__}", code="bad-option")
    try:
        values = dict(content)
        if values.get("crop") is not None:
            values["crop"] = Crop(**values["crop"])
        if values.get("scale_bar") is not None:
            values["scale_bar"] = ScaleBar(**values["scale_bar"])
        values["curves"] = curves_from_json(values.get("curves") or {})
        values["spots"] = tuple(Spot(**spot) for spot in values.get("spots", ()))
        return Finish(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"this describes no finish ({error})", code="bad-option") from error
