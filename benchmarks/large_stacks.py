"""Peak memory and time of `allfocus fuse` on 24-megapixel 16-bit stacks of growing length.

Run: python benchmarks/large_stacks.py FOLDER [--frames 8 --frames 40] [--no-align]
FOLDER takes 144 MB per frame and is left as it is afterwards. Prints one Markdown row per length, from the child's own
resource usage, and the ratio of the peaks. The frames are a rendered scene repeated 4 x 4, all in different focus.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import tifffile

from allfocus.scenes.rendering import render_scene

HEIGHT, WIDTH = 4000, 6000


def render_frames(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if len(list(folder.glob("*.tif"))) == count:
        return
    scene = render_scene("desk", frames=count, size=(HEIGHT // 4, WIDTH // 4), bit_depth=16, noise=0.002)
    for number, frame in enumerate(scene.frames):
        levels = np.rint(np.tile(frame, (4, 4, 1)) * 65535).astype(np.uint16)
        tifffile.imwrite(folder / f"frame_{number:03d}.tif", levels, photometric="rgb")


def measure(folder: Path, output: Path, options: list[str]) -> tuple[float, float, float]:
    """Returns peak megabytes, CPU seconds and wall seconds of one run of the command."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "allfocus.cli", "fuse", str(folder), "-o", str(output), "--overwrite", *options]
    child = subprocess.Popen(command)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"allfocus fuse ended with status {status}")
    return usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--frames", type=int, action="append", default=None)
    parser.add_argument("--no-align", action="store_true")
    arguments = parser.parse_args()
    options = ["--no-align"] if arguments.no_align else []
    print("| frames of 24 megapixels | peak MB | CPU s | wall s |\n|---|---|---|---|")
    peaks = []
    for count in arguments.frames or [8, 40]:
        folder = arguments.folder / f"frames_{count}"
        render_frames(folder, count)
        peak, processor, wall = measure(folder, arguments.folder / f"fused_{count}.tif", options)
        peaks.append(peak)
        print(f"| {count} | {peak:.0f} | {processor:.0f} | {wall:.0f} |", flush=True)
    print(f"largest over smallest peak: {max(peaks) / min(peaks):.3f}")


if __name__ == "__main__":
    main()
