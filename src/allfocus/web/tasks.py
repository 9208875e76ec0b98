"""What the worker processes do: everything that opens a client's file or takes long, so that the server never has to.

Each task takes plain values (they arrive as JSON), and returns plain values. ``tell`` sends a message on the way.
"""

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.placement import Window, common_window, place_frame
from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.finishing.finish import finish_from_json
from allfocus.finishing.rendering import OutputSize, finish_image
from allfocus.finishing.srgb import to_srgb
from allfocus.fusion.depth import colour_depth
from allfocus.fusion.faults import find_faults
from allfocus.fusion.frame_source import open_spool
from allfocus.fusion.method_choice import find_method, require_method
from allfocus.fusion.stack_fusion import fuse
from allfocus.images.conversion import from_integers, to_integers
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.spool import FrameSpool
from allfocus.images.stack_opening import open_stack
from allfocus.images.stack_reader import StackReader
from allfocus.images.writing import replace_file, write_image
from allfocus.progress import StepProgress
from allfocus.stack.frames import PlacedFrames
from allfocus.stack.notes import RunNotes
from allfocus.stack.options import FuseOptions, FuseOutputs, preview_path
from allfocus.stack.pipeline import fuse_files, slab_alone
from allfocus.stack.plan import Slab
from allfocus.stack.result import StackFusion
from allfocus.version import __version__
from allfocus.web.intake_tasks import cut_into_stacks, inspect_file, make_thumbnail, render_sample
from allfocus.web.job_records import options_from_json
from allfocus.web.layers import choose_white, to_bytes, write_layer
from allfocus.web.project_checks import open_project_file
from allfocus.web.project_files import Tell, find_frames, pack_project

RELIEF_SIDE = 512

STEPS = {
    "checking": 0.05,
    "aligning": 0.3,
    "reading": 0.15,
    "fusing": 0.4,
    "writing": 0.05,
    "reporting": 0.05,
    "tiles": 0.05,
}
"""Each step's share of the whole, as measured on stacks of a few large frames; only for the bar."""

SECONDS_BETWEEN_MESSAGES = 0.05


def fuse_job(
    paths: list[str], names: list[str], folder: str, layers: str, *, options: dict[str, Any], tell: Tell
) -> dict[str, Any]:
    """Fuse a stack into a folder: result.tif, its maps, its alignment, and the layer of the result.

    Args:
        paths: One file for each frame.
        names: What the client calls each of them.
        folder: Where the result goes; made here.
        layers: Where layers go; made here.
        options: Of :class:`FuseOptions`.
        tell: Called with progress and notices.
    """
    target, chosen = Path(folder), replace(options_from_json(options), filled=True)
    target.mkdir()
    kinds = ("decision", "depth", "confidence") if find_method(chosen.method).decides else ()
    maps: dict[str, Any] = {f"{kind}_map": target / f"{kind}.png" for kind in kinds}
    outputs = FuseOutputs(target / "result.tif", report=target / "report.html", **maps)
    progress = _StepShares(tell, align=chosen.align, check=chosen.skip_bad)
    result = fuse_files(
        paths,
        outputs,
        chosen,
        names=names,
        progress=progress,
        notice=lambda sentence: tell({"notice": sentence}),
    )
    _save_alignment(result, target)
    faults = _save_faults(result, target)
    progress("tiles", 0, 1)
    working_depth = chosen.bit_depth or 16
    pixels = result.image.astype(np.float32, copy=False)
    white = choose_white(pixels) if result.bit_depth > 8 else 1.0
    write_layer(Path(layers) / "result", to_integers(pixels, working_depth), white=white)
    if result.smooth_depth is not None and "depth" in kinds:
        _save_depth(result.smooth_depth, target)
    progress("tiles", 1, 1)
    height, width = result.image.shape[:2]
    return {
        "width": width,
        "height": height,
        "channels": 1 if result.image.ndim == 2 else 3,
        "working_depth": working_depth,
        "white": white,
        "sources": [str(path) for path in result.sources],
        "left_out": result.left_out,
        "seconds": result.seconds,
        "aligned": result.alignment is not None and not result.alignment.registered,
        "faults": faults,
        "maps": [kind for kind in ("depth", "decision", "confidence") if f"{kind}_map" in result.outputs],
    }


class _StepShares:
    """Turns the steps of the pipeline into messages with the fraction of the whole, not too many of them."""

    def __init__(self, tell: Tell, *, align: bool, check: bool) -> None:
        skipped = {"aligning": not align, "checking": not check}
        self._shares = {name: share for name, share in STEPS.items() if not skipped.get(name)}
        self._tell = tell
        self._last = 0.0
        self._fraction = 0.0

    def __call__(self, step: str, done: int, count: int) -> None:
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN_MESSAGES and 0 < done < count:
            return
        self._last = now
        names = list(self._shares)
        if step in names:
            before = sum(self._shares[name] for name in names[: names.index(step)])
            share = before + self._shares[step] * min(1.0, done / max(count, 1))
            # A step that is done twice (alignment without an odd frame) must not send the bar back.
            self._fraction = max(self._fraction, share / sum(self._shares.values()))
        fraction = round(self._fraction, 4)
        self._tell({"progress": {"step": step, "done": done, "count": count, "fraction": fraction}})


def _save_alignment(result: StackFusion, target: Path) -> None:
    content = None if result.alignment is None else result.alignment.to_json()
    replace_file(target / "alignment.json", json.dumps(content).encode())


def _save_faults(result: StackFusion, target: Path) -> int:
    """Write the places that are worth a look; how many they are."""
    found = [asdict(fault) for fault in find_faults(result)]
    replace_file(target / "faults.json", json.dumps(found, allow_nan=False).encode())
    return len(found)


def _save_depth(depth: NDArray[np.float32], target: Path) -> None:
    """Write the small depth for the relief, and give the preview in colours the name that clients ask for."""
    preview_path(target / "depth.png").replace(target / "depth-colour.png")
    scale = min(1.0, RELIEF_SIDE / max(depth.shape))
    size = (max(1, round(depth.shape[1] * scale)), max(1, round(depth.shape[0] * scale)))
    np.save(target / "relief.npy", cv2.resize(depth, size, interpolation=cv2.INTER_AREA).reshape(size[::-1]))


def write_frame_layer(
    path: str,
    name: str,
    run: str,
    layer: str,
    *,
    place: int,
    crop: bool,
    working_depth: int,
    white: float,
    max_pixels: int,
    tell: Tell,
) -> None:
    """Write the layer of a frame: aligned and cut exactly as it was for the fusion."""
    alignment = _read_alignment(Path(run))
    image = read_image(path, max_pixels=max_pixels, name=name)
    placed = place_frame(image, alignment, place).cut(_area_of(alignment, crop=crop))
    write_layer(Path(layer), to_integers(placed.pixels, working_depth), white=white)


def _read_alignment(run: Path) -> StackAlignment | None:
    content = json.loads((run / "alignment.json").read_bytes())
    return None if content is None else StackAlignment.from_json(content)


def _area_of(alignment: StackAlignment | None, *, crop: bool) -> Window | None:
    """What the frames of a run were cut to; None for all of it."""
    return common_window(alignment) if crop else None


def write_map_layer(path: str, layer: str, *, tell: Tell) -> None:
    """Write the layer of a map (depth, decision or confidence), coloured."""
    write_layer(Path(layer), to_bytes(colour_depth(read_image(path, max_pixels=2**62).pixels)))


def write_result_layer(path: str, layer: str, *, working_depth: int, white: float, tell: Tell) -> None:
    """Write the layer of the result again, from its file."""
    write_layer(Path(layer), to_integers(read_image(path, max_pixels=2**62).pixels, working_depth), white=white)


def fuse_alternative(
    paths: list[str],
    names: list[str],
    run: str,
    layer: str,
    *,
    options: dict[str, Any],
    working_depth: int,
    white: float,
    tell: Tell,
) -> None:
    """Fuse the frames of a finished run with another method, on the same grid, into a layer."""
    chosen = options_from_json(options)
    progress = _StepShares(tell, align=False, check=False)
    reader = open_stack(paths, names=names, max_pixels=chosen.max_pixels)
    with _spool_on_grid(reader, Path(run), chosen, working_depth, progress) as spool:
        pixels = _fuse_again(spool, reader, chosen, progress)
    write_layer(Path(layer), to_integers(pixels, working_depth), white=white)
    progress("tiles", 1, 1)


def fuse_slabs(
    paths: list[str],
    names: list[str],
    run: str,
    folders: list[str],
    layers: list[str],
    *,
    spans: list[list[int]],
    options: dict[str, Any],
    working_depth: int,
    white: float,
    tell: Tell,
) -> None:
    """Fuse parts of a finished run's frames by themselves, on the same grid, each into a folder like that of a run.

    Args:
        paths: One file for each frame of the run.
        names: What the client calls each of them.
        run: Folder of the finished run.
        folders: Where each slab goes; made here.
        layers: Where the layer of each goes.
        spans: The first frame of each slab, from 0, and the one after its last.
        options: Of :class:`FuseOptions`.
        working_depth: Bits per channel of the results.
        white: What is shown as the brightest.
        tell: Called with progress.
    """
    chosen = options_from_json(options)
    reader = open_stack(paths, names=names, max_pixels=chosen.max_pixels)
    whole = read_image(Path(run) / "result.tif", max_pixels=2**62)
    progress = _StepShares(tell, align=False, check=False)
    with _spool_on_grid(reader, Path(run), chosen, working_depth, progress) as spool:
        for number, ((first, last), folder, layer) in enumerate(zip(spans, folders, layers, strict=True), start=1):
            target = Path(folder)
            target.mkdir()
            with slab_alone(Slab(first, last, target / "result.tif"), spool) as part:
                pixels = _fuse_again(part, reader, chosen, lambda *step: None)
            shutil.copyfile(Path(run) / "alignment.json", target / "alignment.json")
            picture = replace(whole, pixels=pixels, path=None)
            write_image(picture, target / "result.tif", bit_depth=working_depth, compression="none")
            write_layer(Path(layer), to_integers(pixels, working_depth), white=white)
            progress("fusing", number, len(spans))
    progress("tiles", 1, 1)


@contextlib.contextmanager
def _spool_on_grid(
    reader: StackReader, run: Path, options: FuseOptions, working_depth: int, progress: StepProgress
) -> Iterator[FrameSpool]:
    """All frames of a finished run where its fusion had them."""
    alignment = _read_alignment(run)
    area = _area_of(alignment, crop=options.crop)
    with open_spool(working_depth) as spool:
        PlacedFrames(reader, range(reader.count), alignment, RunNotes(progress), area=area).fill(spool)
        yield spool


def _fuse_again(
    spool: FrameSpool, reader: StackReader, options: FuseOptions, progress: StepProgress
) -> NDArray[np.float32]:
    method = require_method(options.method, **options.demands())
    result = fuse(
        spool,
        method=method,
        device=options.device,
        curve=reader.blending_curve(0, options.linear_light) if method.abilities.linear_light else None,
        check=False,
        progress=lambda *n: progress("fusing", *n),
    )
    return np.asarray(result.image, np.float32)


def write_download(
    samples: str,
    result: str,
    target: str,
    *,
    bit_depth: int,
    quality: int,
    strokes: int,
    finish: dict[str, Any],
    long_side: int | None,
    percent: float | None,
    srgb: bool,
    tell: Tell,
) -> None:
    """Write the result with its strokes and its finish as the client asked for it, with the metadata of the picture.

    Args:
        samples: The full size of the layer to write, as .npy.
        result: The fused picture, for its metadata.
        target: The file to write; its ending gives the format.
        bit_depth: Bits per channel of the file.
        quality: Of formats that lose something.
        strokes: How many strokes were painted, for the history of the file.
        finish: What is done to the picture, as JSON.
        long_side: Pixels of the longer side; None keeps them.
        percent: The size, in place of ``long_side``.
        srgb: Convert the colours to sRGB.
        tell: Not used.
    """
    pixels = np.load(samples, mmap_mode="r")
    picture: Image = replace(read_image(result, max_pixels=2**62), pixels=from_integers(pixels), path=None)
    wanted = finish_from_json(finish)
    picture = finish_image(picture, wanted, size=OutputSize(long_side, percent))
    if srgb:
        picture = to_srgb(picture)
    done = [f"retouched in allfocus studio {__version__} with {strokes} strokes"] if strokes else []
    if not wanted.is_neutral:
        done.append(f"finished in allfocus studio {__version__}: {wanted.describe()}")
    if long_side is not None or percent is not None:
        done.append(f"resized to {picture.width}x{picture.height}")
    write_image(
        picture,
        target,
        bit_depth=bit_depth,
        quality=quality,
        history="; ".join(done) or None,
        software=f"allfocus {__version__}",
        overwrite=True,
    )


TASKS: dict[str, Callable[..., Any]] = {
    task.__name__: task
    for task in (
        inspect_file,
        make_thumbnail,
        fuse_job,
        write_frame_layer,
        write_map_layer,
        write_result_layer,
        fuse_alternative,
        fuse_slabs,
        write_download,
        render_sample,
        cut_into_stacks,
        pack_project,
        open_project_file,
        find_frames,
    )
}
"""Every task by its name."""
