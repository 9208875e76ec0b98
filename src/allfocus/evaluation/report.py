"""The report: one HTML page with tables, statistics, plots and pictures that needs no other file and no network."""

import html
import importlib.resources
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from allfocus.datasets.catalogue import DATASETS
from allfocus.datasets.samples import Sample
from allfocus.evaluation.cells import Cell
from allfocus.evaluation.comparison_pictures import (
    Pixels,
    Window,
    crop,
    data_address,
    difference_map,
    find_focus_windows,
    heat_picture,
    shrink,
)
from allfocus.evaluation.plots import difference_plot, strip_plot
from allfocus.evaluation.printed_results import PAPER_NAMES, PRINTED
from allfocus.evaluation.scenes_to_show import choose_scenes
from allfocus.evaluation.summary import DatasetSummary, format_p_value, format_value, rank_by_value
from allfocus.evaluation.tables import count_of_pictures, format_interval, format_printed, printed_place
from allfocus.images.reading import read_image
from allfocus.images.writing import replace_file
from allfocus.metrics.catalogue import METRICS

if TYPE_CHECKING:
    from allfocus.evaluation.benchmark import EvaluationResult

PICTURE_BYTES = 11_000_000
"""Of pictures in a page; scenes that would exceed it are left out, the last of each set first, and counted."""

Progress = Callable[[str, int, int], None]
Samples = Mapping[str, Mapping[str, Sample]]


def write_report(result: "EvaluationResult", samples: Samples, *, progress: Progress | None = None) -> None:
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
    page = build_page(result, scenes, left_out=left_out)
    replace_file(result.output / "report.html", page.encode(), overwrite=True)


def build_page(result: "EvaluationResult", scenes: Mapping[str, Sequence[str]], *, left_out: int = 0) -> str:
    """The page as text.

    Args:
        result: What the benchmark found.
        scenes: Data set -> the HTML of each scene to show.
        left_out: How many scenes had no room.
    """
    title = _title(result)
    links = "".join(f'<li><a href="#{name}">{_escape(DATASETS[name].title)}</a></li>' for name in result.summaries)
    sets = "".join(_set_section(result, summary, scenes[name]) for name, summary in result.summaries.items())
    note = (
        f"<p class=quiet>{left_out} more scenes had no room in this page; see the folder fused.</p>" if left_out else ""
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_asset("report.css")}</style>
</head>
<body>
<header><div class="inner"><h1>{title}</h1><p class="quiet">{_byline(result)}</p></div></header>
<nav aria-label="Data sets"><ul>{links}<li><a href="#origin">Origin</a></li>
<button id="theme" type="button" hidden>theme: auto</button></ul></nav>
<main>{_error_list(result)}{sets}{note}</main>
<footer id="origin">{_origin(result)}</footer>
<dialog id="viewer"><img alt=""><p><span></span>
<button type="button" data-step="-1" aria-label="Previous">←</button>
<button type="button" data-step="1" aria-label="Next">→</button>
<button type="button" data-step="close">close</button></p></dialog>
<script>{_asset("report.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return (importlib.resources.files("allfocus.evaluation") / name).read_text(encoding="utf-8")


def _escape(text: object) -> str:
    return html.escape(str(text))


def _title(result: "EvaluationResult") -> str:
    names = [DATASETS[name].title for name in result.summaries]
    sets = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    methods = [row.method for row in next(iter(result.summaries.values())).methods]
    others = len(methods) - 1
    against = f" against {others} other{'s' if others > 1 else ''}" if others else ""
    return f"{_escape(methods[0])}{against} on {_escape(sets)}"


def _scoring(result: "EvaluationResult") -> str:
    jpeg = result.document["settings"]["jpeg"]
    return f"protocol {result.protocol}" + (f", after JPEG {jpeg}" if jpeg else "")


def _byline(result: "EvaluationResult") -> str:
    document = result.document
    commit = f", commit {document['commit'][:10]}" if document["commit"] else ""
    changed = " with changes" if document["modified"] else ""
    day, time = document["created"][:10], document["created"][11:16]
    scored = len(result.cells) - len(result.errors)
    return _escape(
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
        f"<li><b>{_escape(method)}</b> on {_escape(f'{dataset} {_several(names)}: {error}')}</li>"
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
    dataset = DATASETS[summary.dataset]
    cite = f"Cite: {dataset.citation.rstrip('.')}. " if dataset.citation else ""
    about = f"{dataset.summary[:1].upper()}{dataset.summary[1:].rstrip('.')}. {cite}Licence: {dataset.licence}"
    closer = f"<h3>A closer look</h3>{_reading_help()}{''.join(scenes)}" if scenes else ""
    return f"""
<section class="set" id="{summary.dataset}">
<h2>{_escape(dataset.title)}</h2>
<p class="quiet">{_escape(about)}</p>
<p class="lead">{_verdict(summary)}</p>
<h3>Measured: {_escape(count_of_pictures(summary))}, {_escape(_scoring(result))}</h3>
{_measured_table(summary)}
{_comparison_table(summary)}
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
        return f"Only <code>{_escape(next(iter(complete)))}</code> was scored on every picture."
    first = summary.methods[0].method
    best = min(complete, key=lambda method: complete[method])
    text = f"<code>{_escape(best)}</code> has the best mean rank, {complete[best]:.2f} of {len(complete)}"
    if first in complete and best != first:
        text += f"; <code>{_escape(first)}</code> has {complete[first]:.2f}"
    if first in complete:
        led = [metric for metric in summary.metrics if summary.places(metric)[first] == 1]
        clear = [metric for metric in led if summary.comparisons[metric].test.p_value < 0.05]
        text += f". <code>{_escape(first)}</code> leads in {len(led)} of {len(summary.metrics)} metrics"
        text += f", in {len(clear)} of them beyond chance (p &lt; 0.05)" if led else ""
    return text + "."


def _table(header: Sequence[str], rows: Sequence[str], kind: str = "", label: str = "") -> str:
    head = "".join(f'<th scope="col">{title}</th>' for title in header)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_escape(label)}"><table class="{kind}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _column(metric: str) -> str:
    found = METRICS[metric]
    arrow = "↑" if found.direction == "higher" else "↓"
    return f'<span title="{_escape(found.full_name)}">{_escape(metric)} {arrow}</span>'


def _emphasise(text: str, place: int) -> str:
    return {1: f"<b>{text}</b>", 2: f"<u>{text}</u>"}.get(place, text)


def _measured_table(summary: DatasetSummary) -> str:
    places = {metric: summary.places(metric) for metric in summary.metrics}
    ranks = rank_by_value(
        {row.method: row.mean_rank for row in summary.methods if row.mean_rank is not None}, higher_is_better=False
    )
    rows = []
    for number, row in enumerate(summary.methods):
        name = f'<th scope="row"><code>{_escape(row.method)}</code></th>'
        kind = ' class="own"' if number == 0 else ""
        if row.errors:
            text = f"error on {row.errors} of {len(summary.samples)} pictures"
            rows.append(f'<tr{kind}>{name}<td class="error" colspan="{len(summary.metrics) + 2}">{text}</td></tr>')
            continue
        cells = ""
        for metric in summary.metrics:
            estimate = row.estimates[metric]
            interval = format_interval(metric, estimate.low, estimate.high)
            small = f"<small>{interval[1:-1].replace(', ', ' – ')}</small>" if interval else ""
            cells += f"<td>{_emphasise(format_value(metric, estimate.mean), places[metric][row.method])}{small}</td>"
        seconds = "–" if row.seconds is None else f"{row.seconds:.2f}"
        cells += f"<td>{_emphasise(f'{row.mean_rank:.2f}', ranks[row.method])}</td><td>{seconds}</td>"
        rows.append(f"<tr{kind}>{name}{cells}</tr>")
    header = ["Method", *map(_column, summary.metrics), "rank ↓", "CPU s"]
    note = (
        '<p class="quiet">Mean over the pictures, <b>best</b>, <u>second</u>; below it the 95 % interval of the mean '
        "(bootstrap). Rank: mean place over all metrics and pictures. CPU s: processor time to fuse one picture.</p>"
    )
    return _table(header, rows, label="Measured scores") + note


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
            f"<td>{_emphasise(own_text, 1 if own_is_better else 3)}</td><td><code>{_escape(found.rival)}</code></td>"
            f"<td>{_emphasise(other_text, 3 if own_is_better else 1)}</td><td>{found.wins}</td><td>{found.losses}</td>"
            f"<td>{_escape(format_p_value(found.test.p_value))}</td></tr>"
        )
    header = ["Metric", f"<code>{_escape(first)}</code>", "best rival", "its mean", "wins", "losses", "p"]
    note = (
        '<p class="quiet">Wins and losses are pictures. p: Wilcoxon\'s signed-rank test, two-sided, not corrected for '
        "the number of metrics.</p>"
    )
    title = f"<h3><code>{_escape(first)}</code> against the best rival</h3>"
    return title + _table(header, rows, label="The first method against the best rival") + note


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
        rows.append(f'<tr><th scope="row">{_escape(PAPER_NAMES[method])} <small>printed</small></th>{cells}</tr>')
    header = ["Method", *map(_column, table.metrics)]
    return (
        f"<details><summary>Printed in the paper, Table {table.table}</summary>"
        f'<p class="quiet">Quoted, not measured here: {table.pictures} pictures, the authors\' own scoring. '
        f"Do not compare the digits with the table above.</p>{_table(header, rows, 'printed', 'Printed')}</details>"
    )


def _plots(summary: DatasetSummary) -> str:
    methods = [row for row in summary.methods if row.estimates]
    if not methods:
        return ""
    figures = []
    for metric in summary.metrics:
        digits = 2 if math.isinf(METRICS[metric].highest) else 4
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
    sign = 1.0 if METRICS[metric].direction == "higher" else -1.0
    difference = sign * np.subtract(own, other, out=np.zeros_like(own), where=own != other)
    title = f"{found.first} minus {found.rival}"
    plot = difference_plot(difference, pictures=summary.samples, digits=digits, title=title)
    return (
        f"{plot}<figcaption>up: {_escape(found.first)} is better than {_escape(found.rival)}, its best rival "
        f"({found.wins} of {len(own)}); largest {float(np.abs(difference).max()):.{digits}f}</figcaption>"
    )


# --- pictures -------------------------------------------------------------------------------------------------------


def _reading_help() -> str:
    return (
        '<p class="quiet">Click a picture to enlarge it; the arrow keys then exchange it for the next one in place. '
        "The two crops lie on the boundary between what is sharp in one source and in another, where the results "
        "disagree most. The last picture of each method is its difference.</p>"
    )


def scene_section(result: "EvaluationResult", dataset: str, sample: Sample, reason: str) -> str:
    """The HTML of one scene: its sources, and every method's picture with crops and difference map."""
    sources = [read_image(path).pixels for path in sample.sources]
    truth = None if sample.reference is None else read_image(sample.reference).pixels
    cells = [cell for cell in result.cells if (cell.dataset, cell.sample) == (dataset, sample.name)]
    pictures = {
        cell.method: read_image(result.output / "fused" / dataset / cell.method / f"{sample.name}.png").pixels
        for cell in cells
        if not cell.error
    }
    windows = find_focus_windows(sources, list(pictures.values()))
    against, against_name = (sources[0], "source 1") if truth is None else (truth, "the truth")
    differences = {method: difference_map(picture, against) for method, picture in pictures.items()}
    largest = _common_scale(list(differences.values()))
    given = {f"source {number}": source for number, source in enumerate(sources, start=1)}
    if truth is not None:
        given["truth"] = truth
    inputs = "".join(_card(name, "", picture, windows, quality=80) for name, picture in given.items())
    cards = "".join(
        _method_card(cell, number, result.summaries[dataset].metrics, pictures, differences, windows, largest)
        for number, cell in enumerate(cells)
    )
    return f"""
<article class="scene"><h4>{_escape(sample.name)}</h4>
<p class="quiet">{_escape(reason[:1].upper() + reason[1:])}. Difference from {against_name}: 0
<span class="scale"></span> {round(255 * largest)} of 255 levels and more.</p>
<div class="cards">{inputs}</div><div class="cards">{cards}</div></article>"""


def _common_scale(differences: Sequence[np.ndarray[Any, Any]]) -> float:
    """The difference shown brightest: one for all methods, so that they compare; not so small that noise glows."""
    if not differences:
        return 1.0
    typical = float(np.median([np.percentile(difference, 99.5) for difference in differences]))
    return max(typical, 6 / 255)


def _method_card(
    cell: Cell,
    number: int,
    metrics: Sequence[str],
    pictures: Mapping[str, Pixels],
    differences: Mapping[str, np.ndarray[Any, Any]],
    windows: Sequence[Window],
    largest: float,
) -> str:
    if cell.error:
        text = f"<b>{_escape(cell.method)}</b><br>{_escape(cell.error)}"
        return f'<figure class="card"><figcaption>{text}</figcaption></figure>'
    # The metrics with a truth say most; without one, the first two.
    telling = [metric for metric in metrics if METRICS[metric].needs_reference] or list(metrics[:2])
    scores = ", ".join(f"{metric} {format_value(metric, cell.scores[metric])}" for metric in telling)
    heat = shrink(heat_picture(differences[cell.method], largest=largest), 320)
    difference = (
        f'<img class="difference" alt="difference of {_escape(cell.method)}" src="{data_address(heat, quality=70)}">'
    )
    picture = pictures[cell.method]
    return _card(cell.method, scores, picture, windows, quality=80, extra=difference, own=number == 0)


def _card(
    name: str,
    scores: str,
    picture: Pixels,
    windows: Sequence[Window],
    *,
    quality: int,
    extra: str = "",
    own: bool = False,
) -> str:
    height, width = picture.shape[:2]
    boxes = "".join(
        f'<i class="window" style="top:{100 * top / height:.2f}%;left:{100 * left / width:.2f}%;'
        f'height:{100 * tall / height:.2f}%;width:{100 * wide / width:.2f}%"></i>'
        for top, left, tall, wide in windows
    )
    crops = "".join(
        f'<img alt="crop {number} of {_escape(name)}" src="{data_address(crop(picture, window), quality=92)}">'
        for number, window in enumerate(windows, start=1)
    )
    label = f"{name}: {scores}" if scores else name
    return (
        f'<figure class="card{" own" if own else ""}"><figcaption><b>{_escape(name)}</b><br>{_escape(scores)}'
        f"</figcaption>"
        f'<button type="button" class="frame" data-label="{_escape(label)}"><img '
        f'alt="{_escape(name)}" width="{width}" height="{height}" '
        f'src="{data_address(shrink(picture), quality=quality)}">{boxes}</button>'
        f'<div class="crops">{crops}</div>{extra}</figure>'
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
    lines = "".join(f"<dt>{name}</dt><dd>{_escape(text)}</dd>" for name, text in entries.items())
    return f"<h3>Where these numbers come from</h3><dl>{lines}</dl>"
