"""What must hold for `ips` whatever the weights, the frames and their number."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from allfocus.network.decision import Decision, blend_unveiled, select_pixels
from allfocus.network.inheritance import EXCLUSION
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@functools.cache
def network(seed: int) -> StackNetwork:
    """A small network with strong random weights, so that decisions are far from even and veils are there."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = StackNetwork(
            StackNetworkConfig(
                channels=8, middle_channels=8, token_channels=8, mamba_blocks=4, heads=2, state=4, veil_channels=4
            )
        )
        for layer in (made.head, made.prior_stem, made.veil_second):
            torch.nn.init.normal_(layer.weight, std=0.5)
    return made.eval()


def random_frames(seed: int, sources: int, size: tuple[int, int]) -> torch.Tensor:
    return torch.rand(1, sources, 3, *size, generator=torch.Generator().manual_seed(seed))


def random_above(seed: int, sources: int, size: tuple[int, int]) -> Decision:
    """A decision of the level above; some sources are out in some places."""
    generator = torch.Generator().manual_seed(seed + 1)
    height, width = size
    logits = 3 * torch.randn(1, sources, height // 2, width // 2, generator=generator)
    veil = 0.5 * torch.rand(1, sources, 4, height // 8, width // 8, generator=generator)
    return Decision(logits, veil)


def decide(seed: int, frames: torch.Tensor, above: Decision | None = None) -> Decision:
    with torch.no_grad():
        found: Decision = network(seed % 3)(frames, above)
    return found


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


SIZES = st.tuples(st.sampled_from([16, 24, 32]), st.sampled_from([16, 24, 40]))
SEEDS = st.integers(0, 2**16)


@settings(max_examples=25)
@given(seed=SEEDS, sources=st.integers(2, 6), size=SIZES, coarsest=st.booleans(), data=st.data())
def test_the_order_of_the_sources_does_not_matter(seed, sources, size, coarsest, data):
    frames = random_frames(seed, sources, size)
    order = data.draw(st.permutations(range(sources)))
    above = None if coarsest else random_above(seed, sources, size)
    turned = None if above is None else Decision(above.logits[:, order], above.veil[:, order])
    one, other = decide(seed, frames, above), decide(seed, frames[:, order], turned)
    # Decisions differ from source to source, or the test would prove nothing.
    assert one.logits.std(1).max() > 1e-2
    assert one.veil.std(1).max() > 1e-3
    assert_close(other.logits, one.logits[:, order])
    assert_close(other.veil, one.veil[:, order])
    assert_close(blend_unveiled(frames[:, order], other), blend_unveiled(frames, one))


@settings(max_examples=25)
@given(seed=SEEDS, sources=st.integers(2, 5), size=SIZES, lost=st.integers(0, 4), margin=st.floats(1e-3, 100))
def test_a_source_that_is_out_everywhere_has_no_influence(seed, sources, size, lost, margin):
    """It might as well not be there: what is said of the others and the picture are the same without it."""
    frames = random_frames(seed, sources, size)
    above = random_above(seed, sources, size)
    place = lost % sources
    rest = [index for index in range(sources) if index != place]
    above.logits[:, place] = above.logits[:, rest].amax(1) - EXCLUSION - margin
    remaining = Decision(above.logits[:, rest], above.veil[:, rest])
    one, other = decide(seed, frames, above), decide(seed, frames[:, rest], remaining)
    assert_close(one.logits[:, rest], other.logits)
    assert_close(one.veil[:, rest], other.veil)
    # On the levels below it is out as well.
    assert bool((one.logits[:, place] <= one.logits.amax(1) - EXCLUSION).all())
    assert_close(blend_unveiled(frames, one), blend_unveiled(frames[:, rest], other))


@settings(max_examples=15)
@given(seed=SEEDS, sources=st.integers(2, 12), size=SIZES)
def test_equal_frames_return_that_frame(seed, sources, size):
    frame = random_frames(seed, 1, size)
    frames = frame.expand(-1, sources, -1, -1, -1)
    fused = select_pixels(frames, decide(seed, frames).logits)
    assert (fused - frame[:, 0]).abs().max() <= 1e-6


@settings(max_examples=15)
@given(seed=SEEDS, sources=st.integers(2, 12), size=SIZES)
def test_the_result_lies_between_the_sources(seed, sources, size):
    """A selection invents nothing: without veils no pixel is brighter or darker than in all frames."""
    frames = random_frames(seed, sources, size)
    decision = decide(seed, frames)
    picture = blend_unveiled(frames, Decision(decision.logits, torch.zeros_like(decision.veil)))
    for fused in (select_pixels(frames, decision.logits), picture):
        assert bool((fused >= frames.amin(1) - 1e-6).all() and (fused <= frames.amax(1) + 1e-6).all())


@given(sources=st.integers(2, 12))
def test_two_to_twelve_frames_work(sources):
    frames = random_frames(sources, sources, (32, 48))
    with torch.no_grad():
        levels = list(network(0).levels(frames, 2))
    assert [decision.logits.shape for _, decision in levels] == [(1, sources, 16, 24), (1, sources, 32, 48)]
    assert [own.shape[-2:] for own, _ in levels] == [(16, 24), (32, 48)]
    assert all(part.isfinite().all() for _, decision in levels for part in decision)


@settings(max_examples=10)
@given(seed=SEEDS, sources=st.integers(2, 4), coarsest=st.booleans())
def test_stacks_of_a_batch_do_not_hear_of_each_other(seed, sources, coarsest):
    pair = torch.cat([random_frames(seed, sources, (16, 24)), random_frames(seed + 1, sources, (16, 24))])
    both = [random_above(seed + number, sources, (16, 24)) for number in (0, 1)]
    above = None if coarsest else Decision(*(torch.cat(parts) for parts in zip(*both, strict=True)))
    together = decide(seed, pair, above)
    alone = decide(seed, pair[:1], None if coarsest else both[0])
    assert_close(together.logits[:1], alone.logits)
    assert_close(together.veil[:1], alone.veil)
