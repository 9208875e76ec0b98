"""The losses by hand."""

import dataclasses
import math

import pytest
import torch

from allfocus.network.contract import LEFT_OUT
from allfocus.network.decision import Decision, select_pixels
from allfocus.network.inheritance import EXCLUSION
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig, reduce_frames
from allfocus.network.veils import local_light, unveil
from allfocus.training.batches import Batch
from allfocus.training.losses import (
    EDGE_REACH,
    EDGE_SHARE,
    NEEDED,
    SAFETY,
    SQUARE_SHARE,
    VEIL_SHARE,
    beside_edges,
    level_loss,
    needed_sources,
    network_loss,
    picture_loss,
    stack_loss,
    veil_loss,
)


def make_batch(label_weight: float = 1.0, sources: int = 2, size: int = 16) -> Batch:
    generator = torch.Generator().manual_seed(0)
    frames = torch.rand(2, sources, 3, size, size, generator=generator)
    label = torch.zeros(2, size, size, dtype=torch.long)
    veil = torch.zeros(2, sources, 4, size // 4, size // 4)
    return Batch(frames, frames[:, 0], label, torch.full((2,), label_weight), veil, torch.ones_like(frames[:, :, :1]))


def decision_for(source: int, strength: float, size: int = 16) -> Decision:
    logits = torch.zeros(2, 2, size, size)
    logits[:, source] = strength
    return Decision(logits, torch.zeros(2, 2, 4, size // 4, size // 4))


def loss_of(
    decision: Decision,
    batch: Batch,
    *,
    label_share: float,
    level: int = 0,
    needed: torch.Tensor | None = None,
) -> float:
    """The loss of one level without a level above it; every pixel tells."""
    frames = reduce_frames(batch.frames, level)
    nobody = torch.zeros_like(batch.frames[:, :, 0]) if needed is None else needed
    telling = torch.ones_like(batch.target[:, :1])
    return float(level_loss(frames, decision, batch, nobody, telling, level=level, label_share=label_share))


def test_the_picture_loss_is_the_mean_absolute_difference():
    fused, target = torch.tensor([0.0, 0.5, 1.0]), torch.tensor([0.5, 0.5, 0.25])
    assert float(picture_loss(fused, target)) == pytest.approx((0.5 + 0 + 0.75) / 3)


def test_the_right_selection_costs_nothing_and_the_wrong_one_the_difference():
    batch = make_batch()
    assert loss_of(decision_for(0, 100), batch, label_share=0.1) < 1e-6
    wrong = loss_of(decision_for(1, 100), batch, label_share=0.0)
    difference = batch.frames[:, 1] - batch.frames[:, 0]
    expected = difference.abs().mean() + 0.5 * SQUARE_SHARE * difference.square().mean()
    assert wrong == pytest.approx(float(expected), rel=1e-4)


def test_a_right_picture_that_is_mixed_of_wrong_pixels_costs_what_they_are_wrong_by():
    batch = make_batch()
    middle = torch.full_like(batch.target, 0.5)
    batch = dataclasses.replace(batch, frames=torch.stack([middle - 0.1, middle + 0.1], dim=1), target=middle)
    assert loss_of(decision_for(0, 0), batch, label_share=0.0) == pytest.approx(0.5 * 0.1, rel=1e-4)


def test_how_bright_a_source_is_makes_no_difference():
    batch = make_batch()
    gain = torch.tensor([0.8, 1.2])[None, :, None, None, None].expand(2, 2, 1, 16, 16)
    brighter = dataclasses.replace(batch, frames=batch.frames * gain, gain=gain)
    for decision in (decision_for(0, 1), decision_for(1, 2)):
        expected = loss_of(decision, batch, label_share=0.3)
        assert loss_of(decision, brighter, label_share=0.3) == pytest.approx(expected, rel=1e-4)


def test_beside_an_edge_the_label_counts_more():
    label = torch.zeros(1, 16, 24, dtype=torch.long)
    label[..., 12:] = 1
    beside = beside_edges(label)[0]
    assert beside[:, 12 - EDGE_REACH : 12 + EDGE_REACH].eq(1).all()
    assert beside[:, : 12 - EDGE_REACH].eq(0).all()
    assert beside[:, 12 + EDGE_REACH :].eq(0).all()
    batch, decision = make_batch(), decision_for(0, 0)
    batch.label[:, :, 8:] = 1
    cost = loss_of(decision, batch, label_share=1.0) - loss_of(decision, batch, label_share=0.0)
    assert cost == pytest.approx((1 + 0.5 * EDGE_SHARE) * math.log(2), rel=1e-4)


def test_an_even_selection_costs_the_logarithm_of_the_number_of_sources():
    batch = make_batch()
    with_label = loss_of(decision_for(0, 0), batch, label_share=0.5)
    without = loss_of(decision_for(0, 0), batch, label_share=0.0)
    assert with_label - without == pytest.approx(0.5 * math.log(2), rel=1e-4)


def test_a_label_counts_as_far_as_it_can_be_told():
    batch, decision = make_batch(), decision_for(0, 0)
    nobody = torch.zeros_like(batch.frames[:, :, 0])
    costs = [
        float(
            level_loss(
                batch.frames,
                decision,
                batch,
                nobody,
                torch.full_like(batch.target[:, :1], telling),
                level=0,
                label_share=1.0,
            )
        )
        for telling in (0.0, 0.25)
    ]
    assert costs[1] - costs[0] == pytest.approx(0.25 * math.log(2), rel=1e-4)


def test_a_label_without_trust_costs_nothing():
    one, other = (loss_of(decision_for(1, 3), make_batch(0.0), label_share=share) for share in (0.0, 9.0))
    assert one == other


def test_both_the_copies_and_the_picture_without_veils_count():
    batch, decision = make_batch(), decision_for(0, 100)
    nobody, telling = torch.zeros_like(batch.frames[:, :, 0]), torch.ones_like(batch.target[:, :1])
    decision.veil[:, :, 0] = 0.5
    loss = level_loss(batch.frames, decision, batch, nobody, telling, level=0, label_share=0.0)
    difference = unveil(batch.frames, decision.veil)[:, 0] - batch.target
    expected = 0.5 * (difference.abs().mean() + SQUARE_SHARE * difference.square().mean())
    veil = VEIL_SHARE * veil_loss(batch.frames, decision.veil, batch.veil, 1)
    assert float(difference.abs().mean()) > 0.01
    assert float(loss) == pytest.approx(float(expected + veil), rel=1e-4)


def test_a_coarse_level_is_compared_with_the_reduced_target_and_the_labels_of_its_pixels():
    batch = make_batch()
    assert loss_of(decision_for(0, 100, 8), batch, label_share=0.1, level=1) < 1e-6
    batch.label[:, ::2, ::2] = 1  # exactly the pixels that the coarse level has
    wrong = loss_of(decision_for(0, 5, 8), batch, label_share=1.0, level=1)
    right = loss_of(decision_for(0, 5, 8), batch, label_share=0.0, level=1)
    assert wrong - right == pytest.approx(5 + math.log(1 + math.exp(-5)), rel=1e-4)


# What a coarse level must not do


@pytest.mark.parametrize("behind", [2.0, EXCLUSION - SAFETY, EXCLUSION, EXCLUSION + 1, 100.0])
def test_leaving_a_needed_source_out_costs_and_only_on_coarse_levels(behind):
    batch = make_batch()
    needed = torch.zeros_like(batch.frames[:, :, 0])
    needed[:, 1, 4:6, 4:6] = 1  # one pixel of the next level, which has 64
    fine, coarse = decision_for(0, behind), decision_for(0, behind, 8)
    assert loss_of(fine, batch, label_share=0, needed=needed) == loss_of(fine, batch, label_share=0)
    cost = loss_of(coarse, batch, label_share=0, level=1, needed=needed)
    cost -= loss_of(coarse, batch, label_share=0, level=1)
    missed = min(max(behind - (EXCLUSION - SAFETY), 0), EXCLUSION)
    assert cost == pytest.approx(0.1 * missed / 64 / 2, abs=1e-6)


def test_a_source_is_needed_where_no_other_comes_near_it():
    target = torch.full((1, 3, 12, 24), 0.5)
    frames = target[:, None].repeat(1, 3, 1, 1, 1)
    frames[:, 1:, :, :, :8] += 0.2  # only the first is right
    frames[:, :, :, :, 8:16] += 0.2  # none is right, and none better
    frames[:, 1, :, :, 16:] += NEEDED / 2  # two are right, and the third nearly
    batch = Batch(
        frames,
        target,
        torch.zeros(1, 12, 24, dtype=torch.long),
        torch.ones(1),
        torch.zeros(1, 3, 4, 3, 6),
        torch.ones(1, 3, 1, 12, 24),
    )
    needed, telling = needed_sources(batch)
    assert needed.shape == (1, 3, 12, 24)
    assert telling.shape == (1, 1, 12, 24)
    # The mean over three pixels blurs the borders.
    assert needed[0, 0, 1:-1, 1:7].eq(1).all()
    assert needed[0, 1:].eq(0).all()
    assert needed[..., 9:].eq(0).all()
    assert telling[0, 0, 1:-1, 1:7].eq(1).all()
    torch.testing.assert_close(telling[..., 9:15], torch.full((1, 1, 12, 6), 0.1))


def test_how_far_a_source_can_be_told_grows_with_what_the_next_costs():
    target = torch.full((1, 3, 8, 8), 0.5)
    for excess, expected in ((0.0, 0.1), (0.5 * NEEDED, 0.5), (2 * NEEDED, 1.0)):
        frames = torch.stack([target, target + excess], dim=1)
        batch = Batch(
            frames,
            target,
            torch.zeros(1, 8, 8, dtype=torch.long),
            torch.ones(1),
            torch.zeros(1, 2, 4, 2, 2),
            torch.ones(1, 2, 1, 8, 8),
        )
        _, telling = needed_sources(batch)
        assert float(telling[0, 0, 4, 4]) == pytest.approx(expected, rel=1e-3)


def test_what_was_left_out_already_teaches_no_choice():
    """The label of a source that the level above has left out can not be reached any more."""
    frames = torch.rand(1, 2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    batch = Batch(
        frames,
        frames[:, 0],
        torch.zeros(1, 16, 16, dtype=torch.long),
        torch.ones(1),
        torch.zeros(1, 2, 4, 4, 4),
        torch.ones(1, 2, 1, 16, 16),
    )
    logits = torch.zeros(1, 2, 16, 16)
    logits[:, 0, :, :8] = LEFT_OUT
    needed, telling = needed_sources(batch)
    costs = [
        float(
            level_loss(
                frames,
                Decision(logits, torch.zeros(1, 2, 4, 4, 4)),
                batch,
                needed,
                telling,
                level=0,
                label_share=share,
            )
        )
        for share in (0.0, 1.0)
    ]
    # Only the half in which both compete is counted: an even choice between two.
    assert costs[1] - costs[0] == pytest.approx(0.5 * math.log(2) * float(telling[..., 8:].mean()), rel=0.02)


# Veils


def test_the_true_veil_costs_nothing_and_its_colour_is_told_from_the_own_mean():
    frames = torch.rand(1, 2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    true = torch.full((1, 2, 4, 4, 4), 0.3)
    true[:, :, 0] = 0.5
    veil = torch.zeros(1, 2, 4, 4, 4)
    veil[:, :, 0] = 0.5
    veil[:, :, 1:4] = 0.6 - local_light(frames)
    assert float(veil_loss(frames, veil, true, 1)) < 1e-7
    assert float(veil_loss(frames, torch.zeros_like(veil), true, 1)) > 0.1


def test_the_veil_of_a_coarse_level_is_the_mean_of_the_true_one():
    frames = torch.rand(1, 2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    true = torch.zeros(1, 2, 4, 8, 8)
    true[:, :, 0, ::2] = 0.8
    veil = torch.zeros(1, 2, 4, 4, 4)
    veil[:, :, 0] = 0.4
    veil[:, :, 1:4] = -local_light(frames)  # it adds no light
    assert float(veil_loss(frames, veil, true, 2)) < 1e-7


def test_a_head_that_says_nothing_of_a_veil_has_a_slope():
    """Zero is where the head begins; if it had no slope there it would stay."""
    frames = torch.rand(1, 2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    veil = torch.full((1, 2, 4, 4, 4), -1e-3, requires_grad=True)
    (slope,) = torch.autograd.grad(veil_loss(frames, veil, torch.full((1, 2, 4, 4, 4), 0.3), 1), veil)
    assert bool((slope[:, :, 0] < 0).all())


# All levels together


def small_network() -> StackNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = StackNetwork(StackNetworkConfig(channels=4, middle_channels=4, token_channels=4, mamba_blocks=1))
        torch.nn.init.normal_(network.veil_second.weight, std=0.3)
    return network


def test_levels_count_half_as_much_as_the_next_finer_one():
    batch, network = make_batch(sources=3, size=32), small_network()
    needed, telling = needed_sources(batch)
    with torch.no_grad():
        small = reduce_frames(batch.frames, 1)
        coarse = network(small)
        first = level_loss(small, coarse, batch, needed, telling, level=1, label_share=0.3)
        for with_context, decide in ((2, network), (1, network.refine)):
            fine = decide(batch.frames, coarse)
            second = level_loss(batch.frames, fine, batch, needed, telling, level=0, label_share=0.3)
            found = stack_loss(network, batch, levels=2, label_share=0.3, with_context=with_context)
            torch.testing.assert_close(found, 0.5 * first + second)


def test_every_part_of_the_network_learns():
    batch, network = make_batch(sources=3, size=64), small_network()
    batch.veil[:, :, 0] = 0.4
    torch.nn.init.normal_(network.refiner.head.weight, std=0.3)
    torch.nn.init.normal_(network.refiner.veil_second.weight, std=0.3)
    torch.nn.init.normal_(network.whole_branch[0].second.weight, std=0.3)
    torch.autograd.backward(stack_loss(network, batch, levels=3, label_share=0.2, with_context=2))
    silent = [name for name, own in network.named_parameters() if own.grad is None or not bool(own.grad.any())]
    assert silent == []
    assert all(bool(parameter.grad.isfinite().all()) for parameter in network.parameters())


def test_each_network_gets_its_own_loss():
    batch, stack = make_batch(size=32), small_network()
    with torch.no_grad():
        for levels in (1, 2):
            expected = stack_loss(stack, batch, levels=levels, label_share=0.3)
            assert torch.equal(network_loss(stack, batch, levels=levels, label_share=0.3), expected)
        assert float((select_pixels(batch.frames, stack(batch.frames).logits) - batch.target).abs().mean()) > 0.01
    picture = batch.frames[:, 1]
    found = network_loss(lambda _: picture, batch, levels=2, label_share=0.3)
    assert torch.equal(found, picture_loss(picture, batch.target))


@pytest.mark.parametrize("levels", [1, 2])
def test_beyond_the_end_of_a_picture_nothing_is_seen_and_nothing_is_asked(levels):
    """Frames and target may be anything there: what the decision learns is the same."""
    inside = torch.zeros(1, 1, 32, 32)
    inside[..., :28, :24] = 1
    batch = dataclasses.replace(make_batch(size=32), inside=inside)
    noise = torch.rand(batch.frames.shape, generator=torch.Generator().manual_seed(5))
    frames = torch.where(inside > 0, batch.frames, noise)
    other = dataclasses.replace(batch, frames=frames, target=torch.where(inside[0] > 0, batch.target, 1 - noise[:, 1]))
    torch.manual_seed(1)
    network = StackNetwork(StackNetworkConfig())
    found = []
    for sample in (batch, other):
        network.zero_grad()
        stack_loss(network, sample, levels=levels, label_share=0.2, with_context=1).backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in network.head.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-7)
