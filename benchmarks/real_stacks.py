"""Real stacks, which have no truth: fused pictures to look at, and detail that some frame shows and the result lacks.

Run: python benchmarks/real_stacks.py STACKS OUT [--method ips ...] [--only NAME ...] [--skip 'expected*' ...]
Every folder below STACKS that holds pictures is a stack, and so is a multi-page TIFF in it. Each is fused with default
options through `fuse_files` into OUT/NAME/METHOD.png, with METHOD_decision.png beside it where the method decides.
Prints for bands 0 (finest) to 4 of a Laplacian pyramid which share of the detailed pixels lost more than 30 % (band 0)
or half (the others) of the strength that the best of the aligned frames has there, in percent. Where a halo has
strength too nothing counts as lost, and rings of transparent things out of focus count although nobody misses them:
look at the pictures as well.
"""

import argparse
import fnmatch
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from method_names import check_method
from numpy.typing import NDArray

import allfocus
from allfocus.alignment.placement import common_window
from allfocus.batch.stacks import Stack, find_stacks
from allfocus.errors import AllfocusError
from allfocus.fusion.frame_checks import grey_levels
from allfocus.fusion.method_choice import require_method
from allfocus.images.stack_opening import open_stack
from allfocus.images.stack_reader import StackReader
from allfocus.stack.frames import PlacedFrames
from allfocus.stack.notes import RunNotes
from allfocus.stack.result import StackFusion

Plane = NDArray[np.float32]

BANDS = 5
NEIGHBOURHOOD = 3.0
"""Standard deviation, in pixels of the band, of the Gaussian over which strength is averaged."""
KEPT = (0.7, 0.5, 0.5, 0.5, 0.5)
"""Share of the best frame's strength below which a pixel of each band counts as lost."""
FAINTEST = 2.0
"""Strength in levels of 255 below which nothing counts as detail; three times that in band 0, which holds the noise."""
RIM = 0.03
"""Share of the short side that is left out all round: aligned frames end in a rim of their own."""


def band_strengths(picture: Plane) -> list[Plane]:
    """The local strength (root mean square) of each band of a grey picture in levels, finest first."""
    strengths = []
    for _ in range(BANDS):
        coarse = np.asarray(cv2.pyrDown(picture), np.float32)
        detail = picture - np.asarray(cv2.pyrUp(coarse, dstsize=(picture.shape[1], picture.shape[0])), np.float32)
        strengths.append(np.sqrt(cv2.GaussianBlur(np.square(detail), (0, 0), NEIGHBOURHOOD)))
        picture = coarse
    return strengths


def aligned_frames(reader: StackReader, fusion: StackFusion) -> Iterator[Plane]:
    """The grey frames that were fused, on the grid and in the crop of the result, one at a time."""
    kept = [index for index, name in enumerate(reader.names) if name not in fusion.left_out]
    for pixels, _ in PlacedFrames(reader, kept, fusion.alignment, RunNotes(), area=common_window(fusion.alignment)):
        yield grey_levels(pixels)


def lost_detail(frames: Iterator[Plane], fused: Plane, white: float) -> list[float]:
    """Percent of the detailed pixels that lost their detail, band by band.

    Args:
        frames: Grey, aligned with the result.
        fused: The grey result.
        white: Value that stands for level 255.
    """
    best: list[Plane] = []
    for frame in frames:
        own = band_strengths(frame * np.float32(255 / white))
        best = [np.maximum(one, other) for one, other in zip(best, own, strict=True)] if best else own
    shares = []
    for band, (strongest, found) in enumerate(zip(best, band_strengths(fused * np.float32(255 / white)), strict=True)):
        floor = max(3 * FAINTEST, 3 * float(np.median(strongest))) if band == 0 else FAINTEST
        rim = max(4, int(RIM * min(strongest.shape)))
        inside = np.s_[rim:-rim, rim:-rim]
        detailed = strongest[inside] > floor
        lost = detailed & (found[inside] < KEPT[band] * strongest[inside])
        shares.append(100 * float(lost.sum()) / max(1, int(detailed.sum())))
    return shares


def measure(stack: Stack, output: Path, method: str) -> str:
    folder = output / stack.name
    folder.mkdir(parents=True, exist_ok=True)
    decides = require_method(method).decides
    name = Path(method).stem
    fusion = allfocus.fuse_files(
        list(stack.frames),
        folder / f"{name}.png",
        method=method,
        decision_map=folder / f"{name}_decision.png" if decides else None,
        overwrite=True,
    )
    reader = open_stack(list(stack.frames))
    fused = grey_levels(reader.value_range.to_unit(fusion.image))
    # Deep stacks are often stored dark, and have detail all the same.
    white = max(1e-6, float(np.percentile(fused, 99.9))) if reader.bit_depth > 8 else 1.0
    shares = lost_detail(aligned_frames(reader, fusion), fused, white)
    cells = " | ".join(f"{share:.2f}" for share in shares)
    return f"{len(fusion.frames)} | {fused.shape[1]}x{fused.shape[0]} | {cells} | {sum(fusion.seconds.values()):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stacks", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--method", action="append", type=check_method, help="repeat it; ips by default")
    parser.add_argument("--only", action="append", help="name of a stack; repeat it; all by default")
    parser.add_argument(
        "--skip", action="append", default=["expected*", "reference*"], help="pictures that are no frames"
    )
    arguments = parser.parse_args()
    print("| stack | method | frames | size | band 0 | 1 | 2 | 3 | 4 | s |\n|---|---|---|---|---|---|---|---|---|---|")
    for found in find_stacks(arguments.stacks, skip=arguments.output):
        if arguments.only and found.name not in arguments.only:
            continue
        frames = [path for path in found.frames if not any(fnmatch.fnmatch(path.name, no) for no in arguments.skip)]
        for method in arguments.method or ["ips"]:
            try:
                cells = measure(replace(found, frames=tuple(frames)), arguments.output, method)
            except AllfocusError as error:
                cells = f"error: {error} | | | | | | |"
            print(f"| {found.name} | `{method}` | {cells} |", flush=True)


if __name__ == "__main__":
    main()
