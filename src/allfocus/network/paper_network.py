"""`ips-paper`: the cross-image fusion network as the paper describes it (section III-B, figure 4).

Two sources in, one picture out: per source a convolution and a ResBlock; concatenation; three ResBlocks beside twelve
Mamba blocks on the flattened map; concatenation; reconstruction.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from allfocus.network.blocks import DIRECTIONS, MambaBlock, ResBlock


@dataclass(frozen=True)
class PaperNetworkConfig:
    """Sizes of the paper's network; each default that the paper leaves open gives its reason."""

    source_channels: int = 32
    """Channels per source after the first convolution. Open in the paper; 32 makes 64 after the concatenation, the
    usual width of restoration networks of that time, and fits the paper's 12 GB GPU at full resolution."""
    shared_encoder: bool = True
    """One encoder for both sources. Open in the paper; sources are interchangeable, so weights are shared."""
    res_blocks: int = 3
    """ResBlocks of the local branch (paper: 3). 0 leaves the branch out, as in the paper's ablation."""
    mamba_blocks: int = 12
    """Mamba blocks of the global branch (paper: 12). 0 leaves the branch out, as in the paper's ablation."""
    expansion: int = 2
    """Inner width of a Mamba block over its channels. Open in the paper; Mamba's default."""
    state: int = 16
    """States per channel. Open in the paper; Mamba's default."""
    convolution_width: int = 4
    """Tokens seen by the 1D convolution. Open in the paper; Mamba's default."""
    scan: Literal["raster", "alternating"] = "raster"
    """Order of the tokens: `raster` reads rows in every block, as the paper's "flatten" says; `alternating` takes rows,
    columns and both reversed in turn (ours, for the ablation)."""
    head: Literal["regression", "selection"] = "regression"
    """`regression` predicts the pixels, as the paper's figure does; `selection` predicts one weight per source and
    channel and returns the weighted sources (ours, for the ablation)."""


class PaperNetwork(nn.Module):
    """The paper's two-source fusion network."""

    def __init__(self, config: PaperNetworkConfig) -> None:
        super().__init__()
        self.config = config
        width = 2 * config.source_channels
        encoders = 1 if config.shared_encoder else 2
        self.encoders = nn.ModuleList(
            nn.Sequential(nn.Conv2d(3, config.source_channels, 3, padding=1), ResBlock(config.source_channels))
            for _ in range(encoders)
        )
        self.local_branch = nn.Sequential(*(ResBlock(width) for _ in range(config.res_blocks)))
        self.global_branch = nn.Sequential(
            *(
                MambaBlock(
                    width,
                    expansion=config.expansion,
                    state=config.state,
                    convolution_width=config.convolution_width,
                    direction=DIRECTIONS[index % 4] if config.scan == "alternating" else "rows",
                )
                for index in range(config.mamba_blocks)
            )
        )
        branches = (config.res_blocks > 0) + (config.mamba_blocks > 0)
        outputs = 3 if config.head == "regression" else 6
        # Open in the paper ("this fused feature is used to reconstruct"): one hidden layer, then the picture.
        self.reconstruction = nn.Sequential(
            nn.Conv2d(branches * width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, outputs, 3, padding=1)
        )

    def compile_blocks(self) -> None:
        """Has the Mamba blocks compiled when they are first called with a new shape; copies of the network are not.

        They are alike, so one is compiled for all of them, in a tenth of the time that the whole network would take.
        """
        for block in self.global_branch:
            block.compile(dynamic=False)

    def forward(self, frames: Tensor) -> Tensor:
        """Returns the fused pictures (batch, 3, height, width) of pairs (batch, 2, 3, height, width), both in 0..1."""
        if frames.shape[1] != 2:
            raise ValueError(f"ips-paper fuses exactly 2 sources, found {frames.shape[1]}; use ips for more")
        first, second = (frame - 0.5 for frame in frames.unbind(1))
        if frames.is_cuda:
            # Channels last, as tensor cores and the scan want them: then flattening the map moves nothing.
            first, second = (frame.contiguous(memory_format=torch.channels_last) for frame in (first, second))
        shallow = torch.cat([self.encoders[0](first), self.encoders[-1](second)], dim=1)
        features = []
        if self.config.res_blocks:
            features.append(self.local_branch(shallow))
        if self.config.mamba_blocks:
            features.append(self.global_branch(shallow))
        output: Tensor = self.reconstruction(torch.cat(features, dim=1)).float()
        if self.config.head == "regression":
            return output + 0.5
        weights = torch.unflatten(output, 1, (2, 3)).softmax(dim=1)
        return (weights * frames).sum(1)
