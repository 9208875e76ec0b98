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

from allfocus.rivals.learning import Objective, Samples, full_precision, laplacian, luminances, similarity_map
from allfocus.rivals.running import (
    Picture,
    fold_pairs,
    from_tensorflow,
    fuse_luminance,
    load_rival,
    torch_device,
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
TILE = 64
"""Side of what is weighed as one in training; the paper trains on patches of it."""
SCALES = 5
"""Scales at which detail is measured."""
DETAIL_UNIT = 4e-3
"""Detail by which one frame is ahead when its weight is e times the other's: the median of our samples."""
SQUARE_SHARE = 20.0
"""The paper's weight of the squared difference beside the similarity."""


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


class U2FusionObjective(Objective):
    """Similarity to both frames, by tiles, each frame weighed by how much detail it has there; no truth is needed.

    The paper measures detail by the gradients of what VGG-16 sees at five depths, and keeps what was learned for other
    kinds of fusion by elastic weights. Here detail is measured on the picture at five scales, as such a network is not
    at hand, and there is one kind of fusion only.
    """

    def __init__(self) -> None:
        super().__init__(U2FusionNetwork())

    def forward(self, samples: Samples, generator: torch.Generator) -> Tensor:
        """The loss."""
        first, second = luminances(samples.frames[:, :2])
        with full_precision(self.network(torch.cat([first, second], dim=1)), first, second) as (fused, *planes):
            weights = torch.softmax(torch.stack([_detail(plane) for plane in planes]) / DETAIL_UNIT, dim=0)
            unlike = [1 - similarity_map(fused, plane) + SQUARE_SHARE * (fused - plane) ** 2 for plane in planes]
            return (weights * torch.stack([_tile_means(values) for values in unlike])).sum(0).mean()

    def fuse(self, frames: Tensor) -> Tensor:
        """The fused pictures."""
        return fuse_luminance(
            frames[:, 0], frames[:, 1], lambda first, second: self.network(torch.cat([first, second], dim=1))
        ).clamp(0, 1)


def _detail(plane: Tensor) -> Tensor:
    """The mean squared Laplacian of each tile, over the scales."""
    total = torch.zeros_like(_tile_means(plane))
    for scale in range(SCALES):
        reduced = functional.avg_pool2d(plane, 2**scale) if scale else plane
        detail = functional.interpolate(laplacian(reduced) ** 2, size=plane.shape[2:])
        total = total + _tile_means(detail) / SCALES
    return total


def _tile_means(plane: Tensor) -> Tensor:
    return functional.avg_pool2d(plane, min(TILE, *plane.shape[2:]))


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
    place = torch_device(device)
    network = load_rival(U2FusionNetwork, weights, device=place, rename=rename_tensors)

    def fuse_plane(first: Tensor, second: Tensor) -> Tensor:
        fused: Tensor = network(torch.cat([first, second], dim=1))
        return fused

    return fold_pairs(frames, lambda first, second: fuse_luminance(first, second, fuse_plane), device=place)
