"""How well a network does on held-out photos while it trains, in figures and in pictures."""

import dataclasses
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from allfocus.network.stack_network import combine_bands
from allfocus.training.photos import PhotoBank
from allfocus.training.recipe import Recipe
from allfocus.training.samples import Batch, ShuffleRecipe, draw_batch

KINDS = ("pixel", "blob", "moved", "graded", "layered")
_VALIDATION_SEED = 1 << 61


def validate(network: nn.Module, bank: PhotoBank, recipe: Recipe) -> dict[str, float]:
    """Returns the mean peak signal-to-noise ratio in dB of each kind of sample the recipe has, on fixed samples."""
    figures = {}
    for name, shuffle in _validation_recipes(recipe.shuffle).items():
        batch = draw_batch(
            bank, shuffle, batch=recipe.log.validation_samples, crop=recipe.data.crop, seed=_VALIDATION_SEED
        )
        fused = fuse_batch(network, batch)
        error = ((fused - batch.target) ** 2).mean((1, 2, 3))
        # A sample without any error would make the mean infinite; 100 dB is below half a level of 16 bits.
        figures[name] = float((-10 * torch.log10(error.clamp(min=1e-10))).mean())
    return figures


def fuse_batch(network: nn.Module, batch: Batch) -> Tensor:
    """Returns the fused pictures (batch, 3, height, width) of either network, without gradients."""
    with torch.no_grad():
        outputs = [network(frames[None]) for frames in batch.frames]
    output = torch.cat(outputs)
    return combine_bands(batch.frames, output) if output.dim() == 5 else output


def write_preview(network: nn.Module, bank: PhotoBank, recipe: Recipe, path: Path) -> None:
    """Writes a PNG with one row per kind of sample: the sources, the fused picture, the target."""
    rows = []
    for shuffle in _validation_recipes(recipe.shuffle).values():
        batch = draw_batch(bank, shuffle, batch=1, crop=recipe.data.crop, seed=_VALIDATION_SEED)
        fused = fuse_batch(network, batch)
        rows.append(torch.cat([*batch.frames[0], fused[0], batch.target[0]], dim=2))
    pixels = torch.cat(rows, dim=1).clamp(0, 1).mul(255).round().byte().permute(1, 2, 0).cpu()
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels)).save(path)


def _validation_recipes(shuffle: ShuffleRecipe) -> dict[str, ShuffleRecipe]:
    sources = (shuffle.sources[0],)
    if shuffle.mask != "multi-scale":
        return {"shuffled": dataclasses.replace(shuffle, sources=sources)}
    kinds = [kind for kind in KINDS if getattr(shuffle, kind) > 0]
    none = dict.fromkeys(KINDS, 0.0)
    return {kind: dataclasses.replace(shuffle, sources=sources, **(none | {kind: 1.0})) for kind in kinds}
