"""``allfocus info``: what a file holds."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allfocus.cli.interruption import ending_at_once
from allfocus.cli.printing import echo, json_option, print_json

if TYPE_CHECKING:
    from allfocus.images.dimensions import Dimensions, ObjectiveLens

MICROMETRE = "\N{MICRO SIGN}m"
MOST_NAMES = 12
"""Positions that are named in a line."""


@click.command(short_help="Show what a file of a microscope holds.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def info(files: tuple[Path, ...], as_json: bool) -> None:
    """Show what FILES hold (a TIFF, an OME-Zarr, a folder, or several files): positions, times, channels and planes.

    With the size of a pixel and the step between planes, as far as the file says them. No pixel is read.
    """
    with ending_at_once():
        from allfocus.images.stack_file import open_stack_file

    found = open_stack_file(files)
    if as_json:
        positions = [held.to_plain() for held in found.positions]
        print_json({"file": found.path, "kind": found.kind, "positions": positions})
        return
    echo(f"{found.path}: {found.kind}")
    names = [held.name for held in found.positions]
    if len(names) > 1:
        echo(f"positions: {len(names)} ({', '.join(names[:MOST_NAMES])}{' ...' if len(names) > MOST_NAMES else ''})")
    described = [describe_lines(held) for held in found.positions]
    if all(lines == described[0] for lines in described):
        described, names = described[:1], [""]
    for name, lines in zip(names, described, strict=False):
        if name and len(described) > 1:
            echo(f"position {name}:")
        for line in lines:
            echo(line)


def describe_lines(held: "Dimensions") -> list[str]:
    """What one position holds, in lines for people."""
    height, width = held.size
    colour = ", colour" if held.samples == 3 else ""
    size = held.pixel_size
    pixel = (
        "size of a pixel not said" if size is None else f"{_number(size[1])} x {_number(size[0])} \N{MICRO SIGN}m each"
    )
    lines = [
        f"pixels: {width} x {height}, {held.dtype}{colour}, {pixel}",
        f"planes: {held.planes}{_steps(held)}",
        f"times: {held.times}" + (f", {_number(held.time_step)} s apart" if held.time_step else ""),
        f"channels: {len(held.channels)}",
    ]
    for number, channel in enumerate(held.channels, start=1):
        light = f"{_number(channel.emission)} nm" if channel.emission else ""
        own = channel.name if channel.name != str(number) else ""
        words = [word for word in (own, channel.fluor if channel.fluor != own else "", channel.colour, light) if word]
        if words:
            lines.append(f"  {number}: {', '.join(words)}")
    if held.acquired:
        lines.append(f"recorded: {held.acquired}")
    if held.objective is not None:
        lines.append(f"objective: {_lens(held.objective)}")
    return lines


def _steps(held: "Dimensions") -> str:
    if held.z_step is None:
        return ""
    text = f", {_number(held.z_step)} {MICROMETRE} apart"
    return text if held.z_range is None else f"{text} ({_number(held.z_range[0])} to {_number(held.z_range[1])})"


def _lens(lens: "ObjectiveLens") -> str:
    power = "" if lens.magnification is None else f"{_number(lens.magnification)}x"
    power += f"/{_number(lens.aperture)}" if lens.aperture else ""
    return " ".join(part for part in (lens.manufacturer, lens.model, power, lens.immersion) if part)


def _number(value: float) -> str:
    return f"{float(value):.6g}"
