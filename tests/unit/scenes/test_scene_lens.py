import numpy as np
import pytest

from allfocus.scenes.lens import blur_disk, blur_radius, blur_varying, disk_kernel, radius_levels


@pytest.mark.parametrize("radius", [0.0, 0.5, 0.7, 1.0, 2.3, 5.0, 17.4, 60.0])
def test_a_disk_kernel_keeps_the_light_and_is_symmetric(radius):
    kernel = disk_kernel(radius).astype(np.float64)

    assert kernel.sum() == pytest.approx(1.0, abs=1e-5)
    assert (kernel >= 0).all()
    np.testing.assert_allclose(kernel, kernel.T, atol=1e-9)
    np.testing.assert_allclose(kernel, kernel[::-1, ::-1], atol=1e-9)


@pytest.mark.parametrize("radius", [0.6, 1.0, 2.3, 4.49, 4.51])
def test_a_disk_kernel_holds_the_covered_area_of_each_pixel(radius):
    reach = disk_kernel(radius).shape[0] // 2
    fine = (np.arange((2 * reach + 1) * 100) + 0.5) / 100 - reach - 0.5
    inside = np.hypot(fine[:, None], fine[None, :]) <= radius
    area = inside.reshape(2 * reach + 1, 100, 2 * reach + 1, 100).mean(axis=(1, 3))

    assert inside.sum() / 1e4 == pytest.approx(np.pi * radius**2, rel=0.01)  # nothing was cut off
    np.testing.assert_allclose(disk_kernel(radius), area / area.sum(), atol=0.002)


@pytest.mark.parametrize("radius", [5.0, 17.4, 60.0])
def test_a_disk_kernel_has_the_height_and_width_of_that_disk(radius):
    kernel = disk_kernel(radius).astype(np.float64)
    offset = np.arange(len(kernel)) - len(kernel) // 2

    assert kernel.max() == pytest.approx(1 / (np.pi * radius**2), rel=0.01)
    # The variance of a disk along one axis is radius^2 / 4; the pixels' own width adds 1/12.
    variance = (kernel.sum(axis=0) * offset**2).sum()
    assert variance == pytest.approx(radius**2 / 4 + 1 / 12, rel=0.01)


def test_blur_grows_with_the_difference_of_inverse_distances():
    near, focused, far = blur_radius([0.5, 1.0, 2.0], focus=1.0, strength=8.0)

    assert (near, focused, far) == (8.0, 0.0, 4.0)


@pytest.mark.parametrize("radius", [0.8, 3.0, 12.5])
def test_blurring_a_point_keeps_its_light_and_draws_the_disk(radius):
    picture = np.zeros((61, 71, 4), dtype=np.float32)
    picture[30, 35] = (0.2, 0.4, 0.6, 1.0)

    spread = blur_disk(picture, radius)

    np.testing.assert_allclose(spread.sum(axis=(0, 1)), [0.2, 0.4, 0.6, 1.0], rtol=1e-4)
    reach = disk_kernel(radius).shape[0] // 2
    drawn = spread[30 - reach : 31 + reach, 35 - reach : 36 + reach, 3]
    np.testing.assert_allclose(drawn, disk_kernel(radius), atol=1e-6)
    assert (spread >= 0).all()


def test_a_varying_blur_leaves_an_even_area_even():
    picture = np.full((120, 60, 4), 0.37, dtype=np.float32)
    radius = np.repeat(np.linspace(0, 9, 120, dtype=np.float32)[:, None], 60, axis=1)

    blurred = blur_varying(picture, radius)

    np.testing.assert_allclose(blurred[10:-10, 10:-10], 0.37, atol=1e-5)


def test_a_varying_blur_of_one_radius_is_the_disk_blur():
    picture = np.random.default_rng(0).random((50, 40, 4), dtype=np.float32)
    radius = radius_levels(6.0)[7]

    blurred = blur_varying(picture, np.full((50, 40), radius, dtype=np.float32))

    np.testing.assert_allclose(blurred, blur_disk(picture, radius), atol=1e-5)


def test_a_varying_blur_is_sharp_where_the_radius_is_small_and_blurred_elsewhere():
    picture = np.random.default_rng(0).random((90, 40, 4), dtype=np.float32)
    # Focus lies in the middle: sharp rows there, blur above and below.
    radius = np.repeat(np.abs(np.arange(90, dtype=np.float32) - 45)[:, None] * 0.2, 40, axis=1)

    blurred = blur_varying(picture, radius)

    np.testing.assert_array_equal(blurred[43:48], picture[43:48])
    assert blurred[10:20, 10:-10].std() < 0.25 * picture.std()
    assert blurred[70:80, 10:-10].std() < 0.25 * picture.std()
