"""`ips`: shapes, switches, what it sees, sources that are out, and how veils are taken off."""

import dataclasses
import math

import pytest
import torch

from allfocus.fusion import windows
from allfocus.fusion.settings import AS_CHOSEN
from allfocus.network.blocks import HeadMambaBlock, ResBlock
from allfocus.network.contract import FAINTEST_OPACITY, LARGEST_OPACITY
from allfocus.network.decision import Decision, blend_unveiled
from allfocus.network.inheritance import EXCLUSION, distance_behind, lead
from allfocus.network.refiner import REFINER_REACH
from allfocus.network.stack_network import REACH, StackNetwork, StackNetworkConfig
from allfocus.network.veils import local_light, unveil

SMALL = StackNetworkConfig(
    channels=8,
    middle_channels=8,
    token_channels=8,
    res_blocks=1,
    mamba_blocks=2,
    heads=2,
    state=4,
    veil_channels=4,
    refiner_channels=8,
)


def small(**changes: object) -> StackNetwork:
    """A network whose every part has a say, the veil's head and the prior included, which begin at zero."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = StackNetwork(dataclasses.replace(SMALL, **changes)).eval()
        refiner = network.refiner
        for layer in (network.head, network.prior_stem, network.veil_second, refiner.head, refiner.veil_second):
            torch.nn.init.normal_(layer.weight, std=0.3)
    return network


def random_level(
    sources: int, height: int, width: int, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Frames, and the logits and veil of the level above."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.rand(1, sources, 3, height, width, generator=generator),
        2 * torch.randn(1, sources, height // 2, width // 2, generator=generator),
        0.2 * torch.rand(1, sources, 4, height // 8, width // 8, generator=generator),
    )


def decide(
    network: StackNetwork,
    frames: torch.Tensor,
    logits: torch.Tensor,
    veil: torch.Tensor,
    *,
    refine: bool = False,
    inside: torch.Tensor | None = None,
) -> dict[str, torch.Tensor]:
    """All that a level says: every part with rows and columns last."""
    with torch.no_grad():
        decision = (network.refine if refine else network)(frames, Decision(logits, veil), inside)
        composed = blend_unveiled(frames, decision)
    return {"logits": decision.logits, "veil": decision.veil, "picture": composed}


def columns(part: torch.Tensor, width: int) -> torch.Tensor:
    """The part with as many columns as the frames have: those of a veil are four wide."""
    return part.repeat_interleave(width // part.shape[-1], dim=-1)


def count(module: torch.nn.Module, kind: type) -> int:
    return sum(isinstance(part, kind) for part in module.modules())


# Shapes and switches


@pytest.mark.parametrize("size", [(16, 16), (24, 40)])
@pytest.mark.parametrize("sources", [2, 5])
def test_there_is_one_logit_per_source_and_pixel_and_one_veil_per_16_pixels(size, sources):
    network = small()
    decision = network(torch.rand(2, sources, 3, *size))
    below = network(torch.rand(2, sources, 3, 2 * size[0], 2 * size[1]), decision)
    for found, (height, width) in ((decision, size), (below, (2 * size[0], 2 * size[1]))):
        assert found.logits.shape == (2, sources, height, width)
        assert found.veil.shape == (2, sources, 4, height // 4, width // 4)
        assert found.logits.isfinite().all()


def test_the_default_has_both_branches_and_as_many_parameters_as_stated():
    network = StackNetwork(StackNetworkConfig())
    assert count(network.global_branch, HeadMambaBlock) == 4
    assert count(network.local_branch, ResBlock) == 1
    assert len({block.direction for block in network.global_branch}) == 4
    assert sum(parameter.numel() for parameter in network.parameters()) == 313_522


def test_a_branch_that_is_switched_off_has_no_weights():
    assert count(small(mamba_blocks=0), HeadMambaBlock) == 0
    assert not any(name.startswith("global_branch") for name in small(mamba_blocks=0).state_dict())
    assert not any(name.startswith("local_branch") for name in small(res_blocks=0).state_dict())
    for changes in ({"mamba_blocks": 0}, {"res_blocks": 0}):
        assert small(**changes)(torch.rand(1, 2, 3, 16, 16)).logits.isfinite().all()


def test_the_further_block_works_where_the_picture_is_seen_whole_and_nowhere_else():
    frames, logits, veil = random_level(2, 32, 32)
    with_block, without = small(whole_blocks=1), small(whole_blocks=0)
    torch.nn.init.normal_(with_block.whole_branch[0].second.weight, std=0.3)
    without.load_state_dict({name: value for name, value in with_block.state_dict().items() if "whole" not in name})
    assert not torch.equal(with_block(frames).logits, without(frames).logits)
    above = Decision(logits, veil)
    assert torch.equal(with_block(frames, above).logits, without(frames, above).logits)


def test_a_fresh_further_block_is_as_if_it_were_not_there():
    network = StackNetwork(SMALL)
    features = torch.rand(1, 8, 16, 16)
    assert torch.equal(network.whole_branch[0](features), features)


def test_a_fresh_network_takes_no_veil_off():
    with torch.random.fork_rng():
        frames = torch.rand(1, 2, 3, 32, 32)
        decision = StackNetwork(SMALL)(frames)
    assert torch.equal(decision.veil, torch.zeros_like(decision.veil))
    assert torch.equal(unveil(frames, decision.veil), frames)


# What it sees


@pytest.mark.parametrize(("blocks", "heard"), [(2, True), (0, False)])
def test_only_the_global_branch_hears_from_afar(blocks, heard):
    frames = torch.rand(1, 2, 3, 96, 96, generator=torch.Generator().manual_seed(1)).requires_grad_()
    logits = small(mamba_blocks=blocks)(frames).logits
    (gradient,) = torch.autograd.grad(logits[..., -1, -1].sum(), frames)
    assert bool(gradient[..., 0, 0].abs().sum() > 0) == heard


def test_below_the_coarsest_level_the_global_branch_is_not_asked():
    """What a window says could otherwise depend on how large it is."""
    network = small()
    level = random_level(2, 32, 32)
    before = decide(network, *level)
    for parameter in network.global_branch.parameters():
        torch.nn.init.normal_(parameter, std=3)
    assert torch.equal(decide(network, *level)["picture"], before["picture"])
    assert not torch.equal(network(level[0]).logits, small()(level[0]).logits)


def reaches(transposed: bool, *, refine: bool) -> dict[str, int]:
    """How far a column of what is no number spreads in each output, over all places on the network's grids."""
    size, middle = 128, 56
    network = small(mamba_blocks=0, channels=4, middle_channels=4, token_channels=4)
    level = random_level(2, 8, size)
    if transposed:
        level = tuple(part.transpose(-1, -2).contiguous() for part in level)
    found: dict[str, int] = {}
    for given, step in ((0, 1), (1, 2), (2, 8)):
        for place in range(middle // step, (middle + 8) // step):
            for side in (slice(None, place + 1), slice(place, None)):
                inputs = [part.clone() for part in level]
                target = inputs[given].transpose(-1, -2) if transposed else inputs[given]
                target[..., side] = math.nan
                # The nearest pixel of the frames that is spoilt.
                edge = place * step + (step - 1 if side.start is None else 0)
                for name, part in decide(network, *inputs, refine=refine).items():
                    seen = columns(part.transpose(-1, -2) if transposed else part, size)
                    spoilt = seen.isnan().flatten(0, -2).any(0).nonzero()
                    if len(spoilt):
                        far = int(spoilt.max()) - edge if side.start is None else edge - int(spoilt.min())
                        found[name] = max(found.get(name, 0), far)
    return found


@pytest.mark.parametrize("transposed", [False, True])
def test_a_level_reaches_exactly_as_far_as_stated(transposed):
    found = reaches(transposed, refine=False)
    assert max(found.values()) == REACH
    assert found["logits"] == 35


@pytest.mark.parametrize("transposed", [False, True])
def test_the_refiner_reaches_exactly_as_far_as_stated(transposed):
    found = reaches(transposed, refine=True)
    assert max(found.values()) == REFINER_REACH
    assert windows.REFINER_MARGIN >= REFINER_REACH


# Beyond the end of the picture


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("padding", [(8, 0), (0, 24), (16, 8)])
def test_what_frames_repeat_beyond_the_end_of_the_picture_is_not_seen(refine, padding):
    """As if the frames ended with the picture, whatever they hold beyond it."""
    network = small()
    rows, columns_added = padding
    exact = random_level(3, 64, 80)
    expected = decide(network, *exact, refine=refine)
    factors = (1, 2, 8)
    padded = [
        torch.nn.functional.pad(
            part.flatten(0, -3), (0, columns_added // factor, 0, rows // factor), mode="replicate"
        ).unflatten(0, part.shape[:-2])
        for part, factor in zip(exact, factors, strict=True)
    ]
    padded[0][..., 64:, :] = torch.rand(rows, 80 + columns_added)
    inside = torch.zeros(1, 1, 64 + rows, 80 + columns_added)
    inside[..., :64, :80] = 1
    found = decide(network, *padded, refine=refine, inside=inside)
    torch.testing.assert_close(found["logits"][..., :64, :80], expected["logits"], rtol=0, atol=1e-5)
    seen = decide(network, *padded, refine=refine)
    assert float((seen["logits"][..., :64, :80] - expected["logits"]).abs().max()) > 0.01


def test_pixels_beyond_the_reach_change_nothing():
    network = small()
    inputs = random_level(3, 32, 160)
    changed = [part.clone() for part in inputs]
    changed[0][..., :64] = 1 - changed[0][..., :64]
    before, after = decide(network, *inputs), decide(network, *changed)
    for name in before:
        difference = columns((after[name] - before[name]).abs(), 160)
        assert float(difference[..., :64].max()) > 1e-3, name
        assert float(difference[..., 64 + REACH :].max()) < 1e-6, name


@pytest.mark.parametrize("start", [16, 48, 64])
def test_a_window_with_a_margin_of_the_reach_says_what_the_whole_picture_says(start):
    """Fusion's own margin is less: what it costs is in tests/unit/fusion/test_windows.py."""
    margin = -(-REACH // windows.STEP) * windows.STEP
    assert 0.75 * REACH < AS_CHOSEN.margin <= margin
    network = small()
    inputs = random_level(3, 32, 208)
    whole = decide(network, *inputs)
    window = decide(network, *(part[..., start * part.shape[-1] // 208 :] for part in inputs))
    for name, part in whole.items():
        own = columns(window[name], 208 - start)
        expected = columns(part, 208)[..., start:]
        torch.testing.assert_close(own[..., margin:], expected[..., margin:], rtol=0, atol=1e-5, msg=name)
        assert float((own - expected)[..., :8].abs().max()) > 1e-4, name


def test_every_source_sees_the_others():
    network = small()
    frames = torch.rand(1, 3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    changed = frames.clone()
    changed[:, 0] = 1 - changed[:, 0]
    difference = (network(changed).logits - network(frames).logits).abs().amax((0, 2, 3))
    assert difference.min() > 1e-5


# Sources that are out


def test_a_source_that_is_out_in_a_part_has_no_influence_there():
    network = small()
    frames, logits, veil = random_level(3, 32, 192)
    logits[:, 1] = logits[:, 2] = 0
    logits[:, 0, :, :72] = -EXCLUSION  # out in the first 144 pixels of the level
    changed, other_veil = frames.clone(), veil.clone()
    changed[:, 0] = 1 - changed[:, 0]
    other_veil[:, 0] = 1
    before, after = (
        decide(network, frames, logits, veil),
        decide(network, changed, logits, other_veil),
    )
    for name in before:
        kept = slice(None) if name == "picture" else slice(1, None)
        difference = columns((after[name] - before[name]).abs()[:, kept], 192)
        assert float(difference[..., : 144 - REACH].max()) < 1e-6, name
        assert float(difference[..., 144:].max()) > 1e-4, name
    # It weighs nothing there, and stays out on the levels below.
    behind = distance_behind(after["logits"])
    assert float(behind[:, 0, :, :142].max()) == -EXCLUSION
    assert float(after["logits"].softmax(1)[:, 0, :, :142].max()) < 1e-9


def test_of_a_source_that_is_out_nothing_is_known_whether_or_not_somebody_has_computed_it():
    """Fusion keeps no veil of it; a run that does must say the same."""
    network = small()
    frames, logits, veil = random_level(2, 32, 32)
    logits[:, 0], logits[:, 1] = -EXCLUSION, 0
    before = decide(network, frames, logits, veil)
    veil[:, 0] = 0
    after = decide(network, frames, logits, veil)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_source_fades_out_without_a_jump():
    """Just within the margin it counts for next to nothing, so that crossing it turns no decision."""
    network = small()
    frames, logits, veil = random_level(2, 32, 32)
    logits[:, 0] = 0
    found = []
    for behind in (EXCLUSION - 0.002, EXCLUSION, 5 * EXCLUSION):
        logits[:, 1] = -behind
        found.append(decide(network, frames, logits, veil)["logits"].softmax(1))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0.02)
    assert torch.equal(found[1], found[2])


def test_how_far_sources_are_behind_and_ahead():
    logits = torch.tensor([3.0, 1.0, -20.0])[None, :, None, None]
    behind = distance_behind(logits)
    assert behind.flatten().tolist() == [0, -2, -EXCLUSION]
    assert lead(behind).flatten().tolist() == [2, -2, -EXCLUSION]
    shared = torch.tensor([1.0, 1.0, 0.0])[None, :, None, None]
    assert lead(distance_behind(shared)).flatten().tolist() == [0, 0, -1]
    assert lead(distance_behind(logits[:, :1])).flatten().tolist() == [EXCLUSION]


# Veils


def veiled(
    behind: torch.Tensor, opacity: float, colour: tuple[float, float, float]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Frames behind an even veil, and the veil as the network is to say it."""
    light = torch.tensor(colour)[:, None, None]
    frames = (opacity * light + (1 - opacity) * behind**2).sqrt()
    own = local_light(frames)
    alpha = torch.full_like(own[:, :, :1], opacity)
    return frames, torch.cat([alpha, light - own], dim=2)


@pytest.mark.parametrize("opacity", [2.001 * FAINTEST_OPACITY, 0.3, 0.8])
def test_a_known_veil_comes_off_exactly(opacity):
    behind = torch.rand(2, 3, 3, 32, 48, generator=torch.Generator().manual_seed(0))
    frames, veil = veiled(behind, opacity, (0.1, 0.4, 0.9))
    assert float((frames - behind).abs().max()) > 0.02
    # Of what is nearly black the root tells little, 0.001 is what the smallest light is taken for.
    torch.testing.assert_close(unveil(frames, veil), behind, rtol=0, atol=2e-3)
    bright = behind > 0.1
    torch.testing.assert_close(unveil(frames, veil)[bright], behind[bright], rtol=0, atol=2e-5)


@pytest.mark.parametrize("opacity", [-1.0, 0.0, 0.999 * FAINTEST_OPACITY])
def test_without_a_veil_frames_stay_exactly_as_they_are(opacity):
    frames = 1.2 * torch.rand(1, 2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    veil = torch.randn(1, 2, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    veil[:, :, 0] = opacity
    assert torch.equal(unveil(frames, veil), frames)


def test_frames_stay_as_they_are_beside_a_veil():
    behind = torch.rand(1, 1, 3, 32, 64, generator=torch.Generator().manual_seed(0))
    frames, veil = veiled(behind, 0.5, (0.5, 0.5, 0.5))
    frames[..., :32] = behind[..., :32]
    veil[..., 0, :, :8] = 0
    clear = unveil(frames, veil)
    # Four pixels to each side lie between one value of the veil and the next.
    assert torch.equal(clear[..., :28], behind[..., :28])
    torch.testing.assert_close(clear[..., 36:], behind[..., 36:], rtol=0, atol=2e-3)


def test_a_veil_that_hides_all_is_not_taken_off_beyond_what_can_be_told():
    frames, veil = veiled(torch.full((1, 1, 3, 16, 16), 0.5), LARGEST_OPACITY, (0.2, 0.2, 0.2))
    denser = veil.clone()
    denser[:, :, 0] = 1.0
    assert torch.equal(unveil(frames, veil), unveil(frames, denser))
    assert unveil(frames, denser).isfinite().all()
