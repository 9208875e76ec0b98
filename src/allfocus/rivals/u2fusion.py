"""U2Fusion: both luminances through densely connected convolutions to one; one network for several kinds of fusion.

H. Xu, J. Ma, J. Jiang, X. Guo, H. Ling, "U2Fusion: a unified unsupervised image fusion network", IEEE Transactions on
Pattern Analysis and Machine Intelligence 44(1), 2022, 502-518.

Six convolutions of 44 channels, of which each sees what all before it gave, then four that narrow to one channel. Edges
are mirrored throughout. Colours are the mean of both frames, weighed by their distance from grey.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.rivals.running import (
    Picture,
    choose_device,
    fold_pairs,
    from_tensorflow,
    fuse_luminance,
    load_network,
)
from allfocus.rivals.weight_files import Tensors

GROWTH = 44
DENSE = 6
DECODER = (128, 64, 32, 1)
SLOPE = 0.2
ENCODER_NAMES = tuple(
    f"Generator/encoder/{name}" for name in ("conv1_1", *(f"dense_block_conv{n}" for n in range(1, DENSE)))
)
DECODER_NAMES = tuple(f"Generator_1/decoder/conv2_{n}" for n in range(1, len(DECODER) + 1))
"""What the convolutions are called in the authors' checkpoint."""


class U2FusionNetwork(nn.Module):
    """Two luminances (1, 2, H, W) in 0..1 to one (1, 1, H, W) in 0..1; 0.659 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        inputs = (2, *(GROWTH * count for count in range(1, DENSE)))
        self.encoder = nn.ModuleList(nn.Conv2d(channels, GROWTH, 3) for channels in inputs)
        widths = (GROWTH * DENSE, *DECODER)
        self.decoder = nn.ModuleList(nn.Conv2d(*pair, 3) for pair in itertools.pairwise(widths))

    def forward(self, pair: Tensor) -> Tensor:
        """The fused luminance."""
        first, *dense = self.encoder
        features = functional.leaky_relu(first(_mirror(pair)), SLOPE)
        for layer in dense:
            # The newest comes first.
            features = torch.cat([functional.leaky_relu(layer(_mirror(features)), SLOPE), features], dim=1)
        *narrowing, last = self.decoder
        for layer in narrowing:
            features = functional.leaky_relu(layer(_mirror(features)), SLOPE)
        fused: Tensor = torch.tanh(last(_mirror(features))) / 2 + 0.5
        return fused


def _mirror(features: Tensor) -> Tensor:
    # Without a second row or column there is nothing to mirror.
    mode = "reflect" if min(features.shape[2:]) > 1 else "replicate"
    return functional.pad(features, (1, 1, 1, 1), mode=mode)


def rename_tensors(tensors: Tensors) -> Tensors:
    """The tensors of the authors' checkpoint with our names; ours as they are."""
    if not any(name.startswith("Generator") for name in tensors):
        return tensors
    renamed = dict(tensors)
    for part, names in (("encoder", ENCODER_NAMES), ("decoder", DECODER_NAMES)):
        for number, name in enumerate(names):
            if f"{name}/kernel" in renamed:
                renamed[f"{part}.{number}.weight"] = from_tensorflow(renamed.pop(f"{name}/kernel"))
            if f"{name}/bias" in renamed:
                renamed[f"{part}.{number}.bias"] = renamed.pop(f"{name}/bias")
    return renamed


def fuse_u2fusion(frames: Sequence[Picture], *, weights: str | None = None, device: str = "auto") -> Picture:
    """The picture that U2Fusion makes of two frames; more are folded, the result so far with the next.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        weights: The index of the authors' TensorFlow checkpoint, or a file of our tensors.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    place = choose_device(device)
    network = load_network(U2FusionNetwork, weights, device=place, rename=rename_tensors)

    def fuse_plane(first: Tensor, second: Tensor) -> Tensor:
        fused: Tensor = network(torch.cat([first, second], dim=1))
        return fused

    return fold_pairs(frames, lambda first, second: fuse_luminance(first, second, fuse_plane), device=place)
