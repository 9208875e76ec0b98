"""What the shipped network costs in floating-point operations, counted from the shapes of its ONNX graph.

onnxruntime tells the shapes that every operator saw in one run, with all of its optimisations switched off so that the
operators are those of the file. A multiplication and an addition count as two operations; a function such as exp counts
as one; moving data counts nothing. An operator that is not in the table stops the count, so that it is never too low.
"""

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from allfocus.errors import InputError
from allfocus.fusion.inference import weights_folder

LARGEST_COST = 60_000
"""Operations per pixel and source that the shipped network may cost at the scale at which it runs."""
WINDOW = 288
"""Side of the pictures that are counted: that of the windows in which large pictures are fused."""

Shape = list[int]
Count = Callable[[list[Shape], list[Shape]], int]
"""Shapes of the inputs and of the outputs -> operations."""


@dataclass(frozen=True)
class NetworkCost:
    """Operations of one run of the network."""

    sources: int
    """Frames it saw."""
    height: int
    """Rows of each."""
    width: int
    """Columns of each."""
    by_operator: dict[str, int]
    """Operations by kind of operator, the dearest first."""

    @property
    def total(self) -> int:
        """All operations."""
        return sum(self.by_operator.values())

    @property
    def per_pixel_and_source(self) -> float:
        """Operations for each pixel of each frame, at the scale at which the network runs."""
        return self.total / (self.sources * self.height * self.width)


def count_operations(
    model: Path | None = None, *, sources: int = 4, height: int = WINDOW, width: int = WINDOW
) -> NetworkCost:
    """Return the floating-point operations of the shipped network, or of another of the same kind.

    Args:
        model: An ONNX file with one input (sources, 3, height, width); None for the shipped one.
        sources: Frames.
        height: Rows, a multiple of 8.
        width: Columns, a multiple of 8.

    Raises:
        InputError: The network has an operator whose cost is not known.

    Example:
        >>> cost = count_operations(sources=2, height=64, width=64)
        >>> 1_000 < cost.per_pixel_and_source < LARGEST_COST
        True
    """
    counted: dict[str, int] = {}
    for operator, inputs, outputs in _seen_shapes(model, (sources, 3, height, width)):
        count = _COUNTS.get(operator)
        if count is None:
            raise InputError(f"the cost of the operator {operator} is not known; add it to {__name__}")
        counted[operator] = counted.get(operator, 0) + count(inputs, outputs)
    dearest = sorted(((cost, name) for name, cost in counted.items() if cost), reverse=True)
    return NetworkCost(sources, height, width, {name: cost for cost, name in dearest})


def _seen_shapes(model: Path | None, shape: tuple[int, ...]) -> list[tuple[str, list[Shape], list[Shape]]]:
    """Return operator, input shapes and output shapes of everything that one run executes."""
    import onnxruntime

    content = (weights_folder() / "ips.onnx").read_bytes() if model is None else model.read_bytes()
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Packed weights would no longer show their shape.
    options.add_session_config_entry("session.disable_prepacking", "1")
    with tempfile.TemporaryDirectory(prefix="allfocus-operations-") as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        session.run(None, {session.get_inputs()[0].name: np.zeros(shape, np.float32)})
        events: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    seen = []
    for event in events:
        told = event.get("args", {})
        if event.get("cat") == "Node" and str(event.get("name", "")).endswith("_kernel_time"):
            seen.append((told["op_name"], _shapes(told["input_type_shape"]), _shapes(told["output_type_shape"])))
    return seen


def _shapes(told: list[dict[str, Shape]]) -> list[Shape]:
    return [shape for entry in told for shape in entry.values()]


def _per_output(operations: int) -> Count:
    return lambda inputs, outputs: operations * sum(math.prod(shape) for shape in outputs)


def _per_input(inputs: list[Shape], outputs: list[Shape]) -> int:
    return math.prod(inputs[0])


def _convolution(weights: int) -> Count:
    def count(inputs: list[Shape], outputs: list[Shape]) -> int:
        # Each value of the output: one multiplication and addition for each weight of its channel, and the bias.
        has_bias = weights == 1 and len(inputs) > 2
        return math.prod(outputs[0]) * (2 * math.prod(inputs[weights][1:]) + has_bias)

    return count


def _matrix_product(inputs: list[Shape], outputs: list[Shape]) -> int:
    return 2 * math.prod(outputs[0]) * inputs[0][-1]


_MOVES = (
    "Cast Concat Constant ConstantOfShape DepthToSpace Expand Flatten Gather GatherND Identity Pad Reshape ScatterND "
    "Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze Range"
)
_ONE_EACH = (
    "Abs Add And Ceil Clip CumSum Div Equal Erf Exp Floor Greater GreaterOrEqual LeakyRelu Less LessOrEqual Log Max "
    "Min Mod Mul Neg Not Or Pow PRelu Reciprocal Relu Round Sigmoid Softplus Sqrt Sub Tanh Where DequantizeLinear"
)
_REDUCTIONS = "ReduceMean ReduceMax ReduceMin ReduceSum GlobalAveragePool GlobalMaxPool ArgMax"

_COUNTS: dict[str, Count] = {
    **dict.fromkeys(_MOVES.split(), _per_output(0)),
    **dict.fromkeys(_ONE_EACH.split(), _per_output(1)),
    **dict.fromkeys(_REDUCTIONS.split(), _per_input),
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
    "QLinearConv": _convolution(3),
    "MatMul": _matrix_product,
    "MatMulInteger": _matrix_product,
    "QLinearMatMul": _matrix_product,
    "Gemm": _matrix_product,
    # Two passes for mean and variance, then normalising, scaling and shifting.
    "LayerNormalization": _per_output(8),
    "Softmax": _per_output(5),
    "HardSwish": _per_output(3),
    "HardSigmoid": _per_output(2),
    "Gelu": _per_output(4),
    "QuantizeLinear": _per_output(2),
    # Linear interpolation between four values.
    "Resize": _per_output(7),
    "AveragePool": _per_output(4),
    "MaxPool": _per_output(4),
}
