"""The best that selecting pixels can do on a set with truth: an oracle that knows the truth picks each pixel.

Run: python benchmarks/selection_limit.py EVAL_FOLDER [--dataset real-mff]
     python benchmarks/selection_limit.py FRAMES_FOLDER --truth TRUTH.png
Prints mean PSNR and SSIM on grey of the oracle that decides pixel by pixel, of those that must decide for whole windows
of 3, 7 and 15 pixels, and of those that decide for windows of 7 pixels in each band of a Laplacian pyramid on its own:
whether a picture of one frame's fine detail and another's coarse could be better.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.datasets.catalogue import find_dataset
from allfocus.images.reading import read_image
from allfocus.metrics.grey_levels import as_grey_levels
from allfocus.metrics.scoring import score

Plane = NDArray[Any]
"""(H, W), grey levels of 0 to 255."""

SIDES = (1, 3, 7, 15)
BANDS = (2, 4, 6)
BAND_SIDE = 7


def pairs(data: Path, dataset: str) -> Iterator[tuple[list[Plane], Plane]]:
    """Gives the frames and the truth of each sample of a set."""
    for sample in find_dataset(dataset, data / dataset):
        if sample.reference is None:
            continue
        *frames, truth = (as_grey_levels(read_image(path).pixels) for path in (*sample.sources, sample.reference))
        yield frames, truth


def limits(frames: Sequence[Plane], truth: Plane) -> list[tuple[str, float, float]]:
    """Returns what each oracle may do, with its PSNR and SSIM."""
    pictures = {f"windows of {side}x{side}": pick(frames, truth, side) for side in SIDES}
    for count in BANDS:
        pyramids = zip(*(bands(picture, count) for picture in (*frames, truth)), strict=True)
        picked = [pick(own[:-1], own[-1], BAND_SIDE) for own in pyramids]
        pictures[f"{count} bands, windows of {BAND_SIDE}x{BAND_SIDE}"] = collapse(picked)
    levels = [frame.astype(np.uint8) for frame in frames]
    found = []
    for name, picture in pictures.items():
        rounded = np.clip(np.rint(picture), 0, 255).astype(np.uint8)
        figures = score(rounded, levels, reference=truth.astype(np.uint8), metrics=["PSNR", "SSIM"])
        found.append((name, figures["PSNR"], figures["SSIM"]))
    return found


def pick(frames: Sequence[Plane], truth: Plane, side: int) -> Plane:
    """Returns of each pixel that frame's value whose window is nearest to the truth."""
    best = np.argmin([cv2.blur((frame - truth) ** 2, (side, side)) for frame in frames], axis=0)
    picked: Plane = np.take_along_axis(np.stack(frames), best[None], axis=0)[0]
    return picked


def bands(picture: Plane, count: int) -> list[Plane]:
    """Returns a Laplacian pyramid of so many levels, the coarsest last."""
    found: list[Plane] = []
    for _ in range(count - 1):
        smaller: Plane = np.asarray(cv2.pyrDown(picture))
        found.append(picture - cv2.pyrUp(smaller, dstsize=picture.shape[::-1]))
        picture = smaller
    return [*found, picture]


def collapse(pyramid: Sequence[Plane]) -> Plane:
    """Returns the picture of a Laplacian pyramid."""
    picture = pyramid[-1]
    for band in reversed(pyramid[:-1]):
        picture = np.asarray(cv2.pyrUp(picture, dstsize=band.shape[::-1])) + band
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--dataset", default="real-mff")
    parser.add_argument("--truth", type=Path, help="of one stack; DATA is then the folder of its frames")
    arguments = parser.parse_args()
    if arguments.truth:
        paths = [*sorted(arguments.data.iterdir()), arguments.truth]
        *frames, truth = (as_grey_levels(read_image(path).pixels) for path in paths)
        stacks: Iterable[tuple[list[Plane], Plane]] = [(frames, truth)]
    else:
        stacks = pairs(arguments.data, arguments.dataset)
    name = arguments.data.parent.name if arguments.truth else arguments.dataset
    found = [limits(*stack) for stack in stacks]
    for rows in zip(*found, strict=True):
        psnr, ssim = np.mean([row[1:] for row in rows], axis=0)
        print(f"{name}, {len(found)} pictures, {rows[0][0]}: PSNR {psnr:.2f}, SSIM {ssim:.4f}")


if __name__ == "__main__":
    main()
