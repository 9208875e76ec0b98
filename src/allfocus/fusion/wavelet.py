"""Fusion by undecimated wavelets: at every scale and direction the strongest detail wins, wherever the scene lies.

An ordinary wavelet transform keeps every second value, so its fused pictures change when the scene moves by a pixel and
show ripples along edges. This one keeps all values: O. Rockinger, "Image sequence fusion using a shift-invariant
wavelet transform", ICIP 1997. Filters: the cubic spline of J.-L. Starck, J. Fadili and F. Murtagh, "The undecimated
wavelet decomposition and its reconstruction", IEEE Trans. Image Processing 16(2), 2007, whose bands simply add up to
the picture.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.frame_checks import check_frames
from allfocus.fusion.maps import FusedMaps

# Cubic B-spline (Starck, Fadili and Murtagh 2007).
SMOOTHING = np.array([1, 4, 6, 4, 1]) / 16
# Detail is compared by its energy over 3 x 3 neighbours, so that a zero crossing does not hand an edge to a blurred
# frame.
WINDOW = (3, 3)


def fuse_wavelet(frames: Sequence[NDArray[np.float32]], *, levels: int = 5) -> FusedMaps:
    """The picture rebuilt from the strongest wavelet detail, and no decision map: bands choose separately.

    The three colours of a frame are chosen together. What is left below the coarsest detail is averaged.

    Args:
        frames: two or more frames, (H, W, 3) RGB or (H, W), 0..1, of one size.
        levels: scales; each doubles the reach, the fifth sees detail of about 32 pixels.

    Returns:
        The fused picture, shaped like a frame and clipped to 0..1.

    Raises:
        InputError: frames that do not fit together, or levels below 1.

    Example:
        >>> sharp = np.eye(16, dtype=np.float32)
        >>> image, decision, *_ = fuse_wavelet([sharp, sharp])
        >>> bool(np.allclose(image, sharp, atol=1e-6)), decision
        (True, None)
    """
    checked = check_frames(frames)
    if levels < 1:
        raise InputError(f"levels is {levels}; a wavelet transform needs at least 1")
    fused = np.zeros_like(checked[0])
    smooth = list(checked)
    for level in range(levels):
        strongest: list[NDArray[np.float32]] = []
        best: list[NDArray[np.float32]] = []
        for index, current in enumerate(smooth):
            smooth[index], bands = _split(current, spacing=2**level)
            energies = [_energy(band) for band in bands]
            if not best:
                best, strongest = bands, energies
                continue
            for kept, kept_energy, band, energy in zip(best, strongest, bands, energies, strict=True):
                wins = energy > kept_energy
                kept[wins], kept_energy[wins] = band[wins], energy[wins]
        fused += np.sum(best, axis=0)
    fused += np.mean(smooth, axis=0)
    return FusedMaps(np.clip(fused, 0.0, 1.0))


def _split(current: NDArray[np.float32], *, spacing: int) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
    """The smoothed picture, and the horizontal, vertical and diagonal detail that it lacks."""
    along = _smooth(current, spacing=spacing, axis=1)
    across = current - along
    smooth, vertical = _smooth_and_rest(along, spacing=spacing)
    horizontal, diagonal = _smooth_and_rest(across, spacing=spacing)
    return smooth, [horizontal, vertical, diagonal]


def _smooth_and_rest(values: NDArray[np.float32], *, spacing: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The values smoothed down the columns, and what that took away."""
    smooth = _smooth(values, spacing=spacing, axis=0)
    return smooth, values - smooth


def _smooth(values: NDArray[np.float32], *, spacing: int, axis: int) -> NDArray[np.float32]:
    """The values smoothed along one axis by the spline, its taps this many pixels apart; the edge is mirrored."""
    taps = np.zeros((len(SMOOTHING) - 1) * spacing + 1)
    taps[::spacing] = SMOOTHING
    across, down = (taps, np.ones(1)) if axis == 1 else (np.ones(1), taps)
    return np.asarray(cv2.sepFilter2D(values, -1, across, down, borderType=cv2.BORDER_REFLECT), np.float32)


def _energy(band: NDArray[np.float32]) -> NDArray[np.float32]:
    """The energy (H, W) of a band around each pixel, all colours together."""
    squared = band * band
    if squared.ndim == 3:
        squared = squared.sum(axis=2)
    return np.asarray(cv2.boxFilter(squared, -1, WINDOW, borderType=cv2.BORDER_REFLECT), np.float32)
