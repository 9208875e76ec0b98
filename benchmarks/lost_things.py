"""What a result loses that some frame shows, on rendered scenes: by it weights and settings are compared.

Run: python benchmarks/lost_things.py [--method ips ...] [--factors]
A method is a name, or an ONNX file that `allfocus export` wrote of weights that are to be compared. A pixel is lost
where the result errs, over 5 x 5 pixels, by 10 levels more than the frame that is nearest to the truth there. Prints dB
and the share of such pixels for each scene, and of thin things alone where a scene knows them. Takes a minute a method.

With `--factors`, `ips` with other values of `whole_factor` (`allfocus.fusion.settings`), on scenes small enough for it
to matter.
"""

import argparse
import dataclasses
from collections.abc import Callable

import cv2
import numpy as np
from method_names import check_method
from numpy.typing import NDArray

import allfocus
from allfocus.fusion.learned import fuse_ips
from allfocus.fusion.settings import AS_CHOSEN
from allfocus.scenes.rendering import Scene, render_scene

SCENES = (
    ("legs", (900, 1200), 12, 3),
    ("legs", (600, 800), 16, 4),
    ("legs", (900, 1200), 20, 6),
    ("legs", (1200, 1600), 16, 7),
    ("insect", (675, 900), 10, 1),
    ("insect", (675, 900), 10, 2),
    ("insect", (1500, 2000), 8, 7),
    ("foliage", (750, 1000), 8, 5),
    ("foliage", (1200, 1600), 8, 6),
    ("circuit", (600, 800), 8, 5),
    ("circuit", (750, 1000), 12, 111),
    ("desk", (480, 640), 6, 5),
    ("slope", (480, 640), 10, 5),
)
"""Name, height and width, frames, seed."""
SMALL_SCENES = (
    ("foliage", (600, 800), 8, 9),
    ("insect", (600, 800), 8, 31),
    ("legs", (600, 800), 8, 32),
    ("circuit", (600, 800), 8, 33),
    ("desk", (600, 800), 8, 34),
    ("insect", (1300, 2000), 6, 35),
    ("foliage", (1300, 2000), 6, 36),
    ("legs", (1300, 2000), 6, 37),
    ("circuit", (1300, 2000), 6, 38),
    ("insect", (500, 600), 12, 39),
    ("foliage", (500, 600), 12, 40),
    ("desk", (1200, 1600), 8, 41),
    ("foliage", (600, 800), 7, 42),
    ("insect", (700, 800), 6, 43),
)
"""Those of two to four million pixels in all frames at the scale at which focus is decided."""
FACTORS = 1, 2
LOST = 10.0
"""Levels of 8 bits."""


Picture = NDArray[np.float32]
Way = Callable[[list[Picture]], Picture]
"""From frames to a fused picture."""


def main() -> None:
    """Prints a line for each scene and one for the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", action="append", type=check_method, help="ips without it")
    parser.add_argument("--factors", action="store_true")
    arguments = parser.parse_args()
    ways: dict[str, Way] = {name: _by_method(name) for name in arguments.method or ["ips"]}
    if arguments.factors:
        ways = {f"whole_factor {factor}": _by_factor(factor) for factor in FACTORS}
    print("scene".ljust(20) + "".join(name[-25:].rjust(26) for name in ways))
    print(" " * 20 + "dB     lost %  of thin".rjust(26) * len(ways))
    everything = []
    for name, size, frames, seed in SMALL_SCENES if arguments.factors else SCENES:
        scene = render_scene(name, frames=frames, size=size, seed=seed)
        stack = [np.asarray(frame, np.float32) for frame in scene.frames]
        everything.append([figures(scene, way(stack)) for way in ways.values()])
        print(_line(f"{name} {size[1]}x{size[0]}", np.asarray(everything[-1])), flush=True)
    print(_line("mean", np.nanmean(everything, axis=0)))


def _by_method(name: str) -> Way:
    return lambda stack: np.asarray(allfocus.fuse(stack, method=name).image, np.float32)


def _by_factor(factor: int) -> Way:
    return lambda stack: fuse_ips(stack, settings=dataclasses.replace(AS_CHOSEN, whole_factor=factor)).image


def figures(scene: Scene, image: Picture) -> tuple[float, float, float]:
    """Returns dB, and the percentages of pixels that are lost, of all and of thin things."""
    nearest = np.min([local_error(frame, scene) for frame in scene.frames], axis=0)
    lost = local_error(image, scene) - nearest > LOST
    decibels = -10 * np.log10(np.square(image.astype(np.float64) - scene.truth).mean())
    thin = 100 * float(lost[scene.thin_things].mean()) if scene.thin_things.any() else np.nan
    return float(decibels), 100 * float(lost.mean()), thin


def local_error(picture: NDArray[np.floating], scene: Scene) -> NDArray[np.float32]:
    """Returns the error around each pixel (H, W) in levels of 8 bits."""
    square = np.square(np.asarray(picture, np.float32) - scene.truth.astype(np.float32)).mean(axis=2)
    return np.asarray(255 * np.sqrt(np.maximum(cv2.blur(square, (5, 5)), 0)), np.float32)


def _line(name: str, row: NDArray[np.float64]) -> str:
    return name.ljust(20) + "".join(f"{db:10.3f}{lost:8.3f}{thin:8.3f}" for db, lost, thin in row)


if __name__ == "__main__":
    main()
