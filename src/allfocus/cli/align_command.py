"""``allfocus align``: only the registration of a stack, with its transforms."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allfocus.cli.printing import json_option, overwrite_option, print_json, print_notice, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from allfocus.alignment.stack_alignment import StackAlignment
    from allfocus.images.reading import StackReader

MODELS = ("auto", "translation", "similarity", "affine", "homography")


@click.command(short_help="Put the frames of a stack on one grid.")
@click.argument("frames", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write into.")
@click.option("--model", type=click.Choice(MODELS), default="auto", show_default=True, help="What a frame may do.")
@click.option("--reference", type=int, help="The frame that stays as it is, counted from 1; the middle by default.")
@click.option("--no-brightness", is_flag=True, help="Leave brightness and white balance as they are.")
@click.option("--keep-size", is_flag=True, help="Do not cut the frames to the area they have in common.")
@click.option("--skip-bad", is_flag=True, help="Leave out frames that do not belong instead of stopping.")
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
    overwrite: bool,
    as_json: bool,
) -> None:
    """Put FRAMES (files, a folder, or one multi-page TIFF) on one grid and write them with their transforms.

    Writes a file for each frame, named as the frame, and transforms.json into the folder. Frames that are measured to
    be registered already are written unchanged.
    """
    from allfocus.alignment.stack_alignment import estimate_stack
    from allfocus.images.reading import open_stack

    sources = open_stack(frames)
    targets = output_paths(sources, output)
    check_targets(targets, sources, output, overwrite=overwrite)
    with progress_bar() as progress:
        alignment = estimate_stack(
            lambda index: sources.read(index).pixels,
            sources.count,
            model=model,
            reference=None if reference is None else reference - 1,
            match_brightness=not no_brightness,
            progress=lambda done, count: progress("aligning", done, count),
        )
        require_usable(alignment, sources, skip_bad=skip_bad)
        written = write_aligned(alignment, sources, targets, crop=not keep_size, overwrite=overwrite, progress=progress)
    content = describe(alignment, sources, targets, crop=not keep_size)
    write_transforms(output / "transforms.json", content, overwrite=overwrite)
    for sentence in alignment.warnings:
        print_notice(sentence)
    if as_json:
        print_json({"folder": output, **content})
        return
    if alignment.registered:
        click.echo(f"{output}: {written} frames are registered already (no motion could be measured)")
    else:
        click.echo(f"{output}: {written} frames aligned ({alignment.model}, reference {alignment.reference + 1})")


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
    """Make the folder, and raise an error when a frame could not be written or would replace its source."""
    from allfocus.errors import InputError, OutputError
    from allfocus.images.writing import check_output

    if len(set(targets)) < len(targets):
        twice = next(path for path in targets if targets.count(path) > 1)
        raise InputError(f"two frames are called {twice.name}; rename one of them")
    originals = {source.path.resolve() for source in sources.frames}
    for target in targets:
        if target.resolve() in originals:
            raise InputError(f"{target}: is a frame of the stack and will not be replaced; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made ({error.strerror}); choose another folder") from error
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
    *,
    crop: bool,
    overwrite: bool,
    progress: "Callable[[str, int, int], None]",
) -> int:
    """Write the frames that belong, one at a time; how many there are comes back."""
    from allfocus.errors import InputError
    from allfocus.images.writing import write_image

    top, left, bottom, right = alignment.common_area() if crop else (0, 0, *alignment.size)
    if bottom - top < 1 or right - left < 1:
        raise InputError("the frames have no area in common; --keep-size writes them all the same")
    for done, index in enumerate(alignment.kept, start=1):
        image = sources.read(index)
        pixels, _ = alignment.apply(index, image.pixels)
        alpha = aligned_alpha(alignment, index, image.alpha)
        whole = replace(
            image,
            pixels=pixels[top:bottom, left:right].copy(),
            alpha=None if alpha is None or (crop and image.alpha is None) else alpha[top:bottom, left:right].copy(),
            path=targets[index],
            page=None,
        )
        write_image(whole, targets[index], overwrite=overwrite)
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
    alignment: "StackAlignment", sources: "StackReader", targets: "Sequence[Path]", *, crop: bool
) -> dict[str, object]:
    """What transforms.json holds: the alignment, and which file is which."""
    frames = [
        {
            "source": source.path.name,
            "page": source.page,
            "file": target.name if index in alignment.kept else None,
        }
        for index, (source, target) in enumerate(zip(sources.frames, targets, strict=True))
    ]
    return {**alignment.to_json(), "cropped": crop, "frames": frames}


def write_transforms(path: Path, content: dict[str, object], *, overwrite: bool) -> None:
    """Write transforms.json in one step."""
    from allfocus.images.writing import replace_file

    replace_file(path, (json.dumps(content, indent=2) + "\n").encode(), overwrite=overwrite)
