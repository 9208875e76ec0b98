"""Q_CB: how well the contrast that a human eye would see in the sources is kept.

Y. Chen, R. S. Blum, "A new automated quality assessment algorithm for image fusion", Image and Vision Computing
27 (10), 2009. Each picture passes a contrast sensitivity filter (difference of Gaussians in the frequency domain),
becomes local band-limited contrast (Peli), is masked, and is compared with each source in turn.
"""

from collections.abc import Sequence

import numpy as np

from allfocus.metrics.grey_levels import Picture, Plane, grey_triple
from allfocus.metrics.local_windows import centred_frequencies, fast_length


def contrast_preservation(fused: Picture, sources: Sequence[Picture], *, stretch: bool = True) -> float:
    """Return Q_CB, 0..1: the kept contrast, weighted by how much contrast each source has there; higher is better.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        sources: two or more pictures of the same size.
        stretch: stretch each picture to 0..255 first, as the definition in circulation does. Without, and on R, G
            and B separately, one gets the numbers that the paper of inter-image pixel shuffling prints.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> round(contrast_preservation(ramp, [ramp, ramp]), 9)
        1.0
    """
    target, planes = grey_triple(fused, sources, metric="Q_CB", stretch=stretch)
    fused_contrast, *source_contrasts = _masked_contrasts([target, *planes])
    total_weight = np.sum([contrast**2 for contrast in source_contrasts], axis=0)
    silent = total_weight == 0
    total_weight[silent] = len(source_contrasts)
    kept = np.zeros_like(fused_contrast)
    for contrast in source_contrasts:
        smaller, larger = np.minimum(contrast, fused_contrast), np.maximum(contrast, fused_contrast)
        # No contrast in either: nothing is lost.
        ratio = np.divide(smaller, larger, out=np.ones_like(smaller), where=larger > 0)
        kept += np.where(silent, 1.0, contrast**2) / total_weight * ratio
    return float(kept.mean())


def _masked_contrasts(planes: Sequence[Plane]) -> list[Plane]:
    height, width = planes[0].shape
    radius = centred_frequencies(height, width, vertical=height / 30, horizontal=width / 30)
    sensitivity = np.exp(-((radius / 15.3870) ** 2)) - 0.7622 * np.exp(-((radius / 1.3456) ** 2))
    sensitivity = sensitivity[:, : width // 2 + 1]
    # Zero padding to at least the reach of the kernel keeps the circular FFT from wrapping round the border.
    padded = (fast_length(height + 15), fast_length(width + 15))
    narrow, wide = _kernel_spectrum(padded, 2.0), _kernel_spectrum(padded, 4.0)
    contrasts = []
    for plane in planes:
        seen = np.fft.irfft2(np.fft.rfft2(plane) * sensitivity, s=(height, width))
        spectrum = np.fft.rfft2(seen, s=padded)
        centre = np.fft.irfft2(spectrum * narrow, s=padded)[:height, :width]
        surround = np.fft.irfft2(spectrum * wide, s=padded)[:height, :width]
        ratio = np.divide(centre, surround, out=np.ones_like(centre), where=surround != 0)
        contrast = np.abs(ratio - 1.0)
        contrasts.append(contrast**3 / (contrast**2 + 0.0001))
    return contrasts


def _kernel_spectrum(shape: tuple[int, int], sigma: float) -> Plane:
    """Return the spectrum of 31x31 samples of a Gaussian around pixel (0, 0); real, because the kernel is symmetric."""
    distance = np.arange(-15, 16)
    # Sampled, not normalised to sum 1: part of the definition.
    samples = np.exp(-(distance**2) / (2 * sigma**2)) / (np.sqrt(2 * np.pi) * sigma)
    rows, columns = np.zeros(shape[0]), np.zeros(shape[1])
    np.add.at(rows, distance % shape[0], samples)
    np.add.at(columns, distance % shape[1], samples)
    spectrum: Plane = np.fft.fft(rows).real[:, None] * np.fft.rfft(columns).real[None, :]
    return spectrum
