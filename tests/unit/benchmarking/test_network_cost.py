"""Operations of the network: the check on speed that no busy machine can disturb."""

import pytest

from allfocus.benchmarking import network_cost
from allfocus.benchmarking.network_cost import LARGEST_COST, count_operations
from allfocus.errors import InputError


def test_the_shipped_network_costs_at_most_what_is_allowed():
    assert count_operations(sources=4).per_pixel_and_source <= LARGEST_COST


def test_cost_is_linear_in_pixels_and_in_sources():
    small = count_operations(sources=2, height=96, width=96, levels=2).per_pixel_and_source
    wide = count_operations(sources=2, height=96, width=384, levels=2).per_pixel_and_source
    deep = count_operations(sources=6, height=96, width=96, levels=2).per_pixel_and_source
    assert wide == pytest.approx(small, rel=0.05)
    assert deep == pytest.approx(small, rel=0.15)


def test_the_cost_of_a_picture_is_that_of_all_its_levels():
    """The finest, a quarter of it, a sixteenth ...; the last sees the picture whole."""
    options = {"sources": 2, "width": 128}
    one = count_operations(height=128, levels=1, **options).total
    two = count_operations(height=128, levels=2, **options).total
    three = count_operations(height=128, levels=3, **options).total
    finest = two - count_operations(sources=2, height=64, width=64, levels=1).total
    assert three - finest == count_operations(sources=2, height=64, width=64, levels=2).total
    # The Mamba blocks are at the coarsest level only; context as a whole costs a third of the finest level.
    assert finest < one
    assert three == pytest.approx(finest * (1 + 1 / 4 + 1 / 16), rel=0.05)


@pytest.mark.parametrize(("height", "levels"), [(100, 1), (72, 2), (64, 0), (96, 4)])
def test_a_size_that_does_not_fit_the_levels_is_refused(height, levels):
    with pytest.raises(InputError, match=f"64x{height} at {levels} levels"):
        count_operations(sources=2, height=height, width=64, levels=levels)


@pytest.mark.parametrize(
    ("operator", "inputs", "outputs", "expected"),
    [
        # 8 x 8 outputs of 4 channels, each of 3 x 3 x 2 products and as many sums, and a bias.
        ("Conv", [[1, 2, 8, 8], [4, 2, 3, 3], [4]], [[1, 4, 8, 8]], 256 * 37),
        ("Conv", [[1, 2, 8, 8], [4, 2, 3, 3]], [[1, 4, 8, 8]], 256 * 36),
        # Depth-wise: every channel has weights for itself alone.
        ("Conv", [[1, 4, 8, 8], [4, 1, 3, 3]], [[1, 4, 8, 8]], 256 * 18),
        ("MatMul", [[5, 7], [7, 3]], [[5, 3]], 2 * 5 * 7 * 3),
        ("Add", [[5, 7], [7]], [[5, 7]], 35),
        ("ReduceMean", [[5, 7]], [[5]], 35),
        # Windows of 4 x 4 pixels, each looked at once.
        ("AveragePool", [[2, 8, 8]], [[2, 2, 2]], 128),
        ("MaxPool", [[2, 8, 8]], [[2, 2, 2]], 128),
        ("Transpose", [[5, 7]], [[7, 5]], 0),
    ],
)
def test_operators_are_counted_from_their_shapes(operator, inputs, outputs, expected):
    assert network_cost._COUNTS[operator](inputs, outputs) == expected


def test_the_count_agrees_with_torch():
    """The same convolutions and products as torch's own counter finds in the network that was exported."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    from allfocus.fusion.inference import weights_folder
    from allfocus.network.checkpoint import load_network

    network, _ = load_network(weights_folder() / "ips.safetensors", device="cpu")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for _ in network.levels(torch.zeros(1, 2, 3, 128, 128), 3):
            pass
    cost = count_operations(sources=2, height=128, width=128, levels=3)
    products = cost.by_operator["Conv"] + cost.by_operator["MatMul"]
    assert products == pytest.approx(counter.get_total_flops(), rel=0.1)


def test_an_unknown_operator_stops_the_count(monkeypatch):
    monkeypatch.delitem(network_cost._COUNTS, "Conv")
    with pytest.raises(InputError, match="the operator Conv is not known"):
        count_operations(sources=2, height=64, width=64, levels=1)
