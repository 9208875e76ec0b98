"""Shuffling deals pixels out; it never makes, loses or alters one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from allfocus.training.inter_image_shuffle import (
    draw_mask,
    order_fields,
    sharp_source,
    shuffle_pair,
    shuffle_versions,
)

SEEDS = st.integers(0, 2**32)
SIZES = st.tuples(st.integers(1, 24), st.integers(1, 24))
PROBABILITIES = st.floats(0, 1)
GRANULARITIES = st.sampled_from(["pixel", "blob"])


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(seed=SEEDS, size=SIZES, probability=PROBABILITIES, per_channel=st.booleans())
def test_a_pair_is_equation_two(seed, size, probability, per_channel):
    """I1 = m I + (1 - m) B and I2 = (1 - m) I + m B: every pixel is a copy, and both together keep both."""
    source = generator(seed)
    sharp, blurred = torch.rand(2, 1, 3, *size, generator=source).unbind(0)
    mask = draw_mask((1, 3, *size), probability, per_channel=per_channel, generator=source)
    first, second = shuffle_pair(sharp, blurred, mask)
    assert set(mask.unique().tolist()) <= {0.0, 1.0}
    assert torch.equal(first, torch.where(mask == 1, sharp, blurred))
    assert torch.equal(second, torch.where(mask == 1, blurred, sharp))
    if not per_channel:
        assert torch.equal(mask, mask[:, :1].expand_as(mask))


@given(seed=SEEDS, size=SIZES)
def test_certain_probabilities_swap_all_or_nothing(seed, size):
    for probability, value in ((0.0, 1.0), (1.0, 0.0)):
        mask = draw_mask((2, 3, *size), probability, per_channel=True, generator=generator(seed))
        assert bool((mask == value).all())


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_pixels_are_swapped_with_probability_p_and_channels_apart(probability):
    mask = draw_mask((4, 3, 100, 100), probability, per_channel=True, generator=generator(7))
    swapped = 1 - mask
    # 120,000 draws: the standard error is 0.0015 at most; four of them.
    assert float(swapped.mean()) == pytest.approx(probability, abs=0.006)
    both = (swapped[:, 0] * swapped[:, 1]).mean()
    assert float(both) == pytest.approx(probability**2, abs=0.012)
    neighbours = (swapped[..., 1:] * swapped[..., :-1]).mean()
    assert float(neighbours) == pytest.approx(probability**2, abs=0.012)


@given(seed=SEEDS, sources=st.integers(2, 5), size=SIZES, granularity=GRANULARITIES, guided=st.booleans())
def test_the_order_is_a_permutation_at_every_position(seed, sources, size, granularity, guided):
    guide = torch.rand(2, 3, *size, generator=generator(seed + 1)) if guided and min(size) > 1 else None
    order = order_fields(2, sources, size, granularity=granularity, generator=generator(seed), guide=guide)
    assert order.shape == (2, sources, *size)
    expected = torch.arange(sources)[None, :, None, None].expand_as(order)
    assert torch.equal(order.sort(1).values, expected)


@given(seed=SEEDS, sources=st.integers(2, 5), size=SIZES, granularity=GRANULARITIES)
def test_every_position_keeps_its_multiset_of_pixels(seed, sources, size, granularity):
    source = generator(seed)
    # Few levels, so that equal pixels occur and a set would not do.
    versions = torch.randint(4, (2, sources, 3, *size), generator=source) / 4
    order = order_fields(2, sources, size, granularity=granularity, generator=source)
    frames = shuffle_versions(versions, order)
    assert frames.shape == versions.shape
    # Whole pixels (three channels together) are dealt out: compare them as one number each.
    code = torch.tensor([1.0, 10.0, 100.0])[:, None, None]
    assert torch.equal((frames * code).sum(2).sort(1).values, (versions * code).sum(2).sort(1).values)


@given(seed=SEEDS, sources=st.integers(2, 5), size=SIZES, granularity=GRANULARITIES)
def test_the_label_names_the_source_that_shows_the_sharp_version(seed, sources, size, granularity):
    source = generator(seed)
    versions = torch.rand(2, sources, 3, *size, generator=source)
    order = order_fields(2, sources, size, granularity=granularity, generator=source)
    frames = shuffle_versions(versions, order)
    label = sharp_source(order)
    picked = frames.gather(1, label[:, None, None].expand(-1, -1, 3, -1, -1))[:, 0]
    assert torch.equal(picked, versions[:, 0])


def changes(granularity: str) -> float:
    """The share of neighbouring pixels between which the order changes, of 20 samples."""
    order = order_fields(20, 3, (96, 96), granularity=granularity, generator=generator(3))
    return float((order[..., 1:] != order[..., :-1]).any(1).float().mean())


def test_blobs_are_coherent_and_pixels_are_not():
    # Three sources have six orders: two random neighbours differ in five cases of six.
    assert changes("pixel") == pytest.approx(5 / 6, abs=0.01)
    assert changes("blob") < 0.15


@pytest.mark.parametrize("granularity", ["pixel", "blob"])
def test_no_source_is_preferred(granularity):
    order = order_fields(150, 3, (24, 24), granularity=granularity, generator=generator(5))
    shares = torch.stack([(order == rank).float().mean((0, 2, 3)) for rank in range(3)])
    assert float((shares - 1 / 3).abs().max()) < (0.01 if granularity == "pixel" else 0.1)


def test_guided_blobs_follow_the_brightness():
    """Left half dark, right half bright: of the guided samples more change at the middle than elsewhere."""
    guide = torch.zeros(80, 3, 16, 64)
    guide[..., 32:] = 1

    def middle_share(with_guide: bool) -> float:
        order = order_fields(
            80, 2, (16, 64), granularity="blob", generator=generator(2), guide=guide if with_guide else None
        )
        differ = (order[:, 0, :, 27] != order[:, 0, :, 36]).float().mean()
        return float(differ)

    assert middle_share(True) > middle_share(False) + 0.05


@settings(max_examples=5)
@given(seed=SEEDS)
def test_the_same_generator_gives_the_same_order(seed):
    one, other = (order_fields(1, 3, (20, 20), granularity="blob", generator=generator(seed)) for _ in range(2))
    assert torch.equal(one, other)


def test_an_unknown_granularity_is_refused():
    with pytest.raises(ValueError, match="pixel and blob"):
        order_fields(1, 2, (4, 4), granularity="stripe", generator=generator(0))
