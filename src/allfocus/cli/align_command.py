"""``allfocus align``: only the registration of a stack, with its transforms."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allfocus.cli.printing import echo, json_option, overwrite_option, print_json, print_notice, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from allfocus.alignment.stack_alignment import StackAlignment
    from allfocus.files.placing import StagedFiles
    from allfocus.images.reading import StackReader
    from allfocus.stack.frames import Job

MODELS = ("auto", "translation", "similarity", "affine", "homography")


@click.command(short_help="Put the frames of a stack on one grid.")
@click.argument("frames", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write into.")
@click.option("--model", type=click.Choice(MODELS), default="auto", show_default=True, help="What a frame may do.")
@click.option("--reference", type=int, help="The frame that stays as it is, counted from 1; the middle by default.")
@click.option("--no-brightness", is_flag=True, help="Leave brightness and white balance as they are.")
@click.option("--keep-size", is_flag=True, help="Do not cut the frames to the area they have in common.")
@click.option(
    "--skip-bad", is_flag=True, help="Leave out frames that are damaged or do not belong, instead of stopping."
)
@click.option("--max-pixels", type=int, help="Refuse frames with more pixels than this.")
@overwrite_option
@json_option
def align(
    frames: tuple[Path, ...],
    output: Path,
    model: str,
    reference: int | None,
    no_brightness: bool,
    keep_size: bool,
    skip_bad: bool,
    max_pixels: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Put FRAMES (files, a folder, or one multi-page TIFF) on one grid and write them with their transforms.

    Writes a file for each frame, named as the frame, and transforms.json into the folder. Frames that are measured to
    be registered already are written unchanged.
    """
    from allfocus.alignment.stack_alignment import estimate_stack
    from allfocus.files.placing import StagedFiles, made_folder
    from allfocus.images.reading import MAX_PIXELS
    from allfocus.stack.frames import Job, whole_pixels

    with progress_bar() as progress:
        job = Job(progress, print_notice)
        sources = open_frames(
            frames, job, max_pixels=MAX_PIXELS if max_pixels is None else max_pixels, skip_bad=skip_bad
        )
        targets = output_paths(sources, output)
        with made_folder(output), StagedFiles(overwrite=overwrite, inputs=sources.files) as files:
            check_targets(targets, sources, output, overwrite=overwrite)
            alignment = estimate_stack(
                lambda index: whole_pixels(sources.read(index)),
                sources.count,
                model=model,
                reference=None if reference is None else reference - 1,
                match_brightness=not no_brightness,
                progress=lambda done, count: progress("aligning", done, count),
            )
            require_usable(alignment, sources, skip_bad=skip_bad)
            written = write_aligned(alignment, sources, targets, files, crop=not keep_size, progress=progress)
            content = describe(alignment, sources, targets, crop=not keep_size, left_out=job.left_out)
            files.add(output / "transforms.json", (json.dumps(content, indent=2) + "\n").encode())
            sources.require_unchanged()
    for sentence in alignment.warnings:
        print_notice(sentence)
    if as_json:
        print_json({"folder": output, **content})
        return
    if not alignment.measured:
        echo(f"{output}: {written} frames, not aligned")
    elif alignment.registered:
        echo(f"{output}: {written} frames are registered already (no motion could be measured)")
    else:
        echo(f"{output}: {written} frames aligned ({alignment.model}, reference {alignment.reference + 1})")


def open_frames(frames: "Sequence[Path]", job: "Job", *, max_pixels: int, skip_bad: bool) -> "StackReader":
    """The frames, checked; those that cannot be read are left out if they may be."""
    from allfocus.images.reading import StackReader, open_stack

    if not skip_bad:
        return open_stack(frames, max_pixels=max_pixels)
    sources = open_stack(frames, max_pixels=max_pixels, on_bad_frame=job.leave_out)
    whole = job.check_readable(sources)
    kept = [sources.frames[index] for index in whole]
    return StackReader(kept, max_pixels=max_pixels, files=sources.files)


def output_paths(sources: "StackReader", folder: Path) -> list[Path]:
    """Where each aligned frame goes: its own name, with the page for a multi-page file; PNG where it cannot be kept."""
    from allfocus.images.writing import ENCODERS

    paths = []
    several = len({source.path for source in sources.frames}) < sources.count
    for source in sources.frames:
        ending = source.path.suffix if source.path.suffix.lower() in ENCODERS else ".png"
        page = f"_{source.page + 1:03d}" if several else ""
        paths.append(folder / f"{source.path.stem}{page}{ending}")
    return paths


def check_targets(targets: "Sequence[Path]", sources: "StackReader", folder: Path, *, overwrite: bool) -> None:
    """Raise an error when a frame could not be written into the folder or would replace its source."""
    from allfocus.errors import InputError
    from allfocus.files.protection import InputFiles
    from allfocus.images.writing import check_output

    if len(set(targets)) < len(targets):
        twice = next(path for path in targets if targets.count(path) > 1)
        raise InputError(f"two frames are called {twice.name}; rename one of them")
    InputFiles(sources.files).refuse([*targets, folder / "transforms.json"])
    for target in targets:
        check_output(target, overwrite=overwrite)
    check_output(folder / "transforms.json", overwrite=overwrite, picture=False)


def require_usable(alignment: "StackAlignment", sources: "StackReader", *, skip_bad: bool) -> None:
    """Raise an InputError that names the files that do not belong, unless they may be left out and two remain."""
    from allfocus.errors import InputError

    if alignment.outliers and not skip_bad:
        names = ", ".join(sources.names[index] for index in alignment.outliers)
        raise InputError(f"{names}: {'; '.join(alignment.warnings)} (--skip-bad does)")
    if len(alignment.kept) < 2:
        raise InputError("no two frames show the same scene; check that they belong to one stack")


def write_aligned(
    alignment: "StackAlignment",
    sources: "StackReader",
    targets: "Sequence[Path]",
    files: "StagedFiles",
    *,
    crop: bool,
    progress: "Callable[[str, int, int], None]",
) -> int:
    """Write the frames that belong, one at a time; how many there are comes back."""
    from allfocus.errors import InputError
    from allfocus.images.writing import encode_image
    from allfocus.stack.frames import whole_pixels

    top, left, bottom, right = alignment.common_area() if crop else (0, 0, *alignment.size)
    if bottom - top < 1 or right - left < 1:
        raise InputError("the frames have no area in common; --keep-size writes them all the same")
    for done, index in enumerate(alignment.kept, start=1):
        image = sources.read(index)
        pixels, _ = alignment.apply(index, whole_pixels(image))
        alpha = aligned_alpha(alignment, index, image.alpha)
        whole = replace(
            image,
            pixels=sources.value_range.from_unit(pixels[top:bottom, left:right].copy()),
            alpha=None if alpha is None or (crop and image.alpha is None) else alpha[top:bottom, left:right].copy(),
            path=targets[index],
            page=None,
        )
        files.add(targets[index], encode_image(whole, targets[index]))
        progress("writing", done, len(alignment.kept))
    return len(alignment.kept)


def aligned_alpha(
    alignment: "StackAlignment", index: int, alpha: "NDArray[np.float32] | None"
) -> "NDArray[np.float32] | None":
    """Opacity (H, W) of an aligned frame: its own, moved, and 0 where it has no pixels; None when opaque everywhere."""
    import numpy as np

    from allfocus.alignment.transforms import mask_of_spans, valid_spans, warp_picture

    transform = alignment.transforms[index]
    if np.array_equal(transform, np.eye(3)):
        return alpha
    inside = mask_of_spans(valid_spans(transform, alignment.size), alignment.size[1])
    opacity = inside if alpha is None else inside * warp_picture(alpha, transform)
    return np.asarray(opacity, np.float32)


def describe(
    alignment: "StackAlignment",
    sources: "StackReader",
    targets: "Sequence[Path]",
    *,
    crop: bool,
    left_out: "Mapping[str, str]",
) -> dict[str, object]:
    """What transforms.json holds: the alignment, which file is which, and which could not be read, with the reason."""
    frames = [
        {
            "source": source.path.name,
            "page": source.page,
            "file": target.name if index in alignment.kept else None,
        }
        for index, (source, target) in enumerate(zip(sources.frames, targets, strict=True))
    ]
    return {**alignment.to_json(), "cropped": crop, "frames": frames, "left_out": dict(left_out)}
