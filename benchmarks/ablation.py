"""The ablation study: trains every recipe of recipes/ablation with the same budget, then scores all on Real-MFF.

Train: python benchmarks/ablation.py train PHOTOS RUNS [--set key=value ...] [--seconds 300] [--only NAME[:SEED] ...]
       [--seeds 3] [--jobs 8]
Score: python benchmarks/ablation.py score RUNS REAL_MFF   (folders imageA, imageB, Fusion)

With `--seeds` what the paper says of filter and mask ratio is trained that often, each time with another seed; the
other variants once. `--jobs` trains several at a time, which small networks on a large GPU gain by. Needs torch, numpy,
Pillow and safetensors only. Training goes on where it stopped. Scoring prints Markdown: the mean over the seeds, and
how far apart the best and the worst of them are.
"""

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
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


DISPUTED = ("filter-", "mask-ratio-", "paper")
"""Variants about which the paper and this project disagree, by how their names begin: trained with several seeds."""
SEED_MARK = "-seed"


def planned_runs(seeds: int, only: list[str]) -> list[tuple[Path, int]]:
    """Recipes and seeds in the order of training; the median filter, which no graph can draw, takes longest."""
    runs = []
    for path in sorted(RECIPES.glob("*.toml")):
        if path.stem != "base":
            often = seeds if path.stem.startswith(DISPUTED) else 1
            runs += [(path, seed) for seed in range(1, often + 1)]
    runs.sort(key=lambda run: ("median" not in run[0].stem, run[1]))
    return [run for run in runs if not only or {run[0].stem, f"{run[0].stem}:{run[1]}"} & set(only)]


def train_one(photos: Path, runs: Path, path: Path, seed: int, overrides: list[str], seconds: float) -> None:
    """Trains one variant, or goes on with it."""
    run = runs / f"{path.stem}{SEED_MARK}{seed}"
    recipe = read_recipe(path, [*overrides, f"seed={seed}"])
    began = time.monotonic()
    if (run / WEIGHTS_FILE).exists():
        _, header = load_network(run / WEIGHTS_FILE)
        if header["provenance"]["iteration"] >= recipe.optimizer.iterations:
            return
    train(photos, run, recipe=recipe, resume=(run / STATE_FILE).exists(), stop_after_seconds=seconds)
    print(f"{run.name}: {time.monotonic() - began:.0f} s", flush=True)


def train_all(arguments: argparse.Namespace) -> None:
    """Trains all variants, one after the other or each in a process of its own."""
    began = time.monotonic()
    planned = planned_runs(arguments.seeds, arguments.only)

    def work(run: tuple[Path, int]) -> None:
        path, seed = run
        left = arguments.seconds - (time.monotonic() - began)
        if left < 1:
            return
        if arguments.jobs == 1:
            train_one(arguments.photos, arguments.runs, path, seed, arguments.overrides, left)
            return
        command = [sys.executable, __file__, "train", str(arguments.photos), str(arguments.runs)]
        command += ["--only", f"{path.stem}:{seed}", "--seeds", str(arguments.seeds), "--seconds", str(left)]
        subprocess.run([*command, *(part for text in arguments.overrides for part in ("--set", text))], check=True)

    if arguments.jobs == 1:
        for run in planned:
            work(run)
        return
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for _ in pool.map(work, planned):
            pass


def read_picture(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def score_all(runs: Path, data: Path) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found: dict[str, list[tuple[int, float, float]]] = {}
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
        print(f"{run.name}: {psnr:.3f} dB, {ssim:.5f}", file=sys.stderr, flush=True)
        variant = run.name.split(SEED_MARK)[0]
        found.setdefault(variant, []).append((header["provenance"]["iteration"], psnr, ssim))
    print("| variant | seeds | iterations | PSNR | between seeds | SSIM |\n|---|---|---|---|---|---|")
    for variant, results in found.items():
        iterations, psnrs, ssims = zip(*results, strict=True)
        spread = f"{max(psnrs) - min(psnrs):.2f}" if len(psnrs) > 1 else ""
        row = variant, len(psnrs), min(iterations), f"{np.mean(psnrs):.2f}", spread, f"{np.mean(ssims):.4f}"
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("photos", type=Path)
    training.add_argument("runs", type=Path)
    training.add_argument("--set", action="append", default=[], dest="overrides")
    training.add_argument("--seconds", type=float, default=1e9)
    training.add_argument("--only", action="append", default=[], help="train this variant; may be repeated")
    training.add_argument("--seeds", type=int, default=1, help="of the variants that are disputed")
    training.add_argument("--jobs", type=int, default=1, help="variants that are trained at a time")
    scoring = commands.add_parser("score")
    scoring.add_argument("runs", type=Path)
    scoring.add_argument("data", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "train":
        train_all(arguments)
    else:
        score_all(arguments.runs, arguments.data)


if __name__ == "__main__":
    main()
