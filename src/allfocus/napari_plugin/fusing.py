"""Planes of layers -> fused layers: what the widget does, without the widget.

The planes go through a file, as they go from Fiji: so they are read, aligned, decided together, measured and checked by
the same code as on the command line.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.progress import StepProgress
from allfocus.stack.options import FuseOptions
from allfocus.stack.pipeline import fuse_files
from allfocus.stack.result import StackFusion

KINDS = ("uint8", "uint16", "int16", "uint32", "int32", "float32")
"""Of samples that are fused as they are; 64-bit floating point is rounded to 32."""
LayerData = tuple[Any, dict[str, Any], str]


@dataclass(frozen=True)
class Planes:
    """The planes of a layer."""

    name: str
    pixels: NDArray[Any]
    """(planes, rows, columns), or (planes, rows, columns, 3) for colour."""
    step: float | None = None
    """How far planes are apart, in the unit; None where it is not known."""
    unit: str = ""
    """Of lengths."""
    look: dict[str, Any] | None = None
    """Properties of the layer that the fused one has too: scale, place and colours."""

    @property
    def is_colour(self) -> bool:
        """Whether it holds red, green and blue."""
        return self.pixels.ndim == 4


def fuse_planes_of_layers(
    channels: Sequence[Planes],
    *,
    decide_by: int | None = None,
    method: str = "ips",
    align: bool = True,
    depth: bool = True,
    filled: bool = False,
    progress: StepProgress | None = None,
    notice: Callable[[str], None] | None = None,
) -> list[LayerData]:
    """Returns a fused layer for each channel, and layers of depth, standard error and lost detail.

    Args:
        channels: Of one stack, all of one size; a colour layer stands alone.
        decide_by: The channel by which all are decided, from 0; None for all together.
        method: As ``allfocus methods`` lists it.
        align: Correct shift, rotation and focus breathing first.
        depth: Also measure it.
        filled: Close its holes.
        progress: Called as the work goes on; what it raises ends the work.
        notice: Called with a sentence about each thing that was found.

    Raises:
        InputError: the layers do not belong together or cannot be fused.
    """
    _check(channels)
    first = channels[0]
    with tempfile.TemporaryDirectory(prefix="allfocus-") as folder:
        source, result = Path(folder, "stack.ome.tif"), Path(folder, "fused.ome.tif")
        _write(channels, source)
        outputs: dict[str, Any] = {"depth_map": Path(folder, "depth.tif")} if depth else {}
        options = FuseOptions(
            method=method,
            align=align,
            crop=False,  # layers stay where they are
            decide_by="all" if decide_by is None or len(channels) == 1 else str(decide_by + 1),
        )
        fused = fuse_files(source, result, options, progress=progress, notice=notice, **outputs)
        planes = _read(result, len(channels))
    layers = [
        # A fused value lies between those of the planes, so the type of the layer holds it.
        (pixels.astype(own.pixels.dtype), {**(own.look or {}), "name": f"{own.name} fused"}, "image")
        for pixels, own in zip(planes, channels, strict=True)
    ]
    return [*layers, *_depth_layers(fused, first, filled), *_lost_layers(fused, first)]


def _check(channels: Sequence[Planes]) -> None:
    if not channels:
        raise InputError("no layer is chosen; tick one with planes")
    shapes = {own.pixels.shape for own in channels}
    if len(shapes) > 1:
        told = ", ".join(f"{own.name} {own.pixels.shape}" for own in channels)
        raise InputError(f"the layers differ in size: {told}; tick those of one stack", code="unequal-frames")
    if len(channels) > 1 and channels[0].is_colour:
        raise InputError("a layer in colours is a stack of its own; tick it alone")
    for own in channels:
        if own.pixels.ndim not in (3, 4) or len(own.pixels) < 2:
            raise InputError(f"{own.name} has no planes to fuse; it needs two or more")
        if own.pixels.dtype.name not in (*KINDS, "float64"):
            raise InputError(f"{own.name} holds {own.pixels.dtype}; there are {', '.join(KINDS)}")


def _write(channels: Sequence[Planes], path: Path) -> None:
    import tifffile

    kind = np.result_type(*(own.pixels.dtype for own in channels))
    kind = np.dtype(np.float32) if kind.name not in KINDS else kind
    names = [f"{number} {own.name}" for number, own in enumerate(channels, start=1)]  # layers may share a name
    if channels[0].is_colour:
        metadata: dict[str, Any] = {"axes": "ZYXS"}
        tifffile.imwrite(path, channels[0].pixels.astype(kind), ome=True, photometric="rgb", metadata=metadata)
        return
    pixels = np.stack([own.pixels.astype(kind, copy=False) for own in channels])
    metadata = {"axes": "CZYX", "Channel": {"Name": names}}
    tifffile.imwrite(path, pixels, ome=True, photometric="minisblack", metadata=metadata)


def _read(path: Path, channels: int) -> list[NDArray[Any]]:
    import tifffile

    pixels = tifffile.imread(path)
    return list(pixels) if channels > 1 else [pixels]


def _depth_layers(fused: StackFusion, first: Planes, filled: bool) -> list[LayerData]:
    measured = fused.measured_depth
    if measured is None:
        return []
    step, unit = (1.0, "step") if first.step is None else (first.step, first.unit)
    place = {name: value for name, value in (first.look or {}).items() if name in ("scale", "translate", "units")}
    steps = measured.filled if filled else measured.measured.position
    return [
        (steps * np.float32(step), {**place, "name": f"depth ({unit})", "colormap": "viridis"}, "image"),
        (
            measured.measured.standard_error * np.float32(step),
            {**place, "name": f"depth error ({unit})", "colormap": "magma", "visible": False},
            "image",
        ),
    ]


def _lost_layers(fused: StackFusion, first: Planes) -> list[LayerData]:
    """The result in grey with a warm colour where detail is lost, hidden; nothing where there is none worth showing."""
    if fused.lost_detail is None or not fused.lost_detail.is_worth_a_warning:
        return []
    from allfocus.fusion.lost_detail import paint_lost_detail

    shown = fused.image if fused.shown is None else fused.shown
    if fused.bit_depth == 32 and fused.shown is None:  # of any range
        low, high = float(np.min(shown)), float(np.max(shown))
        shown = (shown - low) / max(high - low, 1e-9)
    painted = paint_lost_detail(np.asarray(shown, np.float32), fused.lost_detail)
    place = {name: value for name, value in (first.look or {}).items() if name in ("scale", "translate", "units")}
    return [(painted, {**place, "name": "lost detail", "rgb": True, "visible": False}, "image")]
