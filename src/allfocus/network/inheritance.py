"""What a level takes over from the one above: how far each source is behind the best, and which still compete."""

import torch
from torch import Tensor
from torch.nn import functional

from allfocus.network.contract import LEFT_OUT

EXCLUSION = 6.0
"""Logits behind the best by which a source has lost for good: odds of 400 to 1."""
EXCLUSION_RAMP = 2.0
"""Logits over which a source fades out of the means and maxima before it is left out."""


def distance_behind(logits: Tensor) -> Tensor:
    """Returns how far each source is behind the best, from 0 down to -EXCLUSION, beyond which nothing is told apart."""
    return (logits - logits.amax(1, keepdim=True)).clamp(min=-EXCLUSION)


def competition(behind: Tensor) -> Tensor:
    """Returns how far a source is still in the running, from 0 for one that is left out to 1."""
    return ((behind + EXCLUSION) / EXCLUSION_RAMP).clamp(0.0, 1.0)


def lead(behind: Tensor) -> Tensor:
    """Returns how far each source (batch, sources, ...) is ahead of the best other one, negative for all but the best.

    Written with maxima alone, which gives the same whatever the order of the sources.
    """
    best = behind.amax(1, keepdim=True)
    first = behind >= best
    # Of several that share the lead none is ahead.
    alone = first.sum(1, keepdim=True) == 1
    following = torch.where(first, -EXCLUSION, behind).amax(1, keepdim=True)
    ahead = torch.where(alone, best - following, 0.0)
    return torch.where(first, ahead, behind - best)


def inherit(logits: Tensor, share: Tensor, behind: Tensor, competing: Tensor) -> Tensor:
    """Returns the logits with a share of what the level above said, and without the sources that it left out."""
    inherited = logits + share * double(behind)
    running = double(competing)
    return torch.where(running > 0, inherited + torch.log(running.clamp(min=1e-4)), LEFT_OUT)


def double(maps: Tensor) -> Tensor:
    """Returns maps (batch, channels, height, width) of the level above at twice the height and width."""
    return functional.interpolate(maps, scale_factor=2.0, mode="bilinear", align_corners=False)
