"""`ips-paper` is the network of the paper's figure 4, with the switches its ablation needs."""

import dataclasses

import pytest
import torch

from allfocus.network.blocks import MambaBlock, ResBlock
from allfocus.network.paper_network import PaperNetwork, PaperNetworkConfig

SMALL = PaperNetworkConfig(source_channels=4, mamba_blocks=2, res_blocks=1, state=4)


def small(**changes: object) -> PaperNetwork:
    torch.manual_seed(0)
    return PaperNetwork(dataclasses.replace(SMALL, **changes))


def count(module: torch.nn.Module, kind: type) -> int:
    return sum(isinstance(part, kind) for part in module.modules())


def test_the_default_has_the_numbers_of_the_paper():
    network = PaperNetwork(PaperNetworkConfig())
    assert count(network.global_branch, MambaBlock) == 12
    assert count(network.local_branch, ResBlock) == 3
    assert [count(encoder, ResBlock) for encoder in network.encoders] == [1]
    assert {block.direction for block in network.global_branch} == {"rows"}
    assert network.config.head == "regression"


@pytest.mark.parametrize("size", [(8, 8), (9, 14)])
@pytest.mark.parametrize("head", ["regression", "selection"])
def test_two_sources_give_one_picture_of_their_size(size, head):
    frames = torch.rand(2, 2, 3, *size)
    assert small(head=head)(frames).shape == (2, 3, *size)


@pytest.mark.parametrize("sources", [1, 3])
def test_other_numbers_of_sources_are_refused(sources):
    with pytest.raises(ValueError, match=f"exactly 2 sources, found {sources}"):
        small()(torch.rand(1, sources, 3, 8, 8))


def reach(network: PaperNetwork) -> tuple[bool, bool]:
    """Whether the last pixel hears of the first one (only the scan reaches that far), and of its neighbour."""
    frames = torch.rand(1, 2, 3, 24, 24, generator=torch.Generator().manual_seed(1)).requires_grad_()
    (gradient,) = torch.autograd.grad(network(frames)[..., -1, -1].sum(), frames)
    seen = gradient.abs().sum((0, 1, 2))
    return bool(seen[0, 0] > 0), bool(seen[-1, -2] > 0)


@pytest.mark.parametrize(
    ("changes", "far"),
    [({}, True), ({"mamba_blocks": 0}, False), ({"res_blocks": 0}, True)],
    ids=["both", "local only", "global only"],
)
def test_without_the_global_branch_nothing_is_heard_from_afar(changes, far):
    assert reach(small(**changes)) == (far, True)


def test_a_branch_that_is_switched_off_has_no_weights():
    assert count(small(mamba_blocks=0), MambaBlock) == 0
    assert count(small(res_blocks=0).local_branch, ResBlock) == 0
    assert not any(name.startswith("local_branch") for name in small(res_blocks=0).state_dict())


def test_alternating_scan_takes_the_four_directions_in_turn():
    network = small(scan="alternating", mamba_blocks=5)
    directions = [block.direction for block in network.global_branch]
    assert directions == ["rows", "columns", "rows-reversed", "columns-reversed", "rows"]


def test_encoders_are_shared_or_not():
    assert len(small().encoders) == 1
    assert len(small(shared_encoder=False).encoders) == 2


def test_selection_stays_between_the_sources():
    frames = torch.rand(1, 2, 3, 8, 8)
    fused = small(head="selection")(frames)
    assert bool((fused >= frames.amin(1) - 1e-6).all() and (fused <= frames.amax(1) + 1e-6).all())
