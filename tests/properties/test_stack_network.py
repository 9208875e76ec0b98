"""What must hold for `ips` whatever the weights, the frames and their number."""

import functools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from allfocus.network.stack_network import StackNetwork, StackNetworkConfig, select_pixels


@functools.cache
def network(seed: int) -> StackNetwork:
    """A small network with strong random weights, so that decisions are far from even."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = StackNetwork(
            StackNetworkConfig(channels=8, middle_channels=8, token_channels=8, mamba_blocks=4, heads=2, state=4)
        )
        torch.nn.init.normal_(made.head.weight, std=0.5)
    return made.eval()


def random_frames(seed: int, sources: int, size: tuple[int, int]) -> torch.Tensor:
    return torch.rand(1, sources, 3, *size, generator=torch.Generator().manual_seed(seed))


def decide(seed: int, frames: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return network(seed % 3)(frames)


SIZES = st.tuples(st.sampled_from([16, 24, 32]), st.sampled_from([16, 24, 40]))
SEEDS = st.integers(0, 2**16)


@settings(max_examples=25)
@given(seed=SEEDS, sources=st.integers(2, 6), size=SIZES, data=st.data())
def test_the_order_of_the_sources_does_not_matter(seed, sources, size, data):
    frames = random_frames(seed, sources, size)
    order = data.draw(st.permutations(range(sources)))
    logits, permuted = decide(seed, frames), decide(seed, frames[:, order])
    # Decisions differ from source to source, or the test would prove nothing.
    assert logits.std(1).max() > 1e-2
    torch.testing.assert_close(permuted, logits[:, order], rtol=0, atol=1e-5)
    torch.testing.assert_close(
        select_pixels(frames[:, order], permuted), select_pixels(frames, logits), rtol=0, atol=1e-5
    )


@settings(max_examples=15)
@given(seed=SEEDS, sources=st.integers(2, 12), size=SIZES)
def test_equal_frames_return_that_frame(seed, sources, size):
    frame = random_frames(seed, 1, size)
    frames = frame.expand(-1, sources, -1, -1, -1)
    fused = select_pixels(frames, decide(seed, frames))
    assert (fused - frame[:, 0]).abs().max() <= 1e-6


@settings(max_examples=15)
@given(seed=SEEDS, sources=st.integers(2, 12), size=SIZES)
def test_the_result_lies_between_the_sources(seed, sources, size):
    """A selection invents nothing: no pixel is brighter or darker than in all frames."""
    frames = random_frames(seed, sources, size)
    fused = select_pixels(frames, decide(seed, frames))
    assert bool((fused >= frames.amin(1) - 1e-6).all() and (fused <= frames.amax(1) + 1e-6).all())


@given(sources=st.integers(2, 12))
def test_two_to_twelve_frames_work(sources):
    frames = random_frames(sources, sources, (16, 24))
    logits = decide(0, frames)
    assert logits.shape == (1, sources, 16, 24)
    assert logits.isfinite().all()


@settings(max_examples=10)
@given(seed=SEEDS, sources=st.integers(2, 4))
def test_stacks_of_a_batch_do_not_hear_of_each_other(seed, sources):
    pair = torch.cat([random_frames(seed, sources, (16, 24)), random_frames(seed + 1, sources, (16, 24))])
    together = decide(seed, pair)
    torch.testing.assert_close(together[:1], decide(seed, pair[:1]), rtol=0, atol=1e-5)
