"""Depth maps as files: 16-bit PNG to look at and for other programs, 32-bit TIFF with its calibration to measure in.

PNG holds depth as brightness, the first frame black and the last white, and is transparent where nothing was measured.
TIFF holds the depth itself, in steps or in the unit of the step, and NaN where nothing was measured. Unit and size of a
pixel stand in its description as ImageJ writes them, so that Fiji opens it calibrated.
"""

import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allfocus.depth.units import METRES, Length, read_length
from allfocus.errors import InputError
from allfocus.files.opening import open_plain
from allfocus.images.image import Image
from allfocus.images.limits import MAX_PIXELS
from allfocus.images.listing import TIFF_SUFFIXES
from allfocus.images.reading import read_image
from allfocus.images.reduced_planes import LargePlane
from allfocus.images.tiff_decoder import decode_tiff
from allfocus.images.writing import encode_image

Map = NDArray[np.float32]

FRACTION, STEP = "fraction", "step"
"""Units of depth that is no length: 0 the first frame and 1 the last; the number of the frame."""


@dataclass(frozen=True)
class DepthMap:
    """Depth that was read from a file."""

    values: Map
    """(H, W), NaN where nothing was measured."""
    unit: str
    """``fraction``, ``step``, or a unit of length."""
    pixel_size: Length | None = None
    """How far neighbouring pixels are apart; None when the file does not tell."""
    step: float | None = None
    """How far neighbouring frames are apart, in the unit; None when the file does not tell."""


def encode_depth(
    values: Map, path: Path, *, unit: str, pixel_size: Length | None = None, step: float | None = None
) -> bytes | memoryview:
    """Returns the bytes of a depth map.

    Args:
        values: (H, W), NaN where nothing was measured: for TIFF in the unit, for other formats 0 to 1.
        path: Its ending gives the format.
        unit: Of the values in TIFF.
        pixel_size: How far neighbouring pixels are apart, if that is known.
        step: How far neighbouring frames are apart in the unit, if that is known.
    """
    there = np.isfinite(values)
    if path.suffix.lower() not in TIFF_SUFFIXES:
        alpha = None if there.all() else there.astype(np.float32)
        pixels = np.where(there, np.clip(values, 0, 1), 0).astype(np.float32)
        dots = None if pixel_size is None else 0.0254 / pixel_size.metres
        resolution = None if dots is None else (dots, dots)
        return encode_image(Image(pixels, bit_depth=16, alpha=alpha, resolution=resolution), path)
    import tifffile

    low, high = (float(np.nanmin(values)), float(np.nanmax(values))) if there.any() else (0.0, 0.0)
    lines = ["ImageJ=1.54f", f"unit={pixel_size.unit if pixel_size else 'pixel'}", f"vunit={unit}"]
    lines += [] if step is None else [f"step={step:.9g}"]
    lines += ["cf=0", "c0=0", "c1=1", f"min={low:.9g}", f"max={high:.9g}", ""]
    file = io.BytesIO()
    tifffile.imwrite(
        file,
        values.astype(np.float32, copy=False),
        description="\n".join(lines),
        resolution=None if pixel_size is None else (1 / pixel_size.value, 1 / pixel_size.value),
        resolutionunit=None if pixel_size is None else 1,
        compression="zlib",
        predictor=True,
        metadata=None,
        software=False,
    )
    return file.getbuffer()


def read_depth(path: str | Path) -> DepthMap:
    """Returns the depth map in a file that :func:`encode_depth` made, or in any grey picture.

    Raises:
        InputError: it cannot be read, or is in colour.
    """
    path = Path(path)
    known = _description(path) if path.suffix.lower() in TIFF_SUFFIXES else {}
    unit = known.get("vunit", "")
    if unit in METRES or unit == STEP:
        return DepthMap(_read_values(path), unit, _pixel_size(known), _number(known.get("step")))
    image = read_image(path)
    if image.is_colour:
        raise InputError(
            "is in colour; a depth map is grey (its preview is in colours)", where=path, code="unsupported-picture"
        )
    values = image.pixels.astype(np.float32, copy=True)
    if image.alpha is not None:
        values[image.alpha < 0.5] = np.nan
    return DepthMap(_between_0_and_1(values, path), FRACTION, _pixel_size(known))


MEASURED_CHANNEL = re.compile(r"depth \((\w+)\)")
"""What the channel of a depth map in an OME-Zarr or OME-TIFF is called, with the unit."""


def read_large_depth(plane: LargePlane, stride: int) -> DepthMap:
    """Returns the depth map in an OME-Zarr or OME-TIFF, every so many-th pixel of it, exactly as it is there.

    Raises:
        InputError: it cannot be read, or is no depth map.
    """
    held = plane.held
    found = MEASURED_CHANNEL.fullmatch(held.channels[0].name)
    if found is None or held.dtype != "float32" or (found[1] not in METRES and found[1] != STEP):
        raise InputError(
            f"its channel is {held.channels[0].name}; that of a depth map is called depth, with its unit",
            where=plane.file.path,
            code="unsupported-picture",
        )
    values = plane.read_values(stride)
    values[~np.isfinite(values)] = np.nan
    size = None if held.pixel_size is None else Length(held.pixel_size[1] * stride, "um")
    step = None if held.z_step is None or found[1] != "um" else abs(held.z_step)
    return DepthMap(values, found[1], size, step)


def _read_values(path: Path) -> Map:
    """The values of a TIFF file with its holes, which no picture may have; checked like every other file."""
    try:
        with open_plain(path) as file:
            samples = decode_tiff(file, 0, MAX_PIXELS).samples
    except InputError as error:
        error.set_place(path)
        raise
    except Exception as error:
        # A decoder that is fed a damaged file may raise anything at all.
        raise InputError(
            "the file is truncated or damaged; copy it again", where=path, code="damaged-picture"
        ) from error
    if samples.ndim != 2 or samples.dtype.kind != "f":
        raise InputError(
            "holds no depth: it is not floating point of one channel", where=path, code="unsupported-picture"
        )
    values = samples.astype(np.float32)
    values[~np.isfinite(values)] = np.nan
    return values


def _between_0_and_1(values: Map, path: str | Path) -> Map:
    there = values[np.isfinite(values)]
    if there.size and (there.min() < 0 or there.max() > 1):
        raise InputError(
            f"its values run from {there.min():g} to {there.max():g} and no unit is said; "
            "give the TIFF that allfocus wrote, or a grey picture",
            where=path,
            code="unsupported-picture",
        )
    return values


def _description(path: Path) -> dict[str, str]:
    """What the description of a TIFF file says, line by line, and how many pixels a unit has."""
    import tifffile

    try:
        with tifffile.TiffFile(path) as file:
            tags = file.pages.first.tags
            text = str(tags["ImageDescription"].value) if "ImageDescription" in tags else ""
            density = tags["XResolution"].value if "XResolution" in tags else None
    except (OSError, ValueError, tifffile.TiffFileError):
        return {}
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if density is not None and density[0] > 0:
        found["spacing"] = repr(density[1] / density[0])
    return found


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value > 0 and np.isfinite(value) else None


def _pixel_size(known: dict[str, str]) -> Length | None:
    if "spacing" not in known or known.get("unit", "") not in METRES:
        return None
    return read_length(f"{float(known['spacing']):.9g}{known['unit']}", name="pixel_size")
