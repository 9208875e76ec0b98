"""A batch of training samples, and what is done to all of its samples alike: their light, and where they end."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from allfocus.network.contract import SIZE_MULTIPLE
from allfocus.network.veils import GAMMA


@dataclass(frozen=True)
class Batch:
    """One batch of training samples on the device."""

    frames: Tensor
    """Sources (batch, n, 3, height, width) in 0..1."""
    target: Tensor
    """The picture to reach (batch, 3, height, width)."""
    label: Tensor
    """Index of the source in focus (batch, height, width)."""
    label_weight: Tensor
    """How far the label is to be trusted, 0 to 1 (batch,)."""
    veil: Tensor
    """Opacity and added light of what veils each source (batch, n, 4, height / 4, width / 4); 0 for none."""
    gain: Tensor
    """By how much each source is brighter than the picture to reach (batch, n, 1, height, width): nothing that focus
    could tell by, so it is divided out before pixels are compared."""
    inside: Tensor | None = None
    """1 in the picture and 0 beyond its end, where pixels repeat, (1, 1, height, width); None if it has no such end."""

    @classmethod
    def join(cls, parts: Sequence["Batch"]) -> "Batch":
        """Returns one batch of the samples of several, none of which ends early."""
        names = [name for name in cls.__dataclass_fields__ if name != "inside"]
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in names))

    def fill(self, other: "Batch") -> None:
        """Takes over the samples of another batch of the same shape, in place."""
        for name in self.__dataclass_fields__:
            own = getattr(self, name)
            if own is not None:
                own.copy_(getattr(other, name))


def dim_light(batch: Batch, generator: torch.Generator) -> Batch:
    """Scales the light of part of the samples: what the network sees is normalised by the stack, but never exactly."""
    count, device = len(batch.frames), batch.frames.device
    dimmed = torch.rand(count, generator=generator, device=device) < 0.3
    factor = torch.where(dimmed, 0.4 + 0.6 * torch.rand(count, generator=generator, device=device), 1.0)
    light = torch.cat([torch.ones(count, 1, device=device), factor[:, None].expand(-1, 3) ** GAMMA], dim=1)
    return dataclasses.replace(
        batch,
        frames=batch.frames * factor[:, None, None, None, None],
        target=batch.target * factor[:, None, None, None],
        veil=batch.veil * light[:, None, :, None, None],
    )


def end_early(batch: Batch, share: float, generator: torch.Generator) -> Batch:
    """Lets the pictures of a share of the batches end before the crop does, by up to SIZE_MULTIPLE - 1 pixels.

    What a picture ends in moves with its end: a dark rim that a filter left there is where networks err most.
    """
    if not share:
        return batch
    height, width = batch.target.shape[-2:]
    device = batch.target.device
    drawn = torch.rand(3, generator=generator, device=device)
    cut = torch.where(drawn[0] < share, (drawn[1:] * SIZE_MULTIPLE).long(), 0)
    rows, columns = torch.arange(height, device=device), torch.arange(width, device=device)

    def moved(values: Tensor) -> Tensor:
        """The picture without its first rows and columns, its last ones repeated instead."""
        lower = (rows + cut[0]).clamp(max=height - 1)
        return values.index_select(-2, lower).index_select(-1, (columns + cut[1]).clamp(max=width - 1))

    inside = ((rows < height - cut[0])[:, None] & (columns < width - cut[1])).to(batch.target.dtype)[None, None]
    return dataclasses.replace(
        batch,
        frames=moved(batch.frames),
        target=moved(batch.target),
        label=moved(batch.label),
        veil=_shifted(_shifted(batch.veil, cut[0] / 4, -2), cut[1] / 4, -1),
        gain=moved(batch.gain),
        inside=inside,
    )


def _shifted(maps: Tensor, distance: Tensor, axis: int) -> Tensor:
    """Returns maps of which a part of a pixel, or more, is left out at the beginning; the last one is repeated."""
    place = torch.arange(maps.shape[axis], device=maps.device)
    whole = distance.floor()
    first, second = ((place + whole.long() + more).clamp(max=maps.shape[axis] - 1) for more in (0, 1))
    part = (distance - whole).to(maps.dtype)
    return (1 - part) * maps.index_select(axis, first) + part * maps.index_select(axis, second)
