"""What every metric starts from: one plane of grey levels, float64 holding whole numbers 0..255.

The definitions of the field are written for 8-bit grey pictures, so each picture is brought there first, in one place:

* ``uint8`` is taken as it is; ``uint16`` is divided by 257; floating point must lie in 0..1 and is multiplied by 255.
  The result is rounded to the nearest whole number, so a picture scores the same at every bit depth.
* A colour picture (H, W, 3), RGB, becomes grey by ``floor(0.298936 R + 0.587043 G + 0.114021 B + 0.5)``.
  These six digits are the canonical ones: the textbook's .299/.587/.114 moves about 60 pixels of a picture by a level.

All arithmetic after that is in float64; unsigned integers would wrap around or saturate.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError

Plane = NDArray[np.float64]
"""One channel (H, W)."""

Picture = NDArray[Any]
"""A picture as it is given: (H, W) or (H, W, 3), uint8, uint16 or floating point in 0..1."""


def as_eight_bit(picture: Picture, *, what: str = "the picture") -> NDArray[np.uint8]:
    """Return the picture with 256 levels, same shape, whatever its bit depth was.

    Args:
        picture: (H, W) or (H, W, 3); uint8, uint16, or floating point in 0..1.
        what: how an error message names this picture.

    Raises:
        InputError: The shape, type or range is none of these, or a value is not a number.

    Example:
        >>> import numpy as np
        >>> as_eight_bit(np.array([[0, 257, 65535]], np.uint16))
        array([[  0,   1, 255]], dtype=uint8)
    """
    picture = np.asarray(picture)
    if not (picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] == 3)):
        raise InputError(
            f"{what} has shape {picture.shape}; a metric takes (height, width) or (height, width, 3), without alpha"
        )
    if picture.size == 0:
        raise InputError(f"{what} is empty (shape {picture.shape}); give a picture with at least one pixel")
    if picture.dtype == np.uint8:
        return picture
    if picture.dtype == np.uint16:
        return np.floor(picture / 257.0 + 0.5).astype(np.uint8)
    if not np.issubdtype(picture.dtype, np.floating):
        raise InputError(f"{what} holds {picture.dtype}; a metric takes uint8, uint16 or floating point in 0..1")
    if not np.isfinite(picture).all():
        raise InputError(f"{what} holds values that are not numbers (NaN or infinite); repair the picture first")
    lowest, highest = float(picture.min()), float(picture.max())
    if lowest < 0 or highest > 1:
        raise InputError(
            f"{what} reaches from {lowest:g} to {highest:g}; floating point pictures must lie in 0..1: "
            "divide a 0..255 picture by 255, clip overshoot"
        )
    return np.floor(picture.astype(np.float64) * 255.0 + 0.5).astype(np.uint8)


def as_grey_levels(picture: Picture, *, what: str = "the picture") -> Plane:
    """Return the grey levels of a picture, (H, W), float64 holding whole numbers 0..255.

    Args:
        picture: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        what: how an error message names this picture.

    Raises:
        InputError: See :func:`as_eight_bit`.

    Example:
        >>> import numpy as np
        >>> as_grey_levels(np.array([[[255, 0, 0], [0, 255, 0]]], np.uint8))
        array([[ 76., 150.]])
    """
    levels = as_eight_bit(picture, what=what).astype(np.float64)
    if levels.ndim == 2:
        return levels
    red, green, blue = levels[..., 0], levels[..., 1], levels[..., 2]
    return np.floor(0.298936 * red + 0.587043 * green + 0.114021 * blue + 0.5)


def check_sources(
    fused: Picture,
    sources: Sequence[Picture],
    *,
    metric: str,
    smallest: int = 1,
    exactly_two: bool = False,
) -> None:
    """Raise unless the pictures can be scored together.

    Args:
        fused: the fused picture, (H, W) or (H, W, 3).
        sources: the pictures it was made of, each of the same height and width.
        metric: name used in the messages.
        smallest: least height and width that the metric's window needs.
        exactly_two: the definition knows two sources and no more.

    Raises:
        InputError: Too few or too many sources, sizes that differ, a picture smaller than the window.
    """
    if len(sources) < 2:
        raise InputError(f"{metric} compares the fused picture with its sources: got {len(sources)}, needs at least 2")
    if exactly_two and len(sources) != 2:
        raise InputError(f"{metric} is defined for exactly 2 sources, got {len(sources)}; score pairs, or leave it out")
    for number, source in enumerate(sources, start=1):
        check_same_size(fused, source, other=f"source {number}", metric=metric)
    check_large_enough(fused, metric=metric, smallest=smallest)


def check_same_size(fused: Picture, picture: Picture, *, other: str, metric: str) -> None:
    """Raise unless ``picture`` (called ``other`` in the message) has the fused picture's height and width."""
    found, expected = np.shape(picture)[:2], np.shape(fused)[:2]
    if found != expected:
        raise InputError(
            f"{metric}: {other} is {_size(found)} but the fused picture is {_size(expected)} (height x width); "
            "all must have one size: align or crop them first"
        )


def check_large_enough(picture: Picture, *, metric: str, smallest: int) -> None:
    """Raise unless the picture is at least ``smallest`` pixels high and wide."""
    shape = np.shape(picture)[:2]
    if len(shape) == 2 and min(shape) < smallest:
        raise InputError(f"{metric} needs pictures of at least {smallest}x{smallest} pixels, got {_size(shape)}")


def grey_triple(
    fused: Picture,
    sources: Sequence[Picture],
    *,
    metric: str,
    smallest: int = 1,
    exactly_two: bool = False,
    stretch: bool = False,
) -> tuple[Plane, list[Plane]]:
    """Return the grey levels of the fused picture and of each source, after :func:`check_sources`.

    With ``stretch`` each by :func:`stretch_to_full_range`.
    """
    check_sources(fused, sources, metric=metric, smallest=smallest, exactly_two=exactly_two)
    named = [(fused, "the fused picture"), *((source, f"source {n}") for n, source in enumerate(sources, start=1))]
    # One after the other: of large pictures no plane is held twice.
    levels = (as_grey_levels(picture, what=what) for picture, what in named)
    target, *planes = map(stretch_to_full_range, levels) if stretch else levels
    return target, planes


def stretch_to_full_range(levels: Plane) -> Plane:
    """Return the plane with its lowest level moved to 0 and its highest to 255, rounded to whole levels.

    Several definitions stretch each picture on its own before they compare. A plane with one level only has no range
    to stretch and comes back unchanged (the scripts in circulation divide by zero there).

    Example:
        >>> import numpy as np
        >>> stretch_to_full_range(np.array([[10.0, 20.0, 30.0]]))
        array([[  0., 128., 255.]])
    """
    lowest, highest = levels.min(), levels.max()
    if lowest == highest:
        return levels
    # The order of the operations and rounding half upwards belong to the definition: another order moves single levels.
    stretched: Plane = np.floor((levels - lowest) / (highest - lowest) * 255.0 + 0.5)
    return stretched


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(str(length) for length in shape)
