"""How many frames the network should see in a window at the most, on long stacks with small focus steps.

Run: python benchmarks/long_stacks.py [--frames 48] [--size 900x600]
For rendered scenes prints PSNR against the truth and processor seconds for several values of MOST_FRAMES
(allfocus.fusion.windows). A window takes only as many frames as are worthwhile there.
"""

import argparse
import time

import numpy as np

from allfocus.fusion import windows
from allfocus.fusion.learned import fuse_ips
from allfocus.scenes.rendering import render_scene

LIMITS = (8, 12, 16, 24)
SCENES = ("insect", "slope", "desk")
SEED = 61


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--size", default="900x600", help="width x height")
    arguments = parser.parse_args()
    width, height = map(int, arguments.size.split("x"))
    print("| scene | " + " | ".join(f"{limit} frames, dB | CPU s" for limit in LIMITS) + " |")
    print("|---" * (1 + 2 * len(LIMITS)) + "|")
    for name in SCENES:
        scene = render_scene(name, frames=arguments.frames, size=(height, width), seed=SEED, noise=0.004)
        frames = [np.asarray(frame, np.float32) for frame in scene.frames]
        cells = []
        for limit in LIMITS:
            windows.MOST_FRAMES = limit
            began = time.process_time()
            image = fuse_ips(frames).image
            seconds = time.process_time() - began
            cells.append(f"{-10 * np.log10(np.mean((image - scene.truth) ** 2)):.2f} | {seconds:.1f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
