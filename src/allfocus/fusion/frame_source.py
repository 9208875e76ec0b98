"""Where fusion takes pixels from: frames in memory, on disk, or anywhere that can read a part of a frame.

Focus is decided at several scales, so a source gives parts of frames at any of them.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.fusion.windows import Area, block_sharpness
from allfocus.images.spool import FrameSpool, Mask, reduce_frame


def open_spool(bit_depth: int, *, settings: DecisionSettings = AS_CHOSEN) -> FrameSpool:
    """Returns an empty spool for frames of this bit depth that holds all that fusion wants of them.

    Example:
        >>> with open_spool(8) as spool:
        ...     spool.append(np.zeros((2400, 2000), np.float32))
        ...     spool.reduced[0].shape
        (1200, 1000)
    """
    return FrameSpool(bit_depth=bit_depth, measure=block_sharpness, scale=settings.scale)


class FrameSource(Protocol):
    """A stack of frames that can be read in parts; float32 in 0..1."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each frame: (H, W) or (H, W, 3)."""

    def __len__(self) -> int:
        """How many frames there are."""

    @property
    def scale(self) -> int:
        """By how much frames are reduced at level 0, where focus is decided."""

    def read(self, index: int, area: Area) -> NDArray[np.float32]:
        """Returns an area of a frame at full scale."""

    def read_levels(self, index: int, area: Area) -> NDArray[Any]:
        """Returns an area of a frame at full scale as it is held: uint8, uint16, or float32 in 0..1."""

    def read_reduced(self, index: int, area: Area, level: int = 0) -> NDArray[np.float32]:
        """Returns an area of a frame at a level (see :mod:`.windows`); the area is given in pixels of that level."""

    def read_valid(self, index: int, area: Area) -> NDArray[np.bool_] | None:
        """Returns where a frame has pixels (full scale), or None if it has them everywhere in the stack."""

    def sharpness(self) -> NDArray[np.float32]:
        """Returns the sharpness of each frame in blocks; see :func:`allfocus.fusion.windows.block_sharpness`."""


class MemorySource:
    """Frames that are arrays in memory."""

    def __init__(
        self,
        frames: Sequence[NDArray[np.float32]],
        valid: Sequence[Mask] | None = None,
        *,
        settings: DecisionSettings = AS_CHOSEN,
    ) -> None:
        self._frames = frames
        self._valid = valid
        self.shape = frames[0].shape
        self.scale = settings.scale(*self.shape[:2])
        self._levels = [frames if self.scale == 1 else [reduce_frame(frame, self.scale) for frame in frames]]

    def __len__(self) -> int:
        return len(self._frames)

    def read(self, index: int, area: Area) -> NDArray[np.float32]:
        """Returns an area of a frame at full scale."""
        return self._frames[index][area]

    def read_levels(self, index: int, area: Area) -> NDArray[Any]:
        """Returns an area of a frame at full scale, float32."""
        return self._frames[index][area]

    def read_reduced(self, index: int, area: Area, level: int = 0) -> NDArray[np.float32]:
        """Returns an area of a frame at a level."""
        while len(self._levels) <= level:
            self._levels.append([reduce_frame(np.ascontiguousarray(frame), 2) for frame in self._levels[-1]])
        return self._levels[level][index][area]

    def read_valid(self, index: int, area: Area) -> NDArray[np.bool_] | None:
        """Returns where a frame has pixels, or None if all frames have them everywhere."""
        return None if self._valid is None else np.asarray(self._valid[index][area], bool)

    def sharpness(self) -> NDArray[np.float32]:
        """Returns the sharpness of each frame in blocks."""
        return np.stack([block_sharpness(np.ascontiguousarray(frame)) for frame in self._levels[0]])


class SpoolSource:
    """Frames in a :class:`FrameSpool` that :func:`open_spool` made."""

    def __init__(self, spool: FrameSpool) -> None:
        if len(spool) < 2:
            raise InputError(f"fusion needs at least 2 frames, got {len(spool)}; give every picture of the stack")
        self._spool = spool
        self.shape = spool[0].shape
        self.scale = spool.reduction
        if len(spool.measures) < len(spool):
            raise ValueError("the spool was not made by open_spool")

    def __len__(self) -> int:
        return len(self._spool)

    def read(self, index: int, area: Area) -> NDArray[np.float32]:
        """Returns an area of a frame at full scale."""
        return self._spool[index][area]

    def read_levels(self, index: int, area: Area) -> NDArray[Any]:
        """Returns an area of a frame at full scale as it is held."""
        return self._spool[index].read_levels(area)

    def read_reduced(self, index: int, area: Area, level: int = 0) -> NDArray[np.float32]:
        """Returns an area of a frame at a level."""
        return self._spool.level(index, level)[area]

    def read_valid(self, index: int, area: Area) -> NDArray[np.bool_] | None:
        """Returns where a frame has pixels, or None if all frames have them everywhere."""
        return None if self._spool.valid is None else self._spool.valid[index][area]

    def sharpness(self) -> NDArray[np.float32]:
        """Returns the sharpness of each frame in blocks."""
        return np.stack(self._spool.measures)


def enlarge(part: NDArray[np.float32], scale: int) -> NDArray[np.float32]:
    """Returns a map (h, w) at full scale, linearly between its values."""
    if scale == 1:
        return part
    size = (part.shape[1] * scale, part.shape[0] * scale)
    return np.asarray(cv2.resize(part, size, interpolation=cv2.INTER_LINEAR), np.float32)
