"""What is saved loads back, strictly; anything else is an error that names the file."""

import dataclasses
import json
import os

import pytest
import safetensors.torch
import torch

from allfocus.errors import InputError
from allfocus.network import checkpoint
from allfocus.network.checkpoint import build_network, load_network, read_tensors, save_network, save_tensors
from allfocus.network.paper_network import PaperNetwork, PaperNetworkConfig
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig

CONFIGS = [
    StackNetworkConfig(channels=8, middle_channels=8, token_channels=8, heads=2, state=4, mamba_blocks=1),
    PaperNetworkConfig(source_channels=4, mamba_blocks=1, state=4, head="selection"),
]


@pytest.mark.parametrize(("config", "kind"), [(CONFIGS[0], StackNetwork), (CONFIGS[1], PaperNetwork)])
def test_a_saved_network_loads_back_to_the_last_bit(tmp_path, config, kind):
    network = build_network(config)
    save_network(tmp_path / "weights.safetensors", network, {"seed": 3})
    loaded, header = load_network(tmp_path / "weights.safetensors")
    assert isinstance(loaded, kind)
    assert loaded.config == config
    assert not loaded.training
    assert header["provenance"] == {"seed": 3}
    for name, tensor in network.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


@pytest.mark.parametrize("damage", ["missing", "extra", "shape", "kind", "key"])
def test_weights_that_do_not_fit_are_refused(tmp_path, damage):
    network = build_network(CONFIGS[1])
    tensors = dict(network.state_dict())
    header = {"kind": "ips-paper", "config": dataclasses.asdict(CONFIGS[1]), "provenance": {}}
    first = next(iter(tensors))
    if damage == "missing":
        del tensors[first]
    elif damage == "extra":
        tensors["more"] = torch.zeros(1)
    elif damage == "shape":
        tensors[first] = tensors[first][:2]
    elif damage == "kind":
        header["kind"] = "ips-two"
    else:
        header["config"]["colour"] = 1
    path = tmp_path / "weights.safetensors"
    save_tensors(path, tensors, header)
    with pytest.raises(InputError, match=r"weights\.safetensors: the weights do not fit"):
        load_network(path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    text, bare = tmp_path / "text.safetensors", tmp_path / "bare.safetensors"
    text.write_text("not a checkpoint")
    safetensors.torch.save_file({"a": torch.zeros(1)}, str(bare))
    for path in (text, bare):
        with pytest.raises(InputError, match=f"{path.name}: not a checkpoint of allfocus"):
            read_tensors(path)


@pytest.mark.parametrize("name", ["nowhere.safetensors", ""])
def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path, name):
    with pytest.raises(InputError, match=str(tmp_path / name)):
        load_network(tmp_path / name)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_network(path, build_network(CONFIGS[0]), {})
    os.truncate(path, path.stat().st_size - 100)
    with pytest.raises(InputError, match="damaged"):
        load_network(path)


def test_a_failed_save_keeps_the_old_file_and_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "weights.safetensors"
    save_tensors(path, {"a": torch.ones(2)}, {"number": 1})

    def fail(tensors, name, metadata):
        with open(name, "w") as file:
            file.write("half")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint.safetensors.torch, "save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        save_tensors(path, {"a": torch.zeros(2)}, {"number": 2})
    assert [file.name for file in tmp_path.iterdir()] == ["weights.safetensors"]
    assert read_tensors(path)[1] == {"number": 1}


def test_tensors_that_share_memory_can_be_saved(tmp_path):
    whole = torch.arange(6.0)
    save_tensors(tmp_path / "a", {"whole": whole, "part": whole[::2]}, {})
    assert read_tensors(tmp_path / "a")[0]["part"].tolist() == [0, 2, 4]


def test_the_header_is_json_that_other_tools_can_read(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_network(path, build_network(CONFIGS[0]), {"photos": 5})
    with safetensors.safe_open(str(path), framework="numpy") as file:
        header = json.loads(file.metadata()["allfocus"])
    assert header["kind"] == "ips"
    assert header["config"]["channels"] == 8


def test_only_our_networks_can_be_saved(tmp_path):
    with pytest.raises(TypeError, match="Linear"):
        save_network(tmp_path / "a", torch.nn.Linear(1, 1), {})
