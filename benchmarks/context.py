"""How much of a stack the network should see whole, or with context, and which frames may stay in the running.

Run: python benchmarks/context.py PHOTOS
PHOTOS is a folder with SOURCES.csv beside the photos; those whose licence class the recipe of `ips` does not allow are
taken, so that no shipped weights were trained with them. Prints PSNR, results rounded to 8 bits, and processor seconds
of pairs made of single photos and of mosaics of them (a random region is sharp in one frame and blurred in the other)
and of rendered stacks, by the settings (`allfocus.fusion.settings`) that decide what is seen:

- `largest_whole_side`, the longest side at which a picture is seen whole;
- `context_pixels`, up to which a picture is decided with context at every level, and `refined_pixels`, from which
  levels of larger ones are decided by their detail alone;
- `lonely_candidate`, how far a lone pixel may be behind before its frame is out.
"""

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from region_pairs import ALLOWED, blurred_pair

from allfocus.fusion.decisions import EXCLUSION
from allfocus.fusion.learned import fuse_ips
from allfocus.fusion.settings import DecisionSettings
from allfocus.scenes.rendering import render_scene

Picture = NDArray[np.float32]
Stack = tuple[Sequence[Picture], Picture]
KEPT = DecisionSettings(lonely_candidate=-float(EXCLUSION))
"""No pixel is out for want of company."""
SETTINGS = {
    "384, 0.4 MP": replace(KEPT, largest_whole_side=384, context_pixels=400_000),
    "1280, 0.4 MP": replace(KEPT, context_pixels=400_000),
    "1280, 1.2 MP": KEPT,
    "the same, lone pixels out": DecisionSettings(),
    "the same, 1.2 MP at every level": DecisionSettings(refined_pixels=1_200_000),
}
SCENES = (
    ("desk", (480, 640), 6, 5),
    ("insect", (600, 800), 8, 5),
    ("foliage", (1200, 1600), 8, 6),
    ("legs", (1200, 1600), 12, 3),
    ("slope", (1600, 2000), 10, 5),
    ("foliage", (2400, 3200), 6, 7),
)
SEED = 7


def main() -> None:
    """Prints a line for each kind of input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    folder = parser.parse_args().photos
    print("| input | " + " | ".join(SETTINGS) + " |\n|---|" + "---:|" * len(SETTINGS), flush=True)
    generator = np.random.default_rng(SEED)
    photos = read_photos(folder)
    wide = [photo for photo in photos if max(photo.shape[:2]) >= 600]
    print_row("photos of 720 x 480, blur 1.5 to 6", [make_pair(photo, 1.5, 6, generator) for photo in wide])
    tiles = [photo for photo in photos if photo.shape[:2] == (321, 481)]
    for blur in ((1.5, 6), (6, 14)):
        mosaics = [make_mosaic(tiles, generator) for _ in range(6)]
        pairs = [make_pair(mosaic, blur[0], blur[1], generator) for mosaic in mosaics]
        print_row(f"mosaics of 962 x 642, blur {blur[0]:g} to {blur[1]:g}", pairs)
    for name, size, frames, seed in SCENES:
        scene = render_scene(name, frames=frames, size=size, seed=seed)
        stack = [np.asarray(frame, np.float32) for frame in scene.frames]
        print_row(f"{name}, {frames} x {size[1]} x {size[0]}", [(stack, np.asarray(scene.truth, np.float32))])


def read_photos(folder: Path) -> list[Picture]:
    """The photos that nothing was trained with, in the order of their names."""
    with (folder / "SOURCES.csv").open(encoding="utf-8", newline="") as table:
        names = sorted(row["file"] for row in csv.DictReader(table) if row["licence_class"] not in ALLOWED)
    return [np.asarray(Image.open(folder / name).convert("RGB"), np.float32) / np.float32(255) for name in names]


def make_mosaic(tiles: Sequence[Picture], generator: np.random.Generator) -> Picture:
    """Two by two photos, for want of larger ones."""
    a, b, c, d = (tiles[place] for place in generator.permutation(len(tiles))[:4])
    return np.vstack([np.hstack([a, b]), np.hstack([c, d])])


def make_pair(truth: Picture, least: float, most: float, generator: np.random.Generator) -> Stack:
    """Two frames, a random region sharp in one of them, and the truth."""
    height, width = truth.shape[:2]
    cell = int(generator.choice([64, 128, 192]))
    noise = generator.standard_normal((height // cell + 3, width // cell + 3)).astype(np.float32)
    field = cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    region = (field > np.median(field)).astype(np.float32)[..., None]
    return blurred_pair(truth, region, float(generator.uniform(least, most))), truth


def print_row(label: str, stacks: Sequence[Stack]) -> None:
    """Prints mean PSNR and processor seconds with each of the settings."""
    cells = []
    for settings in SETTINGS.values():
        scores, began = [], time.process_time()
        for frames, truth in stacks:
            fused = fuse_ips(frames, device="cpu", settings=settings).image
            scores.append(-10 * np.log10(np.square(np.round(fused * 255) / 255 - truth).mean()))
        cells.append(f"{np.mean(scores):.2f} dB {(time.process_time() - began) / len(stacks):.1f} s")
    print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
