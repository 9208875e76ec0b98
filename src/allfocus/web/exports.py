"""Files that leave the studio: the result with its strokes and its finish, in the format that was asked for."""

import re
import secrets
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from allfocus.errors import AllfocusError, InputError
from allfocus.files.names import portable_name
from allfocus.finishing.rendering import OutputSize, finished_size
from allfocus.images.encoders import ENCODERS, Encoder
from allfocus.web import layers
from allfocus.web.job_records import Job, Run, clean_name
from allfocus.web.processes import TaskError
from allfocus.web.refusals import Refusal
from allfocus.web.studio import Studio
from allfocus.web.viewing import Viewer, visible_strokes

FORMATS = {"tiff": ".tif", "png": ".png", "jpeg": ".jpg", "webp": ".webp", "heif": ".heic"}
"""The formats that are offered, and the ending of each."""
CHANNEL_FORMATS = {"ome-tiff": ".ome.tif", "ome-zarr": ".ome.zarr.zip"}
"""Those that hold all channels of a result with several; an OME-Zarr is a folder, so it leaves packed into one file."""
CHANNEL_TITLES = {"ome-tiff": "OME-TIFF", "ome-zarr": "OME-Zarr (ZIP)"}
MEDIA_TYPES = {name: f"image/{name}" for name in FORMATS} | {"ome-tiff": "image/tiff", "ome-zarr": "application/zip"}
LOSSY = ("jpeg", "webp", "heif")
USUAL_QUALITY = 95
FIELDS = ("stack", "result", "method", "date", "time", "width", "height")
"""What a template for names may hold, in braces."""

_FIELD = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Export:
    """How a result shall leave."""

    format: str = "tiff"
    bits: int | None = None
    """Per channel; None for the most that make sense."""
    quality: int = USUAL_QUALITY
    srgb: bool = False
    size: OutputSize = field(default_factory=OutputSize)
    name: str = ""
    """A template; empty for the usual name."""


def show_formats() -> list[dict[str, Any]]:
    """The formats that this server writes, as clients see them."""
    return [
        {
            "format": name,
            "title": ENCODERS[ending].name,
            "bits": list(ENCODERS[ending].bit_depths),
            "lossy": name in LOSSY,
        }
        for name, ending in FORMATS.items()
        if _is_there(ENCODERS[ending])
    ] + [
        {"format": name, "title": title, "bits": [16], "lossy": False, "channels": True}
        for name, title in CHANNEL_TITLES.items()
    ]


def _is_there(kind: Encoder) -> bool:
    try:
        return kind.require is None or bool(kind.require())
    except AllfocusError:
        return False


def export_result(studio: Studio, viewer: Viewer, job_id: str, export: Export) -> tuple[Path, str]:
    """A file with the result, its strokes and its finish, to be deleted when it was sent, and the name to offer for it.

    Raises:
        Refusal: the format cannot hold it, it would be too large, or its name cannot be made.
    """
    job, run = viewer.require_result(job_id)
    if run.shown:
        return _export_channels(studio, viewer, job, run, export)
    if export.format in CHANNEL_FORMATS:
        raise Refusal(400, f"{CHANNEL_TITLES[export.format]} is for results of several channels; choose TIFF")
    kind = ENCODERS[FORMATS[export.format]]
    depth = export.bits or _usual_depth(export.format, run)
    if depth not in kind.bit_depths:
        raise Refusal(400, f"{export.format} cannot hold {depth} bits per channel; choose TIFF, or fewer bits")
    if not _is_there(kind):
        raise Refusal(400, f"{kind.name} cannot be written here; install allfocus with the extra heif, or choose TIFF")
    width, height = export.size.of(*finished_size(run.finish, run.width, run.height))
    if width * height > studio.settings.pixels:
        raise Refusal(
            413, f"{width}x{height} are more pixels than the limit of {studio.settings.pixels}; make it smaller"
        )
    name = name_file(export.name, job, run, (width, height)) + FORMATS[export.format]
    target = studio.store.temporary / f"{secrets.token_hex(6)}{FORMATS[export.format]}"
    studio.room.require(layers.layer_bytes(width, height, run.channels, depth))
    values = {
        "samples": str(viewer.shown(job, run, "result") / "level0.npy"),
        "result": str(studio.store.folder(job_id) / run.folder / "result.tif"),
        "target": str(target),
        "bit_depth": depth,
        "quality": export.quality,
        "strokes": len(visible_strokes(job.strokes)),
        "finish": run.finish.to_json(),
        "long_side": export.size.long_side,
        "percent": export.size.percent,
        "srgb": export.srgb,
    }
    try:
        studio.pictures.run("write_download", values)
    except TaskError as error:
        raise Refusal(409, f"the file cannot be written: {studio.told(error.error)}") from error
    return target, name


def _export_channels(studio: Studio, viewer: Viewer, job: Job, run: Run, export: Export) -> tuple[Path, str]:
    """As :func:`export_result`, for a result of several channels: all of them, or the picture that they make."""
    ending = CHANNEL_FORMATS.get(export.format) or FORMATS[export.format]
    depth = export.bits or (16 if export.format in CHANNEL_FORMATS else _usual_depth(export.format, run))
    if ending in ENCODERS and depth not in ENCODERS[ending].bit_depths:
        raise Refusal(400, f"{export.format} cannot hold {depth} bits per channel; choose TIFF, or fewer bits")
    if ending in ENCODERS and not _is_there(ENCODERS[ending]):
        raise Refusal(400, f"{ENCODERS[ending].name} cannot be written here; choose TIFF")
    if export.size != OutputSize():
        raise Refusal(400, "several channels are written in full size; choose that")
    stem = name_file(export.name, job, run, (run.width, run.height))
    target = studio.store.temporary / f"{secrets.token_hex(6)}{ending}"
    studio.room.require(2 * layers.layer_bytes(run.width, run.height, run.channels, 16))
    values = {
        "samples": str(viewer.shown(job, run, "result") / "level0.npy"),
        "result": str(studio.store.folder(job.id) / run.folder / "result.tif"),
        "target": str(target),
        "shown": [asdict(channel) for channel in run.shown],
        "bit_depth": depth,
        "quality": export.quality,
        "strokes": len(visible_strokes(job.strokes)),
        "name": stem,
    }
    try:
        studio.pictures.run("write_channel_download", values)
    except TaskError as error:
        raise Refusal(409, f"the file cannot be written: {studio.told(error.error)}") from error
    return target, stem + ending


def _usual_depth(format: str, run: Run) -> int:
    return {"tiff": run.working_depth, "png": 16, "heif": 10 if run.bit_depth > 8 else 8}.get(format, 8)


def name_file(template: str, job: Job, run: Run, size: tuple[int, int]) -> str:
    """The name of a file without its ending.

    Args:
        template: Text with fields in braces, one of :data:`FIELDS` each; empty for the usual name.
        job: Whose result it is.
        run: The result.
        size: Width and height of the file.

    Raises:
        Refusal: the template names something that there is not.
    """
    told = run.shown_name if job.others else "fused"
    if not template.strip():
        return f"{without_ending(job.name)}-{told}"
    now = time.localtime()
    values = {
        "stack": without_ending(job.name),
        "result": run.shown_name,
        "method": run.method,
        "date": time.strftime("%Y-%m-%d", now),
        "time": time.strftime("%H%M%S", now),
        "width": str(size[0]),
        "height": str(size[1]),
    }

    def fill(found: re.Match[str]) -> str:
        if found[1] not in values:
            known = ", ".join(f"{{{name}}}" for name in FIELDS)
            raise Refusal(400, f"a name has no field {found[0][:40]}; it has {known}")
        return values[found[1]]

    return portable_name(clean_name(_FIELD.sub(fill, template).replace("/", "-").replace("\\", "-"), "fused"))


def make_size(long_side: int | None, percent: float | None) -> OutputSize:
    """The size that a client asked for.

    Raises:
        Refusal: it asked for two.
    """
    try:
        return OutputSize(long_side, percent)
    except InputError as error:
        raise Refusal(400, error.message) from error


def without_ending(name: str) -> str:
    """The name of a stack without the ending of a picture's file; other dots belong to the name.

    Example:
        >>> without_ending("beetle.tif"), without_ending("2024.05.01 beetle"), without_ending(".tif")
        ('beetle', '2024.05.01 beetle', '.tif')
    """
    return re.sub(r"(?<=.)\.(tiff?|png|jpe?g|webp)$", "", name, flags=re.IGNORECASE)
