"""How near the develop of a fused DNG comes to the fusion of developed frames: bursts of a rendered sensor.

    python benchmarks/dng_fidelity.py [--noise 0.002]

Noise is how far a developed frame is from what was rendered: that of the sensor, and the errors of demosaicing. The DNG
is developed by LibRaw, and by dcraw where it is installed.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

import tifffile
from rendered_sensor import decibels, develop, to_light, write_dng

import allfocus

SCENES = ("desk", "insect", "foliage", "circuit", "slope")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", type=float, default=0.002, help="standard deviation, 1 at full exposure")
    options = parser.parse_args()
    print("| scene | noise of a frame | DNG developed - frames developed | DNG - truth | frames - truth | dcraw |")
    print("|---|---|---|---|---|---|")
    for name in SCENES:
        with tempfile.TemporaryDirectory() as place:
            print(compare(name, Path(place), options.noise), flush=True)


def compare(name: str, folder: Path, noise: float) -> str:
    """One row of the table, in decibels."""
    scene = allfocus.render_scene(name, frames=6, size=(480, 640))
    paths = [write_dng(folder / f"{n}.dng", frame, noise=noise, seed=n) for n, frame in enumerate(scene.frames)]
    for ending in ("dng", "tif"):
        allfocus.fuse_files(paths, folder / f"fused.{ending}", align=False)
    developed, direct = develop(folder / "fused.dng"), allfocus.read_image(folder / "fused.tif").pixels
    cells = [
        decibels(allfocus.read_image(paths[0]).pixels, scene.frames[0]),
        decibels(developed, direct),
        decibels(developed, scene.truth),
        decibels(direct, scene.truth),
    ]
    other = "not installed"
    if (dcraw := shutil.which("dcraw")) is not None:
        made = subprocess.run(
            [dcraw, "-w", "-W", "-4", "-T", "-c", folder / "fused.dng"], capture_output=True, check=True
        )
        (folder / "dcraw.tif").write_bytes(made.stdout)
        other = f"{decibels(tifffile.imread(folder / 'dcraw.tif') / 65535, to_light(developed)):.1f}"
    return f"| {name} | " + " | ".join(f"{cell:.1f}" for cell in cells) + f" | {other} |"


if __name__ == "__main__":
    main()
