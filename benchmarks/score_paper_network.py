"""Scores a two-source network (ips-paper or an ablation of it) on the four data sets, on a GPU if there is one.

Run: python benchmarks/score_paper_network.py WEIGHTS EVAL_FOLDER [--dataset lytro ...] [--keep FOLDER]
With `--keep`, fused pictures stay in a folder, named by weights, set and name, and a run that was stopped goes on from
them: without a GPU 120 pictures take an hour and a half. Prints a Markdown table, on grey and as the mean over the
colour channels, which is how the paper scored; EVAL_FOLDER holds the folders lytro, mffw, real-mff, mfi-whu. Needs
torch, numpy, Pillow, safetensors only.
"""

import argparse
import concurrent.futures
import io
import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from allfocus.datasets.catalogue import find_dataset
from allfocus.errors import InputError
from allfocus.images.writing import replace_file
from allfocus.metrics.scoring import PROTOCOLS, score
from allfocus.network.checkpoint import load_network

WITH_TRUTH = ["PSNR", "SSIM"]
WITHOUT_TRUTH = ["Q_MI", "Q_SF", "Q_S", "Q_CB", "Q_AB/F", "Q_NCIE"]


def read_picture(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"))


def fuse_pair(network: torch.nn.Module, sources: Sequence[Path], device: str) -> NDArray[np.uint8]:
    pictures = np.stack([read_picture(path) for path in sources])
    frames = torch.from_numpy(pictures).permute(0, 3, 1, 2)[None].to(device) / 255.0
    with torch.no_grad():
        fused = network(frames)[0].clamp(0, 1).mul(255).round().byte()
    return np.ascontiguousarray(fused.permute(1, 2, 0).cpu().numpy())


def write_png(path: Path, picture: NDArray[np.uint8]) -> None:
    """Writes a picture that is there whole or not at all, however the run ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    Image.fromarray(picture).save(content, format="png")
    replace_file(path, content.getvalue(), overwrite=False)


def score_one(fused: NDArray[np.uint8], sources: list[Path], reference: Path | None) -> list[list[float]]:
    """The figures by each protocol."""
    names = WITHOUT_TRUTH if reference is None else WITH_TRUTH
    truth = None if reference is None else read_picture(reference)
    pictures, found = [read_picture(path) for path in sources], []
    for protocol in PROTOCOLS:
        figures = score(fused, pictures, reference=truth, protocol=protocol, metrics=names)
        found.append([figures[name] for name in names])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--dataset", action="append", default=[])
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        network, header = load_network(arguments.weights, device=device)
    except InputError as error:
        parser.exit(2, f"{error}\n")
    print(f"{arguments.weights.name}: {header['kind']}, iteration {header['provenance']['iteration']}")
    fresh = multiprocessing.get_context("spawn")  # a copy of a process that has threads and a GPU may hang
    with concurrent.futures.ProcessPoolExecutor(mp_context=fresh) as pool:
        for name in arguments.dataset or ["lytro", "mffw", "real-mff", "mfi-whu"]:
            jobs = []
            for sample in find_dataset(name, arguments.data / name):
                kept = arguments.keep and arguments.keep / f"{arguments.weights.stem}-{name}-{sample.name}.png"
                if kept and kept.exists():
                    fused = read_picture(kept)
                else:
                    fused = fuse_pair(network, sample.sources, device)
                    if kept:
                        write_png(kept, fused)
                jobs.append(pool.submit(score_one, fused, list(sample.sources), sample.reference))
            for protocol, means in zip(PROTOCOLS, np.mean([job.result() for job in jobs], axis=0), strict=True):
                names = WITH_TRUTH if len(means) == 2 else WITHOUT_TRUTH
                cells = ", ".join(f"{metric} {value:.4f}" for metric, value in zip(names, means, strict=True))
                print(f"| {name} | {len(jobs)} pictures | {protocol} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
