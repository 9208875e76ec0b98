"""A trained network as an ONNX file, and the proof that both compute the same."""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from allfocus.errors import ExportError, InputError
from allfocus.network.checkpoint import load_network
from allfocus.network.stack_network import SIZE_MULTIPLE, StackNetwork

TOLERANCE = 1e-4
"""Largest difference allowed between the outputs of ONNX and torch."""
PROOFS = ((2, 64, 96), (3, 136, 72), (12, 40, 40), (5, 256, 248))
"""Sources, height and width on which the export is checked; none is the size it was traced with."""


@dataclass(frozen=True)
class ExportReport:
    """What :func:`export_onnx` wrote and how far it is from torch."""

    path: Path
    largest_difference: float
    """Largest absolute difference of the weights over all proofs; the tolerance is 1e-4."""
    opset: int
    parameters: int


class _OneStack(nn.Module):
    """The stack network without its batch dimension: frames (n, 3, H, W) to selection logits (n, H, W)."""

    def __init__(self, network: StackNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, frames: Tensor) -> Tensor:
        logits: Tensor = self.network(frames[None])[0]
        return logits


def export_onnx(checkpoint: Path, output: Path) -> ExportReport:
    """Writes the `ips` network in `checkpoint` (a weights file or run folder) as ONNX and proves that it equals torch.

    Raises:
        InputError: the checkpoint cannot be read, or holds `ips-paper`, which runs in torch only: its full-resolution
            scan has no ONNX form that is usable.
        ExportError: the ONNX file computes something else than torch; it is not left behind.
    """
    if checkpoint.is_dir():
        checkpoint = checkpoint / "weights.safetensors"
    network, _ = load_network(checkpoint)
    if not isinstance(network, StackNetwork):
        raise InputError(f"{checkpoint}: holds ips-paper, which runs in torch only; export an ips network")
    model = _OneStack(network).eval()
    example = torch.rand(2, 3, 8 * SIZE_MULTIPLE, 10 * SIZE_MULTIPLE)
    sizes = {
        0: torch.export.Dim("sources", min=2, max=4096),
        2: SIZE_MULTIPLE * torch.export.Dim("rows", min=2, max=1 << 14),
        3: SIZE_MULTIPLE * torch.export.Dim("columns", min=2, max=1 << 14),
    }
    with _quiet_exporter():
        program = torch.onnx.export(
            model,
            (example,),
            dynamo=True,
            input_names=["frames"],
            output_names=["logits"],
            dynamic_shapes={"frames": sizes},
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise ExportError(f"{checkpoint}: torch did not produce an ONNX program")
    partial = output.with_name(f".{output.name}.partial")
    try:
        program.save(str(partial), external_data=False)
        difference = _largest_difference(model, partial)
        if not difference <= TOLERANCE:
            raise ExportError(f"{output}: ONNX differs from torch by {difference:.2e}; the tolerance is {TOLERANCE:g}")
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    opset = int(program.model.opset_imports[""])
    return ExportReport(output, difference, opset, sum(p.numel() for p in network.parameters()))


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


def _largest_difference(model: nn.Module, path: Path) -> float:
    # The core runs on onnxruntime; training machines may lack it, so it is asked for only here.
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    largest = 0.0
    for sources, height, width in PROOFS:
        frames = torch.rand(sources, 3, height, width, generator=generator)
        with torch.no_grad():
            expected = _weights(model(frames).numpy())
        found = _weights(session.run(None, {"frames": frames.numpy()})[0])
        largest = max(largest, float(np.abs(found - expected).max()))
    return largest


def _weights(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """What the picture is made of; the logits themselves may be large and differ harmlessly."""
    weights = np.exp(logits - logits.max(axis=0, keepdims=True))
    share: NDArray[np.float32] = weights / weights.sum(axis=0, keepdims=True)
    return share
