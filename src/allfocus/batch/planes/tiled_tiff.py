"""A fused plane as one large TIFF: tiles, smaller copies, the size of a pixel; BigTIFF where 4 GiB do not suffice.

Written tile by tile from the arrays that the blocks were fused into, so that memory does not depend on the plane.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allfocus.images.calibrated_files import is_ome_tiff
from allfocus.images.dimensions import Dimensions, in_micrometres
from allfocus.images.ome_xml import FusedFrom, write_ome_xml
from allfocus.images.ome_zarr_folders import require_zarr
from allfocus.images.ome_zarr_results import ZarrResult

if TYPE_CHECKING:
    from tifffile import TiffFile

LARGEST_CLASSIC_TIFF = 3_900_000_000
"""Bytes of pixels, all copies counted, that surely fit into the 4 GiB of classic TIFF, packed or not."""


@dataclass(frozen=True)
class TiffLabels:
    """What a TIFF says beside its pixels."""

    held: Dimensions
    """Of the result."""
    origin: FusedFrom
    """How it was made."""
    software: str
    icc_profile: bytes | None = None


def read_pixel_size(tiff: "TiffFile") -> tuple[float, float] | None:
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
        unit = in_micrometres(str((tiff.imagej_metadata or {}).get("unit", ""))) or unit
    width, height = page.resolution
    return (unit / height, unit / width) if unit and height > 0 and width > 0 and "XResolution" in page.tags else None


def _size_in_ome(text: str, axis: str) -> float | None:
    value = re.search(rf'PhysicalSize{axis}="([0-9.eE+-]+)"', text)
    unit = re.search(rf'PhysicalSize{axis}Unit="([^"]*)"', text)
    factor = in_micrometres(unit[1]) if unit else 1.0  # micrometres are what OME-XML means when it says nothing
    return float(value[1]) * factor if value and factor else None


def write_plane_tiff(result: ZarrResult, path: Path, labels: TiffLabels) -> None:
    """Writes the arrays of a result as one TIFF with tiles of the size of their chunks, packed without loss.

    A name that ends in ``.ome.tif`` gets OME-XML; any other the resolution tags of TIFF. Every channel is a page.
    """
    import tifffile

    group = require_zarr().open_group(result.path, mode="r")
    arrays = [group[str(level)] for level in range(len(result.shapes))]
    colour = labels.held.samples == 3
    total = sum(int(array.nbytes) for array in arrays)
    description = labels.origin.history
    if is_ome_tiff(path):
        description = write_ome_xml([labels.held], labels.origin, software=labels.software)
    with tifffile.TiffWriter(path, bigtiff=total > LARGEST_CLASSIC_TIFF) as writer:
        for layer in [None] if colour else range(result.layers):
            for level, array in enumerate(arrays):
                height, width = (array.shape[result.axes.index(axis)] for axis in "yx")
                first: dict[str, Any] = {"subifds": len(arrays) - 1, "iccprofile": labels.icc_profile}
                if not layer:
                    first["description"] = description.encode()
                writer.write(
                    _tiles(array, result, layer),
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
                    metadata=None,
                    **_resolution(labels, level),
                    **(first if level == 0 else {"subfiletype": 1}),
                )


def _resolution(labels: TiffLabels, level: int) -> dict[str, Any]:
    if not labels.held.pixel_size:
        return {}
    height, width = (10_000 / (size * 2**level) for size in labels.held.pixel_size)
    return {"resolution": (width, height), "resolutionunit": "CENTIMETER"}


def _tile_side(chunk: int) -> int:
    return -(-chunk // 16) * 16  # TIFF wants multiples of 16


def _tiles(array: Any, result: ZarrResult, layer: int | None) -> Iterator[NDArray[Any]]:
    """The tiles row by row, (side, side) of a layer or (side, side, 3) of all; at the edges they are filled up."""
    side = _tile_side(result.chunk)
    height, width = (array.shape[result.axes.index(axis)] for axis in "yx")
    for top in range(0, height, side):
        for left in range(0, width, side):
            area = result.slices(slice(top, min(top + side, height)), slice(left, min(left + side, width)), layer)
            part = np.asarray(array[area])
            part = np.moveaxis(part, [result.axes.index("y"), result.axes.index("x")], [0, 1])
            part = part.reshape(*part.shape[:2], 3) if layer is None else part.reshape(part.shape[:2])
            missing = [(0, side - part.shape[0]), (0, side - part.shape[1]), (0, 0)]
            yield np.ascontiguousarray(np.pad(part, missing[: part.ndim], mode="edge"))
