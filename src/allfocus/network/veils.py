"""Veils: what lies nearer than a source's focus and is blurred over what the source shows sharply, and taking it off.

Light adds up, so the veil of a source is an opacity and the light that it adds; see :mod:`.stack_network`.
"""

import torch
from torch import Tensor
from torch.nn import functional

from allfocus.network.contract import FAINTEST_OPACITY, LARGEST_OPACITY

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
