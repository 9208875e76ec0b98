"""`ips`: any number of sources in one pass, selection weights out, cheap enough for a CPU.

Every source goes through the same layers and sees, besides its own features, their mean and maximum over all sources;
the order of the sources therefore cannot matter. A convolutional branch at half resolution keeps the detail; a branch
of Mamba blocks at an eighth carries the evidence of each source far into regions that have no texture of their own.

The output are weights, not pixels: a softmax over the sources says how much each contributes to a pixel. Pixels are
therefore source pixels wherever the network is sure: no colour shift, any bit depth, and the weights are a decision
map. Selecting each frequency band on its own, and a learned gain for its detail, were tried and gained nothing on
pictures that were not used for training, so they are gone.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.network.blocks import DIRECTIONS, HeadMambaBlock, ResBlock

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
        by_source = torch.unflatten(features, 0, (-1, sources))
        weight, width = self.mix.weight, features.shape[1]
        own, mean, maximum = weight[:, :width], weight[:, width : 2 * width], weight[:, 2 * width :]
        # The mixing of [own, mean, maximum] in three parts, because the last two are the same for all sources.
        shared = functional.conv2d(by_source.mean(1), mean, self.mix.bias)
        shared = shared + functional.conv2d(by_source.amax(1), maximum)
        update = torch.unflatten(functional.conv2d(features, own), 0, (-1, sources)) + shared[:, None]
        return features + functional.relu(update.flatten(0, 1))


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
        self.head = nn.Conv2d(fine, 4, 3, padding=1)

    def forward(self, frames: Tensor) -> Tensor:
        """Returns selection logits (batch, sources, height, width) of frames (batch, sources, 3, height, width).

        Frames are in 0..1, height and width multiples of SIZE_MULTIPLE. A softmax over the sources gives the weights.
        """
        sources = frames.shape[1]
        pixels = functional.pixel_unshuffle(frames.flatten(0, 1) - 0.5, 2)
        if pixels.is_cuda:
            # The layout in which a GPU convolves fastest, and in which a map is a sequence of tokens as it lies.
            pixels = pixels.contiguous(memory_format=torch.channels_last)
        shallow = self.exchange(self.stem_block(functional.relu(self.stem(pixels))), sources)
        features = []
        if self.config.res_blocks:
            features.append(self.local_branch(shallow))
        if self.config.mamba_blocks:
            features.append(self._context(shallow, sources))
        merged = functional.relu(self.merge(torch.cat(features, dim=1)))
        logits = functional.pixel_shuffle(self.head(merged), 2)
        return torch.unflatten(logits.float()[:, 0], 0, (-1, sources))

    def _context(self, shallow: Tensor, sources: int) -> Tensor:
        middle = self.middle_block(functional.relu(self.to_middle(shallow)))
        tokens = self.token_exchange(functional.relu(self.to_tokens(middle)), sources)
        tokens = self.context_exchange(self.global_branch(tokens), sources)
        context = functional.interpolate(self.from_tokens(tokens), scale_factor=2.0, mode="nearest")
        context = functional.relu(self.middle_merge(context + middle))
        lifted: Tensor = functional.interpolate(self.from_middle(context), scale_factor=2.0, mode="nearest")
        return lifted


def select_pixels(frames: Tensor, logits: Tensor) -> Tensor:
    """Returns the fused pictures (batch, 3, height, width): frames weighted by the softmax of their logits.

    `allfocus.fusion.blending` has the same for arrays.
    """
    return (logits.softmax(dim=1)[:, :, None] * frames).sum(1)
