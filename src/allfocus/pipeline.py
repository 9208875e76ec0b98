"""One stack from files to file: read -> fuse -> write."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.methods import FusionResult, find_method, fuse
from allfocus.images.image import Image, ImageStack
from allfocus.images.reading import MAX_PIXELS, list_frames, read_stack
from allfocus.images.writing import check_output, write_image

Progress = Callable[[str, int, int], None]
"""Called with the step ("reading", "fusing", "writing"), how much of it is done, and how much there is."""


def fuse_files(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    method: str = "ips",
    overwrite: bool = False,
    decision_map: str | os.PathLike[str] | None = None,
    device: str = "auto",
    max_pixels: int = MAX_PIXELS,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
) -> FusionResult:
    """The fused picture of a stack of files, which is also written to ``output``.

    The output has the bit depth of the frames as far as its format allows, and the colour profile and EXIF of the
    first frame. Nothing is written before all that can be checked has been: the frames, the method, the output paths.

    Args:
        paths: The frames: files, a folder, or one multi-page TIFF.
        output: The file to write; its ending gives the format.
        method: A name of ``allfocus.list_methods()``.
        overwrite: Replace existing output files. A frame of the stack is never replaced.
        decision_map: Also write which frame each pixel came from, as grey: the first black, the last white.
        device: "auto", "cpu" or "cuda".
        max_pixels: Refuse frames with more pixels than this.
        progress: Called after each piece of work; see ``Progress``.
        notice: Called with a sentence about each thing that was changed while reading.

    Raises:
        InputError: the frames or the method cannot be used.
        OutputError: the output cannot be written.

    Example:
        >>> import tempfile
        >>> import allfocus
        >>> scene = allfocus.render_scene("desk", frames=2, size=(64, 80))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paths = [allfocus.write_image(f, f"{folder}/{n}.png") for n, f in enumerate(scene.frames)]
        ...     result = fuse_files(paths, f"{folder}/fused.png", method="average")
        ...     allfocus.read_image(f"{folder}/fused.png").width
        80
    """
    report: Progress = progress or (lambda step, done, count: None)
    find_method(method)
    frames = list_frames(paths)
    for target in (output, decision_map):
        if target is not None:
            check_output(target, overwrite=overwrite)
            _refuse_frame_as_output(Path(target), [frame.path for frame in frames])
    stack = read_stack(paths, max_pixels=max_pixels, progress=lambda done, count: report("reading", done, count))
    if notice:
        for image in stack:
            for sentence in image.notices:
                notice(f"{image.name}: {sentence}")
    report("fusing", 0, 1)
    result = fuse(stack.frames, method=method, device=device)
    report("fusing", 1, 1)
    _write_results(result, stack, Path(output), decision_map, overwrite=overwrite)
    report("writing", 1, 1)
    return result


def decision_picture(decision: NDArray[np.integer], frame_count: int) -> Image:
    """A decision map as grey levels to look at: the first frame black, the last white, evenly between.

    Args:
        decision: ``(H, W)``, the number of the frame (from 0) that each pixel came from.
        frame_count: How many frames the stack has; above 256 the picture has 16 bits.

    Example:
        >>> decision_picture(np.array([[0, 1, 2]]), 3).pixels
        array([[0. , 0.5, 1. ]], dtype=float32)
    """
    scaled = decision.astype(np.float32) / np.float32(max(frame_count - 1, 1))
    return Image(scaled, bit_depth=8 if frame_count <= 256 else 16)


def _write_results(
    result: FusionResult,
    stack: ImageStack,
    output: Path,
    decision_map: str | os.PathLike[str] | None,
    *,
    overwrite: bool,
) -> None:
    if decision_map is not None:
        if result.decision is None:
            raise InputError("this method blends all frames and makes no decision map; leave it out or use another")
        write_image(decision_picture(result.decision, len(stack)), decision_map, overwrite=overwrite)
    first = stack[0]
    fused = replace(
        first, pixels=result.image.astype(np.float32), bit_depth=stack.bit_depth, path=output, page=None, notices=()
    )
    write_image(fused, output, overwrite=overwrite)


def _refuse_frame_as_output(output: Path, frames: Sequence[Path]) -> None:
    if output.exists() and any(output.samefile(frame) for frame in frames if frame.exists()):
        raise InputError(f"{output}: is a frame of the stack and will not be replaced; choose another name")
