"""What logits mean: from a decision to the picture."""

import math

import pytest
import torch

from allfocus.network.decision import Decision, blend_unveiled, select_pixels


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


@pytest.mark.parametrize("sources", [1, 4])
def test_one_source_or_equal_ones_give_that_picture(sources):
    generator = torch.Generator().manual_seed(sources)
    frame = torch.rand(1, 1, 3, 32, 48, generator=generator)
    frames = frame.expand(-1, sources, -1, -1, -1)
    logits = 3 * torch.randn(1, sources, 32, 48, generator=generator)
    picture = blend_unveiled(frames, Decision(logits, torch.zeros(1, sources, 4, 8, 12)))
    torch.testing.assert_close(picture, frame[:, 0], rtol=0, atol=1e-5)
