"""The frames of a stack that was opened, decoded one at a time or a few ahead, in one range and one development."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.camera_colour import Development
from allfocus.images.conversion import image_of
from allfocus.images.decoded import DecodedPicture, require_pixels
from allfocus.images.empty_rims import FoundRims, RimFinder
from allfocus.images.frame_corrections import FrameCorrections
from allfocus.images.frame_file import FrameFile
from allfocus.images.image import Image, require_stack
from allfocus.images.limits import MAX_PIXELS
from allfocus.images.memory import available_memory, require_room
from allfocus.images.read_ahead import ReadAhead
from allfocus.images.reading import errors_about, guarded, read_image
from allfocus.images.transfer import Curve, find_curve
from allfocus.images.value_range import UNIT, ValueRange, common_range, extremes_of
from allfocus.images.video import VideoReader
from allfocus.machine import processor_count

MOST_AHEAD = 4
"""Frames decoded ahead at a time, on as many cores: then decoding is no longer what there is to wait for."""
SHARE_AHEAD = 8
"""One part in so many of the free memory may be taken by them."""


class StackReader:
    """The frames of a stack, decoded one at a time when asked for.

    The last frame read is kept, so that asking twice in a row costs nothing; the frame before it is let go. With
    ``keep_bytes``, the first frames that are read and fit into so many bytes are kept until :meth:`release`.
    """

    fills_rims: bool = False
    """Whether empty rims are looked for, and taken as missing."""

    def __init__(
        self,
        frames: Sequence[FrameFile],
        *,
        max_pixels: int = MAX_PIXELS,
        keep_bytes: int = 0,
        files: Sequence[Path] | None = None,
        development: Development | None = None,
        notices: Sequence[str] = (),
        numbers: Sequence[int] | None = None,
        absent: Mapping[int, str] | None = None,
        counted: int | None = None,
    ) -> None:
        require_stack(frames)
        self.notices = tuple(notices)
        """What was found when the stack was opened, one sentence each."""
        self.frames = tuple(frames)
        self.numbers = tuple(range(len(frames)) if numbers is None else numbers)
        """The number of each frame in the stack as it was given, from 0: those that are left out count."""
        self.absent = dict(absent or {})
        """Number -> name of each frame that could not be opened."""
        self.counted = len(frames) if counted is None else counted
        """How many frames the stack has as it was given."""
        self._development = _same_for_all(development or Development(), frames)
        self.files = tuple(dict.fromkeys(frame.path for frame in frames) if files is None else files)
        """Every file that was given, those of frames that are left out too: none of them may be written."""
        self._max_pixels = max_pixels
        self._states = {frame.path: _state_of(frame.path) for frame in frames}
        self._kept: tuple[int, Image] | None = None
        self._store: dict[int, Image] = {}
        self._room = keep_bytes
        self._first: tuple[int, Image] | None = None
        self._values: ValueRange | None = None
        self._corrections: FrameCorrections | None = None
        self._videos: dict[Path, VideoReader] = {}
        self._ahead = ReadAhead(lambda index: self.decode(self.frames[index]))
        self._rim_finder = RimFinder()
        self._filled = FoundRims({})

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[Image]:
        return (self.read(index) for index in range(self.count))

    @property
    def development(self) -> Development:
        """How camera RAW files are developed."""
        return self._development

    @property
    def count(self) -> int:
        """How many frames there are, at least two."""
        return len(self.frames)

    @property
    def names(self) -> list[str]:
        """The name of each frame."""
        return [frame.name for frame in self.frames]

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of every frame, upright."""
        return self.frames[0].header.size

    @property
    def channels(self) -> int:
        """1 for grey, 3 for colour."""
        return self.frames[0].header.channels

    @property
    def bit_depth(self) -> int:
        """The largest bit depth in the stack, so that nothing is lost when the result is written."""
        return max(frame.header.bit_depth for frame in self.frames)

    @property
    def value_range(self) -> ValueRange:
        """What 0 and 1 of the frames stand for: one range for the whole stack.

        A stack of floating-point files is decoded for it once, the first time that it is asked for or a frame is read.

        Raises:
            InputError: some frames are integers, and others floating point beyond 0..1: they have no common unit.
        """
        if self._values is None:
            self._values = UNIT if self.bit_depth < 32 else self._find_range()
        return self._values

    def _find_range(self) -> ValueRange:
        extremes = {}
        for index, frame in enumerate(self.frames):
            with suppress(InputError):  # a damaged frame is an error when it is read, or left out
                image = self.decode(frame)
                extremes[index] = extremes_of(image.pixels, image.valid)
        values = common_range(extremes.values()) if extremes else UNIT
        other = next((frame.name for frame in self.frames if frame.header.bit_depth < 32), None)
        if other is not None and not values.is_unit:
            raise InputError(
                f"the floating-point frames run from {values.low:g} to {values.high:g}, but {other} holds integers; "
                "save all frames in one type"
            )
        return values

    def read(self, index: int) -> Image:
        """One frame in 0..1 (see :attr:`value_range`), decoded now.

        Args:
            index: From 0.

        Raises:
            InputError: the file is damaged, no longer what its header said, or was changed since the stack was opened.
        """
        if self._kept is not None and self._kept[0] == index:
            return self._kept[1]
        if index in self._store:
            return self._store[index]
        self._kept = None  # two frames are never held at once, beyond those for which there is room
        frame = self.frames[index]
        values = self.value_range
        image = self._ahead.take(index)
        require_promise(frame, image)
        if not values.is_unit:
            image = replace(image, pixels=values.to_unit(image.pixels))
        self._require_unchanged(frame)
        if self._corrections is not None:
            image = self._corrections.apply(image)
        if index in self._filled.rims:
            image = replace(image, alpha=self._filled.shown(index).astype(np.float32))
        elif self.fills_rims and image.alpha is None:
            self._rim_finder.add(index, image.pixels if image.levels is None else image.levels)
        size = _size_of(image)
        if size <= self._room:
            self._room -= size
            self._store[index] = image
        else:
            self._kept = (index, image)
        # Not always frame 0: that one may be damaged and left out.
        if self._first is None or index < self._first[0]:
            self._first = (index, _without_pixels(image))
        return image

    @contextmanager
    def ahead(self, order: Sequence[int]) -> Iterator[None]:
        """Inside, frames are decoded ahead in the order in which they will be read, as cores and memory allow.

        Nothing else changes: what is wrong with a frame is an error when it is read.
        """
        missing = [index for index in order if 0 <= index < self.count and index not in self._store]
        # A video is gone through by one reader, frame by frame.
        of_video = any(self.frames[index].of_video for index in missing)
        free = available_memory()
        room = MOST_AHEAD if free is None else free // SHARE_AHEAD // self._decoded_bytes()
        cores = processor_count()
        most = 0 if of_video or cores < 2 or len(missing) < 2 else min(cores, MOST_AHEAD, room)
        with self._ahead.expecting(missing, most=most):
            yield

    def _decoded_bytes(self) -> int:
        """What decoding a frame takes for a moment."""
        height, width = self.size
        return 2 * height * width * self.channels * max(1, self.bit_depth // 8)

    def decode(self, frame: FrameFile) -> Image:
        """A frame as its file has it, in units of its own; nothing is kept."""
        if frame.zarr is not None:
            return _decode_zarr(frame, self._max_pixels)
        name = None if frame.called is None else frame.name
        if frame.of_video:
            video = self._videos.setdefault(frame.path, VideoReader(frame.path, max_pixels=self._max_pixels))
            with errors_about(name):
                return guarded(frame.path, lambda: video.read(frame.page))
        return read_image(
            frame.path, page=frame.page, max_pixels=self._max_pixels, name=name, development=self._development
        )

    def describe(self, index: int) -> Image:
        """What the file of a frame says besides its pixels; they are left out, but may have to be decoded for it.

        Args:
            index: From 0.

        Raises:
            InputError: the file is damaged.
        """
        if self._first is not None and self._first[0] == index:
            return self._first[1]
        return _without_pixels(self.read(index))

    def correct(self, corrections: "FrameCorrections") -> None:
        """From now on frames are read with these corrections; what was kept is let go."""
        self._corrections = corrections
        self._kept = None
        self._room += sum(_size_of(image) for image in self._store.values())
        self._store.clear()
        if corrections.sensor_hot is not None:
            self._development = replace(self._development, hot=corrections.sensor_hot)
        self.files = (*self.files, *corrections.files)

    def leave_out_rims(self, kept: Sequence[int]) -> list[int]:
        """Frames that end in an empty rim (:mod:`.empty_rims`), which from now on are read as transparent there.

        Args:
            kept: The frames of the stack; all of them have been read.

        Returns:
            Those that were read with their rim until now.
        """
        if not self.fills_rims or self._filled.rims:
            return []
        self._filled = self._rim_finder.find(kept, lambda index: self.read(index).pixels)
        for index in self._filled.rims:
            if index in self._store:
                self._room += _size_of(self._store.pop(index))
        if self._kept is not None and self._kept[0] in self._filled.rims:
            self._kept = None
        return list(self._filled.rims)

    def only(self, kept: Sequence[int]) -> "StackReader":
        """The same stack with these frames alone; none of the files that were given may be written all the same."""
        chosen = StackReader(
            [self.frames[index] for index in kept],
            max_pixels=self._max_pixels,
            files=self.files,
            development=self._development,
            numbers=[self.numbers[index] for index in kept],
            absent=self.absent,
            counted=self.counted,
        )
        chosen._corrections = self._corrections
        return chosen

    def blending_curve(self, index: int, linear_light: bool | None) -> Curve | None:
        """The transfer curve of a frame, to blend with; None when values are blended as they are.

        Args:
            index: From 0.
            linear_light: False never, None where the frame tells its curve, True insists on one.

        Raises:
            InputError: linear light is insisted on, but the frame does not tell its curve.
        """
        if linear_light is False:
            return None
        described, curve = self.describe(index), None
        problem, hints = "its values run beyond 0..1, which no colour profile describes", ["{linear_light=default}"]
        if self.value_range.is_unit:  # a profile tells of 0..1 alone
            curve = find_curve(described.icc_profile, described.exif, channels=self.channels)
            problem = "has no colour profile that tells how its values relate to light"
            hints = ["attach one", *hints]
        if curve is None and linear_light:
            raise InputError(problem, where=self.names[index], hint=hints, code="no-colour-profile")
        return None if curve is None or curve.is_linear else curve

    def require_unchanged(self) -> None:
        """Raise InputError when a file was changed since the stack was opened: what was read may be half of each."""
        for frame in self.frames:
            self._require_unchanged(frame)

    def _require_unchanged(self, frame: FrameFile) -> None:
        if _state_of(frame.path) != self._states[frame.path]:
            raise InputError(
                "was changed while the stack was worked on; wait until it is whole and run again",
                where=frame.place,
                code="changed-meanwhile",
            )

    def release(self) -> None:
        """Lets go of the frames that were kept; from now on only the last one read is."""
        self._kept = None
        self._store.clear()
        self._videos.clear()
        self._room = 0

    def result_image(
        self,
        pixels: NDArray[np.float32],
        *,
        alpha: NDArray[np.float32] | None = None,
        frame: int = 0,
        own_units: bool = True,
    ) -> Image:
        """A picture made from the stack, with the metadata of one frame and the largest bit depth.

        Args:
            pixels: ``(H, W, 3)`` or ``(H, W)``, 0..1, of any size.
            alpha: ``(H, W)`` in 0..1, or None when it is opaque everywhere.
            frame: Index of the frame whose metadata it gets.
            own_units: Bring the pixels back to the values of the files; otherwise they stay in 0..1.
        """
        described = self.describe(frame)
        if own_units:
            pixels = self.value_range.from_unit(pixels)
        return replace(described, pixels=pixels, alpha=alpha, bit_depth=self.bit_depth, path=None, page=None)


def _same_for_all(development: Development, frames: Sequence[FrameFile]) -> Development:
    """The development with the white balance of the first RAW file: a camera may have chosen another for each shot."""
    camera = next((frame.header.camera for frame in frames if frame.header.camera is not None), None)
    return development if camera is None or development.balance else replace(development, balance=camera.balance)


def _decode_zarr(frame: FrameFile, max_pixels: int) -> Image:
    """A plane of an OME-Zarr, read now."""
    plane = frame.zarr
    if plane is None:
        raise ValueError("the frame is not in an OME-Zarr")

    def decode() -> Image:
        require_pixels(frame.width, frame.height, max_pixels)
        size = np.dtype(plane.stack.dtype).itemsize
        require_room(frame.width, frame.height, frame.header.channels, size)
        samples = plane.read(slice(0, frame.height), slice(0, frame.width))
        return image_of(DecodedPicture(np.ascontiguousarray(samples, plane.stack.dtype)), frame.path)

    return guarded(frame.path, decode)


def require_promise(frame: FrameFile, image: Image) -> None:
    """Raise InputError when a picture has not the size and the channels of its header."""
    if (image.height, image.width, image.is_colour) != (frame.height, frame.width, frame.is_colour):
        raise InputError(
            f"its header said {frame.width}x{frame.height}, its pixels are {image.width}x{image.height}; "
            "the file is damaged or was changed meanwhile",
            where=frame.place,
            code="damaged-picture",
        )


def _state_of(path: Path) -> tuple[int, ...] | None:
    """What changes when a file does, even when its time is set back; None when it is gone."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _size_of(image: Image) -> int:
    """Bytes of a picture once its pixels have been asked for."""
    return image.height * image.width * (12 if image.is_colour else 4) + (
        0 if image.alpha is None else image.alpha.nbytes
    )


def _without_pixels(image: Image) -> Image:
    return replace(image, pixels=np.zeros((1, 1), np.float32), alpha=None, notices=())
