"""What the colours of the map layers mean."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from allfocus.fusion.depth import colour_depth
from allfocus.images.conversion import to_integers


def describe_colours(maps: Sequence[str], frames: Sequence[str]) -> dict[str, Any]:
    """The legend of each map: a scale with the meaning of its ends, or a colour for each frame.

    Args:
        maps: Out of depth, decision, confidence.
        frames: Ids of the frames, in the order of the stack.

    Example:
        >>> describe_colours(["decision"], ["a", "b"])
        {'decision': {'a': '#440154', 'b': '#fde725'}}
    """
    scale = [_colour(step) for step in (0.0, 0.25, 0.5, 0.75, 1.0)]
    last = max(1, len(frames) - 1)
    known = {
        "depth": {"colours": scale, "ends": ["near", "far"]},
        "decision": {name: _colour(place / last) for place, name in enumerate(frames)},
        "confidence": {"colours": scale, "ends": ["unsure", "sure"]},
    }
    return {name: known[name] for name in maps}


@lru_cache(maxsize=4096)
def _colour(value: float) -> str:
    red, green, blue = to_integers(colour_depth(np.array([[value]], np.float32)), 8)[0, 0]
    return f"#{red:02x}{green:02x}{blue:02x}"
