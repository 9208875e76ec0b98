"""Batches for training: sharp crops, blurred, shuffled and treated as real pictures are, all on the device.

The kinds of samples and their shares are in :mod:`.shuffle_recipe`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from allfocus.network.veils import GAMMA
from allfocus.training.batches import Batch, dim_light, end_early
from allfocus.training.blurring import (
    MARGIN,
    SOFTEST_PICTURE,
    WIDE_MARGIN,
    coarsen,
    disk_kernels,
    draw_fields,
    draw_softness,
    filter_pictures,
    gaussian_kernels,
    lens_blur,
    mean_kernels,
    median_filter,
    remap_borders,
    soften,
)
from allfocus.training.degradation import affine_grid, compress_jpeg
from allfocus.training.focus_stacks import LARGEST_RADIUS, draw_focus_stacks
from allfocus.training.inter_image_shuffle import (
    draw_mask,
    order_fields,
    sharp_source,
    shuffle_pair,
    shuffle_versions,
)
from allfocus.training.photos import PhotoBank
from allfocus.training.shuffle_recipe import ShuffleRecipe, split_shares

MOVE_MARGIN = 12
"""Extra pixels around a sample of kind `moved`."""
BLUR_STEPS = 7
"""Blur levels between which `graded` samples interpolate."""
HALVED_SHARE = 0.4
"""Share of the crops that are taken at half scale."""
UNEVEN_NOISE_SHARE = 0.3
"""Share of the noisy samples in which each source has noise of its own strength."""
LARGEST_NOISE_FACTOR = 4.0
"""By how much more of it one of them has than another, at the most."""
GRAINY_SHARE = 0.5
"""Share of the noisy samples whose noise is coarser than a pixel."""
COARSEST_GRAIN = 1.0
"""Standard deviation in pixels of the Gaussian that makes it so, at most."""
KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": mean_kernels,
    "gaussian": gaussian_kernels,
    "disk": lambda sizes: disk_kernels(sizes / 2),
}
"""The linear filters of a recipe: odd kernel sizes (batch,) -> kernels (batch, 31, 31)."""


def draw_batch(
    bank: PhotoBank, recipe: ShuffleRecipe, *, batch: int, crop: int, sources: int, generator: torch.Generator
) -> Batch:
    """Returns one batch with `sources` frames per sample; everything random in it comes from `generator`.

    Only tensor operations of fixed shape, so that on a GPU a CUDA graph can replay the drawing with the training step
    (the median filter is the exception: its size is a number of this process).
    """
    if recipe.mask != "multi-scale":
        return _draw_pairs(bank, recipe, batch, crop, generator)
    parts = []
    for kind, count in split_shares(recipe, batch).items():
        if not count:
            continue
        if kind == "graded":
            parts.append(_draw_graded(bank, recipe, count, sources, crop, generator))
        elif kind == "stack":
            parts.append(_draw_stacks(bank, recipe, count, sources, crop, generator))
        else:
            draw = _draw_moved if kind == "moved" else _draw_shuffled
            parts.append(_degrade(draw(bank, recipe, kind, count, sources, crop, generator), recipe, generator))
    return end_early(dim_light(Batch.join(parts), generator), recipe.ended, generator)


def margin_around(recipe: ShuffleRecipe) -> int:
    """Returns the pixels that must lie around a crop, on each side, for the widest blur and the largest movement."""
    wide = recipe.mask == "multi-scale" and recipe.graded + recipe.stack > 0
    return (WIDE_MARGIN if wide else MARGIN) + MOVE_MARGIN


def _draw_crops(bank: PhotoBank, count: int, size: int, generator: torch.Generator) -> Tensor:
    """Crops, most at full scale, some from twice the size and halved, which makes soft photos sharp."""
    halved = round(HALVED_SHARE * count) if 2 * size <= bank.smallest_side else 0
    crops = bank.crop(count - halved, (size, size), generator)
    if not halved:
        return crops
    large = functional.avg_pool2d(bank.crop(halved, (2 * size, 2 * size), generator), 2)
    return torch.cat([crops, large])


def _soften(photos: Tensor, recipe: ShuffleRecipe, generator: torch.Generator) -> Tensor:
    """Makes a share of the photos a little soft: reduced for training, all of them are sharper than cameras are."""
    if not recipe.soft:
        return photos
    return soften(photos, draw_softness(len(photos), recipe.soft, generator))


def _draw_kernels(recipe: ShuffleRecipe, count: int, generator: torch.Generator) -> Tensor:
    """One kernel per sample, filter and odd size drawn from the recipe."""
    device = generator.device
    choices = (recipe.largest_kernel - recipe.smallest_kernel) // 2 + 1
    sizes = recipe.smallest_kernel + 2.0 * torch.randint(choices, (count,), generator=generator, device=device)
    kernels = [KERNELS[name](sizes) for name in recipe.filters]
    which = torch.randint(len(kernels), (count,), generator=generator, device=device)
    return torch.stack(kernels, dim=1)[torch.arange(count, device=device), which]


def _draw_pairs(bank: PhotoBank, recipe: ShuffleRecipe, batch: int, crop: int, generator: torch.Generator) -> Batch:
    """The paper's samples: one sharp and one filtered version, equation (2), random order of the two."""
    padded = bank.crop(batch, (crop + 2 * MARGIN, crop + 2 * MARGIN), generator)
    sharp = padded[..., MARGIN:-MARGIN, MARGIN:-MARGIN]
    if recipe.filters == ("median",):
        choices = (recipe.largest_kernel - recipe.smallest_kernel) // 2 + 1
        choice = int(torch.randint(choices, (1,), generator=generator, device=bank.device))
        size = recipe.smallest_kernel + 2 * choice
        blurred = median_filter(padded, size)
    else:
        blurred = filter_pictures(padded, _draw_kernels(recipe, batch, generator))
    shape = (batch, 3, crop, crop)
    mask = draw_mask(shape, recipe.swap_probability, per_channel=recipe.mask == "channel", generator=generator)
    first, second = shuffle_pair(sharp, blurred, mask)
    swap = torch.rand(batch, 1, 1, 1, generator=generator, device=bank.device) < 0.5
    frames = torch.stack([torch.where(swap, second, first), torch.where(swap, first, second)], dim=1)
    label = torch.where(swap[:, 0], mask[:, 0] > 0, mask[:, 0] == 0).long()
    trust = torch.zeros(batch, device=bank.device)
    return Batch(frames, sharp.contiguous(), label, trust, _no_veil(frames), torch.ones_like(frames[:, :, :1]))


def _draw_versions(
    bank: PhotoBank,
    recipe: ShuffleRecipe,
    count: int,
    sources: int,
    size: int,
    generator: torch.Generator,
) -> Tensor:
    """Sharp crops and n - 1 blurred versions (count, n, 3, size, size), each blurred in its own way."""
    device = bank.device
    padded = _soften(_draw_crops(bank, count, size + 2 * MARGIN, generator), recipe, generator)
    sharp = padded[..., MARGIN:-MARGIN, MARGIN:-MARGIN]
    treated = torch.rand(count, generator=generator, device=device) < recipe.borders
    modes = torch.where(treated, torch.randint(1, 4, (count,), generator=generator, device=device), 0)
    sides = torch.rand(count, 4, generator=generator, device=device) < 0.75
    kernels = torch.unflatten(_draw_kernels(recipe, count * (sources - 1), generator), 0, (count, sources - 1))
    blurred = filter_pictures(remap_borders(padded, modes, sides), kernels)
    return torch.cat([sharp[:, None], blurred], dim=1)


def _draw_shuffled(
    bank: PhotoBank,
    recipe: ShuffleRecipe,
    kind: str,
    count: int,
    sources: int,
    crop: int,
    generator: torch.Generator,
) -> Batch:
    versions = _draw_versions(bank, recipe, count, sources, crop, generator)
    guide = versions[:, 0] if kind == "blob" else None
    order = order_fields(count, sources, (crop, crop), granularity=kind, generator=generator, guide=guide)
    frames = shuffle_versions(versions, order)
    # A flat spot of a pixel-shuffled picture cannot be told, so its label is no more than a hint.
    trust = torch.full((count,), 1.0 if kind == "blob" else 0.25, device=bank.device)
    gain = torch.ones_like(frames[:, :, :1])
    return Batch(frames, versions[:, 0], sharp_source(order), trust, _no_veil(frames), gain)


def _draw_moved(
    bank: PhotoBank,
    recipe: ShuffleRecipe,
    kind: str,
    count: int,
    sources: int,
    crop: int,
    generator: torch.Generator,
) -> Batch:
    size = crop + 2 * MOVE_MARGIN
    versions = _draw_versions(bank, recipe, count, sources, size, generator)
    inner = versions[:, 0, :, MOVE_MARGIN:-MOVE_MARGIN, MOVE_MARGIN:-MOVE_MARGIN]
    order = order_fields(count, sources, (crop, crop), granularity="blob", generator=generator, guide=inner)
    frames = []
    for source in range(sources):
        grid = _draw_movements(count, crop, generator)
        seen = functional.grid_sample(
            versions.flatten(1, 2), grid, mode="bicubic", padding_mode="reflection", align_corners=True
        )
        frames.append(shuffle_versions(torch.unflatten(seen, 1, (sources, 3)), order[:, source : source + 1]))
    stacked = torch.cat(frames, dim=1).clamp(0, 1)
    label = sharp_source(order)
    trust, gain = torch.ones(count, device=bank.device), torch.ones_like(stacked[:, :, :1])
    return Batch(stacked, _pick(stacked, label), label, trust, _no_veil(stacked), gain)


def _degrade(batch: Batch, recipe: ShuffleRecipe, generator: torch.Generator) -> Batch:
    """Noise, exposure and compression per source; the target becomes what the right source then shows.

    Aiming at the untouched picture instead would teach the network to average noise, which blurs decisions.
    """
    frames = batch.frames
    count, sources = frames.shape[:2]
    gain = _draw_gains(recipe, count, sources, frames.shape[-1], generator)
    frames = frames * gain
    frames = (frames + _draw_noise(_draw_strength(recipe, count, sources, generator), frames, generator)).clamp(0, 1)
    frames = _compress(frames, round(recipe.jpeg * count), generator)
    return Batch(frames, _pick(frames / gain, batch.label), batch.label, batch.label_weight, batch.veil, gain)


def _draw_noise(strength: Tensor, frames: Tensor, generator: torch.Generator) -> Tensor:
    """Noise of the shape of the frames; part of it with the coarser grain that demosaicing and denoising leave."""
    noise = torch.randn(frames.shape, generator=generator, device=frames.device)
    grain = COARSEST_GRAIN / SOFTEST_PICTURE * draw_softness(len(frames), GRAINY_SHARE, generator)
    return strength * coarsen(noise, grain)


def _draw_strength(recipe: ShuffleRecipe, count: int, sources: int, generator: torch.Generator) -> Tensor:
    """Standard deviations (count, n, 1, 1, 1) of the noise: of most samples alike in all sources, of some not."""
    device = generator.device
    noisy = torch.rand(count, 1, generator=generator, device=device) < recipe.noise
    sigma = 0.03 * torch.rand(count, 1, generator=generator, device=device) ** 2
    uneven = torch.rand(count, 1, generator=generator, device=device) < UNEVEN_NOISE_SHARE
    factor = torch.exp(math.log(LARGEST_NOISE_FACTOR) * torch.rand(count, sources, generator=generator, device=device))
    return torch.where(noisy, sigma * torch.where(uneven, factor, 1.0), 0.0)[:, :, None, None, None]


def _draw_gains(recipe: ShuffleRecipe, count: int, sources: int, crop: int, generator: torch.Generator) -> Tensor:
    """Factors (count, n, 1, crop, crop) on the values of each source: flicker, vignettes, light from the side.

    The picture to reach is without them. Aiming at their mean, which was tried, teaches to mix wherever there is little
    detail: edges lost 3 dB (benchmarks/region_pairs.py), and hardly any source was ever left out.
    """
    device = generator.device
    fields = draw_fields(count, sources, (crop, crop), (64, 128, 256), generator)
    uneven = (torch.rand(count, generator=generator, device=device) < recipe.exposure)[:, None, None, None]
    strength = torch.where(uneven, 0.08 * torch.rand(count, 1, 1, 1, generator=generator, device=device), 0.0)
    stepped = (torch.rand(count, generator=generator, device=device) < 0.5 * recipe.exposure)[:, None, None, None]
    steps = 0.05 * torch.randn(count, sources, 1, 1, generator=generator, device=device)
    return (1 + strength * fields + torch.where(stepped, steps, 0.0)).clamp(0.5, 1.5)[:, :, None]


def _compress(frames: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """The first `count` samples as JPEG leaves them; samples are alike, and choosing would compress all of them."""
    if not count:
        return frames
    sources, device = frames.shape[1], frames.device
    quality = 60 + 38 * torch.rand(count, generator=generator, device=device)
    subsample = torch.rand(count, generator=generator, device=device) < 0.6
    each = quality.repeat_interleave(sources), subsample.repeat_interleave(sources)
    done = compress_jpeg(frames[:count].flatten(0, 1), *each)
    return torch.cat([torch.unflatten(done, 0, (count, sources)), frames[count:]])


def _no_veil(frames: Tensor) -> Tensor:
    count, sources, _, height, width = frames.shape
    return torch.zeros(count, sources, 4, height // 4, width // 4, device=frames.device)


def _pick(frames: Tensor, label: Tensor) -> Tensor:
    index = label[:, None, None].expand(-1, -1, frames.shape[2], -1, -1)
    return frames.gather(1, index)[:, 0]


def _focus_positions(count: int, sources: int, generator: torch.Generator, *, jitter: float) -> Tensor:
    """Focus of each source between 0 (near) and 1 (far), (count, n), in random order."""
    even = torch.linspace(0, 1, sources, device=generator.device).expand(count, -1)
    moved = even + jitter * torch.randn(count, sources, generator=generator, device=generator.device)
    shuffle = torch.rand(count, sources, generator=generator, device=generator.device).argsort(1)
    return moved.gather(1, shuffle)


def _draw_graded(
    bank: PhotoBank, recipe: ShuffleRecipe, count: int, sources: int, crop: int, generator: torch.Generator
) -> Batch:
    device = bank.device
    padded = bank.crop(count, (crop + 2 * WIDE_MARGIN, crop + 2 * WIDE_MARGIN), generator)
    padded = _soften(padded, recipe, generator)
    sharp = padded[..., WIDE_MARGIN:-WIDE_MARGIN, WIDE_MARGIN:-WIDE_MARGIN]
    # Small radii as likely as large ones.
    largest = torch.exp(torch.rand(count, generator=generator, device=device) * math.log(LARGEST_RADIUS))
    steps = torch.arange(1, BLUR_STEPS + 1, device=device) / BLUR_STEPS
    softness = 1 + 8 * torch.rand(count, generator=generator, device=device) ** 2
    levels = torch.cat([sharp[:, None], lens_blur(padded, largest[:, None] * steps[None] ** 2, softness)], dim=1)
    depth = draw_fields(count, 1, (crop, crop), (32, 64, 128), generator)
    low, high = depth.amin((2, 3), keepdim=True), depth.amax((2, 3), keepdim=True)
    depth = (depth - low) / (high - low + 1e-6)
    focus = _focus_positions(count, sources, generator, jitter=0.06)
    blur = (depth - focus[:, :, None, None]).abs().clamp(0, 1)
    # The depth of field: what is nearly in focus is exactly sharp.
    field = 0.25 * torch.rand(count, 1, 1, 1, generator=generator, device=device)
    position = ((blur - field).clamp(min=0) / (1 - field)) ** 0.5 * BLUR_STEPS
    below = position.floor().long().clamp(0, BLUR_STEPS - 1)
    part = (position - below)[:, :, None]
    frames = shuffle_versions(levels, below) * (1 - part) + shuffle_versions(levels, below + 1) * part
    trust = torch.full((count,), 0.3, device=device)
    gain = _draw_gains(recipe, count, sources, crop, generator)
    return Batch((frames * gain).clamp(0, 1), sharp.contiguous(), blur.argmin(1), trust, _no_veil(frames), gain)


def _draw_stacks(
    bank: PhotoBank, recipe: ShuffleRecipe, count: int, sources: int, crop: int, generator: torch.Generator
) -> Batch:
    """Rendered focus stacks; a third of them with frames that are moved, some noisy, some compressed."""
    device = bank.device
    size = crop + 2 * MOVE_MARGIN
    frames, truth, veil = draw_focus_stacks(bank, count, sources, size, generator, furry=recipe.furry, soft=recipe.soft)
    # Each source with the truth as it would see it, so that the better source can be told even when they are moved.
    seen = torch.cat([frames, truth[:, None].expand_as(frames), veil], dim=2)
    moved = count // 3
    inner = slice(MOVE_MARGIN, -MOVE_MARGIN)
    still = seen[moved:, :, :, inner, inner]
    if moved:
        grid = _draw_movements(moved * sources, crop, generator)
        shaken = functional.grid_sample(
            seen[:moved].flatten(0, 1), grid, mode="bicubic", padding_mode="reflection", align_corners=True
        )
        still = torch.cat([torch.unflatten(shaken.clamp(0, 1), 0, (moved, sources)), still])
    frames, truths, veil = still[:, :, :3], still[:, :, 3:6], still[:, :, 6:]
    error = functional.avg_pool2d((frames - truths).abs().mean(2), 3, stride=1, padding=1)
    sigma = _draw_strength(recipe, count, sources, generator)
    noise = _draw_noise(sigma, frames, generator)
    # Of sources that show the same the calmest is the best: the mean size of its noise is an error too.
    label = (error + math.sqrt(2 / math.pi) * sigma[:, :, 0]).argmin(1)
    gain = _draw_gains(recipe, count, sources, crop, generator)
    # The noise of the best source stays: aiming without it would teach to average noise, which blurs decisions.
    target = _pick(truths + noise, label).clamp(0, 1)
    frames = ((frames + noise) * gain).clamp(0, 1)
    veil = torch.cat([veil[:, :, :1], veil[:, :, 1:] * gain**GAMMA], dim=2)
    frames = _compress(frames, round(0.3 * count), generator)
    veil = functional.avg_pool2d(veil.flatten(0, 1), 4)
    # Which source is in focus is not the question where each is veiled: the picture alone decides.
    trust = torch.zeros(count, device=device)
    return Batch(frames.contiguous(), target, label, trust, torch.unflatten(veil, 0, (count, sources)), gain)


def _draw_movements(count: int, crop: int, generator: torch.Generator) -> Tensor:
    """Sampling grids of small shifts, turns and zooms for pictures with MOVE_MARGIN extra pixels on each side."""
    return affine_grid(
        count,
        (crop, crop),
        MOVE_MARGIN,
        shift=2.5,
        turn=0.004,
        zoom=0.006,
        generator=generator,
        device=generator.device,
    )
