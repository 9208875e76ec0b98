"""Cells -> what a table says: means with intervals, ranks, and the first method against its best rival."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allfocus.evaluation.cells import Cell
from allfocus.evaluation.statistics import (
    FriedmanTest,
    SignedRankTest,
    bootstrap_interval,
    friedman_test,
    mean_ranks,
    signed_rank_test,
)
from allfocus.metrics.catalogue import all_metrics


@dataclass(frozen=True)
class Estimate:
    """The mean of one metric over the pictures of one set."""

    mean: float
    low: float
    """Lower end of the 95 % interval of the mean; not-a-number for a single picture."""
    high: float
    """Upper end of it."""


@dataclass(frozen=True)
class Comparison:
    """The first method against the best other one, by one metric."""

    first: str
    rival: str
    wins: int
    """Pictures on which the first is better."""
    losses: int
    test: SignedRankTest


@dataclass(frozen=True)
class MethodSummary:
    """One row of the table of one set."""

    method: str
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    """By metric; empty where a picture is missing, because a mean over the rest would not compare."""
    mean_rank: float | None = None
    """Mean place among the complete methods over all metrics and pictures, 1 the best; None with errors."""
    seconds: float | None = None
    """Mean time of fusing one picture; None with errors, or where other software did it."""
    lost_detail: float | None = None
    """Mean percent of the picture in which detail of some frame is lost; None with errors."""
    errors: int = 0
    """Pictures without a score."""


@dataclass(frozen=True)
class DatasetSummary:
    """All that a table of one set says."""

    dataset: str
    samples: tuple[str, ...]
    metrics: tuple[str, ...]
    methods: tuple[MethodSummary, ...]
    comparisons: Mapping[str, Comparison]
    """By metric; empty where there is no complete rival or the first method is incomplete."""
    friedman: Mapping[str, FriedmanTest]
    """By metric, of the complete methods in their order; empty for fewer than three of them or fewer than two
    pictures."""
    values: Mapping[tuple[str, str], NDArray[np.float64]]
    """(method, metric) -> one value a sample, for the complete methods."""

    @property
    def complete(self) -> tuple[str, ...]:
        """The methods without errors."""
        return tuple(row.method for row in self.methods if row.estimates)

    def places(self, metric: str) -> dict[str, int]:
        """The place of each complete method by the mean of a metric, 1 the best; equal means share a place."""
        means = {row.method: row.estimates[metric].mean for row in self.methods if row.estimates}
        return rank_by_value(means, higher_is_better=all_metrics()[metric].direction == "higher")


def rank_by_value(values: Mapping[str, float], *, higher_is_better: bool) -> dict[str, int]:
    """The place of each name, 1 the best; equal values share a place.

    Example:
        >>> rank_by_value({"a": 0.5, "b": 0.7, "c": 0.7}, higher_is_better=True)
        {'a': 3, 'b': 1, 'c': 1}
    """
    sign = -1 if higher_is_better else 1
    return {name: 1 + sum(sign * other < sign * value for other in values.values()) for name, value in values.items()}


def summarise(
    cells: Sequence[Cell], *, metrics: Mapping[str, Sequence[str]], seed: int = 0
) -> dict[str, DatasetSummary]:
    """The summary of each data set, in the order of ``metrics``.

    Args:
        cells: All of them: every method on every sample of every set.
        metrics: Data set -> the metrics that apply to it.
        seed: Of the bootstrap.
    """
    return {
        dataset: _summarise_dataset(dataset, [cell for cell in cells if cell.dataset == dataset], names, seed)
        for dataset, names in metrics.items()
    }


def _summarise_dataset(dataset: str, cells: Sequence[Cell], metrics: Sequence[str], seed: int) -> DatasetSummary:
    samples = list(dict.fromkeys(cell.sample for cell in cells))
    methods = list(dict.fromkeys(cell.method for cell in cells))
    by_place = {(cell.method, cell.sample): cell for cell in cells}
    errors = {method: sum(bool(by_place[method, sample].error) for sample in samples) for method in methods}
    complete = [method for method in methods if not errors[method]]
    values = {
        (method, metric): np.array([by_place[method, sample].scores[metric] for sample in samples])
        for method in complete
        for metric in metrics
    }
    ranks = _rank_methods(values, complete, metrics)
    rows = []
    for method in methods:
        if errors[method]:
            rows.append(MethodSummary(method, errors=errors[method]))
            continue
        estimates = {metric: _estimate(values[method, metric], seed) for metric in metrics}
        mean_seconds = _mean([by_place[method, sample].seconds for sample in samples])
        lost = _mean([by_place[method, sample].lost_detail for sample in samples])
        rows.append(MethodSummary(method, estimates, ranks[method], mean_seconds, lost))
    comparisons = {}
    if len(complete) > 1 and methods[0] in complete:
        comparisons = {metric: _compare(metric, complete, values) for metric in metrics}
    tests = {}
    if len(complete) > 2 and len(samples) > 1:
        for metric in metrics:
            table = np.stack([values[method, metric] for method in complete])
            tests[metric] = friedman_test(table, higher_is_better=all_metrics()[metric].direction == "higher")
    return DatasetSummary(dataset, tuple(samples), tuple(metrics), tuple(rows), comparisons, tests, values)


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean, unless one is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def _estimate(values: NDArray[np.float64], seed: int) -> Estimate:
    return Estimate(float(values.mean()), *bootstrap_interval(values, seed=seed))


def _rank_methods(
    values: Mapping[tuple[str, str], NDArray[np.float64]], methods: Sequence[str], metrics: Sequence[str]
) -> dict[str, float]:
    if not methods:
        return {}
    table = np.stack([np.concatenate([values[method, metric] for metric in metrics]) for method in methods])
    count = table.shape[1] // len(metrics)
    higher = [all_metrics()[metric].direction == "higher" for metric in metrics for _ in range(count)]
    return dict(zip(methods, map(float, mean_ranks(table, higher_is_better=higher)), strict=True))


def _compare(metric: str, methods: Sequence[str], values: Mapping[tuple[str, str], NDArray[np.float64]]) -> Comparison:
    sign = 1.0 if all_metrics()[metric].direction == "higher" else -1.0
    first = methods[0]
    rival = max(methods[1:], key=lambda method: sign * float(values[method, metric].mean()))
    own, other = values[first, metric], values[rival, metric]
    wins, losses = int((sign * own > sign * other).sum()), int((sign * own < sign * other).sum())
    return Comparison(first, rival, wins, losses, signed_rank_test(own.tolist(), other.tolist()))


def format_value(metric: str, value: float) -> str:
    """A score with the digits that papers print: four decimals, two where the metric has no upper end.

    Example:
        >>> format_value("Q_MI", 1.05721), format_value("PSNR", 42.188)
        ('1.0572', '42.19')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{2 if math.isinf(all_metrics()[metric].highest) else 4}f}"


def format_p_value(value: float) -> str:
    """A probability to read: three decimals, or "< 0.001".

    Example:
        >>> format_p_value(0.04321), format_p_value(2e-6)
        ('0.043', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def state_p_value(value: float) -> str:
    """The same within a sentence.

    Example:
        >>> state_p_value(0.04321), state_p_value(2e-6)
        ('p = 0.043', 'p < 0.001')
    """
    text = format_p_value(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"
