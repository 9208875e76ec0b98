"""What the shipped network costs in floating-point operations, counted from the shapes of its ONNX graphs.

A picture is decided at several levels, each with a quarter of the pixels of the next finer one: their costs are added
up, the coarsest with the graph that sees the picture whole, the finest ones of a large picture with the refiner, those
between with the graph of a level with context. onnxruntime tells the shapes that every operator saw in one run, with
all of its optimisations switched off so that the operators are those of the file. A multiplication and an addition
count as two operations; a function such as exp counts as one; moving data counts nothing. An operator that is not in
the table stops the count, so that it is never too low.
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
from allfocus.fusion.inference import Kind, weights_folder
from allfocus.network.contract import SIZE_MULTIPLE
from allfocus.network.graph_file import graph_of

LARGEST_COST = 60_000
"""Operations per pixel and source that the shipped network may cost, over all levels: pixels are those of level 0."""
SIDE = 256
"""Of the pictures that are counted; the cost of a pixel does not depend on it."""
LEVELS = 4
"""Levels at which they are decided, as pictures of six megapixels are."""

Shape = list[int]
Count = Callable[[list[Shape], list[Shape]], int]
"""Shapes of the inputs and of the outputs -> operations."""


@dataclass(frozen=True)
class NetworkCost:
    """Operations that it takes to decide one picture."""

    sources: int
    """Frames it saw."""
    height: int
    """Rows of each."""
    width: int
    """Columns of each."""
    levels: int
    """At how many scales it decided."""
    by_operator: dict[str, int]
    """Operations by kind of operator, the dearest first."""

    @property
    def total(self) -> int:
        """All operations."""
        return sum(self.by_operator.values())

    @property
    def per_pixel_and_source(self) -> float:
        """Operations for each pixel of each frame, at the finest scale at which the network decides."""
        return self.total / (self.sources * self.height * self.width)


def count_operations(
    model: Path | None = None,
    *,
    sources: int = 4,
    height: int = SIDE,
    width: int = SIDE,
    levels: int = LEVELS,
    refined: int = 0,
) -> NetworkCost:
    """Return the floating-point operations of the shipped network, or of another of the same kind.

    Args:
        model: An ONNX file that ``allfocus export`` wrote; None for the shipped one.
        sources: Frames, all of which compete everywhere.
        height: Rows at the finest level; those of the coarsest must be a multiple of 8.
        width: Columns, likewise.
        levels: At how many scales it decides; 1 sees the picture whole at once.
        refined: How many of them, from the finest on, are refined by their detail alone; 0 is the dearest case.

    Raises:
        InputError: The size does not fit the levels; the network has an operator whose cost is not known.

    Example:
        >>> cost = count_operations(sources=2, height=64, width=64, levels=2)
        >>> 1_000 < cost.per_pixel_and_source < LARGEST_COST
        True
    """
    multiple = SIZE_MULTIPLE * 2 ** (levels - 1)
    if levels < 1 or height % multiple or width % multiple:
        raise InputError(f"{width}x{height} at {levels} levels: sides must be multiples of {multiple}")
    content = (weights_folder() / "ips.onnx").read_bytes() if model is None else model.read_bytes()
    counted: dict[str, int] = {}
    for level in range(levels):
        size = height >> level, width >> level
        kind: Kind = "whole" if level == levels - 1 else "refine" if level < refined else "context"
        for operator, inputs, outputs in _seen_shapes(content, sources, *size, kind):
            count = _COUNTS.get(operator)
            if count is None:
                raise InputError(f"the cost of the operator {operator} is not known; add it to {__name__}")
            counted[operator] = counted.get(operator, 0) + count(inputs, outputs)
    dearest = sorted(((cost, name) for name, cost in counted.items() if cost), reverse=True)
    return NetworkCost(sources, height, width, levels, {name: cost for cost, name in dearest})


def _seen_shapes(
    content: bytes, sources: int, height: int, width: int, kind: Kind
) -> list[tuple[str, list[Shape], list[Shape]]]:
    """Return operator, input shapes and output shapes of everything that one run of a level executes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Packed weights would no longer show their shape.
    options.add_session_config_entry("session.disable_prepacking", "1")
    shapes: dict[str, tuple[int, ...]] = {
        "frames": (sources, 3, height, width),
        "inside": (height, width),
        "behind": (sources, height // 2, width // 2),
        "veil_above": (sources, 4, height // 8, width // 8),
    }
    with tempfile.TemporaryDirectory(prefix="allfocus-operations-") as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = onnxruntime.InferenceSession(graph_of(content, kind), options, providers=["CPUExecutionProvider"])
        names = [entry.name for entry in session.get_inputs()]
        session.run(None, {name: np.zeros(shapes[name], np.float32) for name in names})
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
    # Every value is looked at once: windows do not overlap here.
    "AveragePool": _per_input,
    "MaxPool": _per_input,
}
