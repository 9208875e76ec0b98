"""The thin lens: how large a point out of focus becomes, and the disk blur that draws it.

A point at distance d seen by a lens focused at f is drawn as a disk whose radius grows with |1/f - 1/d| (thin-lens
equation, magnification taken as constant). All functions work on linear light.
"""

import math
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

SHARP_RADIUS = 0.5
"""Disks up to this radius in pixels lie inside one pixel, so they change nothing."""

_ROWS_PER_PIXEL = 32


def blur_radius(distance: ArrayLike, *, focus: float, strength: float) -> NDArray[np.float32]:
    """Return the radius in pixels of the disk that a point at ``distance`` becomes.

    Args:
        distance: Distance of the point, in the units of ``focus``; any shape.
        focus: Distance at which the lens is focused.
        strength: Radius in pixels per unit of |1/focus - 1/distance|: aperture times picture size.

    Returns:
        Radius, float32, with the shape of ``distance``; 0 at the distance of focus.

    Example:
        >>> float(blur_radius(2.0, focus=1.0, strength=10.0))
        5.0
    """
    inverse = np.float32(1.0) / np.asarray(distance, dtype=np.float32)
    radius: NDArray[np.float32] = np.abs(np.float32(1.0 / focus) - inverse) * np.float32(strength)
    return radius


@lru_cache(maxsize=64)
def disk_kernel(radius: float) -> NDArray[np.float32]:
    """Return a disk of ``radius`` pixels as a kernel whose sum is 1 and whose rim is anti-aliased.

    Each value is the share of that pixel's area which the disk covers. A radius up to 0.5 gives the single value 1.

    Args:
        radius: Radius in pixels, 0 or more.

    Returns:
        Kernel (k, k) with odd k, read-only because it is shared between calls.

    Example:
        >>> disk_kernel(0.5).shape, disk_kernel(3.0).shape
        ((1, 1), (7, 7))
    """
    if radius <= SHARP_RADIUS:
        kernel = np.ones((1, 1), dtype=np.float32)
    else:
        reach = math.ceil(radius - 0.5)
        # Exact along x, thirty-two strips per pixel along y: the error of the area stays below 0.1 %.
        strips = (np.arange((2 * reach + 1) * _ROWS_PER_PIXEL) + 0.5) / _ROWS_PER_PIXEL - reach - 0.5
        half_chord = np.sqrt(np.maximum(radius**2 - strips**2, 0.0))[:, None]
        centres = np.arange(-reach, reach + 1)[None, :]
        covered = np.clip(np.minimum(centres + 0.5, half_chord) - np.maximum(centres - 0.5, -half_chord), 0.0, 1.0)
        area = covered.reshape(2 * reach + 1, _ROWS_PER_PIXEL, -1).mean(axis=1)
        area = area + area.T  # equal along both axes, whatever the strips did
        kernel = (area / area.sum()).astype(np.float32)
    kernel.setflags(write=False)
    return kernel


def blur_disk(picture: NDArray[np.float32], radius: float) -> NDArray[np.float32]:
    """Return the picture with every pixel spread over a disk; outside the picture there is nothing (zero).

    Args:
        picture: (H, W) or (H, W, C), linear light; colours premultiplied by their alpha.
        radius: Disk radius in pixels.

    Returns:
        Picture of the same shape. Pad with zeros first to keep what spreads over the border.
    """
    if radius <= SHARP_RADIUS:
        return picture.copy()
    # OpenCV switches to Fourier transforms above 11 x 11, so that large disks cost hardly more than small ones.
    spread = cv2.filter2D(picture, -1, disk_kernel(radius), borderType=cv2.BORDER_CONSTANT)
    # Rounding of the transforms leaves values of about -1e-7 where there is nothing.
    return np.maximum(spread, 0.0, out=spread).astype(np.float32, copy=False)


def radius_levels(largest: float) -> list[float]:
    """Return the disk radii, from sharp to at least ``largest``, between which a varying blur is interpolated.

    Example:
        >>> radius_levels(1.1)
        [0.5, 0.75, 1.0, 1.25]
    """
    levels = [SHARP_RADIUS]
    while levels[-1] < largest:
        levels.append(levels[-1] + max(0.25, 0.15 * levels[-1]))
    return levels


def blur_varying(picture: NDArray[np.float32], radius: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the picture blurred by a disk whose radius differs from pixel to pixel, for surfaces that recede.

    Every output pixel is a mix of the two nearest of a list of disk blurs. A constant picture stays constant away from
    the border, which a sum of separately blurred slices would not give.

    Args:
        picture: (H, W, C), linear light, premultiplied.
        radius: (H, W), disk radius in pixels at each pixel.

    Returns:
        Picture of the same shape.
    """
    height = picture.shape[0]
    blurred = np.zeros_like(picture)
    levels = radius_levels(float(radius.max()))
    # Below the first level everything is sharp.
    position = np.interp(np.maximum(radius, SHARP_RADIUS), levels, np.arange(len(levels))).astype(np.float32)
    for number, level in enumerate(levels):
        weight = np.maximum(0.0, 1.0 - np.abs(position - number))
        reach = math.ceil(level)
        for start, stop in _runs(np.asarray(weight.any(axis=1))):
            top, bottom = max(0, start - reach), min(height, stop + reach)
            band = blur_disk(picture[top:bottom], level)[start - top : stop - top]
            blurred[start:stop] += band * weight[start:stop, :, None]
    return blurred


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (start, stop) of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]
