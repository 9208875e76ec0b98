# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The selective scan as Triton kernels, forward and backward, for an NVIDIA GPU.

Three passes each way: every chunk of the sequence from a zero state, the carry from chunk to chunk, every chunk again
from its true state. The backward pass recomputes the states of a chunk into a scratch buffer and then walks back. All
arithmetic is float32 whatever the inputs are. Letters as in :mod:`allfocus.network.selective_scan`.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 64
"""Tokens per program: long enough to amortise the carry, short enough to fill the GPU with chunks."""
BLOCK = 32
"""Channels per program: with 16 states that is 512 values a program, four per thread of four warps."""


@triton.jit
def _gain(step, a, decay):
    # (exp(v) - 1) / a with v = step * a; the series avoids the cancellation for small |v|.
    v = step * a
    series = step * (1.0 + v * (0.5 + v * (0.16666667 + v * 0.041666667)))
    return tl.where(tl.abs(v) < 0.03, series, (decay - 1.0) / a)


@triton.jit
def _forward_kernel(
    x_ptr, d_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, enter_ptr, y_ptr, leave_ptr, sum_ptr,
    length, channels, chunks,
    STATE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    # LAST False: from a zero state, store what the chunk leaves behind. LAST True: from the true state, store y.
    batch, chunk, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    channel = block * BLOCK + tl.arange(0, BLOCK)
    state_index = tl.arange(0, STATE)
    valid = channel < channels
    a = tl.load(a_ptr + channel[:, None] * STATE + state_index[None, :], mask=valid[:, None], other=-1.0)
    at_chunk = (batch * chunks + chunk) * channels + channel
    if LAST:
        offset = at_chunk[:, None] * STATE + state_index[None, :]
        state = tl.load(enter_ptr + offset, mask=valid[:, None], other=0.0)
        skip = tl.load(skip_ptr + channel, mask=valid, other=0.0)
    else:
        state = tl.zeros([BLOCK, STATE], dtype=tl.float32)
        skip = tl.zeros([BLOCK], dtype=tl.float32)
    elapsed = tl.zeros([BLOCK], dtype=tl.float32)
    first = chunk * CHUNK
    for k in range(first, tl.minimum(first + CHUNK, length)):
        token = batch * length + k
        x = tl.load(x_ptr + token * channels + channel, mask=valid, other=0.0).to(tl.float32)
        step = tl.load(d_ptr + token * channels + channel, mask=valid, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + token * STATE + state_index).to(tl.float32)
        decay = tl.exp(step[:, None] * a)
        state = decay * state + _gain(step[:, None], a, decay) * b[None, :] * x[:, None]
        if LAST:
            c = tl.load(c_ptr + token * STATE + state_index).to(tl.float32)
            y = tl.sum(state * c[None, :], axis=1) + skip * x
            tl.store(y_ptr + token * channels + channel, y, mask=valid)
        else:
            elapsed += step
    if not LAST:
        offset = at_chunk[:, None] * STATE + state_index[None, :]
        tl.store(leave_ptr + offset, state, mask=valid[:, None])
        tl.store(sum_ptr + at_chunk, elapsed, mask=valid)


@triton.jit
def _carry_kernel(
    leave_ptr, sum_ptr, a_ptr, enter_ptr, channels, chunks,
    STATE: tl.constexpr, BLOCK: tl.constexpr, REVERSE: tl.constexpr,
):  # fmt: skip
    batch, block = tl.program_id(0), tl.program_id(1)
    channel = block * BLOCK + tl.arange(0, BLOCK)
    state_index = tl.arange(0, STATE)
    valid = channel < channels
    a = tl.load(a_ptr + channel[:, None] * STATE + state_index[None, :], mask=valid[:, None], other=-1.0)
    state = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    for i in range(0, chunks):
        if REVERSE:  # noqa: SIM108 (resolved while the kernel is compiled)
            chunk = chunks - 1 - i
        else:
            chunk = i
        at_chunk = (batch * chunks + chunk) * channels + channel
        offset = at_chunk[:, None] * STATE + state_index[None, :]
        tl.store(enter_ptr + offset, state, mask=valid[:, None])
        elapsed = tl.load(sum_ptr + at_chunk, mask=valid, other=0.0)
        state = tl.exp(elapsed[:, None] * a) * state + tl.load(leave_ptr + offset, mask=valid[:, None], other=0.0)


@triton.jit
def _adjoint_kernel(
    d_ptr, a_ptr, c_ptr, dy_ptr, leave_ptr, length, channels, chunks,
    STATE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # The adjoint that a chunk hands to the chunk before it, from a zero adjoint behind it.
    batch, chunk, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    channel = block * BLOCK + tl.arange(0, BLOCK)
    state_index = tl.arange(0, STATE)
    valid = channel < channels
    a = tl.load(a_ptr + channel[:, None] * STATE + state_index[None, :], mask=valid[:, None], other=-1.0)
    adjoint = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    first = chunk * CHUNK
    last = tl.minimum(first + CHUNK, length)
    for i in range(first, last):
        token = batch * length + (last - 1 - (i - first))
        step = tl.load(d_ptr + token * channels + channel, mask=valid, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + token * channels + channel, mask=valid, other=0.0).to(tl.float32)
        c = tl.load(c_ptr + token * STATE + state_index).to(tl.float32)
        adjoint = tl.exp(step[:, None] * a) * (adjoint + dy[:, None] * c[None, :])
    offset = ((batch * chunks + chunk) * channels + channel)[:, None] * STATE + state_index[None, :]
    tl.store(leave_ptr + offset, adjoint, mask=valid[:, None])


@triton.jit
def _backward_kernel(
    x_ptr, d_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, dy_ptr, enter_ptr, behind_ptr, states_ptr,
    dx_ptr, dd_ptr, da_ptr, db_ptr, dc_ptr, length, channels, chunks, blocks,
    STATE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    batch, chunk, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    local = tl.arange(0, BLOCK)
    channel = block * BLOCK + local
    state_index = tl.arange(0, STATE)
    valid = channel < channels
    a = tl.load(a_ptr + channel[:, None] * STATE + state_index[None, :], mask=valid[:, None], other=-1.0)
    skip = tl.load(skip_ptr + channel, mask=valid, other=0.0)
    at_chunk = ((batch * chunks + chunk) * channels + channel)[:, None] * STATE + state_index[None, :]
    first = chunk * CHUNK
    last = tl.minimum(first + CHUNK, length)
    program = ((batch * chunks + chunk) * blocks + block).to(tl.int64)
    scratch = states_ptr + program * (CHUNK * BLOCK * STATE) + local[:, None] * STATE + state_index[None, :]
    state = tl.load(enter_ptr + at_chunk, mask=valid[:, None], other=0.0)
    for k in range(first, last):
        token = batch * length + k
        x = tl.load(x_ptr + token * channels + channel, mask=valid, other=0.0).to(tl.float32)
        step = tl.load(d_ptr + token * channels + channel, mask=valid, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + token * STATE + state_index).to(tl.float32)
        tl.store(scratch + (k - first) * (BLOCK * STATE), state)
        decay = tl.exp(step[:, None] * a)
        state = decay * state + _gain(step[:, None], a, decay) * b[None, :] * x[:, None]
    tl.debug_barrier()  # the scratch written above is read below, perhaps by another thread
    adjoint = tl.load(behind_ptr + at_chunk, mask=valid[:, None], other=0.0)
    da = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    for i in range(first, last):
        k = last - 1 - (i - first)
        token = batch * length + k
        x = tl.load(x_ptr + token * channels + channel, mask=valid, other=0.0).to(tl.float32)
        step = tl.load(d_ptr + token * channels + channel, mask=valid, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + token * channels + channel, mask=valid, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + token * STATE + state_index).to(tl.float32)
        c = tl.load(c_ptr + token * STATE + state_index).to(tl.float32)
        before = tl.load(scratch + (k - first) * (BLOCK * STATE))
        decay = tl.exp(step[:, None] * a)
        gain = _gain(step[:, None], a, decay)
        adjoint += dy[:, None] * c[None, :]
        bx = b[None, :] * x[:, None]
        dx = tl.sum(adjoint * gain * b[None, :], axis=1) + skip * dy
        tl.store(dx_ptr + token * channels + channel, dx, mask=valid)
        dd = tl.sum(adjoint * decay * (a * before + bx), axis=1)
        tl.store(dd_ptr + token * channels + channel, dd, mask=valid)
        # d gain / d a = (step * decay - gain) / a, again by its series where it cancels.
        v = step[:, None] * a
        slope = tl.where(
            tl.abs(v) < 0.03,
            step[:, None] * step[:, None] * (0.5 + v * (0.33333333 + v * 0.125)),
            (step[:, None] * decay - gain) / a,
        )
        da += adjoint * (step[:, None] * decay * before + slope * bx)
        partial = (token * blocks + block) * STATE + state_index
        now = decay * before + gain * bx
        tl.store(db_ptr + partial, tl.sum(tl.where(valid[:, None], adjoint * gain * x[:, None], 0.0), axis=0))
        tl.store(dc_ptr + partial, tl.sum(tl.where(valid[:, None], now * dy[:, None], 0.0), axis=0))
        adjoint = decay * adjoint
    tl.store(da_ptr + at_chunk, da, mask=valid[:, None])


class _TritonScan(torch.autograd.Function):
    """Ties the kernels to autograd; saves the inputs and the entering states, recomputes the rest."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, Δ: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
        x, Δ, A, B, C, D = (tensor.contiguous() for tensor in (x, Δ, A.float(), B, C, D.float()))
        batch, length, channels = x.shape
        state = A.shape[1]
        chunks, blocks = triton.cdiv(length, CHUNK), triton.cdiv(channels, BLOCK)
        leave = torch.empty(batch, chunks, channels, state, device=x.device, dtype=torch.float32)
        enter = torch.empty_like(leave)
        total = torch.empty(batch, chunks, channels, device=x.device, dtype=torch.float32)
        y = torch.empty_like(x)
        grid = (batch, chunks, blocks)
        sizes = {"STATE": state, "CHUNK": CHUNK, "BLOCK": BLOCK}
        for last in (False, True):
            _forward_kernel[grid](
                x, Δ, A, B, C, D, enter, y, leave, total, length, channels, chunks, LAST=last, **sizes, num_warps=4
            )
            if not last:
                _carry_kernel[(batch, blocks)](
                    leave, total, A, enter, channels, chunks, STATE=state, BLOCK=BLOCK, REVERSE=False
                )
        ctx.save_for_backward(x, Δ, A, B, C, D, enter, total)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        x, Δ, A, B, C, D, enter, total = ctx.saved_tensors
        dy = gradients[0].contiguous()
        batch, length, channels = x.shape
        state = A.shape[1]
        chunks, blocks = triton.cdiv(length, CHUNK), triton.cdiv(channels, BLOCK)
        options = {"device": x.device, "dtype": torch.float32}
        leave, behind, da = (torch.empty(batch, chunks, channels, state, **options) for _ in range(3))
        grid = (batch, chunks, blocks)
        sizes = {"STATE": state, "CHUNK": CHUNK, "BLOCK": BLOCK}
        _adjoint_kernel[grid](Δ, A, C, dy, leave, length, channels, chunks, **sizes, num_warps=4)
        _carry_kernel[(batch, blocks)](
            leave, total, A, behind, channels, chunks, STATE=state, BLOCK=BLOCK, REVERSE=True
        )
        states = torch.empty(batch * chunks * blocks * CHUNK * BLOCK * state, **options)
        dx, dd = torch.empty_like(x), torch.empty_like(Δ)
        db, dc = (torch.empty(batch, length, blocks, state, **options) for _ in range(2))
        _backward_kernel[grid](
            x, Δ, A, B, C, D, dy, enter, behind, states, dx, dd, da, db, dc,
            length, channels, chunks, blocks, **sizes, num_warps=4,
        )  # fmt: skip
        skip = (x.float() * dy.float()).sum((0, 1))
        return dx, dd, da.sum((0, 1)), db.sum(2).to(B.dtype), dc.sum(2).to(C.dtype), skip


def scan_triton(x: Tensor, Δ: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """Returns the selective scan of tensors on an NVIDIA GPU; the state size must be a power of two."""
    if A.shape[1] & (A.shape[1] - 1):
        raise ValueError(f"the Triton scan needs a state size that is a power of two, found {A.shape[1]}")
    y: Tensor = _TritonScan.apply(x, Δ, A, B, C, D)
    return y
