"""`ips`: shapes, switches, and what its logits mean."""

import dataclasses
import math

import pytest
import torch

from allfocus.network.blocks import HeadMambaBlock, ResBlock
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig, select_pixels

SMALL = StackNetworkConfig(
    channels=8, middle_channels=8, token_channels=8, res_blocks=1, mamba_blocks=2, heads=2, state=4
)


def small(**changes: object) -> StackNetwork:
    torch.manual_seed(0)
    return StackNetwork(dataclasses.replace(SMALL, **changes)).eval()


def count(module: torch.nn.Module, kind: type) -> int:
    return sum(isinstance(part, kind) for part in module.modules())


@pytest.mark.parametrize("size", [(16, 16), (24, 40)])
@pytest.mark.parametrize("sources", [2, 5])
def test_there_is_one_logit_per_source_and_pixel(size, sources):
    assert small()(torch.rand(2, sources, 3, *size)).shape == (2, sources, *size)


def test_the_default_has_both_branches():
    network = StackNetwork(StackNetworkConfig())
    assert count(network.global_branch, HeadMambaBlock) == 4
    assert count(network.local_branch, ResBlock) == 1
    assert len({block.direction for block in network.global_branch}) == 4


def test_a_branch_that_is_switched_off_has_no_weights():
    assert count(small(mamba_blocks=0), HeadMambaBlock) == 0
    assert not any("middle" in name or "token" in name for name in small(mamba_blocks=0).state_dict())
    assert not any(name.startswith("local_branch") for name in small(res_blocks=0).state_dict())
    for changes in ({"mamba_blocks": 0}, {"res_blocks": 0}):
        assert small(**changes)(torch.rand(1, 2, 3, 16, 16)).isfinite().all()


@pytest.mark.parametrize(("blocks", "heard"), [(2, True), (0, False)])
def test_only_the_global_branch_hears_from_afar(blocks, heard):
    frames = torch.rand(1, 2, 3, 64, 64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    (gradient,) = torch.autograd.grad(small(mamba_blocks=blocks)(frames)[..., -1, -1].sum(), frames)
    assert bool(gradient[..., 0, 0].abs().sum() > 0) == heard


def test_every_source_sees_the_others():
    network = small()
    frames = torch.rand(1, 3, 3, 16, 16)
    changed = frames.clone()
    changed[:, 0] = 1 - changed[:, 0]
    difference = (network(changed) - network(frames)).abs().amax((0, 2, 3))
    assert difference.min() > 1e-5


def test_a_certain_selection_copies_pixels_exactly():
    generator = torch.Generator().manual_seed(0)
    frames = torch.rand(1, 3, 3, 16, 24, generator=generator)
    chosen = torch.randint(3, (1, 16, 24), generator=generator)
    logits = 200.0 * torch.nn.functional.one_hot(chosen, 3).permute(0, 3, 1, 2)
    expected = frames.gather(1, chosen[:, None, None].expand(-1, -1, 3, -1, -1))[:, 0]
    assert torch.equal(select_pixels(frames, logits), expected)


def test_an_even_selection_is_the_mean_of_the_sources():
    frames = torch.rand(2, 4, 3, 16, 16)
    torch.testing.assert_close(select_pixels(frames, torch.zeros(2, 4, 16, 16)), frames.mean(1))


def test_the_weight_of_a_source_is_the_softmax_of_its_logit():
    frames = torch.zeros(1, 2, 3, 8, 8)
    frames[:, 1] = 1
    logits = torch.zeros(1, 2, 8, 8)
    logits[:, 1] = 1.5
    expected = torch.full((1, 3, 8, 8), 1 / (1 + math.exp(-1.5)))
    torch.testing.assert_close(select_pixels(frames, logits), expected)
