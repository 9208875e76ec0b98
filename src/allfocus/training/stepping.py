"""One training step: eager on a CPU or several processes, replayed from a CUDA graph on one GPU.

The networks are small, so on a GPU launching kernels would take longer than running them; one graph per number of
sources and levels replays forward, backward and update with one launch. Samples are drawn by the same graph or, those
of `ips`, which take nearly as long as the update, by one of their own while the step before is taken. The Mamba blocks
of `ips-paper`, which move far more memory than they compute around their scans, are compiled before that.
"""

import contextlib
import copy
import itertools
import random
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from allfocus.errors import InputError
from allfocus.network.paper_network import PaperNetwork
from allfocus.network.stack_network import StackNetwork
from allfocus.training.batches import Batch
from allfocus.training.drawing_ahead import DrawnAhead
from allfocus.training.losses import network_loss
from allfocus.training.photos import PhotoBank
from allfocus.training.recipe import Recipe, learning_rate
from allfocus.training.samples import draw_batch

Shape = tuple[int, int, int]
"""Sources and levels of a step, and how many of the levels have context."""


def _computes_bfloat16(device: torch.device) -> bool:
    """Returns whether it multiplies bfloat16 by itself: processors that do are twice as fast with it, others slower."""
    return device.type == "cuda" or bool(torch.cpu._is_avx512_bf16_supported())


class Stepper:
    """Holds network, optimiser and running average, and takes steps."""

    def __init__(self, network: nn.Module, recipe: Recipe, bank: PhotoBank, *, rank: int, world: int) -> None:
        self.network = network
        self.recipe = recipe
        self.bank = bank
        self.rank = rank
        self.world = world
        self.generator = torch.Generator(bank.device)
        self.parameters = list(network.parameters())
        self.device = self.parameters[0].device
        self.graphed = self.device.type == "cuda" and world == 1
        self.ahead: DrawnAhead | None = None
        if self.graphed and isinstance(network, StackNetwork) and recipe.shuffle.mask == "multi-scale":
            self.ahead = DrawnAhead(self._draw, self.generator)
        # The size of a median filter is a number of this process: its samples are drawn before the graph is replayed.
        self.draws_in_graph = self.ahead is None and "median" not in recipe.shuffle.filters
        if self.graphed and isinstance(network, PaperNetwork):
            network.compile_blocks()
        rate = torch.zeros((), device=self.device) if self.graphed else 0.0
        self.optimizer = torch.optim.Adam(
            self.parameters, lr=rate, capturable=self.graphed, foreach=not self.graphed, fused=self.graphed
        )
        for parameter in self.parameters:
            # Made here rather than by the first step, so that saving, restoring and capturing see one layout.
            self.optimizer.state[parameter] = {
                "step": torch.zeros((), device=self.device if self.graphed else "cpu"),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        # Running means of normalisations are no parameters, but belong to the network and to its average.
        self.buffers = {name: value for name, value in network.named_buffers() if value.is_floating_point()}
        self.average = [tensor.detach().clone() for tensor in self._averaged_tensors(network)]
        self._graphs: dict[Shape, tuple[torch.cuda.CUDAGraph, Tensor, Batch | None]] = {}

    def step(self, iteration: int) -> Tensor:
        """Takes the step of one iteration and returns its loss, still on the device."""
        self._set_learning_rate(learning_rate(self.recipe, iteration))
        shape, seed = self._choose(iteration)
        loss = self._replay(shape, seed) if self.graphed else self._draw_and_update(shape, seed)
        if self.ahead is not None:
            (following, *_), seed = self._choose(iteration + 1)
            self.ahead.begin(following, seed)
        decay = self.recipe.optimizer.average
        if decay > 0:
            # The average follows quickly at first, so that it is not weighed down by the initial weights.
            share = 1 - min(decay, (1 + iteration) / (10 + iteration))
            torch._foreach_lerp_(self.average, [*self._averaged_tensors(self.network)], share)
        return loss

    def _choose(self, iteration: int) -> tuple[Shape, int]:
        """Returns the shape of a step and the seed of its samples.

        They follow from seed, process and iteration alone: that is what makes resuming exact.
        """
        chooser = random.Random((self.recipe.seed << 48) + (self.rank << 40) + iteration)
        sources, levels = chooser.choice(self.recipe.shuffle.sources), chooser.choice(self.recipe.data.levels)
        # The finest levels of large pictures are refined, so that is what most steps practise.
        with_context = min(chooser.randint(1, levels), chooser.randint(1, levels))
        return (sources, levels, with_context), chooser.getrandbits(62)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[nn.Module]:
        """Gives a copy of the network with the averaged weights, or the network itself when no average is kept."""
        if self.recipe.optimizer.average == 0:
            self.network.eval()
            try:
                yield self.network
            finally:
                self.network.train()
            return
        twin = copy.deepcopy(self.network).eval()
        with torch.no_grad():
            for tensor, average in zip(self._averaged_tensors(twin), self.average, strict=True):
                tensor.copy_(average)
        yield twin

    @staticmethod
    def _averaged_tensors(network: nn.Module) -> Iterator[Tensor]:
        """Gives parameters, then running means, without gradients."""
        yield from (parameter.detach() for parameter in network.parameters())
        yield from (buffer for buffer in network.buffers() if buffer.is_floating_point())

    def state(self) -> dict[str, Tensor]:
        """Returns all tensors from which a run can go on."""
        tensors: dict[str, Tensor] = {}
        held = itertools.chain(self.network.named_parameters(), self.buffers.items())
        for (name, tensor), average in zip(held, self.average, strict=True):
            tensors[f"weight/{name}"] = tensor
            tensors[f"average/{name}"] = average
            for key, value in self.optimizer.state.get(tensor, {}).items():
                tensors[f"{key}/{name}"] = value
        return tensors

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Puts back what :meth:`state` returned."""
        own = self.state()
        if own.keys() != tensors.keys():
            raise InputError("the checkpoint belongs to a network of another shape; resume with the recipe it had")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(tensors[name])

    def _set_learning_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _update(self, batch: Batch, levels: int, with_context: int) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        mixed = self.recipe.optimizer.precision == "bfloat16" and _computes_bfloat16(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=mixed, cache_enabled=False):
            share = self.recipe.optimizer.label_share
            loss = network_loss(
                self.network,
                batch,
                levels=levels,
                label_share=share,
                with_context=with_context,
                generator=self.generator,
            )
        torch.autograd.backward(loss)
        if self.world > 1:
            self._share_gradients()
        if self.recipe.optimizer.gradient_clip > 0:
            nn.utils.clip_grad_norm_(self.parameters, self.recipe.optimizer.gradient_clip)
        self.optimizer.step()
        return loss.detach()

    def _share_gradients(self) -> None:
        # Processes draw their own number of levels; with one level, what looks at the level above has no gradient.
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad for parameter in self.parameters
        ]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        torch.distributed.all_reduce(flat)
        flat /= self.world
        parts = torch.split(flat, [gradient.numel() for gradient in gradients])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    def _draw(self, sources: int) -> Batch:
        data, shuffle = self.recipe.data, self.recipe.shuffle
        return draw_batch(
            self.bank,
            shuffle,
            # As many sources in every batch, so that all steps cost about the same.
            batch=max(1, data.batch * min(shuffle.sources) // sources),
            crop=data.crop,
            sources=sources,
            generator=self.generator,
        )

    def _draw_and_update(self, shape: Shape, seed: int) -> Tensor:
        self.generator.manual_seed(seed)
        sources, levels, with_context = shape
        return self._update(self._draw(sources), levels, with_context)

    def _replay(self, shape: Shape, seed: int) -> Tensor:
        if shape not in self._graphs:
            self._graphs[shape] = self._capture(*shape)
        graph, loss, drawn = self._graphs[shape]
        if self.ahead is not None:
            self.ahead.take(shape[0], seed)
        else:
            self.generator.manual_seed(seed)
            if drawn is not None:
                drawn.fill(self._draw(shape[0]))
        graph.replay()
        return loss

    def _capture(
        self, sources: int, levels: int, with_context: int
    ) -> tuple[torch.cuda.CUDAGraph, Tensor, Batch | None]:
        """Returns the graph of a step, its loss, and the samples that it reads unless it draws its own."""
        before = {name: tensor.detach().clone() for name, tensor in self.state().items()}
        drawn: Batch | None = None
        if self.ahead is not None:
            drawn = self.ahead.held(sources)
        elif not self.draws_in_graph:
            drawn = self._draw(sources)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._update(drawn or self._draw(sources), levels, with_context)
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        if self.draws_in_graph:
            graph.register_generator_state(self.generator)
        # Graphs run one after the other, so they may share their memory.
        pool = next(iter(self._graphs.values()))[0].pool() if self._graphs else None
        with torch.cuda.graph(graph, pool=pool):
            loss = self._update(drawn or self._draw(sources), levels, with_context)
        # The warm-up steps were not part of the run.
        self.restore(before)
        return graph, loss, drawn
