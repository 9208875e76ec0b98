"""What every method of fusion returns, whichever it is and wherever it comes from."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError

LOWEST, HIGHEST = -1.0, 2.0
"""What an image may hold: methods swing beyond 0 and 1 at sharp edges, which is clipped, but not so far."""


class FusedMaps(NamedTuple):
    """A fused picture, and what the method knows about it; what it does not know is None."""

    image: NDArray[np.float32]
    """(H, W, 3) or (H, W), 0..1, shaped like a frame."""
    decision: NDArray[np.int16] | None = None
    """(H, W), the frame that each pixel came from, from 0; -1 where it is a mixture."""
    depth: NDArray[np.float32] | None = None
    """(H, W), position in the stack: 0 the first frame, 1 the last; made from the decision where it is None."""
    confidence: NDArray[np.float32] | None = None
    """(H, W), how sure the depth is: 0 a guess, 1 sure; measured on the frames where it is None."""
    veil: NDArray[np.float32] | None = None
    """(H, W), how opaque the haze was that was removed; None for methods that remove none."""


def as_maps(value: object) -> FusedMaps:
    """The maps that a method gave: those above, the same values in a tuple, or a picture alone.

    Raises:
        InputError: it gave something else.

    Example:
        >>> as_maps(np.zeros((2, 2), np.float32)).decision is None
        True
    """
    try:
        maps = FusedMaps(*value) if isinstance(value, tuple) else FusedMaps(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise InputError(f"the method gave no picture, but a {type(value).__name__}", code="method-cannot") from error
    real = isinstance(maps.image, np.ndarray) and maps.image.dtype.kind in "fiu"
    return maps._replace(image=np.asarray(maps.image, np.float32)) if real else maps


def require_sound_maps(maps: FusedMaps, shape: tuple[int, ...], frames: int, *, name: str) -> FusedMaps:
    """The maps, which fit the frames and hold numbers; what does not would be written as a wrong picture.

    Args:
        maps: What a method gave.
        shape: Of a frame.
        frames: How many there are.
        name: Of the method.

    Raises:
        InputError: a map has another shape or type, or values that it cannot have.
    """
    for part, values in zip(maps._fields, maps, strict=True):
        if values is None and part != "image":
            continue
        kind = np.integer if part == "decision" else np.floating
        if not isinstance(values, np.ndarray) or not np.issubdtype(values.dtype, kind):
            raise _unsound(name, part, f"is no array of {kind.__name__} numbers")
        wanted = shape if part == "image" else shape[:2]
        if values.shape != wanted:
            raise _unsound(name, part, f"has the shape {values.shape}, not {wanted}")
        if part == "decision" and not (int(values.min()) >= -1 and int(values.max()) < frames):
            raise _unsound(name, part, f"names frames that there are not, of {frames}")
        if part != "decision" and not np.isfinite(values).all():
            raise _unsound(name, part, "holds values that are not numbers (NaN or infinite)")
        if part == "image" and not (float(values.min()) >= LOWEST and float(values.max()) <= HIGHEST):
            raise _unsound(name, part, f"goes from {values.min():g} to {values.max():g}, not from 0 to 1")
    return maps


def _unsound(name: str, part: str, what: str) -> InputError:
    return InputError(
        f"the {part} that the method {name} gave {what}",
        hint="take another method or other weights",
        code="method-cannot",
    )
