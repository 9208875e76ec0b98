"""The selective scan on an NVIDIA GPU: the kernels of :mod:`allfocus.network.triton_scan_kernels` as torch operators.

As operators they are opaque to ``torch.compile``, which then compiles whole networks around them without a break.
"""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from allfocus.network.triton_scan_kernels import (
    GROUP,
    adjoint_kernel,
    backward_kernel,
    carry_kernel,
    forward_kernel,
)


@dataclass(frozen=True)
class Launch:
    """How a kernel is spread over the GPU; changes cost, not values."""

    block: int
    """Channels per program, which is one warp: with 16 states, half as many values per thread."""
    warps: int
    """Programs per multiprocessor, as its registers allow; sequences are cut into pieces to have as many."""
    registers: int
    """Registers per thread, at most: fewer let more programs run at once, which hide each other's waiting."""


FORWARD = Launch(block=16, warps=16, registers=128)
BACKWARD = Launch(block=16, warps=8, registers=255)
SHORTEST_PIECE = 64
"""Tokens in a piece, at least: fewer would not be worth the carry."""


def scan_triton(x: Tensor, Δ: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """Returns the selective scan of tensors on an NVIDIA GPU; the state size must be a power of two.

    y has the type of x. Inputs of bfloat16 are scanned in float32 too, but without the care that float32 inputs get
    where a step is tiny: there the rounding of the inputs is far larger.
    """
    if A.shape[1] & (A.shape[1] - 1):
        raise ValueError(f"the Triton scan needs a state size that is a power of two, found {A.shape[1]}")
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (x, Δ, A, B, C, D))
    y: Tensor = _scan(x, Δ, A.float(), B, C, D.float(), keep)[0]
    return y


@torch.library.custom_op("allfocus::selective_scan", mutates_args=())
def _scan(
    x: Tensor, step: Tensor, decay: Tensor, enter: Tensor, leave: Tensor, skip: Tensor, keep: bool
) -> tuple[Tensor, Tensor]:
    """Returns y and, if `keep`, the state before every group of tokens, else an empty tensor."""
    x, step, decay, enter, leave, skip = (each.contiguous() for each in (x, step, decay, enter, leave, skip))
    batch, length, channels = x.shape
    state, groups = decay.shape[1], triton.cdiv(length, GROUP)
    pieces, piece_length, blocks = _cut(x, FORWARD)
    y = torch.empty_like(x)
    kept = x.new_empty((batch, groups, channels, state) if keep else (1,), dtype=torch.float32)
    left, entering, elapsed = _carries(x, pieces, state) if pieces > 1 else (kept, kept, kept)
    sizes = {"STATE": state, "BLOCK": FORWARD.block, "SERIES": x.dtype != torch.bfloat16, "CARRIED": pieces > 1}
    for last in (False, True) if pieces > 1 else (True,):
        forward_kernel[(blocks, pieces, batch)](
            x, step, decay, enter, leave, skip, entering, y, kept, left, elapsed,
            length, channels, pieces, piece_length, groups, LAST=last, KEEP=keep, **sizes,
            num_warps=1, maxnreg=FORWARD.registers,
        )  # fmt: skip
        if not last:
            carry_kernel[(blocks, batch)](
                left,
                elapsed,
                decay,
                entering,
                channels,
                pieces,
                STATE=state,
                BLOCK=FORWARD.block,
                REVERSE=False,
                num_warps=1,
            )
    return y, kept


@torch.library.custom_op("allfocus::selective_scan_backward", mutates_args=())
def _scan_backward(
    dy: Tensor, x: Tensor, step: Tensor, decay: Tensor, enter: Tensor, leave: Tensor, skip: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns the gradients of the inputs of :func:`_scan`."""
    dy, x, step, decay, enter, leave, skip = (each.contiguous() for each in (dy, x, step, decay, enter, leave, skip))
    batch, length, channels = x.shape
    state, groups = decay.shape[1], triton.cdiv(length, GROUP)
    pieces, piece_length, blocks = _cut(x, BACKWARD)
    behind = kept
    if pieces > 1:
        left, behind, elapsed = _carries(x, pieces, state)
        adjoint_kernel[(blocks, pieces, batch)](
            step, decay, leave, dy, left, elapsed, length, channels, pieces, piece_length,
            STATE=state, BLOCK=BACKWARD.block, num_warps=1,
        )  # fmt: skip
        carry_kernel[(blocks, batch)](
            left, elapsed, decay, behind, channels, pieces, STATE=state, BLOCK=BACKWARD.block, REVERSE=True, num_warps=1
        )
    dx, dstep = torch.empty_like(x), torch.empty_like(step)
    denter, dleave = (x.new_empty(batch, length, blocks, state, dtype=torch.float32) for _ in range(2))
    ddecay = x.new_empty(batch * pieces, channels, state, dtype=torch.float32)
    dskip = x.new_empty(batch * pieces, channels, dtype=torch.float32)
    backward_kernel[(blocks, pieces, batch)](
        x, step, decay, enter, leave, skip, dy, kept, behind, dx, dstep, ddecay, dskip, denter, dleave,
        length, channels, pieces, piece_length, groups, blocks,
        STATE=state, BLOCK=BACKWARD.block, CARRIED=pieces > 1, SERIES=x.dtype != torch.bfloat16,
        num_warps=1, maxnreg=BACKWARD.registers,
    )  # fmt: skip
    denter, dleave = denter.sum(2).to(enter.dtype), dleave.sum(2).to(leave.dtype)
    return dx, dstep, ddecay.sum(0), denter, dleave, dskip.sum(0)


def _cut(x: Tensor, launch: Launch) -> tuple[int, int, int]:
    """Returns into how many pieces a sequence is cut, how many tokens each has, and how many programs share a token."""
    batch, length, channels = x.shape
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 1
    blocks = triton.cdiv(channels, launch.block)
    wanted = launch.warps * processors // (batch * blocks)
    pieces = max(1, min(wanted, length // SHORTEST_PIECE))
    piece_length = triton.cdiv(triton.cdiv(length, pieces), 16) * 16
    return triton.cdiv(length, piece_length), piece_length, blocks


def _carries(x: Tensor, pieces: int, state: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns room for what pieces leave behind, for what enters them, and for the sum of their steps."""
    shape = (x.shape[0], pieces, x.shape[2])
    left, entering = (x.new_empty(*shape, state, dtype=torch.float32) for _ in range(2))
    return left, entering, x.new_empty(shape, dtype=torch.float32)


@_scan.register_fake
def _(x: Tensor, step: Tensor, decay: Tensor, enter: Tensor, leave: Tensor, skip: Tensor, keep: bool):  # type: ignore[no-untyped-def]
    batch, length, channels = x.shape
    shape = (batch, (length + GROUP - 1) // GROUP, channels, decay.shape[1]) if keep else (1,)
    return x.new_empty(x.shape), x.new_empty(shape, dtype=torch.float32)


@_scan_backward.register_fake
def _(dy, x, step, decay, enter, leave, skip, kept):  # type: ignore[no-untyped-def]
    return tuple(each.new_empty(each.shape) for each in (x, step, decay, enter, leave, skip))


def _remember(ctx, inputs, output):  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs[:6], output[1])


def _differentiate(ctx, dy, _):  # type: ignore[no-untyped-def]
    return (*_scan_backward(dy, *ctx.saved_tensors), None)


_scan.register_autograd(_differentiate, setup_context=_remember)
