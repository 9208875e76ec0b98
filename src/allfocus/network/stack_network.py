"""`ips`: any number of sources in one pass, selection weights out, cheap enough for a CPU.

Every source goes through the same layers and sees, besides its own features, their mean and maximum over all sources;
the order of the sources therefore cannot matter. A convolutional branch at half resolution keeps the detail; a branch
of Mamba blocks at an eighth carries the evidence of each source far into regions that have no texture of their own.

The output are weights, not pixels: each source is split into bands (:func:`split_bands`) and each band has its own
selection. Equal weights in all bands copy a source exactly, with hard edges; different ones take, say, the fine detail
from one source and the tone from another, which no selection of whole pixels can do.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.network.blocks import DIRECTIONS, HeadMambaBlock, ResBlock

BANDS = 4
"""Three detail bands and what remains, see :func:`split_bands`."""
SIZE_MULTIPLE = 8
"""Height and width must be multiples of this; callers pad and crop back."""


@dataclass(frozen=True)
class StackNetworkConfig:
    """Sizes of the stack network."""

    channels: int = 32
    """Channels at half resolution; nearly all of the cost is there."""
    middle_channels: int = 48
    """Channels at a quarter of the resolution."""
    token_channels: int = 64
    """Channels at an eighth of the resolution, where the Mamba blocks work."""
    res_blocks: int = 1
    """ResBlocks of the local branch, after the first exchange between sources. 0 leaves the branch out."""
    mamba_blocks: int = 4
    """Mamba blocks, their direction alternating over rows, columns and both reversed. 0 leaves the branch out."""
    heads: int = 4
    """Heads of a Mamba block, each with its own memory length."""
    state: int = 8
    """States per channel; 16 gained nothing visible in earlier experiments."""
    convolution_width: int = 3
    """Tokens seen by the 1D convolution of a Mamba block."""


class Exchange(nn.Module):
    """Lets every source see the mean and the maximum of all sources' features."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mix = nn.Conv2d(3 * channels, channels, 1)

    def forward(self, features: Tensor, sources: int) -> Tensor:
        """Returns features of the same shape (batch * sources, channels, height, width)."""
        by_source = features.unflatten(0, (-1, sources))
        mean = by_source.mean(1, keepdim=True).expand_as(by_source).flatten(0, 1)
        maximum = by_source.amax(1, keepdim=True).expand_as(by_source).flatten(0, 1)
        update: Tensor = self.mix(torch.cat([features, mean, maximum], dim=1))
        return features + functional.relu(update)


class StackNetwork(nn.Module):
    """The permutation-equivariant network for stacks of two or more sources."""

    def __init__(self, config: StackNetworkConfig) -> None:
        super().__init__()
        self.config = config
        fine, middle, coarse = config.channels, config.middle_channels, config.token_channels
        self.stem = nn.Conv2d(12, fine, 3, padding=1)
        self.stem_block = ResBlock(fine)
        self.exchange = Exchange(fine)
        self.local_branch = nn.Sequential(*(ResBlock(fine) for _ in range(config.res_blocks)))
        if config.mamba_blocks:
            self.to_middle = nn.Conv2d(fine, middle, 3, stride=2, padding=1)
            self.middle_block = ResBlock(middle)
            self.to_tokens = nn.Conv2d(middle, coarse, 3, stride=2, padding=1)
            self.token_exchange = Exchange(coarse)
            self.global_branch = nn.Sequential(
                *(
                    HeadMambaBlock(
                        coarse,
                        heads=config.heads,
                        state=config.state,
                        convolution_width=config.convolution_width,
                        direction=DIRECTIONS[index % 4],
                    )
                    for index in range(config.mamba_blocks)
                )
            )
            self.context_exchange = Exchange(coarse)
            self.from_tokens = nn.Conv2d(coarse, middle, 1)
            self.middle_merge = nn.Conv2d(middle, middle, 3, padding=1)
            self.from_middle = nn.Conv2d(middle, fine, 1)
        branches = (config.res_blocks > 0) + (config.mamba_blocks > 0)
        self.merge = nn.Conv2d(branches * fine, fine, 3, padding=1)
        self.head = nn.Conv2d(fine, 4 * BANDS, 3, padding=1)

    def forward(self, frames: Tensor) -> Tensor:
        """Returns selection logits (batch, sources, BANDS, height, width) of frames (batch, sources, 3, height, width).

        Frames are in 0..1, height and width multiples of SIZE_MULTIPLE. A softmax over the sources gives the weights.
        """
        sources = frames.shape[1]
        pixels = functional.pixel_unshuffle(frames.flatten(0, 1) - 0.5, 2)
        shallow = self.exchange(self.stem_block(functional.relu(self.stem(pixels))), sources)
        features = []
        if self.config.res_blocks:
            features.append(self.local_branch(shallow))
        if self.config.mamba_blocks:
            features.append(self._context(shallow, sources))
        merged = functional.relu(self.merge(torch.cat(features, dim=1)))
        logits = functional.pixel_shuffle(self.head(merged), 2)
        return logits.float().unflatten(0, (-1, sources))

    def _context(self, shallow: Tensor, sources: int) -> Tensor:
        middle = self.middle_block(functional.relu(self.to_middle(shallow)))
        tokens = self.token_exchange(functional.relu(self.to_tokens(middle)), sources)
        tokens = self.context_exchange(self.global_branch(tokens), sources)
        context = functional.interpolate(self.from_tokens(tokens), scale_factor=2.0, mode="nearest")
        context = functional.relu(self.middle_merge(context + middle))
        lifted: Tensor = functional.interpolate(self.from_middle(context), scale_factor=2.0, mode="nearest")
        return lifted


def split_bands(pictures: Tensor) -> list[Tensor]:
    """Returns BANDS tensors shaped like `pictures` (..., height, width) that add up to it, finest detail first.

    Each level is a 5-tap binomial blur with holes of 0, 1 and 3 pixels (the "a trous" transform), mirrored at the
    frame, at full resolution: nothing is decimated, so equal weights in all bands give back the exact pixel.
    `allfocus.fusion.blending` has the same for arrays.
    """
    shape = pictures.shape
    current = pictures.reshape(-1, 1, *shape[-2:])
    bands = []
    taps = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
    for level in range(BANDS - 1):
        hole = 2**level
        padded = functional.pad(current, (2 * hole,) * 4, mode="reflect")
        width, height = shape[-1], shape[-2]
        rows = sum(taps[k] * padded[..., k * hole : k * hole + width] for k in range(5))
        blurred = sum(taps[k] * rows[..., k * hole : k * hole + height, :] for k in range(5))  # type: ignore[index]
        bands.append((current - blurred).reshape(shape))
        current = blurred
    bands.append(current.reshape(shape))
    return bands


def combine_bands(frames: Tensor, logits: Tensor) -> Tensor:
    """Returns the fused pictures (batch, 3, height, width): each band of the sources weighted by its own softmax."""
    weights = logits.softmax(dim=1)
    bands = split_bands(frames)
    return sum((weights[:, :, band, None] * bands[band]).sum(1) for band in range(BANDS))  # type: ignore[return-value]
