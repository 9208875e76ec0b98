# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The causal convolution of a Mamba block and its SiLU as one pass over memory, forward and backward, on an NVIDIA GPU.

A program is one warp that walks over the tokens of a piece of the sequence with the last tokens of its channels in its
registers, so every value is read once. The backward pass computes the convolution again instead of reading it. As in
:mod:`allfocus.network.triton_scan` the kernels are torch operators and all arithmetic is float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDTH = 4
"""Tokens that the kernels see, which name them one by one; narrower convolutions are padded with weights of 0."""
PIECE = 128
"""Tokens per program: three more are read, so many keep that small; few let many programs hide each other's waiting."""
BLOCK = 128
"""Channels per program."""


def convolve_silu_triton(sequence: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns SiLU of the causal depthwise convolution of a sequence (batch, length, channels) on an NVIDIA GPU.

    Args:
        sequence: of the type that the result has.
        weight: (width, channels), the last row for the current token; at most 4 wide.
        bias: (channels,).
    """
    if weight.shape[0] > WIDTH:
        raise ValueError(f"the Triton convolution sees at most {WIDTH} tokens, found a width of {weight.shape[0]}")
    padded = torch.nn.functional.pad(weight.float(), (0, 0, WIDTH - weight.shape[0], 0))
    result: Tensor = _convolve(sequence, padded, bias.float())
    return result


@torch.library.custom_op("allfocus::convolve_silu", mutates_args=())
def _convolve(sequence: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    sequence, weight, bias = _rows(sequence), weight.contiguous(), bias.contiguous()
    batch, length, channels = sequence.shape
    result = sequence.new_empty(sequence.shape)
    grid = triton.cdiv(channels, BLOCK), triton.cdiv(length, PIECE), batch
    convolve_kernel[grid](
        sequence, weight, bias, result, length, channels, sequence.stride(1),
        PIECE=PIECE, BLOCK=BLOCK, EVEN=length % PIECE == 0 and channels % BLOCK == 0, num_warps=1,
    )  # fmt: skip
    return result


@torch.library.custom_op("allfocus::convolve_silu_backward", mutates_args=())
def _convolve_backward(
    gradient: Tensor, sequence: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of the inputs of :func:`_convolve`."""
    gradient, sequence, weight, bias = _rows(gradient), _rows(sequence), weight.contiguous(), bias.contiguous()
    batch, length, channels = sequence.shape
    grid = triton.cdiv(channels, BLOCK), triton.cdiv(length, PIECE), batch
    dsequence = sequence.new_empty(sequence.shape)
    sums = weight.new_empty(batch * grid[1], WIDTH + 1, channels)
    convolve_backward_kernel[grid](
        gradient, sequence, weight, bias, dsequence, sums, length, channels, gradient.stride(1), sequence.stride(1),
        PIECE=PIECE, BLOCK=BLOCK, EVEN=length % PIECE == 0 and channels % BLOCK == 0, num_warps=1,
    )  # fmt: skip
    total = sums.sum(0)
    # Copies: an operator's results must not share memory.
    return dsequence, total[:WIDTH].clone(), total[WIDTH].clone()


def _rows(sequence: Tensor) -> Tensor:
    """Returns the sequence with its tokens at one distance over the whole batch, such as half of the columns has."""
    _, length, _ = sequence.shape
    apart = sequence.stride(1)
    return sequence if sequence.stride() == (length * apart, apart, 1) else sequence.contiguous()


@_convolve.register_fake
def _(sequence, weight, bias):
    return sequence.new_empty(sequence.shape)


@_convolve_backward.register_fake
def _(gradient, sequence, weight, bias):
    return tuple(each.new_empty(each.shape) for each in (sequence, weight, bias))


def _remember(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _differentiate(ctx, gradient):
    return _convolve_backward(gradient, *ctx.saved_tensors)


_convolve.register_autograd(_differentiate, setup_context=_remember)


@triton.jit
def _token(pointer, k, first, last, stride, channel, valid, EVEN: tl.constexpr):
    # One token's values of the channels, 0 where the sequence has none: it has those from `first` to before `last`.
    at = pointer + k * stride + channel
    if EVEN:
        return tl.load(at).to(tl.float32)
    return tl.load(at, mask=valid & (k >= first) & (k < last), other=0.0).to(tl.float32)


@triton.jit
def _convolved(x0, x1, x2, x3, w0, w1, w2, w3, bias):
    return bias + x0 * w0 + x1 * w1 + x2 * w2 + x3 * w3


@triton.jit
def _sigmoid(z):
    return 1.0 / (1.0 + tl.exp2(z * -1.4426950408889634))


@triton.jit
def convolve_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, length, channels, x_stride,
    PIECE: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Stores SiLU of the convolution."""
    piece, channel = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    batch, valid = tl.program_id(2).to(tl.int64), channel < channels
    w0 = tl.load(weight_ptr + channel, mask=valid, other=0.0)
    w1 = tl.load(weight_ptr + channels + channel, mask=valid, other=0.0)
    w2 = tl.load(weight_ptr + 2 * channels + channel, mask=valid, other=0.0)
    w3 = tl.load(weight_ptr + 3 * channels + channel, mask=valid, other=0.0)
    bias = tl.load(bias_ptr + channel, mask=valid, other=0.0)
    # Tokens are counted from the first of the piece, so that the numbers stay small.
    first = batch * length + piece * PIECE
    x_ptr += first * x_stride
    y_ptr += first * channels
    start, end = -piece * PIECE, length - piece * PIECE
    p1 = _token(x_ptr, -3, start, end, x_stride, channel, valid, False)
    p2 = _token(x_ptr, -2, start, end, x_stride, channel, valid, False)
    p3 = _token(x_ptr, -1, start, end, x_stride, channel, valid, False)
    for k in range(0, PIECE, 4):
        x0 = _token(x_ptr, k, start, end, x_stride, channel, valid, EVEN)
        x1 = _token(x_ptr, k + 1, start, end, x_stride, channel, valid, EVEN)
        x2 = _token(x_ptr, k + 2, start, end, x_stride, channel, valid, EVEN)
        x3 = _token(x_ptr, k + 3, start, end, x_stride, channel, valid, EVEN)
        z0 = _convolved(p1, p2, p3, x0, w0, w1, w2, w3, bias)
        z1 = _convolved(p2, p3, x0, x1, w0, w1, w2, w3, bias)
        z2 = _convolved(p3, x0, x1, x2, w0, w1, w2, w3, bias)
        z3 = _convolved(x0, x1, x2, x3, w0, w1, w2, w3, bias)
        out = y_ptr + k * channels + channel
        tl.store(out, z0 * _sigmoid(z0), mask=valid & (k < end))
        tl.store(out + channels, z1 * _sigmoid(z1), mask=valid & (k + 1 < end))
        tl.store(out + 2 * channels, z2 * _sigmoid(z2), mask=valid & (k + 2 < end))
        tl.store(out + 3 * channels, z3 * _sigmoid(z3), mask=valid & (k + 3 < end))
        p1, p2, p3 = x1, x2, x3


@triton.jit
def _unbent(dy, x0, x1, x2, x3, w0, w1, w2, w3, bias):
    # The gradient of the convolution from that of its SiLU.
    z = _convolved(x0, x1, x2, x3, w0, w1, w2, w3, bias)
    s = _sigmoid(z)
    return dy * s * (1.0 + z * (1.0 - s))


@triton.jit
def convolve_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, bias_ptr, dx_ptr, sums_ptr, length, channels, dy_stride, x_stride,
    PIECE: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Stores the gradient of the sequence and, for each piece, those of the four weights and the bias.

    Three tokens late: the gradient of a token needs those of the convolution at the three tokens behind it.
    """
    piece, channel = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    batch, valid = tl.program_id(2).to(tl.int64), channel < channels
    w0 = tl.load(weight_ptr + channel, mask=valid, other=0.0)
    w1 = tl.load(weight_ptr + channels + channel, mask=valid, other=0.0)
    w2 = tl.load(weight_ptr + 2 * channels + channel, mask=valid, other=0.0)
    w3 = tl.load(weight_ptr + 3 * channels + channel, mask=valid, other=0.0)
    bias = tl.load(bias_ptr + channel, mask=valid, other=0.0)
    first = batch * length + piece * PIECE
    dy_ptr += first * dy_stride
    x_ptr += first * x_stride
    dx_ptr += first * channels
    start, end = -piece * PIECE, length - piece * PIECE
    p1 = _token(x_ptr, -3, start, end, x_stride, channel, valid, False)
    p2 = _token(x_ptr, -2, start, end, x_stride, channel, valid, False)
    p3 = _token(x_ptr, -1, start, end, x_stride, channel, valid, False)
    e1 = tl.zeros([BLOCK], dtype=tl.float32)
    e2, e3 = e1, e1
    dw0, dw1, dw2, dw3, dbias = e1, e1, e1, e1, e1
    for k in range(0, PIECE, 4):
        x0 = _token(x_ptr, k, start, end, x_stride, channel, valid, EVEN)
        x1 = _token(x_ptr, k + 1, start, end, x_stride, channel, valid, EVEN)
        x2 = _token(x_ptr, k + 2, start, end, x_stride, channel, valid, EVEN)
        x3 = _token(x_ptr, k + 3, start, end, x_stride, channel, valid, EVEN)
        dy0 = _token(dy_ptr, k, start, end, dy_stride, channel, valid, EVEN)
        dy1 = _token(dy_ptr, k + 1, start, end, dy_stride, channel, valid, EVEN)
        dy2 = _token(dy_ptr, k + 2, start, end, dy_stride, channel, valid, EVEN)
        dy3 = _token(dy_ptr, k + 3, start, end, dy_stride, channel, valid, EVEN)
        g0 = _unbent(dy0, p1, p2, p3, x0, w0, w1, w2, w3, bias)
        g1 = _unbent(dy1, p2, p3, x0, x1, w0, w1, w2, w3, bias)
        g2 = _unbent(dy2, p3, x0, x1, x2, w0, w1, w2, w3, bias)
        g3 = _unbent(dy3, x0, x1, x2, x3, w0, w1, w2, w3, bias)
        dw0 += (g0 * p1 + g1 * p2) + (g2 * p3 + g3 * x0)
        dw1 += (g0 * p2 + g1 * p3) + (g2 * x0 + g3 * x1)
        dw2 += (g0 * p3 + g1 * x0) + (g2 * x1 + g3 * x2)
        dw3 += (g0 * x0 + g1 * x1) + (g2 * x2 + g3 * x3)
        dbias += (g0 + g1) + (g2 + g3)
        out = dx_ptr + (k - 3) * channels + channel
        late = valid & (k > 0) & (k - 3 < end)
        tl.store(out, _convolved(e1, e2, e3, g0, w3, w2, w1, w0, 0.0), mask=late)
        late = valid & (k > 0) & (k - 2 < end)
        tl.store(out + channels, _convolved(e2, e3, g0, g1, w3, w2, w1, w0, 0.0), mask=late)
        late = valid & (k > 0) & (k - 1 < end)
        tl.store(out + 2 * channels, _convolved(e3, g0, g1, g2, w3, w2, w1, w0, 0.0), mask=late)
        tl.store(out + 3 * channels, _convolved(g0, g1, g2, g3, w3, w2, w1, w0, 0.0), mask=valid & (k < end))
        p1, p2, p3 = x1, x2, x3
        e1, e2, e3 = g1, g2, g3
    # The last three tokens, with the gradients of the convolution that belong to the next piece.
    x0 = _token(x_ptr, PIECE, start, end, x_stride, channel, valid, False)
    x1 = _token(x_ptr, PIECE + 1, start, end, x_stride, channel, valid, False)
    x2 = _token(x_ptr, PIECE + 2, start, end, x_stride, channel, valid, False)
    dy0 = _token(dy_ptr, PIECE, start, end, dy_stride, channel, valid, False)
    dy1 = _token(dy_ptr, PIECE + 1, start, end, dy_stride, channel, valid, False)
    dy2 = _token(dy_ptr, PIECE + 2, start, end, dy_stride, channel, valid, False)
    g0 = _unbent(dy0, p1, p2, p3, x0, w0, w1, w2, w3, bias)
    g1 = _unbent(dy1, p2, p3, x0, x1, w0, w1, w2, w3, bias)
    g2 = _unbent(dy2, p3, x0, x1, x2, w0, w1, w2, w3, bias)
    out = dx_ptr + (PIECE - 3) * channels + channel
    tl.store(out, _convolved(e1, e2, e3, g0, w3, w2, w1, w0, 0.0), mask=valid & (end > PIECE - 3))
    tl.store(out + channels, _convolved(e2, e3, g0, g1, w3, w2, w1, w0, 0.0), mask=valid & (end > PIECE - 2))
    tl.store(out + 2 * channels, _convolved(e3, g0, g1, g2, w3, w2, w1, w0, 0.0), mask=valid & (end > PIECE - 1))
    pieces = tl.num_programs(1)
    sums = sums_ptr + (batch * pieces + piece) * 5 * channels + channel
    tl.store(sums, dw0, mask=valid)
    tl.store(sums + channels, dw1, mask=valid)
    tl.store(sums + 2 * channels, dw2, mask=valid)
    tl.store(sums + 3 * channels, dw3, mask=valid)
    tl.store(sums + 4 * channels, dbias, mask=valid)
