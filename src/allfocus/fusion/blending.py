"""Sources and selection logits -> one picture, streaming over the sources."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


def selection_weights(logits: Sequence[NDArray[np.float32]], *, sharpness: float) -> list[NDArray[np.float32]]:
    """Returns the weight (H, W) of each source: the softmax over the sources of `sharpness` times the logits.

    Example:
        >>> first, second = selection_weights([np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32)], sharpness=1)
        >>> round(float(second[0, 0]), 4), float((first + second)[0, 0])
        (0.7311, 1.0)
    """
    highest = logits[0]
    for others in logits[1:]:
        highest = np.maximum(highest, others)
    weights = [np.exp(np.float32(sharpness) * (own - highest)) for own in logits]
    total = weights[0].copy()
    for own in weights[1:]:
        total += own
    return [own / total for own in weights]


def blend_frames(
    frames: Iterable[NDArray[np.float32]],
    weights: Sequence[NDArray[np.float32]],
    *,
    progress: Callable[[int], None] | None = None,
) -> NDArray[np.float32]:
    """Returns the weighted sum (H, W[, 3]) of the frames.

    Args:
        frames: pictures (H, W[, 3]); each is needed only once, so they may be read as they come.
        weights: per frame (H, W), adding up to 1 over the frames.
        progress: called with the number of frames done.
    """
    result: NDArray[np.float32] | None = None
    for number, (frame, weight) in enumerate(zip(frames, weights, strict=True)):
        part = frame * (weight[..., None] if frame.ndim == 3 else weight)
        result = part if result is None else np.add(result, part, out=result)
        if progress is not None:
            progress(number + 1)
    if result is None:
        raise ValueError("there are no frames to blend")
    return result
