"""What happens to real frames after the lens: noise, JPEG compression, exposure differences, small shifts."""

import functools
import math

import torch
from torch import Tensor
from torch.nn import functional

# The quantisation tables of the JPEG standard, annex K.
_LUMINANCE = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
_CHROMINANCE = (
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, *([99] * 32),
)  # fmt: skip


def compress_jpeg(pictures: Tensor, quality: Tensor, subsample: Tensor) -> Tensor:
    """Returns the pictures after JPEG compression and decompression, in 0..1.

    Args:
        pictures: (batch, 3, height, width) in 0..1, height and width multiples of 16.
        quality: (batch,) 1 to 100, as libjpeg counts.
        subsample: (batch,) booleans; True halves the colour resolution (4:2:0).
    """
    red, green, blue = (pictures * 255.0).unbind(1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    chroma = torch.stack([(blue - luma) / 1.772, (red - luma) / 1.402], dim=1)
    scale = torch.where(quality < 50, 5000.0 / quality, 200.0 - 2.0 * quality) / 100.0
    luma = _quantise_blocks(luma[:, None] - 128.0, _table(_LUMINANCE, scale))[:, 0] + 128.0
    table = _table(_CHROMINANCE, scale)
    # The encoder halves the colours before it cuts them into blocks; the decoder doubles what it reads.
    halved = _quantise_blocks(functional.avg_pool2d(chroma, 2), table)
    doubled = functional.interpolate(halved, scale_factor=2.0, mode="bilinear")
    chroma = torch.where(subsample[:, None, None, None], doubled, _quantise_blocks(chroma, table))
    cb, cr = chroma.unbind(1)
    rgb = torch.stack([luma + 1.402 * cr, luma - 0.344136 * cb - 0.714136 * cr, luma + 1.772 * cb], dim=1)
    return (rgb.clamp(0, 255).round()) / 255.0


@functools.cache
def _standard_table(values: tuple[int, ...], device: torch.device) -> Tensor:
    # Kept, because a copy from the host cannot be part of a CUDA graph.
    return torch.tensor(values, device=device, dtype=torch.float32).reshape(1, 1, 8, 8)


def _table(values: tuple[int, ...], scale: Tensor) -> Tensor:
    return (_standard_table(values, scale.device) * scale[:, None, None, None] + 0.5).floor().clamp(1.0, 255.0)


def _quantise_blocks(planes: Tensor, table: Tensor) -> Tensor:
    """Returns planes (batch, n, height, width) with each 8x8 block rounded in the cosine domain."""
    batch, count, height, width = planes.shape
    k = torch.arange(8, device=planes.device, dtype=torch.float32)
    cosine = torch.cos(math.pi * (2 * k[None, :] + 1) * k[:, None] / 16) * 0.5
    cosine = cosine * torch.where(k == 0, math.sqrt(0.5), 1.0)[:, None]
    blocks = planes.reshape(batch, count, height // 8, 8, width // 8, 8).transpose(3, 4)
    spectrum = cosine @ blocks @ cosine.T
    steps = table[:, :, None, None]
    restored = cosine.T @ ((spectrum / steps).round() * steps) @ cosine
    return restored.transpose(3, 4).reshape(planes.shape)


def affine_grid(
    batch: int,
    size: tuple[int, int],
    margin: int,
    *,
    shift: float,
    turn: float,
    zoom: float,
    generator: torch.Generator,
    device: torch.device,
) -> Tensor:
    """Returns sampling grids (batch, height, width, 2) for pictures with `margin` extra pixels on each side.

    Args:
        batch: number of grids.
        size: height and width of the result.
        margin: extra pixels around it that the shifted view may reach into.
        shift: standard deviation of the shift in pixels; a third of the samples are shifted by whole pixels, which
            keeps them as sharp as they were.
        turn: standard deviation of the rotation in radians.
        zoom: standard deviation of the relative scale.
        generator: source of randomness.
        device: where the grid lives.
    """
    height, width = size
    random = torch.randn(batch, 4, generator=generator, device=device)
    whole = torch.rand(batch, 1, generator=generator, device=device) < 0.34
    offset = (random[:, :2] * shift).clamp(-margin / 2, margin / 2)
    offset = torch.where(whole, offset.round(), offset)
    angle = torch.where(whole[:, 0], 0.0, random[:, 2] * turn)
    scale = torch.where(whole[:, 0], 1.0, 1.0 + random[:, 3] * zoom)
    y = torch.arange(height, device=device, dtype=torch.float32) - (height - 1) / 2
    x = torch.arange(width, device=device, dtype=torch.float32) - (width - 1) / 2
    cosine, sine = (torch.cos(angle) * scale)[:, None, None], (torch.sin(angle) * scale)[:, None, None]
    across = cosine * x[None, None, :] - sine * y[None, :, None] + offset[:, 0, None, None]
    down = sine * x[None, None, :] + cosine * y[None, :, None] + offset[:, 1, None, None]
    full_height, full_width = height + 2 * margin, width + 2 * margin
    return torch.stack([across * 2 / (full_width - 1), down * 2 / (full_height - 1)], dim=-1)
