"""SwinFusion: attention in windows that are shifted in turn, first within each frame, then across both.

J. Ma, L. Tang, F. Fan, J. Huang, X. Mei, Y. Ma, "SwinFusion: cross-domain long-range learning for general image fusion
via Swin transformer", IEEE/CAA Journal of Automatica Sinica 9(7), 2022, 1200-1217.

1. Each luminance becomes 60 channels by a convolution, then goes through four layers of attention.
2. Twice: each frame attends to itself, then each asks (queries) the other, which answers (keys and values).
3. Both together go through four more layers and narrow to one luminance.

Windows are of 8 x 8 pixels, every second layer shifted by four; there are six heads, and the layers within widen twice.
Colours are the mean of both frames, weighed by their distance from grey.

How we differ: the numbers of layers are as others describe the paper, and the widths of the convolutions around them
are chosen so that the whole has the 0.93 M parameters that are known of it. No authors' weights or pictures were at
hand to check it by.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.rivals.learning import (
    Objective,
    Samples,
    full_precision,
    luminances,
    similarity_map,
    sobel_strength,
)
from allfocus.rivals.running import Picture, fold_pairs, fuse_luminance, load_rival, torch_device

CHANNELS, HEADS, WINDOW, WIDENING = 60, 6, 8, 2
EXTRACTION_LAYERS, CROSSINGS, RECONSTRUCTION_LAYERS = 4, 2, 4
NARROWING = (60, 30, 15, 1)
SLOPE = 0.2
WINDOWS_AT_ONCE = 512
"""Their attention is 50 MB; that of a whole picture would not fit."""
LIKENESS_SHARE, TEXTURE_SHARE, INTENSITY_SHARE = 10.0, 20.0, 20.0
"""The paper's weights of the three parts of its loss."""


class WindowAttention(nn.Module):
    """One layer: pixels of a window attend to each other, or to those of the other frame's window."""

    def __init__(self, *, shifted: bool) -> None:
        super().__init__()
        self.shift = WINDOW // 2 if shifted else 0
        self.norm1, self.norm2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.query = nn.Linear(CHANNELS, CHANNELS)
        self.key_value = nn.Linear(CHANNELS, 2 * CHANNELS)
        self.project = nn.Linear(CHANNELS, CHANNELS)
        self.widen = nn.Sequential(
            nn.Linear(CHANNELS, WIDENING * CHANNELS), nn.GELU(), nn.Linear(WIDENING * CHANNELS, CHANNELS)
        )
        # How much a head looks at a pixel by where it lies from the one that asks.
        self.position = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, HEADS))
        nn.init.trunc_normal_(self.position, std=0.02)

    def forward(self, asking: Tensor, answering: Tensor) -> Tensor:
        """Features (B, H, W, 60) with what was found; sides are multiples of 8."""
        own = self._windows(self.norm1(asking))
        other = own if answering is asking else self._windows(self.norm1(answering))
        allowed = self._allowed(asking)
        found = [
            self._attend(own[start : start + WINDOWS_AT_ONCE], other[start : start + WINDOWS_AT_ONCE], start, allowed)
            for start in range(0, len(own), WINDOWS_AT_ONCE)
        ]
        features = asking + self._picture(torch.cat(found), asking.shape)
        widened: Tensor = features + self.widen(self.norm2(features))
        return widened

    def _attend(self, own: Tensor, other: Tensor, start: int, allowed: Tensor | None) -> Tensor:
        def heads(values: Tensor) -> Tensor:
            return values.reshape(*values.shape[:2], HEADS, -1).transpose(1, 2)

        key, value = self.key_value(other).chunk(2, dim=-1)
        bias = self._bias()
        if allowed is not None:
            # Windows of a batch come one picture after the other.
            numbers = torch.arange(start, start + len(own), device=own.device) % len(allowed)
            bias = bias.masked_fill(~allowed[numbers, None], float("-inf"))
        found = functional.scaled_dot_product_attention(
            heads(self.query(own)), heads(key), heads(value), attn_mask=bias
        )
        projected: Tensor = self.project(found.transpose(1, 2).flatten(2))
        return projected

    def _bias(self) -> Tensor:
        """(1, heads, 64, 64)."""
        side = torch.arange(WINDOW, device=self.position.device)
        row, column = (part.flatten() for part in torch.meshgrid(side, side, indexing="ij"))
        down, right = (part[:, None] - part[None, :] + WINDOW - 1 for part in (row, column))
        return self.position[down * (2 * WINDOW - 1) + right].permute(2, 0, 1)[None]

    def _windows(self, features: Tensor) -> Tensor:
        """(B x windows, 64, C)."""
        if self.shift:
            features = features.roll((-self.shift, -self.shift), dims=(1, 2))
        batch, height, width, channels = features.shape
        split = features.reshape(batch, height // WINDOW, WINDOW, width // WINDOW, WINDOW, channels)
        return split.transpose(2, 3).reshape(-1, WINDOW * WINDOW, channels)

    def _picture(self, windows: Tensor, shape: torch.Size) -> Tensor:
        batch, height, width, channels = shape
        split = windows.reshape(batch, height // WINDOW, width // WINDOW, WINDOW, WINDOW, channels)
        features = split.transpose(2, 3).reshape(shape)
        return features.roll((self.shift, self.shift), dims=(1, 2)) if self.shift else features

    def _allowed(self, features: Tensor) -> Tensor | None:
        """(windows, 64, 64): pixels that the shift brought into one window from opposite edges do not attend."""
        if not self.shift:
            return None
        height, width = features.shape[1:3]
        regions = torch.zeros(1, height, width, 1, device=features.device)
        parts = (slice(0, -WINDOW), slice(-WINDOW, -self.shift), slice(-self.shift, None))
        shifted = regions.clone()
        for number, (rows, columns) in enumerate((rows, columns) for rows in parts for columns in parts):
            shifted[:, rows, columns] = number
        # Numbered as they lie after the shift, so they are cut into windows without another one.
        split = shifted.reshape(1, height // WINDOW, WINDOW, width // WINDOW, WINDOW, 1)
        region = split.transpose(2, 3).reshape(-1, WINDOW * WINDOW)
        return region[:, :, None] == region[:, None, :]


class AttentionGroup(nn.Module):
    """Layers of attention within one frame, a convolution, and what went in added."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(WindowAttention(shifted=number % 2 == 1) for number in range(layers))
        self.last = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)

    def forward(self, features: Tensor) -> Tensor:
        """Features (B, 60, H, W) of the same shape."""
        pixels = features.permute(0, 2, 3, 1)
        for layer in self.layers:
            pixels = layer(pixels, pixels)
        found: Tensor = features + self.last(pixels.permute(0, 3, 1, 2))
        return found


class Crossing(nn.Module):
    """Each frame attends to itself, then to the other; with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.within = nn.ModuleList(WindowAttention(shifted=False) for _ in range(2))
        self.across = nn.ModuleList(WindowAttention(shifted=True) for _ in range(2))
        self.last = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(2))

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Features of both frames, each (B, 60, H, W)."""
        seen = [features.permute(0, 2, 3, 1) for features in (first, second)]
        seen = [layer(pixels, pixels) for layer, pixels in zip(self.within, seen, strict=True)]
        seen = [layer(*pixels) for layer, pixels in zip(self.across, (seen, seen[::-1]), strict=True)]
        given = (first, second)
        found = [
            features + last(pixels.permute(0, 3, 1, 2))
            for features, last, pixels in zip(given, self.last, seen, strict=True)
        ]
        return found[0], found[1]


class SwinFusionNetwork(nn.Module):
    """Two luminances, each (B, 1, H, W) in 0..1, to one; 0.93 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.shallow = nn.ModuleList(nn.Conv2d(1, CHANNELS, 3, padding=1) for _ in range(2))
        self.extraction = nn.ModuleList(AttentionGroup(EXTRACTION_LAYERS) for _ in range(2))
        self.crossings = nn.ModuleList(Crossing() for _ in range(CROSSINGS))
        self.join = nn.Conv2d(2 * CHANNELS, CHANNELS, 3, padding=1)
        self.reconstruction = AttentionGroup(RECONSTRUCTION_LAYERS)
        pairs = itertools.pairwise(NARROWING)
        self.narrowing = nn.ModuleList(nn.Conv2d(*pair, 3, padding=1) for pair in pairs)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The fused luminance."""
        height, width = first.shape[2:]
        margin = (0, -width % WINDOW, 0, -height % WINDOW)
        planes = [functional.pad(plane, margin, mode="replicate") for plane in (first, second)]
        seen = [functional.leaky_relu(layer(plane), SLOPE) for layer, plane in zip(self.shallow, planes, strict=True)]
        seen = [group(features) for group, features in zip(self.extraction, seen, strict=True)]
        for crossing in self.crossings:
            seen = list(crossing(*seen))
        features = self.reconstruction(functional.leaky_relu(self.join(torch.cat(seen, dim=1)), SLOPE))
        *narrowing, last = self.narrowing
        for layer in narrowing:
            features = functional.leaky_relu(layer(features), SLOPE)
        fused: Tensor = torch.tanh(last(features)) / 2 + 0.5
        return fused[:, :, :height, :width]


class SwinFusionObjective(Objective):
    """Likeness to both frames, the stronger texture of the two, and their mean intensity; no truth is needed."""

    def __init__(self) -> None:
        super().__init__(SwinFusionNetwork())

    def forward(self, samples: Samples, generator: torch.Generator) -> Tensor:
        """The weighed sum of the three."""
        first, second = luminances(samples.frames[:, :2])
        with full_precision(self.network(first, second), first, second) as (fused, one, other):
            edges = [sobel_strength(plane) for plane in (one, other)]
            detail = [strength.mean((1, 2, 3)) for strength in edges]
            # The frame with more detail has more to say.
            share = detail[0] / (detail[0] + detail[1]).clamp_min(1e-6)
            alike = [similarity_map(fused, plane).mean((1, 2, 3)) for plane in (one, other)]
            likeness = 1 - (share * alike[0] + (1 - share) * alike[1]).mean()
            texture = functional.l1_loss(sobel_strength(fused), torch.maximum(*edges))
            intensity = functional.l1_loss(fused, (one + other) / 2)
            return LIKENESS_SHARE * likeness + TEXTURE_SHARE * texture + INTENSITY_SHARE * intensity

    def fuse(self, frames: Tensor) -> Tensor:
        """The fused pictures."""
        return fuse_luminance(frames[:, 0], frames[:, 1], self.network).clamp(0, 1)


def fuse_swinfusion(frames: Sequence[Picture], *, weights: str | None = None, device: str = "auto") -> Picture:
    """The picture that SwinFusion makes of two frames; more are folded, the result so far with the next.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        weights: A file of the tensors of :class:`SwinFusionNetwork`; the authors' cannot be had.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    place = torch_device(device)
    network = load_rival(SwinFusionNetwork, weights, device=place)
    return fold_pairs(frames, lambda first, second: fuse_luminance(first, second, network), device=place)
