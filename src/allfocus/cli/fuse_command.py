"""``allfocus fuse``: one stack -> one picture."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from allfocus.cli.interruption import ending_at_once
from allfocus.cli.printing import (
    device_option,
    echo,
    json_option,
    overwrite_option,
    print_json,
    print_notice,
    progress_bar,
)

if TYPE_CHECKING:
    from allfocus.stack.pipeline import StackFusion

Function = TypeVar("Function", bound=Callable[..., Any])


def _read_slabs(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Two numbers from ``SIZE,OVERLAP``; what they may be depends on the stack and is checked with it."""
    if value is None:
        return None
    size, _, overlap = value.partition(",")
    if not (size.strip().isdecimal() and overlap.strip().isdecimal()):
        raise click.BadParameter(f"{value!r} is not SIZE,OVERLAP, for example 10,3")
    return int(size), int(overlap)


def _read_compression(context: click.Context, parameter: click.Parameter, value: str | None) -> str | int | None:
    """A level as a number; which names and levels there are depends on the format and is checked with it."""
    return int(value) if value is not None and value.isdecimal() else value


def _file_option(name: str, description: str) -> Callable[[Function], Function]:
    return click.option(name, type=click.Path(path_type=Path), help=description)


@click.command(short_help="Fuse a stack into one sharp picture.")
@click.argument("frames", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write (.png .tif .jpg .webp).")
@click.option(
    "--method",
    default="ips",
    show_default=True,
    help="How to fuse (see allfocus methods), or the .onnx file of a network of your own.",
)
@click.option("--align/--no-align", default=True, show_default=True, help="Bring moved frames onto one grid.")
@click.option(
    "--crop/--keep-size", default=True, help="Cut moved frames to what all of them show, or keep the size. [crop]"
)
@click.option("--prefer", type=click.Choice(["near", "far"]), help="Which end of the stack wins where frames conflict.")
@click.option(
    "--skip-bad", is_flag=True, help="Leave out frames that are damaged or do not belong, instead of stopping."
)
@click.option(
    "--linear-light/--no-linear-light", default=None, help="Mix frames as light adds up. [when their profile is known]"
)
@click.option("--unveil/--no-unveil", default=True, help="Take the veil of blurred near things off their ground. [on]")
@_file_option("--depth-map", "Also write the depth: 16-bit grey, near is black; and beside it a preview in colours.")
@_file_option("--confidence-map", "Also write how sure the depth is: a guess is black.")
@_file_option("--check-map", "Also write the result in grey with a warm colour where detail of some frame is lost.")
@_file_option("--veil-map", "Also write where a veil was taken off, and how opaque it was: none is black.")
@_file_option("--decision-map", "Also write which frame each pixel came from: the first black, the last white.")
@click.option(
    "--slab",
    "slabs",
    metavar="SIZE,OVERLAP",
    callback=_read_slabs,
    help="Also fuse every SIZE frames by themselves, for retouching.",
)
@_file_option("--report", "Also write a page about frames, alignment, decisions, depth and times (.html).")
@click.option("--bit-depth", type=click.Choice(["8", "16"]), help="Bits per channel of the result; else as the frames.")
@click.option("--quality", type=click.IntRange(1, 100), default=95, show_default=True, help="Of JPEG and WebP.")
@click.option(
    "--compression",
    metavar="NAME",
    callback=_read_compression,
    help="Of TIFF none, lzw, deflate or zstd; of PNG a level 0 to 9.",
)
@click.option("--max-pixels", type=int, help="Refuse frames with more pixels than this.")
@click.option("--dry-run", is_flag=True, help="Only check the frames and the outputs, and say what would be done.")
@device_option
@overwrite_option
@json_option
def fuse(frames: tuple[Path, ...], output: Path | None, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Fuse FRAMES (files, a folder, or one multi-page TIFF) into one picture that is sharp everywhere.

    Without -o the result lies beside the frames: DSC1.tif ... gives allfocus_DSC1.tif, a folder gives
    allfocus_FOLDER.png next to the folder.
    """
    target = output or default_output(frames[0])
    if options["max_pixels"] is None:
        del options["max_pixels"]
    options["bit_depth"] = int(options["bit_depth"]) if options["bit_depth"] else None
    if dry_run:
        _plan(frames, target, as_json=as_json, **options)
        return
    with ending_at_once():
        from allfocus.stack.pipeline import fuse_files

    started = time.perf_counter()
    with progress_bar() as progress:
        result = fuse_files(frames, target, progress=progress, **options)
    for sentence in result.notices:
        print_notice(sentence + _where_to_see(sentence, result))
    seconds = time.perf_counter() - started
    if as_json:
        print_json(_describe(result, seconds))
        return
    height, width = result.image.shape[:2]
    echo(f"{target}: {width}x{height}, {len(result.frames)} frames, {options['method']}, {seconds:.1f} s")
    for path in [*result.outputs.values(), *result.slabs]:
        if path != target:
            echo(path)


def _where_to_see(sentence: str, result: "StackFusion") -> str:
    """What is added to the warning about lost detail: the map that shows it, or how to get one."""
    if result.lost_detail is None or sentence != result.lost_detail.warning:
        return ""
    return f"; see {result.outputs.get('check_map', '--check-map')}"


def _describe(result: "StackFusion", seconds: float) -> dict[str, Any]:
    """What ``--json`` prints."""
    alignment = result.alignment
    height, width = result.image.shape[:2]
    names = ("decision_map", "depth_map", "depth_preview", "confidence_map", "check_map", "veil_map", "report")
    return {
        "output": result.outputs["picture"],
        "outputs": [*result.outputs.values(), *result.slabs],
        **{name: result.outputs.get(name) for name in names},
        "slabs": result.slabs,
        "method": result.settings["method"],
        "width": width,
        "height": height,
        "frames": result.frames,
        "left_out": result.left_out,
        "aligned": alignment is not None and not alignment.registered,
        "model": alignment.model if alignment is not None else None,
        "confidences": [round(float(value), 4) for value in alignment.confidences] if alignment is not None else [],
        "linear_light": result.settings["linear_light"],
        "transparent": result.covered is not None,
        "lost_detail": result.lost_detail.to_plain() if result.lost_detail is not None else None,
        "seconds": round(seconds, 3),
        "seconds_by_step": result.seconds,
        "notices": result.notices,
    }


def _plan(frames: tuple[Path, ...], target: Path, *, as_json: bool, **options: Any) -> None:
    """Checks what can be checked without the pixels and says what would be fused."""
    from allfocus.stack.plan import FuseOptions, plan_fusion

    left_out: dict[str, str] = {}

    def leave_out(name: str, error: Exception) -> None:
        left_out[name] = str(error)

    plan = plan_fusion(frames, target, FuseOptions(**options), on_bad_frame=leave_out)
    for name, reason in left_out.items():
        print_notice(f"left out {name}: {reason}")
    reader, outputs = plan.reader, plan.outputs(plan.reader.count)
    height, width = reader.size
    if as_json:
        print_json(
            {
                "output": target,
                "outputs": outputs,
                "frames": reader.names,
                "left_out": left_out,
                "width": width,
                "height": height,
                "bit_depth": reader.bit_depth,
            }
        )
        return
    for name in reader.names:
        echo(name)
    echo(f"{reader.count} frames of {width}x{height}, {reader.bit_depth} bits -> {target} ({options['method']})")
    for path in outputs[1:]:
        echo(path)


def default_output(first: Path) -> Path:
    """Where the result goes when the user did not say.

    The name begins with ``allfocus_`` so that a pattern like ``DSC*.tif`` does not take the result for a frame the next
    time, and the result of a folder lies beside the folder for the same reason.

    Example:
        >>> default_output(Path("shots/DSC1.tif")).as_posix()
        'shots/allfocus_DSC1.tif'
        >>> default_output(Path("cells.ome.tif")).as_posix()
        'allfocus_cells.tif'
    """
    from allfocus.images.writing import default_ending

    if os.path.isdir(first):  # Path.is_dir would raise for a name that is too long
        folder = first.resolve()
        return folder.parent / f"allfocus_{folder.name}.png"
    stem = first.stem.removesuffix(".ome")  # which would promise the metadata of OME
    return first.with_name(f"allfocus_{stem}{default_ending(first)}")
