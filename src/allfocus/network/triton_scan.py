"""The selective scan on an NVIDIA GPU: the kernels of :mod:`allfocus.network.triton_scan_kernels` as torch operators.

As operators they are opaque to ``torch.compile``, which then compiles whole networks around them without a break.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from allfocus.network.triton_scan_kernels import GROUP, backward_kernel, carry_kernel, forward_kernel, leave_kernel


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
LEAVE = Launch(block=16, warps=32, registers=64)
"""What pieces leave behind: little work per token, in parts of the pieces to have as many programs."""
SHORTEST_PIECE = 64
"""Tokens in a piece or a part, at least: fewer would not be worth the carry."""


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
    cut = _cut(x, FORWARD)
    y = torch.empty_like(x)
    kept = x.new_empty((batch, groups, channels, state) if keep else (1,), dtype=torch.float32)
    entering = _carried(x, step, decay, enter, cut, reverse=False) if cut.pieces > 1 else kept
    forward_kernel[(cut.blocks, cut.pieces, batch)](
        x, step, decay, enter, leave, skip, entering, y, kept, length, cut.pieces, cut.piece_length, groups,
        CARRIED=cut.pieces > 1, KEEP=keep, **_constants(x, state, FORWARD), num_warps=1, maxnreg=FORWARD.registers,
    )  # fmt: skip
    return y, kept


@torch.library.custom_op("allfocus::selective_scan_backward", mutates_args=())
def _scan_backward(
    dy: Tensor, x: Tensor, step: Tensor, decay: Tensor, enter: Tensor, leave: Tensor, skip: Tensor, kept: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns the gradients of the inputs of :func:`_scan`."""
    dy, x, step, decay, enter, leave, skip = (each.contiguous() for each in (dy, x, step, decay, enter, leave, skip))
    batch, length, channels = x.shape
    state, groups = decay.shape[1], triton.cdiv(length, GROUP)
    cut = _cut(x, BACKWARD)
    behind = _carried(dy, step, decay, leave, cut, reverse=True) if cut.pieces > 1 else kept
    dx, dstep = torch.empty_like(x), torch.empty_like(step)
    denter, dleave = (x.new_empty(batch, length, cut.blocks, state, dtype=torch.float32) for _ in range(2))
    ddecay = x.new_empty(batch * cut.pieces, channels, state, dtype=torch.float32)
    dskip = x.new_empty(batch * cut.pieces, channels, dtype=torch.float32)
    backward_kernel[(cut.blocks, cut.pieces, batch)](
        x, step, decay, enter, leave, skip, dy, kept, behind, dx, dstep, ddecay, dskip, denter, dleave,
        length, cut.pieces, cut.piece_length, groups,
        CARRIED=cut.pieces > 1, **_constants(x, state, BACKWARD), num_warps=1, maxnreg=BACKWARD.registers,
    )  # fmt: skip
    denter, dleave = denter.sum(2).to(enter.dtype), dleave.sum(2).to(leave.dtype)
    return dx, dstep, ddecay.sum(0), denter, dleave, dskip.sum(0)


@dataclass(frozen=True)
class Cut:
    """How sequences are shared among programs."""

    pieces: int
    """Pieces of a sequence."""
    piece_length: int
    """Tokens in a piece; the last may have fewer."""
    split: int
    """Parts of a piece, equally long."""
    blocks: int
    """Programs that share the channels of a token."""


def _cut(x: Tensor, launch: Launch) -> Cut:
    batch, length, channels = x.shape
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 1
    blocks = triton.cdiv(channels, launch.block)
    pieces = max(1, min(launch.warps * processors // (batch * blocks), length // SHORTEST_PIECE))
    # The pieces whose leavings are wanted are all but one.
    programs = batch * triton.cdiv(channels, LEAVE.block) * max(1, pieces - 1)
    split = max(1, min(LEAVE.warps * processors // programs, length // pieces // SHORTEST_PIECE))
    piece_length = triton.cdiv(triton.cdiv(length, pieces), GROUP * split) * GROUP * split
    return Cut(triton.cdiv(length, piece_length), piece_length, split, blocks)


def _constants(x: Tensor, state: int, launch: Launch) -> dict[str, int | bool]:
    """Returns what kernels are compiled for."""
    _, length, channels = x.shape
    even = length % GROUP == 0 and channels % launch.block == 0
    # Rounding inputs to bfloat16 changes far more than the series would.
    return {
        "CHANNELS": channels, "STATE": state, "BLOCK": launch.block, "EVEN": even, "SERIES": x.dtype != torch.bfloat16
    }  # fmt: skip


def _carried(value: Tensor, step: Tensor, decay: Tensor, factor: Tensor, cut: Cut, *, reverse: bool) -> Tensor:
    """Returns w before every piece, from x and B; if `reverse`, the adjoint behind it, from the gradient of y and C."""
    batch, length, channels = value.shape
    state, blocks, parts = decay.shape[1], triton.cdiv(channels, LEAVE.block), cut.pieces * cut.split
    left = value.new_empty(batch, parts, channels, state, dtype=torch.float32)
    elapsed = value.new_empty(batch, parts, channels, dtype=torch.float32)
    carried = value.new_empty(batch, cut.pieces, channels, state, dtype=torch.float32)
    leave_kernel[(blocks, parts - cut.split, batch)](
        value, step, decay, factor, left, elapsed, length, parts, cut.piece_length // cut.split,
        cut.split if reverse else 0,
        REVERSE=reverse, **_constants(value, state, LEAVE), num_warps=1, maxnreg=LEAVE.registers,
    )  # fmt: skip
    carry_kernel[(blocks, batch)](
        left, elapsed, decay, carried, channels, cut.pieces, cut.split,
        STATE=state, BLOCK=LEAVE.block, REVERSE=reverse, num_warps=1,
    )  # fmt: skip
    return carried


@_scan.register_fake
def _(
    x: Tensor, step: Tensor, decay: Tensor, enter: Tensor, leave: Tensor, skip: Tensor, keep: bool
) -> tuple[Tensor, Tensor]:
    batch, length, channels = x.shape
    shape = (batch, (length + GROUP - 1) // GROUP, channels, decay.shape[1]) if keep else (1,)
    return x.new_empty(x.shape), x.new_empty(shape, dtype=torch.float32)


@_scan_backward.register_fake
def _(
    dy: Tensor, x: Tensor, step: Tensor, decay: Tensor, enter: Tensor, leave: Tensor, skip: Tensor, kept: Tensor
) -> tuple[Tensor, ...]:
    return tuple(each.new_empty(each.shape) for each in (x, step, decay, enter, leave, skip))


def _remember(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:6], output[1])


def _differentiate(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return (*_scan_backward(dy, *ctx.saved_tensors), None)


_scan.register_autograd(_differentiate, setup_context=_remember)
