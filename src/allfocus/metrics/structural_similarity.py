"""SSIM: how similar the fused picture is to the true all-in-focus picture in luminance, contrast and structure.

Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli, "Image quality assessment: from error visibility to structural
similarity", IEEE Trans. Image Processing 13 (4), 2004.
"""

from allfocus.metrics.grey_levels import Picture, as_grey_levels, check_large_enough, check_same_size
from allfocus.metrics.local_windows import LocalStatistics


def structural_similarity_index(fused: Picture, reference: Picture) -> float:
    """Return SSIM, up to 1: the mean over all windows that fit; higher is better.

    Single scale, Gaussian window 11x11 with sigma 1.5, constants (0.01 * 255)^2 and (0.03 * 255)^2, biased variances,
    no downsampling. Agrees with scikit-image's ``structural_similarity(..., data_range=255, gaussian_weights=True,
    sigma=1.5, use_sample_covariance=False)`` on the grey levels.

    Args:
        fused: (H, W) or RGB (H, W, 3); uint8, uint16, or floating point in 0..1; at least 11x11 pixels.
        reference: the true picture, of the same size.

    Raises:
        InputError: The pictures cannot be scored together, or are smaller than the window.

    Example:
        >>> import numpy as np
        >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
        >>> structural_similarity_index(ramp, ramp)
        1.0
    """
    check_same_size(fused, reference, other="the reference", metric="SSIM")
    check_large_enough(fused, metric="SSIM", smallest=11)
    statistics = LocalStatistics(gaussian=(11, 1.5))
    of_fused = statistics.moments(as_grey_levels(fused, what="the fused picture"))
    of_reference = statistics.moments(as_grey_levels(reference, what="the reference"))
    return float(statistics.pair(of_fused, of_reference).similarity((0.01 * 255) ** 2, (0.03 * 255) ** 2).mean())
