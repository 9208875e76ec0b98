"""Selection logits -> weights -> one picture."""

import functools
from collections.abc import Callable, Iterable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.windows import Area
from allfocus.images.transfer import Curve

EVIDENCE_WINDOW = 9
"""Side in pixels of the window over which there must be detail."""
SAMENESS_WINDOW = 5
"""Side in pixels of the window in which frames must show the same."""
SETTLING_LEVELS = 6
"""Halvings over which evidence spreads, so it reaches about 2 ** 6 pixels and more where nothing contradicts."""
LARGEST_MARGIN = 12.0
"""Logits are cut this far below the best: beyond it a source has lost anyway, and would drown its neighbourhood."""
NEGLIGIBLE = np.float32(0.01)
"""A source this much as likely as the best one weighs nothing: on scenes as good, and most pixels are copies."""


def detail_evidence(picture: NDArray[np.float32], noise: float) -> NDArray[np.float32]:
    """Returns per pixel (H, W) how much there is to tell focus by: 0 nothing, 1 plenty.

    The variance of the detail (brightness less its local mean) in a window, against that of the noise.

    Args:
        picture: (H, W[, 3]).
        noise: standard deviation of the noise in the same values.
    """
    return evidence_of(local_detail(picture if picture.ndim == 2 else picture.mean(axis=2)), noise)


def local_detail(brightness: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the brightness (H, W) of a picture less its local mean."""
    return np.asarray(brightness - _local_mean(brightness, EVIDENCE_WINDOW), np.float32)


def evidence_of(detail: NDArray[np.float32], noise: float) -> NDArray[np.float32]:
    """Returns :func:`detail_evidence` of a picture whose :func:`local_detail` is known."""
    local = _local_mean(detail * detail, EVIDENCE_WINDOW)
    return np.asarray((local / (local + np.float32(4 * noise**2 + 1e-12))) ** 2, np.float32)


def _local_mean(values: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    return np.asarray(cv2.blur(values, (side, side), borderType=cv2.BORDER_REFLECT_101), np.float32)


def sameness(
    brightness: Sequence[NDArray[np.float32]],
    details: Sequence[NDArray[np.float32]],
    weights: Sequence[NDArray[np.float32]],
    limit: float,
) -> NDArray[np.float32]:
    """Returns per pixel (H, W) how far the sources that would be mixed there show the same: 1 exactly, 0 not.

    How much they differ, by their variance under the weights, as a share of the energy of their detail in a window.

    Args:
        brightness: per source (H, W).
        details: per source (H, W), from :func:`local_detail`.
        weights: per source (H, W), adding up to 1.
        limit: the share from which on they are not alike.

    Example:
        >>> detail, half = np.indices((8, 8)).sum(axis=0).astype(np.float32) % 2 - 0.5, np.full((8, 8), 0.5, np.float32)
        >>> float(sameness([detail, detail], [detail, detail], [half, half], 0.01).min())
        1.0
        >>> float(sameness([detail, -detail], [detail, -detail], [half, half], 0.01).max())
        0.0
    """
    mean = _weighted_sum(brightness, weights)
    spread = _weighted_sum([np.square(own - mean) for own in brightness], weights)
    energy = _weighted_sum([np.square(own) for own in details], weights)
    spread, energy = (_local_mean(own, SAMENESS_WINDOW) for own in (spread, energy))
    alike = np.clip(1 - spread / np.maximum(np.float32(limit) * energy, np.float32(1e-12)), 0, 1)
    # Where there is nothing to compare nothing is known to be alike.
    return np.asarray(np.where(energy > 0, alike, 0), np.float32)


def _weighted_sum(maps: Sequence[NDArray[np.float32]], weights: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    return functools.reduce(np.add, (weight * own for own, weight in zip(maps, weights, strict=True)))


def stack_evidence(frames: Sequence[NDArray[np.float32]], noise: float) -> NDArray[np.float32]:
    """Returns per pixel (H, W) how much detail the frame that has most of it has; see :func:`detail_evidence`."""
    return functools.reduce(np.maximum, (detail_evidence(frame, noise) for frame in frames))


def settle_logits(logits: Sequence[NDArray[np.float32]], evidence: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Returns logits (H, W) per source that follow the surroundings where there is no evidence.

    Evidence-weighted means at growing scales (the "pull" of Gortler's push-pull), filled in from coarse to fine (the
    "push"): full evidence keeps a logit as it is, none takes that of the nearest pixels that have some.

    Args:
        logits: per source (H, W).
        evidence: (H, W) in 0..1, from :func:`stack_evidence`.

    Example:
        >>> logits = [np.zeros((8, 8), np.float32), np.full((8, 8), -3, np.float32)]
        >>> settled = settle_logits(logits, np.ones((8, 8), np.float32))
        >>> bool(np.allclose(settled, logits, atol=1e-5))
        True
    """
    highest = functools.reduce(np.maximum, logits)
    smallest = np.float32(1e-6)
    weights = [np.maximum(evidence, smallest)]
    for _ in range(SETTLING_LEVELS):
        weights.append(np.maximum(cv2.pyrDown(weights[-1]), smallest))
    settled = []
    for own in logits:
        weighted = [weights[0] * np.maximum(own - highest, np.float32(-LARGEST_MARGIN))]
        for _ in range(SETTLING_LEVELS):
            weighted.append(cv2.pyrDown(weighted[-1]))
        value = weighted[-1] / weights[-1]
        for level in range(SETTLING_LEVELS - 1, -1, -1):
            weight = np.minimum(weights[level], 1)
            wider = cv2.pyrUp(value, dstsize=(weight.shape[1], weight.shape[0]))
            value = weight * (weighted[level] / weights[level]) + (1 - weight) * wider
        settled.append(np.asarray(value, np.float32))
    return settled


def selection_weights(logits: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
    """Returns the weight (H, W) of each source: the softmax of the logits over the sources, without what is negligible.

    These are the probabilities that the network was trained to give. Where one source is all but certain it weighs 1,
    so that its pixels are copied as they are.

    Example:
        >>> first, second = selection_weights([np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32)])
        >>> round(float(second[0, 0]), 3), float((first + second)[0, 0])
        (0.734, 1.0)
        >>> first, second = selection_weights([np.zeros((1, 1), np.float32), np.full((1, 1), 9, np.float32)])
        >>> float(first[0, 0]), float(second[0, 0])
        (0.0, 1.0)
    """
    highest = functools.reduce(np.maximum, logits)
    # Taken off and not cut off: a weight that fades has no step.
    weights = [np.maximum(np.exp(own - highest) - NEGLIGIBLE, 0) for own in logits]
    total = weights[0].copy()
    for own in weights[1:]:
        total += own
    return [own / total for own in weights]


def largest_of(weights: Sequence[NDArray[np.float32]]) -> NDArray[np.intp]:
    """Returns the place (H, W) of the largest of some maps; of equal ones the first. Far faster than ``argmax``."""
    place, best = np.zeros(weights[0].shape, np.intp), weights[0]
    for number, own in enumerate(weights[1:], start=1):
        place[own > best] = number
        best = np.maximum(best, own)
    return place


def lead_of(logits: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Returns by how much the network's probability of the best source exceeds that of the next (H, W)."""
    if len(logits) == 1:
        return np.ones_like(logits[0])
    best, *others = selection_weights(logits)
    following = np.zeros_like(best)
    for own in others:
        following = np.maximum(following, np.minimum(best, own))
        best = np.maximum(best, own)
    return np.asarray(best - following, np.float32)


def weighty_area(weight: NDArray[np.float32]) -> Area:
    """Returns the rows and columns of a map (H, W) outside of which it is 0; nothing of a map that is 0 everywhere.

    Example:
        >>> weighty_area(np.eye(4, dtype=np.float32)[:, 1:3])
        (slice(1, 3, None), slice(0, 2, None))
    """
    there = weight != 0
    rows, columns = (np.flatnonzero(there.any(axis=axis)) for axis in (1, 0))
    if not rows.size:
        return slice(0, 0), slice(0, 0)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def blend_frames(
    frames: Iterable[NDArray[np.float32]],
    weights: Sequence[NDArray[np.float32]],
    *,
    areas: Sequence[Area] | None = None,
    curve: Curve | None = None,
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.float32]:
    """Returns the weighted sum (H, W[, 3]) of the frames.

    Args:
        frames: pictures (H, W[, 3]); each is needed only once, so they may be read as they come.
        weights: per frame (H, W), adding up to 1 over the frames.
        areas: per frame the rows and columns that it is given in, outside of which it weighs nothing; None for all.
        curve: transfer curve of the values; pixels are then mixed in linear light, and copied ones stay as they are.
        progress: called with the number of frames done.
    """
    result: NDArray[np.float32] | None = None
    # Most pixels are copies of one frame; only the others are worth the powers that linear light takes.
    mixed = None if curve is None else functools.reduce(np.maximum, weights) < 1
    light: NDArray[np.float32] | None = None
    everywhere = slice(None), slice(None)
    given = [everywhere] * len(weights) if areas is None else areas
    for number, (frame, weight, area) in enumerate(zip(frames, weights, given, strict=True)):
        if result is None:
            result = np.zeros((*weight.shape, *frame.shape[2:]), np.float32)
        own = weight[area]
        result[area] += frame * _for_channels(own, frame.shape[2:])
        if curve is not None and mixed is not None and mixed.any():
            there = mixed[area] & (own > 0)
            share = own[there]
            if light is None:
                light = np.zeros_like(result)
            light[area][there] += curve.to_linear(frame[there]) * (share[:, None] if frame.ndim == 3 else share)
        if progress is not None:
            progress(number + 1)
    if result is None:
        raise ValueError("there are no frames to blend")
    if curve is not None and light is not None:
        result[mixed] = curve.from_linear(light[mixed])
    return result


def _for_channels(weight: NDArray[np.float32], channels: tuple[int, ...]) -> NDArray[np.float32]:
    """Returns what a frame is multiplied with; for colours (H, W, 3), much faster than what repeats by itself."""
    if channels == (3,) and weight.size:
        return np.asarray(cv2.merge([weight] * 3), np.float32)
    return weight[..., None] if channels else weight
