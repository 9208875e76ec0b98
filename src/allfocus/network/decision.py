"""What one level of `ips` says, and the picture that follows from it."""

from typing import NamedTuple

from torch import Tensor

from allfocus.network.veils import unveil


class Decision(NamedTuple):
    """What one level says."""

    logits: Tensor
    """(batch, sources, height, width); a softmax over the sources gives the weights."""
    veil: Tensor
    """(batch, sources, 4, height / 4, width / 4): opacity (negative for none) and the colour of the veil in light, as
    its difference from the source's own local mean."""


def blend_unveiled(frames: Tensor, decision: Decision) -> Tensor:
    """Returns the picture (batch, 3, height, width) of one level: the sources without their veils, weighted."""
    return select_pixels(unveil(frames, decision.veil), decision.logits)


def select_pixels(frames: Tensor, logits: Tensor) -> Tensor:
    """Returns the fused pictures (batch, 3, height, width): frames weighted by the softmax of their logits.

    `allfocus.fusion.blending` has the same for arrays.
    """
    return (logits.softmax(dim=1)[:, :, None] * frames).sum(1)
