"""How near methods and weights come to the truth of rendered scenes; by their mean weights are chosen.

Run: python benchmarks/rendered_scenes.py [--method ips ...]
A method is a name, or an ONNX file that `allfocus export` wrote of weights that are to be compared. Prints dB, a line
for each scene and one for the mean. `region_pairs.py` is the other half of the choice: edges between regions of photos.
"""

import argparse

import numpy as np
from method_names import check_method
from planned_scenes import SCENES

import allfocus
from allfocus.scenes.rendering import render_scene

LARGE = (("slope", (1600, 2000), 8, 4), ("foliage", (1600, 2000), 8, 4))
"""Beside those on which settings are chosen: name, height and width, frames, seed."""


def main() -> None:
    """Prints a line for each scene and one for the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", action="append", type=check_method, help="ips without it")
    methods = parser.parse_args().method or ["ips"]
    everything = []
    for name, size, frames, seed in (*SCENES, *LARGE):
        scene = render_scene(name, frames=frames, size=size, seed=seed)
        stack = [np.asarray(frame, np.float32) for frame in scene.frames]
        found = [np.asarray(allfocus.fuse(stack, method=method).image, np.float64) for method in methods]
        row = [float(-10 * np.log10(np.square(image - scene.truth).mean())) for image in found]
        everything.append(row)
        print(_line(f"{name} {size[1]}x{size[0]}", row), flush=True)
    print(_line("mean", np.mean(everything, axis=0).tolist()), flush=True)


def _line(name: str, row: list[float]) -> str:
    return name.ljust(20) + "".join(f"{value:10.3f}" for value in row)


if __name__ == "__main__":
    main()
