"""`ips`: any number of sources, focus decided at every scale by one small network, cheap enough for a CPU.

A picture is decided from coarse to fine. At the coarsest level it is seen whole, a few hundred pixels wide; there a
branch of Mamba blocks carries the evidence of each source across the picture. Every finer level gets the sources at its
scale *and the decision of the level above*, and corrects it where it sees more. Blur of any width is a few pixels wide
at some level, so context is found at coarse levels, where it is cheap: the finest levels of a large picture are decided
by a small part of the network, the :class:`.Refiner`, which looks at little more than the detail itself.

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

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.network.blocks import DIRECTIONS, HeadMambaBlock, ResBlock, keep, lay_channels_last, reduce_inside
from allfocus.network.convolutions import convolve_both, convolve_cells, convolve_to_pixels
from allfocus.network.decision import Decision
from allfocus.network.exchange import Exchange, compare_sources
from allfocus.network.inheritance import competition, distance_behind, inherit, lead
from allfocus.network.refiner import Refiner
from allfocus.network.veils import correct_veil, veil_inputs

REACH = 41
"""Pixels from which a level's picture at one place can be influenced, to each side, by the frames and by the decision
of the level above; its logits follow from what is within 35 pixels. Windows of fusion see a little less around them."""


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
        self.refiner = Refiner(config.refiner_channels, veil_channels=config.veil_channels)

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
        here, near, far = reduce_inside(inside)
        features = convolve_cells(frames, self.stem.weight, self.stem.bias, here)
        behind, competing = None, None
        if above is not None:
            behind = distance_behind(above.logits)
            competing = competition(behind)
        features = compare_sources(features, sources, competing, self.comparison)
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
        colours, before = veil_inputs(frames, None if above is None else above.veil, competing)
        seen = convolve_both(context, keep(colours.to(context.dtype), near), self.veil_first)
        update = self.veil_second(keep(functional.relu(seen), near))
        return correct_veil(before, update)

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


def reduce_frames(frames: Tensor, level: int) -> Tensor:
    """Returns the frames (batch, sources, 3, height, width) of a level: means of 2 ** level pixels along each side."""
    if level == 0:
        return frames
    return torch.unflatten(functional.avg_pool2d(frames.flatten(0, 1), 2**level), 0, frames.shape[:2])
