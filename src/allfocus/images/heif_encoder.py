"""A picture -> a HEIF file, through pillow-heif, which the extra ``heif`` installs: 8 bits, or 10 of more."""

import io
from types import ModuleType
from typing import Any

import numpy as np

from allfocus.errors import MissingDependencyError
from allfocus.images.encoders import Samples
from allfocus.images.image import Image
from allfocus.images.limits import Compression

MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
LOSSLESS = 100


def encode_heif(samples: Samples, picture: Image, quality: int = 95, compression: Compression = None) -> bytes:
    """A HEIF file with full colour resolution; of 16 bits 10 are kept. Lossless at quality 100."""
    module = require_heif_encoder()
    height, width = samples.shape[:2]
    mode = MODES[1 if samples.ndim == 2 else samples.shape[2]] + (";16" if samples.dtype == np.uint16 else "")
    image = module.from_bytes(mode, (width, height), np.ascontiguousarray(samples).tobytes())
    options: dict[str, Any] = {"quality": quality, "chroma": 444}
    if quality == LOSSLESS:
        # Stored as RGB, because the way to other colours and back rounds.
        options |= {"quality": -1, "matrix_coefficients": 0}
    if picture.exif:
        options["exif"] = picture.exif
    if picture.icc_profile:
        image.info["icc_profile"] = picture.icc_profile
        image.info["icc_profile_type"] = "prof"
    file = io.BytesIO()
    image.save(file, **options)
    return file.getvalue()


def require_heif_encoder() -> ModuleType:
    """The package that writes HEIF.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        import pillow_heif
    except ImportError as error:
        raise MissingDependencyError(
            "writing HEIF needs pillow-heif, which is not installed: pip install 'allfocus[heif]'"
        ) from error
    return pillow_heif
