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

from allfocus.network.selective_scan import selective_scan, selective_scan_heads
from allfocus.training.photos import load_photos
from allfocus.training.recipe import Recipe, read_recipe
from allfocus.training.samples import margin_around
from allfocus.training.stepping import Stepper
from allfocus.training.trainees import build_trainee

RECIPES = Path(__file__).parent.parent / "recipes"
SETTINGS = {"ips": ["data.levels=[3]"], "ips-paper-short": [], "ips-paper-million": []}
"""What is changed of the recipes: `ips` with all its levels in every step."""


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

    def work() -> object:
        return torch.autograd.grad(scan(*leaves).sum(), leaves)

    return work


def measure(name: str, photos: Path, sources: int) -> dict[str, float]:
    recipe = read_recipe(RECIPES / f"{name}.toml", SETTINGS[name])
    recipe = dataclasses.replace(recipe, shuffle=dataclasses.replace(recipe.shuffle, sources=(sources,)))
    batch, crop = recipe.data.batch, recipe.data.crop
    bank = load_photos(photos, smallest_side=crop + 2 * margin_around(recipe.shuffle), device="cuda")
    network = build_trainee(recipe).cuda()
    stepper = Stepper(network, recipe, bank, rank=0, world=1)
    step = milliseconds(lambda: stepper.step(0))
    drawing = milliseconds(graphed(lambda: stepper._draw(sources), stepper.generator))
    blocks, inputs = scan_inputs(recipe, sources)
    scan = selective_scan_heads if recipe.network == "ips" else selective_scan
    scanning = milliseconds(graphed(forward_and_backward(scan, *inputs))) * blocks
    return {
        "batch": batch,
        "crop": crop,
        "sources": sources,
        "step_ms": round(step, 2),
        "samples_per_second": round(batch / step * 1e3, 1),
        "drawing_ms": round(drawing, 2),
        "scan_ms": round(scanning, 2),
        "scan_share_of_step": round(scanning / step, 3),
    }


def scan_inputs(recipe: Recipe, sources: int) -> tuple[int, tuple[torch.Tensor, ...]]:
    """Returns how often a step scans and random inputs of the shape it scans."""
    batch, crop = recipe.data.batch, recipe.data.crop
    if recipe.network == "ips":
        stack = recipe.stack_network
        # Only the coarsest level scans.
        count, length = batch * sources, (crop // 2 ** (max(recipe.data.levels) - 1) // 8) ** 2
        heads, width, state = stack.heads, stack.token_channels // stack.heads, stack.state
        x, step, decay = torch.randn(count, length, heads, width), torch.rand(count, length, heads), torch.rand(heads)
        skip, blocks = torch.ones(heads, width), stack.mamba_blocks
    else:
        paper = recipe.paper_network
        count, length, state = batch, crop * crop, paper.state
        inner = 2 * paper.source_channels * paper.expansion
        x, step, decay = torch.randn(count, length, inner), torch.rand(count, length, inner), torch.rand(inner, state)
        skip, blocks = torch.ones(inner), paper.mamba_blocks
    enter, leave = torch.randn(count, length, state), torch.randn(count, length, state)
    if recipe.network == "ips-paper" and recipe.optimizer.precision == "bfloat16":
        x, step, enter, leave = (tensor.bfloat16() for tensor in (x, step, enter, leave))
    return blocks, (x, step, -decay - 0.1, enter, leave, skip)


def graphed(work: Callable[[], object], generator: torch.Generator | None = None) -> Callable[[], object]:
    """Returns `work` as a CUDA graph, so that the GPU's time is measured and not the launching."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    if generator is not None:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def main() -> None:
    photos = Path(sys.argv[1])
    result: dict[str, object] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, sources in (("ips", 2), ("ips", 4), ("ips-paper-short", 2), ("ips-paper-million", 2)):
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
