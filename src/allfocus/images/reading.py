"""A file -> a picture, whatever its format; whatever a decoder raises becomes an error about that file."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

from allfocus.errors import AllfocusError, InputError, MemoryShortageError
from allfocus.files.opening import open_plain
from allfocus.images.camera_colour import Development
from allfocus.images.conversion import image_of
from allfocus.images.decoded import Format
from allfocus.images.decoders import FORMATS, RAW, find_format
from allfocus.images.image import Image
from allfocus.images.limits import MAX_PIXELS
from allfocus.images.raw_decoder import decode_raw

Result = TypeVar("Result")


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
    with errors_about(name):
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
    kind = require_format(file, path)
    if kind is RAW:
        return guarded(path, lambda: image_of(decode_raw(file, page, max_pixels, development), path))
    return guarded(path, lambda: image_of(kind.decode(file, page, max_pixels), path))


@contextmanager
def errors_about(name: str | None) -> Iterator[None]:
    """Errors inside are about the file that is called so; None leaves them as they are."""
    try:
        yield
    except AllfocusError as error:
        if name is not None:
            error.where = name
        raise


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


def require_format(file: BinaryIO, path: Path) -> Format:
    """The format of an open file, by its content.

    Raises:
        InputError: it is empty, or of none that can be read.
    """
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
        # Decoders warn about odd metadata of files that they read well; that is no news for the user.
        with _QUIET:
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


class _Quiet:
    """Inside, there are no warnings: the first thread to come in ends them, the last to leave brings them back.

    ``warnings.catch_warnings`` alone is for one thread: of two that overlap, the second brings back what the first has
    made.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._before = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = warnings.catch_warnings()
                self._before.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._before.__exit__(None, None, None)


_QUIET = _Quiet()
