"""A steep surface: what is lost because a window looks only at the frames that still compete in it.

Run: python benchmarks/steep_surface.py [--method ips] [--size 640x480] [--frames 60] [--seed 3]
Renders the scene "slope" so that every 8 rows another frame is the sharp one: neighbours differ by about one pixel of
blur, the ends by 50. Prints PSNR against the truth (three channels, results rounded to 8 bits) as the method fuses by
itself, and of a run in a single window; the aim is a difference below 0.2 dB.
"""

import argparse
import dataclasses

import numpy as np
from method_names import check_method
from numpy.typing import NDArray

import allfocus
from allfocus.fusion.method_choice import find_method
from allfocus.fusion.settings import DecisionSettings
from allfocus.images.writing import to_integers
from allfocus.scenes.rendering import render_scene

APERTURE = 0.09


def fuse_all_at_once(frames: list[NDArray[np.uint8]], method: str) -> NDArray[np.uint8]:
    """The picture that the method makes when every level is one window, whatever memory that takes."""
    found = find_method(method)
    everything = DecisionSettings(core=1 << 20, working_pixels=10**12)
    at_once = dataclasses.replace(found, options={**found.options, "settings": everything})
    fused: NDArray[np.uint8] = allfocus.fuse(frames, method=at_once).image
    return fused


def decibels(fused: NDArray[np.uint8], truth: NDArray[np.uint8]) -> float:
    """PSNR over all pixels and channels."""
    return float(20 * np.log10(255 / np.sqrt(np.mean((fused.astype(np.float64) - truth) ** 2))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", type=check_method, default="ips", help="ips, ips-hard, or a network's .onnx file")
    parser.add_argument("--size", default="640x480", help="width x height")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--seed", type=int, default=3)
    arguments = parser.parse_args()
    width, height = (int(side) for side in arguments.size.split("x"))
    scene = render_scene("slope", frames=arguments.frames, size=(height, width), aperture=APERTURE, seed=arguments.seed)
    frames, truth = [to_integers(frame, 8) for frame in scene.frames], to_integers(scene.truth, 8)
    itself = decibels(allfocus.fuse(frames, method=arguments.method).image, truth)
    print(f"as it fuses        {itself:.2f} dB", flush=True)
    at_once = decibels(fuse_all_at_once(frames, arguments.method), truth)
    print(f"in a single window {at_once:.2f} dB\ndifference         {itself - at_once:+.2f} dB")


if __name__ == "__main__":
    main()
