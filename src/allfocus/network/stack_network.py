"""`ips`: any number of sources, focus decided at every scale by one small network, cheap enough for a CPU.

A picture is decided from coarse to fine. At the coarsest level it is seen whole, a few hundred pixels wide; there a
branch of Mamba blocks carries the evidence of each source across the picture. Every finer level gets the sources at its
scale *and the decision of the level above*, and corrects it where it sees more. Blur of any width is a few pixels wide
at some level, so context is found at coarse levels, where it is cheap: the finest levels of a large picture are decided
by a small part of the network, the :class:`Refiner`, which looks at little more than the detail itself.

Every source goes through the same layers and sees, besides its own features, their mean and maximum over all sources;
the order of the sources therefore cannot matter. A source against which the level above has decided with a margin of
:data:`.inheritance.EXCLUSION` logits is left out of these at that place and cannot come back. What is left out
everywhere in a part of the picture therefore has no influence there at all, and need not be read: windows see only the
sources that still compete, and say what they would with all of them.

The output are weights, not pixels: a softmax over the sources says how much each contributes. Beside them comes the
*veil* of each source: the opacity and colour of what is nearer than its focus and blurred over what it shows sharply.
Light adds up, so a veil can be taken off again (:func:`.veils.unveil`), which no selection of pixels can do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.network.blocks import DIRECTIONS, HeadMambaBlock, ResBlock, keep, lay_channels_last
from allfocus.network.contract import LEFT_OUT
from allfocus.network.inheritance import competition, distance_behind, double, inherit, lead
from allfocus.network.veils import local_light, unveil

REACH = 41
"""Pixels from which a level's picture at one place can be influenced, to each side, by the frames and by the decision
of the level above; its logits follow from what is within 35 pixels. Windows of fusion see a little less around them."""
REFINER_REACH = 11
"""The same of the refiner, whose context is the decision of the level above."""


@dataclass(frozen=True)
class StackNetworkConfig:
    """Sizes of the stack network."""

    channels: int = 32
    """Channels at half resolution; nearly all of the cost is there."""
    middle_channels: int = 48
    """Channels at a quarter of the resolution."""
    token_channels: int = 64
    """Channels at an eighth of the resolution, where the Mamba blocks work."""
    res_blocks: int = 1
    """ResBlocks of the local branch, after the first exchange between sources. 0 leaves the branch out."""
    whole_blocks: int = 1
    """ResBlocks more, behind both branches, where a picture is seen whole: a small one is decided at once, and has what
    the levels of a large one cost to spare."""
    mamba_blocks: int = 4
    """Mamba blocks of the coarsest level, directions alternating over rows, columns and both reversed. 0 for none."""
    heads: int = 4
    """Heads of a Mamba block, each with its own memory length."""
    state: int = 8
    """States per channel; 16 gained nothing visible in earlier experiments."""
    convolution_width: int = 3
    """Tokens seen by the 1D convolution of a Mamba block."""
    veil_channels: int = 24
    """Channels of the veil's head, at a quarter of the resolution."""
    refiner_channels: int = 32
    """Channels of the refiner, at half resolution."""


class Decision(NamedTuple):
    """What one level says."""

    logits: Tensor
    """(batch, sources, height, width); a softmax over the sources gives the weights."""
    veil: Tensor
    """(batch, sources, 4, height / 4, width / 4): opacity (negative for none) and the colour of the veil in light, as
    its difference from the source's own local mean."""


def average_of(by_source: Tensor, competing: Tensor | None) -> Tensor:
    """Returns the mean (batch, channels, height, width) of the features of all sources, as far as they compete.

    Args:
        by_source: (batch, sources, channels, height, width).
        competing: (batch, sources, height, width) how far a source is still in the running, 0 to 1; None for all.
    """
    if competing is None:
        return lay_channels_last(by_source.mean(1))
    share = competing[:, :, None].to(by_source.dtype)
    return lay_channels_last((share * by_source).sum(1) / share.sum(1))


class Exchange(nn.Module):
    """Lets every source see the mean and the maximum of all competing sources' features."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mix = nn.Conv2d(3 * channels, channels, 1)

    def forward(self, features: Tensor, sources: int, competing: Tensor | None) -> Tensor:
        """Returns features of the same shape (batch * sources, channels, height, width).

        Args:
            features: of all sources.
            sources: how many.
            competing: (batch, sources, height, width) how far a source is still in the running, 0 to 1; None for all.
        """
        by_source = torch.unflatten(features, 0, (-1, sources))
        average = average_of(by_source, competing)
        if competing is None:
            highest = by_source.amax(1)
        else:
            share = competing[:, :, None].to(features.dtype)
            # Fades out before it is left out, so that nothing jumps.
            highest = (by_source - torch.where(share > 0, 8 * (1 - share), -LEFT_OUT)).amax(1)
        highest = lay_channels_last(highest)
        weight, width = self.mix.weight, features.shape[1]
        own, mean, maximum = weight[:, :width], weight[:, width : 2 * width], weight[:, 2 * width :]
        # The mixing of [own, mean, maximum] in three parts, because the last two are the same for all sources.
        shared = functional.conv2d(average, mean, self.mix.bias) + functional.conv2d(highest, maximum)
        update = torch.unflatten(functional.conv2d(features, own), 0, (-1, sources)) + shared[:, None]
        return features + functional.relu(update.flatten(0, 1))


class Refiner(nn.Module):
    """Corrects the decision of the level above by the detail of this one, for a quarter of the cost.

    What it says follows from REFINER_REACH pixels around: windows need a small margin, and context must have come from
    above.
    """

    def __init__(self, config: StackNetworkConfig) -> None:
        super().__init__()
        width = config.refiner_channels
        # Of a source: four pixels of three colours, and what the level above says.
        self.stem = nn.Conv2d(13, width, 3, padding=1)
        self.detail = nn.Conv2d(width, width, 3, padding=1)
        self.exchange = Exchange(width)
        self.merge = nn.Conv2d(width, width, 3, padding=1)
        self.head = nn.Conv2d(width, 4, 3, padding=1)
        self.inheritance = nn.Parameter(torch.ones(()))
        self.veil_first = nn.Conv2d(width + 10, config.veil_channels, 1)
        self.veil_second = nn.Conv2d(config.veil_channels, 4, 1)
        # It begins as the decision of the level above, enlarged.
        for layer in (self.head, self.veil_second):
            for parameter in layer.parameters():
                nn.init.zeros_(parameter)

    def forward(self, frames: Tensor, above: Decision, inside: Tensor | None = None) -> Decision:
        """Returns the decision at the scale of the frames; see :meth:`StackNetwork.forward`."""
        sources = frames.shape[1]
        behind = distance_behind(above.logits)
        competing = competition(behind)
        here, _, _ = _reduced(inside)
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
        colours, before = _veil_inputs(frames, above, competing)
        seen = convolve_both(functional.avg_pool2d(merged, 2), colours.to(merged.dtype), self.veil_first)
        update = self.veil_second(functional.relu(seen))
        return Decision(logits, _correct_veil(before, update))


class StackNetwork(nn.Module):
    """The permutation-equivariant network for stacks of two or more sources, used at every level.

    :meth:`forward` decides a level with its context, :meth:`refine` one by its detail alone.
    """

    def __init__(self, config: StackNetworkConfig) -> None:
        super().__init__()
        self.config = config
        fine, middle, coarse = config.channels, config.middle_channels, config.token_channels
        self.stem = nn.Conv2d(12, fine, 3, padding=1)
        self.stem_block = ResBlock(fine)
        self.comparison = nn.Conv2d(fine, fine, 1, bias=False)
        self.prior_stem = nn.Conv2d(1, fine, 3, padding=1, bias=False)
        nn.init.zeros_(self.comparison.weight)
        nn.init.zeros_(self.prior_stem.weight)
        self.inheritance = nn.Parameter(torch.full((), 0.3))
        self.exchange = Exchange(fine)
        self.local_branch = nn.ModuleList(ResBlock(fine) for _ in range(config.res_blocks))
        self.to_middle = nn.Conv2d(fine, middle, 3, stride=2, padding=1)
        self.middle_block = ResBlock(middle)
        self.to_tokens = nn.Conv2d(middle, coarse, 3, stride=2, padding=1)
        self.token_exchange = Exchange(coarse)
        self.global_branch = nn.Sequential(
            *(
                HeadMambaBlock(
                    coarse,
                    heads=config.heads,
                    state=config.state,
                    convolution_width=config.convolution_width,
                    direction=DIRECTIONS[index % 4],
                )
                for index in range(config.mamba_blocks)
            )
        )
        self.context_exchange = Exchange(coarse)
        self.from_tokens = nn.Conv2d(coarse, middle, 1)
        self.middle_merge = nn.Conv2d(middle, middle, 3, padding=1)
        self.from_middle = nn.Conv2d(middle, fine, 1)
        self.merge = nn.Conv2d((2 if config.res_blocks else 1) * fine, fine, 3, padding=1)
        self.whole_branch = nn.ModuleList(ResBlock(fine) for _ in range(config.whole_blocks))
        # They begin as if they were not there.
        for name, parameter in self.whole_branch.named_parameters():
            if ".second." in name:
                nn.init.zeros_(parameter)
        self.head = nn.Conv2d(fine, 4, 3, padding=1)
        # Of a veil: the context, the own colour and the brightest of all sources, and what the level above says.
        self.veil_first = nn.Conv2d(middle + 10, config.veil_channels, 3, padding=1)
        self.veil_second = nn.Conv2d(config.veil_channels, 4, 3, padding=1)
        for parameter in self.veil_second.parameters():
            nn.init.zeros_(parameter)
        self.refiner = Refiner(config)

    def refine(self, frames: Tensor, above: Decision, inside: Tensor | None = None) -> Decision:
        """Returns the decision at the scale of the frames by the refiner alone."""
        return self.refiner(frames, above, inside)  # type: ignore[no-any-return]  # a module's call is untyped

    def forward(self, frames: Tensor, above: Decision | None = None, inside: Tensor | None = None) -> Decision:
        """Returns the decision at the scale of the frames.

        Args:
            frames: (batch, sources, 3, height, width), about 0..1 over the whole stack; height and width multiples of
                SIZE_MULTIPLE.
            above: the decision of the level above, for frames of half this height and width; None for the coarsest
                level, where the Mamba blocks see the whole picture.
            inside: (1, 1, height, width) 1 in the picture and 0 beyond its end, where frames repeat their last pixels;
                None if the picture ends where the frames do. What was repeated is not seen, but for one row or column
                of a picture with an odd side: where frames end in different values it would look like a thing with an
                edge.
        """
        sources = frames.shape[1]
        here, near, far = _reduced(inside)
        features = convolve_cells(frames, self.stem.weight, self.stem.bias, here)
        behind, competing = None, None
        if above is not None:
            behind = distance_behind(above.logits)
            competing = competition(behind)
        features = self._compare(features, sources, competing)
        if behind is not None:
            prior = torch.tanh(lead(behind) / 4).flatten(0, 1)[:, None]
            features = features + lay_channels_last(self.prior_stem(keep(prior.to(features.dtype), here)))
        features = self.stem_block(keep(functional.relu(features), here), here)
        shallow = keep(self.exchange(features, sources, competing), here)
        context = self._context(shallow, sources, competing, (near, far), whole=above is None)
        lifted = keep(functional.interpolate(self.from_middle(context), scale_factor=2.0, mode="nearest"), here)
        local = shallow
        for block in self.local_branch:
            local = block(local, here)
        branches = [local, lifted] if self.config.res_blocks else [lifted]
        merged = keep(functional.relu(self.merge(torch.cat(branches, dim=1))), here)
        if above is None:
            for block in self.whole_branch:
                merged = block(merged, here)
        logits = torch.unflatten(convolve_to_pixels(merged, self.head).float()[:, 0], 0, (-1, sources))
        if behind is not None and competing is not None:
            logits = inherit(logits, self.inheritance, behind, competing)
        return Decision(logits, self._veil(frames, context, above, competing, near))

    def _compare(self, features: Tensor, sources: int, competing: Tensor | None) -> Tensor:
        """Returns features less what the mean of all competing sources has of them.

        Before anything is bent: so a source can be seen pixel by pixel as it differs from the others.
        """
        by_source = torch.unflatten(features, 0, (-1, sources))
        average: Tensor = self.comparison(average_of(by_source, competing))
        return (by_source - average[:, None]).flatten(0, 1)

    def _context(
        self,
        shallow: Tensor,
        sources: int,
        competing: Tensor | None,
        inside: tuple[Tensor | None, Tensor | None],
        *,
        whole: bool,
    ) -> Tensor:
        near, far = inside
        middle = self.middle_block(keep(functional.relu(self.to_middle(shallow)), near), near)
        pooled = None if competing is None else functional.max_pool2d(competing, 4)
        tokens = self.token_exchange(keep(functional.relu(self.to_tokens(middle)), far), sources, pooled)
        if whole:
            tokens = self.global_branch(keep(tokens, far))
        tokens = self.context_exchange(tokens, sources, pooled)
        context = functional.interpolate(self.from_tokens(tokens), scale_factor=2.0, mode="nearest")
        return keep(functional.relu(self.middle_merge(keep(context + middle, near))), near)

    def _veil(
        self,
        frames: Tensor,
        context: Tensor,
        above: Decision | None,
        competing: Tensor | None,
        near: Tensor | None,
    ) -> Tensor:
        colours, before = _veil_inputs(frames, above, competing)
        seen = convolve_both(context, keep(colours.to(context.dtype), near), self.veil_first)
        update = self.veil_second(keep(functional.relu(seen), near))
        return _correct_veil(before, update)

    def levels(
        self, frames: Tensor, count: int, *, with_context: int | None = None, inside: Tensor | None = None
    ) -> Iterator[tuple[Tensor, Decision]]:
        """Gives the frames and the decision of each of `count` levels, the coarsest first, the frames' own last.

        Args:
            frames: (batch, sources, 3, height, width).
            count: how many levels.
            with_context: how many of them, from the coarsest on, are decided with context; None for all.
            inside: where the frames are of the picture; see :meth:`forward`.
        """
        decision: Decision | None = None
        for level in reversed(range(count)):
            small = reduce_frames(frames, level)
            shown = None if inside is None else functional.max_pool2d(inside, 2**level)
            if decision is None or with_context is None or count - level <= with_context:
                decision = self(small, decision, shown)
            else:
                decision = self.refine(small, decision, shown)
            yield small, decision


def _reduced(inside: Tensor | None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Returns where there is something of the picture, at a half, a quarter and an eighth of the resolution."""
    if inside is None:
        return None, None, None
    half = functional.max_pool2d(inside, 2)
    quarter = functional.max_pool2d(half, 2)
    return half, quarter, functional.max_pool2d(quarter, 2)


def convolve_cells(frames: Tensor, weight: Tensor, bias: Tensor | None, inside: Tensor | None) -> Tensor:
    """Returns the convolution of the frames in cells of 2 x 2 pixels, (batch * sources, out, height / 2, width / 2).

    Args:
        frames: (batch, sources, 3, height, width).
        weight: (out, 12, 3, 3), of the four pixels of each colour in 3 x 3 cells.
        bias: (out,)
        inside: 1 for cells of the picture and 0 beyond its end; None if it ends where the frames do.
    """
    values = frames.flatten(0, 1) - 0.5
    if inside is None and not frames.is_cuda:
        # One convolution of 6 x 6 pixels with a stride of 2 is the same, and need not move every pixel first.
        taps = torch.unflatten(weight, 1, (3, 2, 2)).permute(0, 1, 4, 2, 5, 3).reshape(-1, 3, 6, 6)
        return functional.conv2d(values, taps, bias, stride=2, padding=2)
    cells = lay_channels_last(keep(functional.pixel_unshuffle(values, 2), inside))
    return functional.conv2d(cells, weight, bias, padding=1)


def convolve_to_pixels(features: Tensor, layer: nn.Conv2d) -> Tensor:
    """Returns what a 3 x 3 convolution with four outputs says of the pixels of each cell, (batch, 1, height, width).

    Args:
        features: (batch, channels, height / 2, width / 2), both even.
        layer: its outputs are the pixels of a cell, row by row.
    """
    if features.is_cuda:
        return functional.pixel_shuffle(layer(features), 2)
    # The same for four cells at once: processors convolve sixteen outputs in the time of four.
    shifted = [functional.pad(layer.weight, (b, 1 - b, a, 1 - a)) for a in (0, 1) for b in (0, 1)]
    weight = torch.stack(shifted).reshape(2, 2, 2, 2, -1, 4, 4).transpose(1, 2).flatten(0, 3)
    bias = None if layer.bias is None else layer.bias.view(1, 2, 1, 2).expand(2, 2, 2, 2).flatten()
    return functional.pixel_shuffle(functional.conv2d(features, weight, bias, stride=2, padding=1), 4)


def convolve_both(first: Tensor, second: Tensor, layer: nn.Conv2d) -> Tensor:
    """Returns the convolution of two maps, one after the other in its channels, without joining them.

    Processors have a fast way for channels in multiples of 16, which the sum of both is not.
    """
    weight, width = layer.weight, first.shape[1]
    seen = functional.conv2d(first, weight[:, :width], layer.bias, padding=layer.padding)
    return seen + functional.conv2d(lay_channels_last(second), weight[:, width:], padding=layer.padding)


def reduce_frames(frames: Tensor, level: int) -> Tensor:
    """Returns the frames (batch, sources, 3, height, width) of a level: means of 2 ** level pixels along each side."""
    if level == 0:
        return frames
    return torch.unflatten(functional.avg_pool2d(frames.flatten(0, 1), 2**level), 0, frames.shape[:2])


def _veil_inputs(frames: Tensor, above: Decision | None, competing: Tensor | None) -> tuple[Tensor, Tensor]:
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
        known = torch.where(there, above.veil, 0.0)
        before = torch.unflatten(double(known.flatten(0, 1)), 0, above.veil.shape[:2])
    return torch.cat([colour, brightest.expand_as(colour), before], dim=2).flatten(0, 1), before


def _correct_veil(before: Tensor, update: Tensor) -> Tensor:
    """Returns the veil of a level: that of the level above, corrected."""
    return before + torch.unflatten(update.float(), 0, before.shape[:2])


def blend_unveiled(frames: Tensor, decision: Decision) -> Tensor:
    """Returns the picture (batch, 3, height, width) of one level: the sources without their veils, weighted."""
    return select_pixels(unveil(frames, decision.veil), decision.logits)


def select_pixels(frames: Tensor, logits: Tensor) -> Tensor:
    """Returns the fused pictures (batch, 3, height, width): frames weighted by the softmax of their logits.

    `allfocus.fusion.blending` has the same for arrays.
    """
    return (logits.softmax(dim=1)[:, :, None] * frames).sum(1)
