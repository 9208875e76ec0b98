"""Tones: each number does what it says, in linear light where light is meant, and one table per channel says it all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allfocus.finishing.curves import Curves
from allfocus.finishing.finish import Finish
from allfocus.finishing.tones import apply_tones, balance_to_grey, tone_tables
from allfocus.images.colour_profile import adobe_profile
from allfocus.images.transfer import Curve, FormulaCurve, find_curve

BENT = Curves(all=((0, 0), (0.5, 0.25), (1, 1)))
GOLDEN = {
    "exposure": (Finish(exposure=1.0), (0.1, 0.25, 0.5, 0.7), (0.1519, 0.352126, 0.685836, 0.952804)),
    "minus": (Finish(exposure=-2.0), (0.1, 0.25, 0.5, 0.7), (0.032374, 0.116175, 0.256483, 0.368729)),
    "levels": (Finish(black=0.1, white=0.9, gamma=2.0), (0.05, 0.3, 0.7, 0.95), (0.0, 0.5, 0.866025, 1.0)),
    "contrast": (Finish(contrast=50.0), (0.0, 0.25, 0.5, 0.9), (0.0, 0.203125, 0.5, 0.936)),
    "curve": (Finish(curves=BENT), (0.0, 0.25, 0.5, 0.75), (0.0, 0.109375, 0.25, 0.578125)),
    "softer": (Finish(contrast=-100.0), (0.0, 0.25, 0.5, 0.9), (0.0, 0.34375, 0.5, 0.828)),
}
"""Worked out apart from this library, with Python's own floating point, 2026-11-16: stored values to light and back by
the formulas of IEC 61966-2-1 (((v + 0.055) / 1.055) ** 2.4 above 0.04045, v / 12.92 below), times 2 ** stops;
((v - black) / (white - black)) ** (1 / gamma); v + c * (3 v^2 - 2 v^3 - v). The curve is a Hermite cubic on
either side of its point, whose slope there is the harmonic mean of 0.5 and 1.5."""


@pytest.mark.parametrize("name", GOLDEN)
def test_values_are_those_of_the_formulas(name: str) -> None:
    finish, given_values, expected = GOLDEN[name]
    row = np.array([given_values], np.float32)
    assert apply_tones(row, finish)[0] == pytest.approx(expected, abs=2e-5)
    colour = np.repeat(row[..., None], 3, axis=2)
    assert apply_tones(colour, finish)[0] == pytest.approx(np.repeat(np.array(expected)[:, None], 3, axis=1), abs=2e-5)


def test_exposure_multiplies_light_by_the_profile_of_the_picture() -> None:
    curve = find_curve(adobe_profile(), None)
    value = apply_tones(np.full((1, 1, 3), 0.5, np.float32), Finish(exposure=1), curve)
    assert value[0, 0, 0] == pytest.approx((2 * 0.5 ** (563 / 256)) ** (256 / 563), abs=1e-5)
    linear = apply_tones(np.full((1, 1, 3), 0.3, np.float32), Finish(exposure=1), Curve((FormulaCurve(1.0),)))
    assert linear[0, 0, 0] == pytest.approx(0.6, abs=1e-6)


def test_no_tones_give_back_every_bit() -> None:
    pixels = np.random.default_rng(0).random((5, 7, 3)).astype(np.float32)
    assert apply_tones(pixels, Finish(turns=1, angle=3)) is pixels


def test_a_grey_stays_as_bright_when_the_balance_changes() -> None:
    linear = Curve((FormulaCurve(1.0),))
    pixels = np.full((1, 1, 3), 0.2, np.float32)
    warm = apply_tones(pixels, Finish(temperature=60), linear)[0, 0]
    assert warm[0] > 0.2 > warm[2]
    assert float(warm @ np.array([0.2126, 0.7152, 0.0722])) == pytest.approx(0.2, abs=1e-6)
    green = apply_tones(pixels, Finish(tint=-60), linear)[0, 0]
    assert green[1] > green[0] == pytest.approx(green[2])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.25, 0.75), min_size=3, max_size=3))
def test_what_was_picked_as_grey_is_grey(colour: list[float]) -> None:
    pixel = np.array(colour, np.float32)
    found = balance_to_grey(pixel, None)
    assert found is not None
    balanced = apply_tones(pixel.reshape(1, 1, 3), Finish(temperature=found[0], tint=found[1]))[0, 0]
    if max(map(abs, found)) < 100:
        assert np.ptp(balanced) < 0.002


def test_black_and_clipped_places_tell_no_colour() -> None:
    assert balance_to_grey(np.zeros(3, np.float32), None) is None
    assert balance_to_grey(np.float32([1, 0.5, 0.5]), None) is None


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-5, 5), st.floats(-100, 100), st.floats(-100, 100), st.floats(0, 0.4), st.floats(0.5, 1),
    st.floats(0.1, 10), st.floats(-100, 100),
)  # fmt: skip
def test_every_curve_rises_and_stays_in_range(
    exposure: float, temperature: float, tint: float, black: float, white: float, gamma: float, contrast: float
) -> None:
    finish = Finish(exposure, temperature, tint, black, white, gamma, contrast)
    tables = tone_tables(finish, None, channels=3)
    assert tables.min() >= 0
    assert tables.max() <= 1
    assert (np.diff(tables, axis=1) >= -1e-5).all()


def test_a_table_says_what_happens_to_pixels() -> None:
    finish = Finish(exposure=0.7, temperature=30, tint=-12, black=0.05, white=0.9, gamma=1.3, contrast=25)
    levels = np.random.default_rng(1).integers(0, 256, (9, 9, 3))
    tables = tone_tables(finish, None, channels=3)
    expected = apply_tones((levels / 255).astype(np.float32), finish)
    looked_up = np.stack([tables[channel][levels[..., channel]] for channel in range(3)], axis=-1)
    assert looked_up == pytest.approx(expected, abs=1e-6)


def test_a_picture_that_is_shown_brighter_is_so_until_it_has_tones() -> None:
    assert tone_tables(Finish(), None, channels=1, shown_white=0.1)[0, -1] == 1
    toned = tone_tables(Finish(white=0.1), None, channels=1, shown_white=0.1)
    assert toned[0, -1] == pytest.approx(1)
    assert tone_tables(Finish(contrast=1), None, channels=1, shown_white=0.1)[0, -1] < 0.11
