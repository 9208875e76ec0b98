"""What the rebuilt networks share when they are trained again: samples, objectives, measures of likeness and detail.

Each file of a network holds the objective that its paper minimises, an :class:`Objective`. The loop, the samples, the
optimiser and the checkpoints are those of `allfocus.training`; only the loss is the method's own.
"""

import contextlib
import copy
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.rivals.catalogue import RIVALS
from allfocus.rivals.running import load_rival, split_colour

SSIM_SIDE, SSIM_SIGMA = 11, 1.5
SSIM_STEADY = (0.01**2, 0.03**2)
"""Keep the quotients of structural similarity finite, for values in 0..1 (Z. Wang et al., 2004)."""


class Samples(Protocol):
    """A batch as the objectives see it; see `allfocus.training.batches.Batch`."""

    @property
    def frames(self) -> Tensor:
        """Sources (B, N, 3, H, W) in 0..1."""

    @property
    def target(self) -> Tensor:
        """The sharp picture (B, 3, H, W)."""

    @property
    def label(self) -> Tensor:
        """Index of the source in focus (B, H, W)."""

    @property
    def label_weight(self) -> Tensor:
        """How far the label is to be trusted, 0 to 1 (B,)."""


class Objective(nn.Module):
    """A network of the literature with all that its training needs; calling it gives the loss of a batch.

    What is trained beside the network (a discriminator, say) is a part of the objective, so that it is stepped,
    stored and resumed with it. Whatever is random comes from the generator that it is given.
    """

    network: Any
    """What is trained, and all that is kept of it in the end."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, samples: Samples, generator: torch.Generator) -> Tensor:
        """The loss, a single number."""
        raise NotImplementedError

    def fuse(self, frames: Tensor) -> Tensor:
        """Pictures (B, 3, H, W) of the sources (B, N, 3, H, W), for validation."""
        raise NotImplementedError

    def start_from(self, weights: Path) -> None:
        """Takes over the weights in a file of our layout.

        Raises:
            InputError: it holds those of another network.
        """
        found = load_rival(type(self.network), weights, device=torch.device("cpu"))
        self.network = copy.deepcopy(found).train()


def _build(place: str) -> Objective:
    module, _, name = place.partition(":")
    objective: Objective = getattr(importlib.import_module(module), name)()
    return objective


OBJECTIVES: Mapping[str, Callable[[], Objective]] = {
    rival.name: functools.partial(_build, rival.objective) for rival in RIVALS if rival.objective
}
"""What makes the objective of each network that can be trained, with fresh weights."""


def trained_tensors(objective: Objective) -> dict[str, Tensor]:
    """The tensors of the network alone that fusing needs, by name: no counts of batches."""
    return {name: tensor for name, tensor in objective.network.state_dict().items() if tensor.is_floating_point()}


@contextlib.contextmanager
def full_precision(*tensors: Tensor) -> Iterator[list[Tensor]]:
    """Gives the tensors as float32, where arithmetic is not shortened: differences of near values need all digits."""
    with torch.autocast(tensors[0].device.type, enabled=False):
        yield [tensor.float() for tensor in tensors]


def luminances(frames: Tensor) -> list[Tensor]:
    """The luminance (B, 1, H, W) of each source of (B, N, 3, H, W)."""
    return [split_colour(frame)[0] for frame in frames.unbind(1)]


# --- measures of pictures ---------------------------------------------------------------------------------------------


def similarity_map(first: Tensor, second: Tensor) -> Tensor:
    """The structural similarity (SSIM) of two planes (B, 1, H, W) in 0..1 around each pixel."""
    place = torch.arange(SSIM_SIDE, device=first.device, dtype=first.dtype) - SSIM_SIDE // 2
    bell = torch.exp(-(place**2) / (2 * SSIM_SIGMA**2))
    bell = bell / bell.sum()

    def mean(plane: Tensor) -> Tensor:
        reach = SSIM_SIDE // 2
        padded = functional.pad(plane, (reach, reach, reach, reach), mode="reflect")
        # Products, because GPUs shorten the numbers of convolutions, and variances are differences of near values.
        return (padded.unfold(2, SSIM_SIDE, 1) @ bell).unfold(3, SSIM_SIDE, 1) @ bell

    small, steady = SSIM_STEADY
    mean_first, mean_second = mean(first), mean(second)
    variance = mean(first**2) - mean_first**2 + mean(second**2) - mean_second**2
    covariance = mean(first * second) - mean_first * mean_second
    light = (2 * mean_first * mean_second + small) / (mean_first**2 + mean_second**2 + small)
    return light * (2 * covariance + steady) / (variance + steady)


def sobel_strength(plane: Tensor) -> Tensor:
    """Sobel's differences along rows and columns, absolute and added, of a plane (B, 1, H, W)."""
    around = functional.pad(plane, (1, 1, 1, 1), mode="replicate")
    down = around[:, :, 2:] - around[:, :, :-2]
    right = around[:, :, :, 2:] - around[:, :, :, :-2]
    down = down[..., :-2] + 2 * down[..., 1:-1] + down[..., 2:]
    right = right[:, :, :-2] + 2 * right[:, :, 1:-1] + right[:, :, 2:]
    return down.abs() + right.abs()


def laplacian(plane: Tensor) -> Tensor:
    """The sum of the four neighbours less four times the pixel, of a plane (B, 1, H, W)."""
    around = functional.pad(plane, (1, 1, 1, 1), mode="replicate")
    beside = around[:, :, 1:-1, :-2] + around[:, :, 1:-1, 2:] + around[:, :, :-2, 1:-1] + around[:, :, 2:, 1:-1]
    return beside - 4 * plane
