"""PSNR: how far the fused picture is from the true all-in-focus picture, in decibels."""

import numpy as np

from allfocus.metrics.grey_levels import Picture, as_grey_levels, check_same_size


def peak_signal_to_noise(fused: Picture, reference: Picture) -> float:
    """Return PSNR = 20 log10(255 / RMSE) in dB over all pixels; higher is better, infinite for equal pictures.

    Agrees with scikit-image's ``peak_signal_noise_ratio(reference, fused, data_range=255)`` on the grey levels.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1.
        reference: the true picture, of the same size.

    Raises:
        InputError: The pictures cannot be scored together.

    Example:
        >>> import numpy as np
        >>> black = np.zeros((4, 4), np.uint8)
        >>> round(peak_signal_to_noise(black + 1, black), 4)
        48.1308
    """
    check_same_size(fused, reference, other="the reference", metric="PSNR")
    difference = as_grey_levels(fused, what="the fused picture") - as_grey_levels(reference, what="the reference")
    mean_square = float(np.mean(difference**2))
    if mean_square == 0:
        return float("inf")
    return float(20.0 * np.log10(255.0 / np.sqrt(mean_square)))
