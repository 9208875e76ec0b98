"""What a table of scores needs beside the mean: an interval, a test against the best rival, and ranks.

Written with numpy alone; the tests compare the signed-rank test with scipy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
