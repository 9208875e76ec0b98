"""The selective scan at the heart of a Mamba block: one recurrence, four forms with equal values and gradients.

Glossary (letters of the paper's section III-B, equations 4 to 7):

* ``x``  (batch, length, channels): the input sequence, one value per token and channel.
* ``Δ``  (batch, length, channels): the step size of each token, positive; decides how much a token is taken in.
* ``A``  (channels, state): the state matrix, diagonal and negative; how fast each state forgets.
* ``B``, ``C``  (batch, length, state): how a token enters the state, and how the state is read.
* ``D``  (channels,): the direct path from input to output.

The recurrence, discretised by zero-order hold:

    s_k = exp(Δ_k A) s_{k-1} + (exp(Δ_k A) - 1) / A · B_k x_k,        y_k = C_k s_k + D x_k

Where the texts differ: the paper's equation 5 prints ``exp(A)`` inside the discrete B, which is a slip of the pen for
``exp(ΔA)``; and the usual Mamba code replaces the discrete B by its first-order form ``Δ B``. This module computes the
exact zero-order hold. The paper calls the map from x to y a global convolution (its equation 8); that holds only when
A, B, C and Δ are constant along the sequence, so the selective form is always the recurrence.

Forms: ``reference`` is the recurrence as a plain loop; ``chunked`` advances many pieces of the sequence side by side
and is the fast one on a CPU; ``triton`` is the GPU kernel with its own backward pass
(:mod:`allfocus.network.triton_scan`). :func:`selective_scan_heads` is the same recurrence where all states of a group
of channels (a head) share one decay; it then consists of matrix products, which makes it fast everywhere and possible
to export to ONNX (the form of Mamba-2, Dao and Gu 2024).
"""

import math
from typing import Literal

import torch
from torch import Tensor

ScanForm = Literal["auto", "reference", "chunked", "triton"]


def selective_scan(
    x: Tensor, Δ: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, *, form: ScanForm = "auto"
) -> Tensor:
    """Returns the output sequence y (batch, length, channels) of the selective state space model.

    Args:
        x: input sequence (batch, length, channels).
        Δ: step sizes (batch, length, channels), positive.
        A: state matrix (channels, state), negative.
        B: input projection (batch, length, state).
        C: output projection (batch, length, state).
        D: direct path (channels,).
        form: ``auto`` takes the Triton kernel for tensors on a GPU and the chunked form elsewhere.

    Example:
        >>> one = torch.ones(1, 3, 1)
        >>> y = selective_scan(one, one, -torch.ones(1, 1), one, one, torch.zeros(1), form="reference")
        >>> [round(value, 4) for value in y.flatten().tolist()]
        [0.6321, 0.8647, 0.9502]
    """
    if form == "auto":
        form = "triton" if x.is_cuda else "chunked"
    if form == "reference":
        return _scan_reference(x, Δ, A, B, C, D)
    if form == "chunked":
        return _scan_chunked(x, Δ, A, B, C, D)
    if form == "triton":
        # Imported here because Triton exists only on machines with a GPU.
        from allfocus.network.triton_scan import scan_triton

        return scan_triton(x, Δ, A, B, C, D)
    raise ValueError(f"unknown form {form!r}; valid forms are auto, reference, chunked, triton")


def discretise(Δ: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the zero-order-hold factors exp(ΔA) and (exp(ΔA) - 1) / A for broadcastable Δ and A."""
    exponent = Δ * A
    return torch.exp(exponent), torch.expm1(exponent) / A


def _scan_reference(x: Tensor, Δ: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    state = x.new_zeros(x.shape[0], x.shape[2], A.shape[1])
    outputs = []
    for k in range(x.shape[1]):
        decay, gain = discretise(Δ[:, k, :, None], A)
        state = decay * state + gain * B[:, k, None, :] * x[:, k, :, None]
        outputs.append((state * C[:, k, None, :]).sum(-1) + D * x[:, k])
    return torch.stack(outputs, dim=1)


def _scan_chunked(x: Tensor, Δ: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor) -> Tensor:
    """Cuts the sequence into about sqrt(length) chunks that advance together, then hands the carry from chunk to chunk.

    About 3 sqrt(length) steps over large tensors instead of `length` steps over small ones. Channels come last, along
    which a processor works on several values at once. Each exp(z) is taken as 1 + expm1(z): one function for both
    factors, and states that have faded are 0 and not numbers so small that processors are slow with them.
    """
    batch, length, channels = x.shape
    steps = max(1, math.isqrt(length))
    chunks = -(-length // steps)
    padding = chunks * steps - length

    def split(sequence: Tensor) -> Tensor:
        # A padded token has Δ = 0: it neither decays the state nor enters it.
        padded = torch.nn.functional.pad(sequence, (0, 0, 0, padding))
        return padded.reshape(batch, chunks, steps, -1).transpose(1, 2).contiguous()

    xs, Δs, Bs, Cs = split(x), split(Δ), split(B), split(C)
    rate = A.T.contiguous()
    inverse = 1 / rate
    elapsed = torch.zeros_like(Δs[:, 0])
    state = x.new_zeros(batch, chunks, A.shape[1], channels)
    local, times = [], []
    for k in range(steps):
        change = torch.expm1(Δs[:, k, :, None] * rate)
        taken_in = torch.addcmul(state, xs[:, k, :, None] * inverse, Bs[:, k, :, :, None])
        state = torch.addcmul(state, change, taken_in)
        local.append(torch.matmul(Cs[:, k, :, None], state).squeeze(2))
        elapsed = elapsed + Δs[:, k]
        times.append(elapsed)
    chunk_decay = 1 + torch.expm1(elapsed[:, :, None] * rate)
    carry = x.new_zeros(batch, A.shape[1], channels)
    carries = []
    for chunk in range(chunks):
        carries.append(carry)
        carry = chunk_decay[:, chunk] * carry + state[:, chunk]
    entering = torch.stack(carries, dim=1)
    for k in range(steps):
        inherited = torch.addcmul(entering, torch.expm1(times[k][:, :, None] * rate), entering)
        local[k] = local[k] + torch.matmul(Cs[:, k, :, None], inherited).squeeze(2)
    y = torch.stack(local, dim=2).reshape(batch, chunks * steps, channels)[:, :length]
    return y + D * x


def selective_scan_heads(
    x: Tensor,
    Δ: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    *,
    chunk: int = 64,
) -> Tensor:
    """Returns y (batch, length, heads, width): the selective scan whose decay is shared by all states of a head.

    Equal to :func:`selective_scan` with A and Δ repeated over the channels and states of each head.

    Args:
        x: input sequence (batch, length, heads, width).
        Δ: step sizes (batch, length, heads), positive.
        A: one negative decay rate per head (heads,).
        B: input projection (batch, length, state), shared by the heads.
        C: output projection (batch, length, state), shared by the heads.
        D: direct path (heads, width).
        chunk: tokens that are handled by one matrix product; changes cost, not values.
    """
    batch, length, heads, width = x.shape
    state = B.shape[2]
    padding = (-length) % chunk
    pad = torch.nn.functional.pad
    exponent = Δ * A
    gain = torch.expm1(exponent) / A
    u = pad(x * gain.unsqueeze(-1), (0, 0, 0, 0, 0, padding)).reshape(batch, -1, chunk, heads, width).transpose(2, 3)
    decay = pad(exponent, (0, 0, 0, padding)).reshape(batch, -1, chunk, heads).transpose(2, 3).cumsum(dim=-1)
    b = pad(B, (0, 0, 0, padding)).reshape(batch, -1, 1, chunk, state)
    c = pad(C, (0, 0, 0, padding)).reshape(batch, -1, 1, chunk, state)
    # Inside a chunk: token t reads token s <= t, faded by what lies between them.
    kernel = torch.matmul(c, b.transpose(-1, -2)) * _fading(decay, decay)
    y = torch.matmul(kernel, u)
    # Between chunks: each leaves a state behind, which fades over the chunks that follow.
    total = decay[..., -1:]
    left_behind = torch.matmul((b * torch.exp(total - decay).unsqueeze(-1)).transpose(-1, -2), u)
    elapsed = total.squeeze(-1).cumsum(dim=1).transpose(1, 2)  # (batch, heads, chunks)
    before = elapsed - total.squeeze(-1).transpose(1, 2)
    carry = _fading(before, elapsed, strict=True)
    flat = left_behind.transpose(1, 2).flatten(3)  # (batch, heads, chunks, state * width)
    entering = torch.unflatten(torch.matmul(carry, flat), 3, (state, width)).transpose(1, 2)
    y = y + torch.matmul(c * torch.exp(decay).unsqueeze(-1), entering)
    y = y.transpose(2, 3).reshape(batch, length + padding, heads, width)[:, :length]
    return y + D * x


def _fading(upto: Tensor, since: Tensor, *, strict: bool = False) -> Tensor:
    """Returns exp(upto[t] - since[s]) for s <= t (s < t when strict) and 0 elsewhere, over the last dimension.

    The exponent is clipped at 0 before `exp`, where the masked half would overflow.
    """
    difference = (upto.unsqueeze(-1) - since.unsqueeze(-2)).clamp(max=0.0)
    ones = torch.ones_like(difference[(0,) * (difference.dim() - 2)])
    return torch.exp(difference) * torch.tril(ones, diagonal=-1 if strict else 0)
