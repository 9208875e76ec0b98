"""How near the rebuilt networks come to what their authors published, pair by pair of Lytro.

python benchmarks/rival_results.py [--rivals FOLDER] [--data FOLDER] [--pairs 1 5 20]

Prints PSNR in dB over all three channels against the authors' pictures where they are at hand: of IFCNN (cut off to
whole levels, as theirs are), and of CNN, whose weights cannot be had: there the choice of frames is read off the
authors' picture, and cleaning, guided filter and blending are ours. With --scores, also the scores of every network
whose weights are at hand, beside those of the authors' own pictures of all twenty pairs; that takes minutes.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

import allfocus
from allfocus.images.reading import read_image
from allfocus.rivals.cnn import blend_along_edges, turn_small_regions

ROOT = Path(__file__).resolve().parents[1]
METRICS = ("Q_MI", "Q_SF", "Q_S", "Q_CB", "Q_AB/F", "Q_NCIE")
FILES = {
    "ifcnn": "ifcnn_max.pth",
    "u2fusion": "u2fusion.index",
    "mff-gan": "mff_gan_lytro.index",
    "stackmff-v4": "stackmff_v4.pth",
}
AUTHORS = {
    "ifcnn": (0.9377, 0.0761, 0.8781, 0.7292, 0.7297, 0.8298),
    "u2fusion": (0.7989, 0.0583, 0.8286, 0.6331, 0.6476, 0.8227),
    "mff-gan": (0.8278, 0.0720, 0.8375, 0.6514, 0.6624, 0.8242),
}
"""Means of the authors' lossless pictures (github.com/yuliu316316/MFIF, Results/color), scored with these metrics."""


def levels(picture: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.rint(np.clip(picture, 0, 1) * 255), np.float64)


def decibels(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(10 * np.log10(255**2 / np.mean((first - second) ** 2)))


def read_pair(data: Path, number: int) -> list[NDArray[np.float32]]:
    return [read_image(data / "lytro" / f"lytro-{number:02d}-{letter}.jpg").pixels for letter in "AB"]


def ifcnn(pair: list[NDArray[np.float32]], rivals: Path, authors: NDArray[np.float32]) -> float:
    fused = allfocus.fuse(pair, method=f"ifcnn@{rivals / FILES['ifcnn']}", check=False).image
    return decibels(np.floor(np.asarray(fused, np.float64) * 255), levels(authors))


def cnn_second_half(pair: list[NDArray[np.float32]], authors: NDArray[np.float32]) -> float:
    farther = [np.abs(authors - frame).sum(axis=2) for frame in pair]
    chosen = turn_small_regions(cv2.boxFilter(farther[1] - farther[0], -1, (5, 5)) > 0)
    first, second = (torch.from_numpy(frame.transpose(2, 0, 1).copy())[None] for frame in pair)
    fused = blend_along_edges(first, second, torch.from_numpy(chosen.astype(np.float32))[None, None])
    return decibels(levels(fused[0].permute(1, 2, 0).numpy()), levels(authors))


def print_scores(data: Path, rivals: Path, output: Path) -> None:
    methods = [f"{name}@{rivals / file}" for name, file in FILES.items() if (rivals / file).is_file()]
    sets = {"lytro": data / "lytro"}
    result = allfocus.evaluate(sets, methods, metrics=METRICS, output=output, device="cpu", report=False)
    print("scores on Lytro".ljust(32), *(name.rjust(8) for name in METRICS))
    for row in result.summaries["lytro"].methods:
        name = row.method.partition("@")[0]
        print(row.method.ljust(32), *(f"{row.estimates[metric].mean:8.4f}" for metric in METRICS))
        if name in AUTHORS:
            print("  the authors' pictures".ljust(32), *(f"{value:8.4f}" for value in AUTHORS[name]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = ROOT.parent / "shared"
    data = Path(os.environ.get("ALLFOCUS_DATA") or shared / "data")
    rivals = Path(os.environ.get("ALLFOCUS_RIVALS") or shared / "rivals")
    parser.add_argument("--rivals", type=Path, default=rivals, help="authors' weights, and results_lytro/cnn")
    parser.add_argument("--data", type=Path, default=data / "eval", help="the folder that holds lytro")
    parser.add_argument("--ifcnn", type=Path, default=data.parent / "metrics" / "images", help="pictures of IFCNN")
    parser.add_argument("--pairs", type=int, nargs="+", default=list(range(1, 21)), help="numbers of pairs")
    parser.add_argument("--scores", type=Path, metavar="FOLDER", help="also score, into this folder")
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {"ifcnn": [], "cnn, second half": []}
    for number in arguments.pairs:
        pair = read_pair(arguments.data, number)
        theirs = arguments.ifcnn / f"IFCNN-MAX-CMF-lytro-{number:02d}.png"
        if theirs.is_file():
            found["ifcnn"].append(ifcnn(pair, arguments.rivals, read_image(theirs).pixels))
            print(f"lytro-{number:02d} ifcnn             {found['ifcnn'][-1]:.2f} dB")
        theirs = arguments.rivals / "results_lytro" / "cnn" / f"lytro-{number:02d}.webp"
        if theirs.is_file():
            found["cnn, second half"].append(cnn_second_half(pair, read_image(theirs).pixels))
            print(f"lytro-{number:02d} cnn, second half  {found['cnn, second half'][-1]:.2f} dB")
    for name, values in found.items():
        if values:
            print(f"{name}: {min(values):.2f} to {max(values):.2f} dB, mean {np.mean(values):.2f}, {len(values)} pairs")
    if arguments.scores is not None:
        print_scores(arguments.data, arguments.rivals, arguments.scores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
