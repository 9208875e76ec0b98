"""The Triton scan gives the values and gradients of the plain loop in float64; needs an NVIDIA GPU."""

import pytest
import torch

from allfocus.network.selective_scan import selective_scan

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU on this machine"),
]


@pytest.mark.parametrize(("length", "channels", "state"), [(1, 8, 8), (63, 32, 16), (200, 48, 8), (1000, 40, 16)])
def test_triton_scan_equals_the_float64_loop_in_values_and_gradients(length: int, channels: int, state: int) -> None:
    generator = torch.Generator().manual_seed(length)
    double = {
        "x": torch.randn(2, length, channels, generator=generator, dtype=torch.float64),
        "step": torch.rand(2, length, channels, generator=generator, dtype=torch.float64) ** 3 + 1e-4,
        "decay": -torch.rand(channels, state, generator=generator, dtype=torch.float64) * 4 - 0.01,
        "enter": torch.randn(2, length, state, generator=generator, dtype=torch.float64),
        "leave": torch.randn(2, length, state, generator=generator, dtype=torch.float64),
        "skip": torch.randn(channels, generator=generator, dtype=torch.float64),
    }
    weight = torch.randn(2, length, channels, generator=generator, dtype=torch.float64)
    exact = {name: tensor.clone().requires_grad_() for name, tensor in double.items()}
    fast = {name: tensor.float().cuda().requires_grad_() for name, tensor in double.items()}
    expected = selective_scan(*exact.values(), form="reference")
    found = selective_scan(*fast.values(), form="triton")
    assert (found.cpu().double() - expected).norm() / expected.norm() < 2e-6
    (expected * weight).sum().backward()
    (found * weight.float().cuda()).sum().backward()
    for name in double:
        difference = fast[name].grad.cpu().double() - exact[name].grad
        assert difference.norm() / exact[name].grad.norm() < 1e-5, name
