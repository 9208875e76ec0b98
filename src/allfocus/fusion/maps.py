"""What every method of fusion returns, whichever it is and wherever it comes from."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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

    Example:
        >>> as_maps(np.zeros((2, 2), np.float32)).decision is None
        True
    """
    return FusedMaps(*value) if isinstance(value, tuple) else FusedMaps(np.asarray(value, np.float32))
