"""How far estimated transforms are from the truth of rendered stacks, in pixels at the corners.

Each stack has 10 frames with 3 % of focus breathing from end to end, shifts of up to 15 pixels, rotations of about half
a degree and exposures that differ by 5 %. Run: ``python benchmarks/alignment_accuracy.py [--size 3000x2000]``.
"""

import argparse
import resource
import time

import numpy as np

from allfocus.alignment.stack_alignment import estimate_stack
from allfocus.alignment.transforms import corners, move_points
from allfocus.scenes.catalogue import SCENES
from allfocus.scenes.rendering import render_scene

LIMIT = 0.25
"""Pixels; the median over frames and corners must stay below."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="3000x2000", help="width x height")
    parser.add_argument("--frames", type=int, default=10)
    parser.add_argument("--noise", type=float, default=0.0, help="standard deviation at mid-grey, 0..1")
    parser.add_argument("--scene", action="append", help="a scene of the catalogue; all of them by default")
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    print("| scene | model | median px | largest px | largest gain error | least confidence | s | peak MB |")
    print("|---|---|---|---|---|---|---|---|")
    failed = [name for name in options.scene or SCENES if not _measure(name, (height, width), options)]
    if failed:
        raise SystemExit(f"above {LIMIT} px: {', '.join(failed)}")


def _measure(name: str, size: tuple[int, int], options: argparse.Namespace) -> bool:
    scene = render_scene(
        name,
        frames=options.frames,
        size=size,
        breathing=0.03 / (options.frames - 1),
        shake=15.0 * size[1] / 3000,
        exposure=float(np.log2(1.05)),
        noise=options.noise,
    )
    began = time.perf_counter()
    alignment = estimate_stack(lambda index: scene.frames[index], len(scene.frames))
    seconds = time.perf_counter() - began
    to_reference = np.linalg.inv(scene.transforms[alignment.reference])
    points = corners(size)
    errors = [
        np.hypot(*(move_points(found, points) - move_points(to_reference @ true, points)).T)
        for index, (found, true) in enumerate(zip(alignment.transforms, scene.transforms, strict=True))
        if index != alignment.reference
    ]
    gains = [
        abs(gain * light / scene.exposures[alignment.reference] - 1)
        for light, gains in zip(scene.exposures, alignment.brightness, strict=True)
        for gain in gains
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"| {name} | {alignment.model} | {np.median(errors):.3f} | {np.max(errors):.3f} | {max(gains):.3f} "
        f"| {min(alignment.confidences):.2f} | {seconds:.1f} | {peak} |",
        flush=True,
    )
    return bool(np.median(errors) <= LIMIT)


if __name__ == "__main__":
    main()
