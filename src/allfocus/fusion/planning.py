"""What must be known of a whole stack before a part of it can be fused: its range, its noise, its coarse decision."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.blending import settle_logits, stack_evidence
from allfocus.fusion.decisions import LevelDecisions, Tile, make_tile
from allfocus.fusion.frame_source import FrameSource
from allfocus.fusion.inference import Above, LevelOutput, run_level
from allfocus.fusion.network_frames import forbid_missing, prepare_frames
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.fusion.unveiling import light_range
from allfocus.fusion.windows import NOISE_ENERGY, Area, coarsest_level, halve_area, level_size, pad_to_steps, whole_area
from allfocus.images.spool import reduce_frame
from allfocus.machine import processor_count

PREFERENCE = 1.0
"""Logits by which `prefer` favours one end of the stack over the other: enough where the network is in two minds."""
DECISIVENESS = 8.0
"""Under a preference the logits count this many times, so that it chooses a frame where otherwise they would mix."""
HARD = 1e12
"""The same for a choice without any mixing, except between frames that are exactly as likely."""
LEAST_NOISE = 0.0015
"""Noise is taken to be this share of the range of values at the least: what rounding to 8 bits leaves."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a stack is fused: everything that must be known of the whole before a part of it can be fused."""

    size: tuple[int, int]
    """Height and width at full scale."""
    scale: int
    """By how much frames are reduced at level 0."""
    frames: int
    """How many there are."""
    order: tuple[int, ...]
    """All frames in the order in which they are summed, which follows from their pixels."""
    low: float
    """The value that the network sees as 0."""
    span: float
    """How far above it is what it sees as 1."""
    noise: float
    """Standard deviation of the noise at level 0, as the network sees values."""
    level: int
    """The finest level that is decided here, for the whole picture and all frames."""
    tile: Tile
    """The decision of that level."""
    settled: NDArray[np.float16]
    """(frames in order, h, w) of the same level: logits that hold where there is no detail to decide by."""
    least_light: NDArray[np.float32]
    """(h, w, 3) of the same level: the light around each pixel in the frame that has least of it there."""
    most_light: NDArray[np.float32]
    """The same of the frame that has most."""
    lean: float = 0.0
    """What is added to the logits from the first frame to the last."""
    decisiveness: float = 1.0
    """By what all logits are multiplied before they become weights."""
    unveil: bool = True
    """Whether veils are taken off."""
    weights: str | None = None
    """The ONNX file of the network; None for the shipped one."""
    settings: DecisionSettings = AS_CHOSEN
    """By which it was made, and the rest is decided."""

    @property
    def decided_size(self) -> tuple[int, int]:
        """Height and width of level 0."""
        return -(-self.size[0] // self.scale), -(-self.size[1] // self.scale)

    def light_range_at(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> tuple[NDArray[np.float32], ...]:
        """Returns the least and the most light around the pixels of level 0 in these rows and columns."""
        height, width = self.least_light.shape[:2]
        places = np.ix_(np.minimum(rows >> self.level, height - 1), np.minimum(columns >> self.level, width - 1))
        return self.least_light[places], self.most_light[places]


def plan_levels(decided: tuple[int, int], frames: int, settings: DecisionSettings = AS_CHOSEN) -> tuple[int, int]:
    """Returns the finest and the coarsest level that are decided as a whole, for frames of this size at level 0.

    Example:
        >>> plan_levels((1500, 2000), 10), plan_levels((600, 800), 8), plan_levels((600, 800), 9)
        ((2, 2), (0, 0), (1, 1))
    """
    most = settings.plan_pixels
    if frames * np.prod(decided) <= settings.whole_factor * most and max(decided) <= settings.largest_whole_side:
        return 0, 0
    coarsest = coarsest_level(decided, frames, most=most, longest=settings.largest_whole_side)
    finest = min(1, coarsest)
    while frames * np.prod(level_size(decided, finest)) > most and finest < coarsest:
        finest += 1
    return finest, coarsest


def plan_fusion(
    source: FrameSource,
    *,
    prefer: str | None = None,
    hard: bool = False,
    unveil: bool = True,
    weights: str | None = None,
    device: str = "cpu",
    settings: DecisionSettings = AS_CHOSEN,
) -> Plan:
    """Returns how a stack will be fused; looks at every frame once, at a reduced scale."""
    size = source.shape[0], source.shape[1]
    scale, frames = source.scale, len(source)
    lean = {None: 0.0, "near": -PREFERENCE, "far": PREFERENCE}[prefer]
    decisiveness = HARD if hard else DECISIVENESS if lean else 1.0
    decided = -(-size[0] // scale), -(-size[1] // scale)
    finest, coarsest = plan_levels(decided, frames, settings)
    small = [_read_whole(source, index, finest, decided) for index in range(frames)]
    order = _order_of_content(small)
    low, span = value_range(small)
    noise = max(estimate_noise(source.sharpness()) / span, LEAST_NOISE)
    decisions = LevelDecisions(order)
    output: LevelOutput | None = None
    for level in range(coarsest, finest - 1, -1):
        area = whole_area(level_size(decided, level))
        stack = prepare_frames(_reduce(small, level - finest), order, low, span)
        above = None
        if output is not None:
            above = Above(*decisions.gather(halve_area(pad_to_steps(area)), order))
        shown = level_size(decided, level)
        # What follows the last of them is done in windows, which take less.
        last = level == finest
        output = run_level(
            stack, above, device=device, threads=processor_count(), weights=weights, size=shown, release=last
        )
        logits = forbid_missing(_crop(output.logits, area), source, order, area, level, scale)
        tile = make_tile(area, order, logits, output.veil, lonely_candidate=settings.lonely_candidate)
        decisions = LevelDecisions(order, [tile])
    seen = [small[index] for index in order]
    evidence = stack_evidence(seen, span * noise / 2 ** (finest / 2))
    settled = np.stack(settle_logits(list(logits), evidence)).astype(np.float16)
    least, most = light_range(stack[:, :, : area[0].stop, : area[1].stop])
    # Where a frame lacks pixels, those filled in say nothing of a veil; and frames that are equal have none.
    differ = any(float(np.abs(frame - small[0]).max()) > LEAST_NOISE * span for frame in small[1:])
    masks = (source.read_valid(index, whole_area(size)) for index in range(frames))
    whole = all(mask is None or bool(mask.all()) for mask in masks)
    return Plan(
        size=size,
        scale=scale,
        frames=frames,
        order=tuple(order),
        low=low,
        span=span,
        noise=noise,
        level=finest,
        tile=decisions.tiles[0],
        settled=settled,
        least_light=least,
        most_light=most,
        lean=lean,
        decisiveness=decisiveness,
        unveil=unveil and differ and whole and not hard,
        weights=weights,
        settings=settings,
    )


def value_range(frames: Sequence[NDArray[np.float32]]) -> tuple[float, float]:
    """Returns the value that the network is to see as 0, and how far above it what it is to see as 1.

    From nearly the darkest to nearly the brightest of all frames, so that it does not matter in which range a stack is
    stored. Black is kept where it is near zero already, as in photos: light then stays light.
    """
    sample = np.concatenate([frame[::3, ::3].ravel() for frame in frames])
    dark, bright = (float(value) for value in np.quantile(sample, (0.001, 0.999)))
    low = dark * min(1.0, max(0.0, (dark / bright - 0.1) / 0.2)) if bright > 0 else dark
    return low, max(bright - low, 1e-6)


def estimate_noise(sharpness: NDArray[np.float32]) -> float:
    """Returns the standard deviation of the noise, from the blocks that have the least detail in any frame.

    Args:
        sharpness: (frames, rows, columns), from :func:`allfocus.fusion.windows.block_sharpness`.
    """
    return float(np.sqrt(np.quantile(sharpness.min(axis=0), 0.005) / NOISE_ENERGY))


def _read_whole(source: FrameSource, index: int, level: int, decided: tuple[int, int]) -> NDArray[np.float32]:
    return np.ascontiguousarray(source.read_reduced(index, whole_area(level_size(decided, level)), level))


def _crop(maps: NDArray[np.float32], area: Area) -> NDArray[np.float32]:
    return maps[..., : area[0].stop, : area[1].stop]


def _reduce(frames: Sequence[NDArray[np.float32]], levels: int) -> list[NDArray[np.float32]]:
    reduced = list(frames)
    for _ in range(levels):
        reduced = [reduce_frame(np.ascontiguousarray(frame), 2) for frame in reduced]
    return reduced


def _order_of_content(parts: Sequence[NDArray[np.float32]]) -> list[int]:
    """Returns an order of the frames that follows from their pixels.

    Sums of floating-point numbers depend on the order of the terms in the last digits, and a nearly even choice makes
    that visible; so that the order in which frames are given cannot matter at all, they are summed in this one.
    """
    keys = [zlib.crc32(part[::3, ::3].tobytes()) for part in parts]
    return sorted(range(len(parts)), key=lambda place: keys[place])
