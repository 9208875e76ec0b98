"""A frame in the form in which it is compared: octaves of its light, as they are and divided by their strength.

Two frames that are focused at different distances differ most where they carry most detail, so their values cannot be
compared as they are. Within an octave a blur with a symmetric kernel weakens the detail but leaves it in place.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.brightness import light_and_slope
from allfocus.alignment.transforms import Matrix

Plane = NDArray[np.float32]

WORKING_PIXELS = 1_000_000
"""Frames are reduced to about this many pixels for the estimation. Twice as many helped
little when only phases were matched (median error at 3000 x 2000: desk 0.08 instead of 0.10, insect the same, flat
worse)."""

SMALLEST_SIDE = 24
"""Pixels of the shorter side of the coarsest octave; below that nothing is left to match."""

THUMBNAIL_SIDE = 160
"""Pixels of the longer side of what brightness is compared on."""

BLOCK = 16
"""Side of the blocks, in pixels of each octave, that are measured one by one."""

_BAND_NOISE = 0.25
"""Share of a pixel's noise variance that an octave of two frames together keeps, and some more to be safe."""

_STEP_SHARE = 0.5
"""Part of a step between two levels of the file below which detail is not believed. In smooth areas the steps are
outlines of equal brightness, not noise: they move when the exposure changes (measured on one pair of the scene "flat":
0.76 pixel of error with them, 0.06 without)."""


@dataclass(frozen=True, eq=False)
class PreparedFrame:
    """A frame in the form in which it is compared, and a thumbnail for its brightness."""

    octaves: tuple[Plane, ...]
    """(H, W) each, finest first and each half the size of the one before, about -2..2, 0 where there is no content:
    detail divided by its local strength."""

    bands: tuple[Plane, ...]
    """The same octaves before the division."""

    noises: tuple[Plane, ...]
    """(H // BLOCK, W // BLOCK) for each octave: mean square of what noise and file levels may add to a band there."""

    scale: float
    """Pixels of the finest octave per pixel of the frame, at most 1."""

    size: tuple[int, int]
    """Height and width of the frame."""

    from_thumbnail: Matrix
    """Pixels of the thumbnail to pixels of the frame."""

    thumbnail: Plane
    """(h, w) or (h, w, 3), the frame reduced to at most ``THUMBNAIL_SIDE`` pixels a side, in linear light."""

    blank: bool
    """True when the frame has nothing to match: one even tone, or noise below the step of its file."""


def prepare_frame(frame: NDArray[np.float32], *, working_pixels: int = WORKING_PIXELS) -> PreparedFrame:
    """The octaves of a frame, in which it can be compared with frames of another focus.

    Values are taken to carry the sRGB curve, as those of nearly all photographs do, and are turned into light first: a
    lens blurs light, and on the curve the middle of a blurred edge is not where the edge is (measured: up to half a
    pixel of error between neighbours).

    Args:
        frame: (H, W, 3) or (H, W), 0..1; values in a small part of that range are as good.
        working_pixels: Reduce the frame to about this many pixels first.
    """
    height, width = frame.shape[:2]
    scale = min(1.0, float(np.sqrt(working_pixels / (height * width))))
    small = frame if scale == 1.0 else cv2.resize(frame, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    small = np.asarray(small, np.float32)
    shrink = min(1.0, THUMBNAIL_SIDE / (scale * max(height, width)))
    noise, step = _noise(_grey(small)), _file_step(frame)
    light, slope = light_and_slope(small)
    thumbnail = np.asarray(cv2.resize(light, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA), np.float32)
    grey, steep = _grey(light), _grey(slope)
    low, high = (float(value) for value in np.percentile(grey[::4, ::4], [0.5, 99.5]))
    blank = not high - low > 1e-6 or high - low < 3 * noise * float(steep.mean())
    unit = np.float32(1.0 / max(high - low, 1e-6))
    octaves, bands, noises = _octaves(
        (grey - np.float32(low)) * unit, steep * (np.float32(noise) * unit), steep * (np.float32(step) * unit)
    )
    return PreparedFrame(
        octaves, bands, noises, scale, (height, width), thumbnail_to_frame(shrink * scale), thumbnail, blank
    )


def to_working(scale: float) -> Matrix:
    """From pixels of a frame to those of the frame reduced by a factor: centres of areas, not corners, correspond.

    Example:
        >>> (to_working(0.5) @ np.array([0.5, 0.5, 1.0])).tolist()
        [0.0, 0.0, 1.0]
    """
    shift = 0.5 * scale - 0.5
    return np.array([[scale, 0.0, shift], [0.0, scale, shift], [0.0, 0.0, 1.0]])


def thumbnail_to_frame(shrink: float) -> Matrix:
    """The matrix from pixels of a picture reduced by a factor to pixels of the full one: areas correspond."""
    return np.asarray(np.linalg.inv(to_working(shrink)), np.float64)


def block_sums(plane: Plane) -> Plane:
    """(H // BLOCK, W // BLOCK): the sum of each block; what is left over at the right and the bottom is dropped."""
    rows, columns = plane.shape[0] // BLOCK, plane.shape[1] // BLOCK
    whole = plane[: rows * BLOCK, : columns * BLOCK]
    means = cv2.resize(whole, (columns, rows), interpolation=cv2.INTER_AREA)
    return np.asarray(means, np.float32) * np.float32(BLOCK * BLOCK)


def _grey(picture: Plane) -> Plane:
    if picture.ndim == 2:
        return picture
    return np.asarray(cv2.transform(picture, np.full((1, 3), 1 / 3)), np.float32)


def _noise(grey: Plane) -> float:
    """Standard deviation of the noise: the median of the finest differences, which most places owe to noise alone."""
    fine = grey[1:-1, 1:-1] * 4 - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:]
    return float(np.median(np.abs(fine[::4, ::4]))) / 0.6745 / float(np.sqrt(20.0)) if fine.size else 0.0


def _file_step(frame: NDArray[np.float32]) -> float:
    """The distance of two levels of the file: that of 8 bits if all values (of a sample) are such levels, or of 16."""
    values = frame[::13, ::7].astype(np.float64) * 255
    return 1 / 255 if float(np.abs(values - np.rint(values)).max()) < 1e-3 else 1 / 65535


def _octaves(
    grey: Plane, uncertain: Plane, step: Plane
) -> tuple[tuple[Plane, ...], tuple[Plane, ...], tuple[Plane, ...]]:
    """Octaves of detail divided by their local strength, the octaves themselves, and the noise of their blocks."""
    bands: list[Plane] = []
    powers: list[Plane] = []
    floors: list[Plane] = []
    noises: list[Plane] = []
    while True:
        band = np.asarray(cv2.GaussianBlur(grey, (0, 0), 0.9) - cv2.GaussianBlur(grey, (0, 0), 2.5), np.float32)
        # Pixels near the border were made with mirrored ones, which stay where they are when the picture moves.
        band[:3], band[-3:], band[:, :3], band[:, -3:] = 0, 0, 0, 0
        power = np.asarray(cv2.GaussianBlur(band * band, (0, 0), 5.0), np.float32)
        random, steps = cv2.blur(uncertain * uncertain, (15, 15)), step * step * np.float32(_STEP_SHARE**2)
        bands.append(band)
        powers.append(power)
        floors.append(random + steps + np.float32(0.02 * power.mean() + 1e-9))
        if min(grey.shape) >= BLOCK:
            share = random * np.float32(_BAND_NOISE) + steps * np.float32(0.5)
            noises.append(block_sums(share) / np.float32(BLOCK * BLOCK))
        if min(grey.shape) < 2 * SMALLEST_SIDE:
            break
        grey = np.asarray(cv2.pyrDown(grey), np.float32)
        uncertain = np.asarray(cv2.pyrDown(uncertain), np.float32) / np.float32(2)  # noise averages out
        step = np.asarray(cv2.pyrDown(step), np.float32)  # outlines do not
    phases = []
    for level, (band, power, floor) in enumerate(zip(bands, powers, floors, strict=True)):
        # Detail that is much weaker than that of the next octave is what a strong blur has left over: outlines of the
        # lens opening, which do not stay in place from frame to frame. Divided by both strengths it remains small.
        beyond = powers[min(level + 1, len(powers) - 1)]
        coarser = cv2.resize(beyond, (band.shape[1], band.shape[0]), interpolation=cv2.INTER_LINEAR)
        phases.append(np.asarray(band / np.sqrt(power + coarser + floor), np.float32))
    return tuple(phases), tuple(bands), tuple(noises)
