"""Fusion by Laplacian pyramid, in two variants: at every scale the strongest detail wins.

``laplacian-pyramid`` is the method as the field compares it: P. J. Burt and E. H. Adelson, "The Laplacian pyramid as a
compact image code", IEEE Trans. Communications 31, 1983, with the settings of O. Rockinger's fusion toolbox: 4 levels,
each coefficient of each channel the one with the largest magnitude, the mean of the base. ``laplacian-pyramid-energy``
chooses over a small window and for all colours together: P. J. Burt and R. J. Kolczynski, "Enhanced image capture
through fusion", ICCV 1993. The published one is nearer to the truth for pairs (Real-MFF), the other for stacks.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.frame_checks import check_frames
from allfocus.fusion.maps import FusedMaps

# What the published comparisons use.
PUBLISHED_LEVELS = 4
# With energy, the coarsest level keeps at least this many pixels on its short side. Defocus reaches far: with few
# levels the blurred frames leak into the averaged base as halos.
SMALLEST_BASE = 8
# Detail is compared by its energy over a 3 x 3 neighbourhood (Burt and Kolczynski): single coefficients cross zero on
# every edge, where comparing them alone would pick a frame by chance.
WINDOW = (3, 3)


def fuse_laplacian_pyramid(frames: Sequence[NDArray[np.float32]], *, levels: int = PUBLISHED_LEVELS) -> FusedMaps:
    """The picture rebuilt from the largest coefficients, and no decision map: every coefficient chooses for itself.

    Each channel chooses by itself too. The base, below the coarsest detail, is the mean of the frames. Filtered with
    the kernel 1 4 6 4 1, mirrored about the outermost pixels.

    Args:
        frames: two or more frames, (H, W, 3) RGB or (H, W), 0..1, of one size.
        levels: how many times to halve.

    Returns:
        The fused picture, shaped like a frame and clipped to 0..1.

    Raises:
        InputError: frames that do not fit together, or levels below 1.

    Example:
        >>> left, right = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
        >>> left[4:8, 4:8] = 1
        >>> image, decision, *_ = fuse_laplacian_pyramid([left, right])
        >>> image.shape, decision
        ((16, 16), None)
    """
    checked = check_frames(frames)
    _require_levels(levels)
    # One frame at a time, so that memory does not grow with the length of the stack.
    fused: list[NDArray[np.float32]] = []
    for frame in checked:
        details, base = _decompose(frame, levels=levels)
        share = base / np.float32(len(checked))
        if not fused:
            fused = [*details, share]
            continue
        for kept, detail in zip(fused[:-1], details, strict=True):
            np.copyto(kept, detail, where=np.abs(detail) > np.abs(kept))
        fused[-1] += share
    return FusedMaps(np.clip(_reconstruct(fused), 0.0, 1.0))


def fuse_laplacian_pyramid_energy(frames: Sequence[NDArray[np.float32]], *, levels: int | None = None) -> FusedMaps:
    """The picture rebuilt from the detail with the most energy around it, and no decision map: scales choose alone.

    The three colours of a frame are chosen together, so that no pixel gets a colour that no frame has.
    The base, below the coarsest detail, is the mean of the frames.

    Args:
        frames: two or more frames, (H, W, 3) RGB or (H, W), 0..1, of one size.
        levels: how many times to halve; by default as often as leaves the base a short side of at least 8 pixels.

    Returns:
        The fused picture, shaped like a frame and clipped to 0..1.

    Raises:
        InputError: frames that do not fit together, or levels below 1.

    Example:
        >>> sharp = np.eye(16, dtype=np.float32)
        >>> image, decision, *_ = fuse_laplacian_pyramid_energy([sharp, sharp])
        >>> bool(np.allclose(image, sharp, atol=1e-6)), decision
        (True, None)
    """
    checked = check_frames(frames)
    if levels is None:
        levels = max(1, int(np.log2(max(1, min(checked[0].shape[:2]) / SMALLEST_BASE))))
    _require_levels(levels)
    fused: list[NDArray[np.float32]] = []
    strongest: list[NDArray[np.float32]] = []
    for frame in checked:
        details, base = _decompose(frame, levels=levels)
        if not fused:
            fused, strongest = [*details, base / np.float32(len(checked))], [_energy(detail) for detail in details]
            continue
        for level, detail in enumerate(details):
            energy = _energy(detail)
            wins = energy > strongest[level]
            fused[level][wins] = detail[wins]
            strongest[level][wins] = energy[wins]
        fused[-1] += base / np.float32(len(checked))
    return FusedMaps(np.clip(_reconstruct(fused), 0.0, 1.0))


def _require_levels(levels: int) -> None:
    if levels < 1:
        raise InputError(f"levels is {levels}; a Laplacian pyramid needs at least 1")


def _decompose(frame: NDArray[np.float32], *, levels: int) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
    """The detail of each level, finest first, and the base that is left."""
    details = []
    current = frame
    for _ in range(levels):
        smaller = np.asarray(cv2.pyrDown(current), np.float32)
        details.append(current - _enlarge(smaller, like=current))
        current = smaller
    return details, current


def _reconstruct(pyramid: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The picture whose details, finest first, and base these are."""
    current = pyramid[-1]
    for detail in reversed(pyramid[:-1]):
        current = _enlarge(current, like=detail) + detail
    return current


def _enlarge(smaller: NDArray[np.float32], *, like: NDArray[np.float32]) -> NDArray[np.float32]:
    """The next coarser level brought to the size of this one; odd sizes keep their last row and column."""
    height, width = like.shape[:2]
    return np.asarray(cv2.pyrUp(smaller, dstsize=(width, height)), np.float32)


def _energy(detail: NDArray[np.float32]) -> NDArray[np.float32]:
    """The energy (H, W) of the detail around each pixel, all colours together."""
    squared = detail * detail
    if squared.ndim == 3:
        squared = squared.sum(axis=2)
    return np.asarray(cv2.boxFilter(squared, -1, WINDOW, borderType=cv2.BORDER_REFLECT), np.float32)
