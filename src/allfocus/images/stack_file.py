"""What a file, an OME-Zarr or a folder of a microscope holds, and where each of its planes lies.

The one place that knows positions, times and channels: everything above asks it for the planes of one channel at one
time and position, which are the frames of a stack like any other. Only headers are read here; planes are decoded one at
a time by :class:`allfocus.images.stack_reader.StackReader`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from allfocus.errors import InputError
from allfocus.files.names import named_path
from allfocus.images.decoded import Header
from allfocus.images.decoders import TIFF, find_format
from allfocus.images.dimensions import Channel, Dimensions, whole_number
from allfocus.images.frame_file import FrameFile, list_frames, read_headers
from allfocus.images.listing import Paths, list_files
from allfocus.images.numbered_names import NumberedFiles, group_numbered
from allfocus.images.ome_sets import OmeSet, open_ome_set
from allfocus.images.ome_zarr_folders import is_zarr
from allfocus.images.ome_zarr_planes import ZarrStack
from allfocus.images.ome_zarr_reading import dimensions_of, list_images
from allfocus.images.reading import guarded, with_file
from allfocus.images.tiff_decoder import read_page_headers
from allfocus.images.tiff_dimensions import TiffStack, describe_tiff

ALL = "all"
"""Stands for every position, or every time."""
SEVERAL = {"position": "positions", "time": "points in time"}
RGB = ("#ff0000", "#00ff00", "#0000ff")


@dataclass(frozen=True, eq=False)
class StackFile:
    """What a file (or folder) holds.

    Example:
        >>> import tempfile, numpy as np, tifffile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tifffile.imwrite(f"{folder}/a.ome.tif", np.zeros((5, 2, 8, 9), np.uint16), metadata={"axes": "ZCYX"})
        ...     found = open_stack_file(f"{folder}/a.ome.tif")
        ...     [frame.page for frame in found.frames(0, 0, 1)]
        [1, 3, 5, 7, 9]
    """

    path: Path
    """The file, the OME-Zarr, or the folder."""
    kind: str
    """What messages call this kind: OME-TIFF, OME-Zarr 0.5 ..."""
    positions: tuple[Dimensions, ...]
    """What each position holds; one for files that know no positions."""
    tiff: TiffStack | None = field(default=None, repr=False)
    zarr: tuple[ZarrStack, ...] = field(default=(), repr=False)
    numbered: NumberedFiles | None = field(default=None, repr=False)
    parts: tuple["StackFile", ...] = field(default=(), repr=False)
    """One for each plane, where every plane lies in a file of its own with all its channels."""
    called: tuple[str, ...] = ()
    """What messages call each of these files, where that is not its own name."""
    of_set: OmeSet | None = field(default=None, repr=False)
    """Where its planes lie, if that is in some of the several files of an OME-TIFF."""
    files: tuple[Path, ...] = field(default=(), repr=False)
    """The files of that set, in the order in which it counts them, or those of a stack of plain pictures."""
    notices: tuple[str, ...] = ()
    """What was found when it was opened, one sentence each."""

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Every file that it is read from, whichever of its planes are taken: none of them may be written."""
        if self.numbered is not None:
            return tuple(path for files in self.numbered.files for path in files.values())
        return self.files or tuple(part.path for part in self.parts) or (self.path,)

    @property
    def is_plain(self) -> bool:
        """Whether it is one stack of one channel, as a folder of photos is."""
        first = self.positions[0]
        return len(self.positions) == 1 and first.times == 1 and len(first.channels) == 1 and not self.zarr

    def position_numbers(self, asked: str | None) -> list[int]:
        """Which positions are meant, from 0: by name, by number from 1, or all; None where there is only one.

        Raises:
            InputError: there is none of that name, or there are several and none was named.
        """
        return _choose("position", [held.name for held in self.positions], asked, self.path)

    def time_numbers(self, position: int, asked: str | None) -> list[int]:
        """Which points in time are meant, from 0: by number from 1, or all; None where there is only one.

        Raises:
            InputError: there is no such point, or there are several and none was named.
        """
        count = self.positions[position].times
        return _choose("time", [str(number) for number in range(1, count + 1)], asked, self.path)

    def frames(self, position: int, time: int, channel: int | None) -> list[FrameFile]:
        """The planes of one channel, from the first to the last; numbers count from 0.

        None takes the channels together as colours, of an OME-Zarr for which :func:`as_colour` says so.

        Raises:
            InputError: a file is damaged.
        """
        held = self.positions[position]
        if self.zarr:
            return _zarr_frames(self.path, self.zarr[position], self.positions, position, time, channel)
        channel = channel or 0
        if self.parts:
            return [self._part(number, channel) for number in range(held.planes)]
        if self.numbered is not None:
            files = self.numbered.files[position]
            found = [list_frames(files[time, channel, plane]) for plane in range(held.planes)]
            for own in found:
                if len(own) != 1:
                    raise InputError(
                        f"holds {len(own)} pictures, and its name says that it is one plane; save it as one",
                        where=own[0].path,
                        code="unsupported-picture",
                    )
            return [own[0] for own in found]
        if self.of_set is not None:
            return self._frames_of_set(self.of_set, position, time, channel)
        if self.tiff is None:
            return list_frames(self.files or self.path)
        pages = [int(page) for page in self.tiff.pages[position][time, channel]]
        headers = _page_headers(self.path, pages)
        return [
            FrameFile(self.path, header, label=self._label(position, time, channel, number))
            for number, header in enumerate(headers, start=1)
        ]

    def _frames_of_set(self, found: OmeSet, position: int, time: int, channel: int) -> list[FrameFile]:
        places = [(int(file), int(page)) for file, page in found.places[position][time, channel]]
        headers: dict[tuple[int, int], Header] = {}
        for number in dict.fromkeys(file for file, _ in places):
            path, pages = self.files[number], [page for file, page in places if file == number]
            read = _page_headers(path, pages)
            headers.update(((number, page), header) for page, header in zip(pages, read, strict=True))
        return [
            FrameFile(self.files[place[0]], headers[place], label=self._label(position, time, channel, plane))
            for plane, place in enumerate(places, start=1)
        ]

    def _part(self, number: int, channel: int) -> FrameFile:
        frame = self.parts[number].frames(0, 0, channel)[0]
        if not self.called:
            return frame
        name = f"{self.called[number]}, channel {self.positions[0].channels[channel].name}"
        return replace(frame, called=name, header=replace(frame.header, pages=1))

    def _label(self, position: int, time: int, channel: int, plane: int) -> str:
        return _label(self.path.name, self.positions, position, time, channel, plane)


def _page_headers(path: Path, pages: Sequence[int]) -> list[Header]:
    return with_file(path, lambda file: guarded(path, lambda: read_page_headers(file, pages)))


def open_stack_file(paths: Paths) -> StackFile:
    """What a file or folder holds, by its headers and names alone.

    Args:
        paths: A file, an OME-Zarr, a folder, a pattern, or several files.

    Raises:
        InputError: it is missing, damaged, or holds no pictures.
        MissingDependencyError: an OME-Zarr needs a package that is not installed.
    """
    given = list(map(named_path, [paths] if isinstance(paths, str | os.PathLike) else paths))
    if len(given) == 1 and os.path.isdir(given[0]) and is_zarr(given[0]):
        return _open_zarr(given[0])
    files = list_files(given)
    found = open_set(files)
    if found is not None:
        return found
    if len(files) == 1:
        return _open_file(files[0])
    grouped = group_numbered(files)
    if grouped is not None:
        return _open_numbered(given, grouped)
    return open_planes(files) or _open_plain(given, files)


def open_set(files: Sequence[Path], called: Sequence[str] = ()) -> StackFile | None:
    """What files of an OME-TIFF hold that is spread over several; None for files of any other kind.

    Args:
        files: All of the set, or some of them that hold whole stacks.
        called: Their names, where they are stored under others.

    Raises:
        InputError: a file belongs to another set, or planes of a stack lie in files that were not given.
    """
    try:
        found = open_ome_set(files, called)
    except InputError as error:
        if error.code in ("incomplete-stack", "several-stacks"):
            error.set_place(called[0] if called else files[0])
            raise
        return None  # told by those who read it as a picture
    if found is None:
        return None
    path = files[0] if len(files) == 1 else files[0].parent
    return StackFile(path, "OME-TIFF", found.positions, of_set=found, files=tuple(files), notices=found.notices)


def open_planes(files: Sequence[Path], called: Sequence[str] = ()) -> StackFile | None:
    """What TIFF files hold of which each has one plane in several channels; None for files of any other kind.

    Args:
        files: Two or more.
        called: What messages call each of them.

    Raises:
        InputError: a file differs from the first in its channels or its size.
    """
    try:
        first = _channels_of_plane(files[0])
    except InputError:  # told by those who read it as a picture
        return None
    if first is None:
        return None
    parts = [first]
    for path in files[1:]:
        part = _channels_of_plane(path)
        held, own = first.positions[0], None if part is None else part.positions[0]
        if part is None or own is None or _alike(own) != _alike(held):
            raise InputError(
                f"does not hold one plane of the {len(held.channels)} channels that {files[0].name} holds",
                where=path,
                code="unequal-frames",
            )
        parts.append(part)
    held = replace(first.positions[0], planes=len(parts))
    return StackFile(files[0], "planes with channels", (held,), parts=tuple(parts), called=tuple(called))


def _alike(held: Dimensions) -> tuple[object, ...]:
    return held.size, held.dtype, [channel.name for channel in held.channels]


def _channels_of_plane(path: Path) -> StackFile | None:
    """What a TIFF file holds, if that is one plane in several channels."""
    if with_file(path, lambda file: guarded(path, lambda: find_format(file))) is not TIFF:
        return None
    found = _open_file(path)
    held = found.positions[0]
    one = len(found.positions) == 1 and held.times == 1 and held.planes == 1 and held.samples == 1
    return found if one and len(held.channels) > 1 else None


def _open_zarr(path: Path) -> StackFile:
    images = list_images(path)
    version = "0.5" if images[0][1].zarr_format == 3 else "0.4"
    named = _distinct([name for name, _ in images])
    positions = tuple(dimensions_of(stack, name) for name, (_, stack) in zip(named, images, strict=True))
    return StackFile(path, f"OME-Zarr {version}", positions, zarr=tuple(stack for _, stack in images))


def as_colour(held: Dimensions) -> Dimensions:
    """The same, as colour pictures where that is what its three channels are: red, green and blue, or nothing said.

    An OME-Zarr has no other place for the colours of a picture.
    """
    colours = tuple(channel.colour for channel in held.channels)
    unnamed = not any(colours) and [channel.name for channel in held.channels] == ["1", "2", "3"]
    if held.samples == 3:
        return held
    if colours == RGB or (unnamed and held.dtype in ("uint8", "uint16")):
        return replace(held, channels=(Channel("1"),), samples=3)
    return held


def _open_file(path: Path) -> StackFile:
    def describe(file: BinaryIO) -> StackFile:
        if guarded(path, lambda: find_format(file)) is TIFF:
            tiff = guarded(path, lambda: describe_tiff(file))
            named = _distinct([held.name for held in tiff.positions])
            positions = tuple(replace(held, name=name) for held, name in zip(tiff.positions, named, strict=True))
            return StackFile(path, tiff.kind, positions, tiff=tiff)
        frames = read_headers(file, path)
        return StackFile(path, "picture", (_plain_dimensions(frames, path.stem),))

    return with_file(path, describe)


def _open_plain(given: Sequence[Path], files: Sequence[Path]) -> StackFile:
    first = list_frames(files[0])
    count = len(files) if len(first) == 1 else sum(len(list_frames(file)) for file in files)
    held = replace(_plain_dimensions(first, given[0].stem), planes=count)
    return StackFile(given[0], "folder" if len(given) == 1 else "files", (held,), files=tuple(files))


def _open_numbered(given: Sequence[Path], found: NumberedFiles) -> StackFile:
    positions = []
    for name, files in zip(found.positions, found.files, strict=True):
        own = open_stack_file(files[0, 0, 0]).positions[0]
        channels = tuple(Channel(each or "1") for each in found.channels)
        positions.append(replace(own, name=name, channels=channels, times=len(found.times), planes=found.planes))
    kind = "folder of numbered files" if len(given) == 1 else "numbered files"
    return StackFile(given[0], kind, tuple(positions), numbered=found)


def _plain_dimensions(frames: Sequence[FrameFile], name: str) -> Dimensions:
    header = frames[0].header
    dtype = {8: "uint8", 16: "uint16", 32: "float32"}[header.bit_depth]
    return Dimensions(name, header.size, dtype, planes=len(frames), samples=header.channels)


def _zarr_frames(
    path: Path, stack: ZarrStack, positions: Sequence[Dimensions], position: int, time: int, channel: int | None
) -> list[FrameFile]:
    held = positions[position]
    height, width = held.size
    depth = {"uint8": 8, "uint16": 16}.get(held.dtype, 32)
    header = Header(width, height, 3 if channel is None else 1, depth, pages=held.planes)
    return [
        FrameFile(
            path,
            replace(header, page=plane),
            label=_label(path.name, positions, position, time, channel, plane + 1),
            zarr=stack.plane(time, channel, plane),
        )
        for plane in range(held.planes)
    ]


def _label(
    name: str, positions: Sequence[Dimensions], position: int, time: int, channel: int | None, plane: int
) -> str:
    """How messages call a plane: only by what there is several of."""
    held = positions[position]
    parts = [f"plane {plane}"]
    if len(held.channels) > 1 and channel is not None:
        parts.append(f"channel {held.channels[channel].name}")
    if held.times > 1:
        parts.append(f"time {time + 1}")
    if len(positions) > 1:
        parts.append(f"position {held.name}")
    return f"{name} {', '.join(parts)}"


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with their number where two are the same."""
    return [name if names.count(name) == 1 else f"{name} {number}" for number, name in enumerate(names, start=1)]


def _choose(what: str, names: Sequence[str], asked: str | None, path: Path) -> list[int]:
    if asked is None:
        if len(names) == 1:
            return [0]
        shown = f"{', '.join(names[:8])}{' ...' if len(names) > 8 else ''}"
        raise InputError(
            f"holds {len(names)} {SEVERAL[what]} ({shown}), and a stack is one of them",
            where=path,
            hint=[f"{{{what}}} to one of them, or to all for a series"],
            code="several-stacks",
        )
    text = str(asked).strip()
    if text.casefold() == ALL:
        return list(range(len(names)))
    found = [number for number, name in enumerate(names) if name.casefold() == text.casefold()]
    if not found and 1 <= (whole_number(text) or 0) <= len(names):
        found = [int(text) - 1]
    if not found:
        shown = f"{', '.join(names[:8])}{' ...' if len(names) > 8 else ''}"
        raise InputError(f"has no {what} {text}; it has {shown}", where=path, code="no-such-plane")
    return found[:1]
