"""The script that takes the mean of weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from scripts import load_script

from allfocus.errors import InputError
from allfocus.network.checkpoint import load_network, read_tensors, save_network
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig

average_weights: Any = load_script("tools/average_weights.py").average_weights
SMALL = StackNetworkConfig(channels=4, middle_channels=4, token_channels=8, res_blocks=1, mamba_blocks=1, heads=1)


def write_weights(path: Path, value: float, iteration: int, config: StackNetworkConfig = SMALL) -> Path:
    network = StackNetwork(config)
    network.load_state_dict({name: torch.full_like(own, value) for name, own in network.state_dict().items()})
    save_network(path, network, {"iteration": iteration})
    return path


def test_every_weight_lies_between_those_of_both_by_its_share(tmp_path: Path) -> None:
    first = write_weights(tmp_path / "first.safetensors", 1.0, 10)
    second = write_weights(tmp_path / "second.safetensors", 2.0, 20)
    average_weights(first, second, tmp_path / "mean.safetensors", share=0.25)
    network, header = load_network(tmp_path / "mean.safetensors")
    assert {float(value) for own in network.state_dict().values() for value in own.unique()} == {1.25}
    assert header["provenance"] == {"iteration": 20, "mean_of": [10, 20]}


def test_a_mean_of_a_mean_names_all_iterations(tmp_path: Path) -> None:
    first = write_weights(tmp_path / "first.safetensors", 1.0, 10)
    second = write_weights(tmp_path / "second.safetensors", 2.0, 20)
    average_weights(first, second, tmp_path / "mean.safetensors")
    average_weights(tmp_path / "mean.safetensors", second, tmp_path / "again.safetensors")
    assert load_network(tmp_path / "again.safetensors")[1]["provenance"]["mean_of"] == [10, 20, 20]


def test_networks_of_other_sizes_have_no_mean(tmp_path: Path) -> None:
    first = write_weights(tmp_path / "first.safetensors", 1.0, 10)
    larger = StackNetworkConfig(channels=8, middle_channels=4, token_channels=8, res_blocks=1, mamba_blocks=1, heads=1)
    second = write_weights(tmp_path / "second.safetensors", 2.0, 20, larger)
    with pytest.raises(InputError, match="different sizes"):
        average_weights(first, second, tmp_path / "mean.safetensors")
    assert not (tmp_path / "mean.safetensors").exists()


def test_weights_that_exist_are_not_replaced(tmp_path: Path) -> None:
    first = write_weights(tmp_path / "first.safetensors", 1.0, 10)
    before = first.read_bytes()
    with pytest.raises(InputError, match="exists"):
        average_weights(first, first, first)
    assert first.read_bytes() == before


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    first = write_weights(tmp_path / "first.safetensors", 1.0, 10)
    with pytest.raises(InputError, match=r"nowhere: no such folder"):
        average_weights(first, first, tmp_path / "nowhere" / "mean.safetensors")


def test_of_the_state_of_a_run_its_running_average_counts(tmp_path: Path) -> None:
    state = Path(__file__).parents[3] / "checkpoints" / "ips-state.safetensors"
    average_weights(state, state, tmp_path / "mean.safetensors")
    network, header = load_network(tmp_path / "mean.safetensors")
    tensors, said = read_tensors(state)
    assert all(torch.equal(own, tensors[f"average/{name}"]) for name, own in network.state_dict().items())
    assert header["provenance"]["mean_of"] == [said["iteration"]] * 2
