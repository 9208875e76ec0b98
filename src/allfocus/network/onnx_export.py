"""A trained network as an ONNX file, the proof that both compute the same, and its place on disk.

The network is three graphs: one for the coarsest level, which sees a picture whole; one for levels that are decided
with context, given the decision of the level above; and one for those that are refined by their detail alone. The last
two come again for parts of a picture that do not reach beyond its end, where they are cheaper. All are in one file
(:mod:`.graph_file`).
"""

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from allfocus.errors import ExportError, InputError
from allfocus.files.placing import StagedFiles
from allfocus.files.protection import InputFiles
from allfocus.images.writing import check_output
from allfocus.network.checkpoint import load_network
from allfocus.network.contract import GRAPH_KEYS, OUTPUTS, SIZE_MULTIPLE, graph_inputs
from allfocus.network.decision import Decision
from allfocus.network.graph_file import graph_of, pack_graphs
from allfocus.network.inheritance import EXCLUSION
from allfocus.network.stack_network import StackNetwork

TOLERANCE = 1e-4
"""Largest difference allowed between the outputs of ONNX and torch."""
PROOFS = ((2, 64, 96), (3, 136, 72), (12, 40, 40), (5, 256, 248))
"""Sources, height and width on which the export is checked; none is the size it was traced with."""


@dataclass(frozen=True)
class ExportReport:
    """What :func:`export_onnx` wrote and how far it is from torch."""

    path: Path
    largest_difference: float
    """Largest absolute difference of weights and veils over all proofs; the tolerance is 1e-4."""
    opset: int
    parameters: int


class LevelGraph(nn.Module):
    """One of the graphs of a network by its name in the contract: one level of one stack, without a batch dimension."""

    def __init__(self, network: StackNetwork, kind: str) -> None:
        super().__init__()
        self.network = network
        self.kind = kind

    def forward(
        self,
        frames: Tensor,
        inside: Tensor | None = None,
        behind: Tensor | None = None,
        veil_above: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Returns logits (n, H, W) and veil (n, 4, H / 4, W / 4); what is given follows from the kind of graph.

        Args:
            frames: (n, 3, H, W).
            inside: (H, W)
            behind: (n, H / 2, W / 2)
            veil_above: (n, 4, H / 8, W / 8)
        """
        above = None if behind is None or veil_above is None else Decision(behind[None], veil_above[None])
        shown = None if inside is None else inside[None, None]
        if above is not None and self.kind.endswith("refine"):
            decision = self.network.refine(frames[None], above, shown)
        else:
            decision = self.network(frames[None], above, shown)
        return decision.logits[0], decision.veil[0]


@dataclass(frozen=True)
class ProvenModel:
    """A network as ONNX that computes what torch does."""

    content: bytes
    """The whole file."""
    largest_difference: float
    opset: int
    parameters: int


def export_onnx(
    checkpoint: str | os.PathLike[str], output: str | os.PathLike[str], *, overwrite: bool = False
) -> ExportReport:
    """What was written: the `ips` network in `checkpoint` as ONNX, proven to compute what torch does.

    Args:
        checkpoint: A weights file, or the folder of a run.
        output: The file to write.
        overwrite: Replace it if it exists; the weights themselves are never replaced.

    Raises:
        InputError: the checkpoint cannot be read, or holds `ips-paper`, which runs in torch only: its full-resolution
            scan has no ONNX form that is usable.
        OutputError: the output exists, or cannot be written.
        ExportError: the ONNX model computes something else than torch; nothing is written.
    """
    source, target = Path(checkpoint), Path(output)
    read = [source, source / "weights.safetensors"]
    InputFiles(read).refuse([target])
    check_output(target, overwrite=overwrite, picture=False)
    model = prove_model(source)
    with StagedFiles(overwrite=overwrite, inputs=read) as files:
        files.add(target, model.content)
    return ExportReport(target, model.largest_difference, model.opset, model.parameters)


def prove_model(checkpoint: Path) -> ProvenModel:
    """The `ips` network in `checkpoint` (a weights file or run folder) as ONNX.

    Raises:
        InputError: the checkpoint cannot be read, or holds `ips-paper`.
        ExportError: the ONNX model computes something else than torch.
    """
    if os.path.isdir(checkpoint):
        checkpoint = checkpoint / "weights.safetensors"
    network, _ = load_network(checkpoint)
    if not isinstance(network, StackNetwork):
        raise InputError(f"{checkpoint}: holds ips-paper, which runs in torch only; export an ips network")
    graphs = {kind: LevelGraph(network, kind).eval() for kind in GRAPH_KEYS}
    models = {kind: _export(graph, checkpoint) for kind, graph in graphs.items()}
    opset = models["context"].opset_import[0].version
    content = pack_graphs(models)
    # What is proven is what will be read.
    difference = max(_largest_difference(graph, graph_of(content, kind)) for kind, graph in graphs.items())
    if not difference <= TOLERANCE:
        raise ExportError(f"{checkpoint}: ONNX differs from torch by {difference:.2e}; the tolerance is {TOLERANCE:g}")
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return ProvenModel(content, difference, opset, parameters)


def _export(graph: LevelGraph, checkpoint: Path) -> Any:
    """Returns the ONNX model of a graph, for any number of sources and any size."""
    sources = torch.export.Dim("sources", min=2, max=4096)
    rows, columns = (torch.export.Dim(name, min=2, max=1 << 13) for name in ("rows", "columns"))
    shapes: dict[str, dict[int, Any]] = {
        "frames": {0: sources, 2: SIZE_MULTIPLE * rows, 3: SIZE_MULTIPLE * columns},
        "inside": {0: SIZE_MULTIPLE * rows, 1: SIZE_MULTIPLE * columns},
        "behind": {0: sources, 1: SIZE_MULTIPLE // 2 * rows, 2: SIZE_MULTIPLE // 2 * columns},
        "veil_above": {0: sources, 2: rows, 3: columns},
    }
    example = _example(graph, (2, 8 * SIZE_MULTIPLE, 10 * SIZE_MULTIPLE), torch.Generator().manual_seed(0))
    with _quiet_exporter():
        program = torch.onnx.export(
            graph,
            (),
            kwargs=example,
            dynamo=True,
            input_names=list(example),
            output_names=list(OUTPUTS),
            dynamic_shapes={name: shapes[name] for name in example},
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise ExportError(f"{checkpoint}: torch did not produce an ONNX program")
    return _without_traces(program.model_proto)


def _without_traces(model: Any) -> Any:
    """Returns the model without what the exporter notes of the program that it traced: files, lines and names."""
    for holder in (model, model.graph, *model.functions):
        del holder.metadata_props[:]
        holder.doc_string = ""
    parts = (model.graph.node, model.graph.value_info, model.graph.input, model.graph.output, model.graph.initializer)
    for part in (*parts, *(function.node for function in model.functions)):
        for entry in part:
            del entry.metadata_props[:]
            entry.doc_string = ""
    return model


def _example(graph: LevelGraph, size: tuple[int, int, int], generator: torch.Generator) -> dict[str, Tensor]:
    """Inputs of a graph by name; the size is sources, height and width."""
    sources, height, width = size
    frames = torch.rand(sources, 3, height, width, generator=generator)
    # The picture ends a little before the frames.
    inside = torch.zeros(height, width)
    inside[: height - 5, : width - 3] = 1
    # Some sources are out in some places, and the best is nowhere behind.
    behind = (-2 * EXCLUSION * torch.rand(sources, height // 2, width // 2, generator=generator)).clamp(min=-EXCLUSION)
    behind = behind - behind.amax(0)
    veil = torch.rand(sources, 4, height // 8, width // 8, generator=generator) - 0.5
    made = {"frames": frames, "inside": inside, "behind": behind.clamp(min=-EXCLUSION), "veil_above": veil}
    return {name: made[name] for name in graph_inputs(graph.kind)}


@contextlib.contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Keeps back what torch's exporter says about itself: packages it could also use, functions it will rename."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _largest_difference(graph: LevelGraph, model: bytes) -> float:
    # The core runs on onnxruntime; training machines may lack it, so it is asked for only here.
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    largest = 0.0
    for proof in PROOFS:
        inputs = _example(graph, proof, generator)
        with torch.no_grad():
            logits, veil = (output.numpy() for output in graph(**inputs))
        found_logits, found_veil = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        pairs = ((_weights(logits), _weights(found_logits)), (veil, found_veil))
        largest = max(largest, *(float(np.abs(one - other).max()) for one, other in pairs))
    return largest


def _weights(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the picture is made of; the logits themselves may be large and differ harmlessly."""
    weights = np.exp(logits - logits.max(axis=0, keepdims=True))
    share: NDArray[np.float32] = weights / weights.sum(axis=0, keepdims=True)
    return share
