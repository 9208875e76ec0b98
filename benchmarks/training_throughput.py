"""Training throughput of both networks on this machine's GPU, and the share of the time spent in the scan.

Run: python benchmarks/training_throughput.py PHOTOS  (a folder of photos; needs an NVIDIA GPU)
Prints one JSON object.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from allfocus.network.checkpoint import build_network
from allfocus.network.selective_scan import selective_scan, selective_scan_heads
from allfocus.training.photos import load_photos
from allfocus.training.recipe import read_recipe
from allfocus.training.samples import draw_batch
from allfocus.training.stepping import Stepper

RECIPES = Path(__file__).parent.parent / "recipes"


def milliseconds(work: Callable[[], object], repeats: int = 20) -> float:
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats * 1e3


def forward_and_backward(scan: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Callable[[], object]:
    leaves = [tensor.cuda().requires_grad_() for tensor in inputs]
    return lambda: scan(*leaves).sum().backward()


def measure(name: str, photos: Path, sources: int) -> dict[str, float]:
    recipe = read_recipe(RECIPES / f"{name}.toml")
    shuffle = dataclasses.replace(recipe.shuffle, sources=(sources,))
    batch, crop = recipe.data.batch, recipe.data.crop
    bank = load_photos(photos, smallest_side=crop + 54, device="cuda")
    network = build_network(recipe.stack_network if recipe.network == "ips" else recipe.paper_network).cuda()
    stepper = Stepper(network, recipe, world=1)
    sample = draw_batch(bank, shuffle, batch=batch, crop=crop, seed=0)
    seeds = iter(range(1, 10**6))
    drawing = milliseconds(lambda: draw_batch(bank, shuffle, batch=batch, crop=crop, seed=next(seeds)))
    step = milliseconds(lambda: stepper.step(sample, 0))
    if recipe.network == "ips":
        config = recipe.stack_network
        sequences, length, width = batch * sources, (crop // 8) ** 2, config.token_channels // config.heads
        x = torch.randn(sequences, length, config.heads, width)
        inputs = (x, torch.rand(sequences, length, config.heads), -torch.rand(config.heads) - 0.1)
        other = (torch.randn(sequences, length, config.state), torch.randn(sequences, length, config.state))
        work = forward_and_backward(selective_scan_heads, *inputs, *other, torch.ones(config.heads, width))
        blocks = config.mamba_blocks
    else:
        config = recipe.paper_network
        inner, length = 2 * config.source_channels * config.expansion, crop * crop
        x = torch.randn(batch, length, inner)
        inputs = (x, torch.rand(batch, length, inner), -torch.rand(inner, config.state) - 0.1)
        other = (torch.randn(batch, length, config.state), torch.randn(batch, length, config.state))
        work = forward_and_backward(selective_scan, *inputs, *other, torch.ones(inner))
        blocks = config.mamba_blocks
    scan = milliseconds(work) * blocks
    both = milliseconds(
        lambda: stepper.step(draw_batch(bank, shuffle, batch=batch, crop=crop, seed=next(seeds)), 0)
    )
    return {
        "batch": batch,
        "crop": crop,
        "sources": sources,
        "draw_ms": round(drawing, 2),
        "step_ms": round(step, 2),
        "draw_and_step_ms": round(both, 2),
        "samples_per_second": round(batch / both * 1e3, 1),
        "scan_ms": round(scan, 2),
        "scan_share_of_step": round(scan / step, 3),
    }


def main() -> None:
    photos = Path(sys.argv[1])
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, sources in (("ips", 2), ("ips", 4), ("ips-paper-short", 2)):
        result[f"{name} n={sources}"] = measure(name, photos, sources)
    x = torch.randn(16, 16384, 128)
    inputs = (x, torch.rand(16, 16384, 128), -torch.rand(128, 16) - 0.1, torch.randn(16, 16384, 16))
    arguments = (*inputs, torch.randn(16, 16384, 16), torch.ones(128))
    work = forward_and_backward(selective_scan, *arguments)
    gpu = [tensor.cuda() for tensor in arguments]
    result["scan 16x16384x128x16"] = {
        "forward_ms": round(milliseconds(lambda: selective_scan(*gpu)), 2),
        "forward_and_backward_ms": round(milliseconds(work), 2),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
