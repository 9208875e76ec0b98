"""Low-pass filters for batches of pictures on any device: mean, Gaussian, disk and median, one kernel per sample."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

LARGEST_KERNEL = 31
"""The paper draws kernel sizes from [3, 31]."""
MARGIN = LARGEST_KERNEL // 2
"""Pixels around a picture that a filter needs to see."""
WIDE_MARGIN = 60
"""The same for the blur of a lens, which is wider than any filter of the paper."""

SOFTEST_PICTURE = 1.5
"""Standard deviation in pixels of the blur that pictures have at full size, at most: of lens, sensor, demosaicing."""
SOFT_REACH = 4
"""Pixels to each side that this blur takes in."""


def mean_kernels(sizes: Tensor) -> Tensor:
    """Returns box kernels (batch, 31, 31) that sum to 1, of the odd `sizes` (batch,)."""
    distance = _offsets(sizes).abs()
    inside = (distance <= (sizes[:, None] - 1) / 2).to(torch.float32)
    return _normalised(inside[:, :, None] * inside[:, None, :])


def gaussian_kernels(sizes: Tensor) -> Tensor:
    """Returns Gaussian kernels (batch, 31, 31), cut to the odd `sizes`; sigma follows OpenCV's rule for a size."""
    distance = _offsets(sizes)
    sigma = 0.3 * ((sizes[:, None] - 1) * 0.5 - 1) + 0.8
    profile = torch.exp(-0.5 * (distance / sigma) ** 2) * (distance.abs() <= (sizes[:, None] - 1) / 2)
    return _normalised(profile[:, :, None] * profile[:, None, :])


def disk_kernels(radii: Tensor) -> Tensor:
    """Returns disks (batch, 31, 31) with a soft rim, the blur of a lens; a radius of 0 gives the identity."""
    distance = _offsets(radii)
    radius = torch.sqrt(distance[:, :, None] ** 2 + distance[:, None, :] ** 2)
    # Below half a pixel a linear rim would leave the centre alone, so small radii fade into the identity.
    return _normalised((radii[:, None, None] + 0.5 - radius).clamp(0.0, 1.0))


def filter_pictures(pictures: Tensor, kernels: Tensor) -> Tensor:
    """Returns the pictures filtered without padding, so MARGIN pixels smaller on each side.

    Args:
        pictures: (batch, channels, height, width).
        kernels: (batch, 31, 31) gives (batch, channels, ...); (batch, n, 31, 31) gives (batch, n, channels, ...).
    """
    several = kernels.dim() == 4
    stacked = kernels if several else kernels[:, None]
    size = pictures.shape[-2:]
    spectrum = torch.fft.rfft2(pictures)[:, None]
    # The kernels are symmetric; placing them at the corner makes the first valid pixel land at (30, 30).
    response = torch.fft.rfft2(stacked, s=(size[0], size[1]))[:, :, None]
    filtered: Tensor = torch.fft.irfft2(spectrum * response, s=(size[0], size[1]))
    start = LARGEST_KERNEL - 1
    valid = filtered[..., start:, start:]
    return valid if several else valid[:, 0]


def lens_blur(pictures: Tensor, radii: Tensor, softness: Tensor) -> Tensor:
    """Returns the pictures (batch, channels, height, width) blurred by disks, WIDE_MARGIN smaller on each side.

    Args:
        pictures: what lies before the lens.
        radii: (batch, n) in pixels, up to WIDE_MARGIN - 1; 0 gives the identity.
        softness: (batch,) pixels over which the rim of a disk falls, 1 or more: lenses are rarely perfect.

    Returns:
        (batch, n, channels, height, width).
    """
    height, width = pictures.shape[-2:]
    spectrum = torch.fft.rfft2(pictures)[:, None]
    response = torch.fft.rfft2(_wrapped_disks(radii, softness, (height, width)))[:, :, None]
    blurred: Tensor = torch.fft.irfft2(spectrum * response, s=(height, width))
    return blurred[..., WIDE_MARGIN : height - WIDE_MARGIN, WIDE_MARGIN : width - WIDE_MARGIN]


def _wrapped_disks(radii: Tensor, softness: Tensor, size: tuple[int, int]) -> Tensor:
    """Disks (batch, n, height, width) around the first pixel that sum to 1, as a circular convolution wants them."""
    offsets = []
    for length in size:
        position = torch.arange(length, device=radii.device, dtype=torch.float32)
        offsets.append(torch.minimum(position, length - position))
    distance = torch.sqrt(offsets[0][:, None] ** 2 + offsets[1][None, :] ** 2)
    radius = radii[:, :, None, None]
    rim = torch.minimum(softness[:, None, None, None], 2 * radius + 1)
    return _normalised(((radius + 0.5 * rim - distance) / rim).clamp(0.0, 1.0))


def soften(pictures: Tensor, deviations: Tensor) -> Tensor:
    """Returns the pictures (batch, ..., height, width) as a lens and a sensor show them that are not quite sharp.

    Args:
        pictures: what lies before the lens.
        deviations: (batch,) of a Gaussian, in pixels, up to a third of SOFT_REACH; 0 changes nothing.
    """
    shares = _profiles(deviations)
    result = pictures.flatten(1, -3)
    for axis in (-1, -2):
        sides = (SOFT_REACH, SOFT_REACH, 0, 0) if axis == -1 else (0, 0, SOFT_REACH, SOFT_REACH)
        padded, length = functional.pad(result, sides, mode="replicate"), result.shape[axis]
        result = torch.zeros_like(result)
        for k in range(2 * SOFT_REACH + 1):
            result = torch.addcmul(result, padded.narrow(axis, k, length), shares[:, k, None, None, None])
    return result.reshape(pictures.shape)


def coarsen(noise: Tensor, deviations: Tensor) -> Tensor:
    """Returns noise (batch, ..., height, width) of the same strength whose grain is coarser; see :func:`soften`."""
    strength = _profiles(deviations).square().sum(1)
    return soften(noise, deviations) / strength.reshape(-1, *[1] * (noise.dim() - 1))


def _profiles(deviations: Tensor) -> Tensor:
    """Returns Gaussians (batch, 2 * SOFT_REACH + 1) that sum to 1."""
    offsets = torch.arange(-SOFT_REACH, SOFT_REACH + 1, device=deviations.device)
    shares = torch.exp(-0.5 * (offsets / deviations[:, None].clamp(min=0.05)) ** 2)
    return shares / shares.sum(1, keepdim=True)


def draw_softness(count: int, share: float, generator: torch.Generator) -> Tensor:
    """Returns deviations (count,) for :func:`soften`: 0 but for a share of them, small ones as likely as large."""
    drawn = torch.rand(count, 2, generator=generator, device=generator.device)
    return torch.where(drawn[:, 0] < share, SOFTEST_PICTURE * drawn[:, 1], 0.0)


def median_filter(pictures: Tensor, size: int) -> Tensor:
    """Returns the median of each `size` x `size` window, MARGIN pixels smaller on each side than `pictures`."""
    reach = size // 2
    cut = MARGIN - reach
    height, width = pictures.shape[-2] - 2 * MARGIN, pictures.shape[-1] - 2 * MARGIN
    inner = pictures[..., cut : pictures.shape[-2] - cut, cut : pictures.shape[-1] - cut]
    rows = []
    # Row by row: all windows at once would need size^2 times the memory of the pictures.
    step = max(1, 2**24 // (size * size * width * pictures.shape[0] * pictures.shape[1]))
    for top in range(0, height, step):
        strip = inner[..., top : min(top + step, height) + size - 1, :]
        windows = strip.unfold(-2, size, 1).unfold(-2, size, 1).flatten(-2)
        rows.append(windows.median(dim=-1).values)
    return torch.cat(rows, dim=-2)


def remap_borders(pictures: Tensor, modes: Tensor, sides: Tensor) -> Tensor:
    """Returns the pictures with their outer MARGIN pixels replaced as other software pads before it filters.

    Args:
        pictures: (batch, channels, height, width) whose outer MARGIN pixels show what really lies there.
        modes: (batch,) 0 keeps what lies there, 1 zeros, 2 repeats the last pixel, 3 mirrors.
        sides: (batch, 4) booleans: top, bottom, left, right are treated.
    """
    height, width = pictures.shape[-2:]
    rows, inside_rows = _border_coordinates(height, modes, sides[:, 0], sides[:, 1])
    columns, inside_columns = _border_coordinates(width, modes, sides[:, 2], sides[:, 3])
    rows = rows[:, None, :, None].expand(-1, pictures.shape[1], -1, width)
    columns = columns[:, None, None, :].expand(-1, pictures.shape[1], height, -1)
    moved = pictures.gather(2, rows).gather(3, columns)
    zero = (modes == 1)[:, None, None] & ~(inside_rows[:, :, None] & inside_columns[:, None, :])
    return moved * (~zero)[:, None]


def _border_coordinates(size: int, modes: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Returns per sample the source coordinate (batch, size) of each coordinate, and which are not beyond the frame."""
    position = torch.arange(size, device=modes.device)[None]
    first, last = MARGIN, size - 1 - MARGIN
    beyond = ((position < first) & low[:, None]) | ((position > last) & high[:, None])
    beyond = beyond & (modes > 0)[:, None]
    repeated = position.clamp(first, last)
    mirrored = 2 * repeated - position
    replacement = torch.where((modes == 3)[:, None], mirrored, repeated)
    return torch.where(beyond, replacement, position), ~beyond


def draw_fields(
    batch: int, fields: int, size: tuple[int, int], cells: Sequence[int], generator: torch.Generator
) -> Tensor:
    """Returns smooth random fields (batch, fields, height, width); each sample draws its feature size from `cells`."""
    device = generator.device
    choice = torch.randint(len(cells), (batch,), generator=generator, device=device)
    cell = torch.zeros(batch, 1, device=device)
    for index, own in enumerate(cells):
        cell = torch.where(choice[:, None] == index, float(own), cell)
    grid = [length // min(cells) + 3 for length in size]
    noise = torch.randn(batch, fields, *grid, generator=generator, device=device)
    # Where each pixel lies between the points of the grid, from -1 at the first to 1 at the last.
    down, across = (
        ((torch.arange(length, device=device) + 0.5) / cell + 0.5) * (2 / (points - 1)) - 1
        for length, points in zip(size, grid, strict=True)
    )
    height, width = size
    places = torch.stack([across[:, None].expand(-1, height, -1), down[..., None].expand(-1, -1, width)], dim=-1)
    return functional.grid_sample(noise, places, mode="bicubic", padding_mode="border", align_corners=True)


def _offsets(reference: Tensor) -> Tensor:
    offsets = torch.arange(-MARGIN, MARGIN + 1, device=reference.device, dtype=torch.float32)
    return offsets[None].expand(reference.shape[0], -1)


def _normalised(kernels: Tensor) -> Tensor:
    return kernels / kernels.sum((-2, -1), keepdim=True)
