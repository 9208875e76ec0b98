"""What of a file of a microscope is fused: which positions, times and channels, and what is known about them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from allfocus.errors import InputError, OutputError
from allfocus.images.calibrated_files import imagej_cannot, is_ome_tiff, is_zarr_name
from allfocus.images.dimensions import EACH, EVERY, Dimensions
from allfocus.images.frame_file import FrameFile
from allfocus.images.listing import TIFF_SUFFIXES, list_files
from allfocus.images.numbered_names import group_numbered
from allfocus.images.ome_zarr_folders import is_zarr
from allfocus.images.stack_file import StackFile, as_colour, open_planes, open_stack_file
from allfocus.stack.options import FuseOptions
from allfocus.stack.outputs import FuseOutputs, Paths

CALIBRATED_KINDS = ("OME-TIFF", "ImageJ TIFF")
"""Files that may know the size of a pixel though they hold one stack of one channel."""


@dataclass(frozen=True, eq=False)
class Selection:
    """The part of a file that is fused."""

    file: StackFile
    places: tuple[tuple[int, int], ...]
    """Position and time of each stack, from 0."""
    channels: tuple[int, ...] | None
    """Channels of each stack, from 0; None where each plane is a picture, grey or in colours."""
    deciding: tuple[int, ...] | None = None
    """Which of these channels are decided on, by their place among them; None decides each by itself."""

    @property
    def is_one(self) -> bool:
        """Whether it is one stack of one channel, like any other stack of pictures."""
        return len(self.places) == 1 and (self.channels is None or len(self.channels) == 1)

    def held(self, position: int) -> Dimensions:
        """What is known about a position, with the channels that are taken."""
        held = self.file.positions[position]
        if self.channels is None:
            return as_colour(held) if self.file.zarr else held
        return replace(held, channels=tuple(held.channels[number] for number in self.channels))

    @property
    def first(self) -> Dimensions:
        """What is known about the first stack."""
        return self.held(self.places[0][0])

    def results(self) -> tuple[Dimensions, ...]:
        """What is known about each position of the result, which has the times that were taken."""
        positions = list(dict.fromkeys(position for position, _ in self.places))
        return tuple(
            replace(self.held(position), times=sum(other == position for other, _ in self.places))
            for position in positions
        )

    def frames(self, place: int, channel: int) -> list[FrameFile]:
        """The planes of a channel, by its place among those that are taken, of one of the stacks."""
        position, time = self.places[place]
        return self.file.frames(position, time, None if self.channels is None else self.channels[channel])

    def name(self, place: int) -> str:
        """How messages call one of the stacks: only by what there is several of."""
        position, time = self.places[place]
        parts = [f"position {self.file.positions[position].name}"] if len(self.file.positions) > 1 else []
        parts += [f"time {time + 1}"] if self.file.positions[position].times > 1 else []
        return ", ".join(parts) or self.file.path.name


def select_planes(paths: Paths, options: FuseOptions, names: Sequence[str] | None = None) -> Selection | None:
    """What of a file is fused; None for a stack of plain pictures, which knows neither positions nor channels.

    Args:
        paths: The frames.
        options: Which position, time and channels are wanted.
        names: How messages call each file; files that have names of their own are single planes.

    Raises:
        InputError: there is no such position, time or channel, or there are several and none was named.
    """
    found = _find_file(paths) if names is None else open_planes(list_files(paths), names)
    asked_by = options.decide_by.strip()
    names_channel = asked_by.casefold() not in (EVERY, EACH)
    if found is None:
        if asked := [name for name in ("position", "time", "channels") if getattr(options, name) is not None]:
            raise InputError(
                f"the frames are plain pictures and have no {asked[0]}",
                hint=f"{{{asked[0]}=default}}",
                code="bad-option",
            )
        if names_channel:
            raise _nothing_to_choose("the frames are plain pictures", asked_by)
        return None
    positions = found.position_numbers(options.position)
    places = [(position, time) for position in positions for time in found.time_numbers(position, options.time)]
    first = found.positions[positions[0]]
    _require_alike(found, positions)
    colour = first.samples == 3 or (found.zarr and options.channels is None and as_colour(first).samples == 3)
    if first.samples == 3 and len(first.channels) > 1:
        raise InputError(
            f"holds {len(first.channels)} channels of colour pictures; save one of them",
            where=found.path,
            code="unsupported-picture",
        )
    if colour or (len(first.channels) == 1 and not found.zarr):
        if names_channel:
            why = f"{found.path.name} holds one channel, or colours that belong together"
            raise _nothing_to_choose(why, asked_by)
        return Selection(found, tuple(places), None)
    chosen = first.choose_channels(options.channels)
    taken = replace(first, channels=tuple(first.channels[number] for number in chosen))
    deciding = None
    if asked_by.casefold() != EACH:
        deciding = tuple(taken.choose_channels(None if asked_by.casefold() == EVERY else asked_by))
    return Selection(found, tuple(places), tuple(chosen), deciding)


def _nothing_to_choose(why: str, channel: str) -> InputError:
    return InputError(
        f"{why}: there is no channel {channel} to decide by", hint="{decide_by=default}", code="bad-option"
    )


def _find_file(paths: Paths) -> StackFile | None:
    """What a microscope left; None for pictures, which others look at more closely, with the errors that they have."""
    given = [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(path) for path in paths]
    zarr = len(given) == 1 and os.path.isdir(given[0]) and is_zarr(given[0])
    try:
        files = [] if zarr else list_files(given)
        if len(files) > 1 and group_numbered(files) is None:
            return open_planes(files)
        found = open_stack_file(given)
    except InputError as error:
        if zarr or error.code in ("incomplete-stack", "unsupported-picture", "damaged-picture"):
            raise
        return None
    described = zarr or found.numbered is not None or not found.is_plain or found.kind in CALIBRATED_KINDS
    return found if described else None


def _require_alike(found: StackFile, positions: Sequence[int]) -> None:
    """Raise InputError for a series of positions that do not hold the same channels and planes."""
    first = found.positions[positions[0]]
    for number in positions[1:]:
        held = found.positions[number]
        if (len(held.channels), held.samples, held.dtype) != (len(first.channels), first.samples, first.dtype):
            raise InputError(
                f"positions {first.name} and {held.name} differ in channels or type",
                where=found.path,
                hint="{position} to one of them",
                code="unequal-frames",
            )


def check_format(path: Path, selection: Selection | None, bit_depth: int | None) -> None:
    """Raise OutputError when a format cannot hold all that is selected.

    Raises:
        OutputError: it holds one picture, and there are several channels, times or positions.
    """
    if selection is None or selection.is_one or is_ome_tiff(path) or is_zarr_name(path):
        return
    problem = f"{path.suffix or 'this ending'} holds one picture"
    if path.suffix.lower() in TIFF_SUFFIXES:
        kinds = {8: "uint8", 16: "uint16", 32: "float32"}
        results = selection.results()
        if bit_depth is not None:
            results = tuple(replace(held, dtype=kinds[bit_depth]) for held in results)
        if not (cannot := imagej_cannot(results)):
            return
        problem = f"the TIFF of ImageJ {cannot}"
    count = len(selection.channels or (0,))
    several = [f"{count} channels"] if count > 1 else []
    several += [f"{len(selection.places)} positions and times"] if len(selection.places) > 1 else []
    raise OutputError(
        f"{problem}, and the result has {' of '.join(several)}",
        where=path,
        hint=["choose a name that ends in .ome.tif or .ome.zarr", "{channels} to one"],
        code="unwritable-format",
    )


def refuse_single_wishes(selection: Selection, outputs: FuseOutputs, options: FuseOptions) -> None:
    """Raise InputError for outputs and options that mean nothing for several channels, times or positions."""
    maps, series = outputs.maps(), len(selection.places) > 1
    several = "several times or positions" if series else "several channels"
    if wish := next((name for name in ("cull", "dark", "hot_pixels") if getattr(options, name)), ""):
        raise InputError(
            f"{wish.replace('_', ' ')} is for single stacks, not for {several}",
            hint=f"{{{wish}=default}}",
            code="bad-option",
        )
    if options.slabs is not None:
        raise InputError(f"slabs are not made of {several}", hint="{slabs=default}", code="bad-option")
    if "report" in maps:
        raise InputError(f"there is no report about {several}", hint="{report=default}", code="bad-option")
    if series:
        _check_series_maps(maps)
    shared = ("decision_map", "depth_map", "error_map", "confidence_map")
    if selection.channels is not None and selection.deciding is None and any(name in maps for name in shared):
        raise InputError(
            "each channel is decided by itself, so there is no one map of them",
            hint=["{decide_by=default}", "leave out the maps"],
            code="method-cannot",
        )
    if "veil_map" in maps:
        raise InputError("no haze is removed from several channels", hint="{veil_map=default}", code="method-cannot")


SERIES_MAPS = ("depth_map", "error_map", "decision_map", "confidence_map")
"""Maps that a series has, as a series of their own; the depth without a preview."""


def _check_series_maps(maps: Mapping[str, Path]) -> None:
    """Raise InputError for maps that a series does not have, or that their format cannot hold."""
    for name, path in maps.items():
        if name == "depth_preview":
            continue
        if name not in SERIES_MAPS:
            raise InputError(
                f"{name} shows one picture, and there are several times or positions",
                hint=["{position} and {time} to one", f"{{{name}=default}}"],
                code="bad-option",
            )
        if not (is_ome_tiff(path) or is_zarr_name(path)):
            raise OutputError(
                f"{path.suffix or 'this ending'} holds one picture, and there is a map of every time and position",
                where=path,
                hint="choose a name that ends in .ome.tif or .ome.zarr",
                code="unwritable-format",
            )
