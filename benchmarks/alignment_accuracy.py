"""How far estimated transforms are from the truth of rendered stacks, in pixels at the corners, and what that costs.

Each stack has 10 frames with 3 % of focus breathing from end to end, shifts of up to 15 pixels, rotations of about half
a degree and exposures that differ by 5 %. With ``--fuse`` the aligned stack is also fused, and compared with what the
same method makes of a stack that was rendered without any motion.
Run: ``python benchmarks/alignment_accuracy.py [--size 3000x2000] [--seed 1] [--fuse]``.
"""

import argparse
import resource
import time

import cv2
import numpy as np
from method_names import check_method
from numpy.typing import NDArray

from allfocus.alignment.brightness import apply_gains
from allfocus.alignment.stack_alignment import StackAlignment, estimate_stack
from allfocus.alignment.transforms import corners, move_points
from allfocus.fusion.stack_fusion import fuse
from allfocus.scenes.catalogue import SCENES
from allfocus.scenes.rendering import Scene, render_scene

LIMIT = 0.25
"""Pixels of a picture 3000 wide; the median over frames and corners must stay below."""

LOSS = 1.0
"""Decibels that alignment may cost against a stack that never moved."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="3000x2000", help="width x height")
    parser.add_argument("--frames", type=int, default=10)
    parser.add_argument("--seed", type=int, action="append", help="of content and motion; 0 by default")
    parser.add_argument("--noise", type=float, default=0.0, help="standard deviation at mid-grey, 0..1")
    parser.add_argument("--scene", action="append", help="a scene of the catalogue; all of them by default")
    parser.add_argument("--fuse", action="store_true", help="also fuse, and compare with a stack without motion")
    parser.add_argument("--method", type=check_method, default="ips", help="how to fuse")
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    more = " | registered dB | aligned dB | loss dB" if options.fuse else ""
    print(f"| scene | seed | model | median px | largest px | gain error | least confidence | CPU s | peak MB{more} |")
    print("|---|---|---|---|---|---|---|---|---|" + "---|---|---|" * options.fuse)
    failed = [
        f"{name} {seed}"
        for name in options.scene or SCENES
        for seed in options.seed or [0]
        if not _measure(name, seed, (height, width), options)
    ]
    if failed:
        raise SystemExit(f"above {LIMIT} px at 3000 pixels width, or more than {LOSS} dB lost: {', '.join(failed)}")


def _measure(name: str, seed: int, size: tuple[int, int], options: argparse.Namespace) -> bool:
    """Prints one row; whether it is good enough comes back."""
    scene = render_scene(
        name,
        frames=options.frames,
        size=size,
        breathing=0.03 / (options.frames - 1),
        shake=15.0 * size[1] / 3000,
        exposure=float(np.log2(1.05)),
        noise=options.noise,
        seed=seed,
    )
    began = time.process_time()
    alignment = estimate_stack(lambda index: scene.frames[index], len(scene.frames))
    seconds = time.process_time() - began
    errors = _corner_errors(alignment, scene)
    gains = [
        abs(gain * light / scene.exposures[alignment.reference] - 1)
        for light, gains in zip(scene.exposures, alignment.brightness, strict=True)
        for gain in gains
    ]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    row = (
        f"| {name} | {seed} | {alignment.model} | {np.median(errors):.3f} | {np.max(errors):.3f} | {max(gains):.3f} "
        f"| {min(alignment.confidences):.2f} | {seconds:.1f} | {peak} |"
    )
    good = bool(np.median(errors) <= LIMIT * max(1.0, size[1] / 3000))
    if options.fuse:
        still = render_scene(name, frames=options.frames, size=size, noise=options.noise, seed=seed)
        registered, aligned = _fused_quality(scene, still, alignment, options.method)
        row += f" {registered:.2f} | {aligned:.2f} | {registered - aligned:.2f} |"
        good = good and registered - aligned <= LOSS
    print(row, flush=True)
    return good


def _corner_errors(alignment: StackAlignment, scene: Scene) -> list[NDArray[np.float64]]:
    """For each frame but the reference the distances (4,) of its corners from where they should be."""
    to_reference = np.linalg.inv(scene.transforms[alignment.reference])
    points = corners(alignment.size)
    return [
        np.hypot(*(move_points(found, points) - move_points(to_reference @ true, points)).T)
        for index, (found, true) in enumerate(zip(alignment.transforms, scene.transforms, strict=True))
        if index != alignment.reference
    ]


def _fused_quality(scene: Scene, still: Scene, alignment: StackAlignment, method: str) -> tuple[float, float]:
    """Peak signal-to-noise ratio of the fused registered stack and of the fused aligned one, in their common area.

    Both are compared with the truth; for the aligned stack that is moved to the grid of the reference frame and given
    its brightness.
    """
    top, left, bottom, right = alignment.common_area()
    area = (slice(top, bottom), slice(left, right))
    registered = fuse([np.ascontiguousarray(frame[area]) for frame in still.frames], method=method).image
    moved = [np.ascontiguousarray(alignment.apply(index, frame)[0][area]) for index, frame in enumerate(scene.frames)]
    aligned = fuse(moved, method=method).image
    # What the reference frame would show if all of it were sharp: fetched as the renderer fetches its frames.
    truth = cv2.warpAffine(
        scene.truth,
        scene.transforms[alignment.reference][:2],
        (alignment.size[1], alignment.size[0]),
        flags=cv2.INTER_LANCZOS4 | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    bright = apply_gains(np.clip(truth, 0, 1), (scene.exposures[alignment.reference],) * 3)
    return _decibels(registered, still.truth[area]), _decibels(aligned, bright[area])


def _decibels(picture: NDArray[np.float32], truth: NDArray[np.float32]) -> float:
    error = float(np.mean((np.clip(picture, 0, 1).astype(np.float64) - truth) ** 2))
    return float(-10 * np.log10(max(error, 1e-12)))


if __name__ == "__main__":
    main()
