"""Kill fuse, align, batch and planes at random moments: after one more run all must be right and nothing left behind.

    python benchmarks/random_kills.py --count 200

Each command writes a small stack once, undisturbed. Then it is started again and again, killed with all its processes
(SIGKILL) at a random moment, half of them in the last fifth of its time, when files get their names, and started once
more. What is in the output folder must then be, byte for byte, what the undisturbed run left: nothing lost, mixed or
hidden. The exit code is 1 when anything was not.
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import allfocus

CHANGING = ("manifest.jsonl", "summary.csv", "contact_sheet.html", "report.html")
"""Files that hold times."""


def make_inputs(folder: Path) -> None:
    import tifffile

    frames = allfocus.render_scene("desk", frames=4, size=(96, 128)).frames
    (folder / "planes").mkdir(parents=True)
    for place in ("frames", *(f"shots/stack_{number}" for number in range(4))):
        (folder / place).mkdir(parents=True)
        for number, frame in enumerate(frames):
            allfocus.write_image(frame, folder / place / f"{number}.png")
    for number, frame in enumerate(frames):
        levels = np.rint(frame * 255).astype(np.uint8)
        tifffile.imwrite(folder / "planes" / f"{number}.tif", levels, photometric="rgb", tile=(64, 64))


def commands(folder: Path) -> dict[str, list[str]]:
    out = folder / "out"
    maps = ["--depth-map", out / "depth.png", "--decision-map", out / "decision.png", "--report", out / "report.html"]
    found = {
        "fuse": ["fuse", folder / "frames", "-o", out / "o.png", "--method", "dsift", "--slab", "2,1", *maps],
        "align": ["align", folder / "frames", "-o", out],
        "batch": ["batch", folder / "shots", "-o", out, "--method", "dsift", "--depth-maps", "--workers", "1"],
        "planes": ["batch", folder / "planes", "-o", out / "o.zarr", "--workers", "1"],
    }
    overwriting = ("fuse", "align", "planes")
    return {
        name: [
            sys.executable,
            "-m",
            "allfocus.cli",
            *map(str, words),
            *(["--overwrite"] if name in overwriting else []),
        ]
        for name, words in found.items()
    }


def contents(folder: Path) -> dict[str, bytes | None]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): None if path.name in CHANGING else path.read_bytes() for path in sorted(files)
    }


def run(words: list[str]) -> int:
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode


def kill_at(words: list[str], seconds: float) -> None:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def try_command(name: str, folder: Path, count: int, chance: random.Random) -> list[str]:
    """The moments after which something was wrong."""
    words, out = commands(folder)[name], folder / "out"
    out.mkdir()
    began = time.monotonic()
    if run(words):
        return [f"{name}: fails undisturbed"]
    whole = time.monotonic() - began
    right, wrong = contents(out), []
    for _ in range(count):
        if name == "batch":  # which finds everything done otherwise
            shutil.rmtree(out)
        moment = chance.uniform(0.8, 1.0) if chance.random() < 0.5 else chance.uniform(0.2, 1.02)
        kill_at(words, whole * moment)
        code, now = run(words), contents(out)
        if code or now != right:
            odd = sorted(file for file in {*now, *right} if now.get(file, 0) != right.get(file, 0))
            wrong.append(f"{name}: killed after {whole * moment:.3f} s of {whole:.3f}: exit code {code}, {odd[:6]}")
    shutil.rmtree(out)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="kills of each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["fuse", "align", "batch", "planes"])
    options = parser.parse_args()
    chance, failures = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as place:
        make_inputs(Path(place))
        for name in commands(Path(place)):
            if options.only in (None, name):
                wrong = try_command(name, Path(place), options.count, chance)
                print(f"{name}: {options.count} kills, {len(wrong)} wrong", flush=True)
                failures += wrong
    print("\n".join(failures))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
