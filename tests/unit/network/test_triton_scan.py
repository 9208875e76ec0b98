"""The Triton scan gives the values and gradients of the plain loop in float64; needs an NVIDIA GPU."""

import copy

import pytest
import torch

from allfocus.network.paper_network import PaperNetwork, PaperNetworkConfig
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


def test_bfloat16_is_scanned_as_exactly_as_its_results_can_be_stored() -> None:
    generator = torch.Generator().manual_seed(3)
    shapes = {"x": (2, 300, 40), "step": (2, 300, 40), "enter": (2, 300, 16), "leave": (2, 300, 16)}
    rounded = {name: torch.randn(shape, generator=generator).bfloat16() for name, shape in shapes.items()}
    rounded["step"] = (rounded["step"].float().abs() * 0.1 + 1e-3).bfloat16()
    decay, skip = -torch.rand(40, 16, generator=generator) * 8 - 0.3, torch.randn(40, generator=generator)
    double = [rounded["x"], rounded["step"], decay, rounded["enter"], rounded["leave"], skip]
    exact = [tensor.double().requires_grad_() for tensor in double]
    fast = [tensor.cuda().requires_grad_() for tensor in double]
    weight = torch.randn(2, 300, 40, generator=generator).bfloat16()
    expected, found = selective_scan(*exact, form="reference"), selective_scan(*fast, form="triton")
    assert found.dtype == torch.bfloat16
    pairs = zip(
        [found, *torch.autograd.grad(found, fast, weight.cuda())],
        [expected, *torch.autograd.grad(expected, exact, weight.double())],
        strict=True,
    )
    for one, other in pairs:
        assert (one.cpu().double() - other).norm() / other.norm() < 1e-2


def test_compiled_blocks_on_the_gpu_give_the_gradients_of_the_plain_network_in_float64() -> None:
    torch.manual_seed(0)
    network = PaperNetwork(PaperNetworkConfig(source_channels=16, mamba_blocks=3))
    frames = torch.rand(2, 2, 3, 32, 32)
    exact = copy.deepcopy(network).double()
    expected = torch.autograd.grad(exact(frames.double()).square().mean(), list(exact.parameters()))
    network.cuda().compile_blocks()
    with torch.backends.cudnn.flags(allow_tf32=False):
        found = torch.autograd.grad(network(frames.cuda()).square().mean(), list(network.parameters()))
    for (name, _), one, other in zip(exact.named_parameters(), found, expected, strict=True):
        assert (one.cpu().double() - other).norm() / other.norm() < 1e-3, name
