"""How the cost of ``allfocus fuse`` grows: with the size of the pictures, and with the number of frames.

The stacks are one rendered scene repeated side by side, so that their content is the same at every size.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from allfocus.benchmarking.plots import arrange_panels, growth_panel
from allfocus.benchmarking.processes import measure_commands
from allfocus.benchmarking.result_file import kept_result, save_result
from allfocus.benchmarking.tools import own_command
from allfocus.evaluation.provenance import describe_origin
from allfocus.images.image import Image
from allfocus.images.writing import write_image
from allfocus.progress import StepProgress
from allfocus.scenes.rendering import render_scene

TILE = (1000, 1000)
"""Height and width of the scene that is repeated: one megapixel."""
SIDES = (1, 2, 4, 7, 10)
"""Repetitions along each side when the size grows: 1, 4, 16, 49 and 100 megapixels."""
FRAMES_OF_SIZES = 4
"""Frames of each stack when the size grows."""
LENGTHS = (4, 8, 16, 32, 64)
"""Frames when the number of frames grows."""
SIDE_OF_LENGTHS = 2
"""Repetitions along each side when the number of frames grows: 4 megapixels."""


@dataclass(frozen=True)
class ScalingPoint:
    """The cost of one stack."""

    megapixels: float
    """Of one frame."""
    frames: int
    """How many."""
    cpu_seconds: float
    """User and system time."""
    wall_seconds: float
    """From start to end."""
    peak_megabytes: float
    """Resident memory."""


@dataclass
class ScalingResult:
    """How the cost grows."""

    origin: dict[str, Any]
    """Commit, versions and machine."""
    by_size: list[ScalingPoint] = field(default_factory=list)
    """Growing pictures."""
    by_length: list[ScalingPoint] = field(default_factory=list)
    """Growing number of frames."""
    finished: bool = False
    """False when the run was interrupted."""

    def as_json(self) -> dict[str, Any]:
        """Return everything as a dictionary that JSON can hold, with the exponents of growth."""
        return dataclasses.asdict(self) | {"growth": self.growth()}

    def growth(self) -> dict[str, float]:
        """Return exponents of growth over the larger half of the points: 1 is proportional, 0 does not grow.

        Loading Python and the network costs a second whatever the stack, which is why small stacks are left out.
        """
        sizes = [(point.megapixels, point.cpu_seconds) for point in self.by_size]
        lengths = [(float(point.frames), point.cpu_seconds) for point in self.by_length]
        memory = [(float(point.frames), point.peak_megabytes) for point in self.by_length]
        found = {"cpu_by_pixels": sizes, "cpu_by_frames": lengths, "memory_by_frames": memory}
        return {name: round(exponent(points), 3) for name, points in found.items() if len(points) > 1}

    def as_svg(self) -> str:
        """Return the plots of both, with the line of proportional cost or constant memory dashed."""
        panels = []
        if len(self.by_size) > 1:
            seconds = [(point.megapixels, point.cpu_seconds) for point in self.by_size]
            memory = [(point.megapixels, point.peak_megabytes) for point in self.by_size]
            count = self.by_size[0].frames
            panels += [
                growth_panel(f"{count} frames", "megapixels a frame", "CPU seconds", seconds, proportional=True),
                growth_panel(f"{count} frames", "megapixels a frame", "peak MB", memory, proportional=True),
            ]
        if len(self.by_length) > 1:
            seconds = [(float(point.frames), point.cpu_seconds) for point in self.by_length]
            memory = [(float(point.frames), point.peak_megabytes) for point in self.by_length]
            title = f"{self.by_length[0].megapixels:g} megapixels a frame"
            panels += [
                growth_panel(title, "frames", "CPU seconds", seconds, proportional=True),
                growth_panel(title, "frames", "peak MB", memory, proportional=False),
            ]
        return arrange_panels(panels, "Cost of fusing as stacks grow")


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the logarithms over the larger half of the points.

    Example:
        >>> round(exponent([(1, 5), (2, 6), (4, 12), (8, 24)]), 3)
        1.0
    """
    larger = sorted(points)[(len(points) - 1) // 2 :]
    (first_x, first_y), (last_x, last_y) = larger[0], larger[-1]
    return math.log(last_y / first_y) / math.log(last_x / first_x)


def run_scaling(
    *,
    cache: Path,
    output: Path,
    sides: Sequence[int] = SIDES,
    lengths: Sequence[int] = LENGTHS,
    tile: tuple[int, int] = TILE,
    progress: StepProgress | None = None,
    notice: Callable[[str], None] | None = None,
) -> ScalingResult:
    """Return the cost of fusing stacks of growing size and of growing length, and write it down after every run.

    Args:
        cache: Folder for the stacks; they are deleted after use, the largest takes about 1 GB.
        output: The JSON file to write; replaced.
        sides: Repetitions of the tile along each side when the size grows.
        lengths: Numbers of frames when the length grows.
        tile: Height and width of the scene that is repeated.
        progress: Called with "size" or "length", how many stacks are done, and how many there are.
        notice: Called with a sentence about what goes on.
    """
    result = ScalingResult(describe_origin())
    tell = progress or (lambda step, done, count: None)
    with kept_result(result, output, notice):
        for done, side in enumerate(sides):
            tell("size", done, len(sides))
            result.by_size.append(_measure(cache, FRAMES_OF_SIZES, side, tile))
            save_result(result, output)
        tell("size", len(sides), len(sides))
        for done, length in enumerate(lengths):
            tell("length", done, len(lengths))
            result.by_length.append(_measure(cache, length, SIDE_OF_LENGTHS, tile))
            save_result(result, output)
        tell("length", len(lengths), len(lengths))
    return result


def _measure(cache: Path, frames: int, side: int, tile: tuple[int, int]) -> ScalingPoint:
    import tempfile

    cache.mkdir(parents=True, exist_ok=True)
    scene = render_scene("desk", frames=frames, size=tile)
    with tempfile.TemporaryDirectory(prefix="scaling-", dir=cache) as place:
        folder = Path(place) / "frames"
        folder.mkdir()
        for number, frame in enumerate(scene.frames):
            picture = np.tile(frame, (side, side, 1))
            write_image(Image(picture, bit_depth=8), folder / f"frame_{number:03d}.png")
            del picture
        command = [*own_command(), "fuse", str(folder), "--no-align", "-o", str(Path(place) / "fused.tif")]
        cost = measure_commands([command], folder=Path(place))
    megapixels = tile[0] * tile[1] * side**2 / 1e6
    return ScalingPoint(
        megapixels, frames, round(cost.cpu_seconds, 3), round(cost.wall_seconds, 3), round(cost.peak_megabytes, 1)
    )
