"""Inter-image pixel shuffling: sources for training from one sharp picture and its blurred versions.

`shuffle_pair` is equation (2) of the paper. `shuffle_versions` is the same for any number of sources: at every position
the versions of a pixel (one sharp, the others blurred, each in its own way) are dealt out to the sources in an order
that `order_fields` decides: single pixels, or whole blobs, which is what focus looks like in real pictures.
Whatever the order, every position keeps its multiset of pixels.
"""

import torch
from torch import Tensor
from torch.nn import functional

from allfocus.training.blurring import draw_fields

BLOB_CELLS = (4, 8, 16, 32, 64, 64, 96, 128, 128)
"""Feature sizes of the blobs in pixels."""
STRIP_SHARE = 0.15
"""Share of the sides of a picture along which its last pixels are dealt out for themselves: masks that pictures were
put together with often end a little before the picture does."""
WIDEST_STRIP = 3
"""Pixels of such a strip."""


def draw_mask(
    shape: tuple[int, int, int, int], swap_probability: float, *, per_channel: bool, generator: torch.Generator
) -> Tensor:
    """Returns the mask m of equation (2): 0 (swap) with `swap_probability`, else 1; (batch, channels, height, width).

    Args:
        shape: (batch, channels, height, width).
        swap_probability: the paper's p.
        per_channel: True draws every channel on its own, as the paper does; False shares the draw.
        generator: source of randomness; its device is the device of the mask.
    """
    batch, channels, height, width = shape
    drawn = torch.rand(
        batch, channels if per_channel else 1, height, width, generator=generator, device=generator.device
    )
    return (drawn >= swap_probability).to(torch.float32).expand(shape)


def shuffle_pair(sharp: Tensor, blurred: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the two recombined sources of equation (2) of the paper.

    Example:
        >>> sharp, blurred = torch.ones(1, 3, 2, 2), torch.zeros(1, 3, 2, 2)
        >>> first, second = shuffle_pair(sharp, blurred, torch.ones(1, 3, 2, 2))
        >>> bool((first == sharp).all() and (second == blurred).all())
        True
    """
    return sharp * mask + blurred * (1 - mask), sharp * (1 - mask) + blurred * mask


def order_fields(
    batch: int,
    sources: int,
    size: tuple[int, int],
    *,
    granularity: str,
    generator: torch.Generator,
    guide: Tensor | None = None,
) -> Tensor:
    """Returns which version each source shows at each position, (batch, sources, height, width).

    Over the sources, every position is a permutation of 0 to n - 1.

    Args:
        batch: number of samples.
        sources: number of sources n.
        size: height and width.
        granularity: ``pixel`` deals out single pixels; ``blob`` whole regions of 4 to 128 pixels.
        generator: source of randomness; its device is the device of the result.
        guide: optional pictures (batch, 3, height, width); part of the blobs then follow their brightness, so that
            regions end at the edges of objects as they do in real scenes.
    """
    device = generator.device
    if granularity == "pixel":
        scores = torch.rand(batch, sources, *size, generator=generator, device=device)
    elif granularity == "blob":
        scores = _blob_scores(batch, sources, size, generator, guide)
    else:
        raise ValueError(f"unknown granularity {granularity!r}; valid are pixel and blob")
    # The rank of each source's score, by counting: far cheaper than sorting along a short dimension.
    tie_break = torch.arange(sources, device=device)
    smaller = (scores[:, None] < scores[:, :, None]) | (
        (scores[:, None] == scores[:, :, None]) & (tie_break[None, :] < tie_break[:, None])[None, :, :, None, None]
    )
    return smaller.sum(2)


def _blob_scores(
    batch: int, sources: int, size: tuple[int, int], generator: torch.Generator, guide: Tensor | None
) -> Tensor:
    device = generator.device
    scores = draw_fields(batch, sources, size, BLOB_CELLS, generator)
    if guide is not None:
        brightness = functional.avg_pool2d(guide.mean(1, keepdim=True), 7, stride=1, padding=3, count_include_pad=False)
        spread = brightness.std((2, 3), keepdim=True) + 0.02
        brightness = (brightness - brightness.mean((2, 3), keepdim=True)) / spread
        follow = torch.randn(batch, sources, 1, 1, generator=generator, device=device) * 2
        wanted = torch.rand(batch, 1, 1, 1, generator=generator, device=device) < 0.4
        scores = scores + torch.where(wanted, follow * brightness, 0.0)
    return _deal_strips(scores, generator)


def _deal_strips(scores: Tensor, generator: torch.Generator) -> Tensor:
    """Returns scores (batch, sources, height, width) that are others in strips along some of the sides."""
    batch, sources, height, width = scores.shape
    device = generator.device
    there = torch.rand(batch, 4, generator=generator, device=device) < STRIP_SHARE
    widths = torch.where(there, torch.randint(1, WIDEST_STRIP + 1, (batch, 4), generator=generator, device=device), 0)
    rows, columns = torch.arange(height, device=device), torch.arange(width, device=device)
    top, bottom, left, right = widths[:, :, None].unbind(1)
    in_rows = (rows < top) | (rows >= height - bottom)
    in_columns = (columns < left) | (columns >= width - right)
    others = torch.randn(batch, sources, 1, 1, generator=generator, device=device)
    return torch.where((in_rows[:, :, None] | in_columns[:, None, :])[:, None], others, scores)


def shuffle_versions(versions: Tensor, order: Tensor) -> Tensor:
    """Returns the sources (batch, n, 3, height, width): source i shows version order[:, i] at each position.

    Args:
        versions: (batch, n, 3, height, width), the sharp version first.
        order: (batch, n, height, width) from :func:`order_fields`.
    """
    return versions.gather(1, order[:, :, None].expand(-1, -1, versions.shape[2], -1, -1))


def sharp_source(order: Tensor) -> Tensor:
    """Returns the index of the source that shows the sharp version, (batch, height, width)."""
    return order.argmin(1)
