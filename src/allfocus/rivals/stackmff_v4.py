"""StackMFF V4: a small U-shaped network for each frame, attention between frames, the likeliest frame of each pixel.

X. Xie et al., StackMFF V4, first published as the fusion stage of "Generative multi-focus image fusion", arXiv
2512.21495, 2025, and in the program OpenFocus (MIT licence), from which the layout of the weights is known.

1. Each frame's luminance goes through the first nine blocks of MobileNetV3-Large and three more that halve the size,
   then back up through seven that double it, adding what came down (8 channels a pixel in the end).
2. At a quarter of the size, the values of a pixel in all frames attend to each other.
3. A block refines each frame by itself, frames attend once more, and the largest channel is the frame's score.

Any number of frames at a time. The network needs sides that are multiples of 128: frames are continued by repeating
their edges and cut back, where OpenFocus stretches them. On ten pairs with a truth (Real-MFF, MFI-WHU) the two
differ by 0.02 dB in the mean.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from allfocus.rivals.learning import Objective, Samples, luminances
from allfocus.rivals.running import Picture, load_rival, split_colour, to_tensors, torch_device
from allfocus.rivals.weight_files import Tensors

CHANNELS = 8
HEADS = 4
MULTIPLE = 128
QUARTER = 0.25
PIXELS_AT_ONCE = 32768
"""GPUs run attention for less than 65,536 at a time."""
# Of MobileNetV3-Large: kernel, channels in, within and out, squeezing, hard swish, stride.
MOBILE_BLOCKS = (
    (3, 16, 16, 16, 0, False, 1),
    (3, 16, 64, 24, 0, False, 2),
    (3, 24, 72, 24, 0, False, 1),
    (5, 24, 72, 40, 24, False, 2),
    (5, 40, 120, 40, 32, False, 1),
    (5, 40, 120, 40, 32, False, 1),
    (3, 40, 240, 80, 0, True, 2),
    (3, 80, 200, 80, 0, True, 1),
    (3, 80, 184, 80, 0, True, 1),
)
FIRST_CHANNELS = 16
DEEP = (80, 160, 240, 480)
SHALLOW = (80, 40, 24, 16)
NORM_EPSILON, MOBILE_EPSILON = 1e-6, 1e-3
NAMES = (
    ("feature_extraction.firstconv.", "frame.first."),
    *((f"feature_extraction.encoder1.{n}.", f"frame.mobile.{n}.") for n in range(2)),
    *((f"feature_extraction.encoder2.{n}.", f"frame.mobile.{n + 2}.") for n in range(3)),
    *((f"feature_extraction.encoder3.{n}.", f"frame.mobile.{n + 5}.") for n in range(4)),
    ("feature_extraction.stages.", "frame.down."),
    ("feature_extraction.up_stages1.", "frame.up."),
    *((f"feature_extraction.up_stages2.{n}.", f"frame.up.{n + 3}.") for n in range(3)),
    ("feature_extraction.final.0.", "frame.up.6."),
    ("feature_extraction.final.1.", "frame.last."),
    ("refinement_cycles.0.inter_model.", "attention."),
    ("refinement_cycles.0.intra_refiner.refiner.0.0.", "refine."),
    ("layer_interaction.layer_interaction_depth.", "last_attention."),
)
"""How names begin in the authors' file, and here."""


class Squeeze(nn.Module):
    """Scales each channel by what its mean over the picture says."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Features of the same shape."""
        mean = features.mean(dim=(2, 3), keepdim=True)
        return features * functional.hardsigmoid(self.fc2(functional.relu(self.fc1(mean))))


class MobileBlock(nn.Module):
    """Widen, filter each channel by itself, narrow (A. Howard et al., "Searching for MobileNetV3", ICCV 2019)."""

    def __init__(
        self, kernel: int, inputs: int, inside: int, outputs: int, squeezed: int, swish: bool, stride: int
    ) -> None:
        super().__init__()
        active: type[nn.Module] = nn.Hardswish if swish else nn.ReLU
        widen = [_normalised(inputs, inside, 1, active=active)] if inside != inputs else []
        filtered = _normalised(inside, inside, kernel, stride=stride, groups=inside, active=active)
        squeeze = [Squeeze(inside, squeezed)] if squeezed else []
        self.block = nn.Sequential(*widen, filtered, *squeeze, _normalised(inside, outputs, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, features: Tensor) -> Tensor:
        """Features, at half the size if the stride is 2."""
        found: Tensor = self.block(features)
        return features + found if self.adds else found


def _normalised(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, active: type[nn.Module] | None = None
) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    norm = nn.BatchNorm2d(outputs, eps=MOBILE_EPSILON)
    return nn.Sequential(convolution, norm, *([active()] if active else []))


class Spread(nn.Module):
    """The positive part of each channel, filtered by a kernel of its own and normalised."""

    def __init__(self, channels: int, radius: int) -> None:
        super().__init__()
        side = 2 * radius + 1
        self.weight = nn.Parameter(torch.empty(channels, 1, side, side))
        nn.init.trunc_normal_(self.weight, std=0.02)
        self.bn = nn.BatchNorm2d(channels, eps=NORM_EPSILON)

    def forward(self, features: Tensor) -> Tensor:
        """Features of the same shape."""
        radius = self.weight.shape[-1] // 2
        found: Tensor = self.bn(
            functional.conv2d(functional.relu(features), self.weight, padding=radius, groups=len(self.weight))
        )
        return found


class VanillaBlock(nn.Module):
    """Two mixtures of channels, a change of size, and :class:`Spread`."""

    def __init__(self, inputs: int, outputs: int, *, scale: float = 1, radius: int = 1) -> None:
        super().__init__()
        self.scale = scale
        self.conv1 = nn.Sequential(nn.Conv2d(inputs, inputs, 1), nn.BatchNorm2d(inputs, eps=NORM_EPSILON))
        self.conv2 = nn.Sequential(nn.Conv2d(inputs, outputs, 1), nn.BatchNorm2d(outputs, eps=NORM_EPSILON))
        self.act = Spread(outputs, radius)

    def forward(self, features: Tensor) -> Tensor:
        """Features of half, the same or twice the size."""
        mixed: Tensor = self.conv2(functional.relu(self.conv1(features)))
        if self.scale < 1:
            mixed = functional.max_pool2d(mixed, 2)
        elif self.scale > 1:
            mixed = functional.interpolate(mixed, scale_factor=self.scale, mode="bilinear")
        found: Tensor = self.act(mixed)
        return found


class FrameNetwork(nn.Module):
    """Luminances (N, 1, H, W) to eight channels a pixel, each frame by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, FIRST_CHANNELS, 3, stride=2, padding=1, bias=False)
        self.mobile = nn.ModuleList(MobileBlock(*settings) for settings in MOBILE_BLOCKS)
        self.down = nn.ModuleList(VanillaBlock(*pair, scale=0.5) for pair in itertools.pairwise(DEEP))
        widths = (*DEEP[::-1], *SHALLOW[1:], SHALLOW[-1])
        self.up = nn.ModuleList(VanillaBlock(*pair, scale=2) for pair in itertools.pairwise(widths))
        self.last = nn.Conv2d(SHALLOW[-1], CHANNELS, 1)

    def forward(self, luminances: Tensor) -> Tensor:
        """Features (N, 8, H, W)."""
        features = self.first(luminances)
        kept = []
        for number, block in enumerate(self.mobile):
            features = block(features)
            if number in (1, 4):  # the last of a size
                kept.append(features)
        for block in self.down:
            kept.append(features)
            features = block(features)
        for block in self.up:
            features = block(features)
            if kept:
                features = features + kept.pop()
        found: Tensor = self.last(features)
        return found


class Attention(nn.Module):
    """One step in which the frames of a pixel look at each other."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(CHANNELS, HEADS, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(CHANNELS, 4 * CHANNELS), nn.GELU(), nn.Linear(4 * CHANNELS, CHANNELS))
        self.norm1, self.norm2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)

    def forward(self, pixels: Tensor) -> Tensor:
        """Pixels (P, N, 8) of the same shape."""
        calm = self.norm1(pixels)
        pixels = pixels + self.attn(calm, calm, calm, need_weights=False)[0]
        changed: Tensor = pixels + self.ffn(self.norm2(pixels))
        return changed


class FrameAttention(nn.Module):
    """Two such steps at a quarter of the size, added to what was there."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Attention(), Attention()])

    def forward(self, features: Tensor, stacks: int = 1) -> Tensor:
        """Features (stacks x N, 8, H, W) of the same shape, one stack after the other."""
        height, width = features.shape[2:]
        small = functional.adaptive_avg_pool2d(features, (max(1, int(height * QUARTER)), max(1, int(width * QUARTER))))
        pixels = torch.unflatten(small.flatten(2), 0, (stacks, -1)).permute(0, 3, 1, 2).flatten(0, 1)
        for layer in self.layers:
            pixels = torch.cat([layer(part) for part in torch.split(pixels, PIXELS_AT_ONCE)])
        small = torch.unflatten(pixels, 0, (stacks, -1)).permute(0, 2, 3, 1).reshape(small.shape)
        return features + functional.interpolate(small, size=(height, width), mode="bilinear", align_corners=True)


class StackMffV4Network(nn.Module):
    """Luminances (N, 1, H, W) in 0..1, sides multiples of 128, to the scores of frames (N, H, W); 0.94 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.frame = FrameNetwork()
        self.attention = FrameAttention()
        self.refine = VanillaBlock(CHANNELS, CHANNELS, radius=3)
        self.last_attention = FrameAttention()

    def forward(self, luminances: Tensor) -> Tensor:
        """The scores; the frame with the largest is in focus."""
        # One frame at a time as long as they do not look at each other, for the sake of memory.
        return self.compare(torch.cat([self.frame(luminance[None]) for luminance in luminances]))

    def compare(self, features: Tensor, stacks: int = 1) -> Tensor:
        """The scores (stacks x N, H, W) of what was seen in each frame, one stack after the other."""
        features = features + self.attention(features, stacks)
        features = features + self.refine(features)
        scores: Tensor = self.last_attention(features, stacks).amax(dim=1)
        return scores


class StackMffV4Objective(Objective):
    """Which frame is in focus at each pixel, as a question of as many classes as there are frames.

    The authors call fusing a stack a classification of its pixels and have published no more of their training; the
    loss is our reading of that.
    """

    def __init__(self) -> None:
        super().__init__(StackMffV4Network())

    def forward(self, samples: Samples, generator: torch.Generator) -> Tensor:
        """The mean surprise (cross entropy) of all pixels, weighed by how far the samples are to be trusted."""
        scores = self._scores(samples.frames).float()
        surprise = functional.cross_entropy(scores, samples.label, reduction="none").mean((1, 2))
        return (samples.label_weight * surprise).sum() / samples.label_weight.sum().clamp_min(1e-6)

    def fuse(self, frames: Tensor) -> Tensor:
        """The pixels of the likeliest frames."""
        chosen = self._scores(frames).argmax(1)[:, None, None].expand(-1, 1, 3, -1, -1)
        return frames.gather(1, chosen)[:, 0]

    def _scores(self, frames: Tensor) -> Tensor:
        """(B, N, H, W)."""
        stacks, count = frames.shape[:2]
        height, width = frames.shape[3:]
        planes = functional.pad(
            torch.stack(luminances(frames), dim=1).flatten(0, 1),
            (0, -width % MULTIPLE, 0, -height % MULTIPLE),
            mode="replicate",
        )
        scores = torch.unflatten(self.network.compare(self.network.frame(planes), stacks), 0, (stacks, count))
        found: Tensor = scores[:, :, :height, :width]
        return found


def rename_tensors(tensors: Tensors) -> Tensors:
    """The tensors of the authors' file with our names; ours as they are."""
    renamed = {}
    for name, tensor in tensors.items():
        # The longest beginning counts.
        theirs, ours = max(
            (pair for pair in NAMES if name.startswith(pair[0])), key=lambda pair: len(pair[0]), default=("", "")
        )
        renamed[ours + name.removeprefix(theirs)] = tensor
    return renamed


def fuse_stackmff_v4(
    frames: Sequence[Picture], *, weights: str | None = None, device: str = "auto"
) -> tuple[Picture, NDArray[np.int16]]:
    """The pixels of the frames that StackMFF V4 finds in focus, and for each pixel the frame it came from.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        weights: The authors' file, or one of our tensors.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    place = torch_device(device)
    network = load_rival(StackMffV4Network, weights, device=place, rename=rename_tensors)
    height, width = frames[0].shape[:2]
    with torch.no_grad():
        luminances = torch.cat([split_colour(frame)[0] for frame in to_tensors(frames, place)])
        margin = (0, -width % MULTIPLE, 0, -height % MULTIPLE)
        scores = network(functional.pad(luminances, margin, mode="replicate"))[:, :height, :width]
        decision = scores.argmax(dim=0).cpu().numpy().astype(np.int16)
    fused = frames[0].copy()
    for index in range(1, len(frames)):
        fused[decision == index] = frames[index][decision == index]
    return fused, decision
