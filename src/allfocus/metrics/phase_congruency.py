"""Q_P: how well the features of the sources (edges, lines, corners, found by phase congruency) are kept.

J. Zhao, R. Laganiere, Z. Liu, "Performance assessment of combinative pixel-level image fusion based on an absolute
feature measurement", International Journal of Innovative Computing, Information and Control 3 (6), 2007. Phase
congruency after P. Kovesi, "Image features from phase congruency", Videre 1 (3), 1999.

A feature is where the waves of many lengths are in step, whatever the contrast. Log-Gabor filters of four wavelengths
and six orientations give the waves; three maps of each picture (phase congruency, its largest and its smallest moment)
are compared by local correlation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple
from allfocus.metrics.local_windows import correlate_same, gaussian_kernel

_SCALES = 4
_ORIENTATIONS = 6
_SHORTEST_WAVE = 3.0
_WAVE_STEP = 2.1
_BANDWIDTH = 0.55
_ANGULAR_SPREAD = np.pi / _ORIENTATIONS / 1.2
_NOISE_DEVIATIONS = 2.0
_TINY = 1e-4
_FEATURE = 0.1
"""Phase congruency above which a pixel belongs to a feature."""


def phase_congruency_quality(fused: Picture, sources: Sequence[Picture]) -> float:
    """Return Q_P, about 0..1: the product of the feature correlations of three maps; higher is better.

    Per pixel the best of the correlations with each source and with the strongest of them counts. Sources without any
    feature have none to lose: 1. Identical pictures do not give exactly 1, because only the sources are masked.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1; at least 2x2 pixels.
        sources: two or more pictures of the same size.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> board = (np.indices((48, 48)).sum(axis=0) // 12 % 2 * 255).astype(np.uint8)
        >>> 0.95 < phase_congruency_quality(board, [board, board]) < 1.05
        True
    """
    fused_levels, source_levels = grey_triple(fused, sources, metric="Q_P", smallest=2)
    bank = _filter_bank(*fused_levels.shape)
    of_fused = _feature_maps(fused_levels, bank)
    of_sources = [_feature_maps(levels, bank) for levels in source_levels]
    strongest = of_sources[0]
    for maps in of_sources[1:]:
        # On a tie the later source counts, as in the definition.
        strongest = np.where(strongest[0] > maps[0], strongest, maps)
    if not np.any(strongest[0] > _FEATURE):
        return 1.0
    quality = 1.0
    for index in range(3):
        best = np.full(fused_levels.shape, -np.inf)
        for maps in (*of_sources, strongest):
            best = np.maximum(best, _correlation(maps[index], of_fused[index], maps[0] > _FEATURE))
        quality *= float(best.sum() / np.count_nonzero(strongest[0] > _FEATURE))
    return quality


def _correlation(source: Plane, fused: Plane, mask: NDArray[np.bool_]) -> Plane:
    kernel = gaussian_kernel(11, 1.5)
    source = np.where(mask, source, 0.0)
    mean_source, mean_fused = correlate_same(source, kernel), correlate_same(fused, kernel)
    variance_source = correlate_same(source**2, kernel) - mean_source**2
    variance_fused = correlate_same(fused**2, kernel) - mean_fused**2
    covariance = correlate_same(source * fused, kernel) - mean_source * mean_fused
    correlation = (covariance + _TINY) / (np.sqrt(np.abs(variance_source * variance_fused)) + _TINY)
    return np.where(mask, correlation, 0.0)


@dataclass(frozen=True)
class _FilterBank:
    """Log-Gabor filters in the frequency domain, zero frequency first."""

    radial: list[Plane]
    """One for each wavelength."""
    angular: list[Plane]
    """One for each orientation."""


def _filter_bank(height: int, width: int) -> _FilterBank:
    rows, columns = _axis(height)[:, None], _axis(width)[None, :]
    true_radius = np.sqrt(rows**2 + columns**2)
    low_pass = np.fft.ifftshift(1 / (1 + (true_radius / 0.45) ** 30))
    radius = true_radius.copy()
    # Keeps the logarithm finite; the constant part of the picture is removed below anyway.
    radius[height // 2, width // 2] = 1.0
    radius = np.fft.ifftshift(radius)
    angle = np.fft.ifftshift(np.arctan2(-rows, columns))
    radial, angular = [], []
    for scale in range(_SCALES):
        wavelength = _SHORTEST_WAVE * _WAVE_STEP**scale
        response = np.exp(-(np.log(radius * wavelength) ** 2) / (2 * np.log(_BANDWIDTH) ** 2)) * low_pass
        response[0, 0] = 0.0
        radial.append(response)
    for orientation in range(_ORIENTATIONS):
        centre = orientation * np.pi / _ORIENTATIONS
        distance = np.abs(np.arctan2(np.sin(angle - centre), np.cos(angle - centre)))
        angular.append(np.exp(-(distance**2) / (2 * _ANGULAR_SPREAD**2)))
    return _FilterBank(radial, angular)


def _axis(length: int) -> Plane:
    steps = np.arange(length) - length // 2
    # An odd length is divided by one less: part of the definition.
    axis: Plane = steps / (length if length % 2 == 0 else length - 1)
    return axis


def _feature_maps(levels: Plane, bank: _FilterBank) -> Plane:
    """Return phase congruency, its largest and its smallest moment, (3, H, W)."""
    spectrum = np.fft.fft2(levels)
    total_energy, total_amplitude = np.zeros_like(levels), np.zeros_like(levels)
    across, down, crossed = np.zeros_like(levels), np.zeros_like(levels), np.zeros_like(levels)
    for orientation, spread in enumerate(bank.angular):
        energy, amplitude = _oriented_energy(spectrum, [radial * spread for radial in bank.radial])
        total_energy += energy
        total_amplitude += amplitude
        congruency = np.divide(energy, amplitude, out=np.zeros_like(energy), where=amplitude > 0)
        angle = orientation * np.pi / _ORIENTATIONS
        horizontal, vertical = congruency * np.cos(angle), congruency * np.sin(angle)
        across += horizontal**2
        down += vertical**2
        crossed += horizontal * vertical
    across, down, crossed = across / (_ORIENTATIONS / 2), down / (_ORIENTATIONS / 2), crossed / _ORIENTATIONS
    spread_of_moments = np.sqrt(crossed**2 + (across - down) ** 2) + _TINY
    congruency = total_energy / (total_amplitude + _TINY)
    largest, smallest = (across + down + spread_of_moments) / 2, (across + down - spread_of_moments) / 2
    return np.stack([congruency, largest, smallest])


def _oriented_energy(spectrum: NDArray[np.complex128], filters: list[Plane]) -> tuple[Plane, Plane]:
    """Return for one orientation the weighted energy above the noise, and the sum of the amplitudes."""
    waves = [np.fft.ifft2(spectrum * response) for response in filters]
    amplitudes = [np.abs(wave) for wave in waves]
    amplitude: Plane = np.sum(amplitudes, axis=0)
    even: Plane = np.sum([wave.real for wave in waves], axis=0)
    odd: Plane = np.sum([wave.imag for wave in waves], axis=0)
    length = np.sqrt(even**2 + odd**2) + _TINY
    even, odd = even / length, odd / length
    energy = np.zeros_like(amplitude)
    for wave in waves:
        energy += wave.real * even + wave.imag * odd - np.abs(wave.real * odd - wave.imag * even)
    energy = np.maximum(energy - _noise_threshold(amplitudes[0], filters), 0.0)
    width = amplitude / (np.maximum.reduce(amplitudes) + _TINY) / _SCALES
    return energy / (1 + np.exp(10 * (0.5 - width))), amplitude


def _noise_threshold(shortest_amplitude: Plane, filters: list[Plane]) -> float:
    """Return the energy that noise alone would give, estimated from the shortest wavelength."""
    power = -np.median(shortest_amplitude**2) / np.log(0.5) / np.sum(filters[0] ** 2)
    # The definition sums products of the filters' real impulse responses over all pairs of scales, which is the energy
    # of their sum; by Parseval it is had from the even part of the filters, without another transform.
    combined: Plane = np.sum(filters, axis=0)
    mirrored = np.roll(combined[::-1, ::-1], 1, axis=(0, 1))
    noise_energy = 2 * power * np.sum(((combined + mirrored) / 2) ** 2)
    deviation = np.sqrt(noise_energy / 2)
    mean = deviation * np.sqrt(np.pi / 2)
    spread = np.sqrt((2 - np.pi / 2) * deviation**2)
    return float((mean + _NOISE_DEVIATIONS * spread) / 1.7)
