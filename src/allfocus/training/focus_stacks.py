"""Focus stacks rendered in batches: photos as layers at several depths, through a lens, in linear light.

A ground (a photo, or an even ground of its colours) and up to three layers before it: blobs and strips cut out by a
random field, and hairs, legs and wires of one to eight pixels; some blobs are transparent with veins in them, as wings
are. Each layer has a depth, each frame a focus; everything is blurred by how far it is from the focus, up to 58 pixels,
and laid over what is behind it. Some layers lie beyond the first or the last focus, so that they are soft at best, and
the picture to reach shows them so. What is hidden behind a blurred rim shines through, so that beside a near thing no
frame is right: the *veil* of a frame is what lies nearer than its focus, and is known here. No multi-focus picture is
needed: the photos are the ones shuffled elsewhere.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from allfocus.network.veils import GAMMA
from allfocus.training.blurring import WIDE_MARGIN, draw_fields, lens_blur
from allfocus.training.photos import PhotoBank

LARGEST_RADIUS = WIDE_MARGIN - 2.0
"""Of the blur, in pixels."""
SOFTEST = 8.0
"""Radius in pixels up to which a thing beyond all focus positions is blurred at best."""
BEYOND_SHARE, GLASSY_SHARE = 0.2, 0.3
"""Share of the layers that lie beyond all focus positions, and of the blobs that are transparent."""
HAIRS = 5
"""Thin things in a layer of them."""
DARKEST = 1e-5
"""Light below which nothing is told apart: a power of zero has no slope."""


class FocusStacks(NamedTuple):
    """A batch of rendered stacks, in values (not light) where nothing else is said."""

    frames: Tensor
    """(batch, n, 3, height, width) in 0..1."""
    truth: Tensor
    """(batch, 3, height, width), everything as sharp as in its best frame."""
    veil: Tensor
    """(batch, n, 4, height, width): opacity and added light of what is nearer than each frame's focus."""


def draw_focus_stacks(bank: PhotoBank, count: int, sources: int, size: int, generator: torch.Generator) -> FocusStacks:
    """Returns `count` stacks of `sources` frames of `size` x `size` pixels."""
    device = bank.device
    whole = size + 2 * WIDE_MARGIN
    focus = _draw_focus(count, sources, generator)
    radius = torch.exp(_uniform(generator, math.log(1.5), math.log(LARGEST_RADIUS), count))
    colours, mattes, opaque = _draw_layers(bank, count, whole, generator)
    layers = mattes.shape[1]
    # Most things are sharp in some frame: their depth is that of a frame, or nearly.
    chosen = torch.randint(sources, (count, layers), generator=generator, device=device)
    off = _uniform(generator, -1.0, 1.0, count, layers) * torch.minimum(
        torch.full_like(radius, 0.5 / sources), 0.8 / radius
    ).unsqueeze(1)
    depths = focus.gather(1, chosen) + off
    beyond = SOFTEST * _uniform(generator, 0.0, 1.0, count, layers) / radius[:, None]
    before, after = focus.amin(1, keepdim=True) - beyond, focus.amax(1, keepdim=True) + beyond
    side = torch.rand(count, layers, generator=generator, device=device)
    depths = torch.where(side < BEYOND_SHARE / 2, before, torch.where(side < BEYOND_SHARE, after, depths))
    # The ground lies behind all else; the others far to near, as they are laid over each other.
    depths = torch.cat([depths.amax(1, keepdim=True), depths[:, 1:].sort(1, descending=True).values], dim=1)
    radii = (radius[:, None, None] * (depths[:, None] - focus[:, :, None]).abs()).clamp(max=LARGEST_RADIUS)
    least = radii.amin(1, keepdim=True)
    # What is nearly sharp in some frame is to be sharp.
    radii = torch.cat([radii, torch.where(least > 1, least, 0.0)], dim=1)
    softness = 1 + 4 * torch.rand(count, generator=generator, device=device) ** 2
    light, added, opacity = (torch.zeros(count, sources, channels, size, size, device=device) for channels in (3, 3, 1))
    truth = torch.zeros(count, 3, size, size, device=device)
    for layer in range(layers):
        matte = mattes[:, layer]
        seen = torch.cat([colours[:, layer] * matte, matte], dim=1)
        blurred = lens_blur(seen, radii[:, :, layer], softness)
        best, best_cover = blurred[:, -1, :3], blurred[:, -1, 3:].clamp(0, 1)
        colour, cover = blurred[:, :-1, :3], blurred[:, :-1, 3:].clamp(0, 1)
        light = colour + (1 - cover) * light
        if layer:  # the ground hides nothing
            # Nearer than the focus, and further out of focus than in its best frame: from there on it is a veil.
            ahead = radius[:, None] * (focus - depths[:, layer : layer + 1]) - least[:, :, layer]
            # What is transparent is no veil: it belongs to what is seen through it.
            nearer = ((ahead - 0.7).clamp(0, 1) * opaque[:, layer : layer + 1])[..., None, None, None]
            added = nearer * colour + (1 - nearer * cover) * added
            opacity = nearer * cover + (1 - nearer * cover) * opacity
        truth = best + (1 - best_cover) * truth
    # What the network sees is normalised by the stack: its brightest part is about 1, a little of it beyond.
    brightest = functional.avg_pool2d(truth, 8).amax((1, 2, 3))
    exposure = (_uniform(generator, 0.5, 1.5, count) / brightest)[:, None, None, None]
    veil = torch.cat([opacity, added * exposure[:, None]], dim=2)
    return FocusStacks(_to_values(light * exposure[:, None]), _to_values(truth * exposure), veil)


def _to_values(light: Tensor) -> Tensor:
    return light.clamp(DARKEST, 1) ** (1 / GAMMA)


def _uniform(generator: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(*shape, generator=generator, device=generator.device)


def _draw_focus(count: int, sources: int, generator: torch.Generator) -> Tensor:
    """Focus of each frame between 0 (near) and 1 (far), (count, n), in random order."""
    device = generator.device
    even = torch.linspace(0, 1, sources, device=device).expand(count, -1)
    moved = even + 0.25 / sources * torch.randn(count, sources, generator=generator, device=device)
    return moved.gather(1, torch.rand(count, sources, generator=generator, device=device).argsort(1))


def _draw_layers(bank: PhotoBank, count: int, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the light (count, 4, 3, size, size) and mattes (count, 4, 1, size, size): the ground, then the others.

    And of each layer whether it is opaque, 1, or transparent, 0, (count, 4).
    """
    device = bank.device
    photos = torch.unflatten(bank.crop(4 * count, (size, size), generator), 0, (count, 4))
    light = photos.clamp(min=1e-3) ** GAMMA
    # Even ground, or nearly: what is blurred to nothing before it leaves no trace.
    smooth = functional.interpolate(
        # In two steps: the few windows of one alone would keep most of a GPU waiting.
        functional.adaptive_avg_pool2d(functional.avg_pool2d(light.flatten(0, 1), 8), 3),
        size=(size, size),
        mode="bicubic",
        align_corners=False,
    ).clamp(min=1e-3)
    even = torch.rand(count, 4, 1, 1, 1, generator=generator, device=device) < 0.5
    flatness = torch.where(even, _uniform(generator, 0.8, 1.0, count, 4, 1, 1, 1), 0.0)
    light = light + flatness * (torch.unflatten(smooth, 0, (count, 4)) - light)
    # From dark to blown out, each layer on its own, with a tint.
    gain = torch.exp(_uniform(generator, math.log(0.1), math.log(2.0), count, 4, 1, 1, 1))
    light = light * gain * _uniform(generator, 0.6, 1.0, count, 4, 3, 1, 1)
    there = torch.rand(count, 3, 1, 1, 1, generator=generator, device=device) < 0.65
    hairs = [_draw_hairs(count, size, generator) for _ in "abc"]
    shape = _draw_shape(count, size, generator)
    glassy = torch.rand(count, 1, 1, 1, generator=generator, device=device) < GLASSY_SHARE
    veined = torch.maximum(_uniform(generator, 0.1, 0.5, count, 1, 1, 1) * torch.ones_like(shape), hairs.pop())
    shapes = torch.stack([torch.where(glassy, shape * veined, shape), *hairs], 1)
    order = torch.rand(count, 3, generator=generator, device=device).argsort(1)
    shapes = (shapes * there).take_along_dim(order[:, :, None, None, None], dim=1)
    opaque = torch.ones(count, 4, device=device)
    opaque[:, 1:] = torch.where(order == 0, (~glassy)[:, 0, 0].float(), 1.0)
    return light, torch.cat([torch.ones_like(shapes[:, :1]), shapes], dim=1), opaque


def _draw_shape(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Mattes (count, 1, size, size) of blobs, or of thin winding strips; about two pixels from clear to opaque."""
    field = draw_fields(count, 1, (size, size), (24, 48, 96), generator)
    slope = functional.avg_pool2d((field[..., 1:] - field[..., :-1]).abs(), 9, stride=1, padding=4)
    rise = functional.pad(slope, (0, 1, 0, 0), mode="replicate").clamp(min=0.006)
    thin = torch.rand(count, 1, 1, 1, generator=generator, device=generator.device) < 0.4
    strip = _uniform(generator, 0.03, 0.25, count, 1, 1, 1) - field.abs()
    height = torch.where(thin, strip, field - _uniform(generator, 0.0, 0.8, count, 1, 1, 1))
    return (height / (2 * rise) + 0.5).clamp(0, 1)


def _draw_hairs(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Mattes (count, 1, size, size) of HAIRS curved, tapered lines of one to eight pixels."""

    def draw(low: float, high: float) -> Tensor:
        return _uniform(generator, low, high, count, HAIRS, 1, 1)

    device = generator.device
    position = torch.arange(size, device=device, dtype=torch.float32)
    across, down = position[None, None, None, :] - draw(0, size), position[None, None, :, None] - draw(0, size)
    angle = draw(0, math.pi)
    along = torch.cos(angle) * across + torch.sin(angle) * down
    aside = torch.cos(angle) * down - torch.sin(angle) * across
    bend, wave, period = draw(-1.2, 1.2) / size, draw(0, 8), draw(20, 120)
    phase = along / period + draw(0, 6.3)
    aside = aside - bend * along**2 - wave * torch.sin(phase)
    steepness = 2 * bend * along + wave / period * torch.cos(phase)
    distance = aside.abs() * torch.rsqrt(1 + steepness**2)
    width = torch.exp(draw(math.log(0.8), math.log(8.0)))
    width = width * (1 - (along.abs() / draw(0.15 * size, size)).clamp(0, 1)).sqrt()
    alpha = (0.5 * width + 0.5 - distance).clamp(0, 1) * width.clamp(max=1)
    return alpha.amax(1, keepdim=True)
