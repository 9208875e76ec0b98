"""The Triton kernels give the values and gradients of the plain loop in float64, interpreted on a CPU."""

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

CHECK = """
import dataclasses
import torch
from allfocus.network import triton_scan
from allfocus.network.selective_scan import selective_scan

# So that a short sequence is cut into pieces of several parts, the last ones shorter.
triton_scan.SHORTEST_PIECE = 4
triton_scan.FORWARD = dataclasses.replace(triton_scan.FORWARD, warps=4)
triton_scan.BACKWARD = dataclasses.replace(triton_scan.BACKWARD, warps=4)
shapes = (1, 3, torch.float32), (37, 5, torch.float32), (18, 18, torch.bfloat16), (48, 16, torch.float32)
for length, channels, kind in shapes:
    tolerance = 1e-5 if kind == torch.float32 else 1e-2
    generator = torch.Generator().manual_seed(length)
    draw = lambda *shape: torch.randn(*shape, generator=generator).to(kind)
    step = (torch.rand(1, length, channels, generator=generator) ** 3 + 1e-4).to(kind)
    decay = -torch.rand(channels, 4, generator=generator) * 4 - 0.01
    x, enter, leave, skip = draw(1, length, channels), draw(1, length, 4), draw(1, length, 4), draw(channels).float()
    inputs = (x, step, decay, enter, leave, skip)
    weight = draw(1, length, channels)
    fast = [tensor.clone().requires_grad_() for tensor in inputs]
    exact = [tensor.double().requires_grad_() for tensor in inputs]
    found, expected = selective_scan(*fast, form="triton"), selective_scan(*exact, form="reference")
    found_gradients = torch.autograd.grad(found, fast, weight)
    expected_gradients = torch.autograd.grad(expected, exact, weight.double())
    for name, one, other in zip("y x Δ A B C D".split(), (found, *found_gradients), (expected, *expected_gradients)):
        error = float((one.detach().double() - other.detach()).norm() / other.detach().norm())
        assert error < tolerance, f"length {length}, {kind}: {name} is off by {error:.1e}"
    with torch.no_grad():
        assert torch.equal(selective_scan(*inputs, form="triton"), found), "no gradients wanted changes the values"
"""

CONVOLUTION = """
import torch
from allfocus.network import triton_convolution
from allfocus.network.blocks import CausalConvolution

triton_convolution.PIECE = 16  # so that a short sequence is cut into pieces, the last one shorter
shapes = (1, 3, 4, torch.float32), (37, 5, 3, torch.float32), (32, 128, 4, torch.bfloat16)
for length, channels, width, kind in shapes:
    tolerance = 1e-6 if kind == torch.float32 else 1e-2
    generator = torch.Generator().manual_seed(length)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    inputs = draw(2, length, 2 * channels).to(kind), draw(width, channels), draw(channels)
    gradient = draw(2, length, channels).to(kind)
    fast = [tensor.clone().requires_grad_() for tensor in inputs]
    exact = [tensor.double().requires_grad_() for tensor in inputs]
    found = triton_convolution.convolve_silu_triton(fast[0].chunk(2, dim=-1)[0], *fast[1:])
    module = CausalConvolution(channels, width).double()
    weights = {"weight": exact[1], "bias": exact[2]}
    expected = torch.func.functional_call(module, weights, (exact[0].chunk(2, dim=-1)[0],))
    expected = torch.nn.functional.silu(expected)
    found_gradients = torch.autograd.grad(found, fast, gradient)
    expected_gradients = torch.autograd.grad(expected, exact, gradient.double())
    for name, one, other in zip(
        ("result", "sequence", "weight", "bias"), (found, *found_gradients), (expected, *expected_gradients)
    ):
        error = float((one.detach().double() - other.detach()).norm() / other.detach().norm())
        assert error < tolerance, f"length {length}, {kind}: {name} is off by {error:.1e}"
"""


@pytest.mark.parametrize("check", [CHECK, CONVOLUTION], ids=["scan", "convolution"])
def test_the_kernels_equal_the_float64_loop_in_values_and_gradients(check: str) -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONUTF8": "1"}
    ended = subprocess.run([sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
