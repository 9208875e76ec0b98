"""What a table of scores needs beside the mean: an interval, a test against the best rival, ranks, a test of all.

Written with numpy alone; the tests compare both tests with scipy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

LARGEST_EXACT = 25
"""Pairs up to which the signed-rank test counts all outcomes instead of using the normal distribution."""


def bootstrap_interval(
    values: Sequence[float] | NDArray[np.float64], *, seed: int = 0, level: float = 0.95, resamples: int = 10_000
) -> tuple[float, float]:
    """The interval in which the mean lies, by the percentiles of resampled means.

    The same seed draws the same pictures for every method, so intervals of one set are comparable.

    Args:
        values: One number a picture.
        seed: Of the random draws.
        level: The share of resampled means inside the interval.
        resamples: How many times the pictures are drawn anew.

    Returns:
        The lower and the upper end; both not-a-number for fewer than two values, which say nothing about spread.

    Example:
        >>> low, high = bootstrap_interval([1.0, 2.0, 3.0, 4.0])
        >>> low < 2.5 < high
        True
    """
    sample = np.asarray(values, np.float64)
    if len(sample) < 2:
        return math.nan, math.nan
    drawn = np.random.default_rng(seed).integers(0, len(sample), size=(resamples, len(sample)))
    means = np.sort(sample[drawn].mean(axis=1))
    # Taken from the sorted means without interpolation, which would make infinity (a perfect PSNR) not-a-number.
    tail = (1 - level) / 2
    low, high = math.floor(tail * (resamples - 1)), math.ceil((1 - tail) * (resamples - 1))
    return float(means[low]), float(means[high])


@dataclass(frozen=True)
class SignedRankTest:
    """The outcome of Wilcoxon's signed-rank test."""

    statistic: float
    """The smaller of the two sums of ranks."""
    p_value: float
    """Probability of a statistic as extreme as this if neither method were better; two-sided."""
    pairs: int
    """Pairs that differ; equal ones say nothing and are left out."""
    exact: bool
    """True: by counting all outcomes. False: by the normal distribution, corrected for ties."""


def signed_rank_test(first: Sequence[float], second: Sequence[float]) -> SignedRankTest:
    """Wilcoxon's test of whether two methods score differently on the same pictures.

    Exact up to 25 pairs without ties, otherwise the normal approximation with the correction for ties and without the
    one for continuity. Wilcoxon, Biometrics Bulletin 1(6), 1945.

    Args:
        first: One number a picture.
        second: The other method's numbers, in the same order.

    Raises:
        ValueError: The two differ in length.

    Example:
        >>> signed_rank_test([1, 2, 3, 4, 5], [0, 0, 0, 0, 0])
        SignedRankTest(statistic=0.0, p_value=0.0625, pairs=5, exact=True)
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape:
        raise ValueError(f"paired values differ in number: {len(a)} and {len(b)}")
    unequal = a != b
    differences = a[unequal] - b[unequal]
    count = len(differences)
    if count == 0:
        return SignedRankTest(0.0, 1.0, 0, exact=True)
    ranks = average_ranks(np.abs(differences))
    positive = float(ranks[differences > 0].sum())
    statistic = min(positive, count * (count + 1) / 2 - positive)
    _, ties = np.unique(np.abs(differences), return_counts=True)
    if count <= LARGEST_EXACT and ties.max() == 1:
        return SignedRankTest(statistic, _exact_p_value(round(statistic), count), count, exact=True)
    variance = count * (count + 1) * (2 * count + 1) / 24 - float((ties**3 - ties).sum()) / 48
    deviation = (statistic - count * (count + 1) / 4) / math.sqrt(variance)
    return SignedRankTest(statistic, min(1.0, math.erfc(-deviation / math.sqrt(2))), count, exact=False)


def _exact_p_value(statistic: int, count: int) -> float:
    """Twice the share of the 2**count choices of signs whose sum of ranks is at most the statistic."""
    ways = np.zeros(count * (count + 1) // 2 + 1)
    ways[0] = 1
    for rank in range(1, count + 1):
        ways[rank:] += ways[:-rank].copy()
    share = float(ways[: statistic + 1].sum()) / float(2**count)
    return min(1.0, 2 * share)


def average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank of each value, the smallest 1; equal values share the mean of their ranks.

    Example:
        >>> average_ranks(np.array([10.0, 30.0, 10.0]))
        array([1.5, 3. , 1.5])
    """
    smaller = (values[None, :] < values[:, None]).sum(axis=1)
    equal = (values[None, :] == values[:, None]).sum(axis=1)
    ranks: NDArray[np.float64] = smaller + (equal + 1) / 2
    return ranks


def mean_ranks(values: NDArray[np.float64], *, higher_is_better: Sequence[bool]) -> NDArray[np.float64]:
    """The mean place of each method over all comparisons; 1 is always the best.

    Args:
        values: ``(methods, comparisons)``; a comparison is one metric on one picture.
        higher_is_better: One for each comparison.

    Example:
        >>> mean_ranks(np.array([[0.9, 3.0], [0.8, 5.0]]), higher_is_better=[True, False])
        array([1., 2.])
        >>> mean_ranks(np.array([[0.9, 3.0], [0.8, 5.0]]), higher_is_better=[True, True])
        array([1.5, 1.5])
    """
    signs = np.where(np.asarray(higher_is_better), -1.0, 1.0)
    places = np.stack([average_ranks(column) for column in (values * signs).T])
    mean: NDArray[np.float64] = places.mean(axis=0)
    return mean


@dataclass(frozen=True)
class FriedmanTest:
    """The outcome of Friedman's test of several methods on the same pictures, and how far apart places must be."""

    mean_ranks: tuple[float, ...]
    """The mean place of each method over the pictures, 1 the best."""
    statistic: float
    """Friedman's chi-squared, corrected for ties."""
    p_value: float
    """Probability of a statistic as large as this if no method were better than any other."""
    critical_difference: float
    """Methods whose mean places differ by less cannot be told apart at the level of 5 % (Nemenyi)."""


def friedman_test(values: NDArray[np.float64], *, higher_is_better: bool = True) -> FriedmanTest:
    """Friedman's test of whether methods score differently, with Nemenyi's critical difference of their mean places.

    M. Friedman, J. American Statistical Association 32, 1937; P. Nemenyi, 1963; as J. Demšar, J. Machine Learning
    Research 7, 2006, recommends for several methods on several sets. Here a picture takes the place of a set.

    Args:
        values: ``(methods, pictures)``, at least two of each.
        higher_is_better: Whether the largest value gets place 1.

    Raises:
        ValueError: fewer than two methods or pictures.

    Example:
        >>> found = friedman_test(np.array([[3.0, 3, 3, 3], [2, 2, 2, 2], [1, 1, 1, 1]]))
        >>> found.mean_ranks, round(found.statistic, 6), round(found.p_value, 4)
        ((1.0, 2.0, 3.0), 8.0, 0.0183)
    """
    methods, pictures = values.shape
    if methods < 2 or pictures < 2:
        raise ValueError(f"two methods and two pictures at least; got {methods} and {pictures}")
    signed = -values if higher_is_better else values
    places = np.stack([average_ranks(column) for column in signed.T])
    ties = sum(
        float((counts**3 - counts).sum()) for counts in (np.unique(row, return_counts=True)[1] for row in places)
    )
    mean = places.mean(axis=0)
    spread = 12 * pictures / (methods * (methods + 1)) * float(((mean - (methods + 1) / 2) ** 2).sum())
    correction = 1 - ties / (pictures * methods * (methods**2 - 1))
    statistic = spread / correction if correction > 0 else 0.0
    difference = nemenyi_quantile(methods) * math.sqrt(methods * (methods + 1) / (6 * pictures))
    return FriedmanTest(tuple(map(float, mean)), statistic, chi_squared_tail(statistic, methods - 1), difference)


def chi_squared_tail(statistic: float, freedom: int) -> float:
    """The probability that chi-squared with so many degrees of freedom is larger than a number.

    Example:
        >>> round(chi_squared_tail(3.841459, 1), 6), round(chi_squared_tail(5.991465, 2), 6)
        (0.05, 0.05)
    """
    half = statistic / 2
    # The tail of two degrees less, and one more term, down to one or two degrees, whose tails are known.
    if freedom % 2:
        tail, term, order = math.erfc(math.sqrt(half)), math.sqrt(half / math.pi) * 2 * math.exp(-half), 1.5
    else:
        tail, term, order = math.exp(-half), half * math.exp(-half), 2.0
    for _ in range((freedom - 1) // 2):
        tail, term, order = tail + term, term * half / order, order + 1
    return min(1.0, tail)


@cache
def nemenyi_quantile(methods: int, *, level: float = 0.05) -> float:
    """By how many standard errors the places of so many methods must differ: the studentised range over root two.

    Found by halving on the integral of the range of normal numbers, which no library here has.

    Example:
        >>> [round(nemenyi_quantile(count), 3) for count in (2, 3, 10)]
        [1.96, 2.344, 3.164]
    """
    points = np.linspace(-8, 8, 3201)
    density = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)

    def below(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in values])

    here = below(points)
    low, high = 0.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        within = (here - below(points - middle)) ** (methods - 1)
        share = methods * float((density * within).sum()) * float(points[1] - points[0])
        low, high = (middle, high) if share < 1 - level else (low, middle)
    return (low + high) / 2 / math.sqrt(2)
