"""Files -> pictures: one file, or the frames of a stack from files, folders, patterns or a multi-page TIFF.

A stack can be read whole (:func:`read_stack`) or frame by frame (:func:`open_stack`), which looks at every header
first, so that a frame that does not fit is found before any pixel is decoded, and then holds one frame at a time.
"""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import AllfocusError, InputError, MemoryShortageError
from allfocus.files.opening import open_plain
from allfocus.images.camera_colour import Development
from allfocus.images.conversion import image_of
from allfocus.images.decoded import DecodedPicture, Format, Header, require_pixels
from allfocus.images.decoders import FORMATS, RAW, find_format
from allfocus.images.hot_pixels import fill_hot_pixels, spread
from allfocus.images.image import Image, ImageStack, require_match, require_stack
from allfocus.images.limits import MAX_PIXELS
from allfocus.images.listing import SUFFIXES, Paths, list_files, natural_order, split_pairs
from allfocus.images.memory import require_room
from allfocus.images.ome_zarr_files import ZarrPlane
from allfocus.images.raw_decoder import decode_raw
from allfocus.images.transfer import Curve, find_curve
from allfocus.images.value_range import UNIT, ValueRange, common_range, extremes_of
from allfocus.images.video import VideoReader, choose_frames, is_video

__all__ = [
    "MAX_PIXELS",
    "SUFFIXES",
    "FrameCorrections",
    "FrameFile",
    "Paths",
    "StackReader",
    "decode_picture",
    "guarded",
    "list_files",
    "list_frames",
    "natural_order",
    "open_stack",
    "read_headers",
    "read_image",
    "read_stack",
    "too_few_frames",
    "with_file",
]

Result = TypeVar("Result")


@dataclass(frozen=True)
class FrameFile:
    """Where one frame of a stack lies, and what its header says, before it is read."""

    path: Path
    """The file."""

    header: Header
    """Size, channels and bit depth, as the file promises them."""

    called: str | None = None
    """What messages call the file, where that is not its own name."""

    label: str | None = None
    """What messages call the frame, where its number in the file says little."""

    zarr: ZarrPlane | None = None
    """Where it lies in an OME-Zarr, which the path is then."""

    of_video: bool = False
    """Whether it is a frame of a video, which the path is then."""

    @property
    def page(self) -> int:
        """The page of a multi-page file, from 0."""
        return self.header.page

    @property
    def name(self) -> str:
        """How messages call this frame: its file name, with the page (from 1) for a multi-page file."""
        if self.label is not None and self.called is None:
            return self.label
        name = self.called or self.path.name
        kind = "frame" if self.of_video else "page"
        return name if self.header.pages == 1 else f"{name} {kind} {self.page + 1}"

    @property
    def place(self) -> str:
        """Where an error says that it happened: the path, or what the frame is called instead."""
        return str(self.path) if self.called is None else self.name

    @property
    def height(self) -> int:
        """Rows of pixels, upright."""
        return self.header.size[0]

    @property
    def width(self) -> int:
        """Columns of pixels, upright."""
        return self.header.size[1]

    @property
    def is_colour(self) -> bool:
        """True for RGB, False for one channel."""
        return self.header.channels == 3


def read_image(
    path: str | os.PathLike[str],
    *,
    page: int = 0,
    max_pixels: int = MAX_PIXELS,
    name: str | None = None,
    development: Development | None = None,
) -> Image:
    """One picture as float32, upright, with its alpha, bit depth, colour profile, EXIF and resolution.

    Values are in 0..1, except those of a floating-point TIFF, which are as the file has them, whatever their range.

    The format is recognised by the content of the file, not by its name: JPEG, PNG and TIFF with 8 or 16 bits, TIFF
    with floating point values, WebP, BMP; camera RAW with the extra ``raw``, HEIF with pillow-heif. EXIF
    orientation is applied, and marked as applied.

    Args:
        path: The file.
        page: The page of a multi-page TIFF, from 0.
        max_pixels: Refuse a picture with more pixels than this (a decompression bomb, or a mistake).
        name: What errors call the file, where that is not its path.
        development: How to develop a camera RAW file; by default to sRGB.

    Raises:
        InputError: the file is missing, unreadable, truncated, damaged, too large, or no picture.
        MissingDependencyError: the format needs a package that is not installed.

    Example:
        >>> import tempfile, numpy as np
        >>> from allfocus.images.writing import write_image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = write_image(np.full((4, 6, 3), 1000 / 65535, np.float32), folder + "/a.png", bit_depth=16)
        ...     image = read_image(written)
        >>> image.bit_depth, round(float(image.pixels[0, 0, 0]) * 65535)
        (16, 1000)
    """
    path = Path(path)
    with _called(name):
        return with_file(
            path,
            lambda file: decode_picture(file, path, page=page, max_pixels=max_pixels, development=development),
        )


def decode_picture(
    file: BinaryIO,
    path: Path,
    *,
    page: int = 0,
    max_pixels: int = MAX_PIXELS,
    development: Development | None = None,
) -> Image:
    """The same as :func:`read_image` from an open file; ``path`` is only the name it goes by."""
    kind = _require_format(file, path)
    if kind is RAW:
        return guarded(path, lambda: image_of(decode_raw(file, page, max_pixels, development), path))
    return guarded(path, lambda: image_of(kind.decode(file, page, max_pixels), path))


def read_headers(file: BinaryIO, path: Path) -> list[FrameFile]:
    """The frames in an open file by its headers alone; ``path`` is the name it goes by."""
    kind = _require_format(file, path)
    headers = guarded(path, lambda: kind.read_headers(file))
    return [FrameFile(path, header) for header in headers]


def list_frames(paths: Paths) -> list[FrameFile]:
    """Where each frame of a stack lies, in the order of the stack, without decoding pixels.

    Args:
        paths: Files, folders, patterns (``"shots/DSC*.tif"``), or multi-page TIFF files. Files named one by one keep
            their order; the pictures of a folder or pattern come in natural order of their names (``a2`` before
            ``a10``), the pages of a file in theirs.

    Raises:
        InputError: a path is missing, a folder holds no picture, or a file is no picture.
    """
    return [frame for path in list_files(paths) for frame in _frames_of(path)]


@dataclass(frozen=True, eq=False)
class FrameCorrections:
    """What is wrong with every frame of a stack alike, and taken out of each when it is read."""

    dark: NDArray[np.float32] | None = None
    """A picture taken without light, of the size of the frames, 0..1 in their curve."""
    hot: NDArray[np.bool_] | None = None
    """(H, W): pixels that are filled from those around them."""
    sensor_hot: NDArray[np.bool_] | None = None
    """The same on the sensor, for RAW files, before they are developed."""
    files: tuple[Path, ...] = ()
    """What they were read from; none of it may be written."""

    def apply(self, image: Image) -> Image:
        """A frame without the dark current and the hot pixels."""
        pixels = image.pixels
        if self.dark is not None:
            curve = find_curve(image.icc_profile, image.exif, channels=3 if image.is_colour else 1)
            # The sensor adds its own current to the light, so it is taken away in linear light where that is known.
            if curve is None or curve.is_linear:
                pixels = np.maximum(pixels - self.dark, 0)
            else:
                light = np.maximum(curve.to_linear(pixels) - curve.to_linear(self.dark), 0)
                pixels = curve.from_linear(light)
        if self.hot is not None:
            pixels = fill_hot_pixels(pixels, spread(self.hot), reach=3)
        return replace(image, pixels=np.ascontiguousarray(pixels, np.float32))


class StackReader:
    """The frames of a stack, decoded one at a time when asked for.

    The last frame read is kept, so that asking twice in a row costs nothing; the frame before it is let go. With
    ``keep_bytes``, the first frames that are read and fit into so many bytes are kept until :meth:`release`.
    """

    def __init__(
        self,
        frames: Sequence[FrameFile],
        *,
        max_pixels: int = MAX_PIXELS,
        keep_bytes: int = 0,
        files: Sequence[Path] | None = None,
        development: Development | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        require_stack(frames)
        self.notices = tuple(notices)
        """What was found when the stack was opened, one sentence each."""
        self.frames = tuple(frames)
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
        image = self.decode(frame)
        _require_promise(frame, image)
        if not values.is_unit:
            image = replace(image, pixels=values.to_unit(image.pixels))
        self._require_unchanged(frame)
        if self._corrections is not None:
            image = self._corrections.apply(image)
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

    def decode(self, frame: FrameFile) -> Image:
        """A frame as its file has it, in units of its own; nothing is kept."""
        if frame.zarr is not None:
            return _decode_zarr(frame, self._max_pixels)
        name = None if frame.called is None else frame.name
        if frame.of_video:
            video = self._videos.setdefault(frame.path, VideoReader(frame.path, max_pixels=self._max_pixels))
            with _called(name):
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

    def only(self, kept: Sequence[int]) -> "StackReader":
        """The same stack with these frames alone; none of the files that were given may be written all the same."""
        chosen = StackReader(
            [self.frames[index] for index in kept],
            max_pixels=self._max_pixels,
            files=self.files,
            development=self._development,
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


def too_few_frames(kept: Sequence[str], left_out: Mapping[str, str]) -> InputError:
    """The error for a stack of which fewer than two frames can be used.

    Args:
        kept: Names of the frames that can be used.
        left_out: Names of those that cannot, with the reason.

    Example:
        >>> print(too_few_frames(["a.png"], {"b.png": "is damaged"}))
        of 2 frames only a.png can be used, and a stack needs two; left out: b.png: is damaged
    """
    shown = [reason if name in reason else f"{name}: {reason}" for name, reason in list(left_out.items())[:2]]
    more = f"; and {len(left_out) - 2} more" if len(left_out) > 2 else ""
    usable = f"only {kept[0]} can be used" if kept else "none can be used"
    total = len(kept) + len(left_out)
    return InputError(
        f"of {total} frames {usable}, and a stack needs two; left out: {'; '.join(shown)}{more}",
        code="too-few-frames",
    )


def open_stack(
    paths: Paths,
    *,
    names: Sequence[str] | None = None,
    max_pixels: int = MAX_PIXELS,
    keep_bytes: int = 0,
    on_bad_frame: Callable[[str, InputError], None] | None = None,
    development: Development | None = None,
    pairs: str = "raw",
) -> StackReader:
    """The frames of a stack, checked by their headers and ready to be decoded one at a time.

    Args:
        paths: Files, a folder, a pattern, one multi-page TIFF, or a video of a focus sweep, of which the needed frames
            are taken; see :func:`list_frames` for their order.
        names: How messages call each file, where that is not its own name; errors then name no path.
        max_pixels: Refuse a frame with more pixels than this.
        keep_bytes: How much of what is decoded may be kept, so that it is not decoded twice.
        on_bad_frame: Called with the name and the error of each frame that cannot be read or does not fit the first
            one, which is then left out; None stops at the first of them. (Damage behind the header shows only when
            the frame is read.)
        development: How to develop camera RAW files: the white balance of the first frame serves all of them.
        pairs: Which of a RAW and a JPEG file of the same shot is taken: "raw" or "jpeg".

    Raises:
        InputError: fewer than two frames, frames of different size (both are named), or a file that cannot be read.

    Example:
        >>> import tempfile, numpy as np
        >>> from allfocus.images.writing import write_image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number in (10, 9):
        ...         _ = write_image(np.zeros((4, 6), np.float32), f"{folder}/frame{number}.png", bit_depth=16)
        ...     stack = open_stack(folder)
        ...     stack.names, stack.size, stack.channels, stack.bit_depth, stack.read(1).width
        (['frame9.png', 'frame10.png'], (4, 6), 1, 16, 6)
    """
    kept: list[FrameFile] = []
    left_out: dict[str, str] = {}

    def leave_out(name: str, error: InputError) -> None:
        if on_bad_frame is None:
            raise error
        left_out[name] = str(error)
        on_bad_frame(name, error)

    files = list_files(paths)
    if names is not None and len(names) != len(files):
        raise ValueError(f"{len(names)} names were given for {len(files)} files")
    taken, passed = split_pairs(files if names is None else list(map(Path, names)), pairs)
    for number, path in ((number, files[number]) for number in taken):
        called = None if names is None else names[number]
        try:
            with _called(called):
                found = [replace(frame, called=called) for frame in _frames_to_fuse(path, max_pixels)]
        except InputError as error:
            leave_out(called or path.name, error)
            continue
        for frame in found:
            try:
                _accept(frame, kept, max_pixels)
            except InputError as error:
                leave_out(frame.name, error)
    if left_out and len(kept) < 2:
        raise too_few_frames([frame.name for frame in kept], left_out)
    return StackReader(
        kept,
        max_pixels=max_pixels,
        keep_bytes=keep_bytes,
        files=files,
        development=development,
        notices=[*([_tell_pairs(len(passed), pairs)] if passed else []), *_tell_videos(kept)],
    )


def _tell_videos(frames: Sequence[FrameFile]) -> list[str]:
    videos = {frame.path: frame.header.pages for frame in frames if frame.of_video}
    return [
        f"{path.name}: {sum(frame.path == path for frame in frames)} of {pages} frames are taken, by sharpness"
        for path, pages in videos.items()
    ]


def _tell_pairs(count: int, pairs: str) -> str:
    taken, other = ("RAW", "JPEG or HEIF") if pairs == "raw" else ("JPEG or HEIF", "RAW")
    shots = "1 shot lies" if count == 1 else f"{count} shots lie"
    return f"{shots} here as RAW and as JPEG or HEIF; the {taken} files are taken, the {other} files passed over"


def _same_for_all(development: Development, frames: Sequence[FrameFile]) -> Development:
    """The development with the white balance of the first RAW file: a camera may have chosen another for each shot."""
    camera = next((frame.header.camera for frame in frames if frame.header.camera is not None), None)
    return development if camera is None or development.balance else replace(development, balance=camera.balance)


def _accept(frame: FrameFile, kept: list[FrameFile], max_pixels: int) -> None:
    """Adds a frame to those that are kept, if it is not too large and fits the first of them."""
    with _called(frame.place):
        require_pixels(frame.width, frame.height, max_pixels)  # knows no place of its own
    if kept:
        require_match(kept[0], frame)
    kept.append(frame)


@contextmanager
def _called(name: str | None) -> Iterator[None]:
    """Errors inside are about the file that is called so; None leaves them as they are."""
    try:
        yield
    except AllfocusError as error:
        if name is not None:
            error.where = name
        raise


def read_stack(
    paths: Paths,
    *,
    max_pixels: int = MAX_PIXELS,
    progress: Callable[[int, int], None] | None = None,
) -> ImageStack:
    """The frames of a stack, all of one size, all in memory; of a RAW and a JPEG file of one shot the RAW file.

    Args:
        paths: Files, a folder, a pattern, or one multi-page TIFF; see :func:`list_frames` for their order.
        max_pixels: Refuse a frame with more pixels than this.
        progress: Called with (frames read, frames in all) after each frame.

    Raises:
        InputError: fewer than two frames, frames of different size (both are named), or a file that cannot be read.

    Example:
        >>> import tempfile, numpy as np
        >>> from allfocus.images.writing import write_image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number in (10, 9):
        ...         _ = write_image(np.zeros((4, 6), np.float32), f"{folder}/frame{number}.png")
        ...     stack = read_stack(folder)
        >>> stack.names
        ['frame9.png', 'frame10.png']
    """
    reader = open_stack(paths, max_pixels=max_pixels)
    images: list[Image] = []
    for frame in reader.frames:
        image = reader.decode(frame)
        _require_promise(frame, image)
        images.append(image)
        if progress:
            progress(len(images), reader.count)
    return ImageStack(images)


def _frames_to_fuse(path: Path, max_pixels: int) -> list[FrameFile]:
    """The frames in a file; of a video those that are needed."""
    if not is_video(path):
        return _frames_of(path)
    headers = guarded(path, lambda: choose_frames(path, max_pixels=max_pixels))
    return [FrameFile(path, header, of_video=True) for header in headers]


def _frames_of(path: Path) -> list[FrameFile]:
    return with_file(path, lambda file: read_headers(file, path))


def with_file(path: Path, action: Callable[[BinaryIO], Result]) -> Result:
    """What an action gives on a file that is opened for it.

    Raises:
        InputError: it cannot be opened.
    """
    try:
        with open_plain(path) as file:
            return action(file)
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror}); check that it is a readable file", where=path, code="unreadable-file"
        ) from error


def _require_format(file: BinaryIO, path: Path) -> Format:
    if not file.seek(0, os.SEEK_END):
        raise InputError("the file is empty", where=path, code="not-a-picture")
    found = guarded(path, lambda: find_format(file))
    if found is None:
        known = ", ".join(candidate.name for candidate in FORMATS)
        raise InputError(f"not a picture that can be read; {known} are", where=path, code="not-a-picture")
    return found


def guarded(path: Path, action: Callable[[], Result]) -> Result:
    """What an action on a file gives; whatever a decoder raises becomes an error about that file."""
    try:
        with warnings.catch_warnings():
            # Decoders warn about odd metadata of files that they read well; that is no news for the user.
            warnings.simplefilter("ignore")
            return action()
    except AllfocusError as error:
        error.set_place(path)
        raise
    except MemoryError as error:
        raise MemoryShortageError(
            "there is not enough memory to read it; close other programs, or use smaller frames", where=path
        ) from error
    except Exception as error:
        # A decoder that is fed a damaged file may raise anything at all; to the user they all mean the same.
        detail = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"the file is truncated or damaged ({detail[:160]}); copy it again", where=path, code="damaged-picture"
        ) from error


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


def _require_promise(frame: FrameFile, image: Image) -> None:
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
    return image.pixels.nbytes + (0 if image.alpha is None else image.alpha.nbytes)


def _without_pixels(image: Image) -> Image:
    return replace(image, pixels=np.zeros((1, 1), np.float32), alpha=None, notices=())
