"""A whole stack onto one grid: measure pairs of frames, solve for all of them, apply to one frame at a time.

Frames are read one by one, from the reference outwards; at most four of them, much reduced, are kept at a time, so
memory does not grow with the length of the stack. Each frame is measured against the two frames before it and against
the reference.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.brightness import LARGEST_GAIN, SMALLEST_GAIN, apply_gains, estimate_gains
from allfocus.alignment.estimation import PairEstimate, PreparedFrame, estimate_pair, prepare_frame
from allfocus.alignment.measurement_graph import Measurement, solve_gains, solve_positions
from allfocus.alignment.transforms import (
    MODELS,
    Matrix,
    corner_motion,
    largest_rectangle,
    mask_of_spans,
    motion_of,
    unit_square,
    valid_spans,
    warp_picture,
)
from allfocus.errors import InputError

ReadFrame = Callable[[int], NDArray[np.float32]]
"""Gives the pixels of a frame, (H, W, 3) or (H, W), float32 in 0..1, by its index from 0."""

STILL = 0.25
"""Pixels at the corner: motion below this, or below three times its own error, is taken for none."""

STILL_UNLESS_BETTER = 2.0
"""Pixels at the corner up to which motion must also raise the likeness of the frames by ``BETTER`` to be believed:
blur around near things can look like a small motion, and every warp costs a little sharpness."""

BETTER = 0.02

_INFLATION = 16.0
"""Neighbouring pixels are not independent, so errors are about four times what the equations say (measured)."""

_MODEL_SLACK = 1.0
"""Pixels at the corner by which pairs must ask for more than a similarity before a larger model is tried."""


@dataclass(frozen=True, eq=False)
class StackAlignment:
    """Where each frame of a stack lies, and how bright it is, relative to the reference frame."""

    transforms: tuple[Matrix, ...]
    """3 x 3 for each frame: point (x, y, 1) of the frame to the reference grid, pixel centres at whole numbers."""
    brightness: tuple[tuple[float, ...], ...]
    """For each frame a factor on the light of each channel; 1 where the frame is as bright as the reference."""
    confidences: tuple[float, ...]
    """0..1 for each frame: how well it agrees with the others after alignment; 0 for one that does not belong."""
    model: str
    """The model of motion used: a name of ``MODELS``."""
    reference: int
    """Index of the frame that stays as it is."""
    size: tuple[int, int]
    """Height and width of the frames."""
    registered: bool
    """True when no frame has moved by more than the measurement can tell; then all transforms are the identity."""
    warnings: tuple[str, ...] = ()
    """What the user should know, one sentence each; frames are counted from 1."""
    outliers: tuple[int, ...] = ()
    """Indices of the frames that do not show the scene of the others."""

    @property
    def kept(self) -> tuple[int, ...]:
        """Indices of the frames that belong to the stack."""
        return tuple(index for index in range(len(self.transforms)) if index not in self.outliers)

    def changes(self, index: int) -> bool:
        """Whether ``apply`` would change anything about this frame."""
        return any(gain != 1.0 for gain in self.brightness[index]) or not np.array_equal(
            self.transforms[index], np.eye(3)
        )

    def apply(self, index: int, frame: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The frame on the reference grid in the brightness of the reference, and where it has pixels.

        A frame that need not change comes back bit for bit. No value leaves the range of the source pixels around it
        (before the brightness is matched) or 0..1; outside the frame its border is repeated.

        Args:
            index: Which frame of the stack it is, from 0.
            frame: (H, W, 3) or (H, W), float32, 0..1.

        Returns:
            The frame, same shape, and a mask (H, W) that is True where it has pixels of its own.

        Raises:
            InputError: the frame has another size than the stack, or it does not belong to it.
        """
        if index in self.outliers:
            raise InputError(f"frame {index + 1} does not show the scene of the others; leave it out")
        if frame.shape[:2] != self.size:
            raise InputError(
                f"frame {index + 1} is {_size_text(frame.shape[:2])}, the stack {_size_text(self.size)}; "
                "apply the alignment to the frames it was made from"
            )
        transform, gains = self.transforms[index], self.brightness[index]
        moves = not np.array_equal(transform, np.eye(3))
        result = warp_picture(frame, transform) if moves else frame
        if any(gain != 1.0 for gain in gains):
            result = apply_gains(result, gains)
        inside = mask_of_spans(valid_spans(transform, self.size), self.size[1]) if moves else np.ones(self.size, bool)
        return result, inside

    def common_area(self) -> tuple[int, int, int, int]:
        """(top, left, bottom, right), ends excluded: the largest rectangle in which every frame has pixels."""
        return largest_rectangle([valid_spans(self.transforms[index], self.size) for index in self.kept])

    def to_json(self) -> dict[str, Any]:
        """Everything as numbers, texts and lists, ready for ``json.dumps``."""
        return {
            "model": self.model,
            "reference": self.reference,
            "size": list(self.size),
            "registered": self.registered,
            "transforms": [transform.tolist() for transform in self.transforms],
            "brightness": [list(gains) for gains in self.brightness],
            "confidences": list(self.confidences),
            "outliers": list(self.outliers),
            "warnings": list(self.warnings),
            "common_area": list(self.common_area()),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "StackAlignment":
        """The alignment that ``to_json`` described.

        Raises:
            InputError: something is missing or has the wrong form.
        """
        try:
            transforms = tuple(np.array(item, np.float64).reshape(3, 3) for item in content["transforms"])
            height, width = content["size"]
            result = cls(
                transforms=transforms,
                brightness=tuple(tuple(float(gain) for gain in gains) for gains in content["brightness"]),
                confidences=tuple(float(value) for value in content["confidences"]),
                model=str(content["model"]),
                reference=int(content["reference"]),
                size=(int(height), int(width)),
                registered=bool(content["registered"]),
                warnings=tuple(str(sentence) for sentence in content["warnings"]),
                outliers=tuple(int(index) for index in content["outliers"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is no alignment written by allfocus ({error}); align the frames again") from error
        if not len(result.transforms) == len(result.brightness) == len(result.confidences) > result.reference >= 0:
            raise InputError("the alignment has not one entry for each frame; align the frames again")
        return result


@dataclass(frozen=True, eq=False)
class AlignmentResult:
    """Aligned frames, and how they were aligned."""

    frames: list[NDArray[Any]]
    """On one grid, in the data type given; those that do not belong are left out (see ``alignment.kept``)."""
    alignment: StackAlignment
    """Where each frame given lay."""


def align(
    frames: Sequence[NDArray[Any]],
    *,
    model: str = "auto",
    reference: int | None = None,
    match_brightness: bool = True,
    crop: bool = True,
    skip_outliers: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> AlignmentResult:
    """The frames of a stack on one grid and in one brightness.

    A stack that is measured to be registered already comes back as it is.

    Args:
        frames: Two or more arrays, all (H, W, 3) or all (H, W): uint8, uint16, or float in 0..1.
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
    arrays = [np.asarray(frame) for frame in frames]

    def read(index: int) -> NDArray[np.float32]:
        return _as_float(arrays[index], index)

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
            whole = _as_type(alignment.apply(index, read(index))[0], arrays[index].dtype)
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
    their focus; a translation when growth and rotation stay below ``STILL`` pixels at the corners; an affine map or a
    homography only when the pairs ask for it by more than a pixel at the corners and agree better with it.

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
    walk = _walk_from_any(read, count, similar, reference, report)
    solution = _solve(walk, similar)
    if model == "auto":
        larger = _larger_model(walk)
        if larger is not None:
            other = _walk(read, count, larger, walk.reference, lambda done, total: None)
            answer = _solve(other, larger)
            better = _mean_likeness(other) > _mean_likeness(walk) + 0.01
            if better and max(answer.errors.values()) <= max(_MODEL_SLACK, *solution.errors.values()):
                walk, similar, solution = other, larger, answer
        elif solution.turning <= STILL:
            similar = "translation"
            solution = _solve(walk, similar)
    return _conclude(walk, solution, similar, match_brightness)


# --- measuring ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Walk:
    """What one pass over the frames has found."""

    reference: int
    count: int
    size: tuple[int, int] = (0, 0)
    channels: int = 1
    pairs: dict[tuple[int, int], PairEstimate] = field(default_factory=dict)
    """By (moving, fixed)."""
    gains: list[tuple[int, int, NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    positions: dict[int, Matrix] = field(default_factory=dict)
    """Of the frames that belong, chained; pixels."""
    agreements: dict[int, float] = field(default_factory=dict)
    """The best of each frame."""
    blanks: set[int] = field(default_factory=set)


def _walk_from_any(
    read: ReadFrame, count: int, model: str, reference: int | None, report: Callable[[int, int], None]
) -> _Walk:
    """The pass from the reference given, or from the frame nearest to the middle to which others belong."""
    if reference is not None:
        return _walk(read, count, model, reference, report)
    best: _Walk | None = None
    for candidate in sorted(range(count), key=lambda index: (abs(index - count // 2), index)):
        walk = _walk(read, count, model, candidate, report)
        if best is None or len(walk.positions) > len(best.positions):
            best = walk
        # Unless most frames are strangers to this one, it is no stranger itself.
        if 2 * len(best.positions) >= count and len(best.positions) > 1:
            break
        if abs(candidate - count // 2) >= 3:
            break
    assert best is not None
    return best


def _walk(read: ReadFrame, count: int, model: str, reference: int, report: Callable[[int, int], None]) -> _Walk:
    """One pass over the frames, from the reference to the end and from the reference to the beginning."""
    walk = _Walk(reference, count)
    middle = _prepare(read, reference, walk)
    walk.positions[reference] = np.eye(3)
    walk.agreements[reference] = 1.0
    done = 1
    report(done, count)
    for direction in (range(reference + 1, count), range(reference - 1, -1, -1)):
        before: list[tuple[int, PreparedFrame]] = [(reference, middle)]
        for index in direction:
            frame = _prepare(read, index, walk)
            if _measure(walk, index, frame, before, (reference, middle), model):
                before = [*before[-1:], (index, frame)]
            done += 1
            report(done, count)
    return walk


def _prepare(read: ReadFrame, index: int, walk: _Walk) -> PreparedFrame:
    frame = np.asarray(read(index))
    if not (frame.ndim == 2 or (frame.ndim == 3 and frame.shape[2] == 3)) or min(frame.shape[:2]) < 8:
        raise InputError(
            f"frame {index + 1} has shape {frame.shape}; expected (height, width) or (height, width, 3), 8 or more each"
        )
    if not np.isfinite(frame).all():
        raise InputError(f"frame {index + 1} holds values that are not finite; repair or leave out that frame")
    size, channels = (int(frame.shape[0]), int(frame.shape[1])), 1 if frame.ndim == 2 else 3
    if walk.size == (0, 0):
        walk.size, walk.channels = size, channels
    elif (size, channels) != (walk.size, walk.channels):
        raise InputError(
            f"frame {index + 1} is {_size_text(size)} with {channels} channels, frame {walk.reference + 1} "
            f"{_size_text(walk.size)} with {walk.channels}; all frames of a stack need the same size"
        )
    prepared = prepare_frame(frame.astype(np.float32, copy=False))
    if prepared.blank:
        walk.blanks.add(index)
    return prepared


def _measure(
    walk: _Walk,
    index: int,
    frame: PreparedFrame,
    before: Sequence[tuple[int, PreparedFrame]],
    reference: tuple[int, PreparedFrame],
    model: str,
) -> bool:
    """Whether the frame belongs; if so, its measurements are added to the walk."""
    others = list({number: (number, other) for number, other in [before[-1], *before, reference]}.values())
    walk.agreements[index] = 0.0
    begin: Matrix | None = None
    for number, other in others:
        guess = None if begin is None else np.linalg.inv(walk.positions[number]) @ begin
        pair = estimate_pair(frame, other, model=model, initial=guess)
        walk.agreements[index] = max(walk.agreements[index], pair.agreement)
        if not pair.belongs:
            continue
        walk.pairs[index, number] = pair
        if begin is None:
            begin = walk.positions[number] @ pair.transform
        across = np.linalg.inv(other.from_thumbnail) @ pair.transform @ frame.from_thumbnail
        gain = estimate_gains(frame.thumbnail, other.thumbnail, across)
        walk.gains.append((index, number, gain.gains, gain.errors))
    if begin is None:
        return False
    walk.positions[index] = begin / begin[2, 2]
    return True


# --- solving --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Solution:
    transforms: dict[int, Matrix]
    errors: dict[int, float]
    """Pixels at the corner."""
    disagreement: dict[int, float]
    """Of each frame's measurements with the common answer, pixels at the corner."""
    turning: float
    """Largest motion at a corner that is not a shift, pixels."""


def _solve(walk: _Walk, model: str) -> _Solution:
    """The position of each frame that belongs, from all measurements."""
    count = MODELS[model]
    to_unit = unit_square(walk.size)
    from_unit = np.linalg.inv(to_unit)
    measurements = []
    for (moving, fixed), pair in walk.pairs.items():
        transform = to_unit @ pair.transform @ from_unit
        # Frames that look alike are measured better than their equations say, those that do not are measured worse.
        information = pair.information[:count, :count] * (max(pair.likeness, 0.05) ** 2 / _INFLATION)
        information += np.eye(count) * 1e-3
        measurements.append(Measurement(moving, fixed, _within(transform, count), information))
    begin = {index: _within(to_unit @ position @ from_unit, count) for index, position in walk.positions.items()}
    units, errors, disagreements = solve_positions(measurements, begin, walk.reference, count)
    pixels = 1.0 / to_unit[0, 0]
    transforms, turning = {}, 0.0
    for index, unit in units.items():
        full = from_unit @ unit @ to_unit
        transforms[index] = np.eye(3) if index == walk.reference else full / full[2, 2]
        middle = (unit @ np.array([0.0, 0.0, 1.0]))[:2] / unit[2, 2]
        turning = max(turning, corner_motion(from_unit @ motion_of(-middle) @ unit @ to_unit, walk.size))
    gathered: dict[int, list[float]] = {index: [] for index in units}
    for measurement, amount in zip(measurements, disagreements, strict=True):
        gathered[measurement.moving].append(amount * pixels)
    disagreement = {index: float(np.median(values)) if values else 0.0 for index, values in gathered.items()}
    return _Solution(transforms, {i: e * pixels for i, e in errors.items()}, disagreement, turning)


def _within(unit: Matrix, count: int) -> Matrix:
    """The part of a transform that the first generators make up: for a translation, the shift of the middle."""
    if count == MODELS["translation"]:
        return motion_of((unit @ np.array([0.0, 0.0, 1.0]))[:2] / unit[2, 2])
    return np.asarray(unit / unit[2, 2], np.float64)


def _larger_model(walk: _Walk) -> str | None:
    """The model that the pairs ask for beyond a similarity, or None."""
    pixels = 1.0 / unit_square(walk.size)[0, 0]
    if not walk.pairs:
        return None
    slack = np.array([np.abs(pair.slack[4:]) for pair in walk.pairs.values()]) * pixels
    shear, tilt = float(np.median(slack[:, :2].max(axis=1))), float(np.median(slack[:, 2:].max(axis=1)))
    if max(shear, tilt) < _MODEL_SLACK:
        return None
    return "homography" if tilt >= _MODEL_SLACK else "affine"


def _mean_likeness(walk: _Walk) -> float:
    return float(np.mean([pair.likeness for pair in walk.pairs.values()])) if walk.pairs else 0.0


def _conclude(walk: _Walk, solution: _Solution, model: str, match_brightness: bool) -> StackAlignment:
    """The alignment, with what need not change left exactly as it is."""
    indices = range(walk.count)
    outliers = tuple(index for index in indices if index not in walk.positions)
    registered = _is_registered(walk, solution)
    still = np.eye(3)
    transforms = tuple(still.copy() if registered else solution.transforms.get(i, still.copy()) for i in indices)
    confidences = tuple(_confidence(walk, solution, index) for index in indices)
    return StackAlignment(
        transforms=transforms,
        brightness=tuple(_brightness(walk, match_brightness)),
        confidences=confidences,
        model=model,
        reference=walk.reference,
        size=walk.size,
        registered=registered,
        warnings=tuple(_warnings(walk, confidences, outliers)),
        outliers=outliers,
    )


def _is_registered(walk: _Walk, solution: _Solution) -> bool:
    """Whether the frames lie on one grid as they are, as far as the measurement can tell.

    That is so when no frame moves by more than ``STILL`` pixels at a corner or three times its error, up to
    ``STILL_UNLESS_BETTER`` pixels; or when moving them does not make them more alike by ``BETTER`` and none moves by
    more than that limit or three times its error.
    """
    motion = {index: corner_motion(matrix, walk.size) for index, matrix in solution.transforms.items()}
    doubt = {index: 3 * solution.errors[index] for index in motion}
    if all(amount <= np.clip(doubt[index], STILL, STILL_UNLESS_BETTER) for index, amount in motion.items()):
        return True
    rises = [pair.likeness - pair.likeness_unmoved for pair in walk.pairs.values()]
    small = all(amount <= max(STILL_UNLESS_BETTER, doubt[index]) for index, amount in motion.items())
    return small and float(np.mean(rises)) < BETTER


def _confidence(walk: _Walk, solution: _Solution, index: int) -> float:
    """0..1: correlation with the other frames, less for measurements that contradict each other or leave much open.

    Half is lost at 3 pixels of contradiction and at 3 pixels of error at the corners.
    """
    if index not in walk.positions:
        return 0.0
    doubt = (solution.disagreement[index] / 3.0) ** 2 + (solution.errors[index] / 3.0) ** 2
    return float(np.clip(walk.agreements[index], 0.0, 1.0)) / (1.0 + doubt)


def _brightness(walk: _Walk, wanted: bool) -> Iterator[tuple[float, ...]]:
    """Factors of each frame; exactly 1 where the difference is small or not certain."""
    frames = sorted(walk.positions)
    gains, errors = solve_gains(walk.gains, frames, walk.reference, walk.channels)
    for index in range(walk.count):
        if not wanted or index not in gains:
            yield (1.0,) * walk.channels
            continue
        amount = np.abs(np.log(gains[index]))
        significant = (
            bool(np.any(amount > np.maximum(SMALLEST_GAIN, 3 * errors[index]))) and amount.max() < LARGEST_GAIN
        )
        yield tuple(float(gain) for gain in gains[index]) if significant else (1.0,) * walk.channels


def _warnings(walk: _Walk, confidences: Sequence[float], outliers: Sequence[int]) -> Iterator[str]:
    for index in outliers:
        if index in walk.blanks:
            yield f"frame {index + 1} is blank: there is nothing in it to align; leave it out"
        else:
            yield (
                f"frame {index + 1} does not show the scene of frame {walk.reference + 1} "
                f"(agreement {walk.agreements.get(index, 0.0):.2f}); leave it out"
            )
    for index, confidence in enumerate(confidences):
        if index not in outliers and confidence < 0.4:
            yield f"frame {index + 1} is aligned with low confidence ({confidence:.2f}); look at it before you use it"


# --- checks and conversions -----------------------------------------------------------------------------------------


def _check_request(count: int, model: str, reference: int | None) -> None:
    if count < 2:
        raise InputError(f"alignment needs at least 2 frames, got {count}; give every picture of the stack")
    if model != "auto" and model not in MODELS:
        raise InputError(f"there is no model {model!r}; choose one of auto, {', '.join(MODELS)}")
    if reference is not None and not 0 <= reference < count:
        raise InputError(f"the reference is frame {reference + 1}, but the stack has frames 1 to {count}")


def _as_float(array: NDArray[Any], index: int) -> NDArray[np.float32]:
    if array.dtype in (np.uint8, np.uint16):
        return array.astype(np.float32) / np.float32(np.iinfo(array.dtype).max)
    if array.dtype.kind != "f":
        raise InputError(f"frame {index + 1} holds {array.dtype}; give uint8, uint16 or floating point in 0..1")
    return array.astype(np.float32, copy=False)


def _as_type(frame: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "f":
        return frame.astype(dtype, copy=False)
    most = np.iinfo(dtype).max
    rounded: NDArray[Any] = np.rint(np.clip(frame, 0, 1) * np.float32(most)).astype(dtype)
    return rounded


def _size_text(size: tuple[int, ...]) -> str:
    return f"{size[1]}x{size[0]}"
