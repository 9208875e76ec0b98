"""Deciding again where detail was lost: the frame that shows it is taken there, if that brings it back.

What the measure of lost detail finds is evidence that the network did not weigh as it should have: in a place where
the fused picture has less than a third of what one frame shows, that frame is blended in, softly, and the picture is
measured again. Of several frames that show the detail it is the one that fits best into what is around the place:
things move a little from frame to frame, and a leg must go on where it ends. A place that is no better for it, or in
which something else is lost then, stays as it was; so does one into which no frame fits.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.detail_meter import measure_lost_detail
from allfocus.fusion.frame_source import FrameSource, MemorySource, SpoolSource
from allfocus.fusion.lost_detail import ERASED, LostDetail
from allfocus.fusion.lost_places import LostPlace
from allfocus.fusion.windows import Area
from allfocus.images.spool import FrameSpool, Mask
from allfocus.progress import StepProgress

BORDER = 1
"""Cells by which a place is widened, so that the whole of a thing is taken."""
FEATHER = 1.0
"""Cells over which it fades out: the deviation of a Gaussian."""
LARGEST_MISFIT = 0.5
"""What may differ along the rim of a place, as a share of what there is to see in it."""
SHOWN = 0.6
"""Share of the detail of the frame that shows most in a place that another must show to be taken for it."""
LARGEST_SHARE = 0.02
"""Part of the picture up to which places are mended. Where more is lost the stack is of another kind (transparent
things, frames that are not registered), and a warning is better than a patchwork."""


class Mended(NamedTuple):
    """A fused picture in which some places were decided again."""

    image: NDArray[np.float32]
    decision: NDArray[np.int16]
    depth: NDArray[np.float32]
    lost: LostDetail
    """Measured on the new picture."""
    places: tuple[LostPlace, ...] = ()
    """The places that were decided again; none leave everything as it was."""


def mend_lost_detail(
    image: NDArray[np.float32],
    decision: NDArray[np.int16],
    depth: NDArray[np.float32],
    frames: Sequence[NDArray[np.float32]] | FrameSpool,
    *,
    valid: Sequence[Mask] | None = None,
    hard: bool = False,
    progress: StepProgress | None = None,
) -> Mended:
    """Returns the fused picture with the detail that it had lost where one frame brings it back, and what is lost.

    Args:
        image: the fused picture, (H, W, 3) or (H, W), in the values of the frames.
        decision: (H, W), which frame each pixel came from.
        depth: (H, W), 0 the first frame, 1 the last.
        frames: what it was fused from.
        valid: for each frame, where it has pixels; None for everywhere.
        hard: copy pixels instead of blending.
        progress: called with "comparing" while the picture is measured, then with "mending".
    """
    tell: StepProgress = progress or (lambda step, done, count: None)
    lost = measure_lost_detail(image, frames, valid=valid, progress=partial(tell, "comparing"))
    places = _erased_places(lost)
    unchanged = Mended(image, decision, depth, lost)
    if not places or sum(float(place.mean()) for place in places) > LARGEST_SHARE:
        return unchanged
    source: FrameSource = SpoolSource(frames) if isinstance(frames, FrameSpool) else MemorySource(frames, valid)
    done = total = 0

    def advance(*_: int) -> None:
        nonlocal done
        done += 1
        tell("mending", done, total)

    for _ in range(2):
        total = done + len(places) + len(frames)
        found = _take(unchanged, lost, places, source, hard=hard, advance=advance)
        after = measure_lost_detail(found.image, frames, valid=valid, progress=advance)
        better = [place for place in places if _loss(after, place) < 0.5 * _loss(lost, place)]
        if len(better) == len(places):
            mended = tuple(sorted(found.places, key=lambda place: -place.width * place.height))
            return found._replace(lost=replace(after, mended=mended)) if after.share < lost.share else unchanged
        places = better
        if not places:
            break
    return unchanged


def _erased_places(lost: LostDetail) -> list[NDArray[np.bool_]]:
    """Masks of cells, one for each connected place in which detail is not just weaker but erased."""
    count, labels = cv2.connectedComponents((lost.map > 0).astype(np.uint8), connectivity=8)
    return [
        place for place in (labels == number for number in range(1, count)) if float(lost.map[place].max()) >= ERASED
    ]


def _loss(lost: LostDetail, place: NDArray[np.bool_]) -> float:
    """What is lost in a place and right around it."""
    around = cv2.dilate(place.astype(np.uint8), np.ones((2 * BORDER + 3,) * 2, np.uint8)) > 0
    return float(lost.map[around].sum())


def _take(
    fused: Mended,
    lost: LostDetail,
    places: Sequence[NDArray[np.bool_]],
    source: FrameSource,
    *,
    hard: bool,
    advance: Callable[[], None],
) -> Mended:
    """Returns the fused picture with the frame that shows most of each place blended in there."""
    image, decision, depth = fused.image.copy(), fused.decision.copy(), fused.depth.copy()
    height, width = image.shape[:2]
    taken = []
    for place in places:
        advance()
        wide = cv2.dilate(place.astype(np.uint8), np.ones((2 * BORDER + 1,) * 2, np.uint8)) > 0
        area, weight = _feathered(wide, lost.cell, (height, width))
        found = _best_frame(source, area, image[area], weight, lost.cell)
        if found is None:
            continue
        frame, pixels = found
        if hard:
            weight, pixels = (weight >= 0.5).astype(np.float32), source.read(frame, area)
        own = weight if image.ndim == 2 else weight[..., None]
        # What is taken wholly is copied, to the bit.
        image[area] = np.where(own < 1, image[area] + own * (pixels - image[area]), pixels)
        here = weight >= 0.5
        decision[area][here] = frame
        depth[area] += weight * (np.float32(frame / max(1, len(source) - 1)) - depth[area])
        rows, columns = (np.flatnonzero(place.any(axis=axis)) * lost.cell for axis in (1, 0))
        down, across = (int(side[-1] - side[0]) + lost.cell for side in (rows, columns))
        taken.append(LostPlace(int(columns[0]), int(rows[0]), across, down, frame, float(lost.map[place].max())))
    return fused._replace(image=image, decision=decision, depth=depth, places=tuple(taken))


def _best_frame(
    source: FrameSource, area: Area, image: NDArray[np.float32], weight: NDArray[np.float32], cell: int
) -> tuple[int, NDArray[np.float32]] | None:
    """Returns the frame that shows the detail of a place and fits best into it, with its pixels; None if none fits."""
    rim, inside = (weight > 0) & (weight < 1), weight >= 1
    candidates = []
    for index in range(len(source)):
        mask = source.read_valid(index, area)
        if mask is None or mask[weight > 0].all():
            pixels = source.read(index, area)
            detail = pixels - cv2.GaussianBlur(pixels, (0, 0), float(2 * cell))
            candidates.append((float(np.square(detail[inside]).mean()) ** 0.5, index))
    most = max((shown for shown, _ in candidates), default=0.0)
    best: tuple[float, int, NDArray[np.float32]] | None = None
    for _, index in (entry for entry in candidates if entry[0] >= SHOWN * most):
        pixels = source.read(index, area)
        fitted = pixels + _surrounding_difference(image - pixels, weight)
        # No value leaves the range of what is there.
        fitted = np.clip(fitted, min(image.min(), pixels.min()), max(image.max(), pixels.max()))
        misfit = 0.0
        if rim.any():
            seen = np.quantile(np.abs(fitted[inside] - np.median(fitted[rim], axis=0)), 0.95)
            misfit = float(np.quantile(np.abs(fitted[rim] - image[rim]), 0.95) / max(float(seen), 1e-6))
        if misfit <= LARGEST_MISFIT and (best is None or misfit < best[0]):
            best = misfit, index, fitted
    return None if best is None else best[1:]


def _surrounding_difference(difference: NDArray[np.float32], weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the difference (h, w[, 3]) around a place, carried smoothly into it, so that its rim does not show."""
    outside = 1 - weight
    deviation = max(2.0, float(np.sqrt(weight.sum())) / 2)
    shares = outside if difference.ndim == 2 else np.repeat(outside[..., None], difference.shape[2], axis=2)
    blurred = cv2.GaussianBlur(shares * difference, (0, 0), deviation)
    return np.asarray(blurred / np.maximum(cv2.GaussianBlur(shares, (0, 0), deviation), 1e-3), np.float32)


def _feathered(cells: NDArray[np.bool_], cell: int, size: tuple[int, int]) -> tuple[Area, NDArray[np.float32]]:
    """Returns the area of the picture that a mask of cells touches, and its weight there, 1 inside, 0 at the ends."""
    rows, columns = np.flatnonzero(cells.any(axis=1)), np.flatnonzero(cells.any(axis=0))
    # As much around a place as it is wide itself, to see what it must fit into.
    reach = int(np.ceil(3 * FEATHER)) + max(rows[-1] - rows[0], columns[-1] - columns[0]) // 2
    top, left = max(0, rows[0] - reach), max(0, columns[0] - reach)
    part = cells[top : rows[-1] + reach + 1, left : columns[-1] + reach + 1].astype(np.float32)
    large = cv2.resize(part, None, fx=cell, fy=cell, interpolation=cv2.INTER_NEAREST)
    soft = cv2.GaussianBlur(large, (0, 0), FEATHER * cell / 2)
    # Wholly taken within the place, and nothing at the ends of what is read.
    weight = np.clip(2 * np.maximum(soft, 0), 0, 1)
    area = (
        slice(top * cell, min(size[0], top * cell + large.shape[0])),
        slice(left * cell, min(size[1], left * cell + large.shape[1])),
    )
    return area, np.ascontiguousarray(weight[: area[0].stop - area[0].start, : area[1].stop - area[1].start])
