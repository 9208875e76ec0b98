"""Frames on disk, read in parts: how a stack larger than the memory is held while it is fused."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import IO, Any, Protocol, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError, OutputError

Measure = Callable[[NDArray[Any]], NDArray[np.float32]]
"""What is measured of a frame, which comes as it is held: integers, or float32 in 0..1."""
SMALLEST_LEVEL = 32
"""Frames are kept at half the scale, a quarter and so on, down to this many pixels of the longer side."""
_Stored = TypeVar("_Stored", bound="SpooledFrame")


class Mask(Protocol):
    """Where a frame has pixels: rows and columns of it give an array of truth values."""

    def __getitem__(self, area: tuple[slice, slice]) -> NDArray[np.bool_]:
        """Returns an area of the mask."""


class SpooledFrame:
    """One frame of a spool; slicing reads that part from disk as float32 in 0..1."""

    def __init__(self, file: IO[bytes], offset: int, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self.shape = shape
        self._file = file
        self._offset = offset
        self._kind = kind

    def __getitem__(self, area: tuple[slice, slice]) -> NDArray[np.float32]:
        return from_levels(self.read_levels(area))

    def read_levels(self, area: tuple[slice, slice]) -> NDArray[Any]:
        """Returns a part of the frame as it is stored."""
        # Mapped anew for each part, so that pages that were read do not pile up as memory of this process.
        mapped = np.memmap(self._file, dtype=self._kind, mode="r", offset=self._offset, shape=self.shape)
        part = np.array(mapped[area])
        del mapped
        return part


class SpooledMask(SpooledFrame):
    """Where one frame of a spool has pixels."""

    def __getitem__(self, area: tuple[slice, slice]) -> NDArray[np.bool_]:  # type: ignore[override]  # a mask gives booleans
        return self.read_levels(area).astype(bool)


class FrameSpool:
    """A stack of frames in one temporary file, which is gone when the spool is closed or the program ends.

    Frames are stored with the bit depth of their files (8, 16 or 32 for floating point), so nothing is lost; where
    `scale` asks for it, once more at a reduced scale and at halves of that; and with what `measure` returned for each
    reduced frame, so that they need not be read again for it.

    Example:
        >>> with FrameSpool(bit_depth=8) as spool:
        ...     spool.append(np.full((4, 6), 0.2, np.float32))
        ...     len(spool), round(float(spool[0][0:1, 0:1][0, 0]), 3)
        (1, 0.2)
    """

    def __init__(
        self, *, bit_depth: int, measure: Measure | None = None, scale: Callable[[int, int], int] | None = None
    ) -> None:
        kinds: dict[int, type[np.generic]] = {8: np.uint8, 16: np.uint16, 32: np.float32}
        self._kind = np.dtype(kinds[bit_depth])
        self.bit_depth = bit_depth
        self._measure = measure
        self._scale = scale
        # Without a name where the system allows it, so that even a killed program leaves nothing behind.
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="allfocus-")  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise OutputError(f"no temporary file can be made ({error}); set TMPDIR to a writable folder") from error
        self._frames: list[SpooledFrame] = []
        self._masks: list[SpooledMask | None] = []
        self._end = 0
        self.reduction = 1
        """How many pixels of a frame, along each side, are one of a reduced frame."""
        self.reduced: list[SpooledFrame] = []
        """The frames at the reduced scale; the frames themselves if that is 1."""
        self.measures: list[NDArray[np.float32]] = []
        """What `measure` returned for each frame."""
        self._coarser: list[list[SpooledFrame]] = []

    @property
    def kind(self) -> np.dtype[Any]:
        """The type in which frames are held: uint8, uint16 or float32."""
        return self._kind

    def append(self, frame: NDArray[Any], valid: NDArray[np.bool_] | None = None) -> None:
        """Stores one more frame (H, W[, 3]) and where it has pixels (H, W; None for everywhere).

        The frame is float32 in 0..1, or of the type in which frames are held.

        Raises:
            InputError: its shape differs from that of the first.
            OutputError: the temporary folder is full.
        """
        if self._frames and frame.shape != self._frames[0].shape:
            raise InputError(
                f"frame {len(self) + 1} has shape {frame.shape} but frame 1 has {self._frames[0].shape}; "
                "align or crop the frames to one size first"
            )
        if not self._frames and self._scale is not None:
            self.reduction = self._scale(*frame.shape[:2])
        levels = to_levels(frame, self._kind)
        # A spool that failed half-way through a frame is closed by its owner, so the lists need not agree then.
        stored = self._store(levels, SpooledFrame)
        mask = None if valid is None or valid.all() else self._store(valid.astype(np.uint8), SpooledMask)
        if self.reduction > 1:
            small = reduce_frame(levels, self.reduction)
            self.reduced.append(self._store(small, SpooledFrame))
        else:
            small = levels
            self.reduced.append(stored)
        if self._measure is not None:
            self.measures.append(self._measure(small))
        coarser = []
        while self._scale is not None and max(small.shape[:2]) > SMALLEST_LEVEL:
            small = reduce_frame(small, 2)
            coarser.append(self._store(small, SpooledFrame))
        self._coarser.append(coarser)
        self._frames.append(stored)
        self._masks.append(mask)

    def _store(self, levels: NDArray[Any], kind: type[_Stored]) -> _Stored:
        offset = self._end
        try:
            self._file.seek(offset)
            self._file.write(np.ascontiguousarray(levels).data)
            self._file.flush()
        except OSError as error:
            raise OutputError(
                f"{tempfile.gettempdir()}: cannot hold frame {len(self) + 1} ({error.strerror or error}); free some "
                "space there, or set TMPDIR to a folder on a larger disk"
            ) from error
        # The next begins on a whole page, which is where a file can be mapped without reading what lies before.
        self._end = -(-(offset + levels.nbytes) // 4096) * 4096
        return kind(self._file, offset, levels.shape, levels.dtype)

    def level(self, index: int, level: int) -> SpooledFrame:
        """Returns a frame reduced by 2 ** level beyond the reduced scale."""
        return self.reduced[index] if level == 0 else self._coarser[index][level - 1]

    @property
    def valid(self) -> Sequence[Mask] | None:
        """Where each frame has pixels; None when all of them have pixels everywhere."""
        if not any(self._masks):
            return None
        whole = _Everywhere(self._frames[0].shape[:2])
        return [mask or whole for mask in self._masks]

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[SpooledFrame]:
        return iter(self._frames)

    def __getitem__(self, index: int) -> SpooledFrame:
        return self._frames[index]

    def clear(self) -> None:
        """Forgets all frames; others take their place."""
        self._frames, self._masks, self.reduced, self.measures, self._coarser = [], [], [], [], []
        self._end = 0

    def close(self) -> None:
        """Deletes the frames from disk."""
        # What the disk refused may still lie in the buffer and is refused again; nobody needs it any more.
        with contextlib.suppress(OSError):
            self._file.close()

    def __enter__(self) -> "FrameSpool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Everywhere:
    """The mask of a frame that has pixels everywhere."""

    def __init__(self, size: tuple[int, ...]) -> None:
        self._size = size

    def __getitem__(self, area: tuple[slice, slice]) -> NDArray[np.bool_]:
        return np.broadcast_to(np.True_, self._size)[area]


def to_levels(frame: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    """Returns float32 in 0..1 as integers of a kind, rounded and cut to their range; what is of that kind as it is.

    Example:
        >>> to_levels(np.array([[-0.1, 0.5, 2]], np.float32), np.dtype(np.uint8))
        array([[  0, 128, 255]], dtype=uint8)
    """
    if frame.dtype == kind:
        return frame
    # One pass of OpenCV's saturating conversion instead of four of numpy; it takes rows of single values.
    rows = np.ascontiguousarray(frame).reshape(frame.shape[0], -1)
    depth = cv2.CV_8U if kind == np.uint8 else cv2.CV_16U
    levels = cv2.multiply(rows, np.float64(np.iinfo(kind).max), dtype=depth)  # type: ignore[call-overload]  # the stubs of OpenCV know no dtype
    return np.asarray(levels, kind).reshape(frame.shape)


def from_levels(levels: NDArray[Any]) -> NDArray[np.float32]:
    """Returns integers as float32 in 0..1; floating point as it is."""
    if levels.dtype == np.float32:
        return levels
    values = levels.astype(np.float32)
    values /= np.float32(np.iinfo(levels.dtype).max)
    return values


def reduce_frame(frame: NDArray[Any], scale: int) -> NDArray[Any]:
    """Returns a picture whose pixels are means of ``scale`` x ``scale`` pixels; odd sides repeat their last pixel.

    Example:
        >>> reduce_frame(np.arange(6, dtype=np.float32).reshape(2, 3), 2)
        array([[2. , 3.5]], dtype=float32)
    """
    if scale == 1:
        return frame
    height, width = frame.shape[:2]
    if height % scale or width % scale:
        frame = cv2.copyMakeBorder(frame, 0, -height % scale, 0, -width % scale, cv2.BORDER_REPLICATE)
    size = (frame.shape[1] // scale, frame.shape[0] // scale)
    return np.asarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA), frame.dtype)


def reduce_known(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The half of a map (H, W) with holes: the mean of what is known of each square; NaN where nothing is.

    Example:
        >>> reduce_known(np.array([[1, 3, np.nan, np.nan], [2, np.nan, np.nan, np.nan]], np.float32)).tolist()
        [[2.0, nan]]
    """
    there = np.isfinite(values)
    if there.all():
        return reduce_frame(values, 2)
    weight = reduce_frame(there.astype(np.float32), 2)
    mean = reduce_frame(np.where(there, values, np.float32(0)), 2) / np.maximum(weight, np.float32(1e-6))
    return np.where(weight > 0, mean, np.float32(np.nan)).astype(np.float32)
