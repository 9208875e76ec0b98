"""Pictures on a page: smaller, embedded as text, as maps of a difference, with outlines over them."""

import base64
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.images.image import Image
from allfocus.images.writing import encode_webp, to_integers

Pixels = NDArray[np.float32]
"""(H, W) or (H, W, 3), 0..1."""
Window = tuple[int, int, int, int]
"""Top, left, height, width in pixels."""

LARGEST_SIDE = 640
"""Pixels a side that a picture keeps on a page unless it is asked for larger."""

# Black, violet, orange, light yellow: rises evenly in lightness, so that it also reads in grey.
_HEAT = np.array([[0, 0, 4], [61, 15, 107], [140, 41, 129], [222, 73, 104], [254, 159, 109], [252, 253, 191]]) / 255


def data_address(picture: Pixels, *, quality: int) -> str:
    """The picture as WebP in an address that a page can hold, so that it needs no other file.

    Example:
        >>> data_address(np.zeros((4, 4, 3), np.float32), quality=80)[:23]
        'data:image/webp;base64,'
    """
    image = Image(in_colour(picture))
    data = encode_webp(to_integers(image.pixels, 8), image, quality)
    return "data:image/webp;base64," + base64.b64encode(data).decode("ascii")


def draw_windows(windows: Sequence[Window], size: tuple[int, int]) -> str:
    """Outlines of parts of a picture, to be put behind its ``<img>`` in an element of the class ``frame``.

    Args:
        windows: In pixels of the picture.
        size: Height and width of the picture.
    """
    height, width = size
    return "".join(
        f'<i class="window" style="top:{100 * top / height:.2f}%;left:{100 * left / width:.2f}%;'
        f'height:{100 * tall / height:.2f}%;width:{100 * wide / width:.2f}%"></i>'
        for top, left, tall, wide in windows
    )


def shrink(picture: Pixels, largest_side: int = LARGEST_SIDE) -> Pixels:
    """The picture with no side above a limit; smaller ones are returned as they are."""
    height, width = picture.shape[:2]
    scale = largest_side / max(height, width)
    if scale >= 1:
        return picture
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.float32)


def crop(picture: Pixels, window: Window) -> Pixels:
    """The part of a picture in a window."""
    top, left, height, width = window
    return picture[top : top + height, left : left + width]


def difference_map(picture: Pixels, against: Pixels) -> NDArray[np.float32]:
    """How far each pixel is from another picture: (H, W), the mean over the channels, 0..1."""
    first, second = in_colour(picture), in_colour(against)
    difference: NDArray[np.float32] = np.abs(first - second).mean(axis=2).astype(np.float32)
    return difference


def common_scale(differences: Sequence[NDArray[np.float32]]) -> float:
    """The difference shown brightest: one for all maps, so that they compare; not so small that noise glows."""
    if not differences:
        return 1.0
    typical = float(np.median([np.percentile(difference, 99.5) for difference in differences]))
    return max(typical, 6 / 255)


def heat_picture(values: NDArray[np.float32], *, largest: float) -> Pixels:
    """Values as colours from black (0) over violet and orange to light yellow (``largest`` and above)."""
    positions = np.linspace(0, 1, len(_HEAT))
    scaled = np.clip(values / largest, 0, 1)
    return np.stack([np.interp(scaled, positions, _HEAT[:, channel]) for channel in range(3)], axis=2).astype(
        np.float32
    )


def in_colour(picture: Pixels) -> Pixels:
    """The picture (H, W, 3); one of one channel is repeated."""
    return picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
