"""Weights on disk: safetensors with the network's configuration and provenance in the header."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from allfocus.errors import InputError
from allfocus.network.paper_network import PaperNetwork, PaperNetworkConfig
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig

Config = StackNetworkConfig | PaperNetworkConfig


def build_network(config: Config) -> nn.Module:
    """Returns the network that `config` describes, with fresh weights."""
    return StackNetwork(config) if isinstance(config, StackNetworkConfig) else PaperNetwork(config)


def save_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Writes tensors and a JSON header; the file appears whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    # clone, because safetensors refuses tensors that share memory
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(plain, str(temporary), metadata={"allfocus": json.dumps(header)})
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the tensors and the header written by :func:`save_tensors`."""
    try:
        with safetensors.safe_open(str(path), framework="pt") as file:
            header = json.loads((file.metadata() or {})["allfocus"])
            return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (safetensors.SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: not a checkpoint of allfocus, or damaged ({error})") from error


def save_network(path: Path, network: nn.Module, provenance: dict[str, Any]) -> None:
    """Writes the weights of `network` with its configuration and `provenance` (recipe, photos, seed, scores ...)."""
    if not isinstance(network, StackNetwork | PaperNetwork):
        raise TypeError(f"can save StackNetwork and PaperNetwork, got {type(network).__name__}")
    kind = "ips" if isinstance(network, StackNetwork) else "ips-paper"
    header = {"kind": kind, "config": dataclasses.asdict(network.config), "provenance": provenance}
    save_tensors(path, dict(network.state_dict()), header)


def load_network(path: Path, *, device: torch.device | str = "cpu") -> tuple[nn.Module, dict[str, Any]]:
    """Returns the network stored in `path`, ready to run, and its header; loading is strict.

    Raises:
        InputError: the file is missing, damaged, or does not fit the network it names.
    """
    tensors, header = read_tensors(path)
    kinds = {"ips": StackNetworkConfig, "ips-paper": PaperNetworkConfig}
    try:
        config: Config = kinds[header["kind"]](**header["config"])
        network = build_network(config)
        network.load_state_dict(tensors, strict=True)
    except (KeyError, TypeError, RuntimeError) as error:
        raise InputError(f"{path}: the weights do not fit the network they name ({error})") from error
    return network.to(device).eval(), header
