"""What a file of a microscope says about its planes: how many along which axis, how large, in which colours.

Lengths are in micrometres and times in seconds, whatever unit the file has; what it does not say is None or empty.
"""

import math
import re
from dataclasses import asdict, dataclass
from typing import Any

from allfocus.errors import InputError

MICROMETRES = {
    "angstrom": 1e-4,
    "nanometer": 1e-3,
    "micrometer": 1.0,
    "millimeter": 1e3,
    "centimeter": 1e4,
    "meter": 1e6,
    "inch": 25_400.0,
}
"""Units of length, as OME-Zarr spells them, in micrometres."""
SHORT_LENGTHS = {
    "um": "micrometer",
    "micron": "micrometer",
    "microns": "micrometer",
    "micrometre": "micrometer",
    "nm": "nanometer",
    "nanometre": "nanometer",
    "mm": "millimeter",
    "millimetre": "millimeter",
    "cm": "centimeter",
    "centimetre": "centimeter",
    "m": "meter",
    "metre": "meter",
    "a": "angstrom",
    "\N{ANGSTROM SIGN}": "angstrom",
    "\N{LATIN CAPITAL LETTER A WITH RING ABOVE}": "angstrom",
    "in": "inch",
}
"""Other spellings of them: those of OME-XML and ImageJ."""
SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "millisecond": 1e-3,
    "microsecond": 1e-6,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "day": 86_400.0,
    "d": 86_400.0,
}
"""Units of time, in seconds."""


LEAST_SAID, MOST_SAID = 1e-6, 1e12
"""Micrometres, or seconds: a picometre to a thousand kilometres. What is beyond was never measured."""

LONGEST_NUMBER = 12
"""Digits of the number of a plane."""

EVERY, EACH = "all", "each"
"""By which channels is decided: by all of them together, or each by itself."""


@dataclass(frozen=True)
class Channel:
    """One colour of light that was recorded."""

    name: str
    """As the file calls it, or its number from 1."""
    colour: str = ""
    """``#rrggbb`` in which it is shown; empty where the file does not say."""
    excitation: float | None = None
    """Wavelength in nanometres."""
    emission: float | None = None
    """Wavelength in nanometres."""
    fluor: str = ""
    """The dye."""


@dataclass(frozen=True)
class ObjectiveLens:
    """The lens of the microscope."""

    model: str = ""
    manufacturer: str = ""
    magnification: float | None = None
    aperture: float | None = None
    """Numerical aperture."""
    immersion: str = ""


@dataclass(frozen=True)
class Dimensions:
    """What one position of a file holds.

    Example:
        >>> held = Dimensions("A1", (512, 640), "uint16", planes=20, channels=(Channel("DAPI"), Channel("GFP")))
        >>> held.count, held.channel_number("gfp")
        (40, 1)
    """

    name: str
    """Of the position."""
    size: tuple[int, int]
    """Height and width in pixels."""
    dtype: str
    """Of the samples, as NumPy spells it."""
    planes: int = 1
    """Along z."""
    times: int = 1
    channels: tuple[Channel, ...] = (Channel("1"),)
    samples: int = 1
    """3 where each plane is a colour picture; 1 for grey."""
    pixel_size: tuple[float, float] | None = None
    """Height and width of a pixel in micrometres."""
    z_step: float | None = None
    """Between two planes, in micrometres."""
    z_range: tuple[float, float] | None = None
    """Where the stage stood at the first and the last plane, in micrometres."""
    time_step: float | None = None
    """Between two points in time, in seconds."""
    acquired: str = ""
    """When it was recorded, as ISO 8601 has it."""
    objective: ObjectiveLens | None = None

    def __post_init__(self) -> None:
        """Lengths and times that nothing can have are not said; whoever writes or shows them need not ask."""
        for name in ("pixel_size", "z_step", "time_step"):
            value = getattr(self, name)
            numbers = value if isinstance(value, tuple) else (value,)
            if value is not None and not all(LEAST_SAID <= number <= MOST_SAID for number in numbers):
                object.__setattr__(self, name, None)
        if self.z_range is not None and not all(abs(place) <= MOST_SAID for place in self.z_range):
            object.__setattr__(self, "z_range", None)

    @property
    def count(self) -> int:
        """Planes of all channels and times."""
        return self.planes * self.times * len(self.channels)

    @property
    def is_calibrated(self) -> bool:
        """Whether the size of a pixel is known."""
        return self.pixel_size is not None

    def channel_number(self, asked: str) -> int:
        """Which channel is meant, from 0: by its name, without regard to case, or by its number from 1.

        Raises:
            InputError: there is none, or several are called so.
        """
        names = [channel.name.casefold() for channel in self.channels]
        found = [number for number, name in enumerate(names) if name == asked.strip().casefold()]
        if not found and 1 <= (whole_number(asked) or 0) <= len(names):
            found = [int(asked) - 1]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(f"{number} {channel.name}" for number, channel in enumerate(self.channels, start=1))
        problem = f"{len(found)} channels are called {asked}" if found else f"there is no channel {asked}"
        raise InputError(f"{problem}; there are {listed}", code="no-such-plane")

    def choose_channels(self, asked: str | None) -> list[int]:
        """Which channels are meant, from 0, in their own order: names or numbers with commas; None for all.

        Raises:
            InputError: there is none of that name.
        """
        if asked is None:
            return list(range(len(self.channels)))
        whole = [number for number, channel in enumerate(self.channels) if channel.name.casefold() == asked.casefold()]
        if len(whole) == 1:  # a name may have a comma in it
            return whole
        found = {self.channel_number(word) for word in asked.split(",") if word.strip()}
        if not found:
            raise InputError("no channel is named; give names or numbers", code="bad-option")
        return sorted(found)

    def to_plain(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        content = asdict(self)
        height, width = content.pop("size")
        return {**content, "width": width, "height": height}


def in_micrometres(unit: str) -> float | None:
    r"""How many micrometres a unit of length is, however it is spelt; None for what is none.

    Example:
        >>> in_micrometres("\\u00B5m"), in_micrometres("nanometer"), in_micrometres("pixel")
        (1.0, 0.001, None)
    """
    # ImageJ writes the micro sign as an escape.
    name = unit.strip().replace("\\u00B5", "u").replace("\N{MICRO SIGN}", "u").replace("\N{GREEK SMALL LETTER MU}", "u")
    return MICROMETRES.get(SHORT_LENGTHS.get(name.lower(), name.lower()))


def in_seconds(unit: str) -> float | None:
    """How many seconds a unit of time is; None for what is none.

    Example:
        >>> in_seconds("ms"), in_seconds("furlong")
        (0.001, None)
    """
    name = unit.strip().replace("\N{MICRO SIGN}", "u").lower()
    return SECONDS.get(name, SECONDS.get(name.removesuffix("s")))


def positive(value: object) -> float | None:
    """A number above zero, of a number or a text; None for anything else.

    Example:
        >>> positive("0.25"), positive("-1"), positive("nan"), positive(None)
        (0.25, None, None, None)
    """
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None


def whole_number(text: str) -> int | None:
    """The number that a text of digits is; None for anything else, and for more digits than anybody counts to.

    Example:
        >>> whole_number(" 12 "), whole_number("-1"), whole_number("9" * 5000)
        (12, None, None)
    """
    digits = text.strip()
    return int(digits) if digits.isdecimal() and len(digits) <= LONGEST_NUMBER else None


def plain_colour(text: str) -> str:
    """A colour as ``#rrggbb``, of six hexadecimal digits with or without a mark; empty for anything else.

    Example:
        >>> plain_colour("00FF00"), plain_colour("#00ff00"), plain_colour("green")
        ('#00ff00', '#00ff00', '')
    """
    found = re.fullmatch(r"#?([0-9a-fA-F]{6})(?:[0-9a-fA-F]{2})?", text.strip())
    return f"#{found[1].lower()}" if found else ""


def name_channels(names: list[str], count: int) -> list[str]:
    """A name for each of so many channels: as given, and its number from 1 where that is empty or missing.

    Example:
        >>> name_channels(["DAPI", ""], 3)
        ['DAPI', '2', '3']
    """
    given = [" ".join(name.split())[:200] for name in names[:count]]
    return [name or str(number) for number, name in enumerate([*given, *[""] * (count - len(given))], start=1)]
