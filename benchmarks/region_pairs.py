"""How exactly edges between sharp and blurred regions are found, on photos that no shipped weights were trained with.

Run: python benchmarks/region_pairs.py PHOTOS [--method ips ...] [--zeros] [--size 384] [--enlarged 1] [--noise 0]
PHOTOS is a folder with SOURCES.csv beside the photos; those whose licence class the recipe of `ips` does not allow
are taken. Each gives a crop of 384 pixels (`--size`; an odd one ends between two cells of the network) and a smooth
random region; half of the regions follow the brightness of the picture, half have a soft edge. One frame is sharp
inside the region, the other outside, each blurred by a Gaussian of 1.5 to 6 pixels elsewhere; `--zeros` filters with
zeros around the picture, which leaves a dark rim. `--enlarged 2` enlarges the photos first, so that they are as soft as
pictures of cameras are at full size; `--noise 0.02` adds noise of that strength with the grain that demosaicing leaves,
to the truth what the frame that is sharp there has of it. Prints the mean PSNR over 24 pairs, results rounded to 8
bits. It fuses by public functions alone, so it runs on older versions too, which tell a wrong name only then.
"""

import argparse
import csv
from pathlib import Path

import cv2
import numpy as np
from method_names import check_method
from numpy.typing import NDArray
from PIL import Image

import allfocus

PAIRS, SEED = 24, 5
ALLOWED = ("free", "share-alike")
"""Licence classes of recipes/ips.toml."""
Picture = NDArray[np.float32]


def main() -> None:
    """Prints a line for each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--method", action="append", type=check_method, help="ips without it")
    parser.add_argument("--zeros", action="store_true")
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--enlarged", type=float, default=1.0)
    parser.add_argument("--noise", type=float, default=0.0)
    arguments = parser.parse_args()
    pairs = make_pairs(
        arguments.photos,
        arguments.size,
        zeros=arguments.zeros,
        enlarged=arguments.enlarged,
        noise=arguments.noise,
    )
    for method in arguments.method or ["ips"]:
        scores = []
        for first, second, truth in pairs:
            fused = np.asarray(allfocus.fuse([first, second], method=method).image, np.float64)
            scores.append(-10 * np.log10(np.square(np.round(fused * 255) / 255 - truth).mean()))
        print(f"{method}: {np.mean(scores):.2f} dB over {len(scores)} pairs", flush=True)


def make_pairs(
    folder: Path, size: int, *, zeros: bool, enlarged: float = 1.0, noise: float = 0.0
) -> list[tuple[Picture, Picture, Picture]]:
    """Two frames and the truth of each pair."""
    with (folder / "SOURCES.csv").open(encoding="utf-8", newline="") as table:
        names = sorted(row["file"] for row in csv.DictReader(table) if row["licence_class"] not in ALLOWED)
    generator = np.random.default_rng(SEED)
    pairs: list[tuple[Picture, Picture, Picture]] = []
    for place in generator.permutation(len(names)):
        photo = np.asarray(Image.open(folder / names[place]).convert("RGB"))
        if min(photo.shape[:2]) >= 2 * size:
            photo = cv2.resize(photo, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        if min(photo.shape[:2]) < size:
            continue
        top, left = (int(generator.integers(0, length - size + 1)) for length in photo.shape[:2])
        truth = photo[top : top + size, left : left + size].astype(np.float32) / np.float32(255)
        if enlarged > 1:
            part = round(size / enlarged)
            truth = cv2.resize(truth[:part, :part], (size, size), interpolation=cv2.INTER_CUBIC).clip(0, 1)
        region = _region(truth, len(pairs), generator)[..., None]
        first, second = blurred_pair(truth, region, float(generator.uniform(1.5, 6)), zeros=zeros)
        if noise:
            grains = [noise * _grain(truth.shape, generator) for _ in range(2)]
            first, second = (frame + grain for frame, grain in zip((first, second), grains, strict=True))
            truth = truth + region * grains[0] + (1 - region) * grains[1]
        pairs.append((first, second, truth))
        if len(pairs) == PAIRS:
            break
    return pairs


def blurred_pair(truth: Picture, region: Picture, deviation: float, *, zeros: bool = False) -> tuple[Picture, Picture]:
    """A frame that is sharp inside the region (H, W, 1) and one that is sharp outside, of 8 bits."""
    border = cv2.BORDER_CONSTANT if zeros else cv2.BORDER_DEFAULT
    blurred = cv2.GaussianBlur(truth, (0, 0), deviation, borderType=border)
    frames = (region * truth + (1 - region) * blurred, (1 - region) * truth + region * blurred)
    first, second = (np.round(frame * 255).astype(np.float32) / np.float32(255) for frame in frames)
    return first, second


def _grain(shape: tuple[int, ...], generator: np.random.Generator) -> Picture:
    """Noise of strength 1 that neighbouring pixels share."""
    noise = cv2.GaussianBlur(generator.standard_normal(shape, dtype=np.float32), (0, 0), 0.7)
    return np.asarray(noise / noise.std(), np.float32)


def _region(truth: Picture, number: int, generator: np.random.Generator) -> Picture:
    """Where the first frame is sharp, 0..1."""
    size = len(truth)
    cell = int(generator.choice([64, 128, 192]))
    noise = generator.standard_normal((size // cell + 3,) * 2).astype(np.float32)
    field = cv2.resize(noise, (size, size), interpolation=cv2.INTER_CUBIC)
    if number % 2:
        brightness = cv2.GaussianBlur(truth.mean(axis=2), (0, 0), 2.5)
        brightness = (brightness - brightness.mean()) / (brightness.std() + 0.02)
        field = cv2.GaussianBlur(0.6 * field + brightness * generator.choice([-1, 1]), (0, 0), 1.5)
    region = (field > np.median(field)).astype(np.float32)
    return np.asarray(cv2.GaussianBlur(region, (0, 0), 0.7) if number % 4 >= 2 else region, np.float32)


if __name__ == "__main__":
    main()
