"""Fusion2Void: an encoder for each frame, residual blocks on both, a picture; trained without pictures of the truth.

H. Lin, Y. Lin, X. Ding, Y. Huang, "Fusion2Void: unsupervised multi-focus image fusion based on image inpainting", IEEE
Transactions on Circuits and Systems for Video Technology, 2024.

The encoders have weights of their own, so the order of the frames matters; as the authors do, both orders are run and
their mean is taken. :class:`ReconstructionNetwork` is needed for training only: out of the fused picture and the masked
frames it must make the frames again.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.rivals.running import Picture, choose_device, fold_pairs, load_network

CHANNELS = 32
ENCODER_BLOCKS, DECODER_BLOCKS, RECONSTRUCTION_BLOCKS = 5, 3, 8


class ResidualBlock(nn.Module):
    """Two convolutions whose outcome is added to what went in."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.second = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)

    def forward(self, features: Tensor) -> Tensor:
        """Features of the same shape."""
        return functional.relu(features + self.second(functional.relu(self.first(features))))


def _chain(inputs: int, blocks: int) -> nn.Sequential:
    """A convolution to 32 channels, then residual blocks."""
    begin = nn.Conv2d(inputs, CHANNELS, 3, padding=1)
    return nn.Sequential(begin, nn.ReLU(), *(ResidualBlock() for _ in range(blocks)))


class Fusion2VoidNetwork(nn.Module):
    """Two pictures, each (B, 3, H, W) in 0..1, to one; 0.262 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.first = _chain(3, ENCODER_BLOCKS)
        self.second = _chain(3, ENCODER_BLOCKS)
        self.both = _chain(2 * CHANNELS, DECODER_BLOCKS)
        self.last = nn.Conv2d(CHANNELS, 3, 3, padding=1)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The fused picture in 0..1."""
        features = torch.cat([self.first(first), self.second(second)], dim=1)
        return torch.sigmoid(self.last(self.both(features)))


class ReconstructionNetwork(nn.Module):
    """A fused picture and two masked frames to the two frames; 0.152 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.body = _chain(9, RECONSTRUCTION_BLOCKS)
        self.last = nn.Conv2d(CHANNELS, 6, 3, padding=1)

    def forward(self, fused: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """The two frames, each (B, 3, H, W)."""
        found: Tensor = self.last(self.body(torch.cat([fused, first, second], dim=1)))
        return found[:, :3], found[:, 3:]


def fuse_fusion2void(frames: Sequence[Picture], *, weights: str | None = None, device: str = "auto") -> Picture:
    """The picture that Fusion2Void makes of two frames; more are folded, the result so far with the next.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        weights: A file of the tensors of :class:`Fusion2VoidNetwork`; the authors have published none.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    place = choose_device(device)
    network = load_network(Fusion2VoidNetwork, weights, device=place)
    return fold_pairs(frames, lambda first, second: (network(first, second) + network(second, first)) / 2, device=place)
