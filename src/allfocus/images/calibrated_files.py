"""Fused planes of a microscope -> OME-TIFF, OME-Zarr, or a TIFF that ImageJ opens with its channels and its scale.

Planes are asked for one at a time, position by position, time by time, channel by channel; none but that one is held.
"""

import io
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import OutputError
from allfocus.files.protection import existing_file
from allfocus.images.dimensions import Dimensions
from allfocus.images.encoders import LARGEST_CLASSIC_TIFF, TIFF_COMPRESSIONS
from allfocus.images.limits import Compression
from allfocus.images.ome_xml import FusedFrom, write_ome_xml
from allfocus.images.ome_zarr_folders import find_foreign, is_zarr, require_zarr
from allfocus.images.ome_zarr_planes import ZarrStack
from allfocus.images.ome_zarr_results import CHUNK, ZarrResult, create_result, write_metadata
from allfocus.images.spool import reduce_frame, reduce_known

OME_ENDINGS = (".ome.tif", ".ome.tiff")
ZARR_ENDING = ".zarr"
IMAGEJ_KINDS = ("uint8", "uint16", "float32")
SHOWN_SHARE = (0.001, 0.999)
"""Of the values of a channel, the darkest and the brightest share that a viewer shows as black and as full."""

ReadPlane = Callable[[int, int, int], NDArray[Any]]
"""(position, time, channel) -> samples (H, W), or (H, W, 3) for colour; numbers count from 0."""


@dataclass(frozen=True, eq=False)
class FusedPlanes:
    """Fused pictures of any number of positions, times and channels, and what is known about them."""

    positions: tuple[Dimensions, ...]
    """What each position holds; one plane each."""
    read: ReadPlane
    origin: FusedFrom
    software: str
    like: tuple[ZarrStack, ...] = ()
    """For each position the image of the OME-Zarr that it was fused from; none for other formats."""
    chosen: tuple[int, ...] | None = None
    """Which of its channels were taken, from 0; None for all."""

    def places(self) -> Iterator[tuple[int, int, int]]:
        """Every plane in the order in which it is written."""
        for position, held in enumerate(self.positions):
            for time in range(held.times):
                for channel in range(len(held.channels)):
                    yield position, time, channel

    @property
    def nbytes(self) -> int:
        """Of all samples."""
        return sum(
            held.size[0] * held.size[1] * held.samples * held.count * np.dtype(held.dtype).itemsize
            for held in self.positions
        )


def is_ome_tiff(path: Path) -> bool:
    """Whether a name is that of an OME-TIFF.

    Example:
        >>> is_ome_tiff(Path("cells.OME.tif")), is_ome_tiff(Path("cells.tif"))
        (True, False)
    """
    return path.name.lower().endswith(OME_ENDINGS)


def is_zarr_name(path: Path) -> bool:
    """Whether a name is that of an OME-Zarr.

    Example:
        >>> is_zarr_name(Path("cells.ome.zarr"))
        True
    """
    return path.suffix.lower() == ZARR_ENDING


def encode_ome_tiff(planes: FusedPlanes, *, compression: Compression = None) -> memoryview:
    """The bytes of an OME-TIFF: one page for each plane, in front of it all that is known in OME-XML.

    Raises:
        OutputError: there is no room for it in the temporary folder.
    """
    import tifffile

    packing = TIFF_COMPRESSIONS["deflate" if compression is None else str(compression)]
    description = write_ome_xml(planes.positions, planes.origin, software=planes.software).encode()
    with _temporary() as file:
        with tifffile.TiffWriter(file, bigtiff=planes.nbytes > LARGEST_CLASSIC_TIFF) as writer:
            for number, (position, time, channel) in enumerate(planes.places()):
                held = planes.positions[position]
                writer.write(
                    np.ascontiguousarray(planes.read(position, time, channel)),
                    description=description if number == 0 else None,
                    photometric="rgb" if held.samples == 3 else "minisblack",
                    planarconfig="contig" if held.samples == 3 else None,
                    compression=packing,
                    predictor=packing is not None,
                    maxworkers=1,
                    metadata=None,
                    contiguous=False,
                    software=False,
                    **_resolution(held),
                )
        return _mapped(file)


def encode_imagej(planes: FusedPlanes, *, compression: Compression = None) -> memoryview:
    """The bytes of a TIFF that ImageJ opens as a hyperstack, with names, colours and scale.

    Raises:
        OutputError: it holds what ImageJ's format cannot: several positions, other types, more than 4 GiB.
    """
    import tifffile

    held = planes.positions[0]
    problem = imagej_cannot(planes.positions)
    if not problem and planes.nbytes > LARGEST_CLASSIC_TIFF:
        problem = "ends at 4 GiB"
    if problem:
        raise OutputError(
            f"the TIFF of ImageJ {problem}; choose a name that ends in .ome.tif or .ome.zarr", code="unwritable-format"
        )
    colour = held.samples == 3
    shape = (held.times, 1, len(held.channels), *held.size, *((3,) if colour else ()))
    with _temporary() as file:
        tifffile.imwrite(
            file,
            (np.ascontiguousarray(planes.read(*place)) for place in planes.places()),
            shape=shape,
            dtype=held.dtype,
            imagej=True,
            photometric="rgb" if colour else "minisblack",
            compression=None if compression is None else TIFF_COMPRESSIONS[str(compression)],
            maxworkers=1,
            metadata=_imagej_metadata(planes),
            **_resolution(held, micrometres=True),
        )
        return _mapped(file)


def imagej_cannot(positions: Sequence[Dimensions]) -> str:
    """Why the TIFF of ImageJ cannot hold these; empty when it can."""
    held = positions[0]
    if len(positions) > 1:
        return f"holds one position, not {len(positions)}"
    if held.samples == 3 and (held.dtype != "uint8" or len(held.channels) > 1):
        return f"holds colour pictures of 8 bits, not {held.dtype}"
    if held.dtype not in IMAGEJ_KINDS:
        return f"holds {', '.join(IMAGEJ_KINDS)}, not {held.dtype}"
    return ""


def _imagej_metadata(planes: FusedPlanes) -> dict[str, Any]:
    held = planes.positions[0]
    facts = {**planes.origin.to_plain(), "software": planes.software}
    if held.acquired:
        facts["acquired"] = held.acquired
    if held.objective is not None:
        lens = held.objective
        facts["objective"] = " ".join(str(part) for part in (lens.manufacturer, lens.model) if part)
        facts |= {"magnification": lens.magnification, "numerical aperture": lens.aperture}
    metadata: dict[str, Any] = {
        "axes": "TZCYXS" if held.samples == 3 else "TZCYX",
        "Info": "\n".join(f"{name}: {value}" for name, value in facts.items() if value),
    }
    if held.pixel_size:
        metadata["unit"] = "um"
    if held.z_step:
        metadata["spacing"] = held.z_step
    if held.time_step:
        metadata |= {"finterval": held.time_step, "tunit": "sec"}
    if held.samples == 1:
        metadata["Labels"] = [channel.name for channel in held.channels] * held.times
        if len(held.channels) > 1:
            metadata["mode"] = "composite"
        if any(channel.colour for channel in held.channels):
            metadata["LUTs"] = [_colour_table(channel.colour or "#ffffff") for channel in held.channels]
    return metadata


def _colour_table(colour: str) -> NDArray[np.uint8]:
    """The colours (3, 256) from black to this one."""
    brightest = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)], np.float64)
    return np.rint(brightest[:, None] * np.arange(256) / 255).astype(np.uint8)


def _resolution(held: Dimensions, *, micrometres: bool = False) -> dict[str, Any]:
    """The size of a pixel as TIFF says it: in a centimetre, or as ImageJ has it, in a micrometre."""
    if not held.pixel_size:
        return {}
    height, width = held.pixel_size
    if micrometres:
        return {"resolution": (1 / width, 1 / height)}
    return {"resolution": (10_000 / width, 10_000 / height), "resolutionunit": "CENTIMETER"}


def write_ome_zarr(planes: FusedPlanes, folder: Path, *, name: str) -> None:
    """Writes an OME-Zarr with smaller copies into a folder that is empty or not there.

    Several positions become groups named 0, 1 ... as Bio-Formats lays them out.

    Args:
        planes: What to write.
        folder: Where.
        name: Of the image, where the stack has none.

    Raises:
        MissingDependencyError: the package zarr is not installed.
        OutputError: the system refused.
    """
    zarr = require_zarr()
    several = len(planes.positions) > 1
    try:
        if several:
            version = planes.like[0].zarr_format if planes.like else 3
            root = zarr.open_group(str(folder), mode="w", zarr_format=version)
            layout = {"bioformats2raw.layout": 3}
            root.attrs.update({"ome": {**layout, "version": "0.5"}} if version == 3 else layout)
        for position, held in enumerate(planes.positions):
            like = planes.like[position] if planes.like else None
            own = folder / str(position) if several else folder
            samples = held.samples * len(held.channels)
            result = create_result(own, held.size, samples, held.dtype, like, chunk=CHUNK, times=held.times)
            ranges = _write_levels(planes, position, result)
            write_metadata(
                result,
                like,
                name=held.name if several or not held.name.isdecimal() else name,
                history=planes.origin.history,
                dimensions=held,
                channels=planes.chosen,
                origin=planes.origin.to_plain(),
                ranges=ranges,
            )
    except OSError as error:
        raise OutputError(f"could not be written ({error.strerror}); free some space", where=folder) from error


def _write_levels(planes: FusedPlanes, position: int, result: ZarrResult) -> list[tuple[float, float]]:
    """Writes all planes of a position at all levels; gives the range of values of each channel."""
    group = require_zarr().open_group(result.path, mode="r+")
    held = planes.positions[position]
    ranges: dict[int, list[tuple[float, float]]] = {}
    for time in range(held.times):
        for channel in range(len(held.channels)):
            samples = planes.read(position, time, channel)
            for level in range(len(result.shapes)):
                if level:
                    samples = _halve(samples)
                layers = np.moveaxis(samples, 2, 0) if samples.ndim == 3 else samples[None]
                for number, layer in enumerate(layers):
                    places = {"t": time, "c": channel * held.samples + number}
                    where = tuple(places.get(axis, slice(None)) for axis in result.axes)
                    group[str(level)][where] = layer
            known = samples[np.isfinite(samples)]
            low, high = (float(value) for value in np.quantile(known, SHOWN_SHARE)) if known.size else (0.0, 1.0)
            ranges.setdefault(channel, []).append((low, max(high, low + 1e-6)))
    return [(min(low for low, _ in own), max(high for _, high in own)) for own in ranges.values()]


def _halve(samples: NDArray[Any]) -> NDArray[Any]:
    values = np.ascontiguousarray(samples, np.float32)
    smaller = reduce_known(values) if samples.ndim == 2 and samples.dtype.kind == "f" else reduce_frame(values, 2)
    rounded = smaller if samples.dtype.kind == "f" else np.rint(smaller)
    return rounded.reshape(*rounded.shape[:2], *samples.shape[2:]).astype(samples.dtype)


def check_zarr_output(path: Path, *, overwrite: bool) -> None:
    """Raise OutputError when an OME-Zarr could not be written there, or what is there may not be replaced.

    Raises:
        MissingDependencyError: the package zarr is not installed.
    """
    require_zarr()
    if not os.path.isdir(path.parent):
        raise OutputError(f"the folder {path.parent} does not exist; make it first", where=path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OutputError(f"the folder {path.parent} is read-only; choose another", where=path)
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise existing_file(path)
    if path.is_symlink() or not (path.is_dir() and is_zarr(path)):
        raise OutputError("exists and is no Zarr; it will not be replaced, choose another name", where=path)
    foreign = find_foreign(path)
    if foreign is not None:
        raise OutputError(f"holds {foreign}, which is no part of a Zarr; move it away, then run again", where=path)


class _Nameless(io.BufferedRandom):
    """A temporary file without a name in any folder, for a library that wants it to have one."""

    name = "fused.tif"


def _temporary() -> _Nameless:
    try:
        raw: Any = tempfile.TemporaryFile(buffering=0, prefix="allfocus-")  # noqa: SIM115 (closed by those who use it)
        return _Nameless(raw)
    except OSError as error:
        raise OutputError(f"no temporary file can be made ({error}); set TMPDIR to a writable folder") from error


def _mapped(file: _Nameless) -> memoryview:
    """The content of a file, which stays on disk until it is read; the file may be closed."""
    file.flush()
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
