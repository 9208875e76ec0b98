"""Weights on disk: safetensors with the network's configuration and provenance in the header.

Weights travel between people, so a file is looked at before it is used: how long its header is, what it asks to be
built, whether every tensor has the type and shape that follow from it, and whether all values are numbers.
"""

import dataclasses
import json
import math
import os
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from allfocus.errors import InputError
from allfocus.files.opening import open_plain, parse_json
from allfocus.network.paper_network import PaperNetwork, PaperNetworkConfig
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig

Config = StackNetworkConfig | PaperNetworkConfig

LARGEST_HEADER = 2**20
"""Bytes of a file's header; those of ours have a twentieth of it."""
LARGEST_FILE = 2**31
"""Bytes of a file; the state of a run with the largest network of ours has a hundredth of it."""
LARGEST_SIZES = {
    "res_blocks": 64,
    "mamba_blocks": 64,
    "heads": 256,
    "state": 256,
    "convolution_width": 31,
    "expansion": 8,
}
"""Of a network that is built, by the field of its configuration."""
LARGEST_CHANNELS = 1024
"""Of every other size."""
_KINDS: dict[str, type[Config]] = {"ips": StackNetworkConfig, "ips-paper": PaperNetworkConfig}
_STATE_PARTS = ("weight", "average", "exp_avg", "exp_avg_sq", "step")
"""What the state of a run holds for each parameter; see `allfocus.training.stepping`."""
_BUFFER_PARTS = ("weight", "average")
"""What it holds for each running mean, which no gradient reaches."""


class _Header(dict[str, Any]):
    """What a file says about itself; asking for what it does not say is an error that names the file."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(content)
        self._path = path

    def __missing__(self, key: str) -> Any:
        raise InputError(f"{self._path}: not a checkpoint of allfocus for this, or damaged (its header has no {key})")


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


def read_tensors(
    path: Path, *, others: Mapping[str, Callable[[], nn.Module]] = types.MappingProxyType({})
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the tensors and the header written by :func:`save_tensors`: float32, and all of them numbers.

    Args:
        path: the file.
        others: what makes each network beside ours whose run's state is taken.

    Raises:
        InputError: the file is missing, damaged, too large, or not one of ours; a run's state contradicts itself.
    """
    try:
        _check_length(path)
        with safetensors.safe_open(str(path), framework="pt") as file:
            content = parse_json((file.metadata() or {})["allfocus"].encode())
            if not isinstance(content, dict):
                raise ValueError("its header is no table")
            kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
            if odd := [name for name, kind in kinds.items() if kind != "F32"]:
                raise ValueError(f"{odd[0]} is of type {kinds[odd[0]]}, not F32")
            tensors = {name: file.get_tensor(name) for name in kinds}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"{path}: not a checkpoint of allfocus, or damaged ({_short(error)})") from error
    if broken := [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]:
        raise InputError(f"{path}: damaged (values of {_short(broken[0])} are not numbers: NaN or infinite)")
    header = _Header(path, content)
    if "recipe" in header:
        _check_state(path, tensors, header, others)
    return tensors, header


def _check_length(path: Path) -> None:
    """Refuses what is no plain file, and lengths that cost memory before anything can be known of the file."""
    with open_plain(path) as file:
        length = os.fstat(file.fileno()).st_size
        header = int.from_bytes(file.read(8), "little")
    if length > LARGEST_FILE:
        raise ValueError(f"it has {length} bytes; at most {LARGEST_FILE} are read")
    if header > min(LARGEST_HEADER, length):
        raise ValueError(f"it announces a header of {header} bytes; at most {LARGEST_HEADER} are read")


def _short(text: object) -> str:
    """What a file says, in a message: as one line, and not all of it."""
    line = " ".join(str(text).split())
    return line if len(line) <= 200 else f"{line[:200]} ..."


def _check_state(
    path: Path,
    tensors: dict[str, Tensor],
    header: dict[str, Any],
    others: Mapping[str, Callable[[], nn.Module]],
) -> None:
    """Refuses the state of a run that contradicts itself: counts, and tensors that are not those of its network."""
    recipe, done, seconds = header["recipe"], header["iteration"], header["seconds"]
    try:
        if not isinstance(recipe, dict) or not all(isinstance(part, dict) for part in _sections(recipe)):
            raise ValueError("its recipe is none")
        planned = recipe["optimizer"]["iterations"]
        if type(done) is not int or type(planned) is not int or not 0 <= done <= planned:
            raise ValueError(f"iteration {done!r} of {planned!r}")
        if type(seconds) not in (int, float) or not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"{seconds!r} seconds")
        kind = recipe["network"]
        if isinstance(kind, str) and kind in others:
            network = others[kind]()
        else:
            config = make_config(kind, recipe["stack_network" if kind == "ips" else "paper_network"])
            network = _build_affordable(config, sum(tensor.numel() for tensor in tensors.values()))
        _require_shapes(tensors, _state_shapes(network))
        for name, tensor in tensors.items():
            if name.startswith(("step/", "exp_avg_sq/")) and bool((tensor < 0).any()):
                raise ValueError(f"{name} is negative")
    except (KeyError, ValueError) as error:
        raise InputError(f"{path}: the state of this run contradicts itself ({_short(error)})") from error


def _state_shapes(network: nn.Module) -> dict[str, torch.Size]:
    """Returns the shapes of all tensors of a run's state, by name."""
    shapes = {
        f"{part}/{name}": torch.Size() if part == "step" else parameter.shape
        for name, parameter in network.named_parameters()
        for part in _STATE_PARTS
    }
    for name, buffer in network.named_buffers():
        if buffer.is_floating_point():  # the others only count
            shapes |= {f"{part}/{name}": buffer.shape for part in _BUFFER_PARTS}
    return shapes


def _sections(recipe: dict[str, Any]) -> list[Any]:
    return [recipe.get(name) for name in ("optimizer", "stack_network", "paper_network")]


def make_config(kind: object, sizes: dict[str, Any]) -> Config:
    """Returns the configuration of a network, whose sizes are ones that can be built.

    Args:
        kind: ``ips`` or ``ips-paper``.
        sizes: its fields by name.

    Raises:
        ValueError: there is no such kind or field, or a value is of another type or beyond all reason.

    Example:
        >>> make_config("ips", {"channels": 8, "heads": 2}).heads
        2
    """
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"unknown kind {kind!r}")
    if not isinstance(sizes, dict):
        raise ValueError("its sizes are no table")
    hints = typing.get_type_hints(_KINDS[kind])
    for name, value in sizes.items():
        if name not in hints:
            raise ValueError(f"unknown size {name!r}")
        if (wrong := _wrong_size(name, value, hints[name])) is not None:
            raise ValueError(wrong)
    config = _KINDS[kind](**sizes)
    if not config.res_blocks and not config.mamba_blocks:
        raise ValueError("neither res_blocks nor mamba_blocks")
    if isinstance(config, StackNetworkConfig) and config.token_channels % config.heads:
        raise ValueError(f"token_channels = {config.token_channels} is no multiple of heads = {config.heads}")
    return config


def _wrong_size(name: str, value: object, hint: Any) -> str | None:
    """Returns what is wrong with a field of a configuration; None when nothing is."""
    if typing.get_origin(hint) is Literal:
        return None if value in typing.get_args(hint) else f"{name} = {value!r}"
    if type(value) is not hint:
        return f"{name} = {value!r}"
    smallest = 0 if name in ("res_blocks", "mamba_blocks") else 1
    largest = LARGEST_SIZES.get(name, LARGEST_CHANNELS)
    if type(value) is int and not smallest <= value <= largest:
        return f"{name} = {value if abs(value) < 10**20 else 'a huge number'}; it must be from {smallest} to {largest}"
    return None


def _build_affordable(config: Config, values: int) -> nn.Module:
    """Returns the network, unless it is far larger than the `values` that are there for it.

    Sizes that are allowed one by one would take gigabytes together, which nobody shall spend on a file of kilobytes.
    """
    sizes = [size for size in dataclasses.asdict(config).values() if type(size) is int]
    widest = 2 * max(sizes)
    # More than any block has; the networks that are shipped have a fifth to a thirtieth of it.
    guess = 20 * widest**2 * (config.res_blocks + config.mamba_blocks + 4)
    if guess > 100 * values + 10**7:
        raise ValueError(f"{values} values are too few for sizes up to {max(sizes)}")
    return build_network(config)


def _require_shapes(tensors: dict[str, Tensor], wanted: dict[str, torch.Size]) -> None:
    if strangers := sorted(tensors.keys() - wanted.keys()):
        raise ValueError(f"{len(strangers)} tensors that it does not have, the first is {strangers[0]}")
    if missing := sorted(wanted.keys() - tensors.keys()):
        raise ValueError(f"{len(missing)} tensors are missing, the first is {missing[0]}")
    for name, shape in wanted.items():
        if tensors[name].shape != shape:
            raise ValueError(f"{name} has the shape {list(tensors[name].shape)}, not {list(shape)}")


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
    try:
        config = make_config(header["kind"], header["config"])
        network = _build_affordable(config, sum(tensor.numel() for tensor in tensors.values()))
        _require_shapes(tensors, {name: tensor.shape for name, tensor in network.state_dict().items()})
    except ValueError as error:
        raise InputError(f"{path}: the weights do not fit the network they name ({_short(error)})") from error
    network.load_state_dict(tensors, strict=True)
    return network.to(device).eval(), header
