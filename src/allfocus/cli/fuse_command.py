"""``allfocus fuse``: one stack -> one picture."""

import time
from pathlib import Path
from typing import Any

import click

from allfocus.cli.printing import device_option, json_option, overwrite_option, print_json, print_notice, progress_bar

ENDINGS = {".jpg": ".jpg", ".jpeg": ".jpg", ".tif": ".tif", ".tiff": ".tif"}
"""Ending of the default output by that of the first frame; anything else becomes PNG."""


@click.command(short_help="Fuse a stack into one sharp picture.")
@click.argument("frames", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write (.png .tif .jpg .webp).")
@click.option("--method", default="ips", show_default=True, help="How to fuse; see allfocus methods.")
@click.option("--align/--no-align", default=True, show_default=True, help="Bring moved frames onto one grid.")
@click.option("--prefer", type=click.Choice(["near", "far"]), help="Which end of the stack wins where frames conflict.")
@click.option(
    "--skip-bad", is_flag=True, help="Leave out frames that are damaged or do not belong, instead of stopping."
)
@click.option("--depth-map", type=click.Path(path_type=Path), help="Also write the depth: 16-bit grey, near is black.")
@click.option(
    "--decision-map",
    type=click.Path(path_type=Path),
    help="Also write which frame each pixel came from: the first black, the last white.",
)
@click.option("--bit-depth", type=click.Choice(["8", "16"]), help="Bits per channel of the result; else as the frames.")
@click.option("--quality", type=click.IntRange(1, 100), default=95, show_default=True, help="Of JPEG and WebP.")
@click.option("--max-pixels", type=int, help="Refuse frames with more pixels than this.")
@click.option("--dry-run", is_flag=True, help="Only check the frames and the output, and say what would be done.")
@device_option
@overwrite_option
@json_option
def fuse(frames: tuple[Path, ...], output: Path | None, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Fuse FRAMES (files, a folder, or one multi-page TIFF) into one picture that is sharp everywhere.

    Without -o the result lies beside the frames: DSC1.tif ... gives allfocus_DSC1.tif, a folder gives
    allfocus_FOLDER.png next to the folder.
    """
    target = output or default_output(frames[0])
    if dry_run:
        _plan(frames, target, as_json=as_json, **options)
        return
    import allfocus

    started = time.perf_counter()
    if options["max_pixels"] is None:
        del options["max_pixels"]
    options["bit_depth"] = int(options["bit_depth"]) if options["bit_depth"] else None
    with progress_bar() as progress:
        result = allfocus.fuse_files(frames, target, progress=progress, **options)
    for sentence in result.notices:
        print_notice(sentence)
    seconds = time.perf_counter() - started
    height, width = result.image.shape[:2]
    if not as_json:
        click.echo(f"{target}: {width}x{height}, {len(result.frames)} frames, {options['method']}, {seconds:.1f} s")
        return
    alignment = result.alignment
    print_json(
        {
            "output": target,
            "method": options["method"],
            "width": width,
            "height": height,
            "frames": result.frames,
            "left_out": result.left_out,
            "aligned": alignment is not None and not alignment.registered,
            "model": alignment.model if alignment is not None else None,
            "confidences": [round(float(value), 4) for value in alignment.confidences] if alignment is not None else [],
            "decision_map": options["decision_map"],
            "depth_map": options["depth_map"],
            "seconds": round(seconds, 3),
            "seconds_by_step": result.seconds,
            "notices": result.notices,
        }
    )


def _plan(frames: tuple[Path, ...], target: Path, *, as_json: bool, **options: Any) -> None:
    """Checks what can be checked from the headers and says what would be fused."""
    from allfocus.fusion.methods import require_method
    from allfocus.images.reading import MAX_PIXELS, open_stack
    from allfocus.images.writing import check_output

    maps = options["decision_map"] is not None or options["depth_map"] is not None
    require_method(options["method"], device=options["device"], prefer=options["prefer"], maps=maps)
    limit = MAX_PIXELS if options["max_pixels"] is None else options["max_pixels"]
    leave_out = (lambda name, error: print_notice(f"left out {name}: {error}")) if options["skip_bad"] else None
    reader = open_stack(frames, max_pixels=limit, on_bad_frame=leave_out)
    depth = int(options["bit_depth"]) if options["bit_depth"] else None
    check_output(target, overwrite=options["overwrite"], bit_depth=depth, quality=options["quality"])
    height, width = reader.size
    if as_json:
        print_json(
            {"output": target, "frames": reader.names, "width": width, "height": height, "bit_depth": reader.bit_depth}
        )
        return
    for name in reader.names:
        click.echo(name)
    click.echo(f"{reader.count} frames of {width}x{height}, {reader.bit_depth} bits -> {target} ({options['method']})")


def default_output(first: Path) -> Path:
    """Where the result goes when the user did not say.

    The name begins with ``allfocus_`` so that a pattern like ``DSC*.tif`` does not take the result for a frame the next
    time, and the result of a folder lies beside the folder for the same reason.

    Example:
        >>> default_output(Path("shots/DSC1.tif")).as_posix()
        'shots/allfocus_DSC1.tif'
    """
    if first.is_dir():
        folder = first.resolve()
        return folder.parent / f"allfocus_{folder.name}.png"
    return first.with_name(f"allfocus_{first.stem}{ENDINGS.get(first.suffix.lower(), '.png')}")
