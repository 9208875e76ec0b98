"""ZMFF: two untrained networks are fitted to one stack, one to draw the picture, one to draw each frame's focus.

X. Hu, J. Jiang, X. Liu, J. Ma, "ZMFF: zero-shot multi-focus image fusion", Information Fusion 92, 2023, 127-138, on
D. Ulyanov, A. Vedaldi, V. Lempitsky, "Deep image prior", CVPR 2018.

A network in the shape of an hourglass draws calm pictures before it learns noise, which is all the knowledge there is:
nothing is learned from other pictures. The picture's network sees the frames, the mask's network sees noise and draws a
focus map for each frame; they sum up to one. Both are fitted for 1,300 steps.

How we differ: the paper's losses are not restated here from its text but are our reading of its idea. The picture shall
equal each frame where that frame's map says so, have the steepest slopes that any frame has, and the maps shall at
first be near where the frames' slopes are strongest, ever less so until half of the steps are done. So scores of this
method are those of the idea, not of the authors' program.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.errors import InputError
from allfocus.rivals.running import Picture, split_colour, to_picture, to_tensors, torch_device

CHANNELS, SKIPPED, SCALES = 128, 16, 5
NOISE_CHANNELS, NOISE_AMPLITUDE = 32, 0.1
STEPS = 1300
LEARNING_RATE = 1e-3
SLOPE = 0.2
SLOPE_WEIGHT, MASK_WEIGHT = 1.0, 1.0
FOCUS_WINDOW = 17


class Hourglass(nn.Module):
    """Down by five halvings and up again, with a thin bridge at each size; 2.3 M parameters."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        widths = (inputs, *[CHANNELS] * (SCALES - 1))
        self.down = nn.ModuleList(
            nn.Sequential(*_layer(width, CHANNELS, 3, stride=2), *_layer(CHANNELS, CHANNELS, 3)) for width in widths
        )
        self.bridge = nn.ModuleList(nn.Sequential(*_layer(width, SKIPPED, 1)) for width in widths)
        self.up = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(CHANNELS + SKIPPED),
                *_layer(CHANNELS + SKIPPED, CHANNELS, 3),
                *_layer(CHANNELS, CHANNELS, 1),
            )
            for _ in range(SCALES)
        )
        self.last = nn.Conv2d(CHANNELS, outputs, 1)

    def forward(self, seen: Tensor) -> Tensor:
        """Logits (1, outputs, H, W)."""
        bridges = []
        for down, bridge in zip(self.down, self.bridge, strict=True):
            bridges.append(bridge(seen))
            seen = down(seen)
        for up in self.up:
            beside = bridges.pop()
            seen = functional.interpolate(seen, size=beside.shape[2:], mode="bilinear")
            seen = up(torch.cat([beside, seen], dim=1))
        logits: Tensor = self.last(seen)
        return logits


def _layer(inputs: int, outputs: int, kernel: int, *, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, padding_mode="replicate")
    return [convolution, nn.BatchNorm2d(outputs), nn.LeakyReLU(SLOPE)]


def fuse_zmff(frames: Sequence[Picture], *, device: str = "auto", steps: int = STEPS, seed: int = 0) -> Picture:
    """The picture that two networks, fitted to these frames alone, agree on; any number of frames at a time.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        device: ``auto``, ``cpu`` or ``cuda``.
        steps: Of fitting; the picture sharpens with them.
        seed: Of the weights that the fitting begins with, and of the noise.

    Raises:
        InputError: frames smaller than the hourglass can halve, or no steps.
    """
    if steps < 1:
        raise InputError(f"steps is 1 or more; found {steps}", code="bad-option")
    place = torch_device(device)
    height, width = frames[0].shape[:2]
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []), torch.enable_grad():
        torch.manual_seed(seed)
        stack = torch.cat(to_tensors(frames, place))
        # Halved five times, at least two pixels must be left to be normalised.
        least = 2 ** (SCALES + 1)
        margin = (0, max(0, least - width), 0, max(0, least - height))
        stack = functional.pad(stack, margin, mode="replicate")
        fused = _fit(stack, steps)[:, :, :height, :width]
    return to_picture(fused, frames[0])


def _fit(stack: Tensor, steps: int) -> Tensor:
    """The picture (1, 3, H, W) after fitting."""
    count = len(stack)
    if not any(bool(slopes.any()) for slopes in _slopes(stack)):
        return stack.mean(dim=0, keepdim=True)  # nothing to choose by, and nothing that could be normalised
    picture_network = Hourglass(3 * count, 3).to(stack.device)
    mask_network = Hourglass(NOISE_CHANNELS, count).to(stack.device)
    seen = stack.reshape(1, -1, *stack.shape[2:])
    noise = NOISE_AMPLITUDE * torch.rand(1, NOISE_CHANNELS, *stack.shape[2:], device=stack.device)
    slopes, sharper = _steepest(stack), _sharper(stack)
    optimizer = torch.optim.Adam([*picture_network.parameters(), *mask_network.parameters()], lr=LEARNING_RATE)
    fused = stack[:1]
    for step in range(steps):
        fused = torch.sigmoid(picture_network(seen))
        masks = torch.softmax(mask_network(noise), dim=1)
        alike = (masks.transpose(0, 1) * (fused - stack) ** 2).sum(dim=0).mean()
        steep = sum(((own - wanted) ** 2).mean() for own, wanted in zip(_slopes(fused), slopes, strict=True))
        guided = max(0.0, 1 - 2 * step / steps) * ((masks - sharper) ** 2).mean()
        optimizer.zero_grad()
        torch.autograd.backward(alike + SLOPE_WEIGHT * steep + MASK_WEIGHT * guided)
        optimizer.step()
    return fused.detach()


def _slopes(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """How much each pixel differs from the one to its left and the one above."""
    return pictures.diff(dim=3), pictures.diff(dim=2)


def _steepest(stack: Tensor) -> list[Tensor]:
    """Of all frames the slopes of the largest size, (1, 3, H, W) less one row or column."""
    return [slopes.gather(0, slopes.abs().argmax(dim=0, keepdim=True)) for slopes in _slopes(stack)]


def _sharper(stack: Tensor) -> Tensor:
    """For each frame (1, N, H, W) whether its luminance has the strongest slopes around a pixel: 1 or 0."""
    luminance = split_colour(stack)[0]
    right, down = _slopes(luminance)
    energy = functional.pad(right**2, (1, 0, 0, 0)) + functional.pad(down**2, (0, 0, 1, 0))
    around = functional.avg_pool2d(energy, FOCUS_WINDOW, stride=1, padding=FOCUS_WINDOW // 2, count_include_pad=False)
    return functional.one_hot(around[:, 0].argmax(dim=0), len(stack)).permute(2, 0, 1)[None].to(stack.dtype)
