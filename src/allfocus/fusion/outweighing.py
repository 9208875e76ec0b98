"""Fine detail that the network would give away: whoever has far less of it than another frame is set back.

Detail of single pixels cannot come of blur, so a frame that shows it is in focus on something there. The network, which
looks further, now and then gives all that is around a strong thing to that thing's frame, and a hair that crosses it
ends.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.settings import DecisionSettings
from allfocus.fusion.windows import Area

RIM = 8
"""Pixels from the end of the picture within which detail outweighs nothing: blur of what lies beyond the end has edges
there that belong to nothing in the picture."""
MOST = np.float32(9.0)
"""Logits, at most, by which a frame is set back: as good as lost."""


def outweighed(
    brightness: NDArray[np.float32],
    competing: NDArray[np.bool_],
    *,
    noise: float,
    region: Area,
    size: tuple[int, int],
    settings: DecisionSettings,
) -> NDArray[np.float32]:
    """Returns by how many logits each frame (n, h, w) is set back where another has several times its finest detail.

    Args:
        brightness: (n, h, w) of the frames at level 0, as the network sees values.
        competing: (n, h / 2, w / 2), where each of them competes.
        noise: its standard deviation, in the same values.
        region: where this is in the level.
        size: height and width of the level.
        settings: how much more is needed, and how much it counts.
    """
    details = [_finest_detail(own, noise) for own in brightness]
    most = np.zeros_like(details[0])
    for own, there in zip(details, competing, strict=True):
        np.maximum(most, own * there.repeat(2, axis=0).repeat(2, axis=1), out=most)
    rows, columns = (_inside(side, length) for side, length in zip(region, size, strict=True))
    most *= rows[:, None] & columns
    allowed, rate = np.float32(settings.outweighing**2), np.float32(settings.outweighed / 2)
    result = np.empty((len(details), *most.shape), np.float32)
    for own, back in zip(details, result, strict=True):
        np.log(np.maximum(most / (allowed * own), 1), out=back)
        # What is so in a single pixel alone is chance.
        back[...] = cv2.medianBlur(np.minimum(rate * back, MOST), 3)
    return result


def _finest_detail(brightness: NDArray[np.float32], noise: float) -> NDArray[np.float32]:
    """Returns the energy of the finest detail at each pixel (h, w), that of noise at the least."""
    detail = brightness - cv2.GaussianBlur(brightness, (7, 7), 1.0)
    return np.asarray(cv2.GaussianBlur(detail * detail, (3, 3), 0.5) + np.float32((2 * noise) ** 2), np.float32)


def _inside(side: slice, length: int) -> NDArray[np.bool_]:
    place = np.arange(side.start, side.stop)
    return np.asarray((place >= RIM) & (place < length - RIM))
