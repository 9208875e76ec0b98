"""What the list of faults finds on rendered scenes, and what is left when the frame of each is painted in.

Run: python benchmarks/faults.py [--size 1000x1500] [--frames 8]
Fuses the scenes "legs" and "insect" with methods that lose detail there, lists the faults, paints the first three and
then all of them with the studio's brush, and measures lost detail each time, and how near the picture is to the truth
before and after all (dB): a brush that covers more than what was lost would do harm. Prints one Markdown row each.
Takes a minute on two cores.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

import allfocus
from allfocus.fusion.faults import LOST, Fault, find_faults
from allfocus.scenes.rendering import render_scene
from allfocus.web.retouching import paint, stroke_area
from allfocus.web.stroke import Stroke

CASES = (("legs", "dct-corr"), ("insect", "dct-corr"), ("insect", "guided-filter"))


def paint_faults(
    image: NDArray[np.float32], frames: list[NDArray[np.float32]], faults: list[Fault]
) -> NDArray[np.float32]:
    """The picture with the frame of each fault painted in."""
    painted = image.copy()
    for fault in faults:
        stroke = Stroke("", "", [list(point) for point in fault.points], fault.radius, fault.hardness)
        paint(painted, stroke, frames[fault.frame], stroke_area(stroke, painted.shape[1], painted.shape[0]))
    return painted


def decibels(picture: NDArray[np.float32], truth: NDArray[np.float32]) -> float:
    """The peak signal-to-noise ratio of a picture in 0..1."""
    return float(-10 * np.log10(np.square(picture - truth).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="1000x1500")
    parser.add_argument("--frames", type=int, default=8)
    arguments = parser.parse_args()
    height, width = (int(side) for side in arguments.size.split("x"))
    print("| scene | method | places | lost detail | after three | after all | dB | after all |")
    print("|---|---|---|---|---|---|---|---|")
    for scene, method in CASES:
        rendered = render_scene(scene, frames=arguments.frames, size=(height, width))
        frames = [np.asarray(frame, np.float32) for frame in rendered.frames]
        fusion = allfocus.fuse(frames, method=method)
        assert fusion.lost_detail is not None
        faults = [fault for fault in find_faults(fusion) if fault.kind == LOST]
        image = np.asarray(fusion.image, np.float32)
        painted = [paint_faults(image, frames, chosen) for chosen in (faults[:3], faults)]
        three, everything = (allfocus.measure_lost_detail(picture, frames).share for picture in painted)
        before, after = (decibels(picture, rendered.truth) for picture in (image, painted[-1]))
        print(
            f"| {scene} | `{method}` | {len(faults)} | {fusion.lost_detail.share:.3f} % | {three:.3f} % "
            f"| {everything:.3f} % | {before:.2f} | {after:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
