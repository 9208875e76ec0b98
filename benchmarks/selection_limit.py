"""The best that selecting pixels can do on a set with truth: an oracle that knows the truth picks each pixel.

Run: python benchmarks/selection_limit.py EVAL_FOLDER [--dataset real-mff]
     python benchmarks/selection_limit.py FRAMES_FOLDER --truth TRUTH.png
Prints mean PSNR and SSIM on grey of the oracle that decides pixel by pixel, and of those that must decide for whole
windows of 3, 7 and 15 pixels.
"""

import argparse
from pathlib import Path

import cv2
import numpy as np

from allfocus.datasets.catalogue import find_dataset
from allfocus.images.reading import read_image
from allfocus.metrics.catalogue import score
from allfocus.metrics.grey_levels import as_grey_levels

SIDES = (1, 3, 7, 15)


def pairs(data: Path, dataset: str):
    """Gives the frames and the truth of each sample of a set."""
    for sample in find_dataset(dataset, data / dataset):
        *frames, truth = (as_grey_levels(read_image(path).pixels) for path in (*sample.sources, sample.reference))
        yield frames, truth


def limits(frames, truth) -> list[list[float]]:
    """Returns PSNR and SSIM of the oracle for each side of its window."""
    found = []
    errors = [(frame - truth) ** 2 for frame in frames]
    for side in SIDES:
        best = np.argmin([cv2.blur(error, (side, side)) for error in errors], axis=0)
        picked = np.take_along_axis(np.stack(frames), best[None], axis=0)[0]
        pictures = [level.astype(np.uint8) for level in (picked, *frames, truth)]
        figures = score(pictures[0], pictures[1:-1], reference=pictures[-1], metrics=["PSNR", "SSIM"])
        found.append([figures["PSNR"], figures["SSIM"]])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--dataset", default="real-mff")
    parser.add_argument("--truth", type=Path, help="of one stack; DATA is then the folder of its frames")
    arguments = parser.parse_args()
    if arguments.truth:
        paths = [*sorted(arguments.data.iterdir()), arguments.truth]
        *frames, truth = (as_grey_levels(read_image(path).pixels) for path in paths)
        stacks = [(frames, truth)]
    else:
        stacks = pairs(arguments.data, arguments.dataset)
    name = arguments.data.parent.name if arguments.truth else arguments.dataset
    found = np.array([limits(*stack) for stack in stacks])
    for side, (psnr, ssim) in zip(SIDES, found.mean(axis=0), strict=True):
        print(f"{name}, {len(found)} pictures, windows of {side}x{side}: PSNR {psnr:.2f}, SSIM {ssim:.4f}")


if __name__ == "__main__":
    main()
