"""Only the registration of a stack: files -> files on one grid, with their transforms."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from allfocus.alignment.placement import Window, common_window, place_frame, whole_pixels
from allfocus.alignment.stack_alignment import StackAlignment, estimate_stack
from allfocus.alignment.stack_walk import walking_order
from allfocus.errors import InputError
from allfocus.files.names import named_path
from allfocus.files.placing import StagedFiles, made_folder
from allfocus.files.protection import InputFiles
from allfocus.images.encoders import ENCODERS
from allfocus.images.image import Image
from allfocus.images.limits import MAX_PIXELS
from allfocus.images.listing import PLAIN_SUFFIXES
from allfocus.images.stack_opening import open_stack
from allfocus.images.stack_reader import StackReader
from allfocus.images.writing import check_output, encode_image
from allfocus.progress import StepProgress
from allfocus.stack.frames import find_readable
from allfocus.stack.notes import RunNotes
from allfocus.stack.outputs import AnyPath, Paths

TRANSFORMS_NAME = "transforms.json"


@dataclass(frozen=True)
class AlignedFiles:
    """What aligning a stack of files gave."""

    folder: Path
    """Where the aligned frames and ``transforms.json`` lie."""
    alignment: StackAlignment
    """How the frames lay to each other."""
    files: tuple[Path, ...]
    """The aligned frames, in order; those that do not belong are not among them."""
    description: Mapping[str, object]
    """What ``transforms.json`` holds."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Names of the frames that could not be read, with the reason."""


def align_files(
    paths: Paths,
    folder: AnyPath,
    *,
    model: str = "auto",
    reference: int | None = None,
    match_brightness: bool = True,
    crop: bool = True,
    skip_bad: bool = False,
    overwrite: bool = False,
    max_pixels: int = MAX_PIXELS,
    progress: StepProgress | None = None,
    notice: Callable[[str], None] | None = None,
) -> AlignedFiles:
    """The frames of a stack of files on one grid, which are written into a folder with their transforms.

    Each frame keeps its name, bit depth, colour profile and EXIF. Frames that are measured to be registered already
    are written unchanged. A run that fails leaves nothing and replaces nothing.

    Args:
        paths: The frames: files, a folder, a pattern, or one multi-page TIFF.
        folder: Where to; made if need be.
        model: The motion model fitted to each frame: "auto", "translation", "similarity", "affine" or "homography".
        reference: The frame that stays as it is, from 0; the middle one by default.
        match_brightness: Even out brightness and white balance.
        crop: Cut the frames to the area that they have in common.
        skip_bad: Leave out frames that cannot be read or do not belong, instead of stopping.
        overwrite: Replace files that exist. A frame of the stack is never replaced.
        max_pixels: Refuse frames with more pixels than this.
        progress: Called after each piece of work with the step, how much of it is done, and how much there is.
        notice: Called with a sentence about each thing that was found.

    Raises:
        InputError: the frames cannot be used, or one does not belong.
        OutputError: a file cannot be written.

    Example:
        >>> import tempfile
        >>> import allfocus
        >>> scene = allfocus.render_scene("slope", frames=2, size=(96, 128))
        >>> with tempfile.TemporaryDirectory() as place:
        ...     paths = [allfocus.write_image(f, f"{place}/{n}.png") for n, f in enumerate(scene.frames)]
        ...     [path.name for path in align_files(paths, f"{place}/aligned").files]
        ['0.png', '1.png']
    """
    notes, target = RunNotes(progress, notice), named_path(folder)
    reader = open_stack(paths, max_pixels=max_pixels, on_bad_frame=notes.leave_out if skip_bad else None)
    for sentence in reader.notices:
        notes.say(sentence)
    if skip_bad:
        reader = reader.only(find_readable(reader, notes))
    targets, transforms = _output_paths(reader, target), target / TRANSFORMS_NAME
    with made_folder(target), StagedFiles(overwrite=overwrite, inputs=reader.files) as files:
        _refuse_clashes([*targets, transforms], reader)
        for path in targets:
            check_output(path, overwrite=overwrite)
        check_output(transforms, overwrite=overwrite, picture=False)
        begin = reader.count // 2 if reference is None else reference
        with reader.ahead(walking_order(reader.count, begin) if 0 <= begin < reader.count else []):
            alignment = estimate_stack(
                lambda index: whole_pixels(reader.read(index)),
                reader.count,
                model=model,
                reference=reference,
                match_brightness=match_brightness,
                progress=partial(notes.tell, "aligning"),
            )
        if alignment.outliers and not skip_bad:
            raise InputError(
                "; ".join(alignment.warnings),
                where=", ".join(reader.names[index] for index in alignment.outliers),
                hint="{skip_bad=on} to leave such frames out",
                code="stranger-frame",
            )
        if len(alignment.kept) < 2:
            raise InputError(
                "no two frames show the same scene; check that they belong to one stack", code="too-few-frames"
            )
        area = common_window(alignment) if crop else None
        with reader.ahead(alignment.kept):
            for done, index in enumerate(alignment.kept, start=1):
                aligned = _align_frame(reader, alignment, index, area)
                files.add(targets[index], encode_image(aligned, targets[index]))
                notes.tell("writing", done, len(alignment.kept))
        frames = _list_files(alignment, reader, targets)
        content = {**alignment.to_json(), "cropped": crop, "frames": frames, "left_out": dict(notes.left_out)}
        files.add(transforms, (json.dumps(content, indent=2) + "\n").encode())
        reader.require_unchanged()
    for sentence in alignment.warnings:
        notes.say(sentence)
    written = tuple(targets[index] for index in alignment.kept)
    return AlignedFiles(target, alignment, written, content, notes.left_out)


def _output_paths(reader: StackReader, folder: Path) -> list[Path]:
    """Where each aligned frame goes: its own name, with the page for a multi-page file; PNG where it cannot be kept."""
    paths = []
    several = len({source.path for source in reader.frames}) < reader.count
    for source in reader.frames:
        own = source.path.suffix
        ending = own if own.lower() in PLAIN_SUFFIXES and own.lower() in ENCODERS else ".png"
        page = f"_{source.page + 1:03d}" if several else ""
        paths.append(folder / f"{source.path.stem}{page}{ending}")
    return paths


def _refuse_clashes(targets: Sequence[Path], reader: StackReader) -> None:
    """Raise an error when two frames would get one name, or a file would replace a frame of the stack."""
    if len(set(targets)) < len(targets):
        twice = next(path for path in targets if targets.count(path) > 1)
        raise InputError(f"two frames are called {twice.name}; rename one of them")
    InputFiles(reader.files).refuse(targets)


def _align_frame(reader: StackReader, alignment: StackAlignment, index: int, area: Window | None) -> Image:
    """One frame as it lies on the grid; transparent where it does not reach, unless that was cut off."""
    image = reader.read(index)
    placed = place_frame(image, alignment, index).cut(area)
    alpha = placed.alpha
    if placed.inside is not None and (alpha is not None or area is None):
        alpha = np.asarray(placed.inside if alpha is None else placed.inside * alpha, np.float32)
    return replace(
        image,
        pixels=reader.value_range.from_unit(placed.pixels.copy()),
        alpha=None if alpha is None else alpha.copy(),
        path=None,
        page=None,
    )


def _list_files(
    alignment: StackAlignment, reader: StackReader, targets: Sequence[Path]
) -> list[dict[str, str | int | None]]:
    """Which file is which, for transforms.json."""
    return [
        {
            "source": source.path.name,
            "page": source.page,
            "file": target.name if index in alignment.kept else None,
        }
        for index, (source, target) in enumerate(zip(reader.frames, targets, strict=True))
    ]
