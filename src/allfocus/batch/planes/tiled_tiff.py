"""A fused plane as one large TIFF: tiles, smaller copies, the size of a pixel; BigTIFF where 4 GiB do not suffice.

Written tile by tile from the arrays that the blocks were fused into, so that memory does not depend on the plane.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.batch.planes.ome_zarr_files import MICROMETRES, ZarrResult, require_zarr

LARGEST_CLASSIC_TIFF = 3_900_000_000
"""Bytes of pixels, all copies counted, that surely fit into the 4 GiB of classic TIFF, packed or not."""
ENDINGS = (".tif", ".tiff")


@dataclass(frozen=True)
class TiffLabels:
    """What a TIFF says beside its pixels."""

    name: str
    history: str
    pixel_size: tuple[float, float] | None = None
    """Height and width of a pixel in micrometres; None where it is not known."""
    icc_profile: bytes | None = None


def read_pixel_size(tiff: Any) -> tuple[float, float] | None:
    """Height and width of a pixel in micrometres, from OME-XML or ImageJ's tags or the resolution; None without.

    Args:
        tiff: An open ``tifffile.TiffFile``.
    """
    if tiff.is_ome:
        sizes = [_size_in_ome(str(tiff.ome_metadata), axis) for axis in "YX"]
        return (sizes[0], sizes[1]) if sizes[0] and sizes[1] else None
    page = tiff.pages.first
    unit = float({2: 25_400.0, 3: 10_000.0}.get(int(page.resolutionunit), 0.0))
    if tiff.is_imagej:
        unit = _in_micrometres(str((tiff.imagej_metadata or {}).get("unit", ""))) or unit
    width, height = page.resolution
    return (unit / height, unit / width) if unit and height > 0 and width > 0 and "XResolution" in page.tags else None


def _size_in_ome(text: str, axis: str) -> float | None:
    value = re.search(rf'PhysicalSize{axis}="([0-9.eE+-]+)"', text)
    unit = re.search(rf'PhysicalSize{axis}Unit="([^"]*)"', text)
    factor = _in_micrometres(unit[1]) if unit else 1.0  # micrometres are what OME-XML means when it says nothing
    return float(value[1]) * factor if value and factor else None


def _in_micrometres(unit: str) -> float | None:
    # ImageJ writes the micro sign as an escape.
    name = unit.strip().replace("\\u00B5", "u").replace("\N{MICRO SIGN}", "u").replace("\N{GREEK SMALL LETTER MU}", "u")
    short = {"um": "micrometer", "micron": "micrometer", "nm": "nanometer", "mm": "millimeter", "cm": "centimeter"}
    return MICROMETRES.get(short.get(name.lower(), name.lower()))


def write_plane_tiff(result: ZarrResult, path: Path, labels: TiffLabels) -> None:
    """Writes the arrays of a result as one TIFF with tiles of the size of their chunks, packed without loss.

    A name that ends in ``.ome.tif`` gets OME-XML; any other the resolution tags of TIFF.
    """
    import tifffile

    group = require_zarr().open_group(result.path, mode="r")
    arrays = [group[str(level)] for level in range(len(result.shapes))]
    colour = "c" in result.axes and result.shapes[0][result.axes.index("c")] == 3
    total = sum(int(array.nbytes) for array in arrays)
    kind = "YXS" if colour else "YX"
    described = _descriptions(labels, kind) if _is_ome(path) else {"description": labels.history, "metadata": None}
    with tifffile.TiffWriter(path, bigtiff=total > LARGEST_CLASSIC_TIFF, ome=_is_ome(path)) as writer:
        for level, array in enumerate(arrays):
            height, width = (array.shape[result.axes.index(axis)] for axis in "yx")
            first: dict[str, Any] = {"subifds": len(arrays) - 1, "iccprofile": labels.icc_profile, **described}
            writer.write(
                _tiles(array, result, colour),
                shape=(height, width, 3) if colour else (height, width),
                dtype=array.dtype,
                tile=(_tile_side(result.chunk), _tile_side(result.chunk)),
                photometric="rgb" if colour else "minisblack",
                planarconfig="contig" if colour else None,
                compression="deflate",
                predictor=True,
                # As everything here: one processor at a time.
                maxworkers=1,
                software=False,
                **_resolution(labels, level),
                **(first if level == 0 else {"subfiletype": 1, "metadata": None}),
            )


def _is_ome(path: Path) -> bool:
    return path.name.lower().endswith((".ome.tif", ".ome.tiff"))


def _descriptions(labels: TiffLabels, axes: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"axes": axes, "Name": labels.name, "Description": labels.history}
    if labels.pixel_size:
        height, width = labels.pixel_size
        metadata |= {"PhysicalSizeX": width, "PhysicalSizeY": height}
        metadata |= {"PhysicalSizeXUnit": "\N{MICRO SIGN}m", "PhysicalSizeYUnit": "\N{MICRO SIGN}m"}
    return {"metadata": metadata}


def _resolution(labels: TiffLabels, level: int) -> dict[str, Any]:
    if not labels.pixel_size:
        return {}
    height, width = (10_000 / (size * 2**level) for size in labels.pixel_size)
    return {"resolution": (width, height), "resolutionunit": "CENTIMETER"}


def _tile_side(chunk: int) -> int:
    return -(-chunk // 16) * 16  # TIFF wants multiples of 16


def _tiles(array: Any, result: ZarrResult, colour: bool) -> Iterator[NDArray[Any]]:
    """The tiles row by row, each (side, side) or (side, side, 3); those at the edges are filled up."""
    side = _tile_side(result.chunk)
    height, width = (array.shape[result.axes.index(axis)] for axis in "yx")
    for top in range(0, height, side):
        for left in range(0, width, side):
            area = result.slices(slice(top, min(top + side, height)), slice(left, min(left + side, width)))
            part = np.asarray(array[area])
            part = np.moveaxis(part, [result.axes.index("y"), result.axes.index("x")], [0, 1])
            part = part.reshape(*part.shape[:2], 3) if colour else part.reshape(part.shape[:2])
            missing = [(0, side - part.shape[0]), (0, side - part.shape[1]), (0, 0)]
            yield np.ascontiguousarray(np.pad(part, missing[: part.ndim], mode="edge"))
