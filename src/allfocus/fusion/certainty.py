"""How firmly a core decides: by its detail, by what the frames at issue share, and else by the plan."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.blending import evidence_of, sameness, selection_weights
from allfocus.fusion.decisions import EXCLUSION
from allfocus.fusion.frame_source import enlarge
from allfocus.fusion.planning import Plan
from allfocus.fusion.windows import Area, clip_area, widen, within


def competing_evidence(
    details: Sequence[NDArray[np.float32]], competing: NDArray[np.bool_], noise: float
) -> NDArray[np.float32]:
    """Returns what :func:`stack_evidence` does, of frames by their detail, where they compete (n, h / 2, w / 2)."""
    result = np.zeros(details[0].shape, np.float32)
    for detail, there in zip(details, competing, strict=True):
        large = there.repeat(2, axis=0).repeat(2, axis=1)
        np.maximum(result, np.where(large, evidence_of(detail, noise), 0), out=result)
    return result


def firmness_of(
    plan: Plan,
    brightness: NDArray[np.float32],
    details: Sequence[NDArray[np.float32]],
    logits: NDArray[np.float32],
    region: Area,
    wide: Area,
) -> NDArray[np.float32]:
    """Returns how many times the logits count where there is detail: more where the frames at issue show the same."""
    settings = plan.settings
    # As far beyond as the window of the comparison reaches.
    around = clip_area(widen(wide), plan.decided_size)
    seen = within(around, region)
    weights = selection_weights([np.float32(settings.sharpness) * own[seen] for own in logits])
    # What has no weight changes nothing, and most frames have none in most windows.
    mixed = [place for place, weight in enumerate(weights) if bool(weight.any())]
    shown, detail = ([maps[place][seen] for place in mixed] for maps in (brightness, details))
    alike = sameness(shown, detail, [weights[place] for place in mixed], settings.alike)[within(wide, around)]
    return np.asarray(settings.sharpness + (settings.alike_sharpness - settings.sharpness) * alike, np.float32)


def settle_core(
    plan: Plan, chosen: list[int], logits: NDArray[np.float32], evidence: NDArray[np.float32], wide: Area
) -> tuple[list[int], list[NDArray[np.float32]]]:
    """Returns frames and logits as detail decides, and where there is none, as the picture seen whole does.

    There the network has little to go by, and what it says would change from place to place for no reason: frames that
    differ in brightness by a trifle would show as blotches with an edge. The settled logits of the plan change slowly.
    """
    settled = _under(plan, wide)
    likely = np.exp(settled - settled.max(axis=0)).max(axis=(1, 2)) > 0.01
    everyone = [index for place, index in enumerate(plan.order) if index in chosen or likely[place]]
    highest = logits.max(axis=0)
    result = []
    for index in everyone:
        own = logits[chosen.index(index)] - highest if index in chosen else -EXCLUSION
        calm = settled[plan.order.index(index)]
        result.append(np.asarray(evidence * np.maximum(own, -EXCLUSION) + (1 - evidence) * calm, np.float32))
    return everyone, result


def _under(plan: Plan, wide: Area) -> NDArray[np.float32]:
    """Returns the settled logits of the plan (frames in order, h, w) in an area of level 0, between their values."""
    factor = 2**plan.level
    small = plan.settled.shape[1:]
    rows, columns = (
        slice(max(0, side.start // factor - 2), min(-(-side.stop // factor) + 2, length))
        for side, length in zip(wide, small, strict=True)
    )
    part = plan.settled[:, rows, columns].astype(np.float32)
    there = within(wide, (slice(rows.start * factor, None), slice(columns.start * factor, None)))
    return np.stack([enlarge(own, factor)[there] for own in part])
