"""The networks of the literature on the four sets, by their authors' weights and by ours; a part of docs/rivals.md.

python benchmarks/results.py --rivals [--ours FOLDER] [--seconds 3600] [--protocol grey] [--device cuda]

Authors' weights are those in the folder ALLFOCUS_RIVALS, ours are NAME.safetensors in the folder of --ours, as
`allfocus train --recipe recipes/rivals/NAME.toml` makes them. With --seconds, methods with the least to do come first,
after so long no other is begun, and the page says of what is left that it was not run, and what fusing it would cost. A
later run goes on.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

import allfocus
from allfocus.cli.printing import progress_bar
from allfocus.datasets.catalogue import find_dataset
from allfocus.datasets.samples import Sample
from allfocus.errors import AllfocusError, InputError
from allfocus.evaluation.benchmark import MARKER, EvaluationResult
from allfocus.evaluation.printed_results import PAPER_NAMES, PRINTED
from allfocus.evaluation.summary import DatasetSummary, format_value
from allfocus.evaluation.tables import format_printed, markdown_tables
from allfocus.fusion.method_choice import short_name
from allfocus.metrics.scoring import Protocol
from allfocus.progress import StepProgress
from allfocus.rivals.catalogue import RIVALS
from allfocus.rivals.weight_files import FOLDER_VARIABLE

BEGIN, END = "<!-- rivals:begin -->", "<!-- rivals:end -->"
OURS = ("ips", "ips-hard", "dsift", "dct-corr")
"""What the networks are compared with: ours, and the two classical methods that the paper prints."""
TITLES = {"lytro": "Lytro", "mffw": "MFFW", "real-mff": "Real-MFF", "mfi-whu": "MFI-WHU"}


@dataclass
class Row:
    """One method on one set."""

    dataset: str
    method: str
    pictures: int
    seconds: float
    """Processor time that fusing the whole set takes, by its first picture and the pixels of all."""
    done: bool = False


def methods_at_hand(ours: Path | None) -> list[str]:
    """Our methods, then each network once for every file of weights that there is for it."""
    theirs = os.environ.get(FOLDER_VARIABLE)
    found = [*OURS]
    for rival in RIVALS:
        own = f"{rival.name}.safetensors"
        if theirs:
            files = [Path(theirs, name) for name in rival.files if name != own]
            found += [f"{rival.name}@{file}" for file in files if file.is_file()]
        if ours is not None and rival.files and (ours / own).is_file():
            found.append(f"{rival.name}@{ours / own}")
    return found


def count_pixels(sample: Sample) -> int:
    """Pixels of all sources."""
    with Image.open(sample.sources[0]) as picture:
        return picture.width * picture.height * len(sample.sources)


class Table:
    """The measurement: rows that are filled one after the other, the cheapest first."""

    def __init__(self, arguments: argparse.Namespace, metrics: dict[str, tuple[str, ...]]) -> None:
        self.arguments = arguments
        self.metrics = metrics
        self.methods = [*methods_at_hand(arguments.ours), *arguments.method]
        self.ends = float("inf") if arguments.seconds is None else time.monotonic() + arguments.seconds
        self.rows: list[Row] = []

    def evaluate(self, dataset: str, methods: list[str], protocol: Protocol, **more: Any) -> EvaluationResult:
        """Scores of some methods on one set; what is there already is not made again."""
        return allfocus.evaluate(
            {dataset: self.arguments.data / dataset},
            methods,
            output=self.arguments.output / protocol / dataset,
            metrics={dataset: self.metrics[dataset]},
            protocol=protocol,
            workers=self.arguments.workers,
            device=self.arguments.device,
            report=False,
            **more,
        )

    def fill(self, protocol: Protocol) -> list[EvaluationResult]:
        """Fills what time allows and returns the results by set, without what is not whole."""
        with progress_bar() as update:
            if self.arguments.seconds is None:
                self._fill_all(protocol, update)
            else:
                self._fill_cheapest_first(protocol, update)
        return self.collect(protocol)

    def _fill_all(self, protocol: Protocol, update: StepProgress) -> None:
        for dataset in self.metrics:
            samples = find_dataset(dataset, self.arguments.data / dataset)[: self.arguments.limit]
            self.evaluate(
                dataset,
                self.methods,
                protocol,
                limit=self.arguments.limit,
                progress=lambda step, done, count, name=dataset: update(f"{name} {step}", done, count),
            )
            self.rows += [Row(dataset, method, len(samples), 0, done=True) for method in self.methods]

    def _fill_cheapest_first(self, protocol: Protocol, update: StepProgress) -> None:
        for dataset in self.metrics:
            samples = find_dataset(dataset, self.arguments.data / dataset)[: self.arguments.limit]
            sizes = [count_pixels(sample) for sample in samples]
            for number, method in enumerate(self.methods):
                first = self.evaluate(dataset, [method], protocol, limit=1).cells[0]
                if first.error:
                    raise AllfocusError(f"{dataset} {first.sample} {first.method}: {first.error}")
                seconds = (first.seconds or 0) * sum(sizes) / sizes[0]
                self.rows.append(Row(dataset, method, len(samples), seconds))
                update(f"first pictures of {dataset}", number + 1, len(self.methods))
        for number, row in enumerate(sorted(self.rows, key=lambda row: row.seconds)):
            if time.monotonic() < self.ends:
                self.evaluate(row.dataset, [row.method], protocol, limit=self.arguments.limit)
                row.done = True
            update(f"{protocol} {row.dataset} {short_name(row.method)}", number + 1, len(self.rows))

    def collect(self, protocol: Protocol, pictures: Protocol | None = None) -> list[EvaluationResult]:
        """The results by set of all rows that are done; pictures fused under another protocol are only scored anew."""
        found = []
        for dataset in self.metrics:
            methods = [row.method for row in self.rows if row.dataset == dataset and row.done]
            for method in methods if pictures else ():
                self._link(dataset, short_name(method), pictures, protocol)
            if methods:
                found.append(self.evaluate(dataset, methods, protocol, limit=self.arguments.limit))
        return found

    def _link(self, dataset: str, method: str, old: Protocol | None, new: Protocol) -> None:
        """Takes over pictures that are not there yet, with their records."""
        place = Path(dataset, "fused")
        source, target = self.arguments.output / str(old) / place, self.arguments.output / new / place
        (target / dataset / method).mkdir(parents=True, exist_ok=True)
        # By its marker an evaluation knows its own folder.
        for file in (source / MARKER.name, *(source / dataset / method).iterdir()):
            copy = target / file.relative_to(source)
            if not copy.exists():
                os.link(file, copy)


def reached_table(summary: DatasetSummary) -> str:
    """The rows of the paper beside what was measured here: measured (printed), bold where it is reached."""
    printed = PRINTED[summary.dataset]
    header = ["Row of the paper", "measured as", *printed.metrics, "reached"]
    lines = [header, ["---", "---", *["---:"] * (len(header) - 2)]]
    for name, values in printed.rows.items():
        rows = [row for row in summary.methods if row.method.partition("@")[0] == name and not row.errors]
        if not rows:
            lines.append([PAPER_NAMES[name], "not run", *["-"] * len(values), "-"])
        for row in rows:
            cells, count = [], 0
            for metric, value in zip(printed.metrics, values, strict=True):
                found = row.estimates[metric].mean
                text = f"{format_value(metric, found)} ({format_printed(metric, value)})"
                # As many digits as the paper prints.
                reached = float(format_printed(metric, found)) >= value
                cells.append(f"**{text}**" if reached else text)
                count += reached
            lines.append([PAPER_NAMES[name], f"`{row.method}`", *cells, f"{count} of {len(values)}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def not_run_table(rows: list[Row]) -> str:
    """What was left out, and what it would cost."""
    lines = ["| Method | set | pictures | processor time |", "| --- | --- | ---: | ---: |"]
    for row in rows:
        hours = f"{row.seconds / 3600:.1f} h" if row.seconds >= 3600 else f"{row.seconds / 60:.0f} min"
        lines.append(f"| `{short_name(row.method)}` | {TITLES[row.dataset]} | {row.pictures} | {hours} |")
    return "\n".join(lines) + "\n"


def generated_part(table: Table, results: dict[Protocol, list[EvaluationResult]]) -> str:
    """The Markdown between the markers."""
    document = next(iter(results.values()))[0].document
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    parts = [
        BEGIN,
        "",
        "<!-- Made by benchmarks/results.py --rivals; what is written here by hand is lost. -->",
        "",
        f"Measured on {document['created'][:10]} with {versions}. `NAME@FILE` is a network with the weights in a file: "
        "`NAME@NAME.safetensors` with ours, every other with its authors'.",
        "",
    ]
    if document["settings"]["device"] != "cpu":
        parts += ["Networks ran on a GPU where there was one; its time is not in that of the processor.", ""]
    left = [row for row in table.rows if not row.done]
    waiting = sorted({rival.name for rival in RIVALS} - {method.partition("@")[0] for method in table.methods})
    if left or waiting:
        parts += ["### Not run", ""]
    if waiting:
        names = ", ".join(f"`{name}`" for name in waiting)
        parts += [f"{names}: no weights at hand, or fitted to each stack for hours (`--method zmff`).", ""]
    if left:
        parts += [not_run_table(left)]
    summaries = {protocol: [result.summaries for result in found] for protocol, found in results.items()}
    return "\n".join([*parts, tables_part(summaries), END])


def tables_part(summaries: Mapping[Protocol, Sequence[Mapping[str, DatasetSummary]]]) -> str:
    """The tables by protocol, of the summaries of each set."""
    parts: list[str] = []
    for protocol, found in summaries.items():
        parts += [f"### Which rows of the paper are reached, protocol `{protocol}`", ""]
        parts += ["Measured here (printed in the paper), **bold** where the printed figure is reached.", ""]
        for own in found:
            (summary,) = own.values()
            parts += [f"{TITLES[summary.dataset]}, {len(summary.samples)} of {PRINTED[summary.dataset].pictures}:", ""]
            parts += [reached_table(summary)]
    for protocol, found in summaries.items():
        parts += [f"### All of it, protocol `{protocol}`", ""]
        parts += [markdown_tables(own, protocol=protocol, heading="####", printed=False) for own in found]
    return "\n".join(parts)


def make_page(arguments: argparse.Namespace, metrics: dict[str, tuple[str, ...]]) -> str:
    """Measures and returns the generated part.

    Raises:
        AllfocusError: a cell failed: nothing is averaged over the rest.
    """
    table = Table(arguments, metrics)
    first, *others = arguments.protocol or ["grey", "rgb-mean"]
    results = {first: table.fill(first)}
    if not results[first]:
        raise InputError(f"no method was through with a set after {arguments.seconds:g} seconds; give it more time")
    for protocol in others:
        results[protocol] = table.collect(protocol, first)
    failed = [cell for found in results.values() for result in found for cell in result.errors]
    for cell in failed:
        print(f"{cell.dataset} {cell.sample} {cell.method}: {cell.error}", file=sys.stderr)
    if failed:
        raise AllfocusError(f"{len(failed)} cells failed; {arguments.page} was not touched")
    return generated_part(table, results)
