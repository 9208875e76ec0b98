"""Files of microscopes on their way into the studio: planes taken apart, each kept with all its channels.

A plane is an OME-TIFF with its channels and what is known about them, so that nothing about it is lost on the way.
"""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.calibrated_files import FusedPlanes, encode_ome_tiff
from allfocus.images.conversion import from_integers, to_integers
from allfocus.images.decoded import require_pixels
from allfocus.images.dimensions import Dimensions
from allfocus.images.frame_file import FrameFile
from allfocus.images.image import Image
from allfocus.images.ome_xml import FusedFrom
from allfocus.images.reading import guarded, read_image
from allfocus.images.stack_file import StackFile, as_colour, open_stack_file
from allfocus.images.writing import replace_file, write_image
from allfocus.version import __version__

SOFTWARE = f"allfocus {__version__}"
DEPTHS = {"uint8": 8, "uint16": 16}
"""Bits of the kinds of samples that the studio takes in several channels."""
MOST_CHANNELS = 32


def find_stacks_in(file: Path) -> StackFile | None:
    """What a microscope left, if it holds more than one stack of pictures; None for anything else."""
    try:
        found = open_stack_file(file)
    except InputError:
        if file.is_dir():
            raise
        return None  # told by those who read it as a picture
    first = found.positions[0]
    if found.of_set is not None and first.count * len(found.positions) > 1:
        # Its pages become frames, and those of a second file would join them, whatever channel that holds.
        raise InputError(
            "is one of several files of an OME-TIFF, and the studio takes it as one file",
            where=file,
            hint=["save it as one (Bio-Formats: export as OME-TIFF)", "fuse its folder with `allfocus fuse`"],
            code="incomplete-stack",
        )
    several = len(found.positions) > 1 or first.times > 1 or len(first.channels) > 1
    return found if several or found.zarr else None


def describe_choice(found: StackFile, position: str | None, time: str | None) -> dict[str, Any] | None:
    """What there is to choose of before a file can be taken in; None when nothing is left to choose."""
    names = [held.name for held in found.positions]
    times = max(held.times for held in found.positions)
    if (len(names) == 1 or position is not None) and (times == 1 or time is not None):
        return None
    return {"positions": names, "times": times}


def split_planes(
    found: StackFile, folder: Path, position: str | None, time: str | None, *, limits: dict[str, int]
) -> list[dict[str, Any]]:
    """Writes each plane of one position and time as a file with all its channels, and describes them.

    Args:
        found: The file.
        folder: Where the planes go.
        position: Which, by its name or number; None where there is one.
        time: The same.
        limits: ``max_pixels``, ``max_pictures`` and ``max_bytes``.
    """
    place = found.position_numbers(position)[0]
    point = found.time_numbers(place, time)[0]
    own = found.positions[place]
    held = as_colour(own) if found.zarr else own
    require_pixels(held.size[1], held.size[0], limits["max_pixels"])
    _require_kind(found.path, held)
    count = len(held.channels)
    size = held.planes * count * held.samples * held.size[0] * held.size[1] * np.dtype(held.dtype).itemsize
    if held.planes > limits["max_pictures"]:
        raise InputError(
            f"holds {held.planes} planes, more than the limit of {limits['max_pictures']}; leave some out",
            where=found.path,
            code="too-many-pictures",
        )
    if size > limits["max_bytes"]:
        raise InputError(
            f"unpacks to {size} bytes, more than the limit of {limits['max_bytes']} that are free",
            where=found.path,
            code="too-many-bytes",
        )
    channels: list[int | None] = [None] if held.samples == 3 else list(range(count))
    layers = [found.frames(place, point, channel) for channel in channels]
    described = []
    for number in range(held.planes):
        target = folder / f"{secrets.token_hex(8)}.tif"
        planes = [_read_samples(frames[number], limits["max_pixels"]) for frames in layers]
        if count == 1:
            picture = Image(from_integers(planes[0]), bit_depth=DEPTHS[held.dtype])
            write_image(picture, target, bit_depth=DEPTHS[held.dtype], compression="none")
        else:
            replace_file(target, encode_planes(planes, replace(held, planes=1, times=1), FusedFrom("", 1)))
        described.append(
            {
                "file": str(target),
                "width": held.size[1],
                "height": held.size[0],
                "channels": 3 if held.samples == 3 else count,
                "bit_depth": DEPTHS[held.dtype],
                "pixel_size": None if held.pixel_size is None else held.pixel_size[1],
                "channel_names": [channel.name for channel in held.channels] if count > 1 else [],
                "position": position,
                "time": time,
            }
        )
    return described


def _read_samples(frame: FrameFile, max_pixels: int) -> NDArray[Any]:
    """The integers of a plane, (H, W) or (H, W, 3)."""
    if frame.zarr is not None:
        return guarded(frame.path, partial(frame.zarr.read, slice(0, frame.height), slice(0, frame.width)))
    pixels = read_image(frame.path, page=frame.page, max_pixels=max_pixels).pixels
    return to_integers(pixels, frame.header.bit_depth)


def _require_kind(path: Path, held: Dimensions) -> None:
    if held.dtype not in DEPTHS:
        raise InputError(
            f"holds {held.dtype}; the studio takes channels of 8 and 16 bits: use allfocus fuse, which takes any",
            where=path,
            code="unsupported-picture",
        )
    if len(held.channels) > MOST_CHANNELS or (held.samples == 3 and len(held.channels) > 1):
        raise InputError(
            f"holds {len(held.channels)} channels{' of colour pictures' if held.samples == 3 else ''}; save fewer",
            where=path,
            code="unsupported-picture",
        )


def encode_planes(planes: Sequence[NDArray[Any]], held: Dimensions, origin: FusedFrom) -> memoryview:
    """The bytes of an OME-TIFF with one plane in several channels."""
    size = (planes[0].shape[0], planes[0].shape[1])
    sized = replace(held, size=size, dtype=str(planes[0].dtype))
    content = FusedPlanes((sized,), lambda position, time, channel: planes[channel], origin, SOFTWARE)
    return encode_ome_tiff(content, compression="none")


def read_channels(path: str, *, max_pixels: int = 2**62, name: str | None = None) -> tuple[list[Image], Dimensions]:
    """The channels of a plane that :func:`encode_planes` made, and what is known about them."""
    found = open_stack_file(path)
    held = found.positions[0]
    pages = [found.frames(0, 0, channel)[0].page for channel in range(len(held.channels))]
    return [read_image(path, page=page, max_pixels=max_pixels, name=name) for page in pages], held
