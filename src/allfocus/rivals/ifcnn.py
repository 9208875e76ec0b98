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

from allfocus.rivals.running import Picture, choose_device, load_network, to_picture, to_tensors

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
        fused: Tensor = self.conv4(self.conv3(largest))
        return fused


def fuse_ifcnn(frames: Sequence[Picture], *, weights: str | None = None, device: str = "auto") -> Picture:
    """The picture that IFCNN-MAX makes of the frames.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        weights: The authors' file ``IFCNN-MAX.pth``, or one of the same tensors.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    place = choose_device(device)
    network = load_network(IfcnnNetwork, weights, device=place)
    mean, deviation = (torch.tensor(values, device=place).view(1, 3, 1, 1) for values in (MEAN, DEVIATION))
    with torch.no_grad():
        scaled = (torch.cat(to_tensors(frames, place)) - mean) / deviation
        fused = network(scaled) * deviation + mean
    return to_picture(fused, frames[0])
