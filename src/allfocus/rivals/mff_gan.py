"""MFF-GAN: two branches of convolutions, one for each luminance, that exchange what they found; trained adversarially.

H. Zhang, Z. Le, Z. Shao, H. Xu, J. Ma, "MFF-GAN: an unsupervised generative adversarial network with adaptive and
gradient joint constraints for multi-focus image fusion", Information Fusion 66, 2021, 40-53.

The generator fuses; :class:`Discriminator` is needed for training only. Each branch has four convolutions of 16
channels. The third and the fourth see the ones before them in their branch, and a mixture of the newest of both
branches. What all eight gave becomes the luminance. The far branch has weights of its own, so the order of the frames
matters. Colours are the mean of both frames, weighed by their distance from grey.
"""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from allfocus.rivals.learning import Objective, Samples, full_precision, laplacian, luminances
from allfocus.rivals.running import (
    Picture,
    fold_pairs,
    from_tensorflow,
    fuse_luminance,
    load_rival,
    torch_device,
)
from allfocus.rivals.weight_files import Tensors

CHANNELS = 16
SLOPE = 0.2
SCOPE = "fusion_model/"
"""Before the names of the generator's tensors in the authors' checkpoint; the rest is the discriminator."""
JUDGE_CHANNELS = (1, 32, 64, 128, 256)
SHARP, BLURRED = (0.7, 1.2), (0.0, 0.3)
"""From where the paper draws what the discriminator shall say of joint and of fused gradients."""
CONTENT_SHARE, GRADIENT_SHARE = 10.0, 5.0
"""The paper's weights: of likeness to the frames beside the adversarial loss, and of gradients within the former."""


class Branch(nn.Module):
    """The convolutions that one of the two luminances goes through."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Conv2d(1, CHANNELS, 5, padding=2)
        self.layer2 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.layer2_3 = nn.Conv2d(2 * CHANNELS, CHANNELS, 1)
        self.layer3 = nn.Conv2d(3 * CHANNELS, CHANNELS, 3, padding=1)
        self.layer3_4 = nn.Conv2d(2 * CHANNELS, CHANNELS, 1)
        self.layer4 = nn.Conv2d(4 * CHANNELS, CHANNELS, 3, padding=1)


class MffGanNetwork(nn.Module):
    """Two luminances, each (1, 1, H, W) in -1..1, to one in -1..1; 0.05 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = Branch(), Branch()
        self.layer5 = nn.Conv2d(8 * CHANNELS, 1, 1)

    def forward(self, near: Tensor, far: Tensor) -> Tensor:
        """The fused luminance."""
        branches = (self.near, self.far)
        first = [_leak(branch.layer1(plane)) for branch, plane in zip(branches, (near, far), strict=True)]
        second = [_leak(branch.layer2(seen)) for branch, seen in zip(branches, first, strict=True)]
        both = torch.cat(second, dim=1)
        third = [
            _leak(branch.layer3(torch.cat([*seen, _leak(branch.layer2_3(both))], dim=1)))
            for branch, *seen in zip(branches, first, second, strict=True)
        ]
        both = torch.cat(third, dim=1)
        fourth = [
            _leak(branch.layer4(torch.cat([*seen, _leak(branch.layer3_4(both))], dim=1)))
            for branch, *seen in zip(branches, first, second, third, strict=True)
        ]
        return torch.tanh(self.layer5(torch.cat([*first, *second, *third, *fourth], dim=1)))


def _leak(features: Tensor) -> Tensor:
    return functional.leaky_relu(features, SLOPE)


class Discriminator(nn.Module):
    """Gradients (B, 1, H, W) to how much they look like the stronger ones of two frames, (B,).

    The paper ends with a full layer on patches of 60 pixels; here its inputs are averaged over the picture first, so
    that crops of any size can be judged.
    """

    def __init__(self) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(JUDGE_CHANNELS))
        self.layers = nn.ModuleList(nn.Conv2d(*pair, 3, stride=2) for pair in pairs)
        # Never used but in training, so nothing is remembered from batch to batch.
        self.norms = nn.ModuleList(nn.BatchNorm2d(width, track_running_stats=False) for _, width in pairs[1:])
        self.last = nn.Linear(JUDGE_CHANNELS[-1], 1)

    def forward(self, gradients: Tensor) -> Tensor:
        """The verdict, about 1 for what looks real."""
        features = _leak(self.layers[0](gradients))
        for layer, norm in zip(self.layers[1:], self.norms, strict=True):
            features = _leak(norm(layer(features)))
        verdict: Tensor = self.last(features.mean((2, 3)))[:, 0]
        return verdict


class MffGanObjective(Objective):
    """Likeness to the sharper frame at each pixel, and gradients that a discriminator takes for the joint ones.

    Which frame is sharper is decided by how much a blur takes away from each. Generator and discriminator take one step
    each at the same time, where the paper lets the discriminator take two.
    """

    def __init__(self) -> None:
        super().__init__(MffGanNetwork())
        self.discriminator = Discriminator()

    def forward(self, samples: Samples, generator: torch.Generator) -> Tensor:
        """The generator's loss plus the discriminator's; neither has a say in the weights of the other."""
        near, far = (plane * 2 - 1 for plane in luminances(samples.frames[:, :2]))
        fused = self.network(near, far)
        with full_precision(fused, near, far) as (found, *planes):
            gradient, *theirs = (laplacian(plane) for plane in (found, *planes))
            nearer = (_taken_by_blur(planes[0]) >= _taken_by_blur(planes[1])).to(found.dtype)
            content = sum(
                (share * ((found - plane) ** 2 + GRADIENT_SHARE * (gradient - own) ** 2)).mean()
                for share, plane, own in zip((nearer, 1 - nearer), planes, theirs, strict=True)
            )
            joint = torch.maximum(theirs[0].abs(), theirs[1].abs())
            fixed = {name: value.detach() for name, value in self.discriminator.named_parameters()}
            deceived = torch.func.functional_call(self.discriminator, fixed, (gradient.abs(),))
            adversarial = _miss(deceived, SHARP, generator)
            judged = _miss(self.discriminator(joint), SHARP, generator)
            judged = judged + _miss(self.discriminator(gradient.detach().abs()), BLURRED, generator)
            return adversarial + CONTENT_SHARE * content + judged

    def fuse(self, frames: Tensor) -> Tensor:
        """The fused pictures."""
        return fuse_luminance(
            frames[:, 0], frames[:, 1], lambda near, far: self.network(near * 2 - 1, far * 2 - 1) / 2 + 0.5
        ).clamp(0, 1)


def _taken_by_blur(plane: Tensor) -> Tensor:
    around = functional.pad(plane, (1, 1, 1, 1), mode="replicate")
    return (plane - functional.avg_pool2d(around, 3, stride=1)).abs()


def _miss(verdict: Tensor, wanted: tuple[float, float], generator: torch.Generator) -> Tensor:
    """The mean squared distance of verdicts from what they shall be, drawn anew for each."""
    lowest, highest = wanted
    drawn = torch.rand(verdict.shape, generator=generator, device=verdict.device)
    return ((verdict - lowest - (highest - lowest) * drawn) ** 2).mean()


def rename_tensors(tensors: Tensors) -> Tensors:
    """The tensors of the authors' checkpoint with our names; ours as they are.

    Theirs are called like ``fusion_model/layer2_3_far/w2_3_far``, ours like ``far.layer2_3.weight``.
    """
    renamed = {}
    for name, tensor in tensors.items():
        if not name.startswith(SCOPE):
            renamed[name] = tensor
            continue
        layer, _, value = name.removeprefix(SCOPE).partition("/")
        branch = "" if layer == "layer5" else "far." if layer.endswith("_far") else "near."
        kind = "weight" if value.startswith("w") else "bias"
        renamed[f"{branch}{layer.removesuffix('_far')}.{kind}"] = (
            from_tensorflow(tensor) if tensor.ndim == 4 else tensor
        )
    return renamed


def fuse_mff_gan(frames: Sequence[Picture], *, weights: str | None = None, device: str = "auto") -> Picture:
    """The picture that MFF-GAN makes of two frames, the nearer first; more are folded, the result so far with the next.

    Args:
        frames: two or more, (H, W, 3) RGB or (H, W), 0..1.
        weights: The index of one of the authors' TensorFlow checkpoints, or a file of our tensors.
        device: ``auto``, ``cpu`` or ``cuda``.
    """
    place = torch_device(device)
    network = load_rival(MffGanNetwork, weights, device=place, rename=rename_tensors, prefix=SCOPE)

    def fuse_plane(near: Tensor, far: Tensor) -> Tensor:
        fused: Tensor = network(near * 2 - 1, far * 2 - 1) / 2 + 0.5
        return fused

    return fold_pairs(frames, lambda first, second: fuse_luminance(first, second, fuse_plane), device=place)
