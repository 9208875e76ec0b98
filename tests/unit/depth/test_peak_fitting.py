"""The top of a focus curve between its samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allfocus.depth.focus_curves import BANDS, REACH, FocusCurves
from allfocus.depth.peak_fitting import USUAL_EXPONENT, choose_exponent, find_top, fit_peaks


def curve(places, *, width, exponent):
    return (1 / (1 + (np.asarray(places) / width) ** 2) ** exponent).astype(np.float32)


@given(top=st.floats(-0.6, 0.6), width=st.floats(0.3, 3), exponent=st.floats(0.6, 3.5), scale=st.floats(1e-6, 1e3))
def test_a_curve_of_the_model_gives_its_top_whatever_its_height_and_width(top, width, exponent, scale):
    three = np.float32(scale) * curve(np.array([-1, 0, 1]) - top, width=width, exponent=exponent)
    assert float(find_top(three, exponent)) == pytest.approx(top, abs=2e-3)


def test_a_curve_without_a_top_gives_none():
    assert np.isnan(find_top(np.array([1, 0.5, 1], np.float32), 1.5))


def test_a_gaussian_law_draws_tops_of_blurred_detail_to_whole_frames_and_the_chosen_one_does_not():
    tops = np.linspace(-0.5, 0.5, 2001)
    energies = curve(np.arange(-2, 3)[:, None] - tops, width=0.7, exponent=1.3)
    chosen = choose_exponent(energies)
    own = find_top(energies[1:4], chosen)
    usual = find_top(energies[1:4], 50.0)  # as good as a Gaussian
    assert np.abs(own - tops).max() < 0.01
    assert np.abs(usual - tops).max() > 0.05


def test_too_few_curves_tell_no_exponent():
    assert choose_exponent(np.ones((5, 10), np.float32)) == USUAL_EXPONENT


def test_a_curve_that_falls_to_nothing_on_one_side_only_tells_nothing_and_is_no_error():
    energies = np.full((len(BANDS), 2 * REACH + 1, 1, 1), 1e-9, np.float32)
    energies[:, REACH + 1 :] = 1.0
    one = np.ones((1, 1), np.float32)
    floors = np.full((len(BANDS), 1, 1), 1e-9, np.float32)
    peak = np.full((1, 1), 3, np.int16)
    curves = FocusCurves(peak, energies, floors, one > 0, peak, one, one, 7)
    assert np.isnan(fit_peaks(curves, (0.5, 0.5)).position).all()
