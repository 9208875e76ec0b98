"""A whole stack onto one grid: measure pairs of frames, solve for all of them, apply to one frame at a time.

Pairs are measured in ``stack_walk``; here all of them are solved together, the model is chosen, and what need not move
is left alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.measurement_graph import Measurement, solve_positions
from allfocus.alignment.stack_geometry import StackAlignment, size_text
from allfocus.alignment.stack_light import dim_frames, even_out, tell_light
from allfocus.alignment.stack_walk import ReadFrame, Walk, read_checked, walk_frames, walk_from_any
from allfocus.alignment.transforms import MODELS, Matrix, corner_motion, motion_of, unit_square
from allfocus.errors import InputError
from allfocus.images.image import ImageStack
from allfocus.images.value_range import plain_arrays, range_of_arrays
from allfocus.progress import Notice

__all__ = ["AlignmentResult", "ReadFrame", "StackAlignment", "align", "estimate_stack"]

SMALLEST_SIDE = 64
"""Pixels: smaller frames are left where they are. Cut from registered pairs of scenes, 14 of 24 pairs of 48 x 48 pixels
were moved by more than a pixel, 7 of 64 x 64, none of 96 x 96."""

STILL = 0.25
"""Pixels at the corner: motion below this, or below three times its own error, is taken for none."""

STILL_UNLESS_BETTER = 2.0
"""Pixels at the corner up to which motion must also raise the likeness of the frames by ``BETTER`` to be believed:
blur around near things can look like a small motion, and every warp costs a little sharpness."""

BETTER = 0.02

DOUBTFUL, HOPELESS = 0.4, 0.1
"""Confidence below which the user is asked to look at a frame, and below which its measurement is not used at all."""

MOST_HOPELESS = 0.4
"""Share of such frames from which on nothing that was measured of the others is believed either."""

_MODEL_SLACK = 1.0
"""Pixels at the corner by which pairs must ask for more than a similarity before a larger model is tried."""


@dataclass(frozen=True, eq=False)
class AlignmentResult:
    """Aligned frames, and how they were aligned."""

    frames: list[NDArray[Any]]
    """On one grid, in the data type given; those that do not belong are left out (see ``alignment.kept``)."""
    alignment: StackAlignment
    """Where each frame given lay."""


def align(
    frames: Sequence[NDArray[Any]] | ImageStack,
    *,
    model: str = "auto",
    reference: int | None = None,
    match_brightness: bool = True,
    crop: bool = True,
    skip_outliers: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> AlignmentResult:
    """The frames of a stack on one grid and in one brightness.

    A stack that is measured to be registered already comes back as it is, and so does one of frames that are too small
    (below 64 pixels) or too empty to tell.

    Args:
        frames: Two or more arrays of one type, all (H, W, 3) or all (H, W), of the types and ranges that
            ``allfocus.fuse`` takes; or what ``allfocus.read_stack`` gave, whose alpha is not looked at.
        model: "translation", "similarity" (shift, rotation and focus breathing), "affine", "homography", or "auto".
        reference: Index of the frame that stays as it is; None takes the middle one.
        match_brightness: Also bring all frames to the brightness and white balance of the reference.
        crop: Cut all frames to the largest rectangle in which every frame has pixels. Otherwise they keep their size,
            and their border pixels are repeated outward.
        skip_outliers: Leave out frames that do not belong instead of raising an error.
        progress: Called with (frames measured, frames in all).

    Raises:
        InputError: fewer than two frames, frames that differ in shape, an unknown model, or a frame that does not
            show the scene of the others (unless ``skip_outliers``).

    Example:
        >>> from allfocus.scenes.rendering import render_scene
        >>> scene = render_scene("slope", frames=3, size=(120, 160), shake=2.0)
        >>> result = align(scene.frames)
        >>> result.alignment.registered, result.alignment.reference, len(result.frames)
        (False, 1, 3)
    """
    arrays = list(frames.frames) if isinstance(frames, ImageStack) else plain_arrays(frames)

    _check_request(len(arrays), model, reference)
    values = range_of_arrays(arrays)

    def read(index: int) -> NDArray[np.float32]:
        return values.to_unit(arrays[index])

    alignment = estimate_stack(
        read,
        len(arrays),
        model=model,
        reference=reference,
        match_brightness=match_brightness,
        progress=progress,
    )
    if alignment.outliers and not skip_outliers:
        raise InputError("; ".join(alignment.warnings))
    if len(alignment.kept) < 2:
        raise InputError("no two frames show the same scene; check that they belong to one stack")
    top, left, bottom, right = alignment.common_area() if crop else (0, 0, *alignment.size)
    if bottom - top < 1 or right - left < 1:
        raise InputError("the frames have no area in common; give frames that overlap or keep their size")
    moved = []
    for index in alignment.kept:
        if alignment.changes(index):
            whole = values.from_unit(alignment.apply(index, read(index))[0], arrays[index].dtype)
        else:
            whole = arrays[index]
        moved.append(whole[top:bottom, left:right])
    return AlignmentResult(moved, alignment)


def estimate_stack(
    read: ReadFrame,
    count: int,
    *,
    model: str = "auto",
    reference: int | None = None,
    match_brightness: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> StackAlignment:
    """Where each frame of a stack lies and how bright it is, relative to one of them.

    Frames are asked for one at a time and not kept. "auto" takes a similarity, because lenses change their scale with
    their focus; a translation when growth and rotation stay below ``STILL`` pixels at the corners or are not certain;
    an affine map or a homography only when the pairs ask for it by more than a pixel at the corners and agree better
    with it.

    Args:
        read: Gives a frame by its index.
        count: Number of frames.
        model: "auto" or a name of ``MODELS``.
        reference: Index of the frame that stays as it is; None takes the middle one, or the next if that one does not
            belong.
        match_brightness: Also measure brightness and white balance.
        progress: Called with (frames measured, frames in all).

    Raises:
        InputError: fewer than two frames, frames that differ in shape, an unknown model or reference.
    """
    _check_request(count, model, reference)
    report = progress or (lambda done, total: None)
    similar = "similarity" if model == "auto" else model
    start = count // 2 if reference is None else reference
    held = {start: np.asarray(read(start))}

    def read_once(index: int) -> NDArray[np.float32]:
        return held.pop(index) if index in held else read(index)

    if min(held[start].shape[:2], default=0) < SMALLEST_SIDE:
        return _leave_small(read_once, count, start)
    walk = walk_from_any(read_once, count, similar, reference, report)
    if len(walk.blanks) == count:
        blank = Notice("all frames are blank, so there is nothing to align; they were taken as they lie")
        return _leave_in_place(walk, blank)
    solution = _solve(walk, similar)
    if model == "auto":
        larger = _larger_model(walk)
        if larger is not None:
            other = walk_frames(read, count, larger, walk.reference, lambda done, total: None)
            answer = _solve(other, larger)
            better = _mean_likeness(other) > _mean_likeness(walk) + 0.01
            if better and max(answer.errors.values()) <= max(_MODEL_SLACK, *solution.errors.values()):
                walk, similar, solution = other, larger, answer
        elif solution.turning <= STILL:
            similar = "translation"
            solution = _solve(walk, similar)
    return _conclude(walk, solution, similar, even_out(walk, match_brightness, free=reference is None))


# --- solving --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Solution:
    """The position of each frame that belongs, as all measurements together have it."""

    transforms: dict[int, Matrix]
    errors: dict[int, float]
    """Pixels at the corner."""
    disagreement: dict[int, float]
    """Of each frame's measurements with the common answer, pixels at the corner."""
    turning: float
    """Largest motion at a corner that is not a shift and is certain: beyond three times its error, or beyond
    ``STILL_UNLESS_BETTER``; pixels."""


def _solve(walk: Walk, model: str) -> Solution:
    """The position of each frame that belongs, from all measurements."""
    count = MODELS[model]
    to_unit = unit_square(walk.size)
    from_unit = np.linalg.inv(to_unit)
    measurements = []
    for (moving, fixed), pair in walk.pairs.items():
        transform = to_unit @ pair.transform @ from_unit
        information = pair.information[:count, :count] + np.eye(count) * 1e-3
        measurements.append(Measurement(moving, fixed, _within(transform, count), information))
    begin = {index: _within(to_unit @ position @ from_unit, count) for index, position in walk.positions.items()}
    units, errors, disagreements = solve_positions(measurements, begin, walk.reference, count)
    pixels = 1.0 / to_unit[0, 0]
    transforms, turning = {}, 0.0
    for index, unit in units.items():
        full = from_unit @ unit @ to_unit
        transforms[index] = np.eye(3) if index == walk.reference else full / full[2, 2]
        middle = (unit @ np.array([0.0, 0.0, 1.0]))[:2] / unit[2, 2]
        turned = corner_motion(from_unit @ motion_of(-middle) @ unit @ to_unit, walk.size)
        # Growth is what blur is most easily taken for: where it is not certain, the shift alone is nearer to the truth.
        if turned > min(3 * errors[index] * pixels, STILL_UNLESS_BETTER):
            turning = max(turning, turned)
    gathered: dict[int, list[float]] = {index: [] for index in units}
    for measurement, amount in zip(measurements, disagreements, strict=True):
        gathered[measurement.moving].append(amount * pixels)
    disagreement = {index: float(np.median(values)) if values else 0.0 for index, values in gathered.items()}
    return Solution(transforms, {i: e * pixels for i, e in errors.items()}, disagreement, turning)


def _within(unit: Matrix, count: int) -> Matrix:
    """The part of a transform that the first generators make up: for a translation, the shift of the middle."""
    if count == MODELS["translation"]:
        return motion_of((unit @ np.array([0.0, 0.0, 1.0]))[:2] / unit[2, 2])
    return np.asarray(unit / unit[2, 2], np.float64)


def _larger_model(walk: Walk) -> str | None:
    """The model that the pairs ask for beyond a similarity, or None."""
    pixels = 1.0 / unit_square(walk.size)[0, 0]
    if not walk.pairs:
        return None
    # Only what is certain counts: where all detail is in the middle, the corners may seem to do anything.
    certain = [
        np.maximum(np.abs(pair.slack) - 3 * np.sqrt(np.diag(np.linalg.pinv(pair.information))), 0.0)[4:]
        for pair in walk.pairs.values()
    ]
    slack = np.array(certain) * pixels
    shear, tilt = float(np.median(slack[:, :2].max(axis=1))), float(np.median(slack[:, 2:].max(axis=1)))
    if max(shear, tilt) < _MODEL_SLACK:
        return None
    return "homography" if tilt >= _MODEL_SLACK else "affine"


def _mean_likeness(walk: Walk) -> float:
    values = [pair.likeness for pair in walk.pairs.values() if pair.likeness is not None]
    return float(np.mean(values)) if values else 0.0


def _conclude(walk: Walk, solution: Solution, model: str, brightness: tuple[tuple[float, ...], ...]) -> StackAlignment:
    """The alignment, with what need not change left exactly as it is."""
    indices = range(walk.count)
    outliers = tuple(index for index in indices if index not in walk.positions)
    registered = is_registered(walk, solution)
    confidences = tuple(_confidence(walk, solution, index) for index in indices)
    still = np.eye(3)
    transforms = [still.copy() if registered else solution.transforms.get(i, still.copy()) for i in indices]
    hopeless = [index for index in indices if index not in outliers and confidences[index] < HOPELESS]
    if not registered and len(hopeless) > MOST_HOPELESS * len(walk.positions):
        little = Notice("there is too little in the frames to align them by; they were taken as they lie")
        return _leave_in_place(walk, little)
    if hopeless and not registered:
        _lay_between(transforms, hopeless, [index for index in indices if confidences[index] >= DOUBTFUL])
        registered = all(np.array_equal(transform, still) for transform in transforms)
    return StackAlignment(
        transforms=tuple(transforms),
        brightness=brightness,
        confidences=confidences,
        model=model,
        reference=walk.reference,
        size=walk.size,
        registered=registered,
        warnings=(*_warnings(walk, confidences, outliers), *tell_light(brightness)),
        outliers=outliers,
        blanks=tuple(index for index in outliers if index in walk.blanks),
        dim=dim_frames(walk),
    )


def _lay_between(transforms: list[Matrix], hopeless: Sequence[int], sure: Sequence[int]) -> None:
    """Lays frames that cannot be aligned where their neighbours in the stack lie that can be, in place.

    What was measured of them is chance, and would move them anywhere.
    """
    for index in hopeless:
        below = max((other for other in sure if other < index), default=None)
        above = min((other for other in sure if other > index), default=None)
        if below is not None and above is not None:
            share = (index - below) / (above - below)
            transforms[index] = (1 - share) * transforms[below] + share * transforms[above]
        elif below is not None or above is not None:
            nearest = below if above is None else above
            assert nearest is not None
            transforms[index] = transforms[nearest].copy()
        else:
            transforms[index] = np.eye(3)


def is_registered(walk: Walk, solution: Solution) -> bool:
    """Whether the frames lie on one grid as they are, as far as the measurement can tell.

    That is so when no frame moves by more than ``STILL`` pixels at a corner or three times its error, up to
    ``STILL_UNLESS_BETTER`` pixels; or when moving them makes no pair of them more alike by ``BETTER`` and none moves
    by more than that limit or three times its error.
    """
    motion = {index: corner_motion(matrix, walk.size) for index, matrix in solution.transforms.items()}
    doubt = {index: 3 * solution.errors[index] for index in motion}
    if all(amount <= np.clip(doubt[index], STILL, STILL_UNLESS_BETTER) for index, amount in motion.items()):
        return True
    rises = [
        pair.likeness - pair.likeness_unmoved
        for pair in walk.pairs.values()
        if pair.likeness is not None and pair.likeness_unmoved is not None
    ]
    small = all(amount <= max(STILL_UNLESS_BETTER, doubt[index]) for index, amount in motion.items())
    return small and max(rises, default=0.0) < BETTER


def _confidence(walk: Walk, solution: Solution, index: int) -> float:
    """0..1: correlation with the other frames, less for measurements that contradict each other or leave much open.

    Half is lost at 3 pixels of contradiction and at 3 pixels of error at the corners.
    """
    if index not in walk.positions:
        return 0.0
    doubt = (solution.disagreement[index] / 3.0) ** 2 + (solution.errors[index] / 3.0) ** 2
    return float(np.clip(walk.agreements[index], 0.0, 1.0)) / (1.0 + doubt)


def _leave_small(read: ReadFrame, count: int, reference: int) -> StackAlignment:
    walk = Walk(reference, count)
    for index in (reference, *(other for other in range(count) if other != reference)):
        read_checked(read, index, walk)
    size = size_text(walk.size)
    return _leave_in_place(
        walk, Notice(f"frames of {size} pixels are too small to be aligned; they were taken as they lie")
    )


def _leave_in_place(walk: Walk, reason: str) -> StackAlignment:
    return StackAlignment(
        transforms=tuple(np.eye(3) for _ in range(walk.count)),
        brightness=((1.0,) * walk.channels,) * walk.count,
        confidences=(0.0,) * walk.count,
        model="translation",
        reference=walk.reference,
        size=walk.size,
        registered=True,
        warnings=(reason,),
        measured=False,
    )


def _warnings(walk: Walk, confidences: Sequence[float], outliers: Sequence[int]) -> Iterator[str]:
    for index in outliers:
        if index in walk.blanks:
            yield Notice(f"frame {index + 1} is blank: there is nothing in it to align; leave it out")
        else:
            yield Notice(
                f"frame {index + 1} does not show the scene of frame {walk.reference + 1} "
                f"(agreement {walk.agreements.get(index, 0.0):.2f}); leave it out"
            )
    for index, confidence in enumerate(confidences):
        if index in outliers or confidence >= DOUBTFUL:
            continue
        if confidence < HOPELESS:
            yield Notice(f"frame {index + 1} cannot be aligned; it is laid where its neighbours lie")
        else:
            yield Notice(
                f"frame {index + 1} is aligned with low confidence ({confidence:.2f}); look at it before you use it"
            )


# --- checks and conversions -----------------------------------------------------------------------------------------


def _check_request(count: int, model: str, reference: int | None) -> None:
    if count < 2:
        raise InputError(f"alignment needs at least 2 frames, got {count}; give every picture of the stack")
    if model != "auto" and model not in MODELS:
        raise InputError(f"there is no model {model!r}; choose one of auto, {', '.join(MODELS)}")
    if reference is not None and not 0 <= reference < count:
        raise InputError(f"the reference is frame {reference + 1}, but the stack has frames 1 to {count}")
