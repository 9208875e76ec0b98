"""Every form of the selective scan gives the values and gradients of the plain loop in float64."""

import math

import pytest
import torch
from torch import Tensor

from allfocus.network.selective_scan import discretise, selective_scan, selective_scan_heads

LENGTHS = (1, 2, 5, 16, 17, 50)


def scan_inputs(length: int, *, channels: int = 3, state: int = 4) -> list[Tensor]:
    """Random x, Δ, A, B, C, D in float64; some steps tiny, some long, so that both ends of the decay are met."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    step = torch.rand(2, length, channels, generator=generator, dtype=torch.float64) ** 3 * 3 + 1e-4
    decay = -torch.rand(channels, state, generator=generator, dtype=torch.float64) * 4 - 0.01
    return [
        normal(2, length, channels),
        step,
        decay,
        normal(2, length, state),
        normal(2, length, state),
        normal(channels),
    ]


def values_and_gradients(scan, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    y = scan(*leaves)
    # Unequal weights, so that a gradient which lands on the wrong token is seen.
    weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape).cos()
    return [y.detach(), *torch.autograd.grad((y * weight).sum(), leaves)]


def assert_equal(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for name, one, other in zip(("y", "x", "Δ", "A", "B", "C", "D"), found, expected, strict=True):
        difference = (one.double() - other).norm() / other.norm().clamp(min=1e-9)
        assert difference < tolerance, f"{name}: relative difference {difference:.1e}"


@pytest.mark.parametrize("length", LENGTHS)
def test_the_chunked_form_equals_the_loop_in_values_and_gradients(length):
    inputs = scan_inputs(length)
    expected = values_and_gradients(lambda *tensors: selective_scan(*tensors, form="reference"), inputs)
    exact = values_and_gradients(lambda *tensors: selective_scan(*tensors, form="chunked"), inputs)
    assert_equal(exact, expected, 1e-12)
    single = [tensor.float() for tensor in inputs]
    assert_equal(
        values_and_gradients(lambda *tensors: selective_scan(*tensors, form="chunked"), single), expected, 1e-5
    )


@pytest.mark.parametrize("length", LENGTHS)
def test_auto_is_the_chunked_form_on_a_cpu(length):
    inputs = scan_inputs(length)
    assert torch.equal(selective_scan(*inputs), selective_scan(*inputs, form="chunked"))


def heads_inputs(length: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(100 + length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    step = torch.rand(2, length, 3, generator=generator, dtype=torch.float64) ** 3 * 3 + 1e-4
    decay = torch.tensor([-0.02, -0.5, -3.0], dtype=torch.float64)
    return [normal(2, length, 3, 2), step, decay, normal(2, length, 4), normal(2, length, 4), normal(3, 2)]


def loop_over_heads(x: Tensor, step: Tensor, decay: Tensor, enter: Tensor, leave: Tensor, skip: Tensor) -> Tensor:
    """The plain loop with step and decay of each head repeated for its channels and states."""
    width, state = x.shape[3], enter.shape[2]
    y = selective_scan(
        x.flatten(2),
        step.repeat_interleave(width, dim=2),
        decay.repeat_interleave(width)[:, None].expand(-1, state),
        enter,
        leave,
        skip.flatten(),
        form="reference",
    )
    return y.reshape(x.shape)


@pytest.mark.parametrize("chunk", [4, 16])
@pytest.mark.parametrize("length", LENGTHS)
def test_the_form_with_heads_equals_the_loop_in_values_and_gradients(length, chunk):
    inputs = heads_inputs(length)
    expected = values_and_gradients(loop_over_heads, inputs)

    def scan(*tensors: Tensor) -> Tensor:
        return selective_scan_heads(*tensors, chunk=chunk)

    assert_equal(values_and_gradients(scan, inputs), expected, 1e-11)
    assert_equal(values_and_gradients(scan, [tensor.float() for tensor in inputs]), expected, 1e-5)


def test_zero_order_hold_by_hand():
    """With A = -2 and Δ = 0.5 the state halves to 1/e and a token enters with (1 - 1/e) / 2."""
    decay, gain = discretise(torch.tensor(0.5, dtype=torch.float64), torch.tensor(-2.0, dtype=torch.float64))
    assert float(decay) == pytest.approx(math.exp(-1), abs=1e-15)
    assert float(gain) == pytest.approx((1 - math.exp(-1)) / 2, abs=1e-15)


@pytest.mark.parametrize("form", ["reference", "chunked"])
def test_two_tokens_by_hand(form):
    """x = 3, 5; Δ = 0.5, 1; A = -2; B = 1, 2; C = 1, -1; D = 10."""
    sequence = [torch.tensor(values, dtype=torch.float64).reshape(1, 2, 1) for values in ([3, 5], [0.5, 1], [1, 2])]
    x, step, enter = sequence
    leave = torch.tensor([1.0, -1.0], dtype=torch.float64).reshape(1, 2, 1)
    y = selective_scan(x, step, torch.tensor([[-2.0]]).double(), enter, leave, torch.tensor([10.0]).double(), form=form)
    first = (1 - math.exp(-1)) / 2 * 1 * 3
    second = math.exp(-2) * first + (1 - math.exp(-2)) / 2 * 2 * 5
    assert y.flatten().tolist() == pytest.approx([first + 30, -second + 50], abs=1e-12)


def test_the_gain_is_exact_where_the_step_is_tiny():
    """(exp(v) - 1) / A computed as written would lose half of the digits here."""
    _, gain = discretise(torch.tensor(1e-6), torch.tensor(-1.0))
    assert float(gain) == pytest.approx(1e-6 - 0.5e-12, rel=1e-6)


@pytest.mark.parametrize("form", ["reference", "chunked", "heads"])
@pytest.mark.parametrize("changed", [0, 7, 12])
def test_no_output_depends_on_later_tokens(form, changed):
    inputs = heads_inputs(13) if form == "heads" else scan_inputs(13)

    def scan(tensors: list[Tensor]) -> Tensor:
        return selective_scan_heads(*tensors, chunk=4) if form == "heads" else selective_scan(*tensors, form=form)

    before = scan(inputs)
    later = [tensor.clone() for tensor in inputs]
    for index in (0, 1, 3, 4):
        later[index][:, changed:] += 0.7
    after = scan(later)
    # The forms add in another order, so equal means equal up to rounding.
    torch.testing.assert_close(after[:, :changed], before[:, :changed], rtol=0, atol=1e-12)
    assert (after[:, changed] - before[:, changed]).abs().min() > 1e-6


def test_long_sequences_with_long_steps_neither_overflow_nor_vanish():
    """The masked half of the kernel holds exp of large positive numbers, were it not clipped."""
    inputs = [tensor.float() for tensor in heads_inputs(50)]
    inputs[1] = inputs[1] + 200
    leaves = [tensor.requires_grad_() for tensor in inputs]
    y = selective_scan_heads(*leaves, chunk=16)
    gradients = torch.autograd.grad(y.sum(), leaves)
    assert all(bool(tensor.isfinite().all()) for tensor in (y, *gradients))


def test_an_unknown_form_is_refused():
    with pytest.raises(ValueError, match="reference, chunked, triton"):
        selective_scan(*scan_inputs(2), form="fast")
