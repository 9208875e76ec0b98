"""RAW files made here: a rendered scene as a sensor with a Bayer filter would see it, in a DNG of its own.

The camera is none that there is: its matrix, white balance and levels are chosen to be like those of real ones.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray

MATRIX = np.array([[0.6988, -0.1384, -0.0714], [-0.5631, 1.3410, 0.2447], [-0.1485, 0.2204, 0.7318]])
"""From CIE XYZ to the colours of a camera that there might be."""
BALANCE = (2.0, 1.0, 1.5)
SRGB = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
BLACK, WHITE = 512, 16383


def to_light(pixels: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.where(pixels <= 0.04045, pixels / 12.92, ((pixels + 0.055) / 1.055) ** 2.4), np.float64)


def camera_light(pixels: NDArray[Any]) -> NDArray[Any]:
    """What the camera sees of a picture in sRGB, (H, W, 3), white at 1 / BALANCE."""
    camera = MATRIX @ SRGB
    balanced = to_light(np.asarray(pixels, np.float64)) @ (camera / camera.sum(axis=1, keepdims=True)).T
    return np.asarray(np.clip(balanced / np.array(BALANCE), 0, 1), np.float64)


def write_dng(path: Path, pixels: NDArray[Any], *, noise: float = 0.0, seed: int = 0, **about: Any) -> Path:
    """A DNG of 14 bits; ``noise`` is the standard deviation of the light, 1 at full exposure."""
    light = camera_light(pixels)
    colours = np.add.outer(np.arange(light.shape[0]) % 2, np.arange(light.shape[1]) % 2)
    mosaic = np.take_along_axis(light, colours[..., None], axis=2)[..., 0]
    mosaic = mosaic + np.random.default_rng(seed).normal(0, 1, mosaic.shape) * noise
    return write_mosaic(path, mosaic * (WHITE - BLACK) + BLACK, **about)


def write_mosaic(
    path: Path,
    mosaic: NDArray[Any],
    *,
    orientation: int = 1,
    balance: Sequence[float] = BALANCE,
    extra: Sequence[tuple[Any, ...]] = (),
) -> Path:
    matrix = [part for value in MATRIX.flat for part in (round(value * 10000), 10000)]
    neutral = [part for value in balance for part in (round(10000 / value), 10000)]
    tags = [
        (271, "s", 0, "Hopeful", True),
        (272, "s", 0, "Hopeful One", True),
        (274, "H", 1, orientation, True),
        (33421, "H", 2, (2, 2), True),
        (33422, "B", 4, bytes([0, 1, 1, 2]), True),
        (50706, "B", 4, bytes([1, 4, 0, 0]), True),
        (50708, "s", 0, "Hopeful One", True),
        (50714, "H", 1, BLACK, True),
        (50717, "I", 1, WHITE, True),
        (50721, "2i", 9, matrix, True),
        (50728, "2I", 3, neutral, True),
        (50730, "2i", 1, (1, 2), True),
        (50778, "H", 1, 21, True),
        *extra,
    ]
    replaced = {tag[0] for tag in extra}
    tags = [tag for place, tag in enumerate(tags) if tag[0] not in replaced or place >= len(tags) - len(extra)]
    samples = np.clip(np.rint(mosaic), 0, WHITE).astype(np.uint16)
    tifffile.imwrite(path, samples, photometric=32803, extratags=tags, metadata=None, software=False)
    return Path(path)


def develop(path: Path) -> NDArray[Any]:
    """As any program that is built on LibRaw would: 16 bits, sRGB, the camera's white balance."""
    import rawpy

    with rawpy.imread(str(path)) as raw:
        samples = raw.postprocess(
            output_bps=16, use_camera_wb=True, no_auto_bright=True, gamma=(2.4, 12.92), adjust_maximum_thr=0
        )
    return samples / 65535


def decibels(one: NDArray[Any], two: NDArray[Any]) -> float:
    return float(-10 * np.log10(np.mean(np.square(np.subtract(one, two, dtype=np.float64)))))
