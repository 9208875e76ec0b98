"""The benchmark: methods x data sets x pictures, scored and written down, with statistics and a report."""

import datetime
import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from allfocus.datasets.catalogue import find_dataset
from allfocus.datasets.samples import Sample
from allfocus.errors import InputError, OutputError
from allfocus.evaluation.cells import Cell, CellTask
from allfocus.evaluation.compression import JpegCompression
from allfocus.evaluation.fingerprints import code_fingerprint, method_fingerprint
from allfocus.evaluation.provenance import describe_origin
from allfocus.evaluation.summary import DatasetSummary, summarise
from allfocus.evaluation.tables import csv_table, json_rows, json_summary, markdown_tables
from allfocus.evaluation.workers import run_cells
from allfocus.fusion.method_choice import absolute_name, find_method, short_name
from allfocus.images.writing import replace_file
from allfocus.machine import usable_cores
from allfocus.metrics.catalogue import PAPER_METRICS, Metric, find_metric
from allfocus.metrics.scoring import PROTOCOLS, Protocol
from allfocus.progress import StepProgress

FORMAT = "allfocus-evaluation-2"
"""What ``results.json`` says it is; the number changes when its fields do."""

Folder = str | PathLike[str]
RunCells = Callable[[Sequence[CellTask]], Iterable[tuple[int, Cell]]]
"""Gives the number of each task with its cell, as they are finished."""

MARKER = Path("fused", "allfocus-evaluation.json")
"""By which the folder of an evaluation is known: no other is written into."""


@dataclass(frozen=True)
class EvaluationResult:
    """What a benchmark found, which also lies in its folder."""

    output: Path
    """The folder: ``results.csv``, ``results.json``, ``results.md``, ``report.html`` and the pictures in ``fused``."""
    cells: tuple[Cell, ...]
    """Every method on every picture, in the order data set, picture, method."""
    summaries: Mapping[str, DatasetSummary]
    """Means, intervals, ranks and tests by data set."""
    protocol: Protocol
    """How the pictures were scored; part of every number."""
    document: Mapping[str, Any]
    """The content of ``results.json``."""

    @property
    def errors(self) -> tuple[Cell, ...]:
        """The cells without a score."""
        return tuple(cell for cell in self.cells if cell.error)


def evaluate(
    datasets: Mapping[str, Folder] | Sequence[tuple[str, Folder]],
    methods: Sequence[str],
    *,
    output: Folder,
    metrics: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    protocol: Protocol = "grey",
    images: Mapping[str, Folder] | None = None,
    jpeg: JpegCompression | None = None,
    limit: int | None = None,
    workers: int | None = None,
    resume: bool = True,
    seed: int = 0,
    device: str = "auto",
    report: bool = True,
    run: RunCells | None = None,
    progress: StepProgress | None = None,
) -> EvaluationResult:
    """The scores of all methods on all pictures, with statistics; tables, report and fused pictures are in ``output``.

    Each cell is written down as soon as it is done. A second run into the same folder computes only what is missing or
    what has changed since: the pictures, the method's code or weights, the metrics. What goes wrong in a cell is
    written into the cell; look at ``errors`` before using the numbers.

    Args:
        datasets: Name of the data set -> the folder that holds it.
        methods: Names of ``allfocus.list_methods()``; the first one is compared with the best of the others.
        output: A folder, made if need be: new, empty, or of an earlier run.
        metrics: Names of metrics; they are applied where they can be (PSNR needs a truth). By default the paper's
            eight. A mapping gives each data set its own.
        protocol: "grey" or "rgb-mean".
        images: Name -> a folder with pictures fused by other software, scored like a method.
        jpeg: Score after saving as JPEG this way; the pictures of ``images`` are scored as they are.
        limit: Only the first pictures of each set.
        workers: Processes at a time; by default one for each processor.
        resume: Reuse what an earlier run left in ``output``.
        seed: Of the bootstrap. The fusion itself has no chance in it.
        device: Where networks run; see ``allfocus.fuse``. On "cpu" scores are the same to the last digit wherever there
            is the same software.
        report: Also make ``report.html``.
        run: What fills the cells, in place of processes on this machine; see ``allfocus.batch.cells.run_on_cluster``.
        progress: Called after each cell; see ``StepProgress``.

    Raises:
        InputError: A data set is not there or not whole, or a name is unknown.
        OutputError: The folder holds something else, or cannot be written.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import allfocus
        >>> scene = allfocus.render_scene("desk", frames=2, size=(64, 80))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     (Path(folder) / "sets/desk").mkdir(parents=True)
        ...     for number, frame in enumerate(scene.frames):
        ...         _ = allfocus.write_image(frame, f"{folder}/sets/desk/{number}.png")
        ...     result = evaluate({"folder": f"{folder}/sets"}, ["average"], metrics=["Q_SF"],
        ...                       output=f"{folder}/out", workers=1, report=False)
        >>> [cell.sample for cell in result.cells], result.errors
        (['desk'], ())
    """
    images = images or {}
    folders = dict(datasets)
    _check_names(folders, methods, images, protocol, limit, workers)
    samples = {name: find_dataset(name, root)[:limit] for name, root in folders.items()}
    chosen = {name: _choose_metrics(metrics, name, samples[name]) for name in samples}
    _check_metrics(metrics, chosen)
    target = _prepare_output(Path(output).absolute() if run else Path(output))
    tasks = _list_tasks(
        samples, methods, chosen, target, images, protocol=protocol, jpeg=jpeg, device=device, resume=resume
    )
    count = usable_cores() if workers is None else workers
    found = _fill_cells(tasks, run or functools.partial(run_cells, workers=count), progress)
    summaries = summarise(found, metrics=chosen, seed=seed)
    settings = {
        "datasets": {name: {"folder": str(folders[name]), "pictures": len(samples[name])} for name in samples},
        "methods": [short_name(method) for method in methods],
        "images": {name: str(folder) for name, folder in images.items()},
        "metrics": {name: list(names) for name, names in chosen.items()},
        "protocol": protocol,
        "jpeg": None if jpeg is None else str(jpeg),
        "limit": limit,
        "workers": None if run else count,
        "seed": seed,
        "device": device,
    }
    document = _document(found, summaries, settings)
    result = EvaluationResult(target, found, summaries, protocol, document)
    _write_tables(result, chosen)
    if report:
        # Imported here because only the report needs to look at pictures.
        from allfocus.evaluation.report import write_report

        write_report(result, {name: {each.name: each for each in samples[name]} for name in samples}, progress=progress)
    return result


def _fill_cells(tasks: Sequence[CellTask], run: RunCells, progress: StepProgress | None) -> tuple[Cell, ...]:
    """The cells in the order of their tasks, whatever the order in which they were finished."""
    cells: dict[int, Cell] = {}
    for number, cell in run(tasks):
        cells[number] = cell
        if progress is not None:
            progress("scoring", len(cells), len(tasks))
    return tuple(cells[number] for number in range(len(tasks)))


def _check_names(
    folders: Mapping[str, Folder],
    methods: Sequence[str],
    images: Mapping[str, Folder],
    protocol: str,
    limit: int | None,
    workers: int | None,
) -> None:
    if not folders:
        raise InputError("no data set to evaluate on; give at least one, with its folder")
    if not methods and not images:
        raise InputError("nothing to evaluate; give at least one method, or pictures of other software")
    for method in methods:
        find_method(method)
    names = [short_name(method) for method in methods]
    for name in images:
        if name in names or not name or "/" in name or name.startswith("."):
            raise InputError(f"{name!r} cannot name pictures of other software: choose a plain name that no method has")
    if len(set(names)) < len(names):
        raise InputError(f"a method is named twice: {', '.join(names)}")
    if protocol not in PROTOCOLS:
        raise InputError(f"there is no protocol {protocol!r}; the protocols are: {', '.join(PROTOCOLS)}")
    for what, number in (("limit", limit), ("workers", workers)):
        if number is not None and number < 1:
            raise InputError(f"{what} is 1 or more; found {number}")


def _choose_metrics(
    metrics: Sequence[str] | Mapping[str, Sequence[str]] | None, dataset: str, samples: Sequence[Sample]
) -> tuple[str, ...]:
    """The metrics asked for that apply to every sample of a set, in the order asked for."""
    names = metrics.get(dataset, PAPER_METRICS) if isinstance(metrics, Mapping) else metrics
    asked = [find_metric(name) for name in (PAPER_METRICS if names is None else names)]
    chosen = tuple(dict.fromkeys(metric.name for metric in asked if _applies(metric, samples)))
    if not chosen:
        raise InputError(f"none of the metrics applies to {dataset}: {', '.join(metric.name for metric in asked)}")
    return chosen


def _applies(metric: Metric, samples: Sequence[Sample]) -> bool:
    if metric.needs_reference and any(sample.reference is None for sample in samples):
        return False
    most = metric.most_sources
    return most is None or all(len(sample.sources) <= most for sample in samples)


def _check_metrics(
    metrics: Sequence[str] | Mapping[str, Sequence[str]] | None, chosen: Mapping[str, Sequence[str]]
) -> None:
    if metrics is None or isinstance(metrics, Mapping):
        unknown = sorted(set(metrics or {}) - set(chosen))
        if unknown:
            raise InputError(f"metrics are given for {', '.join(unknown)}, which is not evaluated")
        return
    for name in metrics:
        if not any(find_metric(name).name in names for names in chosen.values()):
            raise InputError(f"{name} applies to none of the data sets: {', '.join(chosen)}; leave it out")


def _prepare_output(output: Path) -> Path:
    if os.path.exists(output) and not os.path.isdir(output):
        raise OutputError(f"{output}: is a file; name a folder for the results")
    if os.path.isdir(output) and any(output.iterdir()) and not _is_evaluation(output):
        raise OutputError(f"{output}: holds something else than an evaluation; name a new or an empty folder")
    try:
        (output / "fused").mkdir(parents=True, exist_ok=True)
        if not (output / MARKER).exists():
            replace_file(output / MARKER, b'{"made by": "allfocus evaluate"}\n')
    except OSError as error:
        raise OutputError(f"{output}: cannot be made ({error.strerror}); choose another folder") from error
    return output


def _is_evaluation(output: Path) -> bool:
    """Whether a folder is one of ours: by its marker or, of version 0.1, by its results."""
    if (output / MARKER).is_file():
        return True
    try:
        document = json.loads((output / "results.json").read_bytes())
    except (OSError, ValueError):
        return False
    return (output / "fused").is_dir() and isinstance(document, dict) and {"rows", "summary"} <= set(document)


def _list_tasks(
    samples: Mapping[str, Sequence[Sample]],
    methods: Sequence[str],
    metrics: Mapping[str, tuple[str, ...]],
    output: Path,
    images: Mapping[str, Folder],
    *,
    protocol: Protocol,
    jpeg: JpegCompression | None,
    device: str,
    resume: bool,
) -> list[CellTask]:
    metrics_key = code_fingerprint("allfocus.metrics.scoring")
    method_keys = {name: method_fingerprint(name) for name in methods}
    return [
        CellTask(
            dataset=dataset,
            sample=sample,
            method=short_name(method),
            run=absolute_name(method),
            folder=output / "fused" / dataset / short_name(method),
            method_key=method_keys.get(method, "other software"),
            metrics=metrics[dataset],
            metrics_key=metrics_key,
            protocol=protocol,
            jpeg=jpeg,
            device=device,
            images=Path(images[method]) if method in images else None,
            resume=resume,
        )
        for dataset, found in samples.items()
        for sample in found
        for method in (*methods, *images)
    ]


def _document(
    cells: Sequence[Cell], summaries: Mapping[str, DatasetSummary], settings: Mapping[str, Any]
) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {
        "format": FORMAT,
        "created": now,
        **describe_origin(),
        "settings": settings,
        "errors": sum(bool(cell.error) for cell in cells),
        "summary": {name: json_summary(summary) for name, summary in summaries.items()},
        "rows": json_rows(cells),
    }


def _write_tables(result: EvaluationResult, metrics: Mapping[str, Sequence[str]]) -> None:
    table = markdown_tables(result.summaries, protocol=describe_scoring(result))
    if result.errors:
        lines = [f"- {cell.dataset}, {cell.sample}, `{cell.method}`: {cell.error}" for cell in result.errors]
        table += f"\n## Errors: {len(lines)} of {len(result.cells)} cells\n\n" + "\n".join(lines) + "\n"
    files = {
        "results.csv": csv_table(result.cells, metrics=metrics, protocol=result.protocol),
        "results.json": json.dumps(result.document, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "results.md": "# Results\n\n" + table,
    }
    for name, text in files.items():
        replace_file(result.output / name, text.encode(), overwrite=True)


def describe_scoring(result: EvaluationResult) -> str:
    """The protocol and, if there was any, the compression before scoring."""
    jpeg = result.document["settings"]["jpeg"]
    return result.protocol + (f", after JPEG {jpeg}" if jpeg else "")
