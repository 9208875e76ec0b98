"""Selection logits -> weights -> one picture.

The logits of the network say little where all sources look alike: a clear sky is as sharp in one frame as in the next.
There :func:`settle_logits` lets the surroundings decide, so that decisions stay coherent and noise stays even.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray


class Curve(Protocol):
    """How the values of a picture stand to light."""

    def to_linear(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns values in 0..1 as light in 0..1."""

    def from_linear(self, light: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns light in 0..1 as values in 0..1."""


EVIDENCE_WINDOW = 9
"""Side in pixels of the window over which sources are compared."""
EVIDENCE_NOISE = 1.5 / 255
"""Differences between sources of about this size tell nothing: the noise that a good JPEG leaves, in 8-bit levels."""
SETTLING_LEVELS = 6
"""Halvings over which evidence spreads, so it reaches about 2 ** 6 pixels and more where nothing contradicts."""
PRIOR_WEIGHT = np.float32(0.02)
"""Evidence that a prior counts as: what two pixels in a hundred can tell is as much."""
NEGLIGIBLE = np.float32(0.01)
"""A source this much as likely as the best one weighs nothing: on scenes as good, and most pixels are copies."""
LARGEST_MARGIN = 12.0
"""Logits are cut this far below the best: beyond it a source has lost anyway, and would drown its neighbourhood."""


def differing_evidence(frames: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Returns per pixel (H, W) how much there is to tell by which source is in focus: 0 nothing, 1 plenty.

    The variance over the sources of the detail (brightness less its local mean), averaged over a window, against the
    variance of noise. Detail and not brightness: where frames are only brighter or darker there is nothing to tell, and
    choosing at random would show as blotches.
    """
    window = (EVIDENCE_WINDOW, EVIDENCE_WINDOW)
    total = np.zeros(frames[0].shape[:2], np.float32)
    squares = np.zeros_like(total)
    for frame in frames:
        brightness = frame if frame.ndim == 2 else frame.mean(axis=2)
        detail = brightness - cv2.blur(brightness, window, borderType=cv2.BORDER_REFLECT_101)
        total += detail
        squares += detail * detail
    variance = np.maximum(squares / len(frames) - (total / len(frames)) ** 2, 0)
    local = cv2.blur(variance, window, borderType=cv2.BORDER_REFLECT_101)
    return np.asarray((local / (local + np.float32(EVIDENCE_NOISE**2))) ** 2, np.float32)


def settle_logits(
    logits: Sequence[NDArray[np.float32]],
    evidence: NDArray[np.float32],
    prior: Sequence[NDArray[np.float32]] | None = None,
) -> list[NDArray[np.float32]]:
    """Returns logits (H, W) per source that follow the surroundings where there is no evidence.

    Evidence-weighted means at growing scales (the "pull" of Gortler's push-pull), filled in from coarse to fine (the
    "push"): full evidence keeps a logit as it is, none takes that of the nearest pixels that have some.

    Args:
        logits: per source (H, W).
        evidence: (H, W) in 0..1, from :func:`differing_evidence`.
        prior: per source (h, w), any small size: logits that hold where even the wider surroundings say nothing.

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
    for place, own in enumerate(logits):
        weighted = [weights[0] * np.maximum(own - highest, np.float32(-LARGEST_MARGIN))]
        for _ in range(SETTLING_LEVELS):
            weighted.append(cv2.pyrDown(weighted[-1]))
        coarsest, weight = weighted[-1], weights[-1]
        if prior is not None:
            size = (coarsest.shape[1], coarsest.shape[0])
            known = cv2.resize(prior[place], size, interpolation=cv2.INTER_AREA)
            coarsest, weight = coarsest + PRIOR_WEIGHT * known, weight + PRIOR_WEIGHT
        value = coarsest / weight
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


def blend_frames(
    frames: Iterable[NDArray[np.float32]],
    weights: Sequence[NDArray[np.float32]],
    *,
    curve: Curve | None = None,
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.float32]:
    """Returns the weighted sum (H, W[, 3]) of the frames.

    Args:
        frames: pictures (H, W[, 3]); each is needed only once, so they may be read as they come.
        weights: per frame (H, W), adding up to 1 over the frames.
        curve: transfer curve of the values; pixels are then mixed in linear light, and copied ones stay as they are.
        progress: called with the number of frames done.
    """
    result: NDArray[np.float32] | None = None
    # Most pixels are copies of one frame; only the others are worth the powers that linear light takes.
    mixed = None if curve is None else functools.reduce(np.maximum, weights) < 1
    light: NDArray[np.float32] | None = None
    for number, (frame, weight) in enumerate(zip(frames, weights, strict=True)):
        part = frame * (weight[..., None] if frame.ndim == 3 else weight)
        result = part if result is None else np.add(result, part, out=result)
        if curve is not None and mixed is not None and mixed.any():
            share = weight[mixed]
            linear = curve.to_linear(frame[mixed]) * (share[:, None] if frame.ndim == 3 else share)
            light = linear if light is None else light + linear
        if progress is not None:
            progress(number + 1)
    if result is None:
        raise ValueError("there are no frames to blend")
    if curve is not None and light is not None:
        result[mixed] = curve.from_linear(light)
    return result
