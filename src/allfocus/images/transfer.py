"""Transfer curves: from the values that a file stores to linear light and back, as its colour profile says.

Light adds up; stored values do not, because they follow a curve that is steep in the dark. Where two frames are mixed,
the mixture is right only in linear light. The curve is known when the file carries an ICC profile with tone curves
(the tags rTRC, gTRC, bTRC or kTRC, of type ``curv`` or ``para``: ICC.1:2022, 10.6 and 10.18), or when its EXIF says
sRGB. It is never guessed.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from allfocus.images.exif import COLOUR_SPACE, parse_block
from allfocus.images.tiff_directories import read_numbers
from allfocus.images.tiff_layout import EXIF_DIRECTORY, find_layout

Values = NDArray[np.float32]

SMALLEST_SLOPE = 1 / 64
"""Tables with 16-bit entries are flat near black, where they could not be turned round; they are made this steep
there. (Colour management limits the slope too; no eye can tell.)"""

LARGEST_TABLE = 65536
FARTHEST_END, FARTHEST_BACK = 0.1, 0.02
"""How far the light of black and of white may be from 0 and 1, and a value from what comes back for it."""
SAMPLES = 4096
"""Entries of the table that stands for a formula that cannot be turned round."""


class ToneCurve(Protocol):
    """The curve of one channel; both directions take and give values in 0..1."""

    def to_linear(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Linear light of stored values."""
        ...

    def from_linear(self, light: NDArray[np.float32]) -> NDArray[np.float32]:
        """Stored values of linear light."""
        ...


@dataclass(frozen=True)
class FormulaCurve:
    """(scale x + offset) ^ exponent + lift from ``start`` on, and slope x + base below it: the ``para`` curves of ICC.

    Example:
        >>> stored = np.array([0.0, 0.5, 1.0], np.float32)
        >>> SRGB.to_linear(stored).round(3).tolist()
        [0.0, 0.21400000154972076, 1.0]
    """

    exponent: float
    scale: float = 1.0
    offset: float = 0.0
    slope: float = 1.0
    start: float = 0.0
    lift: float = 0.0
    base: float = 0.0

    def to_linear(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Linear light of stored values."""
        held = np.clip(values, 0, 1)
        power = np.power(np.maximum(self.scale * held + self.offset, 0), self.exponent) + self.lift
        if self.start > 0:
            power = np.where(held >= self.start, power, self.slope * held + self.base)
        return np.asarray(power, np.float32)

    def from_linear(self, light: NDArray[np.float32]) -> NDArray[np.float32]:
        """Stored values of linear light."""
        root = (np.power(np.maximum(light - self.lift, 0), 1 / self.exponent) - self.offset) / self.scale
        if self.start > 0:
            # Decided by the straight part, so that a curve with a small step at the start is turned round all the same.
            straight = (light - self.base) / self.slope
            root = np.where(straight < self.start, straight, root)
        return np.asarray(np.clip(root, 0, 1), np.float32)


@dataclass(frozen=True, eq=False)
class TableCurve:
    """A curve through evenly spaced entries, straight between them."""

    entries: NDArray[np.float64]
    """(N,) light, strictly rising from 0 to 1."""

    def to_linear(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Linear light of stored values."""
        return np.asarray(np.interp(values, self._places, self.entries), np.float32)

    def from_linear(self, light: NDArray[np.float32]) -> NDArray[np.float32]:
        """Stored values of linear light."""
        return np.asarray(np.interp(light, self.entries, self._places), np.float32)

    @property
    def _places(self) -> NDArray[np.float64]:
        return np.linspace(0, 1, len(self.entries))


SRGB = FormulaCurve(2.4, scale=1 / 1.055, offset=0.055 / 1.055, slope=1 / 12.92, start=0.04045)
"""IEC 61966-2-1."""


@dataclass(frozen=True)
class Curve:
    """The transfer curve of a picture: what :func:`allfocus.fuse` takes as ``curve``.

    Example:
        >>> picture = np.full((1, 1, 3), 0.5, np.float32)
        >>> light = Curve((SRGB,)).to_linear(picture)
        >>> bool(np.allclose(Curve((SRGB,)).from_linear(light), picture))
        True
    """

    channels: tuple[ToneCurve, ...]
    """One curve for all channels, or one for each of three."""

    def to_linear(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        """Linear light of a picture (..., 3) or of one channel, of any shape, 0..1."""
        return self._apply(pixels, [channel.to_linear for channel in self.channels])

    def from_linear(self, light: NDArray[np.float32]) -> NDArray[np.float32]:
        """The picture that has this linear light; the inverse of :meth:`to_linear`."""
        return self._apply(light, [channel.from_linear for channel in self.channels])

    @property
    def is_linear(self) -> bool:
        """True when stored values are linear light already."""
        return all(isinstance(channel, FormulaCurve) and channel == FormulaCurve(1.0) for channel in self.channels)

    def _apply(self, values: Values, functions: list[Callable[[Values], Values]]) -> Values:
        if len(functions) == 1:
            return functions[0](values)
        return np.stack([function(values[..., place]) for place, function in enumerate(functions)], axis=-1)


def find_curve(icc_profile: bytes | None, exif: bytes | None, *, channels: int = 3) -> Curve | None:
    """The transfer curve of a picture by its profile, else by its EXIF; None when neither tells.

    A profile that is damaged, or that has look-up tables in place of tone curves, tells nothing.

    Args:
        icc_profile: As in ``Image.icc_profile``.
        exif: As in ``Image.exif``.
        channels: 3 for colour, 1 for grey.

    Example:
        >>> find_curve(None, None) is None
        True
    """
    if icc_profile:
        return _curve_of_profile(icc_profile, channels)
    return Curve((SRGB,)) if exif and _says_srgb(exif) else None


def _says_srgb(exif: bytes) -> bool:
    found = find_layout(exif)
    directory = parse_block(exif).children.get(EXIF_DIRECTORY)
    if found is None or directory is None:
        return False
    return any(
        tag == COLOUR_SPACE and read_numbers(kind, value, found[0]) == (1,) for tag, kind, _, value in directory.entries
    )


def _curve_of_profile(profile: bytes, channels: int) -> Curve | None:
    tags = profile_tags(profile)
    names = (b"rTRC", b"gTRC", b"bTRC") if channels == 3 else (b"kTRC",)
    if any(name not in tags for name in names):
        return None
    # Profiles mostly point to one curve three times; then one is enough.
    bodies = [tags[name] for name in names]
    if len(set(bodies)) == 1:
        bodies = bodies[:1]
    curves = [_read_tone_curve(body) for body in bodies]
    known = tuple(curve for curve in curves if curve is not None)
    return Curve(known) if len(known) == len(curves) else None


def profile_tags(profile: bytes) -> dict[bytes, bytes]:
    """Body by name of each tag; tags that point outside the profile are left out."""
    if len(profile) < 132 or profile[36:40] != b"acsp":
        return {}
    (number,) = struct.unpack_from(">I", profile, 128)
    tags = {}
    for at in range(132, min(132 + 12 * number, len(profile) - 11), 12):
        name, start, length = struct.unpack_from(">4sII", profile, at)
        if start + length <= len(profile):
            tags[name] = profile[start : start + length]
    return tags


def _read_tone_curve(body: bytes) -> ToneCurve | None:
    readers = {b"curv": _read_table, b"para": _read_formula}
    if body[:4] not in readers or len(body) < 12:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        curve = readers[body[:4]](body)
        return curve if curve is not None and _leads_back(curve) else None


def _leads_back(curve: ToneCurve) -> bool:
    """Whether values come back from light as they were; those of a damaged profile may end in black or beyond white."""
    values = np.linspace(0, 1, SAMPLES, dtype=np.float32)
    light = curve.to_linear(values)
    near = bool(abs(light[0]) <= FARTHEST_END and abs(light[-1] - 1) <= FARTHEST_END)  # not where they are no numbers
    return near and float(np.abs(curve.from_linear(light) - values).max()) <= FARTHEST_BACK


def _read_table(body: bytes) -> ToneCurve | None:
    (number,) = struct.unpack_from(">I", body, 8)
    if number > LARGEST_TABLE or len(body) < 12 + 2 * number:
        return None
    entries = np.frombuffer(body, ">u2", count=number, offset=12).astype(np.float64)
    if number == 0:
        return FormulaCurve(1.0)
    if number == 1:  # an exponent, in 256ths
        exponent = float(entries[0]) / 256
        return FormulaCurve(exponent) if exponent > 0 else None
    return _rising_table(entries / 65535)


# Number of parameters of each kind of formula, and the names they have here (ICC.1:2022, table 68).
_FORMULAS = {
    0: ("exponent",),
    1: ("exponent", "scale", "offset"),
    2: ("exponent", "scale", "offset", "lift"),
    3: ("exponent", "scale", "offset", "slope", "start"),
    4: ("exponent", "scale", "offset", "slope", "start", "lift", "base"),
}


def _read_formula(body: bytes) -> ToneCurve | None:
    (kind,) = struct.unpack_from(">H", body, 8)
    names = _FORMULAS.get(kind)
    if names is None or len(body) < 12 + 4 * len(names):
        return None
    numbers = [value / 65536 for value in struct.unpack_from(f">{len(names)}i", body, 12)]
    values = dict(zip(names, numbers, strict=True))
    if values["exponent"] <= 0 or values.get("scale", 1.0) <= 0:
        return None
    if kind in (1, 2):  # flat below the zero of the bracket, at the height of the lift
        values |= {
            "slope": 0.0,
            "start": max(0.0, -values["offset"] / values["scale"]),
            "base": values.get("lift", 0.0),
        }
    curve = FormulaCurve(**values)
    if curve.start > 0 and curve.slope <= 0:
        return _rising_table(curve.to_linear(np.linspace(0, 1, SAMPLES, dtype=np.float32)).astype(np.float64))
    return curve


def _rising_table(entries: NDArray[np.float64]) -> TableCurve | None:
    """A table that can be turned round; None for one that falls, which is no transfer curve."""
    steps = np.diff(entries)
    if (steps < -1 / 256).any() or not math.isfinite(float(entries.sum())) or entries[-1] - entries[0] < 0.5:
        return None
    steps = np.maximum(steps, SMALLEST_SLOPE / (len(entries) - 1))
    rising = np.concatenate([[0.0], np.cumsum(steps)])
    return TableCurve(rising / rising[-1])
