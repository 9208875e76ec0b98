"""Samples that are drawn on a second stream are those that are asked for, whatever was drawn before them."""

import pytest
import torch

from allfocus.training.batches import Batch
from allfocus.training.drawing_ahead import DrawnAhead

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU on this machine"),
]


def make() -> DrawnAhead:
    generator = torch.Generator("cuda")

    def draw(sources: int) -> Batch:
        def values(*shape: int) -> torch.Tensor:
            return torch.rand(2, sources, *shape, generator=generator, device="cuda")

        label = values(8, 8).argmax(1)
        return Batch(
            values(3, 8, 8), values(3, 8, 8)[:, 0], label, values(8, 8)[:, 0], values(4, 8, 8), values(3, 8, 8)
        )

    return DrawnAhead(draw, generator)


def test_a_seed_gives_the_same_samples_however_they_were_come_by():
    ahead = make()
    first = ahead.take(2, 5).frames.clone()
    for begun in ((2, 6), (3, 5), (2, 5)):
        ahead.begin(*begun)
        assert torch.equal(ahead.take(2, 5).frames, first)
    ahead.begin(2, 6)
    assert not torch.equal(ahead.take(2, 6).frames, first)


def test_samples_that_were_taken_stay_while_the_next_are_drawn():
    ahead = make()
    taken = ahead.take(2, 1)
    before = taken.frames.clone()
    ahead.begin(2, 2)
    torch.cuda.synchronize()
    assert torch.equal(taken.frames, before)


def test_other_numbers_of_sources_have_places_of_their_own():
    ahead = make()
    two, three = ahead.take(2, 1), ahead.take(3, 1)
    assert (two.frames.shape[1], three.frames.shape[1]) == (2, 3)
    assert ahead.take(2, 3).frames.data_ptr() == two.frames.data_ptr()
