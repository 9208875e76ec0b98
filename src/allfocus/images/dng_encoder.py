"""A picture in a camera's colours -> a linear DNG (Adobe's specification 1.4): 16 bits, to be graded like a RAW file.

The first directory holds a thumbnail, the entries about colour, and EXIF; below it lie the light itself (LinearRaw:
three samples for each pixel, nothing left to demosaic) and a preview in JPEG.
"""

import io
import struct
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import OutputError
from allfocus.images.camera_colour import EXPONENT, CameraColour
from allfocus.images.encoders import LARGEST_CLASSIC_TIFF, Samples, add_to_tiff
from allfocus.images.exif import parse_block
from allfocus.images.image import Image
from allfocus.images.limits import Compression
from allfocus.images.tiff_layout import TiffEntry
from allfocus.images.transfer import SRGB

LINEAR_RAW = 34892
THUMBNAIL_SIDE, PREVIEW_SIDE = 256, 1600
PREVIEW_QUALITY = 88
LARGEST_DENOMINATOR = 10**6

VERSION, BACKWARD_VERSION, UNIQUE_CAMERA_MODEL = 50706, 50707, 50708
COLOUR_MATRIX, AS_SHOT_NEUTRAL, BASELINE_EXPOSURE, CALIBRATION_ILLUMINANT = 50721, 50728, 50730, 50778
WHITE_LEVEL, BLACK_LEVEL = 50717, 50714
NUMBERS = {3: "H", 4: "I", 5: "I", 8: "h", 9: "i", 10: "i", 11: "f", 12: "d"}
"""Types of entries, with how struct calls their numbers."""
DAYLIGHT = 21
"""D65, among the light sources of EXIF."""

Tag = tuple[int, int | str, int, object, bool]
"""Number, type, count and value of an entry, and whether it is written once, as tifffile takes them."""


def encode_dng(samples: Samples, picture: Image, quality: int = 95, compression: Compression = None) -> memoryview:
    """A linear DNG of 16 bits, not compressed, with the camera's matrix and white balance, and a preview.

    Raises:
        OutputError: the picture is not in a camera's colours, or the camera's matrix is not known.
    """
    import tifffile

    camera = picture.camera
    if camera is None or samples.ndim != 3:
        raise OutputError("DNG holds colours of a camera alone; choose .tif", code="unwritable-format")
    require_known_colours(camera)
    if samples.nbytes > LARGEST_CLASSIC_TIFF:
        raise OutputError("DNG ends at 4 GiB; choose .tif", code="unwritable-format")
    preview = _develop(_shrink(samples, PREVIEW_SIDE), camera)
    order: Literal[">", "<"] = ">" if (picture.exif or b"").startswith(b"MM") else "<"
    file = io.BytesIO()
    plain: dict[str, Any] = {"photometric": "rgb", "metadata": None, "software": False, "maxworkers": 1}
    with tifffile.TiffWriter(file, byteorder=order) as writer:
        writer.write(
            _shrink(preview, THUMBNAIL_SIDE), subfiletype=1, subifds=2, extratags=_colour_tags(camera, order), **plain
        )
        levels = [(BLACK_LEVEL, "H", 3, (0, 0, 0), True), (WHITE_LEVEL, "I", 3, (65535,) * 3, True)]
        writer.write(
            _sensor_light(samples, camera), subfiletype=0, extratags=levels, **{**plain, "photometric": LINEAR_RAW}
        )
        packing: dict[str, Any] = {
            "compression": "jpeg",
            "compressionargs": {"level": PREVIEW_QUALITY},
            "subsampling": (1, 1),
        }
        writer.write(preview, subfiletype=1, **plain, **packing)
    if picture.exif:
        add_to_tiff(file, parse_block(picture.exif))
    return file.getbuffer()


def require_known_colours(camera: CameraColour, *, channels: int = 3) -> None:
    """Raise OutputError when a camera's pictures cannot be written as DNG: a grey sensor, or colours nobody knows.

    Args:
        camera: Of the frames.
        channels: Of the frames, 1 for grey.
    """
    if channels != 3:
        raise OutputError(
            f"the sensor of the {camera.model} sees grey, and a DNG is written in three colours; choose .tif",
            code="unwritable-format",
        )
    if not camera.matrix:
        raise OutputError(
            f"the colours of the {camera.model} are not known to LibRaw; choose .tif", code="unwritable-format"
        )


def _sensor_light(samples: Samples, camera: CameraColour) -> NDArray[np.uint16]:
    """Stored samples (H, W, 3) of 16 bits as the light of the sensor: curve and white balance undone."""
    # From a table: a power for each sample would take longer than writing the file.
    light = (np.arange(65536) / 65535) ** EXPONENT
    tables = [np.clip(np.rint(light / float(scale) * 65535), 0, 65535).astype(np.uint16) for scale in camera.scale]
    found = np.empty(samples.shape, np.uint16)
    for place, table in enumerate(tables):
        found[..., place] = table[samples[..., place]]
    return found


def _develop(samples: Samples, camera: CameraColour) -> NDArray[np.uint8]:
    """Stored samples (H, W, 3) of 16 bits as sRGB of 8 bits, to look at."""
    light = (samples / np.float32(65535)) ** np.float32(EXPONENT) * np.float32(max(camera.balance))
    colours = np.clip(np.minimum(light, 1) @ camera.to_srgb().T.astype(np.float32), 0, 1).astype(np.float32)
    return np.rint(SRGB.from_linear(colours) * 255).astype(np.uint8)


def _shrink(samples: Samples, side: int) -> Samples:
    import cv2

    height, width = samples.shape[:2]
    scale = side / max(height, width)
    if scale >= 1:
        return np.ascontiguousarray(samples)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(samples, size, interpolation=cv2.INTER_AREA))


def _colour_tags(camera: CameraColour, order: str) -> list[Tag]:
    """The entries of the first directory, as tifffile takes them."""
    model = camera.model.encode("ascii", "replace").decode()
    tags: dict[int, Tag] = {
        COLOUR_MATRIX: (COLOUR_MATRIX, "2i", 9, _rationals(camera.matrix), True),
        CALIBRATION_ILLUMINANT: (CALIBRATION_ILLUMINANT, "H", 1, DAYLIGHT, True),
        BASELINE_EXPOSURE: (BASELINE_EXPOSURE, "2i", 1, (0, 1), True),
    }
    if camera.entries:  # those of a DNG know more: two lights, calibration, what its maker wants as exposure
        tags = {entry[0]: _copied(entry, order) for entry in camera.entries if entry[1] in NUMBERS}
    neutral = _rationals([1 / value for value in camera.balance])
    return [
        (VERSION, "B", 4, bytes((1, 4, 0, 0)), True),
        (BACKWARD_VERSION, "B", 4, bytes((1, 1, 0, 0)), True),
        (UNIQUE_CAMERA_MODEL, "s", 0, model, True),
        (AS_SHOT_NEUTRAL, "2I", 3, neutral, True),
        (274, "H", 1, 1, True),  # upright, because it has been turned
        *tags.values(),
    ]


def _copied(entry: TiffEntry, order: str) -> Tag:
    """An entry as tifffile takes it: with its numbers, fractions as two of them."""
    tag, kind, count, value = entry
    code = NUMBERS[kind]
    return tag, kind, count, struct.unpack(f"{order}{len(value) // struct.calcsize('=' + code)}{code}", value), True


def _rationals(values: Iterable[float]) -> tuple[int, ...]:
    """Each value as numerator and denominator."""
    fractions = [Fraction(float(value)).limit_denominator(LARGEST_DENOMINATOR) for value in values]
    return tuple(part for fraction in fractions for part in (fraction.numerator, fraction.denominator))
