"""Focus stacks rendered in batches: photos as layers at several depths, through a lens, in linear light.

A ground (a photo, or an even ground of its colours) and up to three layers before it: blobs and strips cut out by a
random field, and hairs, legs and wires of one to eight pixels; some blobs are transparent with veins in them, as wings
are, and some layers glint, as wet and metal things do. Each layer has a depth, each frame a focus; everything is
blurred by how far it is from the focus, up to 58 pixels, and laid over what is behind it. Some layers lie beyond the
first or the last focus, so that they are soft at best, and the picture to reach shows them so. What is hidden behind a
blurred rim shines through, so that beside a near thing no frame is right: the *veil* of a frame is what lies nearer
than its focus, and is known here. No multi-focus picture is needed: the photos are the ones shuffled elsewhere.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from allfocus.network.veils import GAMMA
from allfocus.training.blurring import WIDE_MARGIN, draw_fields, draw_softness, lens_blur, soften
from allfocus.training.photos import PhotoBank

LARGEST_RADIUS = WIDE_MARGIN - 2.0
"""Of the blur, in pixels."""
SOFTEST = 8.0
"""Radius in pixels up to which a thing beyond all focus positions is blurred at best."""
BEYOND_SHARE, GLASSY_SHARE = 0.2, 0.3
"""Share of the layers that lie beyond all focus positions, and of the blobs that are transparent."""
FUR_LAYERS = 4
"""Layers of hairs in a furry stack, beside the three of every stack."""
HAIRS = 5
"""Thin things in a layer of them."""
TUFTS = 4
"""How many times the thin things of a layer are repeated elsewhere in it, where there is fur."""
GLINTING_SHARE = 0.2
"""Share of the layers with glints, of which lenses make disks."""
DENSEST_GLINTS = 3e-4
"""Glints for each pixel of such a layer, at the most."""
BRIGHTEST_GLINT = 30.0
"""Light of a glint, all of it, over 9 to 49 pixels; a pixel of the layers has up to 2."""
BRIGHTEST_VEIL = 1.5
"""Light beyond which a veil is not told: where frames are white nobody can."""
EXPOSED_SHARE = 0.985
"""Share of the picture that is no brighter than white by the light meter; what glints is."""
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


class Layers(NamedTuple):
    """What lies before the lens: the ground, then other things, in the order in which they are laid over each other."""

    light: Tensor
    """(count, layers, 3, size, size)"""
    mattes: Tensor
    """(count, layers, 1, size, size)"""
    opaque: Tensor
    """(count, layers), 1, or 0 for what is transparent."""


DrawLayers = Callable[[PhotoBank, int, int, torch.Generator], Layers]
"""Gives the layers of so many stacks, this many pixels wide."""


def draw_focus_stacks(
    bank: PhotoBank,
    count: int,
    sources: int,
    size: int,
    generator: torch.Generator,
    *,
    furry: float = 0.0,
    soft: float = 0.0,
) -> FocusStacks:
    """Returns `count` stacks of `sources` frames of `size` x `size` pixels, a share of them `furry`, and one `soft`."""
    hairy = round(furry * count)
    parts = [
        _draw_stacks(bank, draw, number, sources, size, generator, soft)
        for draw, number in ((_draw_layers, count - hairy), (_draw_fur, hairy))
        if number
    ]
    if len(parts) == 1:
        return parts[0]
    # Mixed, because what is done to them next is done to the first or the last of them.
    order = torch.rand(count, generator=generator, device=bank.device).argsort()
    return FocusStacks(*(torch.cat(values).index_select(0, order) for values in zip(*parts, strict=True)))


def _draw_stacks(
    bank: PhotoBank,
    draw_layers: DrawLayers,
    count: int,
    sources: int,
    size: int,
    generator: torch.Generator,
    soft: float,
) -> FocusStacks:
    """Returns layers as a lens shows them in the frames of a stack."""
    device = bank.device
    focus = _draw_focus(count, sources, generator)
    radius = torch.exp(_uniform(generator, math.log(1.5), math.log(LARGEST_RADIUS), count))
    colours, mattes, opaque = draw_layers(bank, count, size + 2 * WIDE_MARGIN, generator)
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
    if soft:
        deviations = draw_softness(count, soft, generator)
        light, truth = soften(light, deviations), soften(truth, deviations)
    # What the network sees is normalised by the stack: its brightest part is about 1, a little of it beyond.
    metered = functional.avg_pool2d(truth, 8).amax(1).flatten(1).sort(dim=1).values
    brightest = metered[:, int(EXPOSED_SHARE * (metered.shape[1] - 1))].clamp(min=DARKEST)
    exposure = (_uniform(generator, 0.5, 1.5, count) / brightest)[:, None, None, None]
    veil = torch.cat([opacity, (added * exposure[:, None]).clamp(max=BRIGHTEST_VEIL)], dim=2)
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


def _draw_layers(bank: PhotoBank, count: int, size: int, generator: torch.Generator) -> Layers:
    """Returns a ground and three layers before it."""
    device = bank.device
    photos = torch.unflatten(bank.crop(4 * count, (size, size), generator), 0, (count, 4))
    light = photos.clamp(min=1e-3) ** GAMMA
    # Even ground, or nearly: what is blurred to nothing before it leaves no trace.
    smooth = _even_out(light)
    even = torch.rand(count, 4, 1, 1, 1, generator=generator, device=device) < 0.5
    flatness = torch.where(even, _uniform(generator, 0.8, 1.0, count, 4, 1, 1, 1), 0.0)
    light = light + flatness * (smooth - light)
    # From dark to blown out, each layer on its own, with a tint.
    gain = torch.exp(_uniform(generator, math.log(0.1), math.log(2.0), count, 4, 1, 1, 1))
    light = light * gain * _uniform(generator, 0.6, 1.0, count, 4, 3, 1, 1)
    light = light + _draw_glints(count, 4, size, generator)
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
    return Layers(light, torch.cat([torch.ones_like(shapes[:, :1]), shapes], dim=1), opaque)


def _draw_fur(bank: PhotoBank, count: int, size: int, generator: torch.Generator) -> Layers:
    """Returns the same with many plain hairs and legs among and before the three: an insect, a moss, a brush."""
    device = bank.device
    light, mattes, opaque = _draw_layers(bank, count, size, generator)
    gain = torch.exp(_uniform(generator, math.log(0.05), math.log(3.0), count, FUR_LAYERS, 1, 1, 1))
    tint = _uniform(generator, 0.6, 1.0, count, FUR_LAYERS, 3, 1, 1)
    own = torch.randint(light.shape[1], (count, FUR_LAYERS), generator=generator, device=device)
    plain = _even_out(light).take_along_dim(own[:, :, None, None, None], dim=1) * gain * tint
    there = torch.rand(count, FUR_LAYERS, 1, 1, 1, generator=generator, device=device) < 0.8
    fur = torch.stack([_repeat(_draw_hairs(count, size, generator), generator) for _ in range(FUR_LAYERS)], 1) * there
    light, mattes = torch.cat([light, plain], dim=1), torch.cat([mattes, fur], dim=1)
    opaque = torch.cat([opaque, torch.ones(count, FUR_LAYERS, device=device)], dim=1)
    # The ground stays behind all else.
    order = torch.rand(count, light.shape[1], generator=generator, device=device)
    order[:, 0] = -1
    order = order.argsort(1)
    wide = order[:, :, None, None, None]
    return Layers(light.take_along_dim(wide, dim=1), mattes.take_along_dim(wide, dim=1), opaque.gather(1, order))


def _even_out(light: Tensor) -> Tensor:
    """Returns the light (count, layers, 3, size, size) without detail, as it changes over a third of the picture."""
    smooth = functional.interpolate(
        # In two steps: the few windows of one alone would keep most of a GPU waiting.
        functional.adaptive_avg_pool2d(functional.avg_pool2d(light.flatten(0, 1), 8), 3),
        size=light.shape[-2:],
        mode="bicubic",
        align_corners=False,
    )
    return torch.unflatten(smooth.clamp(min=1e-3), 0, light.shape[:2])


def _repeat(mattes: Tensor, generator: torch.Generator) -> Tensor:
    """Returns mattes (count, 1, size, size) with what they show TUFTS times more, moved and every other time turned."""
    size, result = mattes.shape[-1], mattes
    place = torch.arange(size, device=mattes.device)
    moves = torch.randint(size, (TUFTS, 2), generator=generator, device=mattes.device)
    for number in range(TUFTS):
        turned = mattes.flip(-1) if number % 2 else mattes
        moved = turned.index_select(-2, (place + moves[number, 0]) % size)
        result = torch.maximum(result, moved.index_select(-1, (place + moves[number, 1]) % size))
    return result


def _draw_shape(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Mattes (count, 1, size, size) of blobs, or of thin winding strips; about two pixels from clear to opaque."""
    field = draw_fields(count, 1, (size, size), (24, 48, 96), generator)
    slope = functional.avg_pool2d((field[..., 1:] - field[..., :-1]).abs(), 9, stride=1, padding=4)
    rise = functional.pad(slope, (0, 1, 0, 0), mode="replicate").clamp(min=0.006)
    thin = torch.rand(count, 1, 1, 1, generator=generator, device=generator.device) < 0.4
    strip = _uniform(generator, 0.03, 0.25, count, 1, 1, 1) - field.abs()
    height = torch.where(thin, strip, field - _uniform(generator, 0.0, 0.8, count, 1, 1, 1))
    return (height / (2 * rise) + 0.5).clamp(0, 1)


def _draw_glints(count: int, layers: int, size: int, generator: torch.Generator) -> Tensor:
    """Light (count, layers, 3, size, size) of small round spots, many far above white."""
    device = generator.device
    glinting = torch.rand(count, layers, 1, 1, generator=generator, device=device) < GLINTING_SHARE
    density = torch.where(glinting, DENSEST_GLINTS * _uniform(generator, 0.0, 1.0, count, layers, 1, 1) ** 2, 0.0)
    seeds = (torch.rand(count, layers, size, size, generator=generator, device=device) < density).float()
    wide = torch.rand(count, layers, 1, 1, generator=generator, device=device) < 0.5
    small = functional.avg_pool2d(seeds, 3, stride=1, padding=1)
    large = functional.avg_pool2d(functional.avg_pool2d(small, 3, stride=1, padding=1), 3, stride=1, padding=1)
    spots = torch.where(wide, 3 * large, small)
    strength = torch.exp(_uniform(generator, 0.0, math.log(BRIGHTEST_GLINT), count, layers, 1, 1, 1))
    return strength * _uniform(generator, 0.6, 1.0, count, layers, 3, 1, 1) * spots[:, :, None]


def _draw_hairs(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Mattes (count, 1, size, size) of HAIRS curved, tapered lines of one to eight pixels."""

    def draw(low: float, high: float) -> Tensor:
        return _uniform(generator, low, high, count, HAIRS, 1, 1)

    device = generator.device
    position = torch.arange(size, device=device, dtype=torch.float32)
    left, top, angle = draw(0, size), draw(0, size), draw(0, math.pi)
    bend, wave, period = draw(-1.2, 1.2) / size, draw(0, 8), draw(20, 120)
    start, width, length = draw(0, 6.3), torch.exp(draw(math.log(0.8), math.log(8.0))), draw(0.15 * size, size)
    trace = _trace_compiled() if device.type == "cuda" else _trace_lines
    return trace(position, left, top, angle, bend, wave, period, start, width, length)


def _trace_lines(
    position: Tensor,
    left: Tensor,
    top: Tensor,
    angle: Tensor,
    bend: Tensor,
    wave: Tensor,
    period: Tensor,
    start: Tensor,
    width: Tensor,
    length: Tensor,
) -> Tensor:
    """Mattes of lines through points at an angle; all but the position are (count, lines, 1, 1)."""
    across, down = position[None, None, None, :] - left, position[None, None, :, None] - top
    along = torch.cos(angle) * across + torch.sin(angle) * down
    aside = torch.cos(angle) * down - torch.sin(angle) * across
    phase = along / period + start
    aside = aside - bend * along**2 - wave * torch.sin(phase)
    steepness = 2 * bend * along + wave / period * torch.cos(phase)
    distance = aside.abs() * torch.rsqrt(1 + steepness**2)
    width = width * (1 - (along.abs() / length).clamp(0, 1)).sqrt()
    alpha = (0.5 * width + 0.5 - distance).clamp(0, 1) * width.clamp(max=1)
    return alpha.amax(1, keepdim=True)


@functools.cache
def _trace_compiled() -> Callable[..., Tensor]:
    """Returns :func:`_trace_lines` as one kernel: its twenty steps were a third of what drawing samples cost."""
    return torch.compile(_trace_lines)
