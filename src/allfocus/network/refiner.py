"""The part of `ips` that decides the finest levels of a large picture, by little more than the detail itself."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.network.blocks import keep, lay_channels_last, reduce_inside
from allfocus.network.convolutions import convolve_both, convolve_cells, convolve_to_pixels
from allfocus.network.decision import Decision
from allfocus.network.exchange import Exchange
from allfocus.network.inheritance import competition, distance_behind, inherit, lead
from allfocus.network.veils import correct_veil, veil_inputs

REFINER_REACH = 11
"""Pixels from which what the refiner makes of one place can be influenced, to each side, by the frames and by the
decision of the level above."""


class Refiner(nn.Module):
    """Corrects the decision of the level above by the detail of this one, for a quarter of the cost.

    What it says follows from REFINER_REACH pixels around: windows need a small margin, and context must have come from
    above.
    """

    def __init__(self, channels: int, *, veil_channels: int) -> None:
        super().__init__()
        # Of a source: four pixels of three colours, and what the level above says.
        self.stem = nn.Conv2d(13, channels, 3, padding=1)
        self.detail = nn.Conv2d(channels, channels, 3, padding=1)
        self.exchange = Exchange(channels)
        self.merge = nn.Conv2d(channels, channels, 3, padding=1)
        self.head = nn.Conv2d(channels, 4, 3, padding=1)
        self.inheritance = nn.Parameter(torch.ones(()))
        self.veil_first = nn.Conv2d(channels + 10, veil_channels, 1)
        self.veil_second = nn.Conv2d(veil_channels, 4, 1)
        # It begins as the decision of the level above, enlarged.
        for layer in (self.head, self.veil_second):
            for parameter in layer.parameters():
                nn.init.zeros_(parameter)

    def forward(self, frames: Tensor, above: Decision, inside: Tensor | None = None) -> Decision:
        """Returns the decision at the scale of the frames; see :meth:`.StackNetwork.forward`."""
        sources = frames.shape[1]
        behind = distance_behind(above.logits)
        competing = competition(behind)
        here, _, _ = reduce_inside(inside)
        prior = torch.tanh(lead(behind) / 4).flatten(0, 1)[:, None]
        weight = self.stem.weight
        seen = convolve_cells(frames, weight[:, :12], self.stem.bias, here)
        seen = seen + lay_channels_last(functional.conv2d(keep(prior.to(seen.dtype), here), weight[:, 12:], padding=1))
        features = keep(functional.relu(seen), here)
        features = functional.relu(self.detail(features))
        merged = functional.relu(self.merge(keep(self.exchange(features, sources, competing), here)))
        merged = keep(merged, here)
        logits = torch.unflatten(convolve_to_pixels(merged, self.head).float()[:, 0], 0, (-1, sources))
        logits = inherit(logits, self.inheritance, behind, competing)
        colours, before = veil_inputs(frames, above.veil, competing)
        seen = convolve_both(functional.avg_pool2d(merged, 2), colours.to(merged.dtype), self.veil_first)
        update = self.veil_second(functional.relu(seen))
        return Decision(logits, correct_veil(before, update))
