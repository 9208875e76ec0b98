"""Single measurements become a surface."""

import numpy as np
import pytest

from allfocus.depth.peak_fitting import PeakFit
from allfocus.depth.surface import SCATTER, fit_surface

GENERATOR = np.random.default_rng(11)


def fit(position, *, own=None, guide=None, decision=None, sharpest=None, spread=0.0):
    known = np.isfinite(position) if own is None else own
    exact = np.zeros(position.shape, np.float32)
    decided = np.rint(np.nan_to_num(position, nan=np.nanmedian(position))) if decision is None else decision
    peaks = PeakFit(position, exact + np.asarray(spread, np.float32), exact)
    decided = decided.astype(np.int16)
    seen = exact if guide is None else guide
    return fit_surface(peaks, known, decided, decided if sharpest is None else sharpest, seen)


def test_a_steep_plane_is_no_edge():
    rows = np.arange(80, dtype=np.float32)[:, None] * 0.3 + np.zeros((80, 60), np.float32)
    surface = fit(rows + GENERATOR.normal(0, 0.03, rows.shape).astype(np.float32))
    inside = (slice(8, -8), slice(8, -8))
    assert np.isfinite(surface.position[inside]).all()
    assert np.abs(surface.position - rows)[inside].max() < 0.06


def test_a_plane_is_less_noisy_than_its_measurements():
    noisy = GENERATOR.normal(3, 0.1, (80, 80)).astype(np.float32)
    surface = fit(noisy, spread=0.2)
    assert np.std(surface.position[10:-10, 10:-10]) < 0.04
    assert np.allclose(surface.disagreement, 0.2, atol=1e-4)


def test_nothing_is_measured_where_measurements_scatter_more_than_their_errors_explain():
    position = np.full((60, 80), 2, np.float32)
    position[:, :40] += GENERATOR.choice([-0.12, 0.12], (60, 40)).astype(np.float32)
    surface = fit(position)
    assert np.isnan(surface.position[:, 5:30]).all()
    assert (surface.position[:, 55:] == 2).all()


def test_bands_that_noise_moves_both_ways_are_less_apart_than_bands_that_differ():
    flat = np.full((60, 60), 3, np.float32)
    both_ways = fit(flat, spread=GENERATOR.choice([-0.2, 0.2], (60, 60)).astype(np.float32))
    assert np.median(both_ways.disagreement) < 0.06
    assert np.allclose(fit(flat, spread=-0.2).disagreement, 0.2, atol=1e-4)


def test_nothing_is_measured_among_things_of_different_depth_or_far_from_what_was_decided():
    flat = np.full((60, 80), 2, np.float32)
    decision = np.full((60, 80), 2)
    decision[:, :30:3] = 6  # hairs
    decision[:, 60:] = 3
    surface = fit(flat, decision=decision)
    assert np.isnan(surface.position[:, :28]).all()
    assert (surface.position[:, 45:52] == 2).all()
    assert np.isnan(surface.position[:, 62:]).all()


def test_nothing_is_measured_within_a_few_pixels_of_where_something_else_was_decided():
    flat = np.full((60, 80), 2, np.float32)
    decision = np.full((60, 80), 2)
    decision[:, 40:] = 3
    decision[30, 20] = 3  # single pixels are no thing
    decision[:, :6] = -1
    surface = fit(flat, decision=decision)
    assert (surface.position[5:25, 6:35] == 2).all()
    assert np.isfinite(surface.position[30, 16:20]).all()
    assert np.isnan(surface.position[:, 36:]).all()


def test_scatter_is_what_single_measurements_lie_off_the_surface_up_to_the_most_that_is_allowed():
    noisy = GENERATOR.normal(3, 0.03, (80, 80)).astype(np.float32)
    assert np.median(fit(noisy).scatter) == pytest.approx(0.03, abs=0.006)
    assert np.median(fit(np.float32(3) + 4 * (noisy - 3)).scatter) == pytest.approx(SCATTER)


def test_nothing_is_measured_where_another_frame_is_sharper_than_the_one_decided_for():
    flat = np.full((60, 80), 2, np.float32)
    sharpest = np.full((60, 80), 2)
    sharpest[:, 40:60] = 4
    sharpest[:, 60:] = 1
    surface = fit(flat, sharpest=sharpest)
    assert (surface.position[:, :40] == 2).all()
    assert np.isnan(surface.position[:, 40:]).all()


def test_nothing_is_measured_where_two_things_meet_and_nothing_between_them_is_made_up():
    step = np.full((60, 80), 1, np.float32)
    step[:, 40:] = 5
    surface = fit(step)
    assert np.isnan(surface.position[:, 38:42]).all()
    assert set(np.unique(np.round(surface.position[np.isfinite(surface.position)], 3))) <= {1.0, 5.0}
    assert (surface.position[:, :20] == 1).all()


def test_a_pixel_that_tells_nothing_joins_those_that_look_like_it_only():
    position = np.full((40, 40), 2, np.float32)
    own = np.ones((40, 40), bool)
    own[18:22, 10:14] = own[18:22, 26:30] = False
    guide = np.zeros((40, 40), np.float32)
    guide[18:22, 26:30] = 1
    surface = fit(position, own=own, guide=guide)
    assert np.isfinite(surface.position[18:22, 10:14]).all()
    assert np.isnan(surface.position[18:22, 26:30]).all()


def test_a_measurement_that_stands_alone_is_left_out():
    position = np.full((40, 40), np.nan, np.float32)
    position[:, ::2] = 2
    position[20, 20] = 9
    surface = fit(position)
    assert not np.nanmax(surface.position) > 3
