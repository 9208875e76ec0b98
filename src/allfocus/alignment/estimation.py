"""The motion between two frames of a focus stack, coarse to fine, from what both of them show.

Two frames that are focused at different distances differ most where they carry most detail, so their values cannot be
compared as they are. Each frame is taken apart into octaves; within an octave a blur with a symmetric kernel weakens
the detail but leaves it in place, so each octave is divided by its own local strength. What is left (the local phase)
is matched by Gauss-Newton steps with the mean of both gradients (Malis 2004, "efficient second-order minimization").
Every pixel counts by its local correlation with the other frame: where one frame is blurred beyond recognition, or
shows something else, it has no say, and a coarser octave speaks for that place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.brightness import to_light
from allfocus.alignment.transforms import (
    MODELS,
    Matrix,
    corner_motion,
    mask_of_spans,
    motion_of,
    unit_square,
    valid_spans,
)

Plane = NDArray[np.float32]

WORKING_PIXELS = 1_000_000
"""Frames are reduced to about this many pixels for the estimation. Twice as many helped little
(median error at 3000 x 2000: desk 0.08 instead of 0.10, insect the same, flat worse)."""

SMALLEST_SIDE = 24
"""Pixels of the shorter side of the coarsest octave; below that nothing is left to match."""

OCTAVES_AT_ONCE = 8
"""Octaves that share each step: the finest gives precision, the coarser ones hold where it has no content."""

THUMBNAIL_SIDE = 160
"""Pixels of the longer side of what brightness is compared on."""

_SEARCH_PIXELS = 128 * 128
_SAMPLES = 100_000
_WINDOW = (11, 11)
_RESIDUAL_SCALE = 0.5

BELONGS = 0.3
"""Agreement from which two frames show the same scene. Measured: unrelated pairs stay below 0.2 (the search for the
best match included), neighbours of real and rendered stacks are above 0.5."""


@dataclass(frozen=True, eq=False)
class PreparedFrame:
    """A frame in the form in which it is compared: octaves of local phase, and a thumbnail for its brightness."""

    octaves: tuple[Plane, ...]
    """(H, W) each, finest first and each half the size of the one before, about -2..2, 0 where there is no content."""

    scale: float
    """Pixels of the finest octave per pixel of the frame, at most 1."""

    size: tuple[int, int]
    """Height and width of the frame."""

    from_thumbnail: Matrix
    """Pixels of the thumbnail to pixels of the frame."""

    thumbnail: Plane
    """(h, w) or (h, w, 3), the frame reduced to at most ``THUMBNAIL_SIDE`` pixels a side, in linear light."""

    blank: bool
    """True when the frame has nothing to match: one even tone, or noise below the step of its file."""


@dataclass(frozen=True, eq=False)
class PairEstimate:
    """How one frame lies on another."""

    transform: Matrix
    """Point of the moving frame to point of the fixed one, in pixels of the full frames."""

    information: NDArray[np.float64]
    """(8, 8): how firmly the pixels hold each generator, in ``unit_square`` coordinates; an inverse covariance."""

    slack: NDArray[np.float64]
    """(8,): the further step that the pixels would take if all eight generators were allowed."""

    agreement: float
    """-1..1, correlation of what both frames show after the motion; see ``BELONGS``."""

    likeness: float
    """0..1, mean correlation of the three finest octaves: near 1 for frames that are sharp in the same places."""

    likeness_unmoved: float
    """The same with both frames left as they are: what the motion has to beat."""

    @property
    def belongs(self) -> bool:
        """Whether both frames show the same scene."""
        return self.agreement >= BELONGS


def prepare_frame(frame: NDArray[np.float32], *, working_pixels: int = WORKING_PIXELS) -> PreparedFrame:
    """The octaves of a frame, in which it can be compared with frames of another focus.

    Values are taken to carry the sRGB curve, as those of nearly all photographs do, and are turned into light first: a
    lens blurs light, and on the curve the middle of a blurred edge is not where the edge is (measured: up to half a
    pixel of error between neighbours).

    Args:
        frame: (H, W, 3) or (H, W), 0..1; values in a small part of that range are as good.
        working_pixels: Reduce the frame to about this many pixels first.
    """
    height, width = frame.shape[:2]
    scale = min(1.0, float(np.sqrt(working_pixels / (height * width))))
    small = frame if scale == 1.0 else cv2.resize(frame, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    small = np.asarray(small, np.float32)
    shrink = min(1.0, THUMBNAIL_SIDE / (scale * max(height, width)))
    noise = _noise(_grey(small))
    light, slope = to_light(small)
    thumbnail = np.asarray(cv2.resize(light, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA), np.float32)
    grey, uncertain = _grey(light), _grey(slope) * np.float32(noise)
    low, high = (float(value) for value in np.percentile(grey[::2, ::2], [0.5, 99.5]))
    blank = not high - low > 1e-6 or high - low < 3 * float(uncertain.mean())
    unit = np.float32(1.0 / max(high - low, 1e-6))
    octaves = _octaves((grey - np.float32(low)) * unit, uncertain * unit)
    return PreparedFrame(octaves, scale, (height, width), thumbnail_to_frame(shrink * scale), thumbnail, blank)


def _grey(picture: Plane) -> Plane:
    return np.asarray(picture.mean(axis=2, dtype=np.float32) if picture.ndim == 3 else picture, np.float32)


def _noise(grey: Plane) -> float:
    """Standard deviation of the noise: the median of the finest differences, which most places owe to noise alone."""
    fine = grey[1:-1, 1:-1] * 4 - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:]
    return float(np.median(np.abs(fine[::2, ::2]))) / 0.6745 / float(np.sqrt(20.0)) if fine.size else 0.0


def _octaves(grey: Plane, uncertain: Plane) -> tuple[Plane, ...]:
    """Octaves of detail, each divided by its local strength."""
    bands: list[Plane] = []
    powers: list[Plane] = []
    floors: list[Plane] = []
    while True:
        band = cv2.GaussianBlur(grey, (0, 0), 0.9) - cv2.GaussianBlur(grey, (0, 0), 2.5)
        power = cv2.GaussianBlur(band * band, (0, 0), 5.0)
        bands.append(np.asarray(band, np.float32))
        powers.append(np.asarray(power, np.float32))
        floors.append(cv2.GaussianBlur(uncertain * uncertain, (0, 0), 5.0) + np.float32(0.02 * power.mean() + 1e-9))
        if min(grey.shape) < 2 * SMALLEST_SIDE:
            break
        grey = np.asarray(cv2.pyrDown(grey), np.float32)
        uncertain = np.asarray(cv2.pyrDown(uncertain), np.float32) / np.float32(2)  # noise averages out
    phases = []
    for level, (band, power, floor) in enumerate(zip(bands, powers, floors, strict=True)):
        # Detail that is much weaker than that of the next octave is what a strong blur has left over: outlines of the
        # lens opening, which do not stay in place from frame to frame. Divided by both strengths it remains small.
        beyond = powers[min(level + 1, len(powers) - 1)]
        coarser = cv2.resize(beyond, (band.shape[1], band.shape[0]), interpolation=cv2.INTER_LINEAR)
        phase = np.asarray(band / np.sqrt(power + coarser + floor), np.float32)
        # Pixels near the border were made with mirrored ones, which stay where they are when the picture moves.
        margin = 3
        phase[:margin], phase[-margin:], phase[:, :margin], phase[:, -margin:] = 0, 0, 0, 0
        phases.append(phase)
    return tuple(phases)


def thumbnail_to_frame(shrink: float) -> Matrix:
    """The matrix from pixels of a picture reduced by a factor to pixels of the full one: areas correspond."""
    return np.asarray(np.linalg.inv(_to_working(shrink)), np.float64)


def estimate_pair(
    moving: PreparedFrame,
    fixed: PreparedFrame,
    *,
    model: str = "similarity",
    initial: Matrix | None = None,
) -> PairEstimate:
    """How the moving frame lies on the fixed one.

    Args:
        moving: The frame whose points are mapped.
        fixed: The frame that gives the grid, of the same size.
        model: A name of ``MODELS``.
        initial: Where to begin, in pixels of the full frames; None searches.
    """
    count = MODELS[model]
    # From here on a transform maps the fixed working grid to the moving one: that is the way pixels are fetched.
    to_working = _to_working(fixed.scale)
    fine = fixed.octaves
    coarsest = len(fine) - 1
    if moving.blank or fixed.blank:
        return PairEstimate(np.eye(3), np.zeros((8, 8)), np.zeros(8), 0.0, 0.0, 0.0)
    if initial is None:
        fetch = _search(moving, fixed, count)
        start = next(level for level in range(coarsest + 1) if fine[level].size <= _SEARCH_PIXELS or level == coarsest)
    else:
        fetch = to_working @ np.linalg.inv(initial) @ np.linalg.inv(to_working)
        start = min(2, coarsest)
    equations = None
    for level in range(start, -1, -1):
        fetch, equations = _descend(moving, fixed, fetch, level, count)
    agreements = _agreements(moving, fixed, fetch, range(coarsest + 1))
    unmoved = _agreements(moving, fixed, np.eye(3), range(min(3, coarsest + 1)))
    likeness, likeness_unmoved = (float(np.clip(np.mean(values[:3]), 0.0, 1.0)) for values in (agreements, unmoved))
    information, pull = equations if equations is not None else (np.zeros((8, 8)), np.zeros(8))
    slack = np.asarray(np.linalg.lstsq(information, pull, rcond=1e-9)[0], np.float64)
    transform = np.linalg.inv(np.linalg.inv(to_working) @ fetch @ to_working)
    return PairEstimate(transform / transform[2, 2], information, slack, max(agreements), likeness, likeness_unmoved)


def _to_working(scale: float) -> Matrix:
    """From pixels of the full frame to those of the finest octave: centres of areas, not corners, correspond."""
    shift = 0.5 * scale - 0.5
    return np.array([[scale, 0.0, shift], [0.0, scale, shift], [0.0, 0.0, 1.0]])


def _at_level(transform: Matrix, level: int) -> Matrix:
    """A transform of the finest octave in pixels of a coarser one, whose pixels lie on every 2^level-th."""
    grow = np.diag([2.0**level, 2.0**level, 1.0])
    return np.linalg.inv(grow) @ transform @ grow


def _fetch(picture: Plane, transform: Matrix, size: tuple[int, int]) -> tuple[Plane, NDArray[np.bool_]]:
    """The picture on the fixed grid, and where it is inside by at least two pixels."""
    height, width = size
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    moved: Plane = np.asarray(cv2.warpPerspective(picture, transform, (width, height), flags=flags), np.float32)
    spans = valid_spans(np.asarray(np.linalg.inv(transform), np.float64), size) + np.array([4.0, -4.0])
    inside = mask_of_spans(spans, width)
    inside[:4], inside[-4:] = False, False
    return moved, inside


def _descend(
    moving: PreparedFrame, fixed: PreparedFrame, fetch: Matrix, level: int, count: int
) -> tuple[Matrix, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The transform after Gauss-Newton steps on this octave and the coarser ones beside it, and the last equations."""
    base = fixed.octaves[0].shape
    size = (base[0], base[1])
    to_unit = unit_square(size)
    from_unit = np.linalg.inv(to_unit)
    levels = range(level, min(level + OCTAVES_AT_ONCE, len(fixed.octaves)))
    enough = 0.004 * 2.0**level  # pixels at the corner
    most = 12 if level >= 2 else 8
    for step in range(most):
        information, pull = np.zeros((8, 8)), np.zeros(8)
        for octave in levels:
            more_information, more_pull = _equations(moving, fixed, fetch, octave, to_unit)
            information += more_information
            pull += more_pull
        part = information[:count, :count]
        damped = part + np.diag(np.diag(part)) * 1e-4 + np.eye(count) * 1e-6
        change = motion_of(np.asarray(np.linalg.solve(damped, pull[:count]), np.float64))
        change = from_unit @ change @ to_unit
        if not np.isfinite(change).all() or corner_motion(change, size) > 0.2 * max(size):
            break  # nothing holds the pictures together here
        moved = corner_motion(change, size)
        if moved < enough or step == most - 1:
            break
        fetch = fetch @ change
    return fetch, (information, pull)


def _equations(
    moving: PreparedFrame, fixed: PreparedFrame, fetch: Matrix, level: int, to_unit: Matrix
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normal equations (8, 8), (8,) of one octave for a change of the transform, in ``unit_square`` coordinates."""
    target = fixed.octaves[level]
    size = (target.shape[0], target.shape[1])
    source, inside = _fetch(moving.octaves[level], _at_level(fetch, level), size)
    weight = _local_correlation(source, target)
    weight *= inside
    chosen = np.flatnonzero(weight > 0.005)
    if len(chosen) < 16:
        return np.zeros((8, 8)), np.zeros(8)
    stride = max(1, len(chosen) // _SAMPLES)
    chosen = chosen[::stride]
    both = source + target
    gradient_x = cv2.Sobel(both, cv2.CV_32F, 1, 0, scale=1 / 16).ravel()[chosen].astype(np.float64)
    gradient_y = cv2.Sobel(both, cv2.CV_32F, 0, 1, scale=1 / 16).ravel()[chosen].astype(np.float64)
    residual = (target.ravel()[chosen] - source.ravel()[chosen]).astype(np.float64)
    weights = weight.ravel()[chosen].astype(np.float64)
    weights *= (_RESIDUAL_SCALE**2 / (_RESIDUAL_SCALE**2 + residual**2)) ** 2
    variance = float(np.sum(weights * residual**2) / np.sum(weights)) + 1e-4
    pixel = 2.0**level
    unit = to_unit[0, 0]
    x = (chosen % size[1]) * (pixel * unit) + to_unit[0, 2]
    y = (chosen // size[1]) * (pixel * unit) + to_unit[1, 2]
    along_x, along_y = gradient_x / (pixel * unit), gradient_y / (pixel * unit)
    radial = x * along_x + y * along_y
    slopes = np.stack(
        [
            along_x,
            along_y,
            radial,
            x * along_y - y * along_x,
            x * along_x - y * along_y,
            y * along_x + x * along_y,
            -x * radial,
            -y * radial,
        ]
    )
    weighted = slopes * (weights * (stride / variance))
    return weighted @ slopes.T, weighted @ residual


def _local_correlation(first: Plane, second: Plane) -> Plane:
    """How much each pixel may say: correlation of two octaves around it to the fourth, content of the poorer squared.

    It is 0 where the correlation is negative: a strong blur turns light stripes into dark ones ("spurious resolution").
    The high powers were chosen on rendered stacks; lower ones double the error where near things hide far ones.
    """
    shared = cv2.blur(first * second, _WINDOW)
    content_first, content_second = cv2.blur(first * first, _WINDOW), cv2.blur(second * second, _WINDOW)
    correlation = np.maximum(shared, 0) ** 2 / (content_first * content_second + np.float32(0.01))
    content = np.minimum(content_first, content_second)
    return np.asarray((correlation * content) ** 2, np.float32)


def _agreements(moving: PreparedFrame, fixed: PreparedFrame, fetch: Matrix, levels: Sequence[int]) -> list[float]:
    """Correlation of each octave after the motion; octaves with too few pixels to tell chance apart are left out."""
    found: list[float] = []
    for level in levels:
        target = fixed.octaves[level]
        source, inside = _fetch(moving.octaves[level], _at_level(fetch, level), (target.shape[0], target.shape[1]))
        if found and inside.sum() < 2500:
            break
        first, second = source[inside].astype(np.float64), target[inside].astype(np.float64)
        strength = float(np.sqrt(np.sum(first**2) * np.sum(second**2)))
        found.append(float(np.sum(first * second)) / strength if strength > 0 else 0.0)
    return found


# --- the search for a beginning -------------------------------------------------------------------------------------


def _search(moving: PreparedFrame, fixed: PreparedFrame, count: int) -> Matrix:
    """A transform near enough to the right one for the steps to find it, from small pictures."""
    coarsest = len(fixed.octaves) - 1
    level = next(i for i in range(coarsest + 1) if fixed.octaves[i].size <= _SEARCH_PIXELS or i == coarsest)
    growths: list[tuple[float, float]] = [(1.0, 0.0)]
    best, best_score = np.eye(3), -1.0
    wider = [(growth, turn) for growth in (1.0, 0.95, 1.05, 0.9, 1.1) for turn in (0.0, -2.5, 2.5, -5.0, 5.0)][1:]
    for growth, turn in growths + (wider if count > 2 else []):
        begin = [np.eye(3)] if (growth, turn) == (1.0, 0.0) else []
        begin.append(_shift_by_phase(moving.octaves[level], fixed.octaves[level], level, growth, turn))
        for fetch in begin:
            for octave in range(min(level + 1, coarsest), level - 1, -1):
                fetch, _ = _descend(moving, fixed, fetch, octave, count)
            (score,) = _agreements(moving, fixed, fetch, [level])
            if score > best_score:
                best, best_score = fetch, score
        if best_score > 0.5:
            break
    return best


def _shift_by_phase(moving: Plane, fixed: Plane, level: int, growth: float, turn: float) -> Matrix:
    """The transform (fixed to moving, finest octave) with this growth and turn whose shift phase correlation finds."""
    height, width = fixed.shape
    angle = np.deg2rad(turn)
    cosine, sine = growth * np.cos(angle), growth * np.sin(angle)
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    begin = np.array(
        [
            [cosine, -sine, middle_x - cosine * middle_x + sine * middle_y],
            [sine, cosine, middle_y - sine * middle_x - cosine * middle_y],
            [0.0, 0.0, 1.0],
        ]
    )
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    turned = cv2.warpPerspective(moving, begin, (width, height), flags=flags)
    window = cv2.createHanningWindow((width, height), cv2.CV_32F)
    # OpenCV 5 multiplies its arguments with the window in place, so it gets a copy.
    (shift_x, shift_y), _ = cv2.phaseCorrelate(fixed.copy(), np.asarray(turned, np.float32), window)
    fetch = begin @ motion_of(np.array([shift_x, shift_y]))
    return _at_level(fetch, -level)
