"""Depth maps to look at and to work with: calm where the frames tell nothing, sharp at the edges of things.

What a method knows about depth it knows where there is texture. :func:`smooth_depth` spreads that knowledge over the
rest of the picture, along surfaces and not across their edges, and :func:`colour_depth` shows the result.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.frame_checks import grey_levels
from allfocus.images.conversion import from_integers, to_integers
from allfocus.images.filling import fill_from_surroundings

FAR_REACH, REACH = 0.3, 0.05
"""How far knowledge spreads over an even surface where depth is unsure, and over how much it is smoothed everywhere, as
shares of the smaller side of the picture."""
EDGE, SURE_EDGE = 0.1, 0.3
"""A step of this much brightness (of 0..1) in the guide is as hard to cross as the whole reach, where depth is unsure
and where it is sure: there texture is no edge, and depth itself shows where one thing ends."""
TEXTURE = 0.03
"""Steps in brightness below this are no edge of a thing."""
WALL, WALL_WIDTH = 4.0, 5
"""A step in depth larger than that between two frames, within so many pixels, is as hard to cross as this many times
the reach."""
SPECKS = 5
"""Side of the median that removes wrong pixels that stand alone; in 32-bit pictures OpenCV knows no larger one."""
PASSES = 3
"""Each pass goes left, right, up and down over half the distance of the pass before; three leave no streaks."""
SURE_FROM = 0.45
"""Confidence from which depth counts in full. (Of four rendered scenes and two methods, each comes 1 to 33 % nearer to
its true depth with this; with 1 half of them come nearer still, but near things bleed into far ones.)"""
LEAST_WEIGHT = 1e-5
"""Weight of a pixel of no confidence, filled in from around: enough to bridge what nothing else reaches."""
LARGEST_FULL_SCALE = 6_000_000
"""Pictures with more pixels are smoothed at half scale: their depth is known no finer, and memory stays small."""

Map = NDArray[np.float32]


def smooth_depth(depth: Map, confidence: Map, guide: Map, *, step: float = 0.0) -> Map:
    """The depth (H, W) with the unsure parts filled in from the sure ones, along surfaces.

    First the sure depth is spread over growing distances (push-pull: Gortler et al., "The Lumigraph", 1996). Then a
    mean weighted by confidence runs over the picture that does not cross edges (the recursive domain transform: Gastal
    and Oliveira, "Domain transform for edge-aware image and video processing", 2011; weighting by confidence, and
    depth as an edge beside brightness, are our additions).

    Args:
        depth: (H, W), 0 the first frame and 1 the last.
        confidence: (H, W), 0 for depth that is a guess, 1 for depth that is sure.
        guide: the fused picture (H, W, 3) or (H, W), 0..1, whose edges are kept.
        step: the depth between two neighbouring frames, 1 / (frames - 1). Steps of that height are what is left of a
            slope, and become one again; 0 keeps every step.

    Raises:
        InputError: the three differ in size.

    Example:
        >>> depth = np.zeros((32, 32), np.float32); depth[16, 16] = 1  # one wrong pixel
        >>> confidence = np.ones((32, 32), np.float32); confidence[16, 16] = 0
        >>> bool(smooth_depth(depth, confidence, np.zeros((32, 32), np.float32)).max() < 0.01)
        True
    """
    if not depth.shape == confidence.shape == guide.shape[:2]:
        raise InputError(
            f"depth {depth.shape}, confidence {confidence.shape} and guide {guide.shape[:2]} must be of one size"
        )
    height, width = depth.shape
    grey = grey_levels(guide)
    if height * width <= LARGEST_FULL_SCALE:
        return _smooth(depth, confidence, grey, step)
    half = (width // 2, height // 2)
    # Whole steps of depth stay whole steps; a mean would make levels between two things at every edge.
    small = cv2.resize(depth, half, interpolation=cv2.INTER_NEAREST)
    sure, shades = (cv2.resize(own, half, interpolation=cv2.INTER_AREA) for own in (confidence, grey))
    smooth = _smooth(np.asarray(small), np.asarray(sure), np.asarray(shades), step)
    return np.asarray(cv2.resize(smooth, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)


def _smooth(depth: Map, confidence: Map, grey: Map, step: float) -> Map:
    sure = np.clip(confidence, 0, 1)
    weight = np.clip(sure / np.float32(SURE_FROM), 0, 1) ** 2
    smaller_side = min(depth.shape)
    # Far reach first, held back by edges of the picture alone, because unsure depth shows no edges; then a short one.
    reach = max(2.0, FAR_REACH * smaller_side)
    edges = [_brightness_edges(grey, sure, axis) for axis in (1, 0)]
    spread = _mean_within_edges(
        fill_from_surroundings(depth, weight),
        np.maximum(weight, np.float32(LEAST_WEIGHT)),
        [1 + np.float32(reach) * own for own in edges],
        reach,
    )
    filled = spread + weight * (depth - spread)
    # Specks of a few pixels, which the walls below would fence in instead of smoothing them away.
    filled = np.asarray(cv2.medianBlur(filled, SPECKS))
    reach = max(2.0, REACH * smaller_side)
    walls = [_depth_walls(filled, step, axis) for axis in (1, 0)]
    distances = [1 + np.float32(reach) * (own + wall) for own, wall in zip(edges, walls, strict=True)]
    smooth = _mean_within_edges(filled, np.maximum(weight, np.float32(0.1)), distances, reach)
    return np.clip(smooth, 0, 1)


def _brightness_edges(grey: Map, sure: Map, axis: int) -> Map:
    """How hard it is to get from each pixel to the next along an axis by the guide, in parts of the reach."""
    here, there = _neighbours(axis)
    unsure = 1 - np.minimum(sure[here], sure[there])
    contrast = np.maximum(np.abs(np.diff(grey, axis=axis)) - np.float32(TEXTURE), 0)
    return np.asarray(contrast * (unsure / np.float32(EDGE) + np.float32(1 / SURE_EDGE)), np.float32)


def _depth_walls(depth: Map, step: float, axis: int) -> Map:
    """The same by the depth itself: 0 on a surface, a wall around steps that are no slope."""
    here, there = _neighbours(axis)
    # The range over a few pixels, because a method may leave a step in depth a little soft.
    around = np.ones((WALL_WIDTH, WALL_WIDTH), np.uint8)
    steep = cv2.dilate(depth, around) - cv2.erode(depth, around) > max(1.5 * step, 1 / 64)
    return np.where(steep[here] | steep[there], np.float32(WALL), np.float32(0))


def _neighbours(axis: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """All pixels but the last along an axis, and all but the first."""
    everything, but_last, but_first = slice(None), slice(0, -1), slice(1, None)
    return (
        ((everything, but_last), (everything, but_first))
        if axis == 1
        else (
            (but_last, everything),
            (but_first, everything),
        )
    )


def colour_depth(depth: Map) -> Map:
    """A picture (H, W, 3) of the depth in colours: from dark violet (0, the first frame) over green to yellow (1).

    The colours are viridis (van der Walt and Smith, 2015), as OpenCV has it: equal steps in depth look like equal steps
    in colour, also in grey and to most people who see colours differently.

    Args:
        depth: (H, W), 0..1.

    Example:
        >>> colour_depth(np.array([[0, 1]], np.float32)).round(1).tolist()
        [[[0.30000001192092896, 0.0, 0.30000001192092896], [1.0, 0.8999999761581421, 0.10000000149011612]]]
    """
    coloured = cv2.cvtColor(cv2.applyColorMap(to_integers(depth, 8), cv2.COLORMAP_VIRIDIS), cv2.COLOR_BGR2RGB)
    return from_integers(np.asarray(coloured))


def _mean_within_edges(values: Map, weight: Map, distances: list[Map], reach: float) -> Map:
    """The weighted mean around each pixel, over the distances (H, W - 1) across and (H - 1, W) down."""
    total = np.stack([values * weight, weight])
    for number in range(PASSES):
        # The variances of the passes add up to that of the reach (equation 14 of the paper).
        spread = reach * np.sqrt(3) * 2 ** (PASSES - number - 1) / np.sqrt(4**PASSES - 1)
        across, down = (np.exp(np.float32(-np.sqrt(2) / spread) * distance) for distance in distances)
        total = _run_both_ways(total, across)
        total = _run_both_ways(total.transpose(0, 2, 1), down.T).transpose(0, 2, 1)
    return np.asarray(total[0] / total[1], np.float32)


def _run_both_ways(total: Map, share: Map) -> Map:
    """Each column (2, H) becomes the mean of itself and the one before, by the share (H, W - 1); forth, then back."""
    # Columns must lie together in memory: a picture of 24 megapixels takes ten times as long otherwise.
    columns = np.ascontiguousarray(total.transpose(2, 0, 1))
    shares = np.ascontiguousarray(share.T)
    for place in range(1, len(columns)):
        columns[place] += shares[place - 1] * (columns[place - 1] - columns[place])
    for place in range(len(columns) - 2, -1, -1):
        columns[place] += shares[place] * (columns[place + 1] - columns[place])
    return np.ascontiguousarray(columns.transpose(1, 2, 0))
