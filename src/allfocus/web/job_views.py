"""A job as clients see it: its frames with what is wrong about them, its results, and the command that does it."""

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from allfocus.finishing.rendering import finished_size
from allfocus.stack.command_words import command_line
from allfocus.stack.option_fields import STUDIO
from allfocus.stack.options import FuseOptions, offered
from allfocus.stack.outputs import FuseOutputs
from allfocus.web.job_records import DONE, TILE_SIDE, Frame, Job, Run
from allfocus.web.legends import describe_colours

ABSENT = "is not on this machine; say where the frames of this project are"


def show_job(job: Job, progress: dict[str, Any] | None) -> dict[str, Any]:
    """A job as clients see it; no path of this machine is in it."""
    return {
        "id": job.id,
        "name": job.name,
        "created": job.created,
        "state": job.state,
        "error": job.error,
        "error_code": job.error_code,
        "frames": show_frames(job),
        "options": {name: getattr(job.options, name) for name in offered(STUDIO)} if job.options else None,
        "progress": progress,
        "notices": list(job.notices),
        "result": _show_result(job),
        "results": _show_results(job),
        "alternatives": [asdict(item) for item in job.alternatives],
        "alternative": next((asdict(item) for item in reversed(job.alternatives) if item.state != DONE), None),
        "strokes": [asdict(stroke) for stroke in job.strokes],
        "redo_count": len(job.undone),
        "command": _command(job),
    }


def show_frames(job: Job) -> list[dict[str, Any]]:
    """The frames as clients see them, each with what is wrong about it."""
    shown = ("id", "name", "width", "height", "bit_depth", "bytes", "included", "absent", "channel_names")
    problems = find_problems(job.frames)
    return [{**{key: getattr(f, key) for key in shown}, "problem": problems.get(f.id)} for f in job.frames]


def find_problems(frames: list[Frame]) -> dict[str, str]:
    """Why frames do not fit the others, by their ids; those that fit are not in it.

    What most of the included frames are is taken as right, so that one odd frame is named and not all the others.

    Example:
        >>> frames = [Frame(name, f"{name}.png", side, 4, 3, 8, 9) for name, side in (("a", 5), ("b", 6), ("c", 6))]
        >>> find_problems(frames)
        {'a': 'is 5x4, but b.png is 6x4; all frames of a stack need the same size'}
    """
    included = [frame for frame in frames if frame.included]
    if not included:
        return {}
    usual = Counter(frame.shape for frame in included).most_common(1)[0][0]
    model = next(frame for frame in included if frame.shape == usual)
    problems = {frame.id: _difference(frame, model) for frame in frames if frame.shape != usual}
    return problems | {frame.id: ABSENT for frame in frames if frame.absent}


def _difference(frame: Frame, model: Frame) -> str:
    if frame.shape[:2] != model.shape[:2]:
        return (
            f"is {frame.width}x{frame.height}, but {model.name} is {model.width}x{model.height}; "
            "all frames of a stack need the same size"
        )
    if frame.channel_names or model.channel_names:
        return f"has other channels than {model.name}; all planes of a stack need the same channels"
    kinds = {1: "grey", 3: "colour"}
    return (
        f"is {kinds.get(frame.channels)}, but {model.name} is {kinds.get(model.channels)}; leave it out or "
        "convert one of them"
    )


def _command(job: Job) -> str:
    """The command line of the result; before there is one, that of what would be fused now."""
    made = job.run.command if job.run else None
    return command_to_copy(job.frames, job.options) if made is None else made


def _show_result(job: Job) -> dict[str, Any] | None:
    run = job.run
    if run is None:
        return None
    return {
        "id": run.folder,
        "name": run.shown_name,
        "method": run.method,
        "width": run.width,
        "height": run.height,
        "bit_depth": run.bit_depth,
        "white": run.white,
        "frames": run.names,
        "left_out": run.left_out,
        "seconds": run.seconds,
        "aligned": run.aligned,
        "has_depth": "depth" in run.maps,
        "has_decision": "decision" in run.maps,
        "has_confidence": "confidence" in run.maps,
        "has_report": run.has_report,
        "revision": job.revision,
        "first_revision": run.first_revision,
        "layers": job.layers(),
        "legends": describe_colours(run.maps, run.frames),
        "tile_size": TILE_SIDE,
        "levels": run.levels,
        "slab": run.slab,
        "faults": run.faults,
        "dismissed": list(run.dismissed),
        "finish": run.finish.to_json(),
        "finished_size": list(finished_size(run.finish, run.width, run.height)),
        "pixel_size": _pixel_size(job, run),
        "channels": [asdict(channel) for channel in run.shown],
        "shown_since": run.shown_since,
    }


def _pixel_size(job: Job, run: Run) -> float | None:
    """Micrometres from one pixel of a result to the next, as its frames say; None when they say nothing, or differ."""
    found = {frame.pixel_size for frame in map(job.frame, run.frames) if frame is not None}
    return found.pop() if len(found) == 1 else None


def _show_results(job: Job) -> list[dict[str, Any]]:
    """All results of a job, the oldest first."""
    return [
        {
            "id": run.folder,
            "name": run.shown_name,
            "method": run.method,
            "created": run.created,
            "width": run.width,
            "height": run.height,
            "frames": run.slab[1] - run.slab[0] + 1 if run.slab else len(run.frames),
            "strokes": len(strokes),
            "bytes": run.bytes,
            "open": run is job.run,
            "deleted": deleted,
            "comparable": job.run is not None and run.fits(job.run),
        }
        for run, strokes, deleted in sorted(
            ((item.run, item.strokes, item.deleted) for item in job.results()), key=lambda item: item[0].first_revision
        )
    ]


def command_to_copy(frames: list[Frame], options: FuseOptions | None) -> str:
    """The command that fuses the included frames with these options, called in their folder; empty when none can.

    The command takes whole files, so there is none for some pages of a file, or for pages in another order.

    Example:
        >>> frame = Frame("a", "one two.png", 6, 4, 3, 16, 9)
        >>> command_to_copy([frame], FuseOptions(align=False))
        "allfocus fuse 'one two.png' -o fused.tif --no-align"
        >>> pages = [Frame(str(n), f"s.tif page {n}", 6, 4, 3, 8, 9, file="s.tif", page=n, pages=2) for n in (1, 2)]
        >>> command_to_copy(pages, None), command_to_copy(pages[::-1], None)
        ('allfocus fuse s.tif -o fused.tif --bit-depth 16', '')
    """
    included = [frame for frame in frames if frame.included]
    names = _file_names(included)
    if names is None:
        return ""
    shallow = bool(included) and max(frame.bit_depth for frame in included) == 8
    chosen = replace(options or FuseOptions(), bit_depth=16 if shallow else None)  # as the studio's TIFF
    if not included or not included[0].channel_names:
        return command_line(names, FuseOutputs("fused.tif"), chosen)
    first = included[0]
    return command_line(names, FuseOutputs("fused.ome.tif"), replace(chosen, position=first.position, time=first.time))


def _file_names(frames: list[Frame]) -> list[str] | None:
    """The files that hold the frames in this order; None when they would bring others along."""
    names: list[str] = []
    expected = 1
    for frame in frames:
        if frame.page != expected or (expected > 1 and frame.file != names[-1]):
            return None
        if expected == 1:
            names.append(frame.file or frame.name)
        expected = frame.page % frame.pages + 1
    return names if expected == 1 else None
