"""The filters are what they claim, measured against OpenCV and numpy."""

import cv2
import numpy as np
import pytest
import torch

from allfocus.training.blurring import (
    LARGEST_KERNEL,
    MARGIN,
    SOFT_REACH,
    SOFTEST_PICTURE,
    WIDE_MARGIN,
    coarsen,
    disk_kernels,
    draw_fields,
    draw_softness,
    filter_pictures,
    gaussian_kernels,
    lens_blur,
    mean_kernels,
    median_filter,
    remap_borders,
    soften,
)

SIZES = (3, 5, 11, 31)
PICTURE = np.random.default_rng(0).random((48, 57, 3), dtype=np.float32)
INNER = (slice(MARGIN, -MARGIN), slice(MARGIN, -MARGIN))


def tensor(picture: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1)))[None]


def array(pictures: torch.Tensor) -> np.ndarray:
    return pictures[0].permute(1, 2, 0).numpy()


@pytest.mark.parametrize("maker", [mean_kernels, gaussian_kernels, disk_kernels])
def test_kernels_sum_to_one_and_are_symmetric(maker):
    kernels = maker(torch.tensor([3.0, 7.0, 15.0]))
    assert kernels.shape == (3, LARGEST_KERNEL, LARGEST_KERNEL)
    torch.testing.assert_close(kernels.sum((1, 2)), torch.ones(3), rtol=0, atol=1e-6)
    assert torch.equal(kernels, kernels.flip(1))
    assert torch.equal(kernels, kernels.transpose(1, 2))
    assert kernels.min() >= 0


@pytest.mark.parametrize("size", SIZES)
def test_the_mean_filter_is_that_of_opencv(size):
    found = array(filter_pictures(tensor(PICTURE), mean_kernels(torch.tensor([float(size)]))))
    np.testing.assert_allclose(found, cv2.blur(PICTURE, (size, size))[INNER], atol=2e-6)


@pytest.mark.parametrize("size", SIZES)
def test_the_gaussian_filter_is_that_of_opencv(size):
    profile = cv2.getGaussianKernel(size, 0.3 * ((size - 1) * 0.5 - 1) + 0.8)[:, 0]
    kernel = gaussian_kernels(torch.tensor([float(size)]))[0].numpy()
    cut = MARGIN - size // 2
    inside = kernel[cut : LARGEST_KERNEL - cut, cut : LARGEST_KERNEL - cut]
    np.testing.assert_allclose(inside, np.outer(profile, profile), atol=1e-6)
    assert kernel.sum() == pytest.approx(inside.sum(), abs=1e-7)
    found = array(filter_pictures(tensor(PICTURE), gaussian_kernels(torch.tensor([float(size)]))))
    np.testing.assert_allclose(found, cv2.sepFilter2D(PICTURE, cv2.CV_32F, profile, profile)[INNER], atol=2e-6)


@pytest.mark.parametrize("size", SIZES)
def test_the_median_filter_is_that_of_opencv(size):
    """OpenCV takes floats up to a size of 5 only; beyond, bytes."""
    picture = PICTURE if size <= 5 else (PICTURE * 255).round().astype(np.uint8)
    found = array(median_filter(tensor(picture.astype(np.float32)), size))
    assert np.array_equal(found, cv2.medianBlur(picture, size)[INNER].astype(np.float32))


def test_the_median_filter_does_not_depend_on_its_strips(monkeypatch):
    pictures = torch.rand(2, 3, 60, 50)
    whole = median_filter(pictures, 5)
    # So many samples that only one row fits into a strip.
    many = median_filter(pictures.repeat(300, 1, 1, 1), 5)
    assert torch.equal(many[:2], whole)


def test_a_disk_covers_its_radius_and_no_more():
    kernel = disk_kernels(torch.tensor([6.0]))[0]
    offset = torch.arange(-MARGIN, MARGIN + 1.0)
    radius = torch.sqrt(offset[:, None] ** 2 + offset[None] ** 2)
    full = kernel[MARGIN, MARGIN]
    assert torch.equal(kernel[radius <= 5.5], full.expand(int((radius <= 5.5).sum())))
    assert bool((kernel[radius >= 6.5] == 0).all())
    assert float(kernel.sum() / full) == pytest.approx(np.pi * 36, rel=0.02)


def test_a_disk_of_radius_zero_changes_nothing():
    found = array(filter_pictures(tensor(PICTURE), disk_kernels(torch.zeros(1))))
    np.testing.assert_allclose(found, PICTURE[INNER], atol=1e-6)


def test_each_sample_has_its_own_kernel_and_may_have_several():
    pictures = torch.rand(2, 3, 40, 44)
    kernels = torch.stack([mean_kernels(torch.tensor([3.0, 9.0])), disk_kernels(torch.tensor([2.0, 5.0]))], dim=1)
    both = filter_pictures(pictures, kernels)
    assert both.shape == (2, 2, 3, 10, 14)
    for sample in range(2):
        for index in range(2):
            single = filter_pictures(pictures[sample : sample + 1], kernels[sample, index][None])[0]
            torch.testing.assert_close(both[sample, index], single, rtol=0, atol=1e-6)


PADDED = np.random.default_rng(1).random((20 + 2 * MARGIN, 24 + 2 * MARGIN, 3), dtype=np.float32)


@pytest.mark.parametrize(("mode", "name"), [(1, "constant"), (2, "edge"), (3, "reflect")])
def test_borders_are_padded_as_numpy_pads(mode, name):
    found = array(remap_borders(tensor(PADDED), torch.tensor([mode]), torch.ones(1, 4, dtype=torch.bool)))
    assert np.array_equal(found, np.pad(PADDED[INNER], ((MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)), mode=name))


@pytest.mark.parametrize(("mode", "name"), [(1, "constant"), (2, "edge"), (3, "reflect")])
@pytest.mark.parametrize("side", range(4))
def test_only_the_sides_that_are_asked_for_are_treated(mode, name, side):
    sides = torch.zeros(1, 4, dtype=torch.bool)
    sides[0, side] = True
    widths = [[0, 0], [0, 0], [0, 0]]
    widths[side // 2][side % 2] = MARGIN
    cut = [slice(None), slice(None)]
    cut[side // 2] = slice(MARGIN, None) if side % 2 == 0 else slice(None, -MARGIN)
    found = array(remap_borders(tensor(PADDED), torch.tensor([mode]), sides))
    assert np.array_equal(found, np.pad(PADDED[tuple(cut)], widths, mode=name))


def test_mode_zero_keeps_what_lies_there():
    pictures = tensor(PADDED)
    assert torch.equal(remap_borders(pictures, torch.tensor([0]), torch.ones(1, 4, dtype=torch.bool)), pictures)


def test_modes_are_chosen_per_sample():
    pictures = tensor(PADDED).repeat(4, 1, 1, 1)
    all_sides = torch.ones(4, 4, dtype=torch.bool)
    together = remap_borders(pictures, torch.tensor([3, 0, 1, 2]), all_sides)
    for sample, mode in enumerate([3, 0, 1, 2]):
        alone = remap_borders(pictures[:1], torch.tensor([mode]), all_sides[:1])
        assert torch.equal(together[sample], alone[0])


def test_fields_are_smooth_over_the_size_of_a_cell_and_reproducible():
    roughness = []
    for cell in (4, 32):
        field = draw_fields(2, 3, (64, 48), [cell], torch.Generator().manual_seed(0))
        assert field.shape == (2, 3, 64, 48)
        assert torch.equal(field, draw_fields(2, 3, (64, 48), [cell], torch.Generator().manual_seed(0)))
        roughness.append(float((field[..., 1:] - field[..., :-1]).abs().mean() / field.std()))
    assert roughness[1] < roughness[0] / 4


def test_each_sample_draws_the_size_of_its_fields():
    fields = draw_fields(200, 1, (48, 48), [4, 32], torch.Generator().manual_seed(0))
    rough = (fields[..., 1:] - fields[..., :-1]).abs().mean((1, 2, 3))
    fine = rough > 0.1
    assert 70 < int(fine.sum()) < 130
    assert float(rough[fine].min()) > 2 * float(rough[~fine].max())


# The softness of pictures at full size


@pytest.mark.parametrize("deviation", [0.4, 0.9, SOFTEST_PICTURE])
def test_a_soft_picture_is_blurred_by_the_gaussian_of_opencv(deviation):
    found = array(soften(tensor(PICTURE), torch.tensor([deviation])))
    side = 2 * SOFT_REACH + 1
    wanted = cv2.GaussianBlur(PICTURE, (side, side), deviation, borderType=cv2.BORDER_REPLICATE)
    np.testing.assert_allclose(found, wanted, atol=2e-6)


def test_each_picture_has_its_own_softness_and_none_changes_nothing():
    pictures = torch.rand(3, 2, 3, 20, 24)
    found = soften(pictures, torch.tensor([0.0, 0.5, 1.5]))
    assert found.shape == pictures.shape
    torch.testing.assert_close(found[0], pictures[0], rtol=0, atol=1e-6)
    spread = found.std((1, 2, 3, 4))
    assert spread[0] > spread[1] > spread[2]


def test_a_coarser_grain_is_as_strong():
    noise = torch.randn(4, 2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    found = coarsen(noise, torch.tensor([0.0, 0.4, 0.7, 1.0]))
    torch.testing.assert_close(found.std((1, 2, 3, 4)), torch.ones(4), rtol=0.03, atol=0)
    alike = (found[..., 1:] * found[..., :-1]).mean((1, 2, 3, 4))
    assert bool((alike.diff() > 0.05).all())


def test_so_many_pictures_are_soft_as_are_asked_for():
    deviations = draw_softness(2000, 0.3, torch.Generator().manual_seed(0))
    soft = deviations[deviations > 0]
    assert 520 < len(soft) < 680
    assert float(soft.max()) <= SOFTEST_PICTURE
    assert float(soft.mean()) == pytest.approx(SOFTEST_PICTURE / 2, rel=0.1)
    assert not bool(draw_softness(50, 0.0, torch.Generator().manual_seed(0)).any())


# The blur of a lens

WIDE = 2 * WIDE_MARGIN


def test_a_lens_of_radius_zero_changes_nothing():
    pictures = torch.rand(2, 3, WIDE + 20, WIDE + 9, generator=torch.Generator().manual_seed(0))
    blurred = lens_blur(pictures, torch.zeros(2, 1), torch.tensor([1.0, 5.0]))
    assert blurred.shape == (2, 1, 3, 20, 9)
    inner = pictures[..., WIDE_MARGIN:-WIDE_MARGIN, WIDE_MARGIN:-WIDE_MARGIN]
    torch.testing.assert_close(blurred[:, 0], inner, rtol=0, atol=2e-6)


@pytest.mark.parametrize("softness", [1.0, 4.0])
@pytest.mark.parametrize("radius", [0.5, 3.0, 20.0, 58.0])
def test_a_lens_takes_and_adds_no_light(radius, softness):
    even = lens_blur(torch.full((1, 1, WIDE + 8, WIDE + 8), 0.7), torch.tensor([[radius]]), torch.tensor([softness]))
    torch.testing.assert_close(even, torch.full((1, 1, 1, 8, 8), 0.7), rtol=0, atol=1e-5)
    size = 2 * WIDE
    point = torch.zeros(1, 1, size, size)
    point[..., size // 2, size // 2] = 1
    disk = lens_blur(point, torch.tensor([[radius]]), torch.tensor([softness]))
    assert float(disk.sum()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("radius", [3.0, 12.0, 40.0])
def test_a_lens_spreads_a_point_to_a_disk(radius):
    size = 2 * WIDE
    point = torch.zeros(1, 1, size, size)
    point[..., size // 2, size // 2] = 1
    (disk,) = lens_blur(point, torch.tensor([[radius]]), torch.tensor([1.0]))[0, 0]
    middle = size // 2 - WIDE_MARGIN
    offset = torch.arange(len(disk)) - middle
    distance = (offset[:, None] ** 2 + offset[None] ** 2).float().sqrt()
    height = float(disk[middle, middle])
    assert height == pytest.approx(1 / (np.pi * radius**2), rel=0.1)
    inside, outside = disk[distance <= radius - 0.5], disk[distance >= radius + 0.5]
    torch.testing.assert_close(inside, torch.full_like(inside, height), rtol=0.01, atol=1e-6)
    assert float(outside.abs().max()) < 1e-6
    # A soft rim begins earlier and ends later.
    (soft,) = lens_blur(point, torch.tensor([[radius]]), torch.tensor([4.0]))[0, 0]
    assert (
        0 < float(soft[middle, middle + int(radius) + 1]) < float(soft[middle, middle + int(radius) - 1]) < height * 1.2
    )


def test_each_frame_has_its_own_radius_and_each_sample_its_own_softness():
    pictures = torch.rand(2, 1, WIDE + 16, WIDE + 16, generator=torch.Generator().manual_seed(0))
    radii, softness = torch.tensor([[0.0, 6.0], [2.0, 30.0]]), torch.tensor([1.0, 3.0])
    together = lens_blur(pictures, radii, softness)
    for sample in (0, 1):
        for place in (0, 1):
            own = slice(sample, sample + 1)
            alone = lens_blur(pictures[own], radii[own, place : place + 1], softness[own])
            torch.testing.assert_close(together[own, place : place + 1], alone, rtol=0, atol=1e-5)
    spread = together.std((2, 3, 4))
    assert bool((spread[:, 0] > 2 * spread[:, 1]).all())
