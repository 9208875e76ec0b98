"""What the network in torch and fusion without it both know or do is the same."""

import numpy as np
import torch

from allfocus.fusion import decisions, inference, unveiling
from allfocus.network import contract, inheritance, stack_network, veils


def test_what_network_and_fusion_both_state_agrees():
    assert np.float32(inheritance.EXCLUSION) == decisions.EXCLUSION
    assert inference.LevelOutput._fields == contract.OUTPUTS


def test_a_veil_has_as_many_channels_as_fusion_keeps():
    config = stack_network.StackNetworkConfig(channels=4, middle_channels=4, token_channels=4, mamba_blocks=1)
    with torch.random.fork_rng(), torch.no_grad():
        decision = stack_network.StackNetwork(config)(torch.rand(1, 2, 3, 16, 16))
    assert decision.veil.shape[2] == decisions.VEIL_CHANNELS


def test_fusion_takes_a_veil_off_as_the_network_does():
    generator = torch.Generator().manual_seed(0)
    frames = torch.rand(1, 1, 3, 16, 24, generator=generator)
    for opacity in (0.0, 0.13, 0.5, 0.9):
        veil = torch.full((1, 1, 4, 4, 6), opacity)
        veil[:, :, 1:4] = 0.2 - veils.local_light(frames)  # an even colour
        expected = veils.unveil(frames, veil)[0, 0].permute(1, 2, 0).numpy()
        alpha = np.full((16, 24), min(opacity, float(unveiling.LARGEST_OPACITY)), np.float32)
        own = unveiling.Veil(alpha, 0.2 * alpha[..., None].repeat(3, axis=2))
        # Stored darker and from another black than the network sees it.
        stored = 0.1 + 0.5 * frames[0, 0].permute(1, 2, 0).numpy()
        found = (unveiling.unveil(stored, own, 0.1, 0.5) - 0.1) / 0.5
        # Fusion keeps to the range in which values are stored.
        np.testing.assert_allclose(found, np.minimum(expected, 1), atol=1e-5)
