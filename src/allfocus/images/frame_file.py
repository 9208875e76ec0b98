"""Where the frames of a stack lie, and what their headers say, before a pixel is decoded."""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from allfocus.images.decoded import Header
from allfocus.images.listing import Paths, list_files
from allfocus.images.ome_zarr_planes import ZarrPlane
from allfocus.images.reading import guarded, require_format, with_file


@dataclass(frozen=True)
class FrameFile:
    """Where one frame of a stack lies, and what its header says, before it is read."""

    path: Path
    """The file."""

    header: Header
    """Size, channels and bit depth, as the file promises them."""

    called: str | None = None
    """What messages call the file, where that is not its own name."""

    label: str | None = None
    """What messages call the frame, where its number in the file says little."""

    zarr: ZarrPlane | None = None
    """Where it lies in an OME-Zarr, which the path is then."""

    of_video: bool = False
    """Whether it is a frame of a video, which the path is then."""

    @property
    def page(self) -> int:
        """The page of a multi-page file, from 0."""
        return self.header.page

    @property
    def name(self) -> str:
        """How messages call this frame: its file name, with the page (from 1) for a multi-page file."""
        if self.label is not None and self.called is None:
            return self.label
        name = self.called or self.path.name
        kind = "frame" if self.of_video else "page"
        return name if self.header.pages == 1 else f"{name} {kind} {self.page + 1}"

    @property
    def place(self) -> str:
        """Where an error says that it happened: the path, or what the frame is called instead."""
        return str(self.path) if self.called is None else self.name

    @property
    def height(self) -> int:
        """Rows of pixels, upright."""
        return self.header.size[0]

    @property
    def width(self) -> int:
        """Columns of pixels, upright."""
        return self.header.size[1]

    @property
    def is_colour(self) -> bool:
        """True for RGB, False for one channel."""
        return self.header.channels == 3


def read_headers(file: BinaryIO, path: Path) -> list[FrameFile]:
    """The frames in an open file by its headers alone; ``path`` is the name it goes by."""
    kind = require_format(file, path)
    headers = guarded(path, lambda: kind.read_headers(file))
    return [FrameFile(path, header) for header in headers]


def list_frames(paths: Paths) -> list[FrameFile]:
    """Where each frame of a stack lies, in the order of the stack, without decoding pixels.

    Args:
        paths: Files, folders, patterns (``"shots/DSC*.tif"``), or multi-page TIFF files. Files named one by one keep
            their order; the pictures of a folder or pattern come in natural order of their names (``a2`` before
            ``a10``), the pages of a file in theirs.

    Raises:
        InputError: a path is missing, a folder holds no picture, or a file is no picture.
    """
    return [frame for path in list_files(paths) for frame in frames_of(path)]


def frames_of(path: Path) -> list[FrameFile]:
    """The frames in a file by its headers alone."""
    return with_file(path, lambda file: read_headers(file, path))
