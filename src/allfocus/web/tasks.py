"""What the worker processes do: everything that opens a client's file or takes long, so that the server never has to.

Each task takes plain values (they arrive as JSON), and returns plain values. ``tell`` sends a message on the way.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.placement import place_frame
from allfocus.finishing.finish import finish_from_json
from allfocus.finishing.rendering import OutputSize, finish_image
from allfocus.finishing.srgb import to_srgb
from allfocus.fusion.depth import colour_depth
from allfocus.fusion.frame_source import open_spool
from allfocus.fusion.method_choice import find_method, require_method
from allfocus.fusion.stack_fusion import fuse
from allfocus.images.conversion import from_integers, to_integers
from allfocus.images.image import Image
from allfocus.images.reading import read_image
from allfocus.images.spool import FrameSpool
from allfocus.images.stack_opening import open_stack
from allfocus.images.stack_reader import StackReader
from allfocus.images.writing import write_image
from allfocus.progress import StepProgress
from allfocus.stack.frames import PlacedFrames
from allfocus.stack.notes import RunNotes
from allfocus.stack.options import FuseOptions
from allfocus.stack.outputs import FuseOutputs
from allfocus.stack.pipeline import fuse_files, slab_alone
from allfocus.stack.plan import Slab
from allfocus.version import __version__
from allfocus.web.fusing_steps import (
    StepShares,
    area_of,
    describe_run,
    read_alignment,
    save_alignment,
    save_depth,
    save_faults,
)
from allfocus.web.intake_tasks import cut_into_stacks, inspect_file, make_thumbnail, render_sample
from allfocus.web.job_records import options_from_json
from allfocus.web.layers import choose_white, to_bytes, write_layer
from allfocus.web.project_checks import open_project_file
from allfocus.web.project_files import Tell, find_frames, pack_project


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
    progress = StepShares(tell, align=chosen.align, check=chosen.skip_bad)
    result = fuse_files(
        paths,
        outputs,
        chosen,
        names=names,
        progress=progress,
        notice=lambda sentence: tell({"notice": sentence}),
    )
    save_alignment(result, target)
    faults = save_faults(result, target)
    progress("tiles", 0, 1)
    working_depth = chosen.bit_depth or 16
    pixels = result.image.astype(np.float32, copy=False)
    white = choose_white(pixels) if result.bit_depth > 8 else 1.0
    write_layer(Path(layers) / "result", to_integers(pixels, working_depth), white=white)
    if result.smooth_depth is not None and "depth" in kinds:
        save_depth(result.smooth_depth, target)
    progress("tiles", 1, 1)
    return describe_run(result, faults=faults) | {"working_depth": working_depth, "white": white}


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
    alignment = read_alignment(Path(run))
    image = read_image(path, max_pixels=max_pixels, name=name)
    placed = place_frame(image, alignment, place).cut(area_of(alignment, crop=crop))
    write_layer(Path(layer), to_integers(placed.pixels, working_depth), white=white)


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
    progress = StepShares(tell, align=False, check=False)
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
    progress = StepShares(tell, align=False, check=False)
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
    alignment = read_alignment(run)
    area = area_of(alignment, crop=options.crop)
    with open_spool(working_depth) as spool:
        reader.fills_rims = options.fill_rims
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
