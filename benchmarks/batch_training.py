"""Training throughput with 1 and 2 processes on this machine, by torchrun, and how well it scales.

Run: python benchmarks/batch_training.py [FOLDER] [--processes 1 --processes 2] [--device cpu]
Renders a few photos into FOLDER (or a temporary one), trains the default network for some iterations with each number
of processes, each with one thread, and prints one JSON object: samples per second over all processes, from the log.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from allfocus.images.writing import write_image
from allfocus.scenes.rendering import render_scene

RECIPE = Path(__file__).parent.parent / "recipes" / "ips.toml"
SETTINGS = (
    "data.licence_classes=[]",
    "data.held_out_every=0",
    "data.crop=96",
    "data.batch=4",
    "shuffle.sources=[2]",
    "optimizer.iterations=12",
    "optimizer.precision=float32",
    "log.report_every=1",
    "log.checkpoint_every=100",
    "log.validate_every=0",
)
"""The default network on small crops; every process has a batch of its own."""


def train(photos: Path, run: Path, processes: int, device: str) -> float:
    """Returns samples per second over all processes in the fastest iteration: the one least disturbed by others."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    command += ["-m", "allfocus.cli", "train", str(photos), "--recipe", str(RECIPE), "-o", str(run), "--device", device]
    for setting in SETTINGS:
        command += ["--set", setting]
    subprocess.run(
        command,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with (run / "log.csv").open(newline="") as file:
        rates = [float(row["images_per_second"]) for row in csv.DictReader(file)]
    return max(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--processes", type=int, action="append")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        photos = folder / "photos"
        photos.mkdir(parents=True, exist_ok=True)
        for number, name in enumerate(("desk", "foliage", "circuit")):
            truth = render_scene(name, frames=2, size=(320, 400), seed=number).truth
            write_image(truth, photos / f"{name}.png", overwrite=True)
        counts = arguments.processes or [1, 2]
        rates = {count: train(photos, Path(temporary) / f"run_{count}", count, arguments.device) for count in counts}
    first = counts[0]
    print(
        json.dumps(
            {
                "cores": os.cpu_count(),
                "device": arguments.device,
                "samples_per_second": {str(count): round(rate, 2) for count, rate in rates.items()},
                "efficiency": {
                    str(count): round(rate / rates[first] * first / count, 3) for count, rate in rates.items()
                },
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
