"""The ablation study: trains every recipe of recipes/ablation with the same budget, then scores all on Real-MFF.

Train: python benchmarks/ablation.py train PHOTOS RUNS [--set key=value ...] [--seconds 300] [--only NAME]
Score: python benchmarks/ablation.py score RUNS REAL_MFF   (folders imageA, imageB, Fusion)

Needs torch, numpy, Pillow and safetensors only. Training goes on where it stopped; scoring prints Markdown.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from allfocus.metrics.scoring import score
from allfocus.network.checkpoint import load_network
from allfocus.training.loop import train
from allfocus.training.recipe import read_recipe
from allfocus.training.run_files import STATE_FILE, WEIGHTS_FILE

RECIPES = Path(__file__).parent.parent / "recipes" / "ablation"


def train_all(photos: Path, runs: Path, overrides: list[str], seconds: float, only: list[str]) -> None:
    began = time.monotonic()
    for path in sorted(RECIPES.glob("*.toml")):
        left = seconds - (time.monotonic() - began)
        if path.stem == "base" or left < 1 or (only and path.stem not in only):
            continue
        run = runs / path.stem
        recipe = read_recipe(path, overrides)
        train(photos, run, recipe=recipe, resume=(run / STATE_FILE).exists(), stop_after_seconds=left)
        print(f"{path.stem}: {time.monotonic() - began:.0f} s", flush=True)


def read_picture(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def score_all(runs: Path, data: Path) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print("| variant | iterations | PSNR | SSIM |\n|---|---|---|---|")
    for run in sorted(path for path in runs.iterdir() if (path / WEIGHTS_FILE).exists()):
        network, header = load_network(run / WEIGHTS_FILE, device=device)
        rows = []
        for truth in sorted((data / "Fusion").iterdir()):
            pictures = [read_picture(data / part / truth.name) for part in ("imageA", "imageB")]
            frames = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)[None].to(device) / 255.0
            with torch.no_grad():
                fused = network(frames)[0].clamp(0, 1).mul(255).round().byte().permute(1, 2, 0).cpu().numpy()
            figures = score(fused, pictures, reference=read_picture(truth), metrics=["PSNR", "SSIM"])
            rows.append([figures["PSNR"], figures["SSIM"]])
        psnr, ssim = np.mean(rows, axis=0)
        print(f"| {run.name} | {header['provenance']['iteration']} | {psnr:.2f} | {ssim:.4f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("photos", type=Path)
    training.add_argument("runs", type=Path)
    training.add_argument("--set", action="append", default=[], dest="overrides")
    training.add_argument("--seconds", type=float, default=1e9)
    training.add_argument("--only", action="append", default=[], help="train this variant; may be repeated")
    scoring = commands.add_parser("score")
    scoring.add_argument("runs", type=Path)
    scoring.add_argument("data", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "train":
        train_all(arguments.photos, arguments.runs, arguments.overrides, arguments.seconds, arguments.only)
    else:
        score_all(arguments.runs, arguments.data)


if __name__ == "__main__":
    main()
