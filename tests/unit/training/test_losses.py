"""The losses by hand."""

import math

import pytest
import torch

from allfocus.network.stack_network import StackNetwork, StackNetworkConfig
from allfocus.training.losses import network_loss, picture_loss, selection_loss
from allfocus.training.samples import Batch


def make_batch(label_weight: float = 1.0) -> Batch:
    generator = torch.Generator().manual_seed(0)
    frames = torch.rand(2, 2, 3, 16, 16, generator=generator)
    return Batch(frames, frames[:, 0], torch.zeros(2, 16, 16, dtype=torch.long), torch.full((2,), label_weight))


def logits_for(source: int, strength: float) -> torch.Tensor:
    logits = torch.zeros(2, 2, 16, 16)
    logits[:, source] = strength
    return logits


def test_the_picture_loss_is_the_mean_absolute_difference():
    fused, target = torch.tensor([0.0, 0.5, 1.0]), torch.tensor([0.5, 0.5, 0.25])
    assert float(picture_loss(fused, target)) == pytest.approx((0.5 + 0 + 0.75) / 3)


def test_the_right_selection_costs_nothing_and_the_wrong_one_the_difference():
    batch = make_batch()
    assert float(selection_loss(logits_for(0, 100), batch, label_share=0.1)) < 1e-6
    wrong = float(selection_loss(logits_for(1, 100), batch, label_share=0.0))
    assert wrong == pytest.approx(float((batch.frames[:, 1] - batch.frames[:, 0]).abs().mean()), rel=1e-4)


def test_an_even_selection_costs_the_logarithm_of_the_number_of_sources():
    batch = make_batch()
    with_label = float(selection_loss(logits_for(0, 0), batch, label_share=0.5))
    without = float(selection_loss(logits_for(0, 0), batch, label_share=0.0))
    assert with_label - without == pytest.approx(0.5 * math.log(2), rel=1e-4)


def test_a_label_without_trust_costs_nothing():
    one, other = (selection_loss(logits_for(1, 3), make_batch(0.0), label_share=share) for share in (0.0, 9.0))
    assert float(one) == float(other)


def test_each_network_gets_its_own_loss():
    batch = make_batch()
    stack = StackNetwork(StackNetworkConfig(channels=4, middle_channels=4, token_channels=4, mamba_blocks=1))
    with torch.no_grad():
        expected = selection_loss(stack(batch.frames), batch, label_share=0.3)
        assert torch.equal(network_loss(stack, batch, label_share=0.3), expected)
    picture = batch.frames[:, 1]
    found = network_loss(lambda _: picture, batch, label_share=0.3)
    assert torch.equal(found, picture_loss(picture, batch.target))
