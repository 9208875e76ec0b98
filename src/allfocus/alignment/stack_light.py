"""The light of the frames of a stack: which differ from the others, by how much, and what is done about it."""

from collections.abc import Iterator, Sequence

import numpy as np

from allfocus.alignment.measurement_graph import solve_gains
from allfocus.alignment.stack_walk import Walk
from allfocus.progress import Notice

SMALLEST_GAIN = 0.006
"""Differences in brightness below 0.6 % of the light, at most one step of 8 bits, are left alone."""
DRIFT, SURE = 0.5, 10.0
"""Logarithm of the light: up to such a difference (65 %) exposure may drift from frame to frame. A larger one, a flash
that misfired, must be so many times its error: planes of a microscope differ too, but not everywhere alike."""
ODD = 0.12
"""Logarithm of the light by which the reference may differ from most frames; one further off is the odd one itself."""
CLIPPED_TINT = 0.25
"""Logarithm of the light by which the channels of an overexposed frame may differ because some of it is burnt out."""
DIMMEST = 1 / 12
"""Of the light that the others have in their brightest parts: a frame with less shows next to nothing."""
TOLD = 0.3
"""Logarithm of the light from which on the user is told that a frame was made as bright as the others."""


def even_out(walk: Walk, wanted: bool, *, free: bool) -> tuple[tuple[float, ...], ...]:
    """Factors on the light of each frame; exactly 1 where the difference is small or not certain.

    Args:
        walk: What was measured.
        wanted: Whether frames are to be made alike at all.
        free: Whether another frame than the reference may be the one that the others are made like, if that is odd.
    """
    frames = sorted(walk.positions)
    gains, errors = solve_gains(walk.gains, frames, walk.reference, walk.channels)
    amounts = {index: np.log(gains[index]) for index in frames}
    middle = np.median([amounts[index] for index in frames], axis=0)
    if free and len(frames) > 2 and float(np.abs(middle).max()) > ODD:
        usual = min(frames, key=lambda index: (float(np.abs(amounts[index] - middle).sum()), index))
        amounts = {index: amounts[index] - amounts[usual] for index in frames}
        errors = {index: np.hypot(errors[index], errors[usual]) for index in frames}
    same = (1.0,) * walk.channels

    def factors(index: int) -> tuple[float, ...]:
        if not wanted or index not in amounts:
            return same
        amount, error = amounts[index], errors[index]
        size = np.abs(amount)
        certain = bool(np.any(size > np.maximum(SMALLEST_GAIN, 3 * error)))
        large = size.max() > DRIFT
        if not certain or (large and bool(np.any(error * SURE > size.max()))):
            return same
        if large and amount.max() < 0 and float(np.ptp(amount)) < CLIPPED_TINT:
            # Of an overexposed frame the channels that are burnt out here and there seem darker than they are.
            amount = np.full_like(amount, np.median(amount))
        return tuple(float(gain) for gain in np.exp(amount))

    return tuple(factors(index) for index in range(walk.count))


def dim_frames(walk: Walk) -> tuple[int, ...]:
    """The frames that are all but black beside the others."""
    usual = float(np.median(list(walk.lights.values())))
    return tuple(index for index in range(walk.count) if walk.lights[index] < DIMMEST * usual)


def tell_light(brightness: Sequence[tuple[float, ...]]) -> Iterator[str]:
    """What the user is told of frames that were made far brighter or darker."""
    changed = {
        index: float(np.mean(gains))
        for index, gains in enumerate(brightness, start=1)
        if float(np.abs(np.log(gains)).max()) > TOLD
    }
    if changed:
        named = [f"{index} ({factor:.1f})" for index, factor in list(changed.items())[:4]]
        listed = ", ".join(named) + (" ..." if len(changed) > 4 else "")
        yield Notice(f"the light of frames that are far darker or brighter is made like that of the others: {listed}")
