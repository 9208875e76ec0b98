"""How training samples are to be made: which kinds, in which shares, blurred and treated how.

A batch of the stack network mixes five kinds of samples (shares in :class:`ShuffleRecipe`):

* ``pixel``: single pixels are shuffled, as in the paper.
* ``blob``: whole regions are shuffled.
* ``moved``: as blob, but each source is also shifted, turned and zoomed a little, as in hand-held frames.
* ``graded``: blur grows smoothly with the distance from each source's focus, so no source need be fully sharp.
* ``stack``: rendered focus stacks of several layers, thin things among them (:mod:`.focus_stacks`).
"""

from dataclasses import dataclass
from typing import Literal

KINDS = ("pixel", "blob", "moved", "graded", "stack")
"""The kinds of samples, in the order in which a batch holds them."""


@dataclass(frozen=True)
class ShuffleRecipe:
    """How sources are made from photos. The defaults are the paper's."""

    mask: Literal["channel", "pixel", "multi-scale"] = "channel"
    """`channel` is equation (2) of the paper; `pixel` shares the mask between channels; `multi-scale` mixes the five
    kinds of samples by the shares below and takes any number of sources."""
    swap_probability: float = 0.5
    """The paper's p; used by `channel` and `pixel`."""
    filters: tuple[str, ...] = ("mean",)
    """Filters to draw from: mean, gaussian, disk, median (median only alone, it is slow)."""
    smallest_kernel: int = 3
    """Smallest kernel size in pixels (paper: 3)."""
    largest_kernel: int = 31
    """Largest kernel size in pixels (paper: 31)."""
    sources: tuple[int, ...] = (2,)
    """Numbers of sources to draw from, one per batch."""
    pixel: float = 1.0
    """Share of `pixel` samples."""
    blob: float = 0.0
    """Share of `blob` samples."""
    moved: float = 0.0
    """Share of `moved` samples."""
    graded: float = 0.0
    """Share of `graded` samples."""
    stack: float = 0.0
    """Share of `stack` samples."""
    furry: float = 0.0
    """Share of the `stack` samples that have hairs and legs in many layers, as an insect does."""
    soft: float = 0.0
    """Share of samples whose photo or stack is a little soft everywhere, as cameras show pictures at full size."""
    borders: float = 0.0
    """Share of samples filtered as other software does at the frame (zeros, repeated or mirrored pixels)."""
    jpeg: float = 0.0
    """Share of samples compressed as JPEG after shuffling."""
    noise: float = 0.0
    """Share of samples with noise, drawn anew for each source."""
    exposure: float = 0.0
    """Share of samples whose sources differ in brightness, as a whole and from place to place."""
    ended: float = 0.0
    """Share of batches whose pictures end a few pixels before the crop does, as those do that have to be padded."""


def split_shares(recipe: ShuffleRecipe, batch: int) -> dict[str, int]:
    """Returns how many samples of each kind a batch has; rounding never loses or adds one."""
    shares = {kind: float(getattr(recipe, kind)) for kind in KINDS}
    total = sum(shares.values())
    counts, given, reached = {}, 0, 0.0
    for kind, share in shares.items():
        reached += share / total
        counts[kind] = round(reached * batch) - given
        given += counts[kind]
    return counts
