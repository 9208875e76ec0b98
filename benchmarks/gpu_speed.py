"""How fast `ips` fuses on an NVIDIA GPU, and how far its picture is from that of the CPU path.

Run: python benchmarks/gpu_speed.py [--output FILE.json] [--stack FOLDER]
Prints milliseconds for a pair of 12 megapixels from arrays to arrays, beside the floor that the network's operations
set; and how far the picture of a scene is from that of the CPU. With --stack: the steps of ten 24-megapixel 16-bit TIFF
frames in FOLDER (rendered there if it is empty) from file to file.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from allfocus.benchmarking.network_cost import count_operations
from allfocus.fusion.learned import fuse_ips
from allfocus.fusion.settings import AS_CHOSEN
from allfocus.scenes.rendering import render_scene

PEAK_FLOPS = 989e12
"""Dense bfloat16 of an H200, from its data sheet."""


def pair_of(height: int, width: int) -> list[NDArray[np.float32]]:
    scene = render_scene("desk", frames=2, size=(height // 4, width // 4))
    return [np.tile(np.asarray(frame, np.float32), (4, 4, 1)) for frame in scene.frames]


def measure_pair(repeats: int = 10) -> dict[str, float]:
    height, width = 3000, 4000
    frames = pair_of(height, width)
    times = []
    for _ in range(repeats + 2):
        began = time.perf_counter()
        fuse_ips(frames, device="cuda")
        times.append(1e3 * (time.perf_counter() - began))
    times = sorted(times[2:])
    # Both frames compete everywhere at the most; margins of windows are left out.
    operations = 2 * height * width / AS_CHOSEN.scale(height, width) ** 2 * count_operations().per_pixel_and_source
    floor = 1e3 * operations / PEAK_FLOPS
    median = times[len(times) // 2]
    return {
        "median_ms": median,
        "best_ms": times[0],
        "gigaflop": operations / 1e9,
        "floor_ms": floor,
        "ratio_to_floor": median / floor,
    }


def measure_agreement() -> dict[str, float]:
    scene = render_scene("foliage", frames=4, size=(1600, 2000), bit_depth=16)
    expected, found = (fuse_ips(scene.frames, device=device) for device in ("cpu", "cuda"))

    def ratio(picture: NDArray[np.float32]) -> float:
        return float(-10 * np.log10(np.mean((picture - scene.truth) ** 2)))

    return {
        "share_beyond_one_level": float((np.abs(found.image - expected.image).max(axis=2) > 1 / 255).mean()),
        "share_decided_otherwise": float((found.decision != expected.decision).mean()),
        "cpu_psnr": ratio(expected.image),
        "gpu_psnr": ratio(found.image),
    }


def measure_stack(folder: Path) -> dict[str, object]:
    import tifffile

    from allfocus.stack.pipeline import fuse_files

    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("*.tif")):
        scene = render_scene("desk", frames=10, size=(1000, 1500), bit_depth=16, noise=0.002)
        for number, frame in enumerate(scene.frames):
            levels = np.rint(np.tile(frame, (4, 4, 1)) * 65535).astype(np.uint16)
            tifffile.imwrite(folder / f"frame_{number:03d}.tif", levels, photometric="rgb")
    fuse_files(folder, folder.parent / "warm.tif", align=False, device="cuda", overwrite=True)
    began = time.perf_counter()
    result = fuse_files(folder, folder.parent / "fused.tif", align=False, device="cuda", overwrite=True)
    return {"wall_s": round(time.perf_counter() - began, 2), **result.seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--stack", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no NVIDIA GPU here; this measures one")
    report: dict[str, object] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    report["pair of 12 megapixels"] = measure_pair()
    print(json.dumps(report["pair of 12 megapixels"]), flush=True)
    report["agreement with the CPU path"] = measure_agreement()
    if arguments.stack:
        report["ten 24-megapixel frames, seconds"] = measure_stack(arguments.stack)
    print(json.dumps(report, indent=2))
    if arguments.output:
        arguments.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
