"""Veils: what lies nearer than a source's focus and is blurred over what the source shows sharply.

What the network is told of them, and how they are taken off.

Light adds up, so the veil of a source is an opacity and the light that it adds; see :mod:`.stack_network`.
"""

import torch
from torch import Tensor
from torch.nn import functional

from allfocus.network.contract import FAINTEST_OPACITY, LARGEST_OPACITY
from allfocus.network.inheritance import double

GAMMA = 2.0
"""How values stand to light when a veil is taken off: nearly the curve of most pictures, and cheap both ways."""


def to_light(values: Tensor) -> Tensor:
    """Returns the light of values that are about 0..1."""
    return values.clamp(min=0.0).square()


def local_light(frames: Tensor) -> Tensor:
    """Returns the local mean of the light (batch, sources, 3, height / 4, width / 4)."""
    light = functional.avg_pool2d(to_light(frames).flatten(0, 1), 4)
    return torch.unflatten(light, 0, frames.shape[:2])


def veil_light(frames: Tensor, veil: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the opacity (batch, sources, 1, h, w) of each source's veil and the light that it adds (..., 3, h, w).

    Both at a quarter of the resolution of the frames.
    """
    opacity = veil[:, :, :1].clamp(0.0, LARGEST_OPACITY)
    return opacity, opacity * (local_light(frames) + veil[:, :, 1:])


def veil_inputs(frames: Tensor, above: Tensor | None, competing: Tensor | None) -> tuple[Tensor, Tensor]:
    """Returns what a veil is told by at a quarter of the resolution, and the veil (batch, sources, 4, h, w) from above.

    The former (batch * sources, 10, h, w): the source's own colour, the brightest of all sources, the veil from above.
    """
    colour = local_light(frames)
    brightest, before = colour.amax(1, keepdim=True), colour.new_zeros(*colour.shape[:2], 4, *colour.shape[3:])
    if above is not None and competing is not None:
        near = functional.max_pool2d(competing, 2)[:, :, None] > 0
        brightest = torch.where(near, colour, 0.0).amax(1, keepdim=True)
        # Of a source that is left out nothing is known, whether or not somebody has computed it.
        there = functional.max_pool2d(competing, 4)[:, :, None] > 0
        known = torch.where(there, above, 0.0)
        before = torch.unflatten(double(known.flatten(0, 1)), 0, above.shape[:2])
    return torch.cat([colour, brightest.expand_as(colour), before], dim=2).flatten(0, 1), before


def correct_veil(before: Tensor, update: Tensor) -> Tensor:
    """Returns the veil of a level: that of the level above, corrected."""
    return before + torch.unflatten(update.float(), 0, before.shape[:2])


def unveil(frames: Tensor, veil: Tensor) -> Tensor:
    """Returns the frames (batch, sources, 3, height, width) without their veils, as values.

    Beside a near thing that is out of focus a source shows a F + (1 - a) B: the thing's blurred matte a, its colour F,
    and what is behind it, B. This gives B.
    """
    opacity, added = veil_light(frames, veil)
    together = torch.cat([opacity, added], dim=2).flatten(0, 1)
    large = functional.interpolate(together, scale_factor=4.0, mode="bilinear", align_corners=False)
    large = torch.unflatten(large, 0, frames.shape[:2])
    opacity, added = large[:, :, :1], large[:, :, 1:]
    light = ((to_light(frames) - added) / (1 - opacity)).clamp(min=0.0)
    # The root of zero has no slope that training could use.
    behind = light.clamp(min=1e-6).sqrt()
    share = (opacity / FAINTEST_OPACITY - 1).clamp(0.0, 1.0)
    return frames + share * (behind - frames)
