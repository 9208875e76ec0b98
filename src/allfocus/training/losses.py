"""What training minimises."""

import torch
from torch import Tensor
from torch.nn import functional

from allfocus.network.contract import LEFT_OUT
from allfocus.network.decision import Decision
from allfocus.network.inheritance import EXCLUSION
from allfocus.network.stack_network import StackNetwork
from allfocus.network.veils import local_light, unveil
from allfocus.rivals.learning import Objective
from allfocus.training.batches import Batch

NEEDED = 0.03
"""A source is needed at a pixel if leaving it out costs this much more error than taking it."""
SAFETY = 1.5
"""Logits by which a needed source is kept from being left out."""
VEIL_SHARE = 0.1
"""Weight of the veil's own loss, which is ten times that of the picture: with more it would be all that is learned."""


SQUARE_SHARE = 10.0
"""Weight of the squared difference beside the absolute one: of differences above 0.05 it is the larger part."""
EDGE_SHARE = 3.0
"""By how much more the classification counts beside an edge between sources, where nearly all errors are."""
EDGE_REACH = 4
"""Pixels to each side that are beside an edge."""


def picture_loss(fused: Tensor, target: Tensor) -> Tensor:
    """Returns the mean absolute difference, equation (3) of the paper."""
    return (fused - target).abs().mean()


def stack_loss(
    network: StackNetwork, batch: Batch, *, levels: int, label_share: float, with_context: int | None = None
) -> Tensor:
    """Returns the loss of the decisions at all levels, each half as important as the next finer one.

    Args:
        network: the stack network.
        batch: the samples.
        levels: how many scales are decided one after the other; the coarsest sees the whole crop.
        label_share: weight of the classification loss.
        with_context: how many levels, from the coarsest on, are decided with context; None for all.
    """
    needed, telling = needed_sources(batch)
    if batch.inside is not None:
        needed, telling = needed * batch.inside, telling * batch.inside
    total = torch.zeros((), device=batch.frames.device)
    stages = network.levels(batch.frames, levels, with_context=with_context, inside=batch.inside)
    for done, (frames, decision) in enumerate(stages):
        level = levels - 1 - done
        loss = level_loss(frames, decision, batch, needed, telling, level=level, label_share=label_share)
        total = total + 0.5**level * loss
    return total


def level_loss(
    frames: Tensor,
    decision: Decision,
    batch: Batch,
    needed: Tensor,
    telling: Tensor,
    *,
    level: int,
    label_share: float,
) -> Tensor:
    """Returns the loss of one level, whose frames are reduced by 2 ** level.

    The picture; the error that is to be expected of each pixel if it is copied from one source, which unlike that of
    the mixed picture never gains from mixing; the classification, which has an opinion where the sources agree and the
    picture has none: learning to guess from the surroundings is what keeps decisions coherent; the veil; and what a
    coarse level must not do: leave out a source that is needed below it.
    """
    factor = 2**level
    target, gain = batch.target, batch.gain
    if level:
        target = functional.avg_pool2d(target, factor)
        gain = torch.unflatten(functional.avg_pool2d(gain.flatten(0, 1), factor), 0, gain.shape[:2])
    label = batch.label[:, ::factor, ::factor]
    weights = decision.logits.softmax(1)
    errors = (frames / gain - target[:, None]).abs().mean(2)
    # Beyond the picture's end the network sees nothing, and nothing is asked of it.
    shown = 1.0 if batch.inside is None else functional.max_pool2d(batch.inside, factor)
    errors = errors * shown
    expected = (weights * errors).sum(1).mean()
    difference = (weights[:, :, None] * (unveil(frames, decision.veil) / gain)).sum(1) - target
    difference = difference * shown
    composed = difference.abs().mean() + SQUARE_SHARE * difference.square().mean()
    weight = functional.avg_pool2d(telling, factor)[:, 0] if level else telling[:, 0]
    weight = weight * (1 + EDGE_SHARE * beside_edges(label))
    # What the level above left out cannot be chosen any more, and nothing is to be learned from that here.
    there = decision.logits.detach().gather(1, label[:, None])[:, 0] > LEFT_OUT / 2
    surprise = torch.where(there, functional.cross_entropy(decision.logits, label, reduction="none"), 0.0)
    surprise = (weight * surprise).mean((1, 2))
    loss = 0.5 * (expected + composed) + label_share * (surprise * batch.label_weight).mean()
    if level:
        below = functional.max_pool2d(needed, factor)
        behind = decision.logits.amax(1, keepdim=True) - decision.logits
        # A source that was left out already has no way back, and no say here.
        missed = (behind - (EXCLUSION - SAFETY)).clamp(0, EXCLUSION)
        loss = loss + 0.1 * (missed * below).mean()
    return loss + VEIL_SHARE * veil_loss(frames, decision.veil, batch.veil, factor)


def veil_loss(frames: Tensor, veil: Tensor, true: Tensor, factor: int) -> Tensor:
    """Returns how far opacity and added light are from the true ones; smooth, or the head dies at zero."""
    if factor > 1:
        true = torch.unflatten(functional.avg_pool2d(true.flatten(0, 1), factor), 0, true.shape[:2])
    opacity, added = true[:, :, :1], true[:, :, 1:]
    own = veil[:, :, :1]
    error = functional.smooth_l1_loss(own, opacity, reduction="none", beta=0.1)
    # The light that an opaque veil adds is all there is; how exactly does not matter.
    own_light = own.clamp(0, 1) * (local_light(frames) + veil[:, :, 1:4])
    light = functional.smooth_l1_loss(own_light, added, reduction="none", beta=0.1)
    weight = 1 + 4 * (opacity > 0.02).to(error.dtype)
    return (weight * (error + light.sum(2, keepdim=True))).mean()


def beside_edges(label: Tensor) -> Tensor:
    """Returns 1 where another label is within EDGE_REACH pixels, else 0, (batch, height, width)."""
    values = label[:, None].float()
    size = 2 * EDGE_REACH + 1
    highest = functional.max_pool2d(values, size, stride=1, padding=EDGE_REACH)
    lowest = -functional.max_pool2d(-values, size, stride=1, padding=EDGE_REACH)
    return (highest != lowest)[:, 0].to(values.dtype)


def needed_sources(batch: Batch) -> tuple[Tensor, Tensor]:
    """Returns where each source is needed, (batch, n, height, width), and how far it can be told, (batch, 1, ...).

    A source is needed, 1, where no other one comes near it. Where all are as good, which one is sharp is worth little.
    """
    error = (batch.frames / batch.gain - batch.target[:, None]).abs().mean(2)
    error = functional.avg_pool2d(error, 3, stride=1, padding=1)
    # The two lowest by minima, far faster than sorting along a short dimension.
    best = error.amin(1, keepdim=True)
    first = error == best
    following = torch.where(first, torch.inf, error).amin(1, keepdim=True)
    following = torch.where(first.sum(1, keepdim=True) > 1, best, following)
    needed = (first & (following - best > NEEDED)).to(error.dtype)
    return needed, ((following - best) / NEEDED).clamp(0.1, 1)


def network_loss(
    network: torch.nn.Module,
    batch: Batch,
    *,
    levels: int,
    label_share: float,
    with_context: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Returns the loss of a network on one batch; those of the literature bring their own, and may draw from it."""
    if isinstance(network, StackNetwork):
        return stack_loss(network, batch, levels=levels, label_share=label_share, with_context=with_context)
    if isinstance(network, Objective):
        loss: Tensor = network(batch, generator)
        return loss
    return picture_loss(network(batch.frames), batch.target)
