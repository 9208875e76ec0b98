"""The stacks in a folder of a shoot, found by what the camera noted and by what the pictures show.

Pictures are taken in the order of their times. A new stack begins where the camera, the size, the exposure or the focal
length changes, where the time between two shots is longer than the gap, where the camera counts its bracketing anew or
goes back to where it began to focus, and where the scene is another. What is left over is no stack: single pictures,
bursts with one focus, and pictures that were fused already.
"""

import datetime
import functools
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import AllfocusError
from allfocus.files.opening import open_plain
from allfocus.images.decoders import RAW, find_format
from allfocus.images.image import Image
from allfocus.images.listing import natural_order
from allfocus.images.maker_notes import FOCUS, OTHER
from allfocus.images.photo_facts import PhotoFacts, finished_by, read_photo_facts
from allfocus.images.raw_decoder import require_rawpy
from allfocus.images.reading import decode_picture, guarded, read_image
from allfocus.images.sharpness import grey_of, measure_sharpness, show_something
from allfocus.progress import Notice

VIEW_WIDTH = 96
VIEW_BLUR, VIEW_REACH = 1.5, 3.0
"""Pixels: finer than that is focus, coarser is light; what lies between is the scene."""
LEAST_CONTRAST = 1e-4
SLACK = 0.12
"""Share of a side by which the same scene may have moved between two frames."""
LEAST_LIKENESS, LIKENESS_DROP = 0.75, 0.06
"""Correlation of two views from which on they show the same scene, and how far it may fall below that of the frames
before. Neighbours in real stacks have 0.82 (two frames, hand-held) to 1.00, in rendered ones 0.93 or more."""
LARGEST_EXPOSURE_STEP = 0.67
"""EV; cameras that smooth exposures stay below, exposure brackets above."""
LARGEST_ZOOM = 1.05
LONGEST_STEP = 60.0
"""Seconds between two shots that a camera counts as one focus bracketing: flashes have to recharge."""
LEAST_MOVEMENT = 1.3
"""How much sharper, as a factor, half of the parts get somewhere in a stack than where they are least sharp."""
AS_SHARP, LEAST_PARTS, COMPOSITE_PARTS = 0.7, 0.05, 0.65
"""A finished picture is nearly as sharp as the sharpest frame in so many of the parts of each frame, of those that have
parts enough. Measured: 0.74 or more in rendered ones, 0.47 or less in the last frames of real and rendered stacks."""


@dataclass(frozen=True, eq=False)
class Shot:
    """One picture of a shoot, as far as its stack is concerned."""

    path: Path
    facts: PhotoFacts
    size: tuple[int, int]
    """Height and width."""
    view: NDArray[np.float32]
    """A tiny view, (H, VIEW_WIDTH), of what neither focus nor light changes much."""
    sharpness: NDArray[np.float32]
    """Of each part, from ``measure_sharpness``."""


@dataclass(frozen=True)
class Grouping:
    """The stacks of a folder, and what belongs to none."""

    stacks: list[list[Path]] = field(default_factory=list)
    left_out: dict[Path, str] = field(default_factory=dict)
    """Each picture that belongs to no stack, with the reason."""


def look_at(path: Path) -> Shot:
    """What can be told of a picture, which is read once for as long as it is not changed; of RAW its preview.

    Raises:
        InputError: it cannot be read.
    """
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return _look(path)  # which says what is wrong
    return _look_once(path, status.st_size, status.st_mtime_ns, status.st_ino)


@functools.lru_cache(maxsize=2048)
def _look_once(path: Path, *state: int) -> Shot:
    return _look(path)


def _look(path: Path) -> Shot:
    facts = read_photo_facts(path)
    image = _preview(path) or read_image(path)
    grey = grey_of(image.pixels)
    return Shot(path, facts, (image.height, image.width), _tiny_view(grey), measure_sharpness(grey))


def _tiny_view(grey: NDArray[np.float32]) -> NDArray[np.float32]:
    import cv2

    height = min(max(16, round(VIEW_WIDTH * grey.shape[0] / grey.shape[1])), 8 * VIEW_WIDTH)
    small = cv2.resize(grey, (VIEW_WIDTH, height), interpolation=cv2.INTER_AREA)
    smooth = cv2.GaussianBlur(small, (0, 0), VIEW_BLUR)
    return np.asarray(smooth - cv2.GaussianBlur(smooth, (0, 0), VIEW_REACH), np.float32)


def _preview(path: Path) -> Image | None:
    """The picture that a camera put into a RAW file; None for other files, or where there is none of use."""
    with open_plain(path) as file:
        if guarded(path, lambda: find_format(file)) is not RAW:
            return None
        rawpy = require_rawpy()
        file.seek(0)
        try:
            with rawpy.imread(file) as raw:
                found = raw.extract_thumb()
                if found.format != rawpy.ThumbFormat.JPEG:
                    return None
                image = decode_picture(io.BytesIO(found.data), path)
        except (rawpy.LibRawError, AllfocusError):
            return None
    return image if min(image.height, image.width) >= 4 * VIEW_WIDTH else None


def group_shots(shots: Sequence[Shot], gap: float) -> Grouping:
    """The stacks among the pictures of one folder and one kind of file.

    Args:
        shots: In any order.
        gap: Seconds between two shots from which on a new stack begins.
    """
    found = Grouping()
    cameras: dict[str, list[Shot]] = {}
    for shot in shots:
        if reason := _finished(shot):
            found.left_out[shot.path] = reason
        else:
            cameras.setdefault(shot.facts.camera, []).append(shot)
    for own in cameras.values():
        before: list[Shot] = []
        for run in _cut_runs(_in_order(own), gap, found.left_out):
            _judge(run, before, found)
            before = run
    return found


def _finished(shot: Shot) -> str:
    if shot.facts.bracketing.composite:
        return Notice("was fused by the camera")
    maker = finished_by(shot.facts, shot.path.name)
    return Notice(f"is a finished composite ({maker})") if maker else ""


def _in_order(shots: Sequence[Shot]) -> list[Shot]:
    """By time, those of one moment by name; by name alone where some do not tell their time."""
    by_name = sorted(shots, key=lambda shot: natural_order(shot.path.name))
    if any(shot.facts.time is None for shot in shots):
        return by_name
    return sorted(by_name, key=lambda shot: shot.facts.time or datetime.datetime.min)


def _cut_runs(shots: Sequence[Shot], gap: float, left_out: dict[Path, str]) -> list[list[Shot]]:
    """The runs of shots that belong together; a single one of another scene in their midst is left out."""
    runs: list[list[Shot]] = []
    for number, shot in enumerate(shots):
        if runs and _goes_on(runs[-1], shot, gap):
            if _same_scene(runs[-1], shot) or _counted_on(runs[-1][-1], shot):
                runs[-1].append(shot)
                continue
            following = shots[number + 1] if number + 1 < len(shots) else None
            if (
                following is not None
                and len(runs[-1]) > 1
                and _goes_on(runs[-1], following, gap)
                and _same_scene(runs[-1], following)
            ):
                left_out[shot.path] = Notice("shows another scene than the frames before and after it")
                continue
        runs.append([shot])
    return runs


def _counted_on(one: Shot, two: Shot) -> bool:
    """Whether the camera itself says that two shots follow each other in one focus bracketing."""
    first, second = one.facts.bracketing, two.facts.bracketing
    if first.kind != FOCUS or second.kind != FOCUS or first.shot is None or second.shot is None:
        return False
    return second.shot == first.shot + 1 and (_seconds_between(one, two) or 0.0) <= LONGEST_STEP


def _goes_on(run: Sequence[Shot], shot: Shot, gap: float) -> bool:
    """Whether a shot can belong to the stack of those before it, by what the camera noted."""
    last = run[-1]
    one, two = last.facts, shot.facts
    if shot.size != last.size or one.bracketing.kind != two.bracketing.kind or one.bracketing.kind == OTHER:
        return False
    if _counted_on(last, shot):
        return True
    if (one.bracketing.shot or 0) > 1 and (two.bracketing.shot or 0) <= (one.bracketing.shot or 0):
        return False
    between = _seconds_between(last, shot)
    if between is not None and between > gap + two.seconds:
        return False
    exposures = [facts.exposure for facts in (one, two) if facts.exposure is not None]
    if max(exposures, default=0.0) - min(exposures, default=0.0) > LARGEST_EXPOSURE_STEP:
        return False
    if one.focal_length and two.focal_length:
        zoom = two.focal_length / one.focal_length
        if not 1 / LARGEST_ZOOM < zoom < LARGEST_ZOOM:
            return False
    return not _focus_begins_anew(run, shot)


def _seconds_between(one: Shot, two: Shot) -> float | None:
    if one.facts.time is None or two.facts.time is None:
        return None
    return abs((two.facts.time - one.facts.time).total_seconds())


def _focus_begins_anew(run: Sequence[Shot], shot: Shot) -> bool:
    """Whether the lens went back by half of the way that it has come, or more."""
    places = [own.facts.focus for own in (*run, shot) if own.facts.focus is not None]
    if len(run) < 3 or len(places) <= len(run):
        return False
    way = [math.log(place) for place in places] if min(places) > 0 else places  # distances count by their ratios
    covered, step = way[-2] - way[0], way[-1] - way[-2]
    return step * covered < 0 and abs(step) > abs(covered) / 2


def _same_scene(run: Sequence[Shot], shot: Shot) -> bool:
    """Whether a shot shows the scene of those before it, a little moved perhaps, whatever is in focus."""
    recent = run[-4:]
    usual = [likeness(one.view, two.view) for one, two in pairwise(recent)]
    least = max(LEAST_LIKENESS, min(usual) - LIKENESS_DROP) if len(usual) > 1 else LEAST_LIKENESS
    return likeness(run[-1].view, shot.view) >= least


def likeness(one: NDArray[np.float32], two: NDArray[np.float32]) -> float:
    """The correlation of two views at the shift at which it is largest; 1 for the same view.

    Example:
        >>> view = np.random.default_rng(0).random((48, 64), np.float32)
        >>> round(likeness(view, np.roll(view, 3, axis=1)), 2), likeness(view, view[::-1]) < 0.5
        (1.0, True)
    """
    import cv2

    if one.shape != two.shape:
        return 0.0
    rows, columns = (max(1, round(side * SLACK)) for side in one.shape)
    inner = np.ascontiguousarray(two[rows:-rows, columns:-columns])
    if min(float(inner.std()), float(one.std())) < LEAST_CONTRAST:  # blank: nothing to compare
        return 1.0 if max(float(inner.std()), float(one.std())) < LEAST_CONTRAST else 0.0
    return float(cv2.matchTemplate(np.ascontiguousarray(one), inner, cv2.TM_CCOEFF_NORMED).max())


COMPOSITE = Notice("is sharp wherever any frame is: a finished composite, by all appearance")


def _judge(run: list[Shot], before: list[Shot], found: Grouping) -> None:
    """Adds a run to the stacks, or to what is left out; a composite may follow the run that it was fused from."""
    kind = run[0].facts.bracketing.kind
    if kind != FOCUS and _is_composite(run):
        found.left_out[run[-1].path] = COMPOSITE
        run = run[:-1]
    elif len(run) == 1 and kind == "" and _is_composite([*before, *run]):
        found.left_out[run[0].path] = COMPOSITE
        return
    if len(run) == 1:
        alone = Notice("is part of a bracketing of another kind") if kind == OTHER else Notice("stands alone")
        found.left_out[run[0].path] = alone
    elif kind != FOCUS and not focus_moves([shot.sharpness for shot in run]):
        for shot in run:
            found.left_out[shot.path] = Notice(f"is one of {len(run)} shots with the same focus")
    else:
        found.stacks.append([shot.path for shot in run])


def focus_moves(maps: Sequence[NDArray[np.float32]]) -> bool:
    """Whether the pictures of a run are focused at different distances, from the sharpness of their parts."""
    stack = np.stack(maps)
    parts = show_something(stack)
    if not parts.any():
        return False
    seen = stack[:, parts]
    return float(np.median(seen.max(axis=0) / np.maximum(seen.min(axis=0), 1e-9))) >= LEAST_MOVEMENT


def _is_composite(run: Sequence[Shot]) -> bool:
    """Whether the last of a run is sharp where each of the others is sharpest: near things and far ones alike."""
    if len(run) < 4 or run[-1].size != run[0].size:
        return False
    if max(likeness(shot.view, run[-1].view) for shot in run[:-1]) < LEAST_LIKENESS:
        return False
    frames = np.stack([shot.sharpness for shot in run[:-1]])
    if not focus_moves(list(frames)):
        return False
    parts = show_something(frames)
    best, winner = frames.max(axis=0)[parts], frames.argmax(axis=0)[parts]
    sharp = run[-1].sharpness[parts] >= AS_SHARP * best
    shares = [float(sharp[winner == own].mean()) for own in range(len(frames)) if (winner == own).mean() >= LEAST_PARTS]
    return len(shares) > 2 and min(shares) >= COMPOSITE_PARTS
