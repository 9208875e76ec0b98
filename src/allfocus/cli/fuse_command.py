"""``allfocus fuse``: one stack -> one picture."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allfocus.cli.after import after_option, run_after_one
from allfocus.cli.examples import examples
from allfocus.cli.fusion_options import fusion_options, output_options, preset_option
from allfocus.cli.interruption import ending_at_once
from allfocus.cli.paths import PATH
from allfocus.cli.printing import (
    echo,
    json_option,
    print_details,
    print_json,
    print_notice,
    print_result,
    progress_bar,
    verbosity_options,
)
from allfocus.stack.command_words import option_flags
from allfocus.stack.option_fields import FUSE
from allfocus.stack.options import FuseOptions, offered
from allfocus.stack.outputs import MAPS, FuseOutputs

if TYPE_CHECKING:
    from allfocus.stack.result import StackFusion


@click.command(
    short_help="Fuse a stack into one sharp picture.",
    epilog=examples(
        "allfocus fuse DSC*.tif -o sharp.tif",
        "allfocus fuse FOLDER -o sharp.jpg --preset macro --report report.html",
        "allfocus fuse FOLDER -o sharp.tif --depth-map depth.tif --z-step 2.5um",
        "allfocus fuse DSC*.NEF -o sharp.dng",
        "allfocus fuse cells.ome.tif -o fused.ome.tif --position 2 --time all",
    ),
)
@click.argument("frames", nargs=-1, required=True, type=PATH)
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="The file to write (.png .tif .jpg .webp .heic .dng .ome.tif .ome.zarr).",
)
@preset_option
@fusion_options(FUSE)
@output_options
@click.option(
    "--weights",
    type=PATH,
    help="The file of weights for a method that takes them from outside; the same as --method NAME@FILE.",
)
@click.option("--dry-run", is_flag=True, help="Only check the frames and the outputs, and say what would be done.")
@after_option
@verbosity_options
@json_option
def fuse(
    frames: tuple[Path, ...],
    output: Path | None,
    weights: Path | None,
    dry_run: bool,
    after: str | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Fuse FRAMES (files, a folder, one multi-page TIFF, an OME-Zarr, or a video of a sweep) into one sharp picture.

    Without -o the result lies beside the frames: DSC1.tif ... gives allfocus_DSC1.tif, a folder gives
    allfocus_FOLDER.png next to the folder. What a file of a microscope holds, `allfocus info` shows.
    """
    if weights is not None:
        values["method"] = f"{values['method']}@{weights}"
    options = FuseOptions(**{name: values.pop(name) for name in offered(FUSE)})
    outputs = FuseOutputs(output or default_output(frames[0]), **values)
    if dry_run:
        _plan(frames, outputs, options, as_json=as_json)
        return
    with ending_at_once():
        from allfocus.stack.pipeline import fuse_files

    def tell(sentence: str) -> None:
        see = getattr(sentence, "see", "")  # the output that shows more
        print_notice(f"{sentence}; see {getattr(outputs, see) or option_flags(see)[0]}" if see else sentence)

    started = time.perf_counter()
    with progress_bar() as progress:
        result = fuse_files(frames, outputs, options, progress=progress, notice=tell)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(_describe(result, seconds))
    else:
        _print_summary(result, seconds)
    if after is not None:
        run_after_one(after, result)


def _print_summary(result: "StackFusion", seconds: float) -> None:
    picture = result.outputs["picture"]
    height, width = result.image.shape[:2]
    channels = f", {result.image.shape[2]} channels" if result.shown is not None and result.image.ndim == 3 else ""
    series = f", {len(result.series)} stacks" if len(result.series) > 1 else ""
    told = f"{width}x{height}{channels}, {len(result.frames)} frames{series}"
    print_result(f"{picture}: {told}, {result.settings['method']}, {seconds:.1f} s")
    for path in [*result.outputs.values(), *result.slabs]:
        if path != picture:
            print_result(path)
    print_details(_details(result))


def _details(result: "StackFusion") -> dict[str, object]:
    """What ``--verbose`` adds."""
    from allfocus.fusion.inference import choose_device
    from allfocus.fusion.method_choice import find_method
    from allfocus.machine import processor_count

    alignment, settings = result.alignment, result.settings
    runs_network = find_method(str(settings["method"])).abilities.devices
    confidences = [] if alignment is None else [f"{float(value):.2f}" for value in alignment.confidences]
    return {
        "frames": f"{result.frames[0]} ... {result.frames[-1]}",
        "bits": result.bit_depth,
        "alignment": "off" if alignment is None else f"{alignment.model}, onto frame {alignment.reference + 1}",
        "confidence": " ".join(confidences),
        "light": "linear" if settings["linear_light"] else "as stored",
        "device": choose_device(str(settings["device"])) if runs_network else "",
        "cores": settings["threads"] or processor_count(),
        "seconds": ", ".join(f"{step} {value:.2f}" for step, value in result.seconds.items()),
    }


def _describe(result: "StackFusion", seconds: float) -> dict[str, Any]:
    """What ``--json`` prints."""
    from allfocus.fusion.faults import find_faults

    alignment = result.alignment
    height, width = result.image.shape[:2]
    return {
        "output": result.outputs["picture"],
        "outputs": [*result.outputs.values(), *result.slabs],
        **{name: result.outputs.get(name) for name in (*MAPS, "depth_preview")},
        "slabs": result.slabs,
        "method": result.settings["method"],
        "width": width,
        "height": height,
        "frames": result.frames,
        "dimensions": None if result.dimensions is None else result.dimensions.to_plain(),
        "series": result.series,
        "left_out": result.left_out,
        "aligned": alignment is not None and not alignment.registered,
        "model": alignment.model if alignment is not None else None,
        "confidences": [round(float(value), 4) for value in alignment.confidences] if alignment is not None else [],
        "linear_light": result.settings["linear_light"],
        "transparent": result.covered is not None,
        "lost_detail": result.lost_detail.to_plain() if result.lost_detail is not None else None,
        "faults": [fault.to_plain() for fault in find_faults(result)],
        "seconds": round(seconds, 3),
        "seconds_by_step": result.seconds,
        "notices": result.notices,
    }


def _plan(frames: tuple[Path, ...], outputs: FuseOutputs, options: FuseOptions, *, as_json: bool) -> None:
    """Checks what can be checked without the pixels and says what would be fused."""
    from allfocus.stack.notes import RunNotes
    from allfocus.stack.plan import plan_stack

    notes = RunNotes(notice=print_notice)
    plan = plan_stack(frames, outputs, options, on_bad_frame=notes.leave_out)
    reader, files = plan.reader, plan.files(plan.reader.count)
    for sentence in reader.notices:
        notes.say(sentence)
    height, width = reader.size
    if as_json:
        print_json(
            {
                "output": outputs.picture,
                "outputs": files,
                "frames": reader.names,
                "left_out": notes.left_out,
                "width": width,
                "height": height,
                "bit_depth": reader.bit_depth,
                "dimensions": None if plan.selection is None else plan.selection.first.to_plain(),
            }
        )
        return
    for name in reader.names:
        echo(name)
    if plan.selection is not None and not plan.selection.is_one:
        channels = ", ".join(channel.name for channel in plan.selection.first.channels)
        echo(f"the same for each of {len(plan.selection.places)} stacks; channels: {channels}")
    echo(f"{reader.count} frames of {width}x{height}, {reader.bit_depth} bits -> {outputs.picture} ({options.method})")
    for path in files[1:]:
        echo(path)


def default_output(first: Path) -> Path:
    """Where the result goes when the user did not say.

    The name begins with ``allfocus_`` so that a pattern like ``DSC*.tif`` does not take the result for a frame the next
    time, and the result of a folder lies beside the folder for the same reason.

    Example:
        >>> default_output(Path("shots/DSC1.tif")).as_posix()
        'shots/allfocus_DSC1.tif'
        >>> default_output(Path("cells.ome.tif")).as_posix()
        'allfocus_cells.ome.tif'
    """
    from allfocus.images.listing import RESULT_PREFIX
    from allfocus.images.writing import default_ending

    name = first.name.lower()
    if name.endswith((".ome.tif", ".ome.tiff", ".zarr")):
        return first.with_name(f"{RESULT_PREFIX}{first.name}")
    if os.path.isdir(first):  # Path.is_dir would raise for a name that is too long
        folder = first.resolve()
        return folder.parent / f"{RESULT_PREFIX}{folder.name}.png"
    return first.with_name(f"{RESULT_PREFIX}{first.stem}{default_ending(first)}")
