"""``allfocus fuse``: one stack -> one picture."""

import time
from pathlib import Path

import click

from allfocus.cli.printing import device_option, json_option, overwrite_option, print_json, print_notice, progress_bar

ENDINGS = {".jpg": ".jpg", ".jpeg": ".jpg", ".tif": ".tif", ".tiff": ".tif"}
"""Ending of the default output by that of the first frame; anything else becomes PNG."""


@click.command(short_help="Fuse a stack into one sharp picture.")
@click.argument("frames", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write (.png .tif .jpg .webp).")
@click.option("--method", default="ips", show_default=True, help="How to fuse; see allfocus methods.")
@click.option(
    "--decision-map",
    type=click.Path(path_type=Path),
    help="Also write which frame each pixel came from: the first black, the last white.",
)
@device_option
@overwrite_option
@json_option
def fuse(
    frames: tuple[Path, ...],
    output: Path | None,
    method: str,
    decision_map: Path | None,
    device: str,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Fuse FRAMES (files, a folder, or one multi-page TIFF) into one picture that is sharp everywhere.

    Without -o the result lies beside the frames: DSC1.tif ... gives allfocus_DSC1.tif, a folder gives
    allfocus_FOLDER.png next to the folder.
    """
    import allfocus

    started = time.perf_counter()
    target = output or default_output(frames[0])
    notices: list[str] = []
    with progress_bar() as progress:
        result = allfocus.fuse_files(
            frames,
            target,
            method=method,
            overwrite=overwrite,
            decision_map=decision_map,
            device=device,
            progress=progress,
            notice=notices.append,
        )
    for sentence in notices:
        print_notice(sentence)
    seconds = time.perf_counter() - started
    height, width = result.image.shape[:2]
    if as_json:
        content = {"output": target, "method": method, "width": width, "height": height, "seconds": round(seconds, 3)}
        print_json({**content, "decision_map": decision_map, "notices": notices})
    else:
        click.echo(f"{target}: {width}x{height}, {method}, {seconds:.1f} s")


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
