"""CNN: a Siamese network tells which of two patches is sharper; its map is cleaned and follows the picture's edges.

Y. Liu, X. Chen, H. Peng, Z. Wang, "Multi-focus image fusion with a deep convolutional neural network", Information
Fusion 36, 2017, 191-207.

1. Score: two patches of 16 x 16 go through the same three convolutions, then through two full layers that say which one
   is sharper. On whole pictures the full layers are convolutions, so every second pixel gets the score of the patch
   that begins there; the score of a pixel is the mean over all patches that hold it.
2. Decision: scores above one half are focused in the first frame. Regions below 1 % of the picture change sides.
3. Edges: the decision, smoothed by a guided filter with the picture it gives as its guide, is the weight of the first
   frame.

More than two frames are fused one after the other, as the paper does.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from allfocus.rivals.learning import Objective, Samples, luminances
from allfocus.rivals.running import Picture, fold_pairs, load_rival, split_colour, torch_device

PATCH = 16
STRIDE = 2
WIDTHS = (64, 128, 256)
HIDDEN = 256
SMALL_REGION = 0.01
"""Regions below this share of the picture are not believed."""
GUIDE_RADIUS, GUIDE_EPSILON = 8, 0.1
PURE = 0.95
"""Share of a patch that one frame has to have in focus for the patch to be learned from."""
LEAST_VARIANCE = 25 / 255**2
"""Of the sharp patch's luminance: in flat ones nothing tells the two apart."""


class CnnNetwork(nn.Module):
    """Two luminances (B, 1, H, W) in 0..1 to (B, 2, (H - 16) / 2 + 1, (W - 16) / 2 + 1); 8.76 M parameters.

    Of the two channels, the softmax says how likely the first and the second patch is the sharper one. Patches of
    16 x 16, as it is trained on, give one value.
    """

    def __init__(self) -> None:
        super().__init__()
        first, second, third = WIDTHS
        self.features = nn.Sequential(
            nn.Conv2d(1, first, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(first, second, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(STRIDE),
            nn.Conv2d(second, third, 3, padding=1),
            nn.ReLU(),
        )
        self.hidden = nn.Conv2d(2 * third, HIDDEN, PATCH // STRIDE)
        self.last = nn.Conv2d(HIDDEN, 2, 1)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The logits."""
        both = torch.cat([self.features(first), self.features(second)], dim=1)
        logits: Tensor = self.last(functional.relu(self.hidden(both)))
        return logits


def focus_map(network: nn.Module, first: Tensor, second: Tensor) -> Tensor:
    """How likely the first of two luminances (1, 1, H, W) is the sharper one at each pixel, in 0..1.

    Edges are repeated up to a whole number of patches.
    """
    height, width = first.shape[2:]
    margin = [max(PATCH - side, -side % STRIDE) if side > PATCH else PATCH - side for side in (height, width)]
    padded = [functional.pad(plane, (0, margin[1], 0, margin[0]), mode="replicate") for plane in (first, second)]
    score = torch.softmax(network(*padded), dim=1)[:, :1]
    patch = torch.ones(1, 1, PATCH, PATCH, device=score.device)
    total = functional.conv_transpose2d(score, patch, stride=STRIDE)
    count = functional.conv_transpose2d(torch.ones_like(score), patch, stride=STRIDE)
    return (total / count)[:, :, :height, :width]


def turn_small_regions(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The decision (H, W) without regions below 1 % of the picture: those chosen, then those not (8-connected)."""
    import cv2  # not needed for training

    least = SMALL_REGION * chosen.size
    for _ in range(2):
        _, labels, statistics, _ = cv2.connectedComponentsWithStats(chosen.astype(np.uint8), connectivity=8)
        keep = statistics[:, cv2.CC_STAT_AREA] >= least
        keep[0] = False  # what is not chosen
        chosen = ~keep[labels]
    return chosen


def blend_along_edges(first: Tensor, second: Tensor, chosen: Tensor) -> Tensor:
    """Two pictures (1, 3, H, W) by a decision (1, 1, H, W) of zeros and ones, softened by the guided filter."""
    guide = split_colour(torch.where(chosen > 0.5, first, second))[0]
    weight = guided_filter(guide, chosen, radius=GUIDE_RADIUS, epsilon=GUIDE_EPSILON)
    return weight * first + (1 - weight) * second


def guided_filter(guide: Tensor, values: Tensor, *, radius: int, epsilon: float) -> Tensor:
    """The values (1, 1, H, W) as the locally best linear function of the guide (K. He et al., PAMI 35, 2013)."""

    def mean(plane: Tensor) -> Tensor:
        # Windows are cut at the picture's edge, not filled.
        return functional.avg_pool2d(plane, 2 * radius + 1, stride=1, padding=radius, count_include_pad=False)

    guide_mean, value_mean = mean(guide), mean(values)
    slope = (mean(guide * values) - guide_mean * value_mean) / (mean(guide * guide) - guide_mean**2 + epsilon)
    return mean(slope) * guide + mean(value_mean - slope * guide_mean)


class CnnObjective(Objective):
    """Which of two patches of 16 x 16 is in focus, as a question of two classes.

    The paper cuts its patches from photographs and five blurred versions of each, and leaves out flat ones. Here they
    are cut from pairs of crops, and those that lie across the edge between both frames are left out as well.
    """

    def __init__(self) -> None:
        super().__init__(CnnNetwork())

    def forward(self, samples: Samples, generator: torch.Generator) -> Tensor:
        """The mean surprise (cross entropy) of all patches that can be told."""
        first, second = (_cut(plane)[:, None] for plane in luminances(samples.frames[:, :2]))
        sharp = _cut(split_colour(samples.target)[0])
        share = _cut((samples.label[:, None] == 1).to(first.dtype)).mean((1, 2))
        trust = samples.label_weight[:, None].expand(-1, len(share) // len(samples.label_weight))
        weight = trust.reshape(-1) * ((share - 0.5).abs() >= PURE - 0.5) * (sharp.var((1, 2)) >= LEAST_VARIANCE)
        logits = self.network(first, second)[:, :, 0, 0].float()
        surprise = functional.cross_entropy(logits, (share > 0.5).long(), reduction="none")
        return (weight * surprise).sum() / weight.sum().clamp_min(1)

    def fuse(self, frames: Tensor) -> Tensor:
        """The frame that is likelier in focus at each pixel, as it is: no cleaning, no guided filter."""
        score = focus_map(self.network, *luminances(frames[:, :2]))
        return torch.where(score > 0.5, frames[:, 0], frames[:, 1])


def _cut(planes: Tensor) -> Tensor:
    """Planes (B, 1, H, W) as patches of 16 x 16, (B x patches, 16, 16)."""
    patches = planes.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH)
    return patches.reshape(-1, PATCH, PATCH)


def fuse_cnn(frames: Sequence[Picture], *, weights: str | None = None, device: str = "auto") -> Picture:
    """The picture that the method CNN makes of two frames; more are folded, the result so far with the next.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        weights: A file of the tensors of :class:`CnnNetwork`; the authors' cannot be had.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    place = torch_device(device)
    network = load_rival(CnnNetwork, weights, device=place)

    def fuse_pair(first: Tensor, second: Tensor) -> Tensor:
        score = focus_map(network, split_colour(first)[0], split_colour(second)[0])
        chosen = turn_small_regions(score[0, 0].cpu().numpy() > 0.5)
        return blend_along_edges(first, second, torch.from_numpy(chosen).to(place, torch.float32)[None, None])

    return fold_pairs(frames, fuse_pair, device=place)
