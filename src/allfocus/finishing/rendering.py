"""A finish applied: the finished picture at full depth, or a piece of it to look at.

The order: spots are healed, the frame is cut, the tones are changed, the size is changed, the scale bar is drawn.
"""

from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.finishing.finish import Finish, Spot, require_number
from allfocus.finishing.framing import Area, Framing, ReadablePicture, cut_frame, cut_piece, find_frame
from allfocus.finishing.healing import heal_spots
from allfocus.finishing.scale_bar import draw_bar
from allfocus.finishing.tones import apply_tones
from allfocus.images.image import Image
from allfocus.images.transfer import Curve, find_curve

Pixels = NDArray[np.float32]


@dataclass(frozen=True)
class OutputSize:
    """How large a finished picture becomes; at most one of the two is given, and none keeps its size."""

    long_side: int | None = None
    """Pixels of the longer side."""
    percent: float | None = None

    def __post_init__(self) -> None:
        if self.long_side is not None and self.percent is not None:
            raise InputError("a size is the longer side or a percentage, not both", code="bad-option")
        if self.long_side is not None:
            require_number("pixels of the longer side", self.long_side, 1, 100_000, whole=True)
        if self.percent is not None:
            require_number("percent of the size", self.percent, 1, 400)

    def of(self, width: int, height: int) -> tuple[int, int]:
        """Width and height of a finished picture that has this size by itself.

        Example:
            >>> OutputSize(long_side=100).of(400, 201), OutputSize(percent=50).of(3, 9)
            ((100, 50), (2, 4))
        """
        scale = 1.0
        if self.long_side is not None:
            scale = self.long_side / max(width, height)
        elif self.percent is not None:
            scale = self.percent / 100
        return max(1, round(width * scale)), max(1, round(height * scale))


def finished_size(finish: Finish, width: int, height: int) -> tuple[int, int]:
    """Width and height of the finished picture of a fused one of this size."""
    frame = find_frame(finish, width, height)
    return frame.width, frame.height


def finish_image(image: Image, finish: Finish, *, size: OutputSize | None = None) -> Image:
    """The finished picture, with the metadata of the other.

    Args:
        image: The fused picture, 0..1.
        finish: What is wanted; one that does nothing gives back the same values.
        size: How large it becomes.

    Raises:
        InputError: the crop reaches beyond the picture, or the scale bar beyond the crop.

    Example:
        >>> image = Image(np.full((4, 6, 3), 0.5, np.float32))
        >>> finish_image(image, Finish(turns=1)).pixels.shape
        (6, 4, 3)
    """
    frame = find_frame(finish, image.width, image.height)
    curve = find_curve(image.icc_profile, image.exif, channels=3 if image.is_colour else 1)
    pixels = _heal_all(image.pixels, finish.spots)
    alpha = image.alpha
    if (frame.width, frame.height) != (image.width, image.height) or finish.turns or finish.angle:
        pixels = cut_frame(pixels, frame)
        alpha = None if alpha is None else cut_frame(alpha, frame)
    pixels = apply_tones(pixels, finish, curve)
    wanted = (size or OutputSize()).of(frame.width, frame.height)
    scale = wanted[0] / frame.width
    if wanted != (frame.width, frame.height):
        pixels = _resize(pixels, wanted)
        alpha = None if alpha is None else _resize(alpha, wanted)
    if finish.scale_bar is not None:
        pixels = pixels.copy() if pixels is image.pixels else pixels
        draw_bar(pixels, finish.scale_bar, size=wanted, scale=scale)
    dots = None
    if image.resolution:
        across, down = image.resolution[::-1] if finish.turns % 2 else image.resolution
        dots = (across * scale, down * scale)
    return replace(image, pixels=np.ascontiguousarray(pixels), alpha=alpha, resolution=dots)


def _heal_all(pixels: Pixels, spots: tuple[Spot, ...]) -> Pixels:
    return heal_spots(pixels, spots, (0, 0, pixels.shape[1], pixels.shape[0])) if spots else pixels


def _resize(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    smaller = size[0] < pixels.shape[1]
    resized = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if smaller else cv2.INTER_CUBIC)
    return np.clip(np.asarray(resized, np.float32).reshape(size[1], size[0], *pixels.shape[2:]), 0, 1)


def finish_piece(
    samples: ReadablePicture,
    finish: Finish,
    frame: Framing,
    area: Area,
    *,
    curve: Curve | None,
    level: int,
    white: float,
) -> Pixels:
    """A piece of the finished picture to look at, float32 in 0..1; spots are healed before.

    Args:
        samples: The fused picture at this level, healed: uint8, uint16, or float32 in 0..1.
        finish: What is wanted.
        frame: Of the full size.
        area: Of the piece, in pixels of the finished picture at this level.
        curve: Of the picture.
        level: How often it is halved.
        white: The stored value that stands for 1 in reduced levels.
    """
    pixels = cut_piece(samples, frame, area, level=level) * np.float32(white if level else 1.0)
    toned = apply_tones(pixels, finish, curve) if finish.has_tones else np.clip(pixels / np.float32(white), 0, 1)
    if finish.scale_bar is not None:
        scale = 2**level
        whole = (-(-frame.width // scale), -(-frame.height // scale))
        draw_bar(toned, finish.scale_bar, size=whole, scale=1 / scale, left=area[0], top=area[1])
    return toned
