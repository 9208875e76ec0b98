"""What training minimises."""

import torch
from torch import Tensor
from torch.nn import functional

from allfocus.network.stack_network import StackNetwork, select_pixels
from allfocus.training.samples import Batch


def picture_loss(fused: Tensor, target: Tensor) -> Tensor:
    """Returns the mean absolute difference, equation (3) of the paper."""
    return (fused - target).abs().mean()


def selection_loss(logits: Tensor, batch: Batch, *, label_share: float) -> Tensor:
    """Returns the picture loss of the selected pixels plus the classification loss of the selection itself.

    Where the sources agree the picture loss has no opinion; the label still has one, and learning to guess it from the
    surroundings is what makes decisions coherent where there is no texture.

    Args:
        logits: selection logits of the stack network (batch, n, height, width).
        batch: the samples.
        label_share: weight of the classification loss.
    """
    fused = select_pixels(batch.frames, logits)
    surprise = functional.cross_entropy(logits, batch.label, reduction="none").mean((1, 2))
    classification = (surprise * batch.label_weight).mean()
    return picture_loss(fused, batch.target) + label_share * classification


def network_loss(network: torch.nn.Module, batch: Batch, *, label_share: float) -> Tensor:
    """Returns the loss of either network on one batch."""
    output = network(batch.frames)
    if isinstance(network, StackNetwork):
        return selection_loss(output, batch, label_share=label_share)
    return picture_loss(output, batch.target)
