"""What has been decided at one level, kept for the level below: only of the frames that still compete somewhere."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.settings import AS_CHOSEN
from allfocus.fusion.windows import Area, overlap, within

EXCLUSION = np.float32(6.0)
"""Logits behind the best by which a frame has lost for good; the same in `allfocus.network.inheritance`."""
LONELY = np.float32(-5.5)
"""Where a frame is this far behind in the mean of a pixel and its eight neighbours, it has next to no company there."""
VEIL_CHANNELS = 4
"""Opacity, and three of colour."""


@dataclass(frozen=True)
class Tile:
    """The decision in one core."""

    area: Area
    """In pixels of its level."""
    chosen: tuple[int, ...]
    """Frames that still compete somewhere in it, in the order of the plan."""
    behind: NDArray[np.float32]
    """(chosen, h, w), 0 for the best frame of a pixel, -EXCLUSION for one that is out."""
    veil: NDArray[np.float16]
    """(chosen, 4, h / 4, w / 4)."""

    @functools.cached_property
    def running(self) -> NDArray[np.bool_]:
        """(chosen, h, w), where each frame still competes; asked for often."""
        return np.asarray(self.behind > -EXCLUSION)


def make_tile(
    area: Area,
    chosen: Sequence[int],
    logits: NDArray[np.float32],
    veil: NDArray[np.float32],
    inside: Area | None = None,
    *,
    lonely_candidate: float = AS_CHOSEN.lonely_candidate,
) -> Tile:
    """Returns the tile of what the network said of a core, without the frames that have lost everywhere in it.

    Args:
        area: The core.
        chosen: The frames.
        logits: (chosen, h, w) of the core, or of the core and what is around it.
        veil: (chosen, 4, h / 4, w / 4) of the core.
        inside: Where in the logits the core is; None for all of them. One pixel more on each side, where the picture
            has it, makes the tile the same wherever cores were cut.
        lonely_candidate: See :class:`allfocus.fusion.settings.DecisionSettings`.
    """
    behind = np.maximum(logits - logits.max(axis=0, keepdims=True), -EXCLUSION)
    for own in behind:
        own[(own < np.float32(lonely_candidate)) & (cv2.blur(own, (3, 3)) < LONELY)] = -EXCLUSION
    if inside is not None:
        behind = behind[(slice(None), *inside)]
    # Not in half precision, whose steps the factor for frames that are alike would make 32 times as large.
    behind = behind.astype(np.float32, copy=False)
    kept = [place for place in range(len(chosen)) if (behind[place] > -EXCLUSION).any()]
    return Tile(
        area,
        tuple(chosen[place] for place in kept),
        np.ascontiguousarray(behind[kept]),
        np.ascontiguousarray(veil[kept]).astype(np.float16),
    )


@dataclass
class LevelDecisions:
    """The tiles of one level."""

    order: Sequence[int]
    """All frames in the order in which they are summed; see :func:`allfocus.fusion.planning.plan_fusion`."""
    tiles: list[Tile] = field(default_factory=list)

    def add(self, tile: Tile) -> None:
        """Takes in one more tile."""
        self.tiles.append(tile)

    def competing(self, area: Area) -> list[int]:
        """Returns the frames that compete somewhere in an area, in the order of the plan."""
        found: set[int] = set()
        for tile, part in self._touching(area):
            inside = within(part, tile.area)
            found |= {
                frame
                for frame, running in zip(tile.chosen, tile.running, strict=True)
                if frame not in found and running[inside].any()
            }
        return [frame for frame in self.order if frame in found]

    def gather(self, area: Area, chosen: Sequence[int]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Returns behind (chosen, h, w) and veil (chosen, 4, h / 4, w / 4) of an area.

        The area begins at multiples of four. It may end beyond the level, as far as frames are padded: there the last
        rows and columns are repeated.
        """
        rows, columns = (side.stop - side.start for side in area)
        behind = np.full((len(chosen), rows, columns), -EXCLUSION, np.float32)
        veil = np.zeros((len(chosen), VEIL_CHANNELS, -(-rows // 4), -(-columns // 4)), np.float32)
        places = {frame: place for place, frame in enumerate(chosen)}
        last_row = last_column = 0
        for tile, part in self._touching(area):
            target, inside = within(part, area), within(part, tile.area)
            small_target, small_inside = _quarter(target), _quarter(inside)
            for own, frame in enumerate(tile.chosen):
                if frame in places:
                    behind[(places[frame], *target)] = tile.behind[(own, *inside)]
                    veil[(places[frame], slice(None), *small_target)] = tile.veil[(own, slice(None), *small_inside)]
            last_row, last_column = max(last_row, target[0].stop), max(last_column, target[1].stop)
        for maps, row, column in (
            (behind, last_row, last_column),
            (veil, -(-last_row // 4), -(-last_column // 4)),
        ):
            maps[..., row:, :] = maps[..., row - 1 : row, :]
            maps[..., :, column:] = maps[..., :, column - 1 : column]
        return behind, veil

    def _touching(self, area: Area) -> Iterable[tuple[Tile, Area]]:
        for tile in self.tiles:
            part = overlap(area, tile.area)
            if part is not None:
                yield tile, part


def _quarter(area: Area) -> Area:
    rows, columns = (slice(side.start // 4, -(-side.stop // 4)) for side in area)
    return rows, columns
