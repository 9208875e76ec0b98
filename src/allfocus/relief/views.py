"""A picture seen from a little to the left and to the right: stereo pairs and an animation that rocks between the two.

Each view moves pixels sideways by their height, nearer ones farther. A pixel of the view is found by asking which pixel
of the picture ends there (a few steps of ``x = x' - shift(x)``), so that there are no gaps; the height of the middle
stays where it is.
"""

import io
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import MissingDependencyError, OutputError
from allfocus.images.conversion import to_integers
from allfocus.images.filling import fill_from_surroundings

Map = NDArray[np.float32]

STEPS = 6
"""Until the pixel that ends at a place is found."""
VIEWS, SECONDS = 24, 2.4
"""Pictures of one swing to and fro, and how long it takes."""
SWINGS = 4
"""Of a film, which some players do not repeat."""
LARGEST_GIF = 800
"""Pixels of the longer side of an animation; GIF packs badly."""


def view_from(picture: Map, nearness: Map, swing: float) -> Map:
    """Returns the picture (H, W, 3) or (H, W) as it looks from the side.

    Args:
        picture: As it is seen from the front, 0..1.
        nearness: (H, W), 0 the farthest and 1 the nearest; NaN is filled from around.
        swing: How far the nearest and the farthest part move against each other, in pixels; below 0 from the left.

    Example:
        >>> picture = np.zeros((8, 16), np.float32); picture[:, 8] = 1
        >>> view_from(picture, np.ones((8, 16), np.float32), 4.0).argmax(axis=1).tolist()
        [6, 6, 6, 6, 6, 6, 6, 6]
    """
    there = np.isfinite(nearness)
    whole = fill_from_surroundings(np.where(there, nearness, 0).astype(np.float32), there.astype(np.float32))
    # Single pixels at steps of depth would tear.
    shift = cv2.GaussianBlur(cv2.medianBlur(whole, 5), (0, 0), 1.5) * np.float32(swing) - np.float32(swing / 2)
    rows = np.repeat(np.arange(whole.shape[0], dtype=np.float32)[:, None], whole.shape[1], axis=1)
    columns = np.repeat(np.arange(whole.shape[1], dtype=np.float32)[None], whole.shape[0], axis=0)
    from_column = columns.copy()
    for _ in range(STEPS):
        from_column = columns + cv2.remap(shift, from_column, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    seen = cv2.remap(picture, from_column, rows, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(np.clip(seen, 0, 1), np.float32)


def stereo_pair(picture: Map, nearness: Map, swing: float) -> Map:
    """Returns both views side by side (H, 2 W[, 3]), the left eye's on the left, to look at straight ahead."""
    return np.concatenate([view_from(picture, nearness, -swing / 2), view_from(picture, nearness, swing / 2)], axis=1)


def rocking_views(picture: Map, nearness: Map, swing: float) -> Iterator[NDArray[np.uint8]]:
    """Gives the views of one swing to and fro, (H, W, 3) in 8 bits, no side above :data:`LARGEST_GIF`."""
    scale = min(1.0, LARGEST_GIF / max(picture.shape[:2]))
    size = tuple(max(2, round(side * scale) // 2 * 2) for side in picture.shape[1::-1])  # films want even sides
    there = np.isfinite(nearness).astype(np.float32)
    near = fill_from_surroundings(np.nan_to_num(nearness).astype(np.float32), there)
    small, near = (
        np.asarray(cv2.resize(own, size, interpolation=cv2.INTER_AREA), np.float32) for own in (picture, near)
    )
    colours = small if small.ndim == 3 else np.repeat(small[..., None], 3, axis=2)
    for number in range(VIEWS):
        angle = np.sin(2 * np.pi * number / VIEWS)
        view = view_from(colours, near, float(scale * swing * angle))
        yield np.asarray(to_integers(view, 8), np.uint8)


def encode_gif(views: Iterator[NDArray[np.uint8]], path: Path) -> bytes:
    """Returns the views as an animation that goes on for ever."""
    from PIL import Image as PillowImage

    pages = [PillowImage.fromarray(view) for view in views]
    # One palette for all, so that still parts do not flicker.
    palette = pages[0].quantize(255, dither=PillowImage.Dither.NONE)
    pages = [page.quantize(palette=palette, dither=PillowImage.Dither.FLOYDSTEINBERG) for page in pages]
    file = io.BytesIO()
    duration = round(1000 * SECONDS / VIEWS)
    pages[0].save(file, "GIF", save_all=True, append_images=pages[1:], duration=duration, loop=0, optimize=False)
    return file.getvalue()


def encode_webm(views: Iterator[NDArray[np.uint8]], path: Path) -> bytes:
    """Returns the views as a film of four swings, packed as VP9.

    Raises:
        MissingDependencyError: the package av is not installed.
        OutputError: it could not be packed.
    """
    try:
        import av
    except ImportError as error:
        raise MissingDependencyError("films need the package av; install allfocus[film], or write a .gif") from error
    pictures = list(views)
    file = io.BytesIO()
    try:
        with av.open(file, "w", format="webm") as film:
            stream = film.add_stream("libvpx-vp9", rate=Fraction(VIEWS * 10, round(SECONDS * 10)))
            stream.height, stream.width = pictures[0].shape[:2]
            stream.pix_fmt = "yuv420p"
            stream.options = {"crf": "24", "b": "0", "deadline": "good", "cpu-used": "4"}
            for picture in pictures * SWINGS:
                film.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            film.mux(stream.encode())
    except av.FFmpegError as error:
        raise OutputError(f"the film could not be packed ({error}); write a .gif", where=path) from error
    return file.getvalue()
