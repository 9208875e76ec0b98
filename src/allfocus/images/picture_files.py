"""Fused pictures and planes -> the files of one run, stored as was asked for, with a word about their origin.

Whoever makes the pictures says what goes into each file, and need not know how files are stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from allfocus.files.placing import StagedFiles
from allfocus.images.calibrated_files import (
    FusedPlanes,
    ReadPlane,
    encode_imagej,
    encode_ome_tiff,
    is_ome_tiff,
    is_zarr_name,
    write_ome_zarr,
)
from allfocus.images.dimensions import Dimensions
from allfocus.images.image import Image
from allfocus.images.limits import Storing
from allfocus.images.ome_xml import describe_result
from allfocus.images.ome_zarr_planes import ZarrStack
from allfocus.images.writing import encode_image
from allfocus.version import __version__

SOFTWARE = f"allfocus {__version__}"


@dataclass(frozen=True, eq=False)
class PictureFiles:
    """The pictures of one run, which get their names with its other files.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> with tempfile.TemporaryDirectory() as folder, StagedFiles() as files:
        ...     pictures = PictureFiles(files, "average", {"bit_depth": 16})
        ...     pictures.add(Path(folder, "black.png"), Image(np.zeros((4, 6, 3), np.float32)), frames=2)
    """

    files: StagedFiles
    """Where they are kept until then."""
    method: str
    """What fused them, for their history."""
    storing: Storing = field(default_factory=Storing)
    """Bits, quality and compression, as far as they were asked for."""

    def add(self, path: Path, picture: Image, *, frames: int) -> None:
        """Adds a picture that was fused from so many frames; the ending of the path gives the format."""
        self.files.add(
            path, encode_image(picture, path, history=self._history(frames), software=SOFTWARE, **self.storing)
        )

    def add_planes(
        self,
        path: Path,
        positions: Sequence[Dimensions],
        read: ReadPlane,
        *,
        frames: int,
        like: tuple[ZarrStack, ...] = (),
        chosen: tuple[int, ...] | None = None,
    ) -> None:
        """Adds fused planes with all that is known about them, as OME-Zarr, OME-TIFF or TIFF as ImageJ has it.

        Args:
            path: Its ending gives the format.
            positions: What each position holds.
            read: Gives each plane.
            frames: From how many each was fused.
            like: As :class:`FusedPlanes` has it, and the next.
            chosen: Which channels were taken.
        """
        described = [describe_result(held, self._history(frames)) for held in positions]
        held = tuple(each for each, _ in described)
        planes = FusedPlanes(held, read, described[0][1], SOFTWARE, like=like, chosen=chosen)
        if is_zarr_name(path):
            own = path.name.split(".")[0]
            self.files.add_folder(path, lambda folder: write_ome_zarr(planes, folder, name=own))
        else:
            encode = encode_ome_tiff if is_ome_tiff(path) else encode_imagej
            self.files.add(path, encode(planes, compression=self.storing.get("compression")))

    def _history(self, frames: int) -> str:
        return f"fused by {SOFTWARE} from {frames} frames with {self.method}"
