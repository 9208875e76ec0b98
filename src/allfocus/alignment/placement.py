"""Frames on the grid of their stack: each where its alignment puts it, and the part that all of them show."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.alignment.transforms import warp_picture
from allfocus.errors import InputError
from allfocus.images.filling import fill_from_surroundings
from allfocus.images.image import Image, shows_something

Window = tuple[slice, slice]
"""Rows and columns of a part of a picture."""


class PlacedFrame(NamedTuple):
    """A frame on the grid of its stack."""

    pixels: NDArray[np.float32]
    """(H, W, 3) or (H, W)."""
    valid: NDArray[np.bool_] | None
    """(H, W), where it has pixels; None for everywhere."""
    alpha: NDArray[np.float32] | None
    """(H, W), its own opacity, moved with it; None when it is opaque wherever it has pixels."""
    inside: NDArray[np.bool_] | None = None
    """(H, W), where it reaches on the grid; None for everywhere."""

    def cut(self, area: Window | None) -> "PlacedFrame":
        """The part in a window; None takes all of it."""
        if area is None:
            return self
        return PlacedFrame(
            np.ascontiguousarray(self.pixels[area]),
            None if self.valid is None else self.valid[area],
            None if self.alpha is None else self.alpha[area],
            None if self.inside is None else self.inside[area],
        )


def place_frame(image: Image, alignment: StackAlignment | None, place: int) -> PlacedFrame:
    """A frame where its alignment puts it: the one way in which frames come onto the grid of their stack.

    Args:
        image: The frame as it was read, in 0..1.
        alignment: Where the frames of the stack lie; None leaves them where they are.
        place: Which of the aligned frames it is, from 0.
    """
    pixels = whole_pixels(image)
    valid = None if image.alpha is None else shows_something(image.alpha)
    if alignment is None:
        return PlacedFrame(pixels, valid, image.alpha)
    pixels, inside = alignment.apply(place, pixels)
    transform = alignment.transforms[place]
    if np.array_equal(transform, np.eye(3)):
        return PlacedFrame(pixels, inside if valid is None else valid, image.alpha)
    if image.alpha is None:
        return PlacedFrame(pixels, inside, None, inside)
    moved = warp_picture(image.alpha, transform)
    return PlacedFrame(pixels, inside & shows_something(moved), np.clip(moved, 0, 1), inside)


def common_window(alignment: StackAlignment | None) -> Window | None:
    """The part that all aligned frames show; None where nothing has to be cut off.

    Raises:
        InputError: they have nothing in common.
    """
    if alignment is None or alignment.registered:
        return None
    top, left, bottom, right = alignment.common_area()
    if bottom - top < 1 or right - left < 1:
        raise InputError(
            "the aligned frames have no area in common", hint="{crop=off} to keep their size", code="no-common-area"
        )
    return slice(top, bottom), slice(left, right)


def whole_pixels(image: Image) -> NDArray[np.float32]:
    """The pixels of a picture, with those below its mask filled in from around.

    What a file holds there is mostly black, whose edge would pass for part of the scene when frames are compared, and
    would bleed into the picture when they are moved.
    """
    valid = None if image.alpha is None else shows_something(image.alpha)
    if valid is None or valid.all() or not valid.any():
        return image.pixels
    return fill_from_surroundings(image.pixels, valid.astype(np.float32))
