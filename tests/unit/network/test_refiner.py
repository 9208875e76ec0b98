"""The refiner by itself; how far it sees is measured beside the whole network, in `test_stack_network_parts.py`."""

import torch

from allfocus.network.decision import Decision
from allfocus.network.refiner import Refiner


def test_a_fresh_refiner_says_what_the_level_above_said():
    generator = torch.Generator().manual_seed(0)
    frames = torch.rand(1, 3, 3, 32, 48, generator=generator)
    logits = (2 * torch.randn(1, 3, 16, 24, generator=generator)).clamp(-2, 2)
    veil = 0.2 * torch.rand(1, 3, 4, 4, 6, generator=generator)
    with torch.no_grad():
        found = Refiner(8, veil_channels=4)(frames, Decision(logits, veil)).logits
    large = torch.nn.functional.interpolate(logits, scale_factor=2.0, mode="bilinear")
    gained = found - found.amax(1, keepdim=True)
    small_gap = large - large.amax(1, keepdim=True)
    # Where the best changes between two pixels above, being behind is not linear.
    assert float((gained - small_gap).abs().median()) < 1e-5
    assert float((gained.argmax(1) == small_gap.argmax(1)).float().mean()) > 0.95
