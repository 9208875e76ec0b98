"""The report: one HTML page with tables, statistics, plots and pictures that needs no other file and no network."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from allfocus.datasets.catalogue import all_datasets
from allfocus.datasets.samples import Sample
from allfocus.evaluation.plots import difference_plot, strip_plot
from allfocus.evaluation.printed_results import PAPER_NAMES, PRINTED
from allfocus.evaluation.scene_section import reading_help, scene_section
from allfocus.evaluation.scenes_to_show import choose_scenes
from allfocus.evaluation.summary import DatasetSummary, format_p_value, format_value, rank_by_value
from allfocus.evaluation.tables import count_of_pictures, format_interval, format_printed, printed_place
from allfocus.images.writing import replace_file
from allfocus.metrics.catalogue import all_metrics
from allfocus.pages.html import build_list, build_page, build_table, escape, read_asset
from allfocus.progress import StepProgress

if TYPE_CHECKING:
    from allfocus.evaluation.benchmark import EvaluationResult

PICTURE_BYTES = 11_000_000
"""Of pictures in a page; scenes that would exceed it are left out, the last of each set first, and counted."""

Samples = Mapping[str, Mapping[str, Sample]]


def write_report(result: "EvaluationResult", samples: Samples, *, progress: StepProgress | None = None) -> None:
    """Write ``report.html`` into the folder of a benchmark.

    Args:
        result: What the benchmark found.
        samples: Data set -> name -> sample, for the pictures.
        progress: Called with "reporting", the scenes done, and the scenes in all.
    """
    chosen = {name: choose_scenes(summary) for name, summary in result.summaries.items()}
    total = sum(map(len, chosen.values()))
    scenes: dict[str, list[str]] = {name: [] for name in chosen}
    size = left_out = done = 0
    # One scene of each set in turn, so that no set goes without because another has large pictures.
    for group in itertools.zip_longest(*([(name, *scene) for scene in found] for name, found in chosen.items())):
        for dataset, sample, reason in filter(None, group):
            text = scene_section(result, dataset, samples[dataset][sample], reason)
            if size and size + len(text) > PICTURE_BYTES:
                left_out += 1
            else:
                size += len(text)
                scenes[dataset].append(text)
            done += 1
            if progress is not None:
                progress("reporting", done, total)
    page = build_report_page(result, scenes, left_out=left_out)
    replace_file(result.output / "report.html", page.encode(), overwrite=True)


def build_report_page(result: "EvaluationResult", scenes: Mapping[str, Sequence[str]], *, left_out: int = 0) -> str:
    """The page as text.

    Args:
        result: What the benchmark found.
        scenes: Data set -> the HTML of each scene to show.
        left_out: How many scenes had no room.
    """
    links = {name: all_datasets()[name].title for name in result.summaries}
    sets = "".join(_set_section(result, summary, scenes[name]) for name, summary in result.summaries.items())
    note = (
        f"<p class=quiet>{left_out} more scenes had no room in this page; see the folder fused.</p>" if left_out else ""
    )
    return build_page(
        _title(result),
        byline=_byline(result),
        links=links | {"origin": "Origin"},
        body=f"{_error_list(result)}{sets}{note}",
        footer=_origin(result),
        styles=[read_asset("allfocus.evaluation", "report.css")],
        scripts=[read_asset("allfocus.evaluation", "report.js")],
        label="Data sets",
    )


def _title(result: "EvaluationResult") -> str:
    names = [all_datasets()[name].title for name in result.summaries]
    sets = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    methods = [row.method for row in next(iter(result.summaries.values())).methods]
    others = len(methods) - 1
    against = f" against {others} other{'s' if others > 1 else ''}" if others else ""
    return f"{methods[0]}{against} on {sets}"


def _scoring(result: "EvaluationResult") -> str:
    jpeg = result.document["settings"]["jpeg"]
    return f"protocol {result.protocol}" + (f", after JPEG {jpeg}" if jpeg else "")


def _byline(result: "EvaluationResult") -> str:
    document = result.document
    commit = f", commit {document['commit'][:10]}" if document["commit"] else ""
    changed = " with changes" if document["modified"] else ""
    day, time = document["created"][:10], document["created"][11:16]
    scored = len(result.cells) - len(result.errors)
    return (
        f"{scored} of {len(result.cells)} cells scored, {_scoring(result)}. "
        f"allfocus {document['versions']['allfocus']}{commit}{changed}. {day}, {time} UTC."
    )


def _error_list(result: "EvaluationResult") -> str:
    if not result.errors:
        return ""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for cell in result.errors:
        groups.setdefault((cell.method, cell.dataset, cell.error), []).append(cell.sample)
    shown = 12
    items = "".join(
        f"<li><b>{escape(method)}</b> on {escape(f'{dataset} {_several(names)}: {error}')}</li>"
        for (method, dataset, error), names in list(groups.items())[:shown]
    )
    rest = f"<li>and {len(groups) - shown} more kinds, in results.csv</li>" if len(groups) > shown else ""
    return (
        f'<div class="alert" role="alert"><strong>{len(result.errors)} of {len(result.cells)} cells failed.</strong> '
        f"A method with a failed cell has no mean: one over the rest would not compare.<ul>{items}{rest}</ul></div>"
    )


def _several(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _set_section(result: "EvaluationResult", summary: DatasetSummary, scenes: Sequence[str]) -> str:
    dataset = all_datasets()[summary.dataset]
    cite = f"Cite: {dataset.citation.rstrip('.')}. " if dataset.citation else ""
    about = f"{dataset.summary[:1].upper()}{dataset.summary[1:].rstrip('.')}. {cite}Licence: {dataset.licence}"
    closer = f"<h3>A closer look</h3>{reading_help()}{''.join(scenes)}" if scenes else ""
    return f"""
<section class="set" id="{summary.dataset}">
<h2>{escape(dataset.title)}</h2>
<p class="quiet">{escape(about)}</p>
<p class="lead">{_verdict(summary)}</p>
<h3>Measured: {escape(count_of_pictures(summary))}, {escape(_scoring(result))}</h3>
{_measured_table(summary)}
{_comparison_table(summary)}
{_rank_table(summary)}
{_printed_table(summary.dataset)}
{_plots(summary)}
{closer}
</section>"""


def _verdict(summary: DatasetSummary) -> str:
    """One sentence that says who wins, whoever it is."""
    complete = {row.method: row.mean_rank for row in summary.methods if row.mean_rank is not None}
    if not complete:
        return "No method was scored on every picture."
    if len(complete) == 1:
        return f"Only <code>{escape(next(iter(complete)))}</code> was scored on every picture."
    first = summary.methods[0].method
    best = min(complete, key=lambda method: complete[method])
    text = f"<code>{escape(best)}</code> has the best mean rank, {complete[best]:.2f} of {len(complete)}"
    if first in complete and best != first:
        text += f"; <code>{escape(first)}</code> has {complete[first]:.2f}"
    if first in complete:
        led = [metric for metric in summary.metrics if summary.places(metric)[first] == 1]
        clear = [metric for metric in led if summary.comparisons[metric].test.p_value < 0.05]
        text += f". <code>{escape(first)}</code> leads in {len(led)} of {len(summary.metrics)} metrics"
        text += f", in {len(clear)} of them significantly (p &lt; 0.05)" if led else ""
    return text + "."


def _column(metric: str) -> str:
    found = all_metrics()[metric]
    arrow = "↑" if found.direction == "higher" else "↓"
    return f'<span title="{escape(found.full_name)}">{escape(metric)} {arrow}</span>'


def _emphasise(text: str, place: int) -> str:
    return {1: f"<b>{text}</b>", 2: f"<u>{text}</u>"}.get(place, text)


def _measured_table(summary: DatasetSummary) -> str:
    places = {metric: summary.places(metric) for metric in summary.metrics}
    ranks = rank_by_value(
        {row.method: row.mean_rank for row in summary.methods if row.mean_rank is not None}, higher_is_better=False
    )
    rows = []
    for number, row in enumerate(summary.methods):
        name = f'<th scope="row"><code>{escape(row.method)}</code></th>'
        kind = ' class="own"' if number == 0 else ""
        if row.errors:
            text = f"error on {row.errors} of {len(summary.samples)} pictures"
            rows.append(f'<tr{kind}>{name}<td class="error" colspan="{len(summary.metrics) + 3}">{text}</td></tr>')
            continue
        cells = ""
        for metric in summary.metrics:
            estimate = row.estimates[metric]
            interval = format_interval(metric, estimate.low, estimate.high)
            small = f"<small>{interval[1:-1].replace(', ', ' – ')}</small>" if interval else ""
            cells += f"<td>{_emphasise(format_value(metric, estimate.mean), places[metric][row.method])}{small}</td>"
        seconds = "–" if row.seconds is None else f"{row.seconds:.2f}"
        lost = "–" if row.lost_detail is None else f"{row.lost_detail:.2f}"
        rank = _emphasise(f"{row.mean_rank:.2f}", ranks[row.method])
        cells += f"<td>{rank}</td><td>{lost}</td><td>{seconds}</td>"
        rows.append(f"<tr{kind}>{name}{cells}</tr>")
    header = ["Method", *map(_column, summary.metrics), "rank ↓", "lost % ↓", "CPU s"]
    note = (
        '<p class="quiet">Mean over the pictures, <b>best</b>, <u>second</u>; below it the 95 % interval of the mean '
        "(bootstrap). Rank: mean place over all metrics and pictures. Lost: percent of the picture in which "
        "detail of some frame is lost. CPU s: processor time to fuse one picture.</p>"
    )
    return build_table(header, rows, label="Measured scores") + note


def _rank_table(summary: DatasetSummary) -> str:
    if not summary.friedman:
        return ""
    tests = summary.friedman.values()
    rows = []
    for number, method in enumerate(summary.complete):
        cells = ""
        for found in tests:
            place, best = found.mean_ranks[number], min(found.mean_ranks)
            near = " =" if best < place < best + found.critical_difference else ""
            cells += f"<td>{_emphasise(f'{place:.2f}', 1 if place == best else 0)}{near}</td>"
        rows.append(f'<tr><th scope="row"><code>{escape(method)}</code></th>{cells}</tr>')
    for name, values in (
        ("critical difference", [f"{found.critical_difference:.2f}" for found in tests]),
        ("Friedman, p", [escape(format_p_value(found.p_value)) for found in tests]),
    ):
        rows.append(f'<tr><th scope="row">{name}</th>{"".join(f"<td>{value}</td>" for value in values)}</tr>')
    note = (
        '<p class="quiet">Mean place over the pictures; = marks what does not differ significantly from the best '
        "(Friedman's test of all methods, Nemenyi's critical difference, 5 %).</p>"
    )
    header = ["Method", *map(_column, summary.friedman)]
    return "<h3>Places</h3>" + build_table(header, rows, label="Mean places by metric") + note


def _comparison_table(summary: DatasetSummary) -> str:
    if not summary.comparisons:
        return ""
    first = next(iter(summary.comparisons.values())).first
    by_name = {row.method: row for row in summary.methods}
    rows = []
    for metric, found in summary.comparisons.items():
        own, other = (by_name[name].estimates[metric].mean for name in (found.first, found.rival))
        own_is_better = summary.places(metric)[found.first] < summary.places(metric)[found.rival]
        own_text, other_text = format_value(metric, own), format_value(metric, other)
        rows.append(
            f'<tr><th scope="row">{_column(metric)}</th>'
            f"<td>{_emphasise(own_text, 1 if own_is_better else 3)}</td><td><code>{escape(found.rival)}</code></td>"
            f"<td>{_emphasise(other_text, 3 if own_is_better else 1)}</td><td>{found.wins}</td><td>{found.losses}</td>"
            f"<td>{escape(format_p_value(found.test.p_value))}</td></tr>"
        )
    header = ["Metric", f"<code>{escape(first)}</code>", "best rival", "its mean", "wins", "losses", "p"]
    note = (
        '<p class="quiet">Wins and losses are pictures. p: Wilcoxon\'s signed-rank test, two-sided, not corrected for '
        "the number of metrics.</p>"
    )
    title = f"<h3><code>{escape(first)}</code> against the best rival</h3>"
    return title + build_table(header, rows, label="The first method against the best rival") + note


def _printed_table(dataset: str) -> str:
    if dataset not in PRINTED:
        return ""
    table = PRINTED[dataset]
    rows = []
    for method, values in table.rows.items():
        cells = "".join(
            f"<td>{_emphasise(format_printed(metric, value), printed_place(dataset, metric, method))}</td>"
            for metric, value in zip(table.metrics, values, strict=True)
        )
        rows.append(f'<tr><th scope="row">{escape(PAPER_NAMES[method])} <small>printed</small></th>{cells}</tr>')
    header = ["Method", *map(_column, table.metrics)]
    return (
        f"<details><summary>Printed in the paper, Table {table.table}</summary>"
        f'<p class="quiet">Quoted, not measured here: {table.pictures} pictures, the authors\' own scoring. '
        "Do not compare the digits with the table above.</p>"
        f"{build_table(header, rows, kind='printed', label='Printed')}</details>"
    )


def _plots(summary: DatasetSummary) -> str:
    methods = [row for row in summary.methods if row.estimates]
    if not methods:
        return ""
    figures = []
    for metric in summary.metrics:
        digits = 2 if math.isinf(all_metrics()[metric].highest) else 4
        intervals = {row.method: (row.estimates[metric].low, row.estimates[metric].high) for row in methods}
        plot = strip_plot(
            {row.method: summary.values[row.method, metric] for row in methods},
            pictures=summary.samples,
            intervals=intervals,
            digits=digits,
            title=f"{metric} of each picture by method",
        )
        figures.append(
            f'<figure class="plot"><h4>{_column(metric)}</h4>{plot}{_difference(summary, metric, digits)}</figure>'
        )
    note = (
        '<p class="quiet">A dot is a picture; point at it to find it in every plot. The tick is the mean, the bar its '
        "95 % interval; hollow dots lie outside the plot. The bars below are the differences, picture by picture.</p>"
    )
    return f'<h3>Picture by picture</h3>{note}<div class="plots">{"".join(figures)}</div>'


def _difference(summary: DatasetSummary, metric: str, digits: int) -> str:
    if metric not in summary.comparisons:
        return ""
    found = summary.comparisons[metric]
    own, other = summary.values[found.first, metric], summary.values[found.rival, metric]
    sign = 1.0 if all_metrics()[metric].direction == "higher" else -1.0
    difference = sign * np.subtract(own, other, out=np.zeros_like(own), where=own != other)
    title = f"{found.first} minus {found.rival}"
    plot = difference_plot(difference, pictures=summary.samples, digits=digits, title=title)
    return (
        f"{plot}<figcaption>up: {escape(found.first)} is better than {escape(found.rival)}, its best rival "
        f"({found.wins} of {len(own)}); largest {float(np.abs(difference).max()):.{digits}f}</figcaption>"
    )


def _origin(result: "EvaluationResult") -> str:
    document = result.document
    settings, machine = document["settings"], document["machine"]
    entries = {
        "files": "results.csv (every value), results.json (all of this), results.md, fused/ (every picture)",
        "command": f"seed {settings['seed']}, {settings['workers']} workers, device {settings['device']}, "
        f"metrics scored with {_scoring(result)}",
        "versions": ", ".join(f"{name} {version}" for name, version in document["versions"].items()),
        "commit": (document["commit"] or "unknown (an installed copy)")
        + (" with changes" if document["modified"] else ""),
        "machine": f"{machine['processor']}, {machine['cores']} cores, {machine['system']}",
        "other software": ", ".join(settings["images"]) or "none",
    }
    return f"<h3>Where these numbers come from</h3>{build_list(entries)}"
