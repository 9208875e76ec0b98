# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The selective scan as Triton kernels, forward and backward, for an NVIDIA GPU.

A program is one warp that walks over the tokens of a piece of the sequence with the states of a few channels in its
registers. Where the batch alone does not fill the GPU, sequences are cut into pieces: what each leaves behind from a
zero state (all but the last, in parts of their own), then the carry from part to part, then each from its true state.
The forward pass keeps the state of every fourth token; the backward pass computes the three between them again. All
arithmetic is float32 whatever the inputs are.

Letters as in :mod:`allfocus.network.selective_scan`. What bounds the kernels is arithmetic, not memory, so they hold
w = A s instead of the state s: w_k = w_{k-1} + (exp(Δ A) - 1) (w_{k-1} + B x) takes the fewest operations. The adjoint
is that of s. `EVEN` says that blocks and groups of four end where channels and tokens do, which needs no masks.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
GROUP = 4
"""Tokens between kept states: a group, whose tokens the kernels name one by one."""


@triton.jit
def _factors(step, a2, SERIES: tl.constexpr):
    # exp(v) and exp(v) - 1 for v = step * a; a2 is a / ln 2. The series avoids the cancellation for small |v|.
    v = step[:, None] * a2
    decay = tl.exp2(v)
    change = decay - 1.0
    if SERIES:
        p = v * LN2
        series = p * (1.0 + p * (0.5 + p * (0.16666667 + p * 0.041666667)))
        change = tl.where(tl.abs(p) < 0.03, series, change)
    return decay, change


@triton.jit
def _columns(block, CHANNELS: tl.constexpr, STATE: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    # The channels of a block, which of them there are, the states, and where both lie in a table of all.
    channel, n = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATE)
    if EVEN:  # noqa: SIM108 (resolved while the kernel is compiled)
        valid = tl.full([BLOCK], True, tl.int1)
    else:
        valid = channel < CHANNELS
    return channel, valid, n, channel[:, None] * STATE + n[None, :]


@triton.jit
def _row(at, k, last, valid, EVEN: tl.constexpr):
    if EVEN:
        return tl.load(at)
    return tl.load(at, mask=valid & (k < last), other=0.0)


@triton.jit
def _four(pointer, k, last, STRIDE: tl.constexpr, column, valid, EVEN: tl.constexpr):
    # Four tokens' values of the columns; 0 behind the last token, where a step of 0 then changes nothing.
    at = pointer + k * STRIDE + column
    return (
        _row(at, k, last, valid, EVEN),
        _row(at + STRIDE, k + 1, last, valid, EVEN),
        _row(at + 2 * STRIDE, k + 2, last, valid, EVEN),
        _row(at + 3 * STRIDE, k + 3, last, valid, EVEN),
    )


@triton.jit
def _store_four(pointer, k, last, STRIDE: tl.constexpr, column, v0, v1, v2, v3, valid, EVEN: tl.constexpr):
    # As one tile of columns and tokens, which moves between threads at once.
    values = tl.reshape(tl.join(tl.join(v0, v2), tl.join(v1, v3)), [column.shape[0], 4])
    token = tl.arange(0, 4)
    at = pointer + k * STRIDE + (token * STRIDE)[None, :] + column[:, None]
    if EVEN:
        tl.store(at, values)
    else:
        tl.store(at, values, mask=valid[:, None] & (k + token < last)[None, :])


@triton.jit
def _exact(values):
    v0, v1, v2, v3 = values
    return v0.to(tl.float32), v1.to(tl.float32), v2.to(tl.float32), v3.to(tl.float32)


@triton.jit
def _advance(w, x, step, b, a2, SERIES: tl.constexpr):
    _, change = _factors(step, a2, SERIES)
    return w + change * (w + b[None, :] * x[:, None])


@triton.jit
def _retreat(adjoint, dy, step, c, a2):
    return tl.exp2(step[:, None] * a2) * (adjoint + dy[:, None] * c[None, :])


@triton.jit
def _read(w, x, c, inverse, skip):
    return tl.sum(w * (c[None, :] * inverse), axis=1) + skip * x


@triton.jit
def leave_kernel(
    value_ptr, d_ptr, a_ptr, factor_ptr, leave_ptr, sum_ptr, length, parts, part_length, first_part,
    CHANNELS: tl.constexpr, STATE: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, SERIES: tl.constexpr,
    REVERSE: tl.constexpr,
):  # fmt: skip
    """Stores what a part of the sequence leaves behind from zero, and the sum of its steps.

    That is w behind its last token, with x and B as values and factors; REVERSE: the adjoint before its first token,
    with the gradient of y and C.
    """
    block, part, batch = tl.program_id(0), tl.program_id(1) + first_part, tl.program_id(2).to(tl.int64)
    channel, valid, n, tile = _columns(block, CHANNELS, STATE, BLOCK, EVEN)
    always = n < STATE
    a2 = tl.load(a_ptr + tile, mask=valid[:, None], other=-1.0) * LOG2E
    w = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    elapsed = tl.zeros([BLOCK], dtype=tl.float32)
    first = batch * length + part * part_length
    value_ptr += first * CHANNELS
    d_ptr += first * CHANNELS
    factor_ptr += first * STATE
    last = tl.minimum(part_length, length - part * part_length)
    count = (last + 3) // 4
    for i in range(0, count):
        if REVERSE:  # noqa: SIM108 (resolved while the kernel is compiled)
            k = (count - 1 - i) * 4
        else:
            k = i * 4
        v0, v1, v2, v3 = _exact(_four(value_ptr, k, last, CHANNELS, channel, valid, EVEN))
        d0, d1, d2, d3 = _exact(_four(d_ptr, k, last, CHANNELS, channel, valid, EVEN))
        f0, f1, f2, f3 = _exact(_four(factor_ptr, k, last, STATE, n, always, EVEN))
        if REVERSE:
            w = _retreat(w, v3, d3, f3, a2)
            w = _retreat(w, v2, d2, f2, a2)
            w = _retreat(w, v1, d1, f1, a2)
            w = _retreat(w, v0, d0, f0, a2)
        else:
            w = _advance(w, v0, d0, f0, a2, SERIES)
            w = _advance(w, v1, d1, f1, a2, SERIES)
            w = _advance(w, v2, d2, f2, a2, SERIES)
            w = _advance(w, v3, d3, f3, a2, SERIES)
        elapsed += (d0 + d1) + (d2 + d3)
    at_part = (batch * parts + part) * CHANNELS
    tl.store(leave_ptr + at_part * STATE + tile, w, mask=valid[:, None])
    tl.store(sum_ptr + at_part + channel, elapsed, mask=valid)


@triton.jit
def carry_kernel(
    leave_ptr, sum_ptr, a_ptr, enter_ptr, channels, pieces, split,
    STATE: tl.constexpr, BLOCK: tl.constexpr, REVERSE: tl.constexpr,
):  # fmt: skip
    """Hands what parts leave behind from part to part, or from the last to the first; stores what enters each piece."""
    block, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    channel, n = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATE)
    valid = channel < channels
    tile = channel[:, None] * STATE + n[None, :]
    a = tl.load(a_ptr + tile, mask=valid[:, None], other=-1.0)
    w = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    for i in range(0, pieces):
        if REVERSE:  # noqa: SIM108 (resolved while the kernel is compiled)
            piece = pieces - 1 - i
        else:
            piece = i
        tl.store(enter_ptr + (batch * pieces + piece) * channels * STATE + tile, w, mask=valid[:, None])
        if i < pieces - 1:
            for j in range(0, split):
                if REVERSE:  # noqa: SIM108
                    part = piece * split + split - 1 - j
                else:
                    part = piece * split + j
                at_part = (batch * pieces * split + part) * channels
                elapsed = tl.load(sum_ptr + at_part + channel, mask=valid, other=0.0)
                left = tl.load(leave_ptr + at_part * STATE + tile, mask=valid[:, None], other=0.0)
                w = tl.exp(elapsed[:, None] * a) * w + left


@triton.jit
def forward_kernel(
    x_ptr, d_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, enter_ptr, y_ptr, kept_ptr,
    length, pieces, piece_length, groups,
    CHANNELS: tl.constexpr, STATE: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, SERIES: tl.constexpr,
    CARRIED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Stores y and, if KEEP, w before every group."""
    block, piece, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    channel, valid, n, tile = _columns(block, CHANNELS, STATE, BLOCK, EVEN)
    always = n < STATE
    a = tl.load(a_ptr + tile, mask=valid[:, None], other=-1.0)
    a2, inverse = a * LOG2E, 1.0 / a
    skip = tl.load(skip_ptr + channel, mask=valid, other=0.0)
    if CARRIED:
        w = tl.load(enter_ptr + (batch * pieces + piece) * CHANNELS * STATE + tile, mask=valid[:, None], other=0.0)
    else:
        w = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    first = batch * length + piece * piece_length
    x_ptr += first * CHANNELS
    d_ptr += first * CHANNELS
    y_ptr += first * CHANNELS
    b_ptr += first * STATE
    c_ptr += first * STATE
    kept_ptr += (batch * groups + piece * piece_length // 4) * (CHANNELS * STATE)
    last = tl.minimum(piece_length, length - piece * piece_length)
    last_group = (last - 1) // 4 * 4
    x = _four(x_ptr, 0, last, CHANNELS, channel, valid, EVEN)
    d = _four(d_ptr, 0, last, CHANNELS, channel, valid, EVEN)
    b = _four(b_ptr, 0, last, STATE, n, always, EVEN)
    c = _four(c_ptr, 0, last, STATE, n, always, EVEN)
    for k in range(0, last, 4):
        x0, x1, x2, x3 = _exact(x)
        d0, d1, d2, d3 = _exact(d)
        b0, b1, b2, b3 = _exact(b)
        c0, c1, c2, c3 = _exact(c)
        # The next group, or the last one again: it is on its way while this one is computed.
        ahead = tl.minimum(k + 4, last_group)
        x = _four(x_ptr, ahead, last, CHANNELS, channel, valid, EVEN)
        d = _four(d_ptr, ahead, last, CHANNELS, channel, valid, EVEN)
        b = _four(b_ptr, ahead, last, STATE, n, always, EVEN)
        c = _four(c_ptr, ahead, last, STATE, n, always, EVEN)
        if KEEP:
            tl.store(kept_ptr + k // 4 * (CHANNELS * STATE) + tile, w, mask=valid[:, None])
        w = _advance(w, x0, d0, b0, a2, SERIES)
        y0 = _read(w, x0, c0, inverse, skip)
        w = _advance(w, x1, d1, b1, a2, SERIES)
        y1 = _read(w, x1, c1, inverse, skip)
        w = _advance(w, x2, d2, b2, a2, SERIES)
        y2 = _read(w, x2, c2, inverse, skip)
        w = _advance(w, x3, d3, b3, a2, SERIES)
        y3 = _read(w, x3, c3, inverse, skip)
        _store_four(y_ptr, k, last, CHANNELS, channel, y0, y1, y2, y3, valid, EVEN)


@triton.jit
def _gradients(adjoint, da, da_read, w, before, x, step, dy, b, c, a2, inverse, skip, SERIES: tl.constexpr):
    # One token of the way back: w after it and before it, the adjoint of the state from the tokens behind it.
    decay, change = _factors(step, a2, SERIES)
    adjoint += dy[:, None] * c[None, :]
    read = w * dy[:, None]
    dc = tl.sum(read * inverse, axis=0)
    da_read += read * c[None, :]
    entered = adjoint * change * inverse
    dx = tl.sum(entered * b[None, :], axis=1) + skip * dy
    db = tl.sum(entered * x[:, None], axis=0)
    adjoint *= decay
    faded = adjoint * (before + b[None, :] * x[:, None])
    dd = tl.sum(faded, axis=1)
    da += faded * step[:, None]
    return adjoint, da, da_read, dx, dd, db, dc


@triton.jit
def backward_kernel(
    x_ptr, d_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, dy_ptr, kept_ptr, behind_ptr,
    dx_ptr, dd_ptr, da_ptr, dskip_ptr, db_ptr, dc_ptr, length, pieces, piece_length, groups,
    CHANNELS: tl.constexpr, STATE: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, SERIES: tl.constexpr,
    CARRIED: tl.constexpr,
):  # fmt: skip
    """Stores the gradients; those of B and C for each block of channels, those of A and D for each piece."""
    block, piece, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    channel, valid, n, tile = _columns(block, CHANNELS, STATE, BLOCK, EVEN)
    always = n < STATE
    a = tl.load(a_ptr + tile, mask=valid[:, None], other=-1.0)
    a2, inverse = a * LOG2E, 1.0 / a
    skip = tl.load(skip_ptr + channel, mask=valid, other=0.0)
    at_piece = (batch * pieces + piece) * CHANNELS
    if CARRIED:
        adjoint = tl.load(behind_ptr + at_piece * STATE + tile, mask=valid[:, None], other=0.0)
    else:
        adjoint = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    da = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    da_read = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    dskip = tl.zeros([BLOCK], dtype=tl.float32)
    blocks: tl.constexpr = (CHANNELS + BLOCK - 1) // BLOCK
    first = batch * length + piece * piece_length
    x_ptr += first * CHANNELS
    d_ptr += first * CHANNELS
    dy_ptr += first * CHANNELS
    dx_ptr += first * CHANNELS
    dd_ptr += first * CHANNELS
    b_ptr += first * STATE
    c_ptr += first * STATE
    db_ptr += (first * blocks + block) * STATE
    dc_ptr += (first * blocks + block) * STATE
    kept_ptr += (batch * groups + piece * piece_length // 4) * (CHANNELS * STATE)
    last = tl.minimum(piece_length, length - piece * piece_length)
    k = (last - 1) // 4 * 4
    w = tl.load(kept_ptr + k // 4 * (CHANNELS * STATE) + tile, mask=valid[:, None], other=0.0)
    x = _four(x_ptr, k, last, CHANNELS, channel, valid, EVEN)
    d = _four(d_ptr, k, last, CHANNELS, channel, valid, EVEN)
    dy = _four(dy_ptr, k, last, CHANNELS, channel, valid, EVEN)
    b = _four(b_ptr, k, last, STATE, n, always, EVEN)
    c = _four(c_ptr, k, last, STATE, n, always, EVEN)
    for i in range(0, last, 4):
        k = (last - 1) // 4 * 4 - i
        w0 = w
        x0, x1, x2, x3 = _exact(x)
        d0, d1, d2, d3 = _exact(d)
        dy0, dy1, dy2, dy3 = _exact(dy)
        b0, b1, b2, b3 = _exact(b)
        c0, c1, c2, c3 = _exact(c)
        w1 = _advance(w0, x0, d0, b0, a2, SERIES)
        w2 = _advance(w1, x1, d1, b1, a2, SERIES)
        w3 = _advance(w2, x2, d2, b2, a2, SERIES)
        w4 = _advance(w3, x3, d3, b3, a2, SERIES)
        adjoint, da, da_read, dx3, dd3, db3, dc3 = _gradients(
            adjoint, da, da_read, w4, w3, x3, d3, dy3, b3, c3, a2, inverse, skip, SERIES
        )
        adjoint, da, da_read, dx2, dd2, db2, dc2 = _gradients(
            adjoint, da, da_read, w3, w2, x2, d2, dy2, b2, c2, a2, inverse, skip, SERIES
        )
        # The group before, or the first one again: it is on its way while this one is computed.
        ahead = tl.maximum(k - 4, 0)
        w = tl.load(kept_ptr + ahead // 4 * (CHANNELS * STATE) + tile, mask=valid[:, None], other=0.0)
        x = _four(x_ptr, ahead, last, CHANNELS, channel, valid, EVEN)
        d = _four(d_ptr, ahead, last, CHANNELS, channel, valid, EVEN)
        dy = _four(dy_ptr, ahead, last, CHANNELS, channel, valid, EVEN)
        b = _four(b_ptr, ahead, last, STATE, n, always, EVEN)
        c = _four(c_ptr, ahead, last, STATE, n, always, EVEN)
        adjoint, da, da_read, dx1, dd1, db1, dc1 = _gradients(
            adjoint, da, da_read, w2, w1, x1, d1, dy1, b1, c1, a2, inverse, skip, SERIES
        )
        adjoint, da, da_read, dx0, dd0, db0, dc0 = _gradients(
            adjoint, da, da_read, w1, w0, x0, d0, dy0, b0, c0, a2, inverse, skip, SERIES
        )
        dskip += (x0 * dy0 + x1 * dy1) + (x2 * dy2 + x3 * dy3)
        _store_four(dx_ptr, k, last, CHANNELS, channel, dx0, dx1, dx2, dx3, valid, EVEN)
        _store_four(dd_ptr, k, last, CHANNELS, channel, dd0, dd1, dd2, dd3, valid, EVEN)
        _store_four(db_ptr, k, last, blocks * STATE, n, db0, db1, db2, db3, always, EVEN)
        _store_four(dc_ptr, k, last, blocks * STATE, n, dc0, dc1, dc2, dc3, always, EVEN)
    da = (da - da_read * inverse) * inverse
    tl.store(da_ptr + at_piece * STATE + tile, da, mask=valid[:, None])
    tl.store(dskip_ptr + at_piece + channel, dskip, mask=valid)
