"""The fast forms against slow ones written straight from the definitions with scipy, and against known libraries."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage, signal

from allfocus.metrics.artifacts import fusion_artifacts
from allfocus.metrics.chen_blum import contrast_preservation
from allfocus.metrics.local_windows import (
    box_mean_valid,
    correlate_same,
    correlate_valid,
    edge_components,
    gaussian_kernel,
)
from allfocus.metrics.mutual_information import normalized_mutual_information
from allfocus.metrics.peak_signal_noise_ratio import peak_signal_to_noise
from allfocus.metrics.piella import structural_fusion_quality
from allfocus.metrics.structural_similarity import structural_similarity_index
from allfocus.metrics.tsallis_information import tsallis_mutual_information
from allfocus.metrics.yang import agreement_weighted_quality


@pytest.fixture
def planes() -> list[NDArray[np.float64]]:
    generator = np.random.default_rng(3)
    smooth = ndimage.gaussian_filter(generator.normal(size=(3, 45, 58)), (0, 2, 2)) * 300 + 120
    return list(np.clip(np.round(smooth + generator.normal(size=smooth.shape) * 6), 0, 255))


def as_bytes(planes: list[NDArray[np.float64]]) -> list[NDArray[np.uint8]]:
    return [plane.astype(np.uint8) for plane in planes]


def test_windows_equal_two_dimensional_correlation(planes: list[NDArray[np.float64]]) -> None:
    kernel = gaussian_kernel(11, 1.5)
    full = np.outer(kernel, kernel)
    assert np.allclose(correlate_valid(planes[0], kernel), signal.correlate2d(planes[0], full, "valid"), atol=1e-11)
    assert np.allclose(correlate_same(planes[0], kernel), signal.correlate2d(planes[0], full, "same"), atol=1e-11)
    assert np.allclose(box_mean_valid(planes[0]), signal.correlate2d(planes[0], np.ones((8, 8)) / 64, "valid"))


@pytest.mark.parametrize(("border", "mode"), [("constant", "constant"), ("edge", "nearest"), ("reflect", "mirror")])
def test_edges_equal_the_sobel_masks(planes: list[NDArray[np.float64]], border: str, mode: str) -> None:
    across, down = edge_components(planes[0], border=border)
    assert np.array_equal(across, ndimage.sobel(planes[0], axis=1, mode=mode))
    assert np.array_equal(down, ndimage.sobel(planes[0], axis=0, mode=mode))


def test_similarity_equals_scikit_images_recipe(planes: list[NDArray[np.float64]]) -> None:
    # structural_similarity(..., gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=255):
    # scipy's Gaussian filter with truncate 3.5, and the border of 5 pixels cut off.
    def smooth(plane: NDArray[np.float64]) -> NDArray[np.float64]:
        return ndimage.gaussian_filter(plane, 1.5, truncate=3.5)

    x, y, _ = planes
    mean_x, mean_y = smooth(x), smooth(y)
    variance_x, variance_y = smooth(x * x) - mean_x**2, smooth(y * y) - mean_y**2
    covariance = smooth(x * y) - mean_x * mean_y
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    similarity = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    similarity /= (mean_x**2 + mean_y**2 + c1) * (variance_x + variance_y + c2)
    fused, reference = as_bytes([x, y])
    assert structural_similarity_index(fused, reference) == pytest.approx(similarity[5:-5, 5:-5].mean(), abs=1e-9)


def test_scikit_image_agrees_where_it_is_installed(planes: list[NDArray[np.float64]]) -> None:
    metrics = pytest.importorskip("skimage.metrics")
    fused, reference, _ = as_bytes(planes)
    expected = metrics.structural_similarity(
        reference, fused, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )
    assert structural_similarity_index(fused, reference) == pytest.approx(expected, abs=1e-9)
    expected = metrics.peak_signal_noise_ratio(reference, fused, data_range=255)
    assert peak_signal_to_noise(fused, reference) == pytest.approx(expected, abs=1e-9)


def test_noise_ratio_equals_its_formula(planes: list[NDArray[np.float64]]) -> None:
    expected = 10 * np.log10(255**2 / np.mean((planes[0] - planes[1]) ** 2))
    assert peak_signal_to_noise(*as_bytes(planes[:2])) == pytest.approx(expected, abs=1e-12)


def test_structural_fusion_quality_equals_its_formula(planes: list[NDArray[np.float64]]) -> None:
    f, a, b = planes
    total, count = 0.0, 0
    for i in range(45 - 7):
        for j in range(58 - 7):
            wf, wa, wb = (plane[i : i + 8, j : j + 8] for plane in (f, a, b))
            share = wa.var() / (wa.var() + wb.var())
            qualities = []
            for w in (wa, wb):
                covariance = np.mean((w - w.mean()) * (wf - wf.mean()))
                luminance = 2 * w.mean() * wf.mean() / (w.mean() ** 2 + wf.mean() ** 2)
                qualities.append(luminance * 2 * covariance / (w.var() + wf.var()))
            total += share * qualities[0] + (1 - share) * qualities[1]
            count += 1
    fused, *sources = as_bytes(planes)
    assert structural_fusion_quality(fused, sources) == pytest.approx(total / count, rel=1e-9)


@pytest.mark.parametrize("shape", [(45, 58), (32, 31), (20, 20)])
def test_contrast_preservation_equals_its_formula(planes: list[NDArray[np.float64]], shape: tuple[int, int]) -> None:
    height, width = shape
    u = (np.arange(width) - width // 2) * 2 / width * (width / 30)
    v = (np.arange(height) - height // 2) * 2 / height * (height / 30)
    r = np.sqrt(u[None] ** 2 + v[:, None] ** 2)
    sensitivity = np.exp(-((r / 15.387) ** 2)) - 0.7622 * np.exp(-((r / 1.3456) ** 2))
    x = np.arange(-15, 16)
    distance = x[None] ** 2 + x[:, None] ** 2
    contrasts = []
    for plane in planes:
        cut = plane[:height, :width]
        seen = np.fft.ifft2(np.fft.ifftshift(np.fft.fftshift(np.fft.fft2(cut)) * sensitivity)).real
        centre, surround = (
            signal.convolve2d(seen, np.exp(-distance / (2 * s * s)) / (2 * np.pi * s * s), "same") for s in (2, 4)
        )
        c = np.abs(centre / surround - 1)
        contrasts.append(c**3 / (c**2 + 1e-4))
    f, a, b = contrasts
    kept = [np.where(s < f, s / f, f / s) for s in (a, b)]
    expected = np.mean((a**2 * kept[0] + b**2 * kept[1]) / (a**2 + b**2))
    fused, *sources = (picture[:height, :width] for picture in as_bytes(planes))
    assert contrast_preservation(fused, sources, stretch=False) == pytest.approx(expected, rel=1e-9)


def test_mutual_information_of_more_sources_keeps_its_range(planes: list[NDArray[np.float64]]) -> None:
    fused, first, second = as_bytes(planes)
    pairs = [normalized_mutual_information(fused, [source, source]) for source in (first, second, fused)]
    assert normalized_mutual_information(fused, [first, second, fused]) == pytest.approx(sum(pairs) / 3)


@pytest.mark.parametrize(("fused", "first", "second"), [(202, 201, 201), (97, 99, 201), (13, 211, 7)])
def test_flat_windows_do_not_make_noise_in_yangs_measure(fused: int, first: int, second: int) -> None:
    # Flat windows agree in contrast and structure, so only their levels count; the script in circulation explodes here.
    def luminance(one: int, other: int) -> float:
        return 2 * one * other / (one**2 + other**2)

    to_first, to_second = luminance(first, fused), luminance(second, fused)
    agree = luminance(first, second) >= 0.75
    expected = (to_first + to_second) / 2 if agree else max(to_first, to_second)
    flat = [np.full((40, 40), level, np.uint8) for level in (fused, first, second)]
    assert agreement_weighted_quality(flat[0], flat[1:]) == pytest.approx(expected, abs=1e-12)


def test_swapped_marginals_are_what_makes_the_published_tsallis_measure_explode() -> None:
    generator = np.random.default_rng(1)
    picture = np.minimum(generator.geometric(0.05, (64, 64)), 255).astype(np.uint8)
    other = picture[:, ::-1].copy()
    fused = 255 - picture
    sound = tsallis_mutual_information(fused, [picture, other])
    swapped = tsallis_mutual_information(fused, [picture, other], swap_marginals=True)
    assert swapped > 10 * sound > 0


def test_an_edge_that_no_source_has_is_an_artifact() -> None:
    source = np.zeros((32, 32), np.uint8)
    source[:, 16:] = 200
    invented = source.copy()
    invented[8:12, 4:8] = 255
    assert fusion_artifacts(source, [source, source]) == 0
    assert fusion_artifacts(invented, [source, source]) > 0
