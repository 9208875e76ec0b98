"""The convolutions of `ips` between pixels and features, each written as a processor or a GPU computes it fastest.

Features are at half the resolution: a place of theirs is a *cell* of 2 x 2 pixels.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.network.blocks import keep, lay_channels_last


def convolve_cells(frames: Tensor, weight: Tensor, bias: Tensor | None, inside: Tensor | None) -> Tensor:
    """Returns the convolution of the frames in cells of 2 x 2 pixels, (batch * sources, out, height / 2, width / 2).

    Args:
        frames: (batch, sources, 3, height, width).
        weight: (out, 12, 3, 3), of the four pixels of each colour in 3 x 3 cells.
        bias: (out,)
        inside: 1 for cells of the picture and 0 beyond its end; None if it ends where the frames do.
    """
    values = frames.flatten(0, 1) - 0.5
    if inside is None and not frames.is_cuda:
        # One convolution of 6 x 6 pixels with a stride of 2 is the same, and need not move every pixel first.
        taps = torch.unflatten(weight, 1, (3, 2, 2)).permute(0, 1, 4, 2, 5, 3).reshape(-1, 3, 6, 6)
        return functional.conv2d(values, taps, bias, stride=2, padding=2)
    cells = lay_channels_last(keep(functional.pixel_unshuffle(values, 2), inside))
    return functional.conv2d(cells, weight, bias, padding=1)


def convolve_to_pixels(features: Tensor, layer: nn.Conv2d) -> Tensor:
    """Returns what a 3 x 3 convolution with four outputs says of the pixels of each cell, (batch, 1, height, width).

    Args:
        features: (batch, channels, height / 2, width / 2), both even.
        layer: its outputs are the pixels of a cell, row by row.
    """
    if features.is_cuda:
        return functional.pixel_shuffle(layer(features), 2)
    # The same for four cells at once: processors convolve sixteen outputs in the time of four.
    shifted = [functional.pad(layer.weight, (b, 1 - b, a, 1 - a)) for a in (0, 1) for b in (0, 1)]
    weight = torch.stack(shifted).reshape(2, 2, 2, 2, -1, 4, 4).transpose(1, 2).flatten(0, 3)
    bias = None if layer.bias is None else layer.bias.view(1, 2, 1, 2).expand(2, 2, 2, 2).flatten()
    return functional.pixel_shuffle(functional.conv2d(features, weight, bias, stride=2, padding=1), 4)


def convolve_both(first: Tensor, second: Tensor, layer: nn.Conv2d) -> Tensor:
    """Returns the convolution of two maps, one after the other in its channels, without joining them.

    Processors have a fast way for channels in multiples of 16, which the sum of both is not.
    """
    weight, width = layer.weight, first.shape[1]
    seen = functional.conv2d(first, weight[:, :width], layer.bias, padding=layer.padding)
    return seen + functional.conv2d(lay_channels_last(second), weight[:, width:], padding=layer.padding)
