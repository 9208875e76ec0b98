"""``allfocus align``: only the registration of a stack, with its transforms."""

from pathlib import Path

import click

from allfocus.cli.examples import examples
from allfocus.cli.paths import PATH
from allfocus.cli.printing import (
    json_option,
    overwrite_option,
    print_details,
    print_json,
    print_notice,
    print_result,
    progress_bar,
    verbosity_options,
)
from allfocus.images.limits import MAX_PIXELS

MODELS = ("auto", "translation", "similarity", "affine", "homography")


@click.command(
    short_help="Put the frames of a stack on one grid.",
    epilog=examples(
        "allfocus align DSC*.tif -o aligned",
        "allfocus align FOLDER -o aligned --model translation --keep-size",
    ),
)
@click.argument("frames", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", type=PATH, required=True, help="The folder to write into.")
@click.option(
    "--model", type=click.Choice(MODELS), default="auto", show_default=True, help="Motion model fitted to each frame."
)
@click.option("--reference", type=int, help="The frame that stays as it is, counted from 1; the middle by default.")
@click.option("--no-brightness", is_flag=True, help="Leave brightness and white balance as they are.")
@click.option("--keep-size", is_flag=True, help="Keep the size of the reference frame; do not crop to the common area.")
@click.option(
    "--skip-bad", is_flag=True, help="Leave out frames that are damaged or do not belong, instead of stopping."
)
@click.option(
    "--max-pixels", type=int, default=MAX_PIXELS, show_default=True, help="Refuse frames with more pixels than this."
)
@overwrite_option
@verbosity_options
@json_option
def align(
    frames: tuple[Path, ...],
    output: Path,
    model: str,
    reference: int | None,
    no_brightness: bool,
    keep_size: bool,
    skip_bad: bool,
    max_pixels: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Put FRAMES (files, a folder, or one multi-page TIFF) on one grid and write them with their transforms.

    Writes a file for each frame, named as the frame, and transforms.json into the folder. Frames that are measured to
    be registered already are written unchanged.
    """
    from allfocus.stack.aligned_files import align_files

    with progress_bar() as progress:
        result = align_files(
            frames,
            output,
            model=model,
            reference=None if reference is None else reference - 1,
            match_brightness=not no_brightness,
            crop=not keep_size,
            skip_bad=skip_bad,
            overwrite=overwrite,
            max_pixels=max_pixels,
            progress=progress,
            notice=print_notice,
        )
    if as_json:
        print_json({"folder": output, **result.description})
        return
    alignment, count = result.alignment, len(result.files)
    if not alignment.measured:
        print_result(f"{output}: {count} frames, not aligned")
    elif alignment.registered:
        print_result(f"{output}: {count} frames are registered already (no motion could be measured)")
    else:
        print_result(f"{output}: {count} frames aligned ({alignment.model}, reference {alignment.reference + 1})")
    print_details({"confidence": " ".join(f"{float(value):.2f}" for value in alignment.confidences)})
