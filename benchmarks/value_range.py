"""The same stack stored at full range and dark: does a method care how bright the values are?

Run: python benchmarks/value_range.py [--method ips ...] [--size 640x480] [--seed 0]
The scene "circuit", 8 frames of 16 bits, stored at full range, at 0..4095 as a 12-bit camera writes, and at 0..600.
Prints PSNR against the truth, each in its own range (three channels), and the share of pixels whose depth is within
half a step of the true one (methods without a depth: a dash). The aim is 0.3 dB or less between the ranges.
"""

import argparse

import numpy as np
from method_names import check_method
from numpy.typing import NDArray

import allfocus
from allfocus.scenes.rendering import Scene, render_scene

RANGES = (65535, 4095, 600)
FRAMES = 8


def true_depth(scene: Scene) -> NDArray[np.float64]:
    """Position in the stack at which each pixel is in focus, 0 the first frame: frames are even in 1 / distance."""
    first, last = 1 / scene.focus_distances[0], 1 / scene.focus_distances[-1]
    position: NDArray[np.float64] = (first - 1 / scene.depth.astype(np.float64)) / (first - last) * (FRAMES - 1)
    return position


def measure(scene: Scene, method: str, highest: int) -> str:
    frames = [np.rint(frame.astype(np.float64) * highest).astype(np.uint16) for frame in scene.frames]
    result = allfocus.fuse(frames, method=method)
    error = result.image / highest - scene.truth
    row = f"{-10 * np.log10(np.mean(error**2)):.2f}"
    if result.depth is None:
        return f"{row} | -"
    within = np.abs(result.depth * (FRAMES - 1) - true_depth(scene)) <= 0.5
    return f"{row} | {100 * within.mean():.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--method", action="append", type=check_method, help="repeat it; ips, depth-map and the pyramids by default"
    )
    parser.add_argument("--size", default="640x480", help="width x height")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    width, height = (int(side) for side in arguments.size.split("x"))
    scene = render_scene("circuit", frames=FRAMES, size=(height, width), bit_depth=16, seed=arguments.seed)
    print("| method | values | PSNR, dB | depth within half a step |\n|---|---|---|---|")
    for method in arguments.method or ["ips", "depth-map", "laplacian-pyramid", "laplacian-pyramid-energy"]:
        for highest in RANGES:
            print(f"| `{method}` | 0..{highest} | {measure(scene, method, highest)} |", flush=True)


if __name__ == "__main__":
    main()
