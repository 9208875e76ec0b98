"""Fusing an area of a stack by its plan: the finer levels are decided in windows, then pixels are taken.

Each window is given the decision of the level above and only the frames that still compete there. What it says does not
depend on where it was cut.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.blending import (
    blend_frames,
    largest_of,
    lead_of,
    local_detail,
    selection_weights,
    weighty_area,
)
from allfocus.fusion.certainty import competing_evidence, firmness_of, settle_core
from allfocus.fusion.decisions import EXCLUSION, LevelDecisions, Tile, make_tile
from allfocus.fusion.frame_source import FrameSource, enlarge
from allfocus.fusion.inference import Above, LevelOutput, run_level
from allfocus.fusion.network_frames import forbid_missing, prepare_frames
from allfocus.fusion.planning import Plan
from allfocus.fusion.unveiling import Veil, believable, read_veil, unveil
from allfocus.fusion.windows import (
    REFINER_MARGIN,
    Area,
    beyond,
    clip_area,
    cut_cores,
    grow,
    halve_area,
    level_size,
    on_steps,
    overlap,
    pixels_of,
    split_core,
    widen,
    within,
)
from allfocus.images.transfer import Curve
from allfocus.machine import processor_count

MOST_WORKERS = 8
"""Windows at work at once."""
PROGRESS_STEPS = 100
"""Into how many steps the work is divided for those who watch it."""
NEVER = np.float32(-1e30)
"""Logit of a frame where it has no pixels."""
_Result = TypeVar("_Result")


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
    veil: NDArray[np.float32]
    """(H, W), 0..1: how opaque the veil was that was taken off."""


def fuse_area(
    plan: Plan,
    source: FrameSource,
    area: Area,
    *,
    curve: Curve | None = None,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Maps:
    """Returns an area (rows and columns at full scale) of the fused picture, equal to that part of the whole.

    Args:
        plan: From :func:`plan_fusion` for the same stack.
        source: The stack; only what the area needs is read.
        area: Rows and columns, each with a start and a stop.
        curve: The transfer curve of the values; pixels are then mixed in linear light.
        device: From :func:`allfocus.fusion.inference.choose_device`.
        progress: Called with the steps done and the steps in all.
    """
    decisions = LevelDecisions(plan.order, [plan.tile])
    targets = _targets(plan, area)
    # The finest level costs as much as three of all the others.
    steps = _Steps(progress, [4**-level for level in range(max(plan.level, 1) - 1, -1, -1)])
    for level in range(plan.level - 1, 0, -1):
        cores = _cores(plan, decisions, level, targets[level])
        work = functools.partial(_decide_core, plan, source, decisions, level, device=device)
        tiles = [tile for _, tile in steps.follow(_in_parallel(work, cores), len(cores))]
        decisions = LevelDecisions(plan.order, tiles)
    height, width = (side.stop - side.start for side in area)
    image = np.zeros((height, width, *source.shape[2:]), np.float32)
    depth, confidence = np.zeros((height, width), np.float32), np.zeros((height, width), np.float32)
    decision, veil = np.zeros((height, width), np.int16), np.zeros((height, width), np.float32)
    cores = _cores(plan, decisions, 0, targets[0])
    fuse = functools.partial(_fuse_core, plan, source, decisions, curve=curve, device=device)
    for core, part in steps.follow(_in_parallel(fuse, cores), len(cores)):
        own = at_full_scale(core, plan)
        shared = overlap(own, area)
        if shared is not None:
            target, inside = within(shared, area), within(shared, own)
            image[target], decision[target] = part.image[inside], part.decision[inside]
            depth[target], confidence[target] = part.depth[inside], part.confidence[inside]
            veil[target] = part.veil[inside]
    return Maps(image, decision, depth, confidence, veil)


class _Steps:
    """Tells how far the work has come, over levels of different cost."""

    def __init__(self, progress: Callable[[int, int], None] | None, costs: Sequence[float]) -> None:
        self._progress = progress
        self._shares = [cost / sum(costs) for cost in costs]
        self._before = 0.0

    def follow(self, results: Iterator[_Result], count: int) -> Iterator[_Result]:
        """Gives the results of the next level as they come."""
        share = self._shares.pop(0)
        for done, result in enumerate(results, start=1):
            yield result
            if self._progress is not None:
                self._progress(round(PROGRESS_STEPS * (self._before + share * done / count)), PROGRESS_STEPS)
        self._before += share


def _targets(plan: Plan, area: Area) -> list[Area]:
    """Returns what must be decided at each level for an area at full scale, in pixels of that level."""
    rows, columns = (slice(side.start // plan.scale, -(-side.stop // plan.scale)) for side in area)
    targets = [(rows, columns)]
    for level in range(1, plan.level):
        below = _region(plan, level - 1, targets[-1])
        targets.append(clip_area(halve_area(below), level_size(plan.decided_size, level)))
    return [on_steps(target, level_size(plan.decided_size, level)) for level, target in enumerate(targets)]


def _refined(plan: Plan, level: int) -> bool:
    """Returns whether a level below the plan is refined by its detail alone."""
    finest, own = (int(np.prod(level_size(plan.decided_size, number))) for number in (0, level))
    return finest > plan.settings.context_pixels and own > plan.settings.refined_pixels


def _region(plan: Plan, level: int, core: Area) -> Area:
    """Returns what the network must see of a level to decide a core."""
    margin = REFINER_MARGIN if _refined(plan, level) else plan.settings.margin
    return grow(core, level_size(plan.decided_size, level), margin)


def _cores(plan: Plan, above: LevelDecisions, level: int, target: Area) -> list[Area]:
    """Returns the cores of a level, each so small that the frames that compete in it fit the memory."""
    size, settings = level_size(plan.decided_size, level), plan.settings
    if plan.level <= level:
        return list(cut_cores(target, settings.core))

    most = settings.refiner_pixels if _refined(plan, level) else settings.working_pixels

    def cost(core: Area) -> int:
        region = _region(plan, level, core)
        return len(above.competing(clip_area(halve_area(region), level_size(size, 1)))) * pixels_of(region)

    waiting = [(core, cost(core)) for core in cut_cores(target, settings.core)]
    cores = []
    while waiting:
        core, own = waiting.pop()
        halves = [(half, cost(half)) for half in split_core(core, settings.smallest_core)]
        # Smaller windows see fewer frames, but more of their margins.
        if len(halves) > 1 and (own > most or sum(part for _, part in halves) < own):
            waiting += halves
        else:
            cores.append(core)
    return sorted(cores, key=lambda core: (core[0].start, core[1].start))


def _run_core(
    plan: Plan, source: FrameSource, above: LevelDecisions, level: int, core: Area, *, device: str, threads: int
) -> tuple[list[int], Area, NDArray[np.float32], NDArray[np.bool_], LevelOutput]:
    """Returns what the network says around a core, and of what.

    The frames that compete there, the region, the frames as they are seen, and where each of them competes.
    """
    size = level_size(plan.decided_size, level)
    region = _region(plan, level, core)
    under = halve_area(region)
    chosen = above.competing(clip_area(under, level_size(size, 1)))
    # The network compares; one that has lost everywhere keeps the only one left company, and has no influence.
    chosen += [index for index in plan.order if index not in chosen][: max(0, 2 - len(chosen))]
    inside = clip_area(region, size)
    frames = [source.read_reduced(index, inside, level) for index in chosen]
    stack = prepare_frames(frames, range(len(frames)), plan.low, plan.span, region)
    given = Above(*above.gather(under, chosen))
    refine = _refined(plan, level)
    shown = frames[0].shape[0], frames[0].shape[1]
    output = run_level(stack, given, device=device, threads=threads, weights=plan.weights, refine=refine, size=shown)
    return chosen, region, stack, given.behind > -EXCLUSION, output


def _decide_core(
    plan: Plan, source: FrameSource, above: LevelDecisions, level: int, core: Area, *, device: str, threads: int
) -> Tile:
    """Returns the decision of one core of a level between the plan and the finest."""
    chosen, region, _, _, output = _run_core(plan, source, above, level, core, device=device, threads=threads)
    wide = clip_area(widen(core), level_size(plan.decided_size, level))
    logits = output.logits[(slice(None), *within(wide, region))]
    logits = forbid_missing(logits, source, chosen, wide, level, plan.scale)
    quarter = tuple(slice(side.start // 4, -(-side.stop // 4)) for side in within(core, region))
    veil = output.veil[:, :, *quarter]
    return make_tile(core, chosen, logits, veil, within(core, wide), lonely_candidate=plan.settings.lonely_candidate)


def _fuse_core(
    plan: Plan,
    source: FrameSource,
    above: LevelDecisions,
    core: Area,
    *,
    curve: Curve | None,
    device: str,
    threads: int,
) -> Maps:
    """Returns the maps of one core at full scale."""
    size = plan.decided_size
    wide = clip_area(widen(core), size)
    if plan.level == 0:
        # Decided already, as a whole: what is around the core serves its evidence and the ends of its veil alone.
        region = grow(core, size, REFINER_MARGIN)
        inside = clip_area(region, size)
        chosen = above.competing(inside)
        behind, veil = above.gather(region, chosen)
        output = LevelOutput(behind, veil)
        frames = [source.read_reduced(index, inside) for index in chosen]
        stack = prepare_frames(frames, range(len(frames)), plan.low, plan.span, region)
        competing = behind[:, ::2, ::2] > -EXCLUSION
    else:
        chosen, region, stack, competing, output = _run_core(
            plan, source, above, 0, core, device=device, threads=threads
        )
    seen, seen_frames = within(wide, region), tuple(chosen)
    brightness = stack.mean(axis=1)
    details = [local_detail(own) for own in brightness]
    evidence = competing_evidence(details, competing, plan.noise)[seen]
    firmness = firmness_of(plan, brightness, details, output.logits, region, wide)
    chosen, logits = settle_core(plan, chosen, output.logits[(slice(None), *seen)], evidence, wide)
    lean = plan.lean / max(1, plan.frames - 1)
    logits = [own + np.float32(lean * index) for own, index in zip(logits, chosen, strict=True)]
    confidence = lead_of(logits) * evidence
    factor = np.float32(plan.decisiveness) * (1 + (firmness - 1) * evidence)
    logits = [factor * own for own in logits]
    full = at_full_scale(core, plan)
    trim = within(full, (slice(wide[0].start * plan.scale, None), slice(wide[1].start * plan.scale, None)))
    masks = [source.read_valid(index, full) for index in chosen]
    whole = all(mask is None or mask.all() for mask in masks)
    if whole:
        needed = [place for place, weight in enumerate(selection_weights(logits)) if bool(weight.any())]
        logits, chosen = [logits[place] for place in needed], [chosen[place] for place in needed]
    large = [enlarge(own, plan.scale)[trim] for own in logits]
    if not whole:
        large = [own if mask is None else np.where(mask, own, NEVER) for own, mask in zip(large, masks, strict=True)]
    weights = selection_weights(large)
    clear = functools.partial(_read_clear, plan, source, region, stack, output, seen_frames)
    veil = np.zeros_like(weights[0])
    areas = [weighty_area(weight) for weight in weights]

    def read(index: int, weight: NDArray[np.float32], area: Area) -> NDArray[np.float32]:
        frame, opacity = clear(index, beyond(area, full), weight[area])
        if opacity is not None:
            veil[area] += weight[area] * opacity
        return frame

    frames_read = (read(*own) for own in zip(chosen, weights, areas, strict=True))
    image = blend_frames(frames_read, weights, areas=areas, curve=curve)
    positions = np.asarray(chosen, np.float32) / max(1, plan.frames - 1)
    depth = functools.reduce(np.add, (own * place for own, place in zip(weights, positions, strict=True)))
    decision = np.asarray(chosen, np.int16)[largest_of(weights)]
    # Weights add up to one but for rounding.
    image = np.clip(image, 0, 1)
    return Maps(image, decision, np.asarray(depth, np.float32), enlarge(confidence, plan.scale)[trim], veil)


def _read_clear(
    plan: Plan,
    source: FrameSource,
    region: Area,
    stack: NDArray[np.float32],
    output: LevelOutput,
    chosen: Sequence[int],
    index: int,
    full: Area,
    weight: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Returns a part of a frame at full scale, where it has weight without its veil, and how opaque that was."""
    frame = source.read(index, full)
    if not plan.unveil or index not in chosen or not weight.size:
        return frame, None
    place, factor = list(chosen).index(index), 4 * plan.scale
    corner = slice(region[0].start * plan.scale, None), slice(region[1].start * plan.scale, None)
    inside = within(full, corner)
    # Two more on each side: what lies between two values of the veil follows from both, and how much of it is believed
    # from what is around it.
    rows, columns = (slice(max(0, side.start // factor - 2), -(-side.stop // factor) + 2) for side in inside)
    maps = output.veil[place, :, rows, columns]
    faintest, (height, width) = np.float32(plan.settings.faintest_opacity), maps.shape[1:]
    if not (maps[0] > faintest).any():
        return frame, None
    top, left = 4 * rows.start, 4 * columns.start
    seen = np.square(np.maximum(stack[place, :, top : top + 4 * height, left : left + 4 * width], 0))
    light = np.ascontiguousarray(seen.transpose(1, 2, 0))
    veil = read_veil(maps, light)
    centres = (
        np.arange(start.start + 4 * side.start + 2, start.start + 4 * side.start + 4 * count, 4)
        for start, side, count in zip(region, (rows, columns), (height, width), strict=True)
    )
    share = believable(veil, light, *plan.light_range_at(*centres))
    shown = within(inside, (slice(rows.start * factor, None), slice(columns.start * factor, None)))
    together = enlarge(np.dstack([veil.opacity, share, veil.light]), factor)[shown]
    found, share = Veil(together[..., 0], together[..., 2:]), together[..., 1]
    clear = unveil(frame, found, plan.low, plan.span, faintest_opacity=float(faintest), wanted=weight > 0, share=share)
    return clear, np.where(found.opacity > faintest, share * found.opacity, 0)


def at_full_scale(area: Area, plan: Plan) -> Area:
    """Returns an area of level 0 as an area of the picture."""
    rows, columns = (
        slice(side.start * plan.scale, min(side.stop * plan.scale, length))
        for side, length in zip(area, plan.size, strict=True)
    )
    return rows, columns


def _in_parallel(work: Callable[..., _Result], cores: Sequence[Area]) -> Iterator[tuple[Area, _Result]]:
    """Gives the result of each core in order; several are at work at once, on one thread each.

    In order, so that nothing depends on what finishes first; and only a few ahead, so that results do not pile up.
    """
    workers = min(processor_count(), len(cores), MOST_WORKERS)
    if workers <= 1:
        for core in cores:
            yield core, work(core, threads=processor_count())
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="allfocus-window")
    try:
        waiting: deque[tuple[Area, Future[_Result]]] = deque()
        for core in cores:
            waiting.append((core, pool.submit(work, core, threads=1)))
            if len(waiting) > workers:
                first, future = waiting.popleft()
                yield first, future.result()
        for first, future in waiting:
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
