"""What the sources of a stack learn of each other: means and maxima, in which their order cannot matter."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.network.blocks import lay_channels_last
from allfocus.network.contract import LEFT_OUT


def average_of(by_source: Tensor, competing: Tensor | None) -> Tensor:
    """Returns the mean (batch, channels, height, width) of the features of all sources, as far as they compete.

    Args:
        by_source: (batch, sources, channels, height, width).
        competing: (batch, sources, height, width) how far a source is still in the running, 0 to 1; None for all.
    """
    if competing is None:
        return lay_channels_last(by_source.mean(1))
    share = competing[:, :, None].to(by_source.dtype)
    return lay_channels_last((share * by_source).sum(1) / share.sum(1))


def compare_sources(features: Tensor, sources: int, competing: Tensor | None, layer: nn.Conv2d) -> Tensor:
    """Returns the features of each source less what the mean of all that compete has of them.

    Before anything is bent: so a source can be seen pixel by pixel as it differs from the others.

    Args:
        features: (batch * sources, channels, height, width).
        sources: how many.
        competing: as of :func:`average_of`.
        layer: says of the mean what is taken off.
    """
    by_source = torch.unflatten(features, 0, (-1, sources))
    average: Tensor = layer(average_of(by_source, competing))
    return (by_source - average[:, None]).flatten(0, 1)


class Exchange(nn.Module):
    """Lets every source see the mean and the maximum of all competing sources' features."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mix = nn.Conv2d(3 * channels, channels, 1)

    def forward(self, features: Tensor, sources: int, competing: Tensor | None) -> Tensor:
        """Returns features of the same shape (batch * sources, channels, height, width).

        Args:
            features: of all sources.
            sources: how many.
            competing: (batch, sources, height, width) how far a source is still in the running, 0 to 1; None for all.
        """
        by_source = torch.unflatten(features, 0, (-1, sources))
        average = average_of(by_source, competing)
        if competing is None:
            highest = by_source.amax(1)
        else:
            share = competing[:, :, None].to(features.dtype)
            # Fades out before it is left out, so that nothing jumps.
            highest = (by_source - torch.where(share > 0, 8 * (1 - share), -LEFT_OUT)).amax(1)
        highest = lay_channels_last(highest)
        weight, width = self.mix.weight, features.shape[1]
        own, mean, maximum = weight[:, :width], weight[:, width : 2 * width], weight[:, 2 * width :]
        # The mixing of [own, mean, maximum] in three parts, because the last two are the same for all sources.
        shared = functional.conv2d(average, mean, self.mix.bias) + functional.conv2d(highest, maximum)
        update = torch.unflatten(functional.conv2d(features, own), 0, (-1, sources)) + shared[:, None]
        return features + functional.relu(update.flatten(0, 1))
