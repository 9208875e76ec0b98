"""How much finest detail counts against the network's word: what is lost of rendered scenes, and dB.

Run: python benchmarks/outweighing.py [--setting 3,3 ...]
A setting is `outweighing,outweighed` of `allfocus.fusion.settings`; 3,0 leaves everything to the network. A pixel is
lost where the result errs, over 5 x 5 pixels, by 10 levels more than the frame that is nearest to the truth there.
Prints dB and the share of such pixels for each scene, and of thin things alone where a scene knows them. Takes a minute
a setting.
"""

import argparse
import dataclasses

import cv2
import numpy as np
from numpy.typing import NDArray
from planned_scenes import PlannedScene, planned_scenes

from allfocus.scenes.rendering import Scene

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
LOST = 10.0
"""Levels of 8 bits."""


def main() -> None:
    """Prints a line for each scene and one for the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", action="append", help="3,0 and 3,3 without it")
    settings = [tuple(map(float, text.split(","))) for text in parser.parse_args().setting or ("3,0", "3,3")]
    print("scene".ljust(20) + "".join(f"{factor:g},{rate:g}".rjust(26) for factor, rate in settings))
    print(" " * 20 + "dB     lost %  of thin".rjust(26) * len(settings))
    everything = []
    for planned in planned_scenes(SCENES):
        row = [figures(planned, *setting) for setting in settings]
        print(_line(planned.name, np.asarray(row)), flush=True)
        everything.append(row)
    print(_line("mean", np.nanmean(everything, axis=0)))


def figures(planned: PlannedScene, outweighing: float, outweighed: float) -> tuple[float, float, float]:
    """Returns dB, and the percentages of pixels that are lost, of all and of thin things."""
    own = dataclasses.replace(planned.plan.settings, outweighing=outweighing, outweighed=outweighed)
    image = planned.fuse(dataclasses.replace(planned.plan, settings=own)).image
    scene = planned.scene
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
