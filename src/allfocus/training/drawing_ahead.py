"""Drawing the samples of the next step on a GPU while this one's are learned from.

Drawing is thousands of small kernels, each of which leaves most of a GPU idle; an update is fewer, large ones. On two
streams they take little more than the update alone.
"""

from collections.abc import Callable

import torch

from allfocus.training.batches import Batch


class DrawnAhead:
    """The samples of one step after the other, each drawn as soon as it is known which they will be."""

    def __init__(self, draw: Callable[[int], Batch], generator: torch.Generator) -> None:
        """Takes the drawing of samples with so many sources; all that is random in it comes from `generator`.

        Nothing else may use the generator: two streams would read its state at once.
        """
        self._draw = draw
        self._generator = generator
        self._stream = torch.cuda.Stream(generator.device)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Batch]] = {}
        self._held: dict[int, Batch] = {}
        self._drawn, self._taken = torch.cuda.Event(), torch.cuda.Event()  # type: ignore[no-untyped-call]  # likewise
        self._ahead: tuple[int, int] | None = None

    def begin(self, sources: int, seed: int) -> None:
        """Begins to draw samples with so many sources, as soon as those before are taken; returns at once."""
        graph, _ = self._graph(sources)
        self._stream.wait_event(self._taken)
        with torch.cuda.stream(self._stream):
            self._generator.manual_seed(seed)
            graph.replay()
            self._drawn.record(self._stream)
        self._ahead = (sources, seed)

    def take(self, sources: int, seed: int) -> Batch:
        """Returns the samples, at the same place for every step with so many sources; draws them if need be."""
        if self._ahead != (sources, seed):
            self.begin(sources, seed)
        self._ahead = None
        stream, held = torch.cuda.current_stream(), self.held(sources)
        stream.wait_event(self._drawn)
        held.fill(self._graphs[sources][1])
        self._taken.record(stream)
        return held

    def held(self, sources: int) -> Batch:
        """Returns the place to which :meth:`take` brings samples, for a graph that reads them there."""
        if sources not in self._held:
            self._held[sources] = self._draw(sources)
        return self._held[sources]

    def _graph(self, sources: int) -> tuple[torch.cuda.CUDAGraph, Batch]:
        if sources not in self._graphs:
            torch.cuda.synchronize()
            with torch.cuda.stream(self._stream):
                self._draw(sources)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.register_generator_state(self._generator)
            # They run one after the other, so they may share their memory; what one has drawn stays its own.
            pool = next(iter(self._graphs.values()))[0].pool() if self._graphs else None
            with torch.cuda.graph(graph, pool=pool, stream=self._stream):
                drawn = self._draw(sources)
            self._graphs[sources] = graph, drawn
        return self._graphs[sources]
