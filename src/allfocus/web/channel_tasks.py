"""What worker processes do with stacks of several channels; see :mod:`.tasks` for those of pictures.

Each plane is kept as an OME-TIFF with all its channels and what is known about them, a result is one as well, and the
layer of either has one sample for each channel.
"""

import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from allfocus.alignment.placement import place_frame
from allfocus.fusion.method_choice import find_method
from allfocus.images.calibrated_files import FusedPlanes, write_ome_zarr
from allfocus.images.conversion import to_integers
from allfocus.images.dimensions import EACH
from allfocus.images.image import Image
from allfocus.images.ome_xml import describe_result
from allfocus.images.stack_file import open_stack_file
from allfocus.images.writing import replace_file, write_image
from allfocus.stack.outputs import FuseOutputs
from allfocus.stack.pipeline import fuse_files
from allfocus.web.channel_planes import SOFTWARE, encode_planes, read_channels
from allfocus.web.channels import ShownChannel, choose_display, colour_channels
from allfocus.web.fusing_steps import (
    StepShares,
    area_of,
    describe_run,
    read_alignment,
    save_alignment,
    save_depth,
    save_faults,
)
from allfocus.web.intake_tasks import THUMBNAIL_SIDE
from allfocus.web.job_records import options_from_json
from allfocus.web.layers import jpeg_bytes, write_layer
from allfocus.web.project_files import Tell


def make_channel_thumbnail(path: str, target: str, *, max_pixels: int, tell: Tell) -> None:
    """Write a small JPEG of a plane, its channels in their colours."""
    images, held = read_channels(path, max_pixels=max_pixels)
    pixels = np.stack([image.pixels for image in images], axis=-1)
    small = colour_channels(pixels, choose_display(pixels, held))
    scale = THUMBNAIL_SIDE / max(small.shape[:2])
    if scale < 1:
        size = (max(1, round(small.shape[1] * scale)), max(1, round(small.shape[0] * scale)))
        small = np.asarray(cv2.resize(small, size, interpolation=cv2.INTER_AREA), np.float32)
    Path(target).parent.mkdir(exist_ok=True)
    replace_file(Path(target), jpeg_bytes(to_integers(small, 8), quality=85), overwrite=True)


def fuse_channel_job(
    paths: list[str], names: list[str], folder: str, layers: str, *, options: dict[str, Any], tell: Tell
) -> dict[str, Any]:
    """Fuse planes of several channels into a folder: as ``tasks.fuse_job``, the result an OME-TIFF of all channels."""
    target = Path(folder)
    chosen = replace(options_from_json(options), filled=True, skip_bad=False, cull=False)
    target.mkdir()
    together = find_method(chosen.method).decides and chosen.decide_by.strip().casefold() != EACH
    kinds = ("decision", "depth", "confidence") if together else ()
    maps: dict[str, Any] = {f"{kind}_map": target / f"{kind}.png" for kind in kinds}
    progress = StepShares(tell, align=chosen.align, check=False)
    result = fuse_files(
        paths,
        FuseOutputs(target / "result.ome.tif", **maps),
        chosen,
        names=names,
        progress=progress,
        notice=lambda sentence: tell({"notice": sentence}),
    )
    (target / "result.ome.tif").replace(target / "result.tif")
    save_alignment(result, target)
    faults = save_faults(result, target)
    progress("tiles", 0, 1)
    pixels = result.image.astype(np.float32, copy=False)
    if result.dimensions is None:
        raise ValueError("nothing is known about the channels")
    shown = choose_display(pixels, result.dimensions)
    write_layer(Path(layers) / "result", to_integers(pixels, 16), white=[channel.white for channel in shown])
    if result.smooth_depth is not None and kinds:
        save_depth(result.smooth_depth, target)
    progress("tiles", 1, 1)
    own = {"working_depth": 16, "shown": [asdict(channel) for channel in shown]}
    return describe_run(result, faults=faults) | own


def write_channel_frame_layer(
    path: str,
    name: str,
    run: str,
    layer: str,
    *,
    place: int,
    crop: bool,
    working_depth: int,
    white: list[float],
    max_pixels: int,
    tell: Tell,
) -> None:
    """Write the layer of a plane: aligned and cut exactly as it was for the fusion."""
    alignment = read_alignment(Path(run))
    images, _ = read_channels(path, max_pixels=max_pixels, name=name)
    area = area_of(alignment, crop=crop)
    placed = [place_frame(image, alignment, place).cut(area).pixels for image in images]
    write_layer(Path(layer), to_integers(np.stack(placed, axis=-1), working_depth), white=white)


def write_channel_result_layer(path: str, layer: str, *, working_depth: int, white: list[float], tell: Tell) -> None:
    """Write the layer of the result again, from its file."""
    images, _ = read_channels(path)
    write_layer(Path(layer), to_integers(np.stack([own.pixels for own in images], axis=-1), working_depth), white=white)


def write_channel_download(
    samples: str,
    result: str,
    target: str,
    *,
    shown: list[dict[str, Any]],
    bit_depth: int,
    quality: int,
    strokes: int,
    name: str,
    tell: Tell,
) -> None:
    """Write the result with its strokes: all channels as OME-TIFF or OME-Zarr, or the picture that they make.

    Args:
        samples: The full size of the layer to write, as .npy.
        result: The fused planes, for what is known about them.
        target: The file to write; its ending gives the format: ``.ome.tif``, ``.ome.zarr.zip``, or that of a picture.
        shown: How each channel is shown, in pictures.
        bit_depth: Bits per channel of a picture.
        quality: Of formats that lose something.
        strokes: How many strokes were painted, for the history of the file.
        name: Of the image in an OME-Zarr.
        tell: Not used.
    """
    layers = np.load(samples, mmap_mode="r")
    path = Path(target)
    history = f"fused by {SOFTWARE}" + (f"; retouched in its studio with {strokes} strokes" if strokes else "")
    if not path.name.endswith((".ome.tif", ".ome.zarr.zip")):
        picture = colour_channels(np.asarray(layers), [ShownChannel(**own) for own in shown])
        image = Image(picture, bit_depth=bit_depth)
        write_image(
            image, path, bit_depth=bit_depth, quality=quality, history=history, software=SOFTWARE, overwrite=True
        )
        return
    held, origin = describe_result(open_stack_file(result).positions[0], history)
    planes = [np.ascontiguousarray(layers[..., number]) for number in range(layers.shape[2])]
    if path.name.endswith(".ome.tif"):
        replace_file(path, encode_planes(planes, held, origin), overwrite=True)
        return
    held = replace(held, size=(layers.shape[0], layers.shape[1]), dtype=str(layers.dtype))
    content = FusedPlanes((held,), lambda position, time, channel: planes[channel], origin, SOFTWARE)
    folder = path.with_name(f"{secrets.token_hex(8)}.part")
    try:
        write_ome_zarr(content, folder / f"{name}.ome.zarr", name=name)
        made = shutil.make_archive(str(path.with_suffix("")), "zip", root_dir=folder)
        Path(made).replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


CHANNEL_TASKS: dict[str, Callable[..., Any]] = {
    task.__name__: task
    for task in (
        make_channel_thumbnail,
        fuse_channel_job,
        write_channel_frame_layer,
        write_channel_result_layer,
        write_channel_download,
    )
}
"""Every task of this module by its name."""
