"""The building blocks of both networks: ResBlock (local detail) and Mamba blocks (global context)."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.network.selective_scan import selective_scan, selective_scan_heads

DIRECTIONS = ("rows", "columns", "rows-reversed", "columns-reversed")
"""The orders in which a feature map can be read as a sequence."""
TRAINING_CHUNK, INFERENCE_CHUNK = 16, 64
"""Tokens that :func:`.selective_scan.selective_scan_heads` handles by one matrix product: crops have few tokens, and
small products, which must be kept for the gradients, take less memory; large ones suit processors."""


class ResBlock(nn.Module):
    """Two 3x3 convolutions around a ReLU, added to the input; no normalisation, which would wash out contrast."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, features: Tensor, inside: Tensor | None = None) -> Tensor:
        """Returns features of the same shape (batch, channels, height, width).

        Args:
            features: zero beyond the picture.
            inside: 1 in the picture and 0 beyond it; None if it ends where the features do.
        """
        update: Tensor = self.second(keep(functional.relu(self.first(features)), inside))
        return keep(features + update, inside)


def keep(features: Tensor, inside: Tensor | None) -> Tensor:
    """Returns the features, zero beyond the picture: what a convolution sees beyond the end of its input."""
    # In the type of the features: one of more digits would make all that follows as large.
    return features if inside is None else features * inside.to(features.dtype)


def reduce_inside(inside: Tensor | None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Returns where there is something of the picture, at a half, a quarter and an eighth of the resolution."""
    if inside is None:
        return None, None, None
    half = functional.max_pool2d(inside, 2)
    quarter = functional.max_pool2d(half, 2)
    return half, quarter, functional.max_pool2d(quarter, 2)


def lay_channels_last(features: Tensor) -> Tensor:
    """Returns a map laid out as a GPU convolves fastest, and as it is a sequence of tokens; on a CPU the map as it is.

    Means and maxima over sources and enlarged maps lose the layout, and what meets them is then moved, again and again.
    """
    return features.contiguous(memory_format=torch.channels_last) if features.is_cuda else features


def flatten_map(features: Tensor, direction: str) -> Tensor:
    """Returns the map (batch, channels, height, width) as a sequence (batch, length, channels) read in `direction`."""
    ordered = features.transpose(2, 3) if direction.startswith("columns") else features
    sequence = ordered.flatten(2).transpose(1, 2)
    return sequence.flip(1) if direction.endswith("reversed") else sequence


def unflatten_map(sequence: Tensor, direction: str, height: int, width: int) -> Tensor:
    """Returns the map (batch, channels, height, width) that :func:`flatten_map` turned into `sequence`."""
    ordered = sequence.flip(1) if direction.endswith("reversed") else sequence
    size = (width, height) if direction.startswith("columns") else (height, width)
    features = torch.unflatten(ordered.transpose(1, 2), 2, size)
    return features.transpose(2, 3) if direction.startswith("columns") else features


class CausalConvolution(nn.Module):
    """A depthwise 1D convolution over the last `width` tokens, written as shifted sums.

    Shifted sums fuse well and are far faster than a grouped ``conv1d`` on a GPU.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, channels).uniform_(-1, 1) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, sequence: Tensor) -> Tensor:
        """Returns a sequence of the same shape (batch, length, channels)."""
        width, length = self.weight.shape[0], sequence.shape[1]
        padded = functional.pad(sequence, (0, 0, width - 1, 0))
        result = self.bias.to(sequence.dtype)
        for k in range(width):
            result = torch.addcmul(result, padded[:, k : k + length], self.weight[k].to(sequence.dtype))
        return result

    def silu(self, sequence: Tensor) -> Tensor:
        """Returns SiLU of :meth:`forward`; on a GPU as one kernel, with its own backward pass."""
        if not sequence.is_cuda or self.weight.shape[0] > 4:
            return functional.silu(self(sequence))
        # Imported here because Triton exists only on machines with a GPU.
        from allfocus.network.triton_convolution import convolve_silu_triton

        return convolve_silu_triton(sequence, self.weight, self.bias)


class MambaBlock(nn.Module):
    """The Mamba block of the paper's figure 4 on a feature map: norm, two projections, convolution, scan, gate, output.

    Every channel has its own step size and decay rates (the selective state space model of Gu and Dao, 2023).
    """

    def __init__(self, channels: int, *, expansion: int, state: int, convolution_width: int, direction: str) -> None:
        super().__init__()
        inner = channels * expansion
        self.direction = direction
        self.state = state
        self.rank = math.ceil(channels / 16)
        self.norm = nn.LayerNorm(channels)
        self.enter = nn.Linear(channels, 2 * inner, bias=False)
        self.convolution = CausalConvolution(inner, convolution_width)
        self.select = nn.Linear(inner, self.rank + 2 * state, bias=False)
        self.step = nn.Linear(self.rank, inner)
        self.log_decay = nn.Parameter(torch.log(torch.arange(1.0, state + 1)).repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.leave = nn.Linear(inner, channels, bias=False)
        nn.init.uniform_(self.step.weight, -(self.rank**-0.5), self.rank**-0.5)
        _initialise_step_bias(self.step.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Returns a map of the same shape (batch, channels, height, width)."""
        height, width = features.shape[-2:]
        sequence = flatten_map(features, self.direction)
        x, gate = self.enter(self.norm(sequence)).chunk(2, dim=-1)
        x = self.convolution.silu(x)
        # The two linear maps to the step size as one: a product of four columns alone is slow on a GPU.
        low_rank, b_and_c = torch.split(self.select.weight, [self.rank, 2 * self.state])
        selected = functional.linear(x, torch.cat([self.step.weight @ low_rank, b_and_c.to(x.dtype)]))
        step, b, c = torch.split(selected, [x.shape[-1], self.state, self.state], dim=-1)
        step = functional.softplus(step.float() + self.step.bias).to(x.dtype)
        y = selective_scan(x, step, -torch.exp(self.log_decay), b.contiguous(), c.contiguous(), self.skip)
        output = sequence + self.leave(y.to(gate.dtype) * functional.silu(gate))
        return unflatten_map(output, self.direction, height, width)


class HeadMambaBlock(nn.Module):
    """A Mamba block whose heads share one decay, so that the scan is matrix products (fast on a CPU and in ONNX)."""

    def __init__(self, channels: int, *, heads: int, state: int, convolution_width: int, direction: str) -> None:
        super().__init__()
        self.direction = direction
        self.heads = heads
        self.state = state
        self.norm = nn.LayerNorm(channels)
        self.enter = nn.Linear(channels, 2 * channels, bias=False)
        self.convolution = CausalConvolution(channels, convolution_width)
        self.select = nn.Linear(channels, heads + 2 * state, bias=False)
        self.step_bias = nn.Parameter(torch.empty(heads))
        # Decay rates from 1 to 1/8 per unit step: with the steps below a head remembers ten to thousands of tokens.
        self.log_decay = nn.Parameter(torch.linspace(0.0, -math.log(8.0), heads))
        self.skip = nn.Parameter(torch.ones(heads, channels // heads))
        self.leave = nn.Linear(channels, channels, bias=False)
        _initialise_step_bias(self.step_bias)

    def forward(self, features: Tensor) -> Tensor:
        """Returns a map of the same shape (batch, channels, height, width)."""
        height, width = features.shape[-2:]
        sequence = flatten_map(features, self.direction)
        x, gate = self.enter(self.norm(sequence)).chunk(2, dim=-1)
        x = functional.silu(self.convolution(x))
        step, b, c = self.select(x).float().split([self.heads, self.state, self.state], dim=-1)
        step = functional.softplus(step + self.step_bias)
        tokens = torch.unflatten(x.float(), 2, (self.heads, -1))
        with torch.autocast(features.device.type, enabled=False):
            chunk = TRAINING_CHUNK if self.training else INFERENCE_CHUNK
            y = selective_scan_heads(tokens, step, -torch.exp(self.log_decay), b, c, self.skip, chunk=chunk)
        output = sequence + self.leave(y.flatten(2).to(gate.dtype) * functional.silu(gate))
        return lay_channels_last(unflatten_map(output, self.direction, height, width))


def _initialise_step_bias(bias: nn.Parameter) -> None:
    """Sets the bias so that softplus gives steps spread logarithmically over 0.001 to 0.1, as Mamba does."""
    steps = torch.exp(torch.rand(bias.shape) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
    with torch.no_grad():
        bias.copy_(steps + torch.log(-torch.expm1(-steps)))
