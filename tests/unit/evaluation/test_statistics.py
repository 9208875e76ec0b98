"""Intervals, signed-rank test and ranks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from allfocus.evaluation.statistics import (
    average_ranks,
    bootstrap_interval,
    chi_squared_tail,
    friedman_test,
    mean_ranks,
    nemenyi_quantile,
    signed_rank_test,
)


@pytest.mark.parametrize("count", [1, 2, 5, 13, 20, 25])
def test_few_pairs_without_ties_are_tested_exactly_as_scipy_does(count):
    generator = np.random.default_rng(count)
    first, second = generator.normal(0.2, 1, count), generator.normal(0, 1, count)
    ours = signed_rank_test(first, second)
    theirs = stats.wilcoxon(first, second, method="exact")
    assert ours.exact
    assert ours.statistic == theirs.statistic
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-12)


@pytest.mark.parametrize("count", [26, 32, 120])
def test_many_pairs_use_the_normal_approximation_of_scipy(count):
    generator = np.random.default_rng(count)
    first, second = generator.normal(0.2, 1, count), generator.normal(0, 1, count)
    ours = signed_rank_test(first, second)
    theirs = stats.wilcoxon(first, second, method="asymptotic", correction=False)
    assert not ours.exact
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-10)


@given(st.lists(st.integers(-4, 4), min_size=3, max_size=40).filter(lambda values: sum(map(bool, values)) > 1))
def test_ties_and_equal_pairs_are_treated_as_in_scipy(differences):
    ours = signed_rank_test(np.array(differences, float), np.zeros(len(differences)))
    if ours.exact:
        unequal = [value for value in differences if value]
        theirs = stats.wilcoxon(unequal, method="exact")
    else:
        theirs = stats.wilcoxon(differences, zero_method="wilcox", method="asymptotic", correction=False)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    assert ours.pairs == sum(map(bool, differences))


def test_equal_methods_do_not_differ():
    assert signed_rank_test([1.0, 2.0], [1.0, 2.0]).p_value == 1.0
    assert signed_rank_test([math.inf, 1.0], [math.inf, 2.0]).pairs == 1


def test_pairs_must_match():
    with pytest.raises(ValueError, match="3 and 2"):
        signed_rank_test([1, 2, 3], [1, 2])


def test_the_interval_agrees_with_scipy():
    values = np.random.default_rng(3).normal(10, 2, 40)
    low, high = bootstrap_interval(values, seed=1)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(5)
    ).confidence_interval
    assert low == pytest.approx(theirs.low, abs=0.05)
    assert high == pytest.approx(theirs.high, abs=0.05)


def test_the_interval_depends_on_the_seed_alone():
    values = np.random.default_rng(0).random(20)
    assert bootstrap_interval(values, seed=4) == bootstrap_interval(values, seed=4)
    assert bootstrap_interval(values, seed=4) != bootstrap_interval(values, seed=5)


def test_a_single_picture_has_no_interval_and_infinity_is_no_problem():
    assert all(map(math.isnan, bootstrap_interval([3.0])))
    low, high = bootstrap_interval([40.0, math.inf, 42.0])
    assert low >= 40
    assert high == math.inf


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_ranks_are_those_of_scipy(values):
    assert average_ranks(np.array(values, float)).tolist() == stats.rankdata(values).tolist()


def test_the_best_method_ranks_first_whatever_the_direction():
    values = np.array([[0.9, 10.0], [0.5, 20.0], [0.7, 15.0]])
    assert mean_ranks(values, higher_is_better=[True, False]).tolist() == [1, 3, 2]


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 4), min_size=2, max_size=15))
def test_friedmans_test_is_that_of_scipy_ties_included(rows):
    values = np.array(rows, float).T
    found = friedman_test(values)
    if len(set(map(tuple, values))) == 1:
        assert (found.statistic, found.p_value) == (0, 1)
        return
    theirs = stats.friedmanchisquare(*values)
    assert found.statistic == pytest.approx(theirs.statistic, rel=1e-9, abs=1e-9)
    assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-9)


def test_the_first_place_is_that_of_the_largest_or_the_smallest_value():
    values = np.array([[1.0, 2.0, 1.5], [5.0, 6.0, 7.0], [3.0, 3.0, 3.0]])
    assert friedman_test(values).mean_ranks == (3, 1, 2)
    assert friedman_test(values, higher_is_better=False).mean_ranks == (1, 3, 2)


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 17, 40])
@pytest.mark.parametrize("statistic", [0.0, 0.3, 5.0, 60.0])
def test_the_tail_of_chi_squared_is_that_of_scipy(statistic, freedom):
    assert chi_squared_tail(statistic, freedom) == pytest.approx(stats.chi2.sf(statistic, freedom), rel=1e-10)


@pytest.mark.parametrize("methods", [2, 3, 10, 20])
def test_the_quantile_is_that_of_the_studentised_range(methods):
    expected = stats.studentized_range.ppf(0.95, methods, np.inf) / math.sqrt(2)
    assert nemenyi_quantile(methods) == pytest.approx(expected, abs=1e-4)


def test_the_critical_difference_is_that_of_the_worked_example():
    """Four methods on fourteen sets: 1.25 (Demšar 2006, section 3.2.2, with q = 2.569)."""
    values = np.random.default_rng(0).random((4, 14))
    assert friedman_test(values).critical_difference == pytest.approx(1.25, abs=0.005)


def test_one_method_or_one_picture_cannot_be_tested():
    with pytest.raises(ValueError, match="1 and 5"):
        friedman_test(np.zeros((1, 5)))
