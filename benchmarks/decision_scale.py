"""From which size on focus is better decided at half scale: PSNR against the truth of rendered scenes, both ways.

Run: python benchmarks/decision_scale.py [--seed 5]
`largest_full_scale` of `allfocus.fusion.settings` follows from it. Prints one Markdown row per scene and size.
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.learned import fuse_ips
from allfocus.fusion.settings import DecisionSettings
from allfocus.scenes.rendering import render_scene

SCENES = (("foliage", 8), ("insect", 10), ("desk", 8), ("circuit", 8))
SIZES = ((384, 512), (900, 1200), (1200, 1600))


def measure(frames: Sequence[NDArray[np.float32]], truth: NDArray[np.float32], largest: int) -> str:
    began = time.process_time()
    image = fuse_ips(frames, device="cpu", settings=DecisionSettings(largest_full_scale=largest)).image
    seconds = time.process_time() - began
    return f"{-10 * np.log10(np.mean((image - truth) ** 2)):.2f} | {seconds:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=5)
    seed = parser.parse_args().seed
    print("| scene | size | full scale, dB | CPU s | half scale, dB | CPU s |\n|---|---|---|---|---|---|")
    for name, count in SCENES:
        for height, width in SIZES:
            scene = render_scene(name, frames=count, size=(height, width), seed=seed, noise=0.003)
            full, half = (measure(scene.frames, scene.truth, largest) for largest in (10**9, 1))
            print(f"| {name} | {width}x{height} | {full} | {half} |", flush=True)


if __name__ == "__main__":
    main()
