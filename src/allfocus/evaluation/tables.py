"""The results as files: CSV (one row a picture and method), JSON (all of it), Markdown (the paper's layout)."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from allfocus.datasets.catalogue import all_datasets
from allfocus.evaluation.cells import Cell
from allfocus.evaluation.printed_results import PAPER_NAMES, PRINTED
from allfocus.evaluation.summary import DatasetSummary, MethodSummary, format_p_value, format_value, rank_by_value
from allfocus.metrics.catalogue import all_metrics

NOT_APPLICABLE = "n/a"
"""Stands where a metric is not defined, for example PSNR without a truth."""
FAILED = "error"
"""Stands where a score is missing: a text, so that no program averages over the rest without noticing."""


def csv_table(cells: Sequence[Cell], *, metrics: Mapping[str, Sequence[str]], protocol: str) -> str:
    """One line for each picture and method, values with all their digits.

    Args:
        cells: What was measured.
        metrics: Data set -> the metrics that apply to it.
        protocol: How the pictures were scored; repeated in every line.
    """
    columns = [name for name in all_metrics() if any(name in names for names in metrics.values())]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["dataset", "picture", "method", "protocol", *columns, "lost_detail", "seconds", "sha256", "error"])
    for cell in cells:
        values = []
        for name in columns:
            if name not in metrics[cell.dataset]:
                values.append(NOT_APPLICABLE)
            else:
                values.append(FAILED if cell.error else repr(float(cell.scores[name])))
        seconds = NOT_APPLICABLE if cell.seconds is None else f"{cell.seconds:.4f}"
        lost = FAILED if cell.lost_detail is None else repr(cell.lost_detail)
        own = [lost, seconds, cell.sha256 or FAILED, cell.error]
        writer.writerow([cell.dataset, cell.sample, cell.method, protocol, *values, *own])
    return text.getvalue()


def json_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """The cells as JSON holds them; infinity, which JSON lacks, is the text ``inf``."""
    return [
        {
            "dataset": cell.dataset,
            "picture": cell.sample,
            "method": cell.method,
            "scores": {name: json_number(value) for name, value in cell.scores.items()},
            "lost_detail": cell.lost_detail,
            "seconds": cell.seconds,
            "sha256": cell.sha256 or None,
            "error": cell.error or None,
        }
        for cell in cells
    ]


def json_summary(summary: DatasetSummary) -> dict[str, Any]:
    """The statistics of one set as JSON holds them."""
    return {
        "pictures": len(summary.samples),
        "metrics": list(summary.metrics),
        "methods": {row.method: _json_method(row) for row in summary.methods},
        "first_against_best_rival": {
            metric: {
                "first": found.first,
                "rival": found.rival,
                "wins": found.wins,
                "losses": found.losses,
                "pairs": found.test.pairs,
                "statistic": found.test.statistic,
                "p_value": found.test.p_value,
                "exact": found.test.exact,
            }
            for metric, found in summary.comparisons.items()
        },
        "friedman": {
            metric: {
                "mean_ranks": dict(zip(summary.complete, found.mean_ranks, strict=True)),
                "statistic": found.statistic,
                "p_value": found.p_value,
                "critical_difference": found.critical_difference,
            }
            for metric, found in summary.friedman.items()
        },
    }


def _json_method(row: MethodSummary) -> dict[str, Any]:
    return {
        "mean": {metric: json_number(estimate.mean) for metric, estimate in row.estimates.items()},
        "interval_95": {
            metric: [json_number(estimate.low), json_number(estimate.high)]
            for metric, estimate in row.estimates.items()
        },
        "mean_rank": row.mean_rank,
        "lost_detail": row.lost_detail,
        "seconds": row.seconds,
        "errors": row.errors,
    }


def json_number(value: float) -> float | str | None:
    """A number for JSON: infinity becomes a text, not-a-number null.

    Example:
        >>> json_number(float("inf")), json_number(float("nan")), json_number(0.5)
        ('inf', None, 0.5)
    """
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def markdown_tables(
    summaries: Mapping[str, DatasetSummary], *, protocol: str, heading: str = "##", printed: bool = True
) -> str:
    """For each set: our measurements in the paper's layout, the statistics, and apart from them what the paper prints.

    Args:
        summaries: What was measured.
        protocol: How the pictures were scored; named at every table.
        heading: What a heading begins with.
        printed: Whether to quote the paper's numbers.
    """
    parts: list[str] = []
    for summary in summaries.values():
        title = all_datasets()[summary.dataset].title
        parts.append(f"{heading} {title}\n")
        parts.append(f"Measured here: {count_of_pictures(summary)}, protocol `{protocol}`. "
                     "**Best**, <u>second</u>.\n")  # fmt: skip
        parts.append(measured_table(summary))
        if summary.comparisons:
            parts.append(comparison_table(summary))
        if summary.friedman:
            parts.append(rank_table(summary))
        if printed and summary.dataset in PRINTED:
            parts.append(printed_table(summary.dataset))
    return "\n".join(parts)


def count_of_pictures(summary: DatasetSummary) -> str:
    """How much of the set was used.

    For example "20 pictures" for a whole set and "32 of 710 pictures" for a part of one.
    """
    known = all_datasets()[summary.dataset].counts
    found = len(summary.samples)
    of_whole = f" of {min(known)}" if known and found < min(known) else ""
    return f"{found}{of_whole} picture{'s' if found != 1 or of_whole else ''}"


def measured_table(summary: DatasetSummary) -> str:
    """Methods as rows, metrics as columns, then mean rank, lost detail and seconds; Markdown."""
    header = ["Method", *(_column_title(metric) for metric in summary.metrics), "mean rank ↓", "lost % ↓", "CPU s"]
    places = {metric: summary.places(metric) for metric in summary.metrics}
    ranks = rank_by_value(
        {row.method: row.mean_rank for row in summary.methods if row.mean_rank is not None}, higher_is_better=False
    )
    lines = []
    for row in summary.methods:
        if row.errors:
            failed = f"error ({row.errors} of {len(summary.samples)})"
            lines.append([f"`{row.method}`", *[failed] * len(summary.metrics), "-", "-", "-"])
            continue
        values = [
            emphasise(format_value(metric, row.estimates[metric].mean), places[metric][row.method])
            for metric in summary.metrics
        ]
        rank = emphasise(f"{row.mean_rank:.2f}", ranks[row.method])
        seconds = "-" if row.seconds is None else f"{row.seconds:.2f}"
        lost = "-" if row.lost_detail is None else f"{row.lost_detail:.2f}"
        lines.append([f"`{row.method}`", *values, rank, lost, seconds])
    return _markdown(header, lines)


def comparison_table(summary: DatasetSummary) -> str:
    """The first method against the best rival by each metric, with interval and test; Markdown."""
    first = next(iter(summary.comparisons.values())).first
    rows = {row.method: row for row in summary.methods}
    lines = []
    for metric, found in summary.comparisons.items():
        own, other = rows[found.first].estimates[metric], rows[found.rival].estimates[metric]
        lines.append(
            [
                _column_title(metric),
                f"{format_value(metric, own.mean)} {format_interval(metric, own.low, own.high)}",
                f"`{found.rival}` {format_value(metric, other.mean)} {format_interval(metric, other.low, other.high)}",
                f"{found.wins} : {found.losses}",
                format_p_value(found.test.p_value),
            ]
        )
    intro = (
        f"`{first}` against the best rival by each metric; 95 % intervals by bootstrap, Wilcoxon's signed-rank test:"
    )
    return f"{intro}\n\n" + _markdown(["Metric", f"`{first}`", "best rival", "wins : losses", "p"], lines)


def rank_table(summary: DatasetSummary) -> str:
    """The mean place of each method by each metric, which differ significantly, and Friedman's test; Markdown."""
    tests = summary.friedman
    lines = []
    for number, method in enumerate(summary.complete):
        places = []
        for found in tests.values():
            place, best = found.mean_ranks[number], min(found.mean_ranks)
            text = f"{place:.2f}"
            places.append(f"**{text}**" if place == best else f"{text} ="
                          if place - best < found.critical_difference else text)  # fmt: skip
        lines.append([f"`{method}`", *places])
    lines.append(["critical difference", *(f"{found.critical_difference:.2f}" for found in tests.values())])
    lines.append(["Friedman, p", *(format_p_value(found.p_value) for found in tests.values())])
    intro = (
        "Mean place over the pictures, **best**; = marks what does not differ significantly from it (Friedman's test "
        "of all methods, Nemenyi's critical difference, 5 %):"
    )
    return f"{intro}\n\n" + _markdown(["Method", *tests], lines)


def format_interval(metric: str, low: float, high: float) -> str:
    """An interval in brackets; empty where there is none."""
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"[{format_value(metric, low)}, {format_value(metric, high)}]"


def printed_table(dataset: str) -> str:
    """What the paper prints for a set, marked as printed; an empty text for sets that are not in the paper."""
    if dataset not in PRINTED:
        return ""
    table = PRINTED[dataset]
    lines = []
    for method, values in table.rows.items():
        shown = []
        for metric, value in zip(table.metrics, values, strict=True):
            shown.append(emphasise(format_printed(metric, value), printed_place(dataset, metric, method)))
        lines.append([f"{PAPER_NAMES[method]} (printed)", *shown])
    intro = (
        f"Printed in the paper, Table {table.table} ({table.pictures} pictures, the authors' own scoring), "
        "quoted and not measured here:"
    )
    return f"{intro}\n\n" + _markdown(["Method", *(_column_title(metric) for metric in table.metrics)], lines)


def format_printed(metric: str, value: float) -> str:
    """A number with the digits the paper prints.

    Example:
        >>> format_printed("SSIM", 0.99), format_printed("PSNR", 31.7), format_printed("Q_CB", 0.72)
        ('0.990', '31.70', '0.7200')
    """
    return f"{value:.{ {'PSNR': 2, 'SSIM': 3}.get(metric, 4) }f}"


def printed_place(dataset: str, metric: str, method: str) -> int:
    """The place of a method among the paper's printed rows, 1 the best."""
    table = PRINTED[dataset]
    column = table.metrics.index(metric)
    values = {name: row[column] for name, row in table.rows.items()}
    return rank_by_value(values, higher_is_better=all_metrics()[metric].direction == "higher")[method]


def emphasise(text: str, place: int) -> str:
    """Bold for the best, underlined for the second.

    Example:
        >>> emphasise("0.9", 1), emphasise("0.8", 2), emphasise("0.7", 3)
        ('**0.9**', '<u>0.8</u>', '0.7')
    """
    return {1: f"**{text}**", 2: f"<u>{text}</u>"}.get(place, text)


def _column_title(metric: str) -> str:
    return f"{metric} {'↑' if all_metrics()[metric].direction == 'higher' else '↓'}"


def _markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *lines]) + "\n"
