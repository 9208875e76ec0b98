"""What an OME-Zarr says about itself: its images, their axes, units, pixel sizes and channels.

Versions 0.4 (Zarr 2) and 0.5 (Zarr 3) are read. Their metadata is plain JSON (https://ngff.openmicroscopy.org).
"""

import re
from pathlib import Path
from typing import Any

from allfocus.errors import AllfocusError, InputError
from allfocus.images.dimensions import (
    MICROMETRES,
    Channel,
    Dimensions,
    ObjectiveLens,
    in_seconds,
    name_channels,
    plain_colour,
    positive,
)
from allfocus.images.ome_zarr_folders import METADATA_FILES, is_array, is_zarr, open_zarr_group, require_plain_files
from allfocus.images.ome_zarr_planes import AXES_OF_OLD_FILES, ZarrStack

LARGEST_NUMBER = 1e100
"""What the size of a pixel, or a place, is never beyond; two of them can be multiplied."""
MOST_ALONG = {"t": 1_000_000, "c": 1000, "z": 100_000}
"""How many pictures an OME-Zarr may have along an axis: more than any has, and few enough to be listed."""


def describe_zarr(path: Path) -> ZarrStack:
    """What the OME-Zarr at a path holds; of several images in it, the first.

    Raises:
        InputError: It is no OME-Zarr image that can be read.
    """
    for place in (path, path / "0"):  # Bio-Formats puts images into groups named 0, 1, ...
        try:
            group = open_zarr_group(place)
            multiscales = _multiscales(dict(group.attrs))
        except AllfocusError:
            raise
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
        places = sorted((each.name for each in groups if not is_array(each / "zarr.json")), key=int)
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
        return dict(open_zarr_group(path).attrs)
    except AllfocusError:
        raise
    except Exception as error:  # damaged metadata may raise anything at all
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"{path}: is no Zarr group that can be read ({reason}); give an OME-Zarr image") from error


def _describe_only(path: Path) -> ZarrStack:
    """What a group with one image holds."""
    multiscales = _multiscales(_attributes(path))
    if len(multiscales) != 1:
        raise InputError(f"{path}: holds {len(multiscales)} pictures; a position is one: save it again as OME-Zarr")
    return _describe(path, open_zarr_group(path), multiscales[0])


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


def _lens_of(content: Any) -> ObjectiveLens | None:
    """The objective that a result of ours names; OME-Zarr has no place for one."""
    if not isinstance(content, dict):
        return None
    model, manufacturer, immersion = (str(content.get(name) or "") for name in ("model", "manufacturer", "immersion"))
    return ObjectiveLens(
        model=model,
        manufacturer=manufacturer,
        immersion=immersion,
        magnification=positive(content.get("magnification")),
        aperture=positive(content.get("aperture")),
    )


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
    attributes = dict(open_zarr_group(path).attrs)
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
        require_plain_files(place / name, METADATA_FILES)
        array = group[name]
        axes = tuple(
            str(axis["name"] if isinstance(axis, dict) else axis).lower()
            for axis in multiscale.get("axes", AXES_OF_OLD_FILES)
        )
        shape, chunks = tuple(map(int, array.shape)), tuple(map(int, array.chunks))
        if min((*shape, *chunks), default=0) < 1:
            raise ValueError(f"shape {shape} in chunks of {chunks}")
        dtype = str(array.dtype.newbyteorder("="))  # converters on Java often write the large byte first
    except AllfocusError:
        raise
    except Exception as error:  # damaged metadata may raise anything at all
        reason = " ".join(repr(error).split())[:160]
        raise InputError(f"{place}: its metadata is damaged ({reason}); save it again as OME-Zarr") from error
    if len(axes) != len(shape) or not {"y", "x"} <= set(axes) or not set(axes) <= set(AXES_OF_OLD_FILES):
        raise InputError(f"{place}: has the axes {''.join(axes)} for shape {shape}; t, c, z, y and x can be read")
    for axis, most in MOST_ALONG.items():
        if axis in axes and shape[axes.index(axis)] > most:
            raise InputError(
                f"says that it has {shape[axes.index(axis)]} pictures along {axis}, more than the limit of {most}",
                where=place,
                code="too-many-pictures",
            )
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
                isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER
                for value in values
            )
            if not plain and not isinstance(values, str):
                raise InputError(
                    f"{path}: its coordinateTransformations hold {each}; numbers are needed: save it again"
                )
