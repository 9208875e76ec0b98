import numpy as np
import pytest

from allfocus.scenes import textures


def generator(seed=0):
    return np.random.default_rng(seed)


BROWN = [(0.2, 0.1, 0.0), (0.8, 0.6, 0.4)]
MAKERS = {
    "wood": lambda shape, random: textures.wood(shape, random, period=8, colours=BROWN),
    "stone": lambda shape, random: textures.stone(shape, random, cell=20, colours=BROWN),
    "fabric": lambda shape, random: textures.fabric(shape, random, period=4, warp=(1, 0, 0), weft=(0, 0, 1)),
    "text": lambda shape, random: textures.printed_text(shape, random, line_height=9),
}


def test_the_srgb_curve_and_its_inverse_cancel():
    values = np.linspace(0, 1, 1001, dtype=np.float32)

    np.testing.assert_allclose(textures.to_srgb_curve(textures.to_linear_light(values)), values, atol=2e-6)


@pytest.mark.parametrize("cell", [3.0, 20.0, (4.0, 50.0)])
def test_noise_is_standardised_and_depends_on_the_generator(cell):
    first = textures.fractal_noise((64, 80), generator(1), cell=cell)

    assert first.shape == (64, 80)
    assert first.mean() == pytest.approx(0, abs=1e-4)
    assert first.std() == pytest.approx(1, abs=1e-4)
    np.testing.assert_array_equal(first, textures.fractal_noise((64, 80), generator(1), cell=cell))
    assert np.abs(first - textures.fractal_noise((64, 80), generator(2), cell=cell)).mean() > 0.1


def test_streaks_are_longer_along_their_longer_cell_side():
    noise = textures.fractal_noise((128, 128), generator(), cell=(4.0, 60.0))

    assert np.abs(np.diff(noise, axis=1)).mean() < 0.5 * np.abs(np.diff(noise, axis=0)).mean()


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_textures_have_detail_at_the_scale_of_single_pixels(kind):
    picture = MAKERS[kind]((96, 120), generator())

    assert picture.shape == (96, 120, 3)
    assert picture.dtype == np.float32
    assert np.isfinite(picture).all()
    assert np.abs(np.diff(picture, axis=0)).mean() > 0.01
    np.testing.assert_array_equal(picture, MAKERS[kind]((96, 120), generator()))


def test_a_siemens_star_has_its_spokes_and_a_grey_heart():
    star = textures.siemens_star((201, 201), spokes=24)
    angle = np.linspace(0, 2 * np.pi, 4000, endpoint=False)
    ring = star[np.rint(100 + 90 * np.sin(angle)).astype(int), np.rint(100 + 90 * np.cos(angle)).astype(int)]

    crossings = np.count_nonzero(np.diff(ring > 0.5))
    assert crossings in (47, 48)
    assert star[100, 100] == pytest.approx(0.5)
