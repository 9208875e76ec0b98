"""The blocks do what their first sentence says."""

import pytest
import torch
from torch.nn import functional

from allfocus.network.blocks import (
    DIRECTIONS,
    CausalConvolution,
    HeadMambaBlock,
    MambaBlock,
    ResBlock,
    flatten_map,
    unflatten_map,
)

# One channel whose value is its place: the order in which a direction reads it can be read off.
MAP = torch.arange(6.0).reshape(1, 1, 2, 3)
ORDERS = {
    "rows": [0, 1, 2, 3, 4, 5],
    "columns": [0, 3, 1, 4, 2, 5],
    "rows-reversed": [5, 4, 3, 2, 1, 0],
    "columns-reversed": [5, 2, 4, 1, 3, 0],
}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_direction_reads_the_map_in_its_order(direction):
    assert flatten_map(MAP, direction).flatten().tolist() == ORDERS[direction]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_unflattening_undoes_flattening(direction):
    features = torch.randn(2, 4, 3, 5)
    assert torch.equal(unflatten_map(flatten_map(features, direction), direction, 3, 5), features)


def test_the_causal_convolution_equals_a_grouped_convolution():
    convolution = CausalConvolution(5, 4)
    torch.nn.init.normal_(convolution.bias)
    sequence = torch.randn(2, 9, 5)
    padded = functional.pad(sequence.transpose(1, 2), (3, 0))
    weight = convolution.weight.T[:, None]
    expected = functional.conv1d(padded, weight, convolution.bias, groups=5).transpose(1, 2)
    torch.testing.assert_close(convolution(sequence), expected, rtol=1e-5, atol=1e-6)


def test_a_res_block_whose_last_layer_is_zero_is_the_identity():
    block = ResBlock(4)
    torch.nn.init.zeros_(block.second.weight)
    torch.nn.init.zeros_(block.second.bias)
    features = torch.randn(1, 4, 6, 7)
    assert torch.equal(block(features), features)


def make_block(kind: str, direction: str) -> torch.nn.Module:
    if kind == "channels":
        return MambaBlock(8, expansion=2, state=4, convolution_width=3, direction=direction)
    return HeadMambaBlock(8, heads=2, state=4, convolution_width=3, direction=direction)


@pytest.mark.parametrize("kind", ["channels", "heads"])
@pytest.mark.parametrize(("direction", "after", "before"), [("rows", (2, 3), (2, 1)), ("columns", (3, 2), (1, 2))])
def test_a_mamba_block_passes_information_along_its_direction_only(kind, direction, after, before):
    torch.manual_seed(0)
    block = make_block(kind, direction)
    features = torch.randn(1, 8, 5, 6)
    changed = features.clone()
    changed[0, :, 2, 2] *= -1  # not a constant: the norm of the block would remove it
    difference = (block(changed) - block(features))[0].abs().amax(0)
    assert difference[after] > 1e-6
    assert difference[before] == 0


@pytest.mark.parametrize("kind", ["channels", "heads"])
def test_reversed_blocks_equal_plain_ones_on_the_turned_map(kind):
    torch.manual_seed(0)
    forward = make_block(kind, "rows")
    backward = make_block(kind, "rows-reversed")
    backward.load_state_dict(forward.state_dict())
    features = torch.randn(1, 8, 3, 4)
    torch.testing.assert_close(backward(features), forward(features.flip(2, 3)).flip(2, 3), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["channels", "heads"])
def test_initial_steps_are_between_a_thousandth_and_a_tenth(kind):
    block = make_block(kind, "rows")
    steps = functional.softplus(block.step.bias if kind == "channels" else block.step_bias)
    assert steps.min() > 0.00099
    assert steps.max() < 0.101
