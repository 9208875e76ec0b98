"""The best that selecting pixels can do on a set with truth: an oracle that knows the truth picks each pixel.

Run: python benchmarks/selection_limit.py EVAL_FOLDER [--dataset real-mff]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--dataset", default="real-mff")
    arguments = parser.parse_args()
    rows: dict[int, list[list[float]]] = {side: [] for side in (1, 3, 7, 15)}
    for sample in find_dataset(arguments.dataset, arguments.data / arguments.dataset):
        paths = (*sample.sources, sample.reference)
        first, second, truth = (as_grey_levels(read_image(path).pixels) for path in paths)
        errors = [(source - truth) ** 2 for source in (first, second)]
        for side, found in rows.items():
            ours = cv2.blur(errors[0], (side, side)) <= cv2.blur(errors[1], (side, side))
            picked = np.where(ours, first, second)
            pictures = [level.astype(np.uint8) for level in (picked, first, second, truth)]
            figures = score(pictures[0], pictures[1:3], reference=pictures[3], metrics=["PSNR", "SSIM"])
            found.append([figures["PSNR"], figures["SSIM"]])
    for side, found in rows.items():
        psnr, ssim = np.mean(found, axis=0)
        print(f"{arguments.dataset}, {len(found)} pictures, windows of {side}x{side}: PSNR {psnr:.2f}, SSIM {ssim:.4f}")


if __name__ == "__main__":
    main()
