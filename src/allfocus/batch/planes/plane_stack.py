"""What is known of a stack of planes larger than the memory: where it lies, what it holds, how it is decided."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

from allfocus.fusion.channels import Composite
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.images.dimensions import Dimensions
from allfocus.images.ome_zarr_planes import ZarrStack


@dataclass(frozen=True)
class PlaneStack:
    """Where the planes lie and what they hold; small enough to send to a worker, whatever their size."""

    name: str
    size: tuple[int, int]
    """Height and width."""
    channels: int
    """Layers of a plane: 1 for grey, 3 for red, green and blue, else one for each channel that is taken."""
    count: int
    """Planes in the stack."""
    dtype: str
    """``uint8``, ``uint16`` or ``float32`` (0..1)."""
    tile: tuple[int, int]
    """Height and width of what is read at a time."""
    zarr: ZarrStack | None = None
    """For OME-Zarr."""
    pages: tuple[tuple[str, int], ...] = ()
    """For TIFF: the file and page of each plane, channel after channel."""
    files: tuple[str, ...] = ()
    """For TIFF: every file that was given, those of channels that are not taken too."""
    taken: tuple[int, ...] | None = None
    """The channels that are taken, from 0; None where planes are grey or colour pictures."""
    time: int = 0
    """The point in time that is taken, from 0."""
    held: Dimensions | None = None
    """What the file says about what is taken of it."""
    composite: Composite | None = None
    """What is decided on where there are several channels; None decides on the planes as they are."""
    pixel_size: tuple[float, float] | None = None
    """Height and width of a pixel in micrometres; None where it is not known."""
    icc_profile: bytes | None = None
    fill_missing: bool = False
    """Whether chunks that an OME-Zarr lacks are empty; otherwise they are lost, and an error."""
    settings: DecisionSettings = AS_CHOSEN
    """How focus is decided on them."""

    @property
    def scale(self) -> int:
        """By how much planes are reduced where focus is decided."""
        return self.settings.scale(*self.size)

    @property
    def decided_size(self) -> tuple[int, int]:
        """Height and width there."""
        return -(-self.size[0] // self.scale), -(-self.size[1] // self.scale)

    @property
    def is_colour(self) -> bool:
        """Whether the layers are red, green and blue, read together."""
        return self.channels == 3 and self.taken is None

    @property
    def decided_shape(self) -> tuple[int, ...]:
        """Of what is decided on: (H, W) or (H, W, 3)."""
        seen = self.composite is not None and len(self.composite.chosen) > 1
        return (*self.size, 3) if seen or self.is_colour else self.size

    def only(self, layer: int) -> "PlaneStack":
        """The same planes with one channel of those that are taken, which is decided by itself."""
        if self.taken is None:
            return self
        pages = self.pages[layer * self.count : (layer + 1) * self.count]
        return dataclasses.replace(self, channels=1, taken=(self.taken[layer],), pages=pages, composite=None)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each plane: (H, W), or (H, W, layers)."""
        return self.size if self.channels == 1 else (*self.size, self.channels)

    def states(self) -> list[list[int]]:
        """What changes when the planes do, as far as can be told without reading them.

        Sizes and times of the files; of Zarr only those of its metadata, because it may have millions of files.
        """
        files = [Path(path) for path, _ in self.pages]
        if self.zarr is not None:
            group = Path(self.zarr.path)
            files = [folder / name for folder in (group, group / self.zarr.array) for name in ("zarr.json", ".zarray")]
        found = [os.stat(path) for path in files if path.exists()]
        return [[state.st_size, state.st_mtime_ns] for state in found]
