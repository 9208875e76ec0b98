"""Validation measures what it says, on samples that never change."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from PIL import Image

from allfocus.network.decision import blend_unveiled
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig, reduce_frames
from allfocus.training.recipe import DataRecipe, LogRecipe, Recipe
from allfocus.training.samples import draw_batch
from allfocus.training.shuffle_recipe import ShuffleRecipe
from allfocus.training.validation import fuse_batch, validate, write_preview

PAPER = Recipe(network="ips-paper", data=DataRecipe(crop=32), log=LogRecipe(validation_samples=3))
MIXED = dataclasses.replace(
    PAPER,
    network="ips",
    shuffle=ShuffleRecipe(mask="multi-scale", sources=(3, 2), pixel=0.5, blob=0.0, graded=0.2, stack=0.3),
)


def first_source(frames):
    """A network that returns its first source."""
    return frames[:, 0]


def test_figures_are_the_mean_peak_signal_to_noise_ratio(bank):
    seen = []

    def record(frames):
        seen.append(frames[0])
        return frames[:, 0] + 0.1

    found = validate(record, bank, PAPER)
    # In a pair of sources one shows the sharp value: here the first is compared with the target by hand.
    shuffle = PAPER.shuffle
    generator = torch.Generator().manual_seed(1 << 61)
    batch = draw_batch(bank, shuffle, batch=3, crop=32, sources=2, generator=generator)
    assert torch.equal(torch.stack(seen), batch.frames)
    error = ((batch.frames[:, 0] + 0.1 - batch.target) ** 2).mean((1, 2, 3))
    expected = float(np.mean([-10 * math.log10(value) for value in error.tolist()]))
    assert found == {"shuffled": pytest.approx(expected, abs=1e-3)}


def test_each_kind_with_a_share_has_its_figure(bank):
    assert set(validate(first_source, bank, MIXED)) == {"pixel", "graded", "stack"}


def test_figures_do_not_depend_on_what_was_drawn_before(bank):
    one = validate(first_source, bank, MIXED)
    torch.rand(10)
    assert validate(first_source, bank, MIXED) == one


def test_a_perfect_picture_has_a_hundred_decibels(bank):
    target = draw_batch(
        bank, PAPER.shuffle, batch=3, crop=32, sources=2, generator=torch.Generator().manual_seed(1 << 61)
    ).target
    answers = iter(target)
    assert validate(lambda _: next(answers)[None], bank, PAPER) == {"shuffled": pytest.approx(100)}


def small_network() -> StackNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = StackNetwork(StackNetworkConfig(channels=4, middle_channels=4, token_channels=4, mamba_blocks=1))
        torch.nn.init.normal_(network.veil_second.weight, std=0.3)
        torch.nn.init.normal_(network.head.weight, std=1.0)
    return network.eval()


def test_the_stack_network_is_shown_as_the_picture_it_composes_over_all_levels(bank):
    network = small_network()
    batch = draw_batch(bank, MIXED.shuffle, batch=2, crop=32, sources=3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        small = reduce_frames(batch.frames, 1)
        coarse = network(small)
        expected = blend_unveiled(batch.frames, network(batch.frames, coarse))
    torch.testing.assert_close(fuse_batch(network, batch, levels=2), expected, rtol=0, atol=1e-5)
    assert float((fuse_batch(network, batch, levels=1) - expected).abs().max()) > 1e-3


def test_validation_uses_as_many_levels_as_the_recipe_has_at_the_most(bank):
    network = small_network()
    recipe = dataclasses.replace(MIXED, data=dataclasses.replace(MIXED.data, levels=(2, 3, 1)))
    deepest = dataclasses.replace(MIXED, data=dataclasses.replace(MIXED.data, levels=(3,)))
    assert validate(network, bank, recipe) == validate(network, bank, deepest)
    assert validate(network, bank, recipe) != validate(network, bank, MIXED)


def test_a_preview_shows_sources_result_and_target_in_a_row_per_kind(bank, tmp_path):
    write_preview(first_source, bank, MIXED, tmp_path / "deep" / "preview.png")
    with Image.open(tmp_path / "deep" / "preview.png") as picture:
        pixels = np.asarray(picture)
    # Three kinds; in each three sources, the result and the target.
    assert pixels.shape == (3 * 32, 5 * 32, 3)
    assert np.array_equal(pixels[:, :32], pixels[:, 3 * 32 : 4 * 32])
