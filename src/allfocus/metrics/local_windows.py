"""Sliding windows in plain numpy: weighted sums over a small neighbourhood, edges, and local statistics.

``valid`` means: only the positions where the window fits, so the result is smaller than the picture.
``same`` means: as large as the picture, with zeros (or the repeated border) outside. Kernels are not flipped.
Everything here is separable and written as a few shifted additions, except long windows, which go through the FFT.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from allfocus.metrics.grey_levels import Plane

Border = Literal["constant", "edge", "reflect"]
"""What lies outside the picture: zeros, the outermost pixel repeated, or the picture mirrored about it."""


def correlate_valid(plane: Plane, kernel: Plane) -> Plane:
    """Return the plane weighted by ``kernel`` down the columns and along the rows, at the positions where it fits.

    Args:
        plane: (H, W).
        kernel: (K,), the same in both directions.

    Returns:
        (H-K+1, W-K+1).

    Example:
        >>> import numpy as np
        >>> correlate_valid(np.ones((3, 4)), np.array([1.0, 2.0, 1.0]))
        array([[16., 16.]])
    """
    return _correlate_rows(_correlate_rows(plane, kernel).T, kernel).T


def _correlate_rows(plane: Plane, kernel: Plane) -> Plane:
    length = plane.shape[0] - len(kernel) + 1
    total: Plane = kernel[0] * plane[:length]
    for offset in range(1, len(kernel)):
        total += kernel[offset] * plane[offset : offset + length]
    return total


def box_mean_valid(plane: Plane, *, width: int = 8) -> Plane:
    """Return the mean of each ``width`` x ``width`` window that fits; ``width`` is a power of two.

    Sums of two, then of four, then of eight: six additions for an 8x8 window, and exact for whole numbers, so a flat
    window has a variance of exactly zero.

    Example:
        >>> import numpy as np
        >>> box_mean_valid(np.arange(16.0).reshape(4, 4), width=4)
        array([[7.5]])
    """
    total, reach = plane, 1
    while reach < width:
        total = total[:-reach] + total[reach:]
        total = total[:, :-reach] + total[:, reach:]
        reach *= 2
    return total / float(width * width)


def gaussian_kernel(size: int, sigma: float) -> Plane:
    """Return ``size`` samples of a Gaussian bell around the middle one, with sum 1.

    Example:
        >>> gaussian_kernel(3, 1.5).round(4)
        array([0.3078, 0.3844, 0.3078])
    """
    distance = np.arange(size) - (size - 1) / 2
    samples = np.exp(-(distance**2) / (2 * sigma**2))
    kernel: Plane = samples / samples.sum()
    return kernel


def correlate_same(plane: Plane, kernel: Plane) -> Plane:
    """Return the plane weighted by ``kernel`` (odd length) in both directions, same size, zeros outside."""
    return correlate_valid(np.pad(plane, len(kernel) // 2), kernel)


def edge_components(plane: Plane, *, smoothing: float = 2.0, border: Border = "constant") -> tuple[Plane, Plane]:
    """Return the horizontal and the vertical derivative by a 3x3 edge mask, each as large as the plane.

    Args:
        plane: (H, W).
        smoothing: weight of the middle row: 2 gives the Sobel mask, 1 the Prewitt mask. Not normalised.
        border: what lies outside; with "constant" the frame of the picture counts as an edge.

    Returns:
        Right minus left, and below minus above.

    Example:
        >>> import numpy as np
        >>> across, down = edge_components(np.array([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]]))
        >>> across[1], down[:, 1]
        (array([ 2.,  0., -2.]), array([ 2.,  0., -2.]))
    """
    padded = np.pad(plane, 1, mode=border)
    weighted_down = padded[:-2] + smoothing * padded[1:-1] + padded[2:]
    weighted_across = padded[:, :-2] + smoothing * padded[:, 1:-1] + padded[:, 2:]
    return weighted_down[:, 2:] - weighted_down[:, :-2], weighted_across[2:] - weighted_across[:-2]


def edge_strength(plane: Plane, *, smoothing: float = 2.0, border: Border = "constant") -> Plane:
    """Return the length of the gradient at each pixel; options as in :func:`edge_components`."""
    across, down = edge_components(plane, smoothing=smoothing, border=border)
    return np.sqrt(across**2 + down**2)


@dataclass(frozen=True)
class PairStatistics:
    """Local means, variances and covariance of two planes; each field is a plane over the valid window positions."""

    mean_first: Plane
    """Weighted mean of the first plane."""
    mean_second: Plane
    """Weighted mean of the second plane."""
    variance_first: Plane
    """Weighted variance of the first plane, biased (no N/(N-1))."""
    variance_second: Plane
    """The same of the second plane."""
    covariance: Plane
    """Weighted covariance, biased."""

    def similarity(self, luminance_constant: float, contrast_constant: float) -> Plane:
        """Return the structural similarity index of each window, -1..1."""
        product = self.mean_first * self.mean_second
        squares = self.mean_first**2 + self.mean_second**2
        return ((2 * product + luminance_constant) * (2 * self.covariance + contrast_constant)) / (
            (squares + luminance_constant) * (self.variance_first + self.variance_second + contrast_constant)
        )


_FLAT = 1e-8
"""A Gaussian window over whole numbers either is flat or has a variance above 1e-6; below this it is rounding noise."""


class LocalStatistics:
    """Local moments of several planes over one window; each plane is filtered once, however many pairs it is in.

    Made for planes of whole grey levels: a window in which all levels are equal has a variance of exactly zero, as it
    would in exact arithmetic. Without that, ratios of variances of flat windows are noise divided by noise.
    """

    def __init__(self, *, gaussian: tuple[int, float] | None = None) -> None:
        """Choose the window: Gaussian of (size, sigma), or the 8x8 box where none is given."""
        self._kernel = None if gaussian is None else gaussian_kernel(*gaussian)

    def mean(self, plane: Plane) -> Plane:
        """Return the weighted mean of each window."""
        return box_mean_valid(plane) if self._kernel is None else correlate_valid(plane, self._kernel)

    def moments(self, plane: Plane) -> tuple[Plane, Plane, Plane]:
        """Return the plane itself, its local mean and its local variance, ready for :meth:`pair`."""
        mean = self.mean(plane)
        variance = self.mean(plane * plane) - mean * mean
        if self._kernel is not None:
            variance[variance < _FLAT] = 0.0
        return plane, mean, variance

    def pair(self, first: tuple[Plane, Plane, Plane], second: tuple[Plane, Plane, Plane]) -> PairStatistics:
        """Return the statistics of two planes from their :meth:`moments`."""
        covariance = self.mean(first[0] * second[0]) - first[1] * second[1]
        if self._kernel is not None:
            covariance[(first[2] == 0) | (second[2] == 0)] = 0.0
        return PairStatistics(first[1], second[1], first[2], second[2], covariance)


def centred_frequencies(height: int, width: int, *, vertical: float, horizontal: float) -> Plane:
    """Return the radial frequency of every FFT coefficient, zero frequency first, (H, W).

    The axes run from -1 to just below 1 (1 is half the sampling rate) times the given scales.
    """
    # floor(n/2) is the centre for even and odd sizes; dividing by n (not by floor(n/2)) is part of the definitions.
    rows = (np.arange(height) - height // 2) * 2.0 / height * vertical
    columns = (np.arange(width) - width // 2) * 2.0 / width * horizontal
    return np.fft.ifftshift(np.sqrt(rows[:, None] ** 2 + columns[None, :] ** 2))


def fast_length(least: int) -> int:
    """Return the smallest length of at least ``least`` whose only prime factors are 2, 3 and 5, where the FFT is fast.

    Example:
        >>> fast_length(551)
        576
    """
    length = least
    while True:
        rest = length
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
        length += 1
