"""A new OME-Zarr: the arrays of a fused plane, and the metadata that makes an image of them.

A result has the version (0.4 or 0.5), axes, units, pixel sizes, channel names and further attributes of its stack.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from allfocus.images.dimensions import Dimensions
from allfocus.images.ome_zarr_folders import require_zarr
from allfocus.images.ome_zarr_planes import AXES_OF_OLD_FILES, ZarrStack

REPLACED = ("axes", "datasets", "coordinateTransformations")
"""Of an image's description, what is made anew for the result."""
CHUNK = 1024
"""Side of the chunks of a result."""
SMALLEST_LEVEL = 512
"""Pixels: levels are added, each half as large, until the longer side is no larger."""


@dataclass(frozen=True)
class ZarrResult:
    """The arrays of a result, before its metadata is written."""

    path: str
    axes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    """Of each level, the largest first."""
    chunk: int = CHUNK

    @property
    def layers(self) -> int:
        """Channels of the result, colours counted as three."""
        return self.shapes[0][self.axes.index("c")] if "c" in self.axes else 1

    def slices(self, rows: slice, columns: slice, layer: int | None = None) -> tuple[slice, ...]:
        """Where an area of the plane lies in the array of a level: of one layer, or of all."""
        places = {"y": rows, "x": columns}
        if layer is not None:
            places["c"] = slice(layer, layer + 1)
        return tuple(places.get(axis, slice(None)) for axis in self.axes)


def create_result(
    path: Path,
    size: tuple[int, int],
    channels: int,
    dtype: str,
    like: ZarrStack | None,
    *,
    chunk: int = CHUNK,
    times: int = 1,
) -> ZarrResult:
    """Makes the empty arrays of a fused plane: all levels, the axes of the stack without z, in the order of the format.

    Args:
        path: The folder to make.
        size: Height and width.
        channels: How many there are; colours count as three.
        dtype: Of the samples.
        like: The stack, if that is an OME-Zarr.
        chunk: Side of a chunk.
        times: How many there are.
    """
    zarr = require_zarr()
    needed = {*("t" if times > 1 else ""), *("c" if channels > 1 else ""), "y", "x"}
    axes = tuple(axis for axis in AXES_OF_OLD_FILES if axis != "z" and (axis in needed or (like and axis in like.axes)))
    sizes = [size]
    while max(sizes[-1]) > SMALLEST_LEVEL:
        sizes.append((-(-sizes[-1][0] // 2), -(-sizes[-1][1] // 2)))
    lengths = [{"t": times, "c": channels, "y": height, "x": width} for height, width in sizes]
    shapes = tuple(tuple(length[axis] for axis in axes) for length in lengths)
    version = like.zarr_format if like else 3
    group = zarr.open_group(str(path), mode="a", zarr_format=version)
    for number, shape in enumerate(shapes):
        if str(number) in group:
            continue
        group.create_array(
            str(number),
            shape=shape,
            chunks=tuple(min(side, chunk) if axis in "yx" else 1 for axis, side in zip(axes, shape, strict=True)),
            dtype=dtype,
            fill_value=0,
            **({"dimension_names": list(axes)} if version == 3 else {}),
            chunk_key_encoding={"name": "default" if version == 3 else "v2", "separator": "/"},
        )
    return ZarrResult(str(path), axes, shapes, chunk)


def write_metadata(
    result: ZarrResult,
    like: ZarrStack | None,
    *,
    name: str,
    history: str,
    dimensions: Dimensions,
    channels: Sequence[int] | None = None,
    origin: Mapping[str, Any] | None = None,
    ranges: Sequence[tuple[float, float]] = (),
) -> None:
    """Gives a result its attributes, which make it an image: until then no viewer opens it.

    Args:
        result: Whose pixels are all written.
        like: The stack, whose attributes are kept where they hold for the result too.
        name: Of the image, where the stack has none.
        history: A sentence about how it was made.
        dimensions: Of the result, for what the stack does not say in its own attributes.
        channels: Those that were taken of several, from 0; None for all.
        origin: What more is known about how it was made.
        ranges: Of each channel, the values between which a viewer shows it.
    """
    zarr = require_zarr()
    attributes = dict(zarr.open_group(like.path, mode="r").attrs) if like else {}
    attributes = copy.deepcopy(attributes)
    modern = "ome" in attributes or not attributes
    inner = attributes.pop("ome", {}) if modern else attributes
    old = (inner.get("multiscales") or [{}])[0]
    multiscale: dict[str, Any] = {
        # What the old one says about how its smaller copies were made ("metadata") does not hold for ours.
        **{key: value for key, value in old.items() if key not in (*REPLACED, "metadata")},
        "name": old.get("name") or name,
        "axes": _axes(old, result.axes, dimensions),
        "datasets": _datasets(old, like, result, dimensions),
        "type": "mean",
    }
    if "coordinateTransformations" in old and like:
        multiscale["coordinateTransformations"] = [
            _without_z(transformation, like, result.axes) for transformation in old["coordinateTransformations"]
        ]
    inner["multiscales"] = [multiscale]
    if isinstance(inner.get("omero"), dict):
        inner["omero"] = _display(inner["omero"], channels)
    elif dimensions.samples == 1 and any(each.colour or not each.name.isdecimal() for each in dimensions.channels):
        inner["omero"] = {"channels": _new_display(dimensions, ranges)}
    attributes["allfocus"] = {**(origin or {}), "history": history, **_without_place(dimensions)}
    if modern:
        attributes["ome"] = {**inner, "version": "0.5"}
    else:
        multiscale["version"] = "0.4"
    group = zarr.open_group(result.path, mode="a")
    group.attrs.update(attributes)


def _without_place(dimensions: Dimensions) -> dict[str, Any]:
    """What is known and OME-Zarr has no place for."""
    found: dict[str, Any] = {"acquired": dimensions.acquired} if dimensions.acquired else {}
    if dimensions.objective is not None:
        found["objective"] = dataclasses.asdict(dimensions.objective)
    return found


def _new_display(dimensions: Dimensions, ranges: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """How viewers show channels of which another format told name and colour."""
    whole = (0.0, 1.0)
    if np.dtype(dimensions.dtype).kind in "iu":
        limits = np.iinfo(dimensions.dtype)
        whole = (float(limits.min), float(limits.max))
    shown = []
    for number, channel in enumerate(dimensions.channels):
        start, end = ranges[number] if number < len(ranges) else whole
        window = {"min": min(whole[0], start), "max": max(whole[1], end), "start": start, "end": end}
        colour = (channel.colour or "#ffffff").lstrip("#").upper()
        shown.append({"label": channel.name, "color": colour, "active": True, "window": window})
    return shown


def _display(old: dict[str, Any], chosen: Sequence[int] | None) -> dict[str, Any]:
    """How viewers show the channels: only those of the result, and no longer at a plane that is gone."""
    display = dict(old)
    channels = display.get("channels")
    if chosen is not None and isinstance(channels, list):
        display["channels"] = [channels[number] for number in chosen if number < len(channels)]
    if isinstance(display.get("rdefs"), dict):
        display["rdefs"] = {**display["rdefs"], "defaultZ": 0}
    return display


def _axes(old: dict[str, Any], axes: tuple[str, ...], dimensions: Dimensions) -> list[dict[str, Any]]:
    known = {str(axis["name"]).lower(): axis for axis in old.get("axes", []) if isinstance(axis, dict)}
    space = {"type": "space", "unit": "micrometer"} if dimensions.is_calibrated else {"type": "space"}
    time = {"type": "time", "unit": "second"} if dimensions.time_step else {"type": "time"}
    kinds = {"t": time, "c": {"type": "channel"}, "y": space, "x": space}
    return [known.get(axis, {"name": axis, **kinds[axis]}) for axis in axes]


def _datasets(
    old: dict[str, Any], like: ZarrStack | None, result: ZarrResult, dimensions: Dimensions
) -> list[dict[str, Any]]:
    """The levels with the size of a pixel; those of the stack at the largest, and twice that for each smaller one."""
    first = (old.get("datasets") or [{}])[0]
    height, width = dimensions.pixel_size or (1.0, 1.0)
    sides = {"y": height, "x": width, "t": dimensions.time_step or 1.0}
    plain: list[dict[str, Any]] = [{"type": "scale", "scale": [sides.get(axis, 1.0) for axis in result.axes]}]
    transformations = first.get("coordinateTransformations") or plain
    if like:
        transformations = [_without_z(each, like, result.axes) for each in transformations]
    datasets = []
    for level in range(len(result.shapes)):
        factors = [2.0**level if axis in "yx" else 1.0 for axis in result.axes]
        own = []
        for each in transformations:
            values = each.get(each["type"])
            if each["type"] == "scale" and isinstance(values, list) and len(values) == len(factors):
                own.append(
                    {"type": "scale", "scale": [value * factor for value, factor in zip(values, factors, strict=True)]}
                )
            elif each["type"] == "translation" and isinstance(values, list):
                own.append(copy.deepcopy(each))
        if not own or own[0]["type"] != "scale":
            own.insert(0, {"type": "scale", "scale": factors})
        datasets.append({"path": str(level), "coordinateTransformations": own})
    return datasets


def _without_z(transformation: dict[str, Any], like: ZarrStack, axes: tuple[str, ...]) -> dict[str, Any]:
    """A transformation of the stack for the axes of the result."""
    kind = transformation.get("type", "identity")
    values = transformation.get(kind)
    if not isinstance(values, list) or len(values) != len(like.axes):
        return {**transformation, "type": kind}
    neutral = 1.0 if kind == "scale" else 0.0
    return {"type": kind, kind: [values[like.axes.index(axis)] if axis in like.axes else neutral for axis in axes]}
