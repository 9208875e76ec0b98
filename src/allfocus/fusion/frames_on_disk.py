"""Frames of a spool for methods that look at one of them at a time, so that memory does not grow with their number."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError, MemoryShortageError
from allfocus.fusion.method import Method
from allfocus.fusion.validity import EVERYTHING, mean_of_valid, put_where_missing
from allfocus.images.memory import available_memory
from allfocus.images.spool import FrameSpool, Mask
from allfocus.progress import CountProgress


class FramesOnDisk(Sequence[NDArray[np.float32]]):
    """The whole frames of a spool, float32 in 0..1, each read anew when it is asked for.

    What a frame lacks is filled in as :func:`allfocus.fusion.validity.fill_invalid` does.

    Args:
        spool: With the frames.
        masks: Where each has pixels; None for everywhere.
        progress: Called when a frame is read for the first time.

    Example:
        >>> with FrameSpool(bit_depth=8) as spool:
        ...     spool.append(np.zeros((2, 2), np.float32))
        ...     spool.append(np.ones((2, 2), np.float32))
        ...     [float(frame.mean()) for frame in FramesOnDisk(spool, None)]
        [0.0, 1.0]
    """

    def __init__(self, spool: FrameSpool, masks: Sequence[Mask] | None, progress: CountProgress | None = None) -> None:
        self._spool, self._masks = spool, masks
        self._mean: NDArray[np.float32] | None = None
        if masks is not None:
            self._mean = mean_of_valid((frame[EVERYTHING] for frame in spool), masks)
        self._progress, self._seen = progress, 0

    def __len__(self) -> int:
        return len(self._spool)

    def __getitem__(self, index: Any) -> Any:
        if self._progress is not None and index > self._seen:
            self._seen = index
            self._progress(index, len(self))
        if index >= len(self):
            raise IndexError(index)
        frame = self._spool[index][EVERYTHING]
        if self._spool.bit_depth == 32 and not np.isfinite(frame).all():
            raise not_finite(index + 1)
        if self._masks is None or self._mean is None:
            return frame
        return put_where_missing(frame, self._masks[index], self._mean)


class ThinnedFrames(Sequence[NDArray[np.float32]]):
    """Every so many pixels of each frame, taken when it is asked for.

    Example:
        >>> [frame.shape for frame in ThinnedFrames([np.zeros((7, 9), np.float32)], 3)]
        [(3, 3)]
    """

    def __init__(self, frames: Sequence[NDArray[np.float32]], apart: int) -> None:
        self._frames, self._apart = frames, apart

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, index: Any) -> Any:
        return self._frames[index][:: self._apart, :: self._apart]


def not_finite(number: int) -> InputError:
    """The error for a frame, counted from 1, that holds values that are not finite."""
    return InputError(f"frame {number} holds values that are not finite; repair or leave out that frame")


def require_memory(method: Method, count: int, shape: Sequence[int]) -> None:
    """Make sure that the frames fit into the memory, for a method that wants all of them at once.

    Args:
        method: That fuses.
        count: Number of frames.
        shape: Of each of them.

    Raises:
        MemoryShortageError: they do not fit; its hint names a method that would do.
    """
    if method.abilities.streams or method.abilities.one_at_a_time:
        return
    needed = count * int(np.prod(shape)) * np.dtype(np.float32).itemsize
    free = available_memory()
    if free is not None and needed > free:
        raise MemoryShortageError(
            f"{method.name} holds all {count} frames of {shape[1]}x{shape[0]} pixels in memory, {needed / 1e9:.1f} GB, "
            f"and {free / 1e9:.1f} GB are free",
            hint=["use the method ips", "use fewer or smaller frames"],
        )
