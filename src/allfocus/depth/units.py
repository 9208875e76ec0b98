"""From steps between frames to lengths: the distance between two frames as people write it, or as cameras note it."""

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.exif import parse_block
from allfocus.images.tiff_layout import EXIF_DIRECTORY, find_layout

Map = NDArray[np.float32]

METRES = {"nm": 1e-9, "um": 1e-6, "mm": 1e-3, "cm": 1e-2, "m": 1.0, "in": 0.0254}
"""Metres in each unit that can be written."""
SAME = {"µm": "um", "μm": "um", "micron": "um", "microns": "um", "inch": "in"}
"""Other spellings."""
SHORTEST, LONGEST = 1e-12, 1e6
"""Metres: what is beyond is a slip of the pen, and would be no number in a file."""
_LENGTH = re.compile(r"\s*([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([^\d\s]+)\s*")

SUBJECT_DISTANCE = 0x9206
"""Tag of EXIF: the distance that a camera was focused at, in metres."""


@dataclass(frozen=True)
class Length:
    """A number and its unit, as it was written."""

    value: float
    unit: str
    """A key of :data:`METRES`."""

    @property
    def metres(self) -> float:
        """The same in metres."""
        return self.value * METRES[self.unit]

    def __str__(self) -> str:
        return f"{self.value:g}{self.unit}"


def read_length(text: str, *, name: str = "z_step") -> Length:
    """Returns a length above 0 from a number and a unit.

    Args:
        text: For example ``2.5um``, ``0.01 mm`` or ``1e-5m``.
        name: The option that it is given for.

    Raises:
        InputError: there is no number, no unit that is known, or it is not above 0.

    Example:
        >>> read_length("2.5um"), read_length("0.5 µm").metres
        (Length(value=2.5, unit='um'), 5e-07)
    """
    called = name.replace("_", " ")  # as the command line and Python both would say it
    found = _LENGTH.fullmatch(text)
    unit = SAME.get(found[2], found[2]) if found else ""
    if found is None or unit not in METRES:
        raise InputError(
            f"{called}: {text!r} is no length; give a number and one of {', '.join(METRES)}, for example 2.5um",
            code="bad-option",
        )
    length = Length(float(found[1]), unit)
    if not SHORTEST <= length.metres <= LONGEST:
        raise InputError(
            f"{called}: {text!r}; it must be above 0, from a picometre to a thousand kilometres", code="bad-option"
        )
    return length


@dataclass(frozen=True)
class DepthScale:
    """Where each frame is focused, in a unit; what a depth in steps means."""

    places: tuple[float, ...]
    """Of each frame, in the unit, counted from the first."""
    unit: str
    """``step``, or a key of :data:`METRES`."""
    source: str = ""
    """Where the places come from, in words."""

    @classmethod
    def in_steps(cls, frames: int) -> "DepthScale":
        """Depth as the number of the frame."""
        return cls(tuple(float(index) for index in range(frames)), "step")

    @classmethod
    def of_step(cls, step: Length, numbers: Sequence[int]) -> "DepthScale":
        """Frames of a stack that was taken in equal steps.

        Args:
            step: From one frame to the next.
            numbers: Of the frames in that stack; some may have been left out.

        Example:
            >>> DepthScale.of_step(Length(2.5, "um"), [0, 1, 3]).places
            (0.0, 2.5, 7.5)
        """
        places = tuple((number - numbers[0]) * step.value for number in numbers)
        return cls(places, step.unit, f"a step of {step}")

    @property
    def step(self) -> float:
        """The distance between two frames, in the mean."""
        return abs(self.places[-1] - self.places[0]) / max(1, len(self.places) - 1)

    def convert(self, steps: Map) -> Map:
        """Returns a depth in steps in the unit, beyond the ends as between the frames beside them; NaN stays NaN."""
        last = len(self.places) - 1
        inside = np.interp(steps, np.arange(last + 1), self.places)
        if last > 0:
            before, behind = self.places[1] - self.places[0], self.places[last] - self.places[last - 1]
            inside += np.minimum(steps, 0) * before + np.maximum(steps - last, 0) * behind
        return inside.astype(np.float32)

    def convert_error(self, errors: Map, steps: Map) -> Map:
        """Returns standard errors in steps in the unit: where frames are farther apart they are larger."""
        gaps = np.abs(np.diff(np.asarray(self.places, np.float64)))
        below = np.clip(np.nan_to_num(steps).astype(np.int64), 0, max(0, len(gaps) - 1))
        return (errors * (gaps[below] if len(gaps) else 1.0)).astype(np.float32)


def scale_of_exif(blocks: Sequence[bytes | None]) -> DepthScale | None:
    """Returns where frames were focused by their EXIF, in millimetres from the first; None when it does not tell.

    Cameras note the distance coarsely, often in a few dozen steps over their whole range, and some not at all. It
    counts only if every frame has one, and they grow or shrink from frame to frame.

    Args:
        blocks: The EXIF of each frame.
    """
    distances = [_subject_distance(block) for block in blocks]
    known = [value for value in distances if value is not None and math.isfinite(value) and value > 0]
    if len(known) < max(2, len(distances)):
        return None
    ways = np.sign(np.diff(known))
    if abs(int(ways.sum())) != len(ways):
        return None
    places = tuple(1000 * (value - known[0]) for value in known)
    return DepthScale(places, "mm", "the focus distances in EXIF")


def _subject_distance(block: bytes | None) -> float | None:
    """The distance in metres that an EXIF block notes; None for none, unknown (0) and infinite."""
    found = find_layout(block) if block else None
    if block is None or found is None:
        return None
    inner = parse_block(block).children.get(EXIF_DIRECTORY)
    for tag, kind, count, value in inner.entries if inner else []:
        if tag == SUBJECT_DISTANCE and kind == 5 and count == 1 and len(value) == 8:
            above, below = struct.unpack(f"{found[0].order}II", value)
            return None if below == 0 or above in (0, 0xFFFFFFFF) else above / below
    return None
