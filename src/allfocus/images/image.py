"""A picture in memory, and a stack of them.

Inside the library a picture is float32 RGB ``(H, W, 3)`` or one channel ``(H, W)`` in 0..1, in the file's own transfer
curve. Only the picture of a floating-point file has the range that the file has; the frames of a stack are brought to
0..1 by one range (:mod:`allfocus.images.value_range`) when they are read for fusion. What the file said besides (alpha,
bit depth, colour profile, EXIF, resolution) travels with it so that it can be written again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.camera_colour import CameraColour


@dataclass(frozen=True, eq=False)
class Image:
    """One picture with what its file said about it.

    Raises:
        InputError: the pixels are not float32 of shape ``(H, W)`` or ``(H, W, 3)``, or alpha is not float32 ``(H, W)``.

    Example:
        >>> import numpy as np
        >>> image = Image(np.zeros((4, 6, 3), np.float32), bit_depth=16)
        >>> image.width, image.height, image.is_colour
        (6, 4, True)
    """

    pixels: NDArray[np.float32]
    """``(H, W, 3)`` RGB or ``(H, W)`` grey, 0..1; in the units of the file if that is floating point."""

    bit_depth: int = 8
    """Bits per channel in the file: 8, 16, or 32 for floating point."""

    icc_profile: bytes | None = None
    """The colour profile of the file, or one made of what it says in other words (the chunks sRGB, gAMA and cHRM of
    PNG, Adobe RGB in EXIF); None when it says nothing."""

    exif: bytes | None = None
    """The EXIF block, beginning with its TIFF header; its orientation is always 1, because it has been applied."""

    path: Path | None = None
    """The file it came from; None for a picture made in memory."""

    page: int | None = None
    """The page of a multi-page file, counted from 0; None for a file with one picture."""

    notices: tuple[str, ...] = ()
    """What was changed while reading (palette expanded, extra channels left out ...), one sentence each."""

    alpha: NDArray[np.float32] | None = None
    """Opacity ``(H, W)`` in 0..1, not multiplied into the pixels; None for a picture that is opaque everywhere."""

    resolution: tuple[float, float] | None = None
    """Dots per inch across and down; None when the file does not say (or says it only in EXIF)."""

    camera: CameraColour | None = None
    """The camera whose own colours the pixels are in, for a DNG; None for colours that the profile describes."""

    def __post_init__(self) -> None:
        shape = self.pixels.shape
        if self.pixels.dtype != np.float32 or not (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)):
            raise InputError(
                f"an Image holds float32 of shape (H, W) or (H, W, 3); found {self.pixels.dtype} of shape {shape}"
            )
        if self.bit_depth not in (8, 16, 32):
            raise InputError(f"bit_depth is 8, 16 or 32; found {self.bit_depth}")
        if self.alpha is not None and (self.alpha.dtype != np.float32 or self.alpha.shape != shape[:2]):
            raise InputError(
                f"alpha is float32 of shape {shape[:2]}; found {self.alpha.dtype} of shape {self.alpha.shape}"
            )

    @property
    def valid(self) -> NDArray[np.bool_] | None:
        """Where the picture shows something: True where alpha is one half or more; None when that is everywhere."""
        return None if self.alpha is None else self.alpha >= 0.5

    @property
    def levels(self) -> NDArray[Any] | None:
        """The integers of the file, uint8 or uint16, whose scaled values the pixels are; None where they are gone."""
        return None

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return int(self.pixels.shape[1])

    @property
    def is_colour(self) -> bool:
        """True for RGB, False for one channel."""
        return self.pixels.ndim == 3

    @property
    def name(self) -> str:
        """How messages call this picture: its file name, with the page (from 1) for a multi-page file."""
        file_name = self.path.name if self.path else "picture"
        return file_name if self.page is None else f"{file_name} page {self.page + 1}"


def shows_something(alpha: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Where a frame with this alpha has pixels, (H, W): where it is one half or more.

    A frame that is less than half opaque everywhere is meant to be seen all the same: of that, what is half as opaque
    as it gets anywhere, or more.

    Example:
        >>> shows_something(np.array([[0.0, 0.2, 0.5, 1.0]], np.float32))
        array([[False, False,  True,  True]])
        >>> shows_something(np.array([[0.0, 0.1, 0.3, 0.4]], np.float32))
        array([[False, False,  True,  True]])
    """
    most = float(alpha.max()) if alpha.size else 0.0
    return (alpha >= min(0.5, most / 2)) & (alpha > 0)


class ImageStack(Sequence[Image]):
    """Two or more pictures of the same size, in the order of the stack.

    Raises:
        InputError: fewer than two pictures, or two that differ in size or in the number of channels (both are named).

    Example:
        >>> import numpy as np
        >>> near, far = (Image(np.full((4, 6), value, np.float32)) for value in (0.25, 0.75))
        >>> stack = ImageStack([near, far])
        >>> len(stack), stack.frames[1][0, 0]
        (2, np.float32(0.75))
    """

    def __init__(self, images: Sequence[Image]) -> None:
        require_stack(images)
        self._images = tuple(images)

    @overload
    def __getitem__(self, index: int) -> Image: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Image]: ...
    def __getitem__(self, index: int | slice) -> Image | Sequence[Image]:
        return self._images[index]

    def __len__(self) -> int:
        return len(self._images)

    def __iter__(self) -> Iterator[Image]:
        return iter(self._images)

    @property
    def frames(self) -> list[NDArray[np.float32]]:
        """The pixels of each picture, ready for ``allfocus.fuse``."""
        return [image.pixels for image in self._images]

    @property
    def names(self) -> list[str]:
        """The name of each picture."""
        return [image.name for image in self._images]

    @property
    def bit_depth(self) -> int:
        """The largest bit depth in the stack, so that nothing is lost when the result is written."""
        return max(image.bit_depth for image in self._images)


class Described(Protocol):
    """What can be checked before it is decoded: a picture, or the place and header of one."""

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def height(self) -> int:
        """Rows of pixels, upright."""
        ...

    @property
    def width(self) -> int:
        """Columns of pixels, upright."""
        ...

    @property
    def is_colour(self) -> bool:
        """True for RGB, False for one channel."""
        ...


def require_stack(images: Sequence[Described]) -> None:
    """Raise InputError unless the pictures can be fused: two or more, all of one size and one number of channels."""
    if not images:
        raise InputError(
            "no frames: give at least two pictures of the same scene, a folder, or one multi-page TIFF",
            code="too-few-frames",
        )
    if len(images) == 1:
        raise InputError(
            f"only one frame ({images[0].name}): a stack needs at least two pictures of the same scene",
            code="too-few-frames",
        )
    for image in images[1:]:
        require_match(images[0], image)


def require_match(first: Described, image: Described) -> None:
    """Raise InputError, naming both, unless a picture has the size and channels of the first of its stack."""
    if (image.height, image.width) != (first.height, first.width):
        raise InputError(
            f"frames differ in size: {first.name} is {first.width}x{first.height}, "
            f"{image.name} is {image.width}x{image.height}; all frames of a stack need the same size",
            code="unequal-frames",
        )
    if image.is_colour != first.is_colour:
        kinds = {True: "colour", False: "grey"}
        raise InputError(
            f"frames differ in channels: {first.name} is {kinds[first.is_colour]}, "
            f"{image.name} is {kinds[image.is_colour]}; convert one of them",
            code="unequal-frames",
        )
