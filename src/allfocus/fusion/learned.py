"""Fusion by a trained network: frames -> selection logits -> weighted frames.

A small stack is seen by the network as a whole. A larger one is first seen as a whole at a scale at which it is small,
which gives the context: what wins where the detail says nothing. Then it is fused in windows (:mod:`.windows`), each
with only the frames that matter there; large pictures are decided at half scale. Pixels are always taken at full scale.
Memory is bounded by the picture and the windows at work, not by the number of frames, as long as the frames themselves
come from disk (:class:`allfocus.images.tiling.FrameSpool`).
"""

import functools
import importlib.resources
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion.blending import Curve, blend_frames, differing_evidence, selection_weights, settle_logits
from allfocus.fusion.frame_source import (
    FrameSource,
    MemorySource,
    SpoolSource,
    decision_scale,
    enlarge,
    read_whole_reduced,
)
from allfocus.fusion.inference import choose_device, processor_count, run_network, three_channels, weights_folder
from allfocus.fusion.source_frames import check_frames
from allfocus.fusion.windows import (
    Area,
    Window,
    average_under,
    choose_frames,
    crop_under,
    cut_windows,
    fade,
    whole_window,
)
from allfocus.images.tiling import FrameSpool, Mask

PREFERENCE = 1.0
"""Logits by which `prefer` favours one end of the stack over the other: enough where the network is in two minds."""
DECISIVENESS = 8.0
"""Under a preference the logits count this many times, so that it chooses a frame where otherwise they would mix."""
HARD = 1e12
"""The same for a choice without any mixing, except between frames that are exactly as likely."""
LARGEST_WHOLE = 3_200_000
"""Pixels times frames up to which the network sees the stack as a whole: about 800 MB at 250 bytes each."""
CONTEXT_PIXELS = 2_000_000
"""Pixels times frames at which a larger stack is seen for its context."""
EXPECTED_SHARE = 0.02
"""A frame that wins in this share of a window by the context alone is looked at there."""
MOST_WORKERS = 8
"""Windows at work at once."""
WORKING_PIXELS = 600_000
"""Pixels times frames for each core that windows at work may hold, at 250 bytes: of large ones fewer are at work."""
NEVER = np.float32(-1e30)
"""Logit of a frame where it has no pixels."""


class Maps(NamedTuple):
    """What fusing gives."""

    image: NDArray[np.float32]
    """(H, W[, 3])"""
    decision: NDArray[np.int16]
    """(H, W), which frame has the largest weight."""
    depth: NDArray[np.float32]
    """(H, W), position in the stack as a fraction: 0 the first frame, 1 the last."""
    confidence: NDArray[np.float32]
    """(H, W), 0..1: how far the best frame is ahead of the next, times how much there is to tell by."""


@dataclass(frozen=True)
class Plan:
    """How a stack is fused: everything that must be known of the whole before a part of it can be fused."""

    size: tuple[int, int]
    """Height and width at full scale."""
    scale: int
    """By how much frames are reduced before focus is decided."""
    windows: list[Window]
    """In pixels of the reduced frames."""
    chosen: list[list[int]]
    """For each window the frames that are looked at."""
    prior: NDArray[np.float32] | None
    """(windows, frames, h, w): what the context says under each window; None where the network sees the whole."""
    frames: int
    """How many there are."""
    lean: float = 0.0
    """What is added to the logits from the first frame to the last."""
    decisiveness: float = 1.0
    """By what the logits are multiplied before they become weights."""
    weights: str | None = None
    """The ONNX file of the network; None for the shipped one."""

    def fading(self, window: Window) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Returns how much a window weighs along the rows and the columns of its reach, at full scale."""
        rows, columns = (
            fade(side, length, self.scale)
            for side, length in zip((window.rows, window.columns), self.size, strict=True)
        )
        if self.decisiveness < HARD:
            return rows, columns
        # Windows that fade into each other would mix what each of them chose.
        return (rows > 0.5).astype(np.float32), (columns > 0.5).astype(np.float32)


def fuse_ips(
    frames: Sequence[NDArray[np.float32]] | FrameSpool,
    *,
    prefer: str | None = None,
    hard: bool = False,
    weights: str | None = None,
    valid: Sequence[Mask] | None = None,
    curve: Curve | None = None,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Maps:
    """Returns the fused picture, which frame each pixel came from, depth and confidence.

    Args:
        frames: two or more pictures (H, W, 3) or (H, W), float32 in 0..1, in focus order if depth matters; or a spool
            of such frames on disk, made by :func:`allfocus.fusion.frame_source.open_spool`.
        prefer: ``near`` favours the first frames where frames conflict, ``far`` the last.
        hard: every pixel is a copy from the likeliest frame, instead of a mean by how likely they are.
        weights: an ONNX file of one's own; None for the shipped network.
        valid: per frame where it has pixels, for frames in memory; a spool knows by itself.
        curve: the transfer curve of the values; pixels are then mixed in linear light.
        device: ``cpu``, ``cuda`` or ``auto``.
        progress: called with steps done and steps in all.
    """
    source: FrameSource = (
        SpoolSource(frames) if isinstance(frames, FrameSpool) else MemorySource(check_frames(frames), valid)
    )
    device = choose_device(device) if weights is None else _without_torch(device)
    plan = plan_fusion(source, prefer=prefer, hard=hard, weights=weights, device=device)
    height, width = plan.size
    if device == "cuda":
        from allfocus.fusion.gpu import fits_memory, fuse_on_gpu

        if fits_memory(source):
            return Maps(*fuse_on_gpu(plan, source, curve=curve, progress=progress))
    return fuse_area(plan, source, (slice(0, height), slice(0, width)), curve=curve, device=device, progress=progress)


def _without_torch(asked: str) -> str:
    """Returns what a network of one's own runs on, which is known as an ONNX file only."""
    device = choose_device(asked)
    if device == "cuda" and asked == "cuda":
        raise InputError("an ONNX file runs on a GPU through onnxruntime-gpu, which finds none; use --device cpu")
    return "cpu" if device == "cuda" else device


def plan_fusion(
    source: FrameSource,
    *,
    prefer: str | None = None,
    hard: bool = False,
    weights: str | None = None,
    device: str = "auto",
) -> Plan:
    """Returns how a stack will be fused; looks at every frame once, at the reduced scale."""
    height, width = source.shape[:2]
    frames = len(source)
    lean = {None: 0.0, "near": -PREFERENCE, "far": PREFERENCE}[prefer]
    decisiveness = HARD if hard else DECISIVENESS if lean else 1.0
    if frames * height * width <= LARGEST_WHOLE and decision_scale(height, width) == 1:
        whole = [whole_window(height, width)]
        return Plan((height, width), 1, whole, [list(range(frames))], None, frames, lean, decisiveness, weights)
    scale = decision_scale(height, width)
    size = (-(-height // scale), -(-width // scale))
    windows = cut_windows(*size)
    context = _see_whole(source, size[0] * size[1], device, weights)
    winner = (context + lean * np.linspace(0, 1, frames, dtype=np.float32)[:, None, None]).argmax(axis=0)
    sharpness = source.sharpness()
    chosen = []
    for window in windows:
        below = crop_under(winner, window, *size)
        share = np.bincount(below.ravel(), minlength=frames)
        ranked = np.argsort(-share, kind="stable")
        expected = [int(index) for index in ranked if share[index] > EXPECTED_SHARE * share.sum()]
        chosen.append(_cover(source, window, scale, choose_frames(sharpness, window, expected)))
    prior = average_under(context, windows, *size)
    return Plan((height, width), scale, windows, chosen, prior, frames, lean, decisiveness, weights)


def _cover(source: FrameSource, window: Window, scale: int, chosen: list[int]) -> list[int]:
    """Returns the chosen frames and as many more as it takes to have a pixel wherever some frame has one."""
    area = (
        slice(window.reach[0].start * scale, window.reach[0].stop * scale),
        slice(window.reach[1].start * scale, window.reach[1].stop * scale),
    )
    first = source.read_valid(chosen[0], area)
    if first is None or first.all():
        return chosen
    masks = [np.asarray(source.read_valid(index, area), bool) for index in range(len(source))]
    missing = ~functools.reduce(np.logical_or, (masks[index] for index in chosen))
    grown = list(chosen)
    while (gained := [int((missing & mask).sum()) for mask in masks]) and max(gained) > 0:
        grown.append(int(np.argmax(gained)))
        missing &= ~masks[grown[-1]]
    return sorted(grown)


def context_factor(frames: int, pixels: int) -> int:
    """Returns by how much frames of so many pixels are reduced, a power of 2, to be seen as a whole.

    Example:
        >>> context_factor(10, 3_000_000)
        4
    """
    factor = 1
    while frames * pixels > CONTEXT_PIXELS * factor**2:
        factor *= 2
    return factor


def _see_whole(source: FrameSource, pixels: int, device: str, weights: str | None) -> NDArray[np.float32]:
    """Returns the settled logits (frames, h, w) of all frames at a scale at which the network can see them at once."""
    factor = context_factor(len(source), pixels)
    frames = [read_whole_reduced(source, index, factor) for index in range(len(source))]
    order = _order_of_content(frames)
    ordered = [frames[index] for index in order]
    logits = run_network(ordered, device=device, threads=processor_count(), weights=weights)
    settled = settle_logits(logits, differing_evidence(ordered))
    return np.stack([settled[order.index(index)] for index in range(len(frames))])


def fuse_area(
    plan: Plan,
    source: FrameSource,
    area: Area,
    *,
    curve: Curve | None = None,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Maps:
    """Returns an area (rows and columns at full scale) of the fused picture, equal to that part of the whole.

    Args:
        plan: From :func:`plan_fusion` for the same stack.
        source: The stack; only what the area needs is read.
        area: Rows and columns, each with a start and a stop.
        curve: The transfer curve of the values; pixels are then mixed in linear light.
        device: ``cpu``, ``cuda`` or ``auto``.
        progress: Called with the windows done and the windows in all.
    """
    overlaps = {number: _overlap(plan, window, area) for number, window in enumerate(plan.windows)}
    places = {number: overlap for number, overlap in overlaps.items() if overlap is not None}
    height, width = (side.stop - side.start for side in area)
    image = np.zeros((height, width, *source.shape[2:]), np.float32)
    depth, confidence = np.zeros((height, width), np.float32), np.zeros((height, width), np.float32)
    decision = np.zeros((height, width), np.int16)
    work = functools.partial(_fuse_window, plan, source, curve=curve, device=device)
    largest = max((len(plan.chosen[number]) * _pixels(plan.windows[number]) for number in places), default=1)
    workers = min(MOST_WORKERS, max(1, WORKING_PIXELS * processor_count() // largest))
    for done, (number, part) in enumerate(_in_parallel(work, list(places), workers), start=1):
        window, (inside, target) = plan.windows[number], places[number]
        rows, columns = (weight[part] for weight, part in zip(plan.fading(window), inside, strict=True))
        weight = rows[:, None] * columns[None, :]
        image[target] += part.image[inside] * (weight[..., None] if image.ndim == 3 else weight)
        depth[target] += part.depth[inside] * weight
        confidence[target] += part.confidence[inside] * weight
        # A pixel belongs to the one window that weighs more than half in both directions.
        own = (rows > 0.5)[:, None] & (columns > 0.5)[None, :]
        np.copyto(decision[target], part.decision[inside], where=own)
        if progress is not None:
            progress(done, len(places))
    return Maps(image, decision, depth, confidence)


def _overlap(plan: Plan, window: Window, area: Area) -> tuple[Area, Area] | None:
    """Returns where a window's reach and an area overlap: in the reach, and in the area; None if they do not."""
    inside, target = [], []
    for reach, side, length in zip(window.reach, area, plan.size, strict=True):
        reach_first, reach_last = reach.start * plan.scale, min(reach.stop * plan.scale, length)
        first, last = max(reach_first, side.start), min(reach_last, side.stop)
        if first >= last:
            return None
        inside.append(slice(first - reach_first, last - reach_first))
        target.append(slice(first - side.start, last - side.start))
    return (inside[0], inside[1]), (target[0], target[1])


def _pixels(window: Window) -> int:
    rows, columns = window.area
    return int(rows.stop - rows.start) * int(columns.stop - columns.start)


def _in_parallel(work: Callable[..., Maps], numbers: list[int], most: int) -> Iterator[tuple[int, Maps]]:
    """Gives the result of each window in order; several windows, `most` of them, are at work at once on one core each.

    In order, so that sums come out the same to the last bit whatever finishes first; and only a few ahead, so that
    results do not pile up.
    """
    workers = min(processor_count(), len(numbers), most)
    if workers <= 1:
        for number in numbers:
            yield number, work(number, threads=processor_count())
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="allfocus-window")
    try:
        waiting: deque[tuple[int, Future[Maps]]] = deque()
        for number in numbers:
            waiting.append((number, pool.submit(work, number, threads=1)))
            if len(waiting) > workers:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _fuse_window(
    plan: Plan, source: FrameSource, number: int, *, curve: Curve | None, device: str, threads: int
) -> Maps:
    """Returns the maps of one window over its reach, at full scale."""
    window = plan.windows[number]
    parts = [source.read_reduced(index, window.area) for index in plan.chosen[number]]
    order = _order_of_content(parts)
    parts, chosen = [parts[place] for place in order], [plan.chosen[number][place] for place in order]
    evidence = differing_evidence(parts)
    prior = None
    if plan.prior is not None:
        known = plan.prior[number][chosen]
        prior = list(known - known.max(axis=0, keepdims=True))
    logits = run_network(parts, device=device, threads=threads, weights=plan.weights)
    logits = settle_logits(logits, evidence, prior)
    del parts
    positions = np.asarray(chosen, np.float32) / max(1, plan.frames - 1)
    logits = [own + plan.lean * place for own, place in zip(logits, positions, strict=True)]
    grown, trim = _reach_inside(window, plan)
    confidence = _lead(logits) * evidence
    if plan.decisiveness != 1:
        logits = [np.float32(plan.decisiveness) * own for own in logits]
    full = at_full_scale(window.reach, plan)
    masks = [source.read_valid(index, full) for index in chosen]
    whole = all(mask is None or mask.all() for mask in masks)
    if whole:
        needed = _needed(selection_weights([own[grown] for own in logits]))
        logits, chosen, positions = [logits[k] for k in needed], [chosen[k] for k in needed], positions[needed]
    large = [enlarge(own[grown], plan.scale)[trim] for own in logits]
    if not whole:
        large = [own if mask is None else np.where(mask, own, NEVER) for own, mask in zip(large, masks, strict=True)]
    weights = selection_weights(large)
    image = blend_frames((source.read(index, full) for index in chosen), weights, curve=curve)
    depth = functools.reduce(np.add, (own * place for own, place in zip(weights, positions, strict=True)))
    decision = np.asarray(chosen, np.int16)[np.argmax(np.stack(weights), axis=0)]
    return Maps(image, decision, np.asarray(depth, np.float32), enlarge(confidence[grown], plan.scale)[trim])


def _reach_inside(window: Window, plan: Plan) -> tuple[Area, Area]:
    """Returns the reach in the window, grown by a pixel for interpolation; and the reach in that, at full scale."""
    grown, trim = [], []
    for own, side, length in zip(window.area, window.reach, plan.size, strict=True):
        first, last = side.start - own.start, side.stop - own.start
        start = max(0, first - 1)
        grown.append(slice(start, min(own.stop - own.start, last + 1)))
        size = min(side.stop * plan.scale, length) - side.start * plan.scale
        trim.append(slice((first - start) * plan.scale, (first - start) * plan.scale + size))
    return (grown[0], grown[1]), (trim[0], trim[1])


def at_full_scale(area: Area, plan: Plan) -> Area:
    """Returns an area of the reduced frames as an area of the picture."""
    rows, columns = (
        slice(side.start * plan.scale, min(side.stop * plan.scale, length))
        for side, length in zip(area, plan.size, strict=True)
    )
    return rows, columns


def _needed(weights: Sequence[NDArray[np.float32]]) -> list[int]:
    """Returns the places of the frames that weigh something somewhere."""
    return [place for place, weight in enumerate(weights) if bool(weight.any())]


def _lead(logits: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Returns by how much the network's probability of the best source exceeds that of the next (H, W)."""
    ranked = np.sort(np.stack(selection_weights(logits)), axis=0)
    return np.asarray(ranked[-1] - ranked[-2], np.float32)


def _order_of_content(parts: Sequence[NDArray[np.float32]]) -> list[int]:
    """Returns an order of the frames that follows from their pixels.

    Sums of floating-point numbers depend on the order of the terms in the last digits, and a nearly even choice makes
    that visible; so that the order in which frames are given cannot matter at all, they are summed in this one.
    """
    keys = [zlib.crc32(part[::3, ::3].tobytes()) for part in parts]
    return sorted(range(len(parts)), key=lambda place: keys[place])


def fuse_ips_paper(
    frames: Sequence[NDArray[np.float32]], *, device: str = "auto"
) -> tuple[NDArray[np.float32], None, None]:
    """Returns the picture of the paper's own network for two frames; needs torch (the `train` extra)."""
    checked = check_frames(frames)
    if len(checked) != 2:
        raise InputError(f"ips-paper fuses exactly 2 frames, got {len(checked)}; use --method ips for more")
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "ips-paper runs in torch; install it with: pip install 'allfocus[train]'"
        ) from error
    from allfocus.network.checkpoint import load_network

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch finds no GPU; use cpu")
    with importlib.resources.as_file(weights_folder() / "ips-paper.safetensors") as path:
        network, _ = load_network(path, device=device)
    colour = [three_channels(frame) for frame in checked]
    batch = torch.from_numpy(np.stack(colour)).permute(0, 3, 1, 2)[None].to(device)
    with torch.no_grad():
        fused = network(batch)[0].clamp(0, 1).permute(1, 2, 0).cpu().numpy()
    return (fused if checked[0].ndim == 3 else fused.mean(axis=2)), None, None
