"""Rendered stacks: things are sharp where the focus is, veils are what is nearer, thin things blur to nothing."""

import pytest
import torch

from allfocus.training import focus_stacks
from allfocus.training.focus_stacks import LARGEST_RADIUS, FocusStacks, draw_focus_stacks

SIZE = 48
WHOLE = SIZE + 2 * focus_stacks.WIDE_MARGIN
MIDDLE = WHOLE // 2


def draw(bank, *, count: int = 6, sources: int = 4, seed: int = 0) -> FocusStacks:
    return draw_focus_stacks(bank, count, sources, SIZE, torch.Generator().manual_seed(seed))


@pytest.fixture
def radii(monkeypatch) -> list[torch.Tensor]:
    """The radii (count, sources) of each layer that is drawn, the ground first; all things are sharp in some frame."""
    seen: list[torch.Tensor] = []
    blur = focus_stacks.lens_blur

    def record(pictures, own, softness):
        seen.append(own[:, :-1])  # the last one is that of the picture to reach
        return blur(pictures, own, softness)

    monkeypatch.setattr(focus_stacks, "lens_blur", record)
    return seen


@pytest.fixture(autouse=True)
def within(monkeypatch, request) -> None:
    """Nothing lies beyond the first or the last focus, but in tests of that."""
    if "beyond" not in request.node.name:
        monkeypatch.setattr(focus_stacks, "BEYOND_SHARE", 0.0)


def set_layers(monkeypatch, matte: torch.Tensor, *, ground: float = 0.5, thing: float = 0.1) -> None:
    """Lets there be an even ground and before it one even thing of this matte (size, size)."""

    def layers(bank, count, size, generator):
        light = torch.full((count, 4, 3, size, size), ground)
        light[:, 1:] = thing
        mattes = torch.zeros(count, 4, 1, size, size)
        mattes[:, 0] = 1
        mattes[:, 3, 0] = matte
        return light, mattes, torch.ones(count, 4)

    monkeypatch.setattr(focus_stacks, "_draw_layers", layers)


def set_focus(monkeypatch, *focus: float) -> None:
    monkeypatch.setattr(focus_stacks, "_draw_focus", lambda count, sources, _: torch.tensor([focus]).repeat(count, 1))


@pytest.mark.parametrize("sources", [2, 5])
def test_stacks_have_their_shapes_and_ranges_and_follow_from_the_generator(bank, sources):
    stacks = draw(bank, sources=sources)
    assert stacks.frames.shape == (6, sources, 3, SIZE, SIZE)
    assert stacks.truth.shape == (6, 3, SIZE, SIZE)
    assert stacks.veil.shape == (6, sources, 4, SIZE, SIZE)
    for pictures in (stacks.frames, stacks.truth, stacks.veil[:, :, :1]):
        assert float(pictures.min()) >= 0
        assert float(pictures.max()) <= 1
    assert float(stacks.veil.min()) >= -1e-5
    # The stack is normalised: neither dark nor blown out as a whole.
    assert bool((stacks.truth.amax((1, 2, 3)) > 0.5).all())
    again, other = draw(bank, sources=sources), draw(bank, sources=sources, seed=1)
    assert all(torch.equal(one, two) for one, two in zip(stacks, again, strict=True))
    assert not torch.equal(stacks.frames, other.frames)


def test_each_layer_is_sharp_in_some_frame_and_blurred_in_others(bank, radii):
    draw(bank, count=32, sources=4)
    assert len(radii) == 4
    for own in radii:
        assert own.shape == (32, 4)
        assert float(own.amin(1).max()) <= 0.8 + 1e-4
        assert float(own.min()) >= 0
        assert float(own.max()) <= LARGEST_RADIUS
    assert float(radii[1].amax(1).max()) > 10
    # The ground lies behind all else: focused on it, nothing nearer is sharper than it.
    assert float(torch.stack(radii).amax(0).max()) > 10


def test_some_frame_is_near_the_truth_everywhere_on_even_ground(bank, monkeypatch):
    """The thing in one frame, the ground beside it in another."""
    matte = torch.zeros(WHOLE, WHOLE)
    matte[:, :MIDDLE] = 1
    set_layers(monkeypatch, matte)
    stacks = draw(bank, count=16, sources=3)
    error = (stacks.frames - stacks.truth[:, None]).abs().amax((2, 3)).amin(1)
    # Beside the border a veil may lie over all frames; elsewhere one is right, but for a blur below a pixel.
    assert float(error[:, : SIZE // 2 - 4].max()) < 0.02
    assert float(error.max()) > 0.05


def test_what_is_beyond_the_focus_is_soft_in_the_picture_to_reach_and_no_veil_in_its_best_frame(
    bank, monkeypatch, radii
):
    matte = torch.zeros(WHOLE, WHOLE)
    matte[:, MIDDLE : MIDDLE + 6] = 1
    set_layers(monkeypatch, matte)
    monkeypatch.setattr(focus_stacks, "BEYOND_SHARE", 2.0)  # everything before the first focus
    set_focus(monkeypatch, 0.0, 1.0)
    stacks = draw(bank, count=48, sources=2)
    least = radii[3].amin(1)
    assert float(least.max()) > 4
    assert float(least.max()) <= focus_stacks.SOFTEST + 1e-4
    first = stacks.frames[:, 0]
    soft = least > 1.5
    assert int(soft.sum()) > 10
    # The thing is what the nearest focus shows of it.
    there = slice(SIZE // 2, SIZE // 2 + 6)
    torch.testing.assert_close(stacks.truth[soft][..., there], first[soft][..., there], rtol=0, atol=0.05)
    assert float(stacks.veil[:, 0, 0].max()) < 1e-4
    assert float(stacks.veil[:, 1, 0].max()) > 0.3


def test_some_blobs_are_transparent_with_opaque_veins(bank):
    _, mattes, opaque = focus_stacks._draw_layers(bank, 192, WHOLE, torch.Generator().manual_seed(0))
    assert bool(opaque[:, 0].all())
    assert 24 < int((opaque == 0).sum()) < 96
    veined = 0
    for matte, whole in zip(mattes[:, 1:, 0].flatten(0, 1), opaque[:, 1:].flatten(), strict=True):
        inside = matte[matte > 0.05]
        if len(inside) > 2000 and not whole:
            assert float(inside.median()) < 0.55
            veined += float(inside.max()) > 0.55
    assert veined > 15
    assert float(mattes.max()) <= 1


def test_what_is_transparent_is_no_veil(bank, monkeypatch):
    matte = torch.zeros(WHOLE, WHOLE)
    matte[:, :MIDDLE] = 0.3
    set_layers(monkeypatch, matte)
    layers = focus_stacks._draw_layers
    monkeypatch.setattr(focus_stacks, "_draw_layers", lambda *given: (*layers(*given)[:2], torch.zeros(given[1], 4)))
    assert float(draw(bank, count=16, sources=3).veil.abs().max()) == 0


# Veils


def test_without_anything_nearer_there_is_no_veil(bank, monkeypatch):
    set_layers(monkeypatch, torch.zeros(WHOLE, WHOLE))
    stacks = draw(bank)
    assert float(stacks.veil.abs().max()) < 1e-6
    # And an even ground is the same in every frame.
    torch.testing.assert_close(stacks.frames, stacks.truth[:, None].expand_as(stacks.frames), rtol=0, atol=1e-4)


def test_a_veil_is_no_wider_than_the_blur_of_what_is_nearer(bank, monkeypatch, radii):
    matte = torch.zeros(WHOLE, WHOLE)
    matte[:, :MIDDLE] = 1
    set_layers(monkeypatch, matte)
    stacks = draw(bank, count=24, sources=2, seed=1)
    distance = torch.arange(SIZE) - SIZE // 2
    for sample in range(24):
        for frame in range(2):
            far = distance > float(radii[3][sample, frame]) + 4
            assert float(stacks.veil[sample, frame, 0][:, far].max() if far.any() else 0) < 1e-4
    assert float(stacks.veil[:, :, 0].max()) > 0.9


def test_the_nearest_frame_has_no_veil_and_the_farthest_most_of_it(bank, monkeypatch):
    matte = torch.zeros(WHOLE, WHOLE)
    matte[:, :MIDDLE] = 1
    set_layers(monkeypatch, matte)
    set_focus(monkeypatch, 0.0, 0.5, 1.0)
    opacity = draw(bank, count=32, sources=3).veil[:, :, 0].mean((2, 3))
    # A thing may be nearer than the first focus by less than a pixel of blur.
    assert float(opacity[:, 0].max()) < 0.06
    assert bool((opacity[:, 2] >= opacity[:, 1] - 1e-4).all())
    assert bool((opacity[:, 1] >= opacity[:, 0] - 1e-4).all())
    assert float(opacity[:, 2].max()) > 0.4


def test_without_its_veil_a_frame_shows_what_is_behind(bank, monkeypatch, radii):
    matte = torch.zeros(WHOLE, WHOLE)
    matte[:, : MIDDLE - 6] = 1
    set_layers(monkeypatch, matte, ground=0.5, thing=0.05)
    set_focus(monkeypatch, 0.0, 1.0)
    stacks = draw(bank, count=32, sources=2)
    # Focused on the ground, the thing nearer by more than what counts as in focus.
    chosen = (radii[0][:, 1] < 0.9) & (radii[3][:, 1] > 2)
    assert int(chosen.sum()) >= 4
    light, opacity, added = stacks.frames[chosen, 1] ** 2, stacks.veil[chosen, 1, :1], stacks.veil[chosen, 1, 1:]
    told = (opacity < 0.85).expand_as(light) & (light < 0.999)
    behind = (light - added) / (1 - opacity)
    ground = (stacks.truth[chosen][..., -1:, -1:] ** 2).expand_as(light)
    bright = ground < 0.999  # what is blown out cannot be told
    torch.testing.assert_close(behind[told & bright], ground[told & bright], rtol=0.01, atol=1e-3)
    assert bool((told & bright & (opacity > 0.3)).any())


# Thin things


def test_thin_things_vanish_in_far_frames(bank, monkeypatch, radii):
    matte = torch.zeros(WHOLE, WHOLE)
    matte[:, MIDDLE : MIDDLE + 2] = 1
    set_layers(monkeypatch, matte, ground=0.5, thing=0.02)
    set_focus(monkeypatch, 0.0, 1.0)
    stacks = draw(bank, count=48, sources=2)
    depth = stacks.frames.amax((2, 3, 4)) - stacks.frames.amin((2, 3, 4))  # how dark the line is
    own = radii[3]
    sharp = own.gather(1, own.argmin(1, keepdim=True))[:, 0] < 0.9
    assert bool(sharp.all())
    far = own.amax(1) > 15
    assert int(far.sum()) >= 4
    seen = depth.gather(1, own.argmin(1, keepdim=True))[:, 0]
    lost = depth.gather(1, own.argmax(1, keepdim=True))[:, 0]
    assert float((lost / seen)[far].max()) < 0.15
    assert float(seen.min()) > 0.1
    truth = stacks.truth.amax((1, 2, 3)) - stacks.truth.amin((1, 2, 3))
    assert bool((truth >= seen - 1e-3).all())


def test_hairs_are_thin_and_mattes_are_mattes():
    generator = torch.Generator().manual_seed(0)
    hairs = focus_stacks._draw_hairs(8, 160, generator)
    shapes = focus_stacks._draw_shape(8, 160, generator)
    for mattes in (hairs, shapes):
        assert mattes.shape == (8, 1, 160, 160)
        assert float(mattes.min()) == 0
        assert float(mattes.max()) <= 1
    # Five lines of one to eight pixels cover little; what is left of them after 5 pixels are taken off is nothing.
    assert 0.005 < float(hairs.mean()) < 0.2
    core = -torch.nn.functional.max_pool2d(-hairs, 11, stride=1, padding=5)
    assert float((core > 0.5).float().mean()) < 0.1 * float((hairs > 0.5).float().mean())
    assert float((shapes > 0.99).float().mean()) > 0.1


def test_the_first_layer_is_the_ground(bank):
    light, mattes, _ = focus_stacks._draw_layers(bank, 5, WHOLE, torch.Generator().manual_seed(0))
    assert light.shape == (5, 4, 3, WHOLE, WHOLE)
    assert mattes.shape == (5, 4, 1, WHOLE, WHOLE)
    assert mattes[:, 0].eq(1).all()
    assert float(light.min()) > 0
    covered = mattes[:, 1:].amax((2, 3, 4))
    assert 0 < int((covered > 0).sum()) < 15, "some layers are left out"


def test_a_furry_stack_has_more_thin_things_and_is_otherwise_as_others(bank):
    """Of the picture to reach, the share of pixels with an edge to the left grows with the hairs."""

    def edges(furry: float) -> float:
        generator = torch.Generator().manual_seed(4)
        truth = draw_focus_stacks(bank, 6, 3, SIZE, generator, furry=furry).truth
        return float(((truth[..., 1:] - truth[..., :-1]).abs().amax(1) > 0.1).float().mean())

    assert edges(1.0) > 1.5 * edges(0.0)
    stacks = draw_focus_stacks(bank, 5, 3, SIZE, torch.Generator().manual_seed(5), furry=0.4)
    assert stacks.frames.shape == (5, 3, 3, SIZE, SIZE)
    assert stacks.veil.shape == (5, 3, 4, SIZE, SIZE)
    assert 0 <= float(stacks.truth.min()) <= float(stacks.truth.max()) <= 1


# Glints


def test_some_layers_glint_far_above_white():
    glints = focus_stacks._draw_glints(40, 4, 96, torch.Generator().manual_seed(2))
    assert glints.shape == (40, 4, 3, 96, 96)
    assert float(glints.min()) == 0
    brightest = glints.amax((2, 3, 4))
    # A fifth of 160 layers glints; of those a few are so sparse that they have none.
    assert 10 <= int((brightest > 0).sum()) <= 50
    assert 2.5 < float(brightest.max()) <= focus_stacks.BRIGHTEST_GLINT / 4
    assert float((glints > 0).float().mean()) < 0.002


def test_a_stack_that_glints_is_exposed_for_all_the_rest(bank, monkeypatch):
    """Bright spots are clipped, as a camera does it; the picture does not turn dark for them."""
    monkeypatch.setattr(focus_stacks, "GLINTING_SHARE", 1.0)
    monkeypatch.setattr(focus_stacks, "DENSEST_GLINTS", 1e-4)
    glinting = draw(bank, count=12, sources=2, seed=4)
    monkeypatch.setattr(focus_stacks, "BRIGHTEST_GLINT", 1e3)
    brighter = draw(bank, count=12, sources=2, seed=4)
    assert float(brighter.truth.median()) > 0.7 * float(glinting.truth.median())
    assert float(brighter.truth.max()) == 1
    assert float(brighter.veil[:, :, 1:].max()) <= focus_stacks.BRIGHTEST_VEIL
