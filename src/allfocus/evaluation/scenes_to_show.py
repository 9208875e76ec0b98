"""Which pictures a report shows: where the first method does worst, where it does best, and one in between."""

import numpy as np
from numpy.typing import NDArray

from allfocus.evaluation.statistics import average_ranks
from allfocus.evaluation.summary import DatasetSummary
from allfocus.metrics.catalogue import all_metrics


def choose_scenes(summary: DatasetSummary) -> list[tuple[str, str]]:
    """Names of samples with the reason for each, the worst for the first method first.

    With one method, or an incomplete first one, there is nothing to compare and the first sample is chosen.
    """
    first = summary.methods[0].method
    if not summary.comparisons:
        return [(summary.samples[0], "the first picture of the set")]
    places = places_by_picture(summary)
    order = np.argsort(places, kind="stable")
    reasons = {
        int(order[-1]): f"where {first} ranks worst (mean place {places[order[-1]]:.1f} over the metrics)",
        int(order[0]): f"where {first} ranks best (mean place {places[order[0]]:.1f})",
        int(order[len(order) // 2]): f"a typical picture (mean place of {first}: {places[order[len(order) // 2]]:.1f})",
    }
    return [(summary.samples[number], reason) for number, reason in reasons.items()]


def places_by_picture(summary: DatasetSummary) -> NDArray[np.float64]:
    """The mean place of the first method on each picture, over the metrics; 1 is the best."""
    methods = [row.method for row in summary.methods if row.estimates]
    places = np.zeros((len(summary.metrics), len(summary.samples)))
    for row, metric in enumerate(summary.metrics):
        sign = -1.0 if all_metrics()[metric].direction == "higher" else 1.0
        values = sign * np.stack([summary.values[method, metric] for method in methods])
        places[row] = [average_ranks(column)[0] for column in values.T]
    mean: NDArray[np.float64] = places.mean(axis=0)
    return mean
