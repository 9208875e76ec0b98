"""One cell of a benchmark: one method on one picture, fused, saved and scored, in a process of its own if need be.

What was computed is written beside the fused picture at once, so that an interrupted benchmark loses nothing.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.datasets.samples import Sample
from allfocus.errors import AllfocusError, InputError
from allfocus.evaluation.compression import JpegCompression, compress_and_read
from allfocus.evaluation.fingerprints import code_fingerprint, combined_fingerprint, file_fingerprint
from allfocus.evaluation.other_pictures import find_other_picture
from allfocus.fusion.detail_meter import measure_lost_detail
from allfocus.fusion.stack_fusion import fuse
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.writing import replace_file, to_integers, write_image
from allfocus.metrics.grey_levels import as_eight_bit
from allfocus.metrics.scoring import Protocol, score


@dataclass(frozen=True)
class Cell:
    """What one method gave on one picture."""

    dataset: str
    sample: str
    method: str
    scores: Mapping[str, float] = field(default_factory=dict)
    """The value of each metric that was asked for; empty where there is an error."""
    seconds: float | None = None
    """Processor time of the fusion alone; None for pictures made by other software."""
    error: str = ""
    """Why there are no scores; empty where there are."""
    lost_detail: float | None = None
    """Percent of the picture in which detail of some frame is lost; None where there is an error."""
    sha256: str = ""
    """Of the fused picture's file; empty where there is none."""


@dataclass(frozen=True)
class CellTask:
    """All that a worker process needs to know to fill one cell."""

    dataset: str
    sample: Sample
    method: str
    """The name in tables and folders."""
    run: str
    """The same, or the file of a network."""
    folder: Path
    """Where the fused picture and its record go."""
    method_key: str
    """Fingerprint of the method; see :mod:`allfocus.evaluation.fingerprints`."""
    metrics: tuple[str, ...]
    metrics_key: str
    """Fingerprint of the metrics' code."""
    protocol: Protocol = "grey"
    jpeg: JpegCompression | None = None
    device: str = "auto"
    images: Path | None = None
    """The folder with pictures of other software; None to run the method."""
    resume: bool = True

    @property
    def picture(self) -> Path:
        """The fused picture."""
        return self.folder / f"{self.sample.name}.png"

    @property
    def record(self) -> Path:
        """What is known about the fused picture."""
        return self.folder / f"{self.sample.name}.json"


def run_cell(task: CellTask) -> Cell:
    """The cell of a task, from its record as far as that is still valid; errors become part of the cell.

    An interrupt is passed on; everything else that goes wrong is a result of the benchmark and must not stop it.
    """
    try:
        record = _load_record(task)
        input_key = _input_key(task)
        if record.get("input_key") != input_key or not _is_intact(task, record):
            record = {"input_key": input_key, **_fuse_and_save(task)}
        score_key = combined_fingerprint(task.metrics_key, task.protocol, str(task.jpeg))
        scores = dict(record.get("scores", {})) if record.get("score_key") == score_key else {}
        missing = [name for name in task.metrics if name not in scores]
        if missing:
            scores.update(_score(task, missing))
            record.update(score_key=score_key, scores=scores)
        lost_key = code_fingerprint("allfocus.fusion.detail_meter")
        unknown = record.get("lost_key") != lost_key
        if unknown:
            record.update(lost_key=lost_key, lost_detail=_measure_lost_detail(task))
        if missing or unknown:
            replace_file(task.record, json.dumps(record, indent=1).encode(), overwrite=True)
    except AllfocusError as error:
        return Cell(task.dataset, task.sample.name, task.method, error=" ".join(str(error).split()))
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return Cell(task.dataset, task.sample.name, task.method, error=text)
    chosen = {name: float(scores[name]) for name in task.metrics}
    return Cell(
        task.dataset,
        task.sample.name,
        task.method,
        chosen,
        record["seconds"],
        lost_detail=float(record["lost_detail"]),
        sha256=record["picture_key"],
    )


def read_levels(path: Path) -> NDArray[Any]:
    """A picture as the integers its file holds, which is what the metrics are defined on."""
    image = read_image(path)
    return to_integers(image.pixels, image.bit_depth)


def _load_record(task: CellTask) -> dict[str, Any]:
    if not task.resume or not task.record.is_file():
        return {}
    try:
        content = json.loads(task.record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _input_key(task: CellTask) -> str:
    """Fingerprint of all files that the picture or its scores depend on, and of the method."""
    files = list(task.sample.sources)
    if task.sample.reference is not None:
        files.append(task.sample.reference)
    if task.images is not None:
        files.append(_other_picture(task))
    return combined_fingerprint(task.method_key, task.device, [file_fingerprint(path) for path in files])


def _other_picture(task: CellTask) -> Path:
    if task.images is None:
        raise ValueError("the task runs a method")
    return find_other_picture(task.sample.name, task.images, name=task.method, dataset=task.dataset)


def _is_intact(task: CellTask, record: Mapping[str, Any]) -> bool:
    return task.picture.is_file() and file_fingerprint(task.picture) == record.get("picture_key")


def _fuse_and_save(task: CellTask) -> dict[str, Any]:
    seconds = None
    if task.images is not None:
        image = read_image(_other_picture(task))
        pixels, bit_depth = image.pixels, image.bit_depth
    else:
        sources = [read_image(path) for path in task.sample.sources]
        began = time.process_time()
        fused = fuse([source.pixels for source in sources], method=task.run, device=task.device, check=False)
        seconds = time.process_time() - began
        pixels, bit_depth = fused.image, max(source.bit_depth for source in sources)
        if not np.isfinite(pixels).all():
            raise InputError(f"{task.method} gave values that are not numbers on {task.sample.name}")
    task.picture.parent.mkdir(parents=True, exist_ok=True)
    write_image(Image(pixels.astype(np.float32), bit_depth=min(bit_depth, 16)), task.picture, overwrite=True)
    return {"seconds": seconds, "picture_key": file_fingerprint(task.picture)}


def _measure_lost_detail(task: CellTask) -> float:
    """Percent of the picture, as its file holds it and before any compression."""
    sources = [read_image(path).pixels for path in task.sample.sources]
    return measure_lost_detail(read_image(task.picture).pixels, sources).share


def _score(task: CellTask, metrics: Sequence[str]) -> dict[str, float]:
    """Scores what the file holds, not what was in memory, so that anybody can score the file again."""
    fused = read_levels(task.picture)
    if task.jpeg is not None and task.images is None:
        # Pictures of other software are as their authors saved them; compressing them again would be unfair.
        fused = compress_and_read(as_eight_bit(fused), task.jpeg)
    reference = None if task.sample.reference is None else read_levels(task.sample.reference)
    return score(
        fused,
        [read_levels(path) for path in task.sample.sources],
        reference=reference,
        protocol=task.protocol,
        metrics=metrics,
    )
