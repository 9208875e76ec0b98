"""Files of microscopes -> layers of napari: one for each channel, with name, colour and scale, read when looked at."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.images.conversion import to_integers
from allfocus.images.dimensions import Dimensions
from allfocus.images.ome_zarr_folders import is_zarr
from allfocus.images.stack_file import StackFile, as_colour, open_stack_file
from allfocus.images.stack_reader import StackReader
from allfocus.stack.writing import stored_samples

LayerData = tuple[Any, dict[str, Any], str]
"""What napari makes a layer of: pixels, properties and kind."""


def find_reader(path: str | list[str]) -> Callable[[str | list[str]], list[LayerData]] | None:
    """Returns a function that reads what lies there; None for what is no stack, which others may know how to open.

    Args:
        path: A file, an OME-Zarr, or a folder of numbered files; several are not one stack.
    """
    if isinstance(path, list):
        return None
    place = Path(path)
    if os.path.isdir(place) and not is_zarr(place) and not any(place.glob("*.tif*")):
        return None
    try:
        open_stack_file(place)
    except (InputError, OSError):
        return None
    return read_layers


def read_layers(path: str | list[str]) -> list[LayerData]:
    """Returns a layer for each channel of each position, (times, planes, rows, columns[, 3])."""
    file = open_stack_file(path if isinstance(path, str) else path[0])
    layers = []
    for number, held in enumerate(file.positions):
        colour = held.samples == 3 or (file.zarr and as_colour(held).samples == 3)
        for channel in [None] if colour else range(len(held.channels)):
            layers.append(_layer(file, number, channel))
    return layers


def _layer(file: StackFile, position: int, channel: int | None) -> LayerData:
    import dask.array
    from dask.delayed import delayed

    arrays: Any = dask.array  # it has no types
    held = file.positions[position]
    times = []
    for time in range(held.times):
        reader = StackReader(file.frames(position, time, channel))
        shape = (*held.size, 3) if channel is None and reader.channels == 3 else held.size
        read = functools.partial(_read_plane, reader, held.dtype)
        blocks = [
            arrays.from_delayed(delayed(read)(plane), shape, np.dtype(held.dtype)) for plane in range(reader.count)
        ]
        times.append(arrays.stack(blocks))
    pixels = arrays.stack(times) if held.times > 1 else times[0]
    about = {"name": _name(file, position, channel), "scale": _scale(held), "rgb": pixels.ndim == 4 + (held.times > 1)}
    if held.pixel_size is not None:
        about["units"] = ("second",) * (held.times > 1) + ("micrometer",) * 3
    if channel is not None and len(held.channels) > 1:
        about |= {"blending": "additive", "colormap": _colours(held.channels[channel].colour or "#ffffff")}
    return pixels, about, "image"


def _read_plane(reader: StackReader, dtype: str, plane: int) -> NDArray[Any]:
    return stored_samples(reader.read(plane).pixels, reader, None, dtype).astype(dtype, copy=False)


def _name(file: StackFile, position: int, channel: int | None) -> str:
    held = file.positions[position]
    parts = [held.name] if len(file.positions) > 1 else []
    parts += [held.channels[channel].name] if channel is not None and len(held.channels) > 1 else []
    return ", ".join(parts) or file.path.name.split(".")[0]


def _scale(held: Dimensions) -> tuple[float, ...]:
    height, width = held.pixel_size or (1.0, 1.0)
    sizes = (abs(held.z_step or (1.0 if held.pixel_size is None else width)), height, width)
    return ((held.time_step or 1.0), *sizes) if held.times > 1 else sizes


def _colours(colour: str) -> tuple[str, NDArray[np.float32]]:
    """A colour map of napari, from black to a colour."""
    brightest = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return colour, np.array([[0, 0, 0, 1], [*brightest, 1]], np.float32)


def sample_stack() -> list[LayerData]:
    """Returns a rendered stack of a slanted page, to try the widget on."""
    from allfocus.scenes.rendering import render_scene

    scene = render_scene("slope", frames=8, size=(360, 480), seed=3)
    planes = np.stack([to_integers(frame.mean(axis=2), 16) for frame in scene.frames])
    scale = {"scale": (2.5, 0.8, 0.8), "units": ("micrometer",) * 3}
    return [(planes, {"name": "slanted page", **scale}, "image")]
