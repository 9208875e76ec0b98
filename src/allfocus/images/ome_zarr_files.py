"""OME-Zarr, the microscopists' format of planes larger than any memory: what a stack says about itself, and a new one.

Versions 0.4 (Zarr 2) and 0.5 (Zarr 3) are read and written; a result has the version, axes, units, pixel sizes, channel
names and further attributes of its stack. Its metadata is plain JSON (https://ngff.openmicroscopy.org), written here.
"""

import copy
import dataclasses
import itertools
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError, MissingDependencyError
from allfocus.images.dimensions import (
    MICROMETRES,
    Channel,
    Dimensions,
    Objective,
    in_seconds,
    name_channels,
    plain_colour,
    positive,
)

REPLACED = ("axes", "datasets", "coordinateTransformations")
"""Of an image's description, what is made anew for the result."""
AXES_OF_OLD_FILES = ("t", "c", "z", "y", "x")
"""Versions before 0.3 do not name their axes; they have these. Later ones want them in this order."""
CHUNK = 1024
"""Side of the chunks of a result."""
SMALLEST_LEVEL = 512
"""Pixels: levels are added, each half as large, until the longer side is no larger."""


@dataclass(frozen=True)
class ZarrStack:
    """Where the planes of an OME-Zarr lie, and what it says about them; small enough to send to a worker."""

    path: str
    """The group that holds the image."""
    array: str
    """Name of the largest array in the group."""
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    chunks: tuple[int, ...]
    zarr_format: int

    def size_of(self, axis: str) -> int:
        """How long an axis is; 1 when there is none of that name."""
        return self.shape[self.axes.index(axis)] if axis in self.axes else 1

    def plane(self, time: int, channel: int | None, plane: int) -> "ZarrPlane":
        """Where one plane lies; None takes all channels."""
        return ZarrPlane(self, time, channel, plane)


@dataclass(frozen=True)
class ZarrPlane:
    """One plane of an OME-Zarr."""

    stack: ZarrStack
    time: int
    channel: int | None
    """None for all of them, as a colour picture."""
    number: int
    """Along z."""

    def chosen(self, rows: slice, columns: slice) -> tuple[Any, ...]:
        """What an area of the plane is in its array: a number or a slice for each axis."""
        everything = slice(None) if self.channel is None else self.channel
        places: dict[str, Any] = {"t": self.time, "c": everything, "z": self.number, "y": rows, "x": columns}
        return tuple(places[axis] for axis in self.stack.axes)

    def read(self, rows: slice, columns: slice, *, array: Any = None, fill_missing: bool = False) -> NDArray[Any]:
        """The samples of an area: (H, W), or (H, W, C) where all channels are taken.

        Args:
            rows: With a start and a stop.
            columns: The same.
            array: The array of Zarr, where it is open already.
            fill_missing: Take chunks that are not there as empty, which is what Zarr says, instead of as lost.

        Raises:
            InputError: a chunk is missing.
        """
        array = open_array(self.stack) if array is None else array
        chosen = self.chosen(rows, columns)
        samples = np.asarray(array[chosen])
        if not fill_missing:
            require_chunks(array, chosen, samples, Path(self.stack.path, self.stack.array))
        left = [axis for axis, own in zip(self.stack.axes, chosen, strict=True) if not isinstance(own, int)]
        samples = np.moveaxis(samples, [left.index("y"), left.index("x")], [0, 1])
        return samples if self.channel is None and "c" in left else samples.reshape(samples.shape[:2])


def open_array(stack: ZarrStack) -> Any:
    """The largest array of an image."""
    return require_zarr().open_group(stack.path, mode="r")[stack.array]


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr group, by the files that every one of them has."""
    return any((path / name).is_file() for name in ("zarr.json", ".zgroup", ".zattrs"))


def require_zarr() -> Any:
    """The package ``zarr``.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import zarr
    except ImportError as error:
        raise MissingDependencyError("zarr is not installed: pip install 'allfocus[batch]'") from error
    return zarr


def describe_zarr(path: Path) -> ZarrStack:
    """What the OME-Zarr at a path holds; of several images in it, the first.

    Raises:
        InputError: It is no OME-Zarr image that can be read.
    """
    zarr = require_zarr()
    for place in (path, path / "0"):  # Bio-Formats puts images into groups named 0, 1, ...
        try:
            group = zarr.open_group(str(place), mode="r")
            multiscales = _multiscales(dict(group.attrs))
        except Exception as error:  # damaged metadata may raise anything at all
            if place != path:
                break
            reason = " ".join(str(error).split())[:160]
            raise InputError(f"{path}: is no Zarr group that can be read ({reason}); give an OME-Zarr image") from error
        if multiscales:
            _require_one_image(path, place, multiscales)
            return _describe(place, group, multiscales[0])
    _refuse_plate(path)
    raise InputError(f"{path}: says nothing about its planes (no 'multiscales'); give an OME-Zarr image")


def list_images(path: Path) -> list[tuple[str, ZarrStack]]:
    """Every image in an OME-Zarr with its name: one, the series of a converter, or the fields of a plate or well.

    Raises:
        InputError: it holds no OME-Zarr image that can be read.
    """
    attributes = _attributes(path)
    if _multiscales(attributes):
        return [(_image_name(attributes, path), describe_zarr(path))]
    inner = attributes.get("ome", attributes)
    inner = inner if isinstance(inner, dict) else {}
    if "plate" in inner:
        wells = _paths_in(inner["plate"], "wells", path)
        places = [f"{well}/{field}" for well in wells for field in _fields_of_well(path / well)]
    elif "well" in inner:
        places = _fields_of_well(path)
    else:
        # Bio-Formats puts images into groups named 0, 1, ...
        groups = (each for each in path.iterdir() if each.name.isdecimal() and is_zarr(each))
        places = sorted((each.name for each in groups if not _is_array(each / "zarr.json")), key=int)
    found = []
    for place in places:
        own = path / place
        known = _image_name(_attributes(own), own)
        found.append((known if known != own.name else place, _describe_only(own)))
    if not found:
        raise InputError(f"{path}: says nothing about its planes (no 'multiscales'); give an OME-Zarr image")
    return found


def _attributes(path: Path) -> dict[str, Any]:
    try:
        return dict(require_zarr().open_group(str(path), mode="r").attrs)
    except MissingDependencyError:
        raise
    except Exception as error:  # damaged metadata may raise anything at all
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"{path}: is no Zarr group that can be read ({reason}); give an OME-Zarr image") from error


def _describe_only(path: Path) -> ZarrStack:
    """What a group with one image holds."""
    multiscales = _multiscales(_attributes(path))
    if len(multiscales) != 1:
        raise InputError(f"{path}: holds {len(multiscales)} pictures; a position is one: save it again as OME-Zarr")
    return _describe(path, require_zarr().open_group(str(path), mode="r"), multiscales[0])


def _image_name(attributes: dict[str, Any], path: Path) -> str:
    multiscales = _multiscales(attributes)
    name = multiscales[0].get("name") if multiscales and isinstance(multiscales[0], dict) else None
    # Many writers leave the path of the group here, which is no name.
    return str(name) if name and "/" not in str(name) else path.name


def _fields_of_well(path: Path) -> list[str]:
    attributes = _attributes(path)
    inner = attributes.get("ome", attributes)
    return _paths_in(inner.get("well") if isinstance(inner, dict) else None, "images", path)


def _paths_in(content: Any, name: str, path: Path) -> list[str]:
    """The paths that a list in the metadata of a plate or well names; none of them may lead out of it."""
    listed = content.get(name) if isinstance(content, dict) else None
    found = [str(each.get("path", "")) for each in listed or [] if isinstance(each, dict)]
    if not all(re.fullmatch(r"[A-Za-z0-9]+(/[A-Za-z0-9]+)*", each) for each in found):
        raise InputError(f"{path}: its {name} are not plain paths; save it again as OME-Zarr", code="damaged-picture")
    return found


def dimensions_of(stack: ZarrStack, name: str) -> Dimensions:
    """What an image of an OME-Zarr holds, with the size of its pixels and its channels as far as it says them.

    Raises:
        InputError: a number in its metadata is none.
    """
    attributes = _attributes(Path(stack.path))
    inner = attributes.get("ome", attributes)
    scales, shifts, units = _scales_of(stack, _multiscales(attributes)[0])
    factor = MICROMETRES.get(units.get("z", ""))
    count = stack.size_of("c")
    step = abs(scales["z"]) * factor if "z" in stack.axes and factor and scales["z"] else None
    clock = in_seconds(units.get("t", ""))
    own = attributes.get("allfocus")
    if step is None and isinstance(own, dict):  # a result of ours has no z, and says what it was
        step = positive(own.get("z step in micrometres"))
    span = None
    if step is not None and factor and shifts.get("z"):
        span = (shifts["z"] * factor, shifts["z"] * factor + step * (stack.size_of("z") - 1))
    return Dimensions(
        name=name,
        size=(stack.size_of("y"), stack.size_of("x")),
        dtype=stack.dtype,
        planes=stack.size_of("z"),
        times=stack.size_of("t"),
        channels=_channels_of(inner.get("omero") if isinstance(inner, dict) else None, count),
        pixel_size=pixel_size_of(stack),
        z_step=step,
        z_range=span,
        time_step=scales["t"] * clock if "t" in stack.axes and clock and stack.size_of("t") > 1 else None,
        acquired=str(own.get("acquired", "")) if isinstance(own, dict) else "",
        objective=_lens_of(own.get("objective")) if isinstance(own, dict) else None,
    )


def _lens_of(content: Any) -> Objective | None:
    """The objective that a result of ours names; OME-Zarr has no place for one."""
    if not isinstance(content, dict):
        return None
    words = {name: str(content.get(name) or "") for name in ("model", "manufacturer", "immersion")}
    numbers = {name: positive(content.get(name)) for name in ("magnification", "aperture")}
    return Objective(**words, **numbers)  # type: ignore[arg-type]  # texts and numbers, by their names


def _channels_of(display: Any, count: int) -> tuple[Channel, ...]:
    listed = display.get("channels") if isinstance(display, dict) else None
    given = [each if isinstance(each, dict) else {} for each in listed] if isinstance(listed, list) else []
    names = name_channels([str(each.get("label") or "") for each in given], count)
    colours = [plain_colour(str(each.get("color") or "")) for each in given[:count]]
    colours += [""] * (count - len(colours))
    return tuple(Channel(name, colour) for name, colour in zip(names, colours, strict=True))


def _scales_of(
    stack: ZarrStack, multiscale: dict[str, Any]
) -> tuple[dict[str, float], dict[str, float], dict[str, str]]:
    """For each axis how far apart samples are, where the first lies, and the unit of both."""
    _require_numbers(stack.path, multiscale)
    first = (multiscale.get("datasets") or [{}])[0]
    scales, shifts = dict.fromkeys(stack.axes, 1.0), dict.fromkeys(stack.axes, 0.0)
    all_of = (*(first.get("coordinateTransformations") or ()), *(multiscale.get("coordinateTransformations") or ()))
    for each in all_of:
        for kind, numbers in (("scale", each.get("scale")), ("translation", each.get("translation"))):
            if not isinstance(numbers, list) or len(numbers) != len(stack.axes):
                continue
            for axis, value in zip(stack.axes, numbers, strict=True):
                if kind == "scale":
                    scales[axis] *= float(value)
                    shifts[axis] *= float(value)
                else:
                    shifts[axis] += float(value)
    axes = [axis for axis in multiscale.get("axes", []) if isinstance(axis, dict)]
    return scales, shifts, {str(axis["name"]).lower(): str(axis.get("unit", "")) for axis in axes}


def _require_one_image(path: Path, place: Path, multiscales: list[dict[str, Any]]) -> None:
    """Raise InputError for several positions, or several pictures of one: which is meant is for the user to say."""
    if len(multiscales) > 1:
        names = ", ".join(str(each.get("name", number)) for number, each in enumerate(multiscales))
        raise InputError(f"{path}: holds {len(multiscales)} pictures ({names}); a stack is one: save one of them")
    others = [each.name for each in path.iterdir() if each.name.isdecimal() and is_zarr(each)] if place != path else []
    if len(others) > 1:
        listed = ", ".join(str(path / name) for name in sorted(others, key=int)[:8])
        raise InputError(f"{path}: holds {len(others)} positions; a stack is one of them: name one of {listed}")


def _refuse_plate(path: Path) -> None:
    """Raise InputError when a group is a plate of many wells and fields."""
    attributes = dict(require_zarr().open_group(str(path), mode="r").attrs)
    inner = attributes.get("ome", attributes)
    for kind in ("plate", "well"):
        if isinstance(inner, dict) and kind in inner:
            found = sorted(str(each.parent.relative_to(path)) for each in path.glob("*/*/*/0"))[:8]
            listed = ", ".join(str(path / name) for name in found) or "its fields"
            raise InputError(
                f"{path}: is a {kind} with several positions; a stack is one of them: name one of {listed}"
            )


def _multiscales(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    inner = attributes.get("ome", attributes)
    found = inner.get("multiscales") if isinstance(inner, dict) else None
    return found if isinstance(found, list) else []


def _describe(place: Path, group: Any, multiscale: dict[str, Any]) -> ZarrStack:
    try:
        name = str(multiscale["datasets"][0]["path"])
        array = group[name]
        axes = tuple(
            str(axis["name"] if isinstance(axis, dict) else axis).lower()
            for axis in multiscale.get("axes", AXES_OF_OLD_FILES)
        )
        shape, chunks = tuple(map(int, array.shape)), tuple(map(int, array.chunks))
        if min((*shape, *chunks), default=0) < 1:
            raise ValueError(f"shape {shape} in chunks of {chunks}")
        dtype = str(array.dtype.newbyteorder("="))  # converters on Java often write the large byte first
    except Exception as error:  # damaged metadata may raise anything at all
        reason = " ".join(repr(error).split())[:160]
        raise InputError(f"{place}: its metadata is damaged ({reason}); save it again as OME-Zarr") from error
    if len(axes) != len(shape) or not {"y", "x"} <= set(axes) or not set(axes) <= set(AXES_OF_OLD_FILES):
        raise InputError(f"{place}: has the axes {''.join(axes)} for shape {shape}; t, c, z, y and x can be read")
    return ZarrStack(str(place), name, axes, shape, dtype, chunks, int(group.metadata.zarr_format))


def pixel_size_of(stack: ZarrStack) -> tuple[float, float] | None:
    """Height and width of a pixel in micrometres; None where the OME-Zarr does not say them with a unit."""
    scales, _, units = _scales_of(stack, _multiscales(_attributes(Path(stack.path)))[0])
    factors = [MICROMETRES.get(units.get(axis, "")) for axis in "yx"]
    return (scales["y"] * factors[0], scales["x"] * factors[1]) if factors[0] and factors[1] else None


def _require_numbers(path: str, multiscale: dict[str, Any]) -> None:
    """Raise InputError when what should be the size of a pixel, or a place, is no list of numbers."""
    lists = [multiscale.get("coordinateTransformations")]
    datasets = multiscale.get("datasets")
    lists += [each.get("coordinateTransformations") for each in datasets] if isinstance(datasets, list) else []
    for transformations in filter(None, lists):
        for each in transformations if isinstance(transformations, list) else [None]:
            values = None if not isinstance(each, dict) else each.get(str(each.get("type")), [])
            plain = isinstance(values, list) and all(
                isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
                for value in values
            )
            if not plain and not isinstance(values, str):
                raise InputError(
                    f"{path}: its coordinateTransformations hold {each}; numbers are needed: save it again"
                )


def require_chunks(array: Any, chosen: tuple[Any, ...], samples: NDArray[Any], path: Path) -> None:
    """Raise InputError when a chunk that was read is not there: Zarr gives its fill value then, without a word.

    Args:
        array: The array of Zarr.
        chosen: What was read: a number or a slice for each axis.
        samples: What came.
        path: Where the array lies.
    """
    sides = array.metadata.chunk_grid.chunk_shape
    ranges = []
    for each, side, length in zip(chosen, sides, array.shape, strict=True):
        first, last = (each, each + 1) if isinstance(each, int) else each.indices(length)[:2]
        ranges.append(range(first // side, -(-last // side)))
    for place in itertools.product(*ranges):
        key = array.metadata.encode_chunk_key(place)
        if not (path / key).is_file():
            raise _missing_chunk(path, key)
    if array.shards is not None and (samples == array.fill_value).any():
        # Inside a shard chunks have no names: what is there is the same whatever the fill value is said to be.
        other = 1 if array.fill_value == 0 else 0
        metadata = dataclasses.replace(array.metadata, fill_value=array.metadata.data_type.cast_scalar(other))
        again = require_zarr().Array(type(array.async_array)(metadata=metadata, store_path=array.store_path))
        if not np.array_equal(np.asarray(again[chosen]), samples):
            raise _missing_chunk(path, "a part of a shard")


def _missing_chunk(path: Path, key: str) -> InputError:
    return InputError(
        f"the chunk {key} is missing",
        where=path,
        hint=["copy the stack again", "{fill_missing=on} if empty chunks were never written"],
        code="damaged-picture",
    )


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


def find_foreign(path: Path) -> str | None:
    """The name of something in a Zarr group that no Zarr has, so that it is not deleted with it; None without.

    Only the groups and the tops of the arrays are looked at: chunks, of which there may be millions, have numbers.
    """
    for place, folders, files in os.walk(path):
        array = any(name in files for name in (".zarray",)) or _is_array(Path(place, "zarr.json"))
        for name in files:
            chunk = array and re.fullmatch(r"c|[0-9]+([./][0-9]+)*|c([./][0-9]+)+", name)
            if name not in METADATA_FILES and not chunk:
                return os.path.relpath(os.path.join(place, name), path)
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        if links:
            return os.path.relpath(os.path.join(place, links[0]), path)
        if array:
            unknown = [name for name in folders if not re.fullmatch(r"c|[0-9]+", name)]
            if unknown:
                return os.path.relpath(os.path.join(place, unknown[0]), path)
            folders.clear()
    return None


METADATA_FILES = frozenset({"zarr.json", ".zgroup", ".zattrs", ".zarray", ".zmetadata", "METADATA.ome.xml"})


def _is_array(description: Path) -> bool:
    try:
        content = json.loads(description.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("node_type") == "array"
