"""Thin things that blur to nothing: PSNR within their mask and over the whole picture, our methods and peers.

Run: python benchmarks/thin_things.py [--method ips ...] [--peer enfuse ...] [--size 1600x1200] [--frames 40]
Renders the scene "legs" with seed 11: 40 frames of 1600 x 1200, blur to a radius of 60 pixels. Every method that takes
so many frames runs on them in memory; peers run on the same frames as PNG where they are installed (enfuse,
focus-stack, shinestacker), otherwise a line says what is missing. PSNR over the three channels, results rounded to
8 bits. Prints one Markdown row each as it is ready, and all of them again, the best within the mask first. Takes 5 GB
of memory and 12 minutes on two cores, of which dsift takes nine.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from method_names import check_method
from numpy.typing import NDArray
from rivals.peers import PEERS

import allfocus
from allfocus.benchmarking.inputs import RenderedStack, StackRecipe
from allfocus.benchmarking.tools import find_peer_modes
from allfocus.errors import AllfocusError
from allfocus.images.writing import to_integers
from allfocus.scenes.rendering import Scene, render_scene

SEED = 11
Levels = NDArray[np.uint8]


def decibels(fused: Levels, truth: Levels, mask: NDArray[np.bool_]) -> float:
    """PSNR over the pixels of a mask."""
    difference = fused[mask].astype(np.float64) - truth[mask]
    return float(20 * np.log10(255 / np.sqrt(np.mean(difference**2))))


def print_row(name: str, fused: Levels, scene: Scene, seconds: float) -> tuple[float, str]:
    """Prints what a method reached, so that nothing is lost when a later one fails; returns it for the sorted table."""
    truth = to_integers(scene.truth, 8)
    within, whole = (decibels(fused, truth, mask) for mask in (scene.thin_things, np.ones_like(scene.thin_things)))
    row = f"| `{name}` | {within:.2f} | {whole:.2f} | {seconds:.0f} |"
    print(row, flush=True)
    return within, row


def run_methods(names: list[str], scene: Scene) -> list[tuple[float, str]]:
    rows = []
    frames = [to_integers(frame, 8) for frame in scene.frames]
    for name in names:
        began = time.perf_counter()
        try:
            fused = allfocus.fuse(frames, method=name).image
        except AllfocusError as error:
            print(f"| `{name}` | error: {error} | | |", flush=True)
            continue
        rows.append(print_row(name, fused, scene, time.perf_counter() - began))
    return rows


def run_peers(names: list[str], scene: Scene) -> list[tuple[float, str]]:
    modes, missing = find_peer_modes(PEERS, names)
    for name, reason in missing.items():
        print(f"skipped {name}: {reason}", flush=True)
    rows = []
    height, width = scene.truth.shape[:2]
    recipe = StackRecipe("legs", "thin things", "legs", len(scene.frames), (height, width))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "frames")
        folder.mkdir()
        frames = tuple(
            allfocus.write_image(frame, folder / f"frame_{number:02d}.png") for number, frame in enumerate(scene.frames)
        )
        stack = RenderedStack(recipe, folder, frames, ())
        for number, mode in enumerate(mode for mode in modes if mode.suits(recipe)):
            work, output = Path(place, f"work{number}"), Path(place, f"fused{number}.tif")
            work.mkdir()
            began = time.perf_counter()
            for command in mode.commands(stack, output, work):
                done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=work)
                if done.returncode:
                    break
            if done.returncode or not output.is_file():
                print(f"| `{mode.name}` | error: {(done.stderr or done.stdout).strip()[-200:]} | | |", flush=True)
                continue
            fused = to_integers(allfocus.read_image(output).pixels, 8)
            if fused.shape != scene.truth.shape:  # one that always aligns may crop
                print(f"| `{mode.name}` | error: its result is {fused.shape[1]}x{fused.shape[0]} | | |", flush=True)
                continue
            rows.append(print_row(mode.name, fused, scene, time.perf_counter() - began))
    return rows


def main() -> None:
    able = [method.name for method in allfocus.list_methods() if not method.extra]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--method",
        action="append",
        type=check_method,
        help="a method, or a network's .onnx file; all that can by default",
    )
    parser.add_argument(
        "--peer", action="append", default=[], help="a peer, or none; all that are installed by default"
    )
    parser.add_argument("--size", default="1600x1200", help="width x height; widths and blur shrink with it")
    parser.add_argument("--frames", type=int, default=40)
    arguments = parser.parse_args()
    width, height = (int(side) for side in arguments.size.split("x"))
    scene = render_scene("legs", frames=arguments.frames, size=(height, width), seed=SEED)
    print(f"{arguments.frames} frames of {width}x{height}, thin things on {100 * scene.thin_things.mean():.1f} %\n")
    header = "| method | within the mask, dB | whole picture, dB | s |\n|---|---|---|---|"
    print(header)
    rows = run_methods(arguments.method or able, scene) + run_peers(arguments.peer, scene)
    print("\nsorted:\n", header, *(row for _, row in sorted(rows, reverse=True)), sep="\n")


if __name__ == "__main__":
    main()
