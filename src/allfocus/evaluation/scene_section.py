"""One scene of the report: its sources, and every method's picture with crops and difference map, as HTML."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from allfocus.datasets.samples import Sample
from allfocus.evaluation.cells import Cell
from allfocus.evaluation.focus_windows import find_focus_windows
from allfocus.evaluation.summary import format_value
from allfocus.images.reading import read_image
from allfocus.metrics.catalogue import all_metrics
from allfocus.pages.html import escape
from allfocus.pages.pictures import (
    Pixels,
    Window,
    common_scale,
    crop,
    data_address,
    difference_map,
    draw_windows,
    heat_picture,
    shrink,
)

if TYPE_CHECKING:
    from allfocus.evaluation.benchmark import EvaluationResult


def reading_help() -> str:
    """The HTML that explains the pictures of all scenes."""
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
    largest = common_scale(list(differences.values()))
    given = {f"source {number}": source for number, source in enumerate(sources, start=1)}
    if truth is not None:
        given["truth"] = truth
    inputs = "".join(_card(name, "", picture, windows, quality=80) for name, picture in given.items())
    cards = "".join(
        _method_card(cell, number, result.summaries[dataset].metrics, pictures, differences, windows, largest)
        for number, cell in enumerate(cells)
    )
    return f"""
<article class="scene"><h4>{escape(sample.name)}</h4>
<p class="quiet">{escape(reason[:1].upper() + reason[1:])}. Difference from {against_name}: 0
<span class="scale"></span> {round(255 * largest)} of 255 levels and more.</p>
<div class="cards">{inputs}</div><div class="cards">{cards}</div></article>"""


def _method_card(
    cell: Cell,
    number: int,
    metrics: Sequence[str],
    pictures: Mapping[str, Pixels],
    differences: Mapping[str, NDArray[np.float32]],
    windows: Sequence[Window],
    largest: float,
) -> str:
    if cell.error:
        text = f"<b>{escape(cell.method)}</b><br>{escape(cell.error)}"
        return f'<figure class="card"><figcaption>{text}</figcaption></figure>'
    # The metrics with a truth say most; without one, the first two.
    telling = [metric for metric in metrics if all_metrics()[metric].needs_reference] or list(metrics[:2])
    scores = ", ".join(f"{metric} {format_value(metric, cell.scores[metric])}" for metric in telling)
    heat = shrink(heat_picture(differences[cell.method], largest=largest), 320)
    difference = (
        f'<img class="difference" alt="difference of {escape(cell.method)}" src="{data_address(heat, quality=70)}">'
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
    boxes = draw_windows(windows, (height, width))
    crops = "".join(
        f'<img alt="crop {number} of {escape(name)}" src="{data_address(crop(picture, window), quality=92)}">'
        for number, window in enumerate(windows, start=1)
    )
    label = f"{name}: {scores}" if scores else name
    return (
        f'<figure class="card{" own" if own else ""}"><figcaption><b>{escape(name)}</b><br>{escape(scores)}'
        f"</figcaption>"
        f'<button type="button" class="frame" data-label="{escape(label)}"><img '
        f'alt="{escape(name)}" width="{width}" height="{height}" '
        f'src="{data_address(shrink(picture), quality=quality)}">{boxes}</button>'
        f'<div class="crops">{crops}</div>{extra}</figure>'
    )
