"""Fusion on a GPU, from frames in its memory to a picture in its memory: the steps of `allfocus.fusion` as tensors.

The windows, the order of the steps and all constants are those of the CPU path, handed over by its caller; only the
arithmetic differs in the last digits, more so where the network runs in bfloat16. Tests compare the steps one by one.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Settings:
    """Constants of `allfocus.fusion.blending` and `allfocus.fusion.learned`, where each is explained."""

    evidence_window: int
    evidence_noise: float
    settling_levels: int
    prior_weight: float
    largest_margin: float
    negligible: float
    never: float


@dataclass(frozen=True)
class WindowTask:
    """One window: slices of the reduced frames, and of the picture that its result reaches."""

    area: tuple[slice, slice]
    """In the reduced frames: what the network sees."""
    inside: tuple[slice, slice]
    """In the window at full scale: its reach."""
    target: tuple[slice, slice]
    """In the picture: the same."""
    rows: NDArray[np.float32]
    """Weight of the result along the rows of the reach."""
    columns: NDArray[np.float32]
    """Weight of the result along its columns."""
    chosen: list[int]
    """The frames that are looked at."""
    number: int
    """Place of the window among all windows of the picture."""


@dataclass(frozen=True)
class Batch:
    """Windows that go through the network together, with what they need on the device."""

    tasks: list[WindowTask]
    chosen: Tensor
    """(windows, frames), int64"""
    numbers: Tensor
    """(windows,), int64"""
    fading: list[Tensor]
    """Per window (h, w): the weight of its result."""


MOST_AT_ONCE = 60_000_000
"""Pixels of windows times frames that go through the network together: about 6 GB in bfloat16."""


def prepare_batches(tasks: Sequence[WindowTask], device: torch.device | str) -> list[Batch]:
    """Returns the windows in groups that have the same number of frames and fit the memory together."""
    by_frames: dict[int, list[WindowTask]] = defaultdict(list)
    for task in tasks:
        by_frames[len(task.chosen)].append(task)
    groups: list[list[WindowTask]] = []
    for frames, same in sorted(by_frames.items()):
        rows, columns = same[0].area
        most = max(1, MOST_AT_ONCE // (frames * (rows.stop - rows.start) * (columns.stop - columns.start)))
        groups += [same[first : first + most] for first in range(0, len(same), most)]
    return [
        Batch(
            group,
            torch.tensor([task.chosen for task in group], device=device),
            torch.tensor([task.number for task in group], device=device),
            [torch.from_numpy(np.outer(task.rows, task.columns)).to(device) for task in group],
        )
        for group in groups
    ]


def fuse_windows(
    frames: Tensor,
    reduced: Tensor,
    network: nn.Module,
    batches: Sequence[Batch],
    settings: Settings,
    *,
    scale: int,
    prior: Tensor | None = None,
    lean: float = 0.0,
    decisiveness: float = 1.0,
    valid: Tensor | None = None,
    curve: Tensor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns picture (C, H, W), decision (H, W), depth (H, W) and confidence (H, W) on the device of the frames.

    Nothing in here waits for the device, so that a run can be captured as a CUDA graph.

    Args:
        frames: (frames, C, H, W) with C 1 or 3; uint8, int16 holding the bits of uint16, or floating point in 0..1.
        reduced: (frames, 3, h, w) floating point in 0..1, at the scale at which focus is decided.
        network: the `ips` network on the same device.
        batches: the windows, from :func:`prepare_batches`.
        settings: the constants.
        scale: pixels of the frames per pixel of the reduced ones, along each side.
        prior: (windows, frames, h, w) logits of the context under each window, at the coarsest scale of settling.
        lean: added to the logits from the first frame to the last.
        decisiveness: by what the logits are multiplied before they become weights.
        valid: (frames, H, W) where each frame has pixels; None for everywhere.
        curve: light at evenly spaced values from 0 to 1; pixels are then mixed in linear light.
        progress: called with the windows done and the windows in all.
    """
    count, _, height, width = frames.shape
    shares = torch.zeros(count, height, width, device=frames.device)
    confidence = torch.zeros(height, width, device=frames.device)
    done, total = 0, sum(len(batch.tasks) for batch in batches)
    for batch in batches:
        logits, lead = _decide(reduced, network, batch, settings, prior, lean / max(1, count - 1))
        logits = logits if decisiveness == 1 else decisiveness * logits
        large = logits if scale == 1 else functional.interpolate(logits, scale_factor=float(scale), mode="bilinear")
        lead = lead if scale == 1 else functional.interpolate(lead, scale_factor=float(scale), mode="bilinear")
        weights = selection_weights(large, settings) if valid is None else None
        for number, (task, fading) in enumerate(zip(batch.tasks, batch.fading, strict=True)):
            rows, columns = task.inside
            if weights is not None:
                own = weights[number, :, rows, columns]
            else:
                assert valid is not None
                missing = ~_pick(valid, task.target, batch.chosen[number])
                own = large[number, :, rows, columns].masked_fill(missing, settings.never)
                own = selection_weights(own[None], settings)[0]
            confidence[task.target].addcmul_(lead[number, 0, rows, columns], fading)
            if len(task.chosen) == count:
                shares[:, task.target[0], task.target[1]].addcmul_(own, fading)
            else:
                for place, index in enumerate(task.chosen):
                    shares[index][task.target].addcmul_(own[place], fading)
        done += len(batch.tasks)
        if progress is not None:
            progress(done, total)
    picture = blend(frames, shares, curve)
    depth = torch.einsum("f,fhw->hw", torch.arange(count, device=frames.device) / max(1, count - 1), shares)
    return picture, shares.argmax(dim=0).to(torch.int16), depth, confidence


def selection_weights(logits: Tensor, settings: Settings) -> Tensor:
    """Returns the weights (windows, frames, H, W) of logits of that shape."""
    weights = (logits - logits.amax(dim=1, keepdim=True)).exp_().sub_(settings.negligible).clamp_(min=0)
    return weights.div_(weights.sum(dim=1, keepdim=True))


def _decide(
    reduced: Tensor, network: nn.Module, batch: Batch, settings: Settings, prior: Tensor | None, lean: float
) -> tuple[Tensor, Tensor]:
    """Returns the settled logits (windows, frames, h, w) and how sure they are (windows, 1, h, w)."""
    parts = torch.stack([_pick(reduced, task.area, own) for task, own in zip(batch.tasks, batch.chosen, strict=True)])
    evidence = differing_evidence(parts, settings)
    known = None
    if prior is not None:
        known = prior.index_select(0, batch.numbers).take_along_dim(batch.chosen[:, :, None, None], dim=1)
        known = known - known.amax(dim=1, keepdim=True)
    logits = settle_logits(run_padded(network, parts), evidence, known, settings)
    logits = logits + lean * batch.chosen[:, :, None, None]
    likely = selection_weights(logits, settings)
    best, place = likely.max(dim=1, keepdim=True)
    following = likely.scatter(1, place, -1.0).amax(dim=1, keepdim=True)
    return logits, (best - following) * evidence[:, None]


def _pick(frames: Tensor, area: tuple[slice, slice], chosen: Tensor) -> Tensor:
    """Returns an area (..., h, w) of the chosen frames; cut before they are chosen, so that little is copied."""
    return frames[..., area[0], area[1]].index_select(0, chosen)


def see_whole(reduced: Tensor, network: nn.Module, settings: Settings) -> Tensor:
    """Returns the settled logits (frames, h, w) of frames (frames, 3, h, w) that the network sees at once."""
    logits = run_padded(network, reduced[None])
    return settle_logits(logits, differing_evidence(reduced[None], settings), None, settings)[0]


def run_padded(network: nn.Module, parts: Tensor) -> Tensor:
    """Returns the logits (batch, frames, h, w) of parts (batch, frames, 3, h, w) of any size."""
    height, width = parts.shape[-2:]
    bottom, right = max(16 - height, -height % 8), max(16 - width, -width % 8)
    padded = parts.flatten(0, 1)
    if bottom or right:
        padded = functional.pad(padded, (0, right, 0, bottom), mode="replicate")
    # bfloat16 has the range of float32, and the logits that matter are small numbers; parts on a CPU stay as they are.
    with torch.no_grad(), torch.autocast(parts.device.type, torch.bfloat16, enabled=parts.is_cuda):
        logits: Tensor = network(torch.unflatten(padded, 0, parts.shape[:2]))
    return logits[..., :height, :width].float()


def from_levels(levels: Tensor) -> Tensor:
    """Returns integers as floating point in 0..1; floating point as it is."""
    if levels.dtype == torch.uint8:
        return levels.float() / 255
    # 16 bits come as int16, because torch can do little with uint16.
    return (levels.int() & 0xFFFF).float() / 65535 if levels.dtype == torch.int16 else levels.float()


def reduce_frames(frames: Tensor, scale: int) -> Tensor:
    """Returns frames (frames, C, H, W) whose pixels are means of ``scale`` x ``scale``; odd sides repeat their last."""
    if scale == 1:
        return frames
    height, width = frames.shape[-2:]
    padded = functional.pad(frames, (0, -width % scale, 0, -height % scale), mode="replicate")
    return functional.avg_pool2d(padded, scale)


def differing_evidence(parts: Tensor, settings: Settings) -> Tensor:
    """Returns what `allfocus.fusion.blending.differing_evidence` does: (batch, h, w) of (batch, frames, 3, h, w)."""
    brightness = parts.float().mean(dim=2)
    detail = brightness - _box(brightness, settings.evidence_window)
    variance = detail.var(dim=1, correction=0)
    local = _box(variance[:, None], settings.evidence_window)[:, 0]
    return (local / (local + settings.evidence_noise**2)) ** 2


def _box(maps: Tensor, side: int) -> Tensor:
    reach = side // 2
    if min(maps.shape[-2:]) <= reach:
        return functional.avg_pool2d(functional.pad(maps, (reach,) * 4, mode="replicate"), side, 1)
    return functional.avg_pool2d(functional.pad(maps, (reach,) * 4, mode="reflect"), side, 1)


def settle_logits(logits: Tensor, evidence: Tensor, prior: Tensor | None, settings: Settings) -> Tensor:
    """Returns what `allfocus.fusion.blending.settle_logits` does, for (batch, frames, h, w)."""
    smallest = 1e-6
    relative = (logits - logits.amax(dim=1, keepdim=True)).clamp(min=-settings.largest_margin)
    weights = [evidence[:, None].clamp(min=smallest)]
    weighted = [weights[0] * relative]
    for _ in range(settings.settling_levels):
        weights.append(pyramid_down(weights[-1]).clamp(min=smallest))
        weighted.append(pyramid_down(weighted[-1]))
    coarsest, weight = weighted[-1], weights[-1]
    if prior is not None:
        coarsest, weight = coarsest + settings.prior_weight * prior, weight + settings.prior_weight
    value = coarsest / weight
    for level in range(settings.settling_levels - 1, -1, -1):
        share = weights[level].clamp(max=1)
        wider = pyramid_up(value, tuple(share.shape[-2:]))
        value = share * (weighted[level] / weights[level]) + (1 - share) * wider
    return value


def pyramid_down(maps: Tensor) -> Tensor:
    """Returns maps (batch, n, h, w) at half size, as OpenCV's pyrDown."""
    return _halve(_halve(maps, -1), -2)


def _halve(maps: Tensor, dimension: int) -> Tensor:
    length = maps.shape[dimension]
    padded = _mirror(maps, 2, dimension=dimension)
    count = (length + 1) // 2

    def every_second(first: int) -> Tensor:
        part = padded.narrow(dimension, first, 2 * count - 1)
        return part[..., ::2] if dimension == -1 else part[..., ::2, :]

    outer, inner = every_second(0) + every_second(4), every_second(1) + every_second(3)
    return (outer + 4 * inner + 6 * every_second(2)) / 16


def _mirror(maps: Tensor, reach: int, *, dimension: int) -> Tensor:
    length = maps.shape[dimension]
    period = max(1, 2 * length - 2)
    steps = torch.arange(-reach, length + reach, device=maps.device) % period
    return maps.index_select(dimension, torch.minimum(steps, period - steps) if length > 1 else steps * 0)


def pyramid_up(maps: Tensor, size: tuple[int, ...]) -> Tensor:
    """Returns maps (batch, n, h, w) enlarged to a size about twice theirs, as OpenCV's pyrUp."""
    return _double(_double(maps, -1, size[1]), -2, size[0])


def _double(maps: Tensor, dimension: int, length: int) -> Tensor:
    count = maps.shape[dimension]
    before = maps.narrow(dimension, min(1, count - 1), 1)
    after = maps.narrow(dimension, count - 1, 1)
    padded = torch.cat([before, maps, after], dim=dimension)
    left, right = padded.narrow(dimension, 0, count), padded.narrow(dimension, 2, count)
    pair = torch.stack([(left + 6 * maps + right) / 8, (maps + right) / 2], dim=maps.dim())
    moved = pair if dimension == -1 else pair.transpose(-1, -2)
    flat = moved.flatten(-2) if dimension == -1 else moved.flatten(-3, -2)
    return flat.narrow(dimension, 0, length)


def blend(frames: Tensor, shares: Tensor, curve: Tensor | None) -> Tensor:
    """Returns the sum (C, H, W) of frames (frames, C, H, W) by their shares (frames, H, W); linear light by a curve."""
    mixed = torch.zeros(frames.shape[1:], device=frames.device)
    for frame, share in zip(frames, shares, strict=True):
        mixed.addcmul_(from_levels(frame), share[None])
    if curve is None:
        return mixed
    light = torch.zeros_like(mixed)
    for frame, share in zip(frames, shares, strict=True):
        light.addcmul_(to_linear(from_levels(frame), curve), share[None])
    return torch.where((shares.amax(dim=0) < 1)[None], from_linear(light, curve), mixed)


def to_linear(values: Tensor, curve: Tensor) -> Tensor:
    """Returns the light of values in 0..1, linearly between the entries of the curve."""
    place = values.clamp(0, 1) * (len(curve) - 1)
    below = place.floor().clamp(max=len(curve) - 2)
    index = below.long()
    return curve[index] + (place - below) * (curve[index + 1] - curve[index])


def from_linear(light: Tensor, curve: Tensor) -> Tensor:
    """Returns the values of light: the inverse of :func:`to_linear`."""
    index = (torch.searchsorted(curve, light.contiguous()) - 1).clamp(0, len(curve) - 2)
    step = (curve[index + 1] - curve[index]).clamp(min=1e-12)
    return (index + ((light - curve[index]) / step).clamp(0, 1)) / (len(curve) - 1)
