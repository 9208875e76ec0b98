"""How fast `ips` fuses on an NVIDIA GPU, and how far that is from what the hardware allows.

Run: python benchmarks/gpu_speed.py [--output FILE.json] [--compile] [--stack FOLDER]
Prints, for a 12-megapixel pair from GPU memory to GPU memory: milliseconds (median of many replays of the CUDA graph,
measured by CUDA events), the floor from the operations and the bytes that must be moved, and the ratio. With --stack:
the steps of ten 24-megapixel 16-bit TIFF frames in FOLDER (rendered there if it is empty) from file to file. Also how
far the picture is from that of the CPU path.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from allfocus.fusion import gpu
from allfocus.fusion.frame_source import MemorySource
from allfocus.fusion.learned import fuse_area, plan_fusion
from allfocus.scenes.rendering import render_scene

PEAK_FLOPS = 989e12
"""Dense bfloat16 of an H200, from its data sheet."""
PEAK_BYTES = 4.8e12
"""Bytes per second of its memory, from its data sheet."""
FLOP_PER_PIXEL = 44e3
"""Of the network, per pixel and source."""


def pair_of(height: int, width: int) -> torch.Tensor:
    scene = render_scene("desk", frames=2, size=(height // 4, width // 4))
    levels = np.rint(np.stack(scene.frames) * 255).astype(np.uint8)
    return torch.from_numpy(np.tile(levels, (1, 4, 4, 1))).permute(0, 3, 1, 2).contiguous()


def milliseconds(work, repeats: int = 50) -> list[float]:
    times = []
    for _ in range(repeats + 5):
        began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        began.record()
        work()
        ended.record()
        torch.cuda.synchronize()
        times.append(began.elapsed_time(ended))
    return sorted(times[5:])


def count_traffic(network: torch.nn.Module, pixels: int, sources: int) -> float:
    """Returns the bytes that the layers read and write in bfloat16, each once, for so many pixels and sources."""
    moved = 0

    def note(_, inputs, output) -> None:
        nonlocal moved
        moved += 2 * (sum(tensor.numel() for tensor in inputs) + output.numel())

    kinds = (torch.nn.Conv2d, torch.nn.Linear)
    hooks = [part.register_forward_hook(note) for part in network.modules() if isinstance(part, kinds)]
    with torch.no_grad():
        network(torch.zeros(1, 2, 3, 256, 256, device=next(network.parameters()).device))
    for hook in hooks:
        hook.remove()
    return moved / (2 * 256 * 256) * pixels * sources


def measure_pair(compiled: bool) -> dict[str, float]:
    height, width = 3000, 4000
    frames = pair_of(height, width).cuda()
    network = gpu.load_shipped("cuda")
    fusion = gpu.TensorFusion(tuple(frames.shape), torch.uint8, network=torch.compile(network) if compiled else None)
    times = milliseconds(lambda: fusion(frames))
    windows = sum(len(batch.tasks) for batch in fusion._batches)
    rows, columns = fusion._batches[0].tasks[0].area
    seen = windows * (rows.stop - rows.start) * (columns.stop - columns.start)
    seen += height * width // 4 // fusion._factor**2
    operations = 2 * seen * FLOP_PER_PIXEL
    traffic = count_traffic(network, seen, 2) + height * width * (2 * 3 + 3 * 4 + 2 + 4 + 4)
    floor = 1e3 * max(operations / PEAK_FLOPS, traffic / PEAK_BYTES)
    return {
        "compiled": compiled,
        "median_ms": times[len(times) // 2],
        "best_ms": times[0],
        "floor_ms": floor,
        "ratio_to_floor": times[len(times) // 2] / floor,
        "gigaflop": operations / 1e9,
        "gigabytes": traffic / 1e9,
    }


def measure_agreement() -> dict[str, float]:
    scene = render_scene("foliage", frames=4, size=(1600, 2000), bit_depth=16)
    source = MemorySource(scene.frames)
    plan = plan_fusion(source, device="cpu")
    expected = fuse_area(plan, source, (slice(0, 1600), slice(0, 2000)), device="cpu")
    image, decision, _, _ = gpu.fuse_on_gpu(plan, source)

    def ratio(picture) -> float:
        return float(-10 * np.log10(np.mean((picture - scene.truth) ** 2)))

    return {
        "share_beyond_one_level": float((np.abs(image - expected.image).max(axis=2) > 1 / 255).mean()),
        "share_decided_otherwise": float((decision != expected.decision).mean()),
        "cpu_psnr": ratio(expected.image),
        "gpu_psnr": ratio(image),
    }


def measure_stack(folder: Path) -> dict[str, object]:
    import tifffile

    from allfocus.pipeline import fuse_files

    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("*.tif")):
        scene = render_scene("desk", frames=10, size=(1000, 1500), bit_depth=16, noise=0.002)
        for number, frame in enumerate(scene.frames):
            levels = np.rint(np.tile(frame, (4, 4, 1)) * 65535).astype(np.uint16)
            tifffile.imwrite(folder / f"frame_{number:03d}.tif", levels, photometric="rgb")
    fuse_files(folder, folder.parent / "warm.tif", align=False, device="cuda", overwrite=True)
    began = time.perf_counter()
    result = fuse_files(folder, folder.parent / "fused.tif", align=False, device="cuda", overwrite=True)
    wall = time.perf_counter() - began
    torch.cuda.synchronize()
    return {"wall_s": round(wall, 2), **result.seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--stack", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no NVIDIA GPU here; this measures one")
    report: dict[str, object] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    report["pair of 12 megapixels"] = measure_pair(False)
    print(json.dumps(report["pair of 12 megapixels"]), flush=True)
    if arguments.compile:
        report["the same, compiled"] = measure_pair(True)
    report["agreement with the CPU path"] = measure_agreement()
    if arguments.stack:
        report["ten 24-megapixel frames, seconds"] = measure_stack(arguments.stack)
    print(json.dumps(report, indent=2))
    if arguments.output:
        arguments.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
