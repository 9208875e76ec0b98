"""What a fused picture lost of its frames: the figures, the sentences about them, and a picture of it."""

from dataclasses import asdict, dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.frame_checks import grey_levels
from allfocus.fusion.lost_places import LostPlace, Map
from allfocus.progress import Notice

WARNING_SHARE = 0.3
"""Percent of the picture in which detail is lost, above which the user is told."""
WARNING_ERASED = 0.02
"""The same for detail of which more than :data:`ERASED` is missing: a leg is a small part of a picture. Rings and other
things that can be mistaken for detail seldom lose as much."""
ERASED = 2 / 3

RANGE_PERCENTILES = (0.2, 99.8)
WARM = (1.0, 0.35, 0.05)
"""The colour of lost detail in a picture."""


@dataclass(frozen=True, eq=False)
class LostDetail:
    """Which detail of the frames a fused picture does not show."""

    share: float
    """Percent of the picture in which detail is lost; 0 is best."""
    erased: float
    """Percent of the picture in which more than two thirds of it are."""
    bands: dict[int, float]
    """Band -> percent of the places with detail in which it is lost. Band 0 holds what is one or two pixels wide in the
    fused picture, each next one what is twice as wide; large pictures begin with band 1."""
    map: NDArray[np.float32]
    """(h, w), how much of the detail is lost in each cell: 0 none, else from one half to 1."""
    frames: NDArray[np.int16]
    """(h, w), the frame that shows the lost detail, counted from 0; -1 where none is lost."""
    cell: int
    """Pixels of the fused picture along each side of a cell of the maps; the last cells may reach beyond it."""
    places: tuple[LostPlace, ...] = ()
    """The worst places, worst first; none overlap."""
    mended: tuple[LostPlace, ...] = ()
    """Places that had lost detail and were decided again (:mod:`.mending`), each with the frame that was taken and what
    had been lost; largest first."""
    strength: NDArray[np.float32] | None = None
    """(h, w), how strong what is missing in each cell is, as part of the range of values; None where not known."""
    showing: NDArray[np.int16] | None = None
    """(h, w, 2), the first and the last frame that show at least seven tenths of what the best one shows, and with it
    all between them as far as focus goes through a place once; -1 where none is lost, None where not known."""

    @property
    def is_worth_a_warning(self) -> bool:
        """Whether more is lost than :data:`WARNING_SHARE` or erased than :data:`WARNING_ERASED`."""
        return self.share > WARNING_SHARE or self.erased > WARNING_ERASED

    @property
    def warning(self) -> str:
        """The sentence that tells the user what is lost; empty where it is not worth one."""
        if not self.is_worth_a_warning or not self.places:
            return ""
        worst = self.places[0]
        across, down = worst.left + worst.width // 2, worst.top + worst.height // 2
        return Notice(
            f"detail lost in {max(self.share, 0.01):.2g} % of the picture, most at {across}, {down}: "
            f"frame {worst.frame + 1} shows more there"
        )

    @property
    def mending(self) -> str:
        """The sentence that tells the user where detail was brought back; empty where none was."""
        if not self.mended:
            return ""
        first = self.mended[0]
        across, down = first.left + first.width // 2, first.top + first.height // 2
        if len(self.mended) == 1:
            return Notice(f"detail was lost and brought back at {across}, {down}, from frame {first.frame + 1}")
        return Notice(
            f"detail was lost and brought back in {len(self.mended)} places, the largest at {across}, {down}, "
            f"from frame {first.frame + 1}"
        )

    def to_plain(self) -> dict[str, Any]:
        """The figures without the maps, as JSON takes them; frames are counted from 1."""
        places, mended = (
            [{**asdict(place), "frame": place.frame + 1} for place in group] for group in (self.places, self.mended)
        )
        return {
            "share": round(self.share, 4),
            "erased": round(self.erased, 4),
            "bands": {str(band): round(share, 4) for band, share in self.bands.items()},
            "places": places,
            "mended": mended,
        }


def paint_lost_detail(image: NDArray[Any], lost_detail: LostDetail) -> Map:
    """A picture (H, W, 3) in 0..1 to look at: the fused one in grey, and what it lost in a warm colour.

    Args:
        image: The fused picture, (H, W, 3) or (H, W), floating point, at full scale or reduced. A dark one is shown
            brighter.
        lost_detail: Of that picture.

    Example:
        >>> from allfocus.fusion.detail_meter import measure_lost_detail
        >>> sharp = np.random.default_rng(0).random((128, 128), np.float32)
        >>> painted = paint_lost_detail(sharp * 0, measure_lost_detail(sharp * 0, [sharp, sharp * 0]))
        >>> [round(value, 2) for value in painted[64, 64].tolist()]
        [1.0, 0.35, 0.05]
    """
    height, width = image.shape[:2]
    grey = grey_levels(np.asarray(image, np.float32))
    low, high = robust_ends(grey)
    if not 0.2 <= high <= 1 or low < 0:
        black = min(low, 0.0)
        grey = (grey - np.float32(black)) / np.float32(max(high - black, float(np.finfo(np.float32).tiny)))
    cell, (rows, columns) = lost_detail.cell, lost_detail.map.shape
    whole = (rows, columns) == (-(-height // cell), -(-width // cell))
    size = (columns * cell, rows * cell) if whole else (width, height)
    opacity = cv2.resize(lost_detail.map, size, interpolation=cv2.INTER_LINEAR)[:height, :width]
    # Paler than the picture itself, so that the marks stand out.
    ground = np.clip(0.2 + 0.6 * grey, 0, 1)
    painted = np.empty((height, width, 3), np.float32)
    for channel, value in enumerate(WARM):
        painted[..., channel] = ground + (np.float32(value) - ground) * opacity
    return painted


def robust_ends(picture: Map) -> tuple[float, float]:
    """The least and the largest value, but for a few; all count where nearly all are the same."""
    low, high = np.percentile(picture[::4, ::4], RANGE_PERCENTILES)
    if low == high:
        low, high = picture.min(), picture.max()
    return float(low), float(high)
