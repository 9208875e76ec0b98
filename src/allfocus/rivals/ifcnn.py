"""IFCNN: features of each frame by two convolutions, the largest of each, and back to a picture by two more.

Y. Zhang, Y. Liu, P. Sun, H. Yan, X. Zhao, L. Zhang, "IFCNN: a general image fusion framework based on convolutional
neural network", Information Fusion 54, 2020, 99-118; the variant IFCNN-MAX, which the paper proposes for focus.

The first convolution is that of a network for classifying photographs (ResNet-101) and has no activation behind it.
Pictures go in with the mean and deviation of such photographs taken off, and come out the same way. The maximum is over
any number of frames, so stacks need no folding.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.rivals.learning import Objective, Samples, full_precision
from allfocus.rivals.running import Picture, load_rival, to_picture, to_tensors, torch_device

CHANNELS = 64
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)


class Block(nn.Module):
    """A convolution of 3 x 3 on edges repeated, batch normalisation, and the positive part."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 3, bias=False)
        self.bn = nn.BatchNorm2d(CHANNELS)

    def forward(self, features: Tensor) -> Tensor:
        """Features (N, 64, H, W) of the same size."""
        return functional.relu(self.bn(self.conv(functional.pad(features, (1, 1, 1, 1), mode="replicate"))))


class IfcnnNetwork(nn.Module):
    """Frames (N, 3, H, W), scaled, to one picture (1, 3, H, W), scaled; 0.084 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, CHANNELS, 7, bias=False)
        self.conv2 = Block()
        self.conv3 = Block()
        self.conv4 = nn.Conv2d(CHANNELS, 3, 1)

    def extract(self, frame: Tensor) -> Tensor:
        """What a frame shows, (N, 64, H, W)."""
        features: Tensor = self.conv2(self.conv1(functional.pad(frame, (3, 3, 3, 3), mode="replicate")))
        return features

    def forward(self, frames: Tensor) -> Tensor:
        """The picture of the largest features of all frames."""
        # One frame at a time: 64 channels of a whole stack would not fit into memory.
        largest = self.extract(frames[:1])
        for index in range(1, len(frames)):
            largest = torch.maximum(largest, self.extract(frames[index : index + 1]))
        return self.reconstruct(largest)

    def reconstruct(self, largest: Tensor) -> Tensor:
        """Pictures (N, 3, H, W), scaled, of the largest features of theirs."""
        fused: Tensor = self.conv4(self.conv3(largest))
        return fused


class IfcnnObjective(Objective):
    """Regression: the mean squared difference from the sharp picture, both scaled.

    The paper goes on with a perceptual loss and takes its first convolution from ResNet-101 as it is; both need the
    weights of a network trained on ImageNet. Here all convolutions are trained, by the first of its two losses alone.
    """

    def __init__(self) -> None:
        super().__init__(IfcnnNetwork())

    def forward(self, samples: Samples, generator: torch.Generator) -> Tensor:
        """The loss."""
        fused = self._fuse_scaled(samples.frames)
        with full_precision(fused, _scale(samples.target)) as (found, wanted):
            return functional.mse_loss(found, wanted)

    def fuse(self, frames: Tensor) -> Tensor:
        """The fused pictures."""
        return _scale_back(self._fuse_scaled(frames)).clamp(0, 1)

    def _fuse_scaled(self, frames: Tensor) -> Tensor:
        features = self.network.extract(_scale(frames.flatten(0, 1)))
        fused: Tensor = self.network.reconstruct(torch.unflatten(features, 0, frames.shape[:2]).amax(1))
        return fused


def _scale(pictures: Tensor) -> Tensor:
    """Pictures (N, 3, H, W) with the mean and deviation of photographs taken off."""
    channels = zip(pictures.unbind(1), MEAN, DEVIATION, strict=True)
    return torch.stack([(plane - mean) / deviation for plane, mean, deviation in channels], dim=1)


def _scale_back(pictures: Tensor) -> Tensor:
    """The opposite of :func:`_scale`."""
    channels = zip(pictures.unbind(1), MEAN, DEVIATION, strict=True)
    return torch.stack([plane * deviation + mean for plane, mean, deviation in channels], dim=1)


def fuse_ifcnn(frames: Sequence[Picture], *, weights: str | None = None, device: str = "auto") -> Picture:
    """The picture that IFCNN-MAX makes of the frames.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        weights: The authors' file ``IFCNN-MAX.pth``, or one of the same tensors.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    place = torch_device(device)
    network = load_rival(IfcnnNetwork, weights, device=place)
    with torch.no_grad():
        fused = _scale_back(network(_scale(torch.cat(to_tensors(frames, place)))))
    return to_picture(fused, frames[0])
