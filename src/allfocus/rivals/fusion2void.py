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

from allfocus.rivals.learning import Objective, Samples, full_precision
from allfocus.rivals.running import Picture, fold_pairs, load_rival, torch_device

CHANNELS = 32
ENCODER_BLOCKS, DECODER_BLOCKS, RECONSTRUCTION_BLOCKS = 5, 3, 8
MASKED_SHARE, MASK_SIDE = 0.7, 8
"""Share of the frames that is hidden from the reconstruction, in blocks of so many pixels."""
CHOICE_SHARE = 10.0
"""The paper's weight of the demand that each pixel be that of one of the frames."""


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


class Fusion2VoidObjective(Objective):
    """Each pixel is that of one of the frames, and the frames can be filled in from the picture; no truth is needed."""

    def __init__(self) -> None:
        super().__init__(Fusion2VoidNetwork())
        self.reconstruction = ReconstructionNetwork()

    def forward(self, samples: Samples, generator: torch.Generator) -> Tensor:
        """The loss."""
        first, second = samples.frames[:, 0], samples.frames[:, 1]
        fused = self.network(first, second)
        masks = [_draw_mask(first, generator) for _ in range(2)]
        found = self.reconstruction(fused, masks[0] * first, masks[1] * second)
        with full_precision(fused, *found) as (picture, *filled):
            choice = ((picture - second).abs() * (picture - first).abs()).mean()
            missed = functional.l1_loss(filled[0], first) + functional.l1_loss(filled[1], second)
            return CHOICE_SHARE * choice + missed

    def fuse(self, frames: Tensor) -> Tensor:
        """The fused pictures, the mean of both orders."""
        first, second = frames[:, 0], frames[:, 1]
        fused: Tensor = (self.network(first, second) + self.network(second, first)) / 2
        return fused


def _draw_mask(like: Tensor, generator: torch.Generator) -> Tensor:
    """Ones where blocks of a picture stay, zeros where they are hidden, (B, 1, H, W)."""
    batch, _, height, width = like.shape
    blocks = torch.rand(
        (batch, 1, -(-height // MASK_SIDE), -(-width // MASK_SIDE)), generator=generator, device=like.device
    )
    mask = functional.interpolate((blocks >= MASKED_SHARE).to(like.dtype), scale_factor=MASK_SIDE)
    return mask[:, :, :height, :width]


def fuse_fusion2void(frames: Sequence[Picture], *, weights: str | None = None, device: str = "auto") -> Picture:
    """The picture that Fusion2Void makes of two frames; more are folded, the result so far with the next.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        weights: A file of the tensors of :class:`Fusion2VoidNetwork`; the authors have published none.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    place = torch_device(device)
    network = load_rival(Fusion2VoidNetwork, weights, device=place)
    return fold_pairs(frames, lambda first, second: (network(first, second) + network(second, first)) / 2, device=place)
