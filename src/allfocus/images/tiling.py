"""Frames on disk, read in windows: how a stack larger than the memory is held while it is fused."""

import tempfile
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError, OutputError


class SpooledFrame:
    """One frame of a spool; slicing reads that part from disk as float32 in 0..1."""

    def __init__(self, file: IO[bytes], offset: int, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self.shape = shape
        self._file = file
        self._offset = offset
        self._kind = kind

    def __getitem__(self, area: tuple[slice, slice]) -> NDArray[np.float32]:
        # Mapped anew for each window, so that pages that were read do not pile up as memory of this process.
        mapped = np.memmap(self._file, dtype=self._kind, mode="r", offset=self._offset, shape=self.shape)
        part = np.array(mapped[area])
        del mapped
        if self._kind == np.float32:
            return part
        return part.astype(np.float32) / np.float32(np.iinfo(self._kind).max)


class FrameSpool:
    """A stack of frames in one temporary file, which is gone when the spool is closed or the program ends.

    Frames are stored with the bit depth of their files (8, 16 or 32 for floating point), so nothing is lost, and with
    what `measure` returned for each, so that they need not be read again for it.

    Example:
        >>> with FrameSpool(bit_depth=8) as spool:
        ...     spool.append(np.full((4, 6), 0.2, np.float32))
        ...     len(spool), round(float(spool[0][0:1, 0:1][0, 0]), 3)
        (1, 0.2)
    """

    def __init__(
        self, *, bit_depth: int, measure: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = None
    ) -> None:
        kinds: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.float32}
        self._kind = np.dtype(kinds[bit_depth])
        self._measure = measure
        # Without a name where the system allows it, so that even a killed program leaves nothing behind.
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="allfocus-")  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise OutputError(f"no temporary file can be made ({error}); set TMPDIR to a writable folder") from error
        self._frames: list[SpooledFrame] = []
        self.measures: list[NDArray[np.float32]] = []
        """What `measure` returned for each frame."""

    def append(self, frame: NDArray[np.float32]) -> None:
        """Stores one more frame (H, W[, 3]), float32 in 0..1.

        Raises:
            InputError: its shape differs from that of the first.
            OutputError: the temporary folder is full.
        """
        if self._frames and frame.shape != self._frames[0].shape:
            raise InputError(
                f"frame {len(self) + 1} has shape {frame.shape} but frame 1 has {self._frames[0].shape}; "
                "align or crop the frames to one size first"
            )
        stored = frame
        if self._kind != np.float32:
            stored = np.rint(np.clip(frame, 0, 1) * np.float32(np.iinfo(self._kind).max))
        offset = len(self) * frame.size * self._kind.itemsize
        try:
            self._file.seek(offset)
            self._file.write(np.ascontiguousarray(stored, self._kind).data)
            self._file.flush()
        except OSError as error:
            raise OutputError(
                f"{tempfile.gettempdir()}: cannot hold frame {len(self) + 1} ({error.strerror or error}); free some "
                "space there, or set TMPDIR to a folder on a larger disk"
            ) from error
        if self._measure is not None:
            self.measures.append(self._measure(frame))
        self._frames.append(SpooledFrame(self._file, offset, frame.shape, self._kind))

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[SpooledFrame]:
        return iter(self._frames)

    def __getitem__(self, index: int) -> SpooledFrame:
        return self._frames[index]

    def close(self) -> None:
        """Deletes the frames from disk."""
        self._file.close()

    def __enter__(self) -> "FrameSpool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
