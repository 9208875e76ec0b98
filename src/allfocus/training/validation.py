"""How well a network does on held-out photos while it trains, in figures and in pictures."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from allfocus.network.decision import blend_unveiled
from allfocus.network.stack_network import StackNetwork
from allfocus.rivals.learning import Objective
from allfocus.training.batches import Batch
from allfocus.training.photos import PhotoBank
from allfocus.training.recipe import Recipe
from allfocus.training.samples import draw_batch
from allfocus.training.shuffle_recipe import KINDS, ShuffleRecipe

_VALIDATION_SEED = 1 << 61


def validate(network: nn.Module, bank: PhotoBank, recipe: Recipe) -> dict[str, float]:
    """Returns the mean peak signal-to-noise ratio in dB of each kind of sample the recipe has, on fixed samples."""
    figures = {}
    for name, shuffle in validation_recipes(recipe.shuffle).items():
        batch = _draw_fixed(bank, shuffle, recipe.log.validation_samples, recipe.data.crop)
        fused = fuse_batch(network, batch, levels=max(recipe.data.levels))
        error = ((fused - batch.target) ** 2).mean((1, 2, 3))
        # A sample without any error would make the mean infinite; 100 dB is below half a level of 16 bits.
        figures[name] = float((-10 * torch.log10(error.clamp(min=1e-10))).mean())
    return figures


def fuse_batch(network: nn.Module, batch: Batch, *, levels: int = 1) -> Tensor:
    """Returns the fused pictures (batch, 3, height, width) of a network, without gradients."""
    with torch.no_grad():
        if isinstance(network, Objective):
            return torch.cat([network.fuse(frames[None]) for frames in batch.frames])
        if not isinstance(network, StackNetwork):
            return torch.cat([network(frames[None]) for frames in batch.frames])
        return torch.cat([_fuse_stack(network, frames[None], levels) for frames in batch.frames])


def _fuse_stack(network: StackNetwork, frames: Tensor, levels: int) -> Tensor:
    *_, (_, decision) = network.levels(frames, levels)
    return blend_unveiled(frames, decision)


def write_preview(network: nn.Module, bank: PhotoBank, recipe: Recipe, path: Path) -> None:
    """Writes a PNG with one row per kind of sample: the sources, the fused picture, the target."""
    rows = []
    for shuffle in validation_recipes(recipe.shuffle).values():
        batch = _draw_fixed(bank, shuffle, 1, recipe.data.crop)
        fused = fuse_batch(network, batch, levels=max(recipe.data.levels))
        rows.append(torch.cat([*batch.frames[0], fused[0], batch.target[0]], dim=2))
    pixels = torch.cat(rows, dim=1).clamp(0, 1).mul(255).round().byte().permute(1, 2, 0).cpu()
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels)).save(path)


def _draw_fixed(bank: PhotoBank, shuffle: ShuffleRecipe, samples: int, crop: int) -> Batch:
    generator = torch.Generator(bank.device).manual_seed(_VALIDATION_SEED)
    return draw_batch(bank, shuffle, batch=samples, crop=crop, sources=shuffle.sources[0], generator=generator)


def validation_recipes(shuffle: ShuffleRecipe) -> dict[str, ShuffleRecipe]:
    """Returns a recipe for each kind of sample alone, by name."""
    sources = (shuffle.sources[0],)
    if shuffle.mask != "multi-scale":
        return {"shuffled": dataclasses.replace(shuffle, sources=sources)}
    kinds = [kind for kind in KINDS if getattr(shuffle, kind) > 0]
    none: dict[str, Any] = dict.fromkeys(KINDS, 0.0)
    return {kind: dataclasses.replace(shuffle, sources=sources, **(none | {kind: 1.0})) for kind in kinds}
