# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""The selective scan as Triton kernels, forward and backward, for an NVIDIA GPU.

A program is one warp that walks over the tokens of a piece of the sequence with the states of a few channels in its
registers. Where the batch alone does not fill the GPU, sequences are cut into pieces: each from a zero state, then the
carry from piece to piece, then each from its true state. The forward pass keeps the state of every fourth token; the
backward pass computes the three between them again. All arithmetic is float32 whatever the inputs are.

Letters as in :mod:`allfocus.network.selective_scan`. What bounds the kernels is arithmetic, not memory, so they hold
w = A s instead of the state s: w_k = w_{k-1} + (exp(Δ A) - 1) (w_{k-1} + B x) takes the fewest operations. The adjoint
is that of s.
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
def _row(pointer, k, last, stride, column, valid):
    # One token'w values of the columns; 0 behind the last token, where a step of 0 then changes nothing.
    return tl.load(pointer + k * stride + column, mask=valid & (k < last), other=0.0).to(tl.float32)


@triton.jit
def _advance(w, x, step, b, a2, SERIES: tl.constexpr):
    _, change = _factors(step, a2, SERIES)
    return w + change * (w + b[None, :] * x[:, None])


@triton.jit
def _read(w, x, c, inverse, skip):
    return tl.sum(w * (c[None, :] * inverse), axis=1) + skip * x


@triton.jit
def forward_kernel(
    x_ptr, d_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, enter_ptr, y_ptr, kept_ptr, leave_ptr, sum_ptr,
    length, channels, pieces, piece_length, groups,
    STATE: tl.constexpr, BLOCK: tl.constexpr, LAST: tl.constexpr, CARRIED: tl.constexpr, KEEP: tl.constexpr,
    SERIES: tl.constexpr,
):  # fmt: skip
    """LAST False: from a zero state, stores what the piece leaves behind. LAST True: from the true state, stores y."""
    block, piece, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    channel, n = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATE)
    valid, always = channel < channels, n < STATE
    tile = channel[:, None] * STATE + n[None, :]
    a = tl.load(a_ptr + tile, mask=valid[:, None], other=-1.0)
    a2, inverse = a * LOG2E, 1.0 / a
    skip = tl.load(skip_ptr + channel, mask=valid, other=0.0)
    at_piece = (batch * pieces + piece) * channels
    if LAST and CARRIED:
        w = tl.load(enter_ptr + at_piece * STATE + tile, mask=valid[:, None], other=0.0)
    else:
        w = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    elapsed = tl.zeros([BLOCK], dtype=tl.float32)
    x_ptr += batch * length * channels
    d_ptr += batch * length * channels
    y_ptr += batch * length * channels
    b_ptr += batch * length * STATE
    c_ptr += batch * length * STATE
    first = piece * piece_length
    last = tl.minimum(first + piece_length, length)
    for k in range(first, last, 4):
        x0 = _row(x_ptr, k, last, channels, channel, valid)
        x1 = _row(x_ptr, k + 1, last, channels, channel, valid)
        x2 = _row(x_ptr, k + 2, last, channels, channel, valid)
        x3 = _row(x_ptr, k + 3, last, channels, channel, valid)
        d0 = _row(d_ptr, k, last, channels, channel, valid)
        d1 = _row(d_ptr, k + 1, last, channels, channel, valid)
        d2 = _row(d_ptr, k + 2, last, channels, channel, valid)
        d3 = _row(d_ptr, k + 3, last, channels, channel, valid)
        b0 = _row(b_ptr, k, last, STATE, n, always)
        b1 = _row(b_ptr, k + 1, last, STATE, n, always)
        b2 = _row(b_ptr, k + 2, last, STATE, n, always)
        b3 = _row(b_ptr, k + 3, last, STATE, n, always)
        if LAST:
            c0 = _row(c_ptr, k, last, STATE, n, always)
            c1 = _row(c_ptr, k + 1, last, STATE, n, always)
            c2 = _row(c_ptr, k + 2, last, STATE, n, always)
            c3 = _row(c_ptr, k + 3, last, STATE, n, always)
            if KEEP:
                kept = kept_ptr + (batch * groups + k // 4) * channels * STATE + tile
                tl.store(kept, w, mask=valid[:, None])
            w = _advance(w, x0, d0, b0, a2, SERIES)
            y0 = _read(w, x0, c0, inverse, skip)
            w = _advance(w, x1, d1, b1, a2, SERIES)
            y1 = _read(w, x1, c1, inverse, skip)
            w = _advance(w, x2, d2, b2, a2, SERIES)
            y2 = _read(w, x2, c2, inverse, skip)
            w = _advance(w, x3, d3, b3, a2, SERIES)
            y3 = _read(w, x3, c3, inverse, skip)
            out = y_ptr + k * channels + channel
            tl.store(out, y0, mask=valid)
            tl.store(out + channels, y1, mask=valid & (k + 1 < last))
            tl.store(out + 2 * channels, y2, mask=valid & (k + 2 < last))
            tl.store(out + 3 * channels, y3, mask=valid & (k + 3 < last))
        else:
            w = _advance(w, x0, d0, b0, a2, SERIES)
            w = _advance(w, x1, d1, b1, a2, SERIES)
            w = _advance(w, x2, d2, b2, a2, SERIES)
            w = _advance(w, x3, d3, b3, a2, SERIES)
            elapsed += (d0 + d1) + (d2 + d3)
    if not LAST:
        tl.store(leave_ptr + at_piece * STATE + tile, w, mask=valid[:, None])
        tl.store(sum_ptr + at_piece + channel, elapsed, mask=valid)


@triton.jit
def carry_kernel(
    leave_ptr, sum_ptr, a_ptr, enter_ptr, channels, pieces,
    STATE: tl.constexpr, BLOCK: tl.constexpr, REVERSE: tl.constexpr,
):  # fmt: skip
    """Hands what pieces leave behind from piece to piece, or from the last to the first."""
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
        at_piece = (batch * pieces + piece) * channels
        tl.store(enter_ptr + at_piece * STATE + tile, w, mask=valid[:, None])
        elapsed = tl.load(sum_ptr + at_piece + channel, mask=valid, other=0.0)
        left = tl.load(leave_ptr + at_piece * STATE + tile, mask=valid[:, None], other=0.0)
        w = tl.exp(elapsed[:, None] * a) * w + left


@triton.jit
def _retreat(adjoint, dy, step, c, a2):
    return tl.exp2(step[:, None] * a2) * (adjoint + dy[:, None] * c[None, :])


@triton.jit
def adjoint_kernel(
    d_ptr, a_ptr, c_ptr, dy_ptr, leave_ptr, sum_ptr, length, channels, pieces, piece_length,
    STATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Stores the adjoint that a piece hands to the piece before it, from a zero adjoint behind it."""
    block, piece, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    channel, n = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATE)
    valid, always = channel < channels, n < STATE
    tile = channel[:, None] * STATE + n[None, :]
    a = tl.load(a_ptr + tile, mask=valid[:, None], other=-1.0)
    a2 = a * LOG2E
    adjoint = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    elapsed = tl.zeros([BLOCK], dtype=tl.float32)
    d_ptr += batch * length * channels
    dy_ptr += batch * length * channels
    c_ptr += batch * length * STATE
    first = piece * piece_length
    last = tl.minimum(first + piece_length, length)
    count = (last - first + 3) // 4
    for i in range(0, count):
        k = first + (count - 1 - i) * 4
        d0 = _row(d_ptr, k, last, channels, channel, valid)
        d1 = _row(d_ptr, k + 1, last, channels, channel, valid)
        d2 = _row(d_ptr, k + 2, last, channels, channel, valid)
        d3 = _row(d_ptr, k + 3, last, channels, channel, valid)
        dy0 = _row(dy_ptr, k, last, channels, channel, valid)
        dy1 = _row(dy_ptr, k + 1, last, channels, channel, valid)
        dy2 = _row(dy_ptr, k + 2, last, channels, channel, valid)
        dy3 = _row(dy_ptr, k + 3, last, channels, channel, valid)
        c0 = _row(c_ptr, k, last, STATE, n, always)
        c1 = _row(c_ptr, k + 1, last, STATE, n, always)
        c2 = _row(c_ptr, k + 2, last, STATE, n, always)
        c3 = _row(c_ptr, k + 3, last, STATE, n, always)
        adjoint = _retreat(adjoint, dy3, d3, c3, a2)
        adjoint = _retreat(adjoint, dy2, d2, c2, a2)
        adjoint = _retreat(adjoint, dy1, d1, c1, a2)
        adjoint = _retreat(adjoint, dy0, d0, c0, a2)
        elapsed += (d0 + d1) + (d2 + d3)
    at_piece = (batch * pieces + piece) * channels
    tl.store(leave_ptr + at_piece * STATE + tile, adjoint, mask=valid[:, None])
    tl.store(sum_ptr + at_piece + channel, elapsed, mask=valid)


@triton.jit
def _gradients(adjoint, da, da_read, w, before, x, step, dy, b, c, a2, inverse, skip, SERIES: tl.constexpr):
    # One token of the way back: w after it and before it, the adjoint of the state from the tokens behind it.
    decay, change = _factors(step, a2, SERIES)
    adjoint += dy[:, None] * c[None, :]
    read = w * dy[:, None]
    dc = tl.broadcast_to(tl.sum(read * inverse, axis=0)[None, :], read.shape)
    da_read += read * c[None, :]
    entered = adjoint * change * inverse
    dx = tl.sum(entered * b[None, :], axis=1) + skip * dy
    db = tl.broadcast_to(tl.sum(entered * x[:, None], axis=0)[None, :], read.shape)
    adjoint *= decay
    faded = adjoint * (before + b[None, :] * x[:, None])
    dd = tl.sum(faded, axis=1)
    da += faded * step[:, None]
    return adjoint, da, da_read, dx, dd, db, dc


@triton.jit
def backward_kernel(
    x_ptr, d_ptr, a_ptr, b_ptr, c_ptr, skip_ptr, dy_ptr, kept_ptr, behind_ptr,
    dx_ptr, dd_ptr, da_ptr, dskip_ptr, db_ptr, dc_ptr, length, channels, pieces, piece_length, groups, blocks,
    STATE: tl.constexpr, BLOCK: tl.constexpr, CARRIED: tl.constexpr, SERIES: tl.constexpr,
):  # fmt: skip
    """Stores the gradients; those of B and C for each block of channels, those of A and D for each piece."""
    block, piece, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    channel, n = block * BLOCK + tl.arange(0, BLOCK), tl.arange(0, STATE)
    valid, always = channel < channels, n < STATE
    tile = channel[:, None] * STATE + n[None, :]
    a = tl.load(a_ptr + tile, mask=valid[:, None], other=-1.0)
    a2, inverse = a * LOG2E, 1.0 / a
    skip = tl.load(skip_ptr + channel, mask=valid, other=0.0)
    at_piece = (batch * pieces + piece) * channels
    if CARRIED:
        adjoint = tl.load(behind_ptr + at_piece * STATE + tile, mask=valid[:, None], other=0.0)
    else:
        adjoint = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    da = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    da_read = tl.zeros([BLOCK, STATE], dtype=tl.float32)
    dskip = tl.zeros([BLOCK], dtype=tl.float32)
    one = (tl.arange(0, BLOCK)[:, None] == 0) & always[None, :]
    x_ptr += batch * length * channels
    d_ptr += batch * length * channels
    dy_ptr += batch * length * channels
    dx_ptr += batch * length * channels
    dd_ptr += batch * length * channels
    b_ptr += batch * length * STATE
    c_ptr += batch * length * STATE
    db_ptr += (batch * length * blocks + block) * STATE
    dc_ptr += (batch * length * blocks + block) * STATE
    first = piece * piece_length
    last = tl.minimum(first + piece_length, length)
    count = (last - first + 3) // 4
    for i in range(0, count):
        k = first + (count - 1 - i) * 4
        kept = kept_ptr + (batch * groups + k // 4) * channels * STATE + tile
        w0 = tl.load(kept, mask=valid[:, None], other=0.0)
        x0 = _row(x_ptr, k, last, channels, channel, valid)
        x1 = _row(x_ptr, k + 1, last, channels, channel, valid)
        x2 = _row(x_ptr, k + 2, last, channels, channel, valid)
        x3 = _row(x_ptr, k + 3, last, channels, channel, valid)
        d0 = _row(d_ptr, k, last, channels, channel, valid)
        d1 = _row(d_ptr, k + 1, last, channels, channel, valid)
        d2 = _row(d_ptr, k + 2, last, channels, channel, valid)
        d3 = _row(d_ptr, k + 3, last, channels, channel, valid)
        dy0 = _row(dy_ptr, k, last, channels, channel, valid)
        dy1 = _row(dy_ptr, k + 1, last, channels, channel, valid)
        dy2 = _row(dy_ptr, k + 2, last, channels, channel, valid)
        dy3 = _row(dy_ptr, k + 3, last, channels, channel, valid)
        b0 = _row(b_ptr, k, last, STATE, n, always)
        b1 = _row(b_ptr, k + 1, last, STATE, n, always)
        b2 = _row(b_ptr, k + 2, last, STATE, n, always)
        b3 = _row(b_ptr, k + 3, last, STATE, n, always)
        c0 = _row(c_ptr, k, last, STATE, n, always)
        c1 = _row(c_ptr, k + 1, last, STATE, n, always)
        c2 = _row(c_ptr, k + 2, last, STATE, n, always)
        c3 = _row(c_ptr, k + 3, last, STATE, n, always)
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
        adjoint, da, da_read, dx1, dd1, db1, dc1 = _gradients(
            adjoint, da, da_read, w2, w1, x1, d1, dy1, b1, c1, a2, inverse, skip, SERIES
        )
        adjoint, da, da_read, dx0, dd0, db0, dc0 = _gradients(
            adjoint, da, da_read, w1, w0, x0, d0, dy0, b0, c0, a2, inverse, skip, SERIES
        )
        dskip += (x0 * dy0 + x1 * dy1) + (x2 * dy2 + x3 * dy3)
        row = k * channels + channel
        _store_four(dx_ptr + row, dx0, dx1, dx2, dx3, channels, k, last, valid)
        _store_four(dd_ptr + row, dd0, dd1, dd2, dd3, channels, k, last, valid)
        # Sums over channels lie in the threads of every channel; stored from those of the first they need not move.
        row = k * blocks * STATE + n[None, :] + tl.zeros([BLOCK, 1], dtype=tl.int32)
        _store_four(db_ptr + row, db0, db1, db2, db3, blocks * STATE, k, last, one)
        _store_four(dc_ptr + row, dc0, dc1, dc2, dc3, blocks * STATE, k, last, one)
    da = (da - da_read * inverse) * inverse
    tl.store(da_ptr + at_piece * STATE + tile, da, mask=valid[:, None])
    tl.store(dskip_ptr + at_piece + channel, dskip, mask=valid)


@triton.jit
def _store_four(pointer, v0, v1, v2, v3, stride, k, last, valid):
    tl.store(pointer, v0, mask=valid)
    tl.store(pointer + stride, v1, mask=valid & (k + 1 < last))
    tl.store(pointer + 2 * stride, v2, mask=valid & (k + 2 < last))
    tl.store(pointer + 3 * stride, v3, mask=valid & (k + 3 < last))
