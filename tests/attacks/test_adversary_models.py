"""A second adversary on models: weights, states of runs, recipes and networks that somebody else has made."""

import base64
import contextlib
import dataclasses
import io
import itertools
import json
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from folder_contents import contents

import allfocus
from allfocus.cli.main import run
from allfocus.errors import InputError, OutputError
from allfocus.fusion.network_checks import LARGEST_NETWORK, MOST_NODES, read_network

torch = pytest.importorskip("torch", reason="weights and recipes need the extra: pip install 'allfocus[train]'")
pytest.importorskip("safetensors")

from allfocus.network import checkpoint  # noqa: E402
from allfocus.network.checkpoint import build_network, load_network, read_tensors, save_network  # noqa: E402
from allfocus.network.stack_network import StackNetworkConfig  # noqa: E402
from allfocus.training import recipe_tables  # noqa: E402
from allfocus.training.recipe import Recipe, read_recipe, recipe_from_dictionary  # noqa: E402

SIZES = StackNetworkConfig(channels=8, middle_channels=8, token_channels=8, heads=2, state=4, mamba_blocks=1)
LONGEST_MESSAGE = 1000


def assert_one_line(error: BaseException, path: Path) -> None:
    """The message names the file, in a line that can be read."""
    text = str(error)
    assert str(path) in text
    assert len(text) < LONGEST_MESSAGE
    assert "\n" not in text


# --- safetensors ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> bytes:
    """A file of weights that is as it should be."""
    path = tmp_path_factory.mktemp("weights") / "sound.safetensors"
    save_network(path, build_network(SIZES), {"seed": 1})
    return path.read_bytes()


def take_apart(data: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def put_together(header: object, values: bytes, *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + values


def change_tensor(data: bytes, **changes: object) -> bytes:
    """The file with another entry for its first tensor."""
    header, values = take_apart(data)
    first = next(name for name in header if name != "__metadata__")
    header[first] |= changes
    return put_together(header, values)


def change_values(data: bytes, value: float) -> bytes:
    header, values = take_apart(data)
    return put_together(header, values[:-4] + struct.pack("<f", value))


def change_type(data: bytes, kind: str, width: int) -> bytes:
    """The file with its first tensor of another type, everything else in its place."""
    header, values = take_apart(data)
    names = sorted((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"])
    begin, end = header[names[0]]["data_offsets"]
    longer = (end - begin) // 4 * width - (end - begin)
    for name in names:
        header[name]["data_offsets"] = [place + longer for place in header[name]["data_offsets"]]
    header[names[0]] |= {"dtype": kind, "data_offsets": [0, end + longer]}
    return put_together(header, bytes(end + longer) + values[end:])


def say(data: bytes, text: str) -> bytes:
    """The file with another text about itself."""
    header, values = take_apart(data)
    header["__metadata__"] = {"allfocus": text}
    return put_together(header, values)


def configure(data: bytes, **sizes: object) -> bytes:
    header, _ = take_apart(data)
    content = json.loads(header["__metadata__"]["allfocus"])
    content["config"] |= sizes
    return say(data, json.dumps(content))


def name_kind(data: bytes, **content: object) -> bytes:
    header, _ = take_apart(data)
    return say(data, json.dumps(json.loads(header["__metadata__"]["allfocus"]) | content))


def rename(data: bytes, name: str) -> bytes:
    header, values = take_apart(data)
    first = next(other for other in header if other != "__metadata__")
    header[name] = header.pop(first)
    return put_together(header, values)


def add(data: bytes, count: int) -> bytes:
    header, values = take_apart(data)
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [len(values), len(values)]}
    return put_together(header | {f"more.{number}": empty for number in range(count)}, values)


def overlap(data: bytes) -> bytes:
    """The file with two tensors that share their values."""
    header, values = take_apart(data)
    alike: dict[str, str] = {}
    for name, entry in header.items():
        if name != "__metadata__" and (other := alike.setdefault(str(entry["shape"]), name)) != name:
            entry["data_offsets"] = header[other]["data_offsets"]
            return put_together(header, values)
    raise AssertionError("no two tensors are alike")


def describe(data: bytes, content: object) -> bytes:
    header, values = take_apart(data)
    return put_together(header | {"__metadata__": content}, values)


FILES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "seven bytes": lambda data: data[:7],
    "eight bytes": lambda data: data[:8],
    "zeros": lambda data: bytes(1000),
    "a header of no bytes": lambda data: put_together(b"", b""),
    "a header longer than the file": lambda data: put_together(*take_apart(data), length=len(data)),
    "a header of a terabyte": lambda data: put_together(*take_apart(data), length=2**40),
    "a header of 2^63 bytes": lambda data: put_together(*take_apart(data), length=2**63),
    "a header of 2^64 - 1 bytes": lambda data: put_together(*take_apart(data), length=2**64 - 1),
    "a header a byte too short": lambda data: put_together(b"{" + b" " * 20 + b"}", b"", length=21),
    "a header of two megabytes of spaces": lambda data: put_together(b"{" + b" " * 2**21 + b"}", b""),
    "a header with 9,000 tensors of nothing": lambda data: add(data, 9000),
    "a header that is no JSON": lambda data: put_together(b"{'a': 1}", b""),
    "a header that is a list": lambda data: put_together([], b""),
    "a header that is nothing": lambda data: put_together(None, b""),
    "a header that is no text": lambda data: put_together(b"\xff\xfe{}", b""),
    "a header nested 50,000 deep": lambda data: put_together(b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b""),
    "lists nested 50,000 deep": lambda data: put_together(b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}", b""),
    "cut in the middle": lambda data: data[: len(data) // 2],
    "cut in the header": lambda data: data[:100],
    "a byte short": lambda data: data[:-1],
    "a byte long": lambda data: data + b"\0",
    "overlapping tensors": overlap,
    "offsets the other way round": lambda data: change_tensor(data, data_offsets=[8, 0]),
    "offsets beyond the end": lambda data: change_tensor(data, data_offsets=[0, 2**60]),
    "offsets below zero": lambda data: change_tensor(data, data_offsets=[-8, 0]),
    "offsets that are fractions": lambda data: change_tensor(data, data_offsets=[0.5, 8.5]),
    "offsets that are words": lambda data: change_tensor(data, data_offsets=["0", "8"]),
    "one offset": lambda data: change_tensor(data, data_offsets=[0]),
    "a shape that is too large": lambda data: change_tensor(data, shape=[2**20, 2**20]),
    "a shape that overflows": lambda data: change_tensor(data, shape=[2**33, 2**33]),
    "a shape below zero": lambda data: change_tensor(data, shape=[-1]),
    "a shape without an end": lambda data: change_tensor(data, shape=[1] * 10_000),
    "another shape of as many values": lambda data: change_tensor(data, shape=[1, 1, 8]),
    "an unknown type": lambda data: change_tensor(data, dtype="F99"),
    "whole numbers": lambda data: change_tensor(data, dtype="I32"),
    "double precision": lambda data: change_type(data, "F64", 8),
    "half precision": lambda data: change_type(data, "F16", 2),
    "brain floats": lambda data: change_type(data, "BF16", 2),
    "eight bits": lambda data: change_type(data, "F8_E4M3", 1),
    "yes and no": lambda data: change_type(data, "BOOL", 1),
    "long numbers": lambda data: change_type(data, "I64", 8),
    "not a number": lambda data: change_values(data, math.nan),
    "infinite": lambda data: change_values(data, math.inf),
    "minus infinite": lambda data: change_values(data, -math.inf),
    "one more tensor": lambda data: add(data, 1),
    "another name": lambda data: rename(data, "more"),
    "no name": lambda data: rename(data, ""),
    "a long name": lambda data: rename(data, "n" * 50_000),
    "a name with escapes": lambda data: rename(data, "\x1b[31m\n\r\u202e"),
    "a name of a part of the network": lambda data: rename(data, "forward"),
    "a name with dots": lambda data: rename(data, "../../../etc/passwd"),
    "no word about itself": lambda data: describe(data, {}),
    "words of another program": lambda data: describe(data, {"a": "b"}),
    "words that are numbers": lambda data: describe(data, {"allfocus": 3}),
    "words that are a list": lambda data: describe(data, []),
    "says nothing": lambda data: say(data, ""),
    "says null": lambda data: say(data, "null"),
    "says a list": lambda data: say(data, "[]"),
    "says a number": lambda data: say(data, "3"),
    "says an empty table": lambda data: say(data, "{}"),
    "says something 50,000 deep": lambda data: say(data, "[" * 50_000),
    "says half of something": lambda data: say(data, '{"kind": "ips"'),
    "says a number of 5,000 digits": lambda data: say(data, '{"kind": ' + "9" * 5000 + "}"),
    "a kind that is a list": lambda data: name_kind(data, kind=["ips"]),
    "no kind": lambda data: name_kind(data, kind=None),
    "an unknown kind": lambda data: name_kind(data, kind="ips" * 10_000),
    "the other kind": lambda data: name_kind(data, kind="ips-paper"),
    "sizes that are a list": lambda data: name_kind(data, config=[8]),
    "sizes that are nothing": lambda data: name_kind(data, config=None),
    "no sizes": lambda data: name_kind(data, config={}),
    "an unknown size": lambda data: configure(data, evil=1),
    "a size with a name of Python": lambda data: configure(data, __class__=1),
    "no channels": lambda data: configure(data, channels=0),
    "fewer than no channels": lambda data: configure(data, channels=-8),
    "a billion channels": lambda data: configure(data, channels=10**9),
    "10^400 channels": lambda data: configure(data, channels=10**400),
    "channels that are a fraction": lambda data: configure(data, channels=8.0),
    "channels that are a word": lambda data: configure(data, channels="8"),
    "channels that are yes": lambda data: configure(data, channels=True),
    "channels that are nothing": lambda data: configure(data, channels=None),
    "channels that are not a number": lambda data: configure(data, channels=math.nan),
    "as many channels as are allowed": lambda data: configure(data, channels=1024, token_channels=1024),
    "no heads": lambda data: configure(data, heads=0),
    "heads that do not divide": lambda data: configure(data, heads=3),
    "a billion blocks": lambda data: configure(data, mamba_blocks=10**9),
    "10^18 other blocks": lambda data: configure(data, res_blocks=10**18),
    "fewer than no blocks": lambda data: configure(data, mamba_blocks=-1, res_blocks=-1),
    "no blocks at all": lambda data: configure(data, mamba_blocks=0, res_blocks=0),
    "no state": lambda data: configure(data, state=0),
    "a convolution of nothing": lambda data: configure(data, convolution_width=0),
    "a convolution of a billion": lambda data: configure(data, convolution_width=10**9),
}  # fmt: skip


def test_the_sound_file_is_one(sound, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(put_together(*take_apart(sound)))
    assert load_network(path)[0].config == SIZES


@pytest.mark.parametrize("kind", FILES)
def test_what_are_no_weights_is_one_sentence(sound, tmp_path, kind):
    path = tmp_path / "w.safetensors"
    path.write_bytes(FILES[kind](sound))
    with pytest.raises(InputError) as told:
        load_network(path)
    assert_one_line(told.value, path)


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "a loop", "nothing", "no name"])
def test_what_is_no_file_of_weights_does_not_hold_the_program_up(tmp_path, kind):
    path = tmp_path / "w.safetensors"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path = Path("/dev/zero")
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a loop":
        path.symlink_to(path)
    elif kind == "no name":
        path = tmp_path / "w\0.safetensors"
    with pytest.raises(InputError):
        load_network(path)


def test_a_file_of_terabytes_is_not_read(sound, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes(sound)
    os.truncate(path, 2**40)
    with pytest.raises(InputError, match="at most 2147483648 are read"):
        load_network(path)


def test_no_large_network_is_built_for_a_small_file(sound, tmp_path, monkeypatch):
    path = tmp_path / "w.safetensors"
    path.write_bytes(FILES["as many channels as are allowed"](sound))
    monkeypatch.setattr(checkpoint, "build_network", lambda config: pytest.fail("it is built"))
    with pytest.raises(InputError, match="too few for sizes up to 1024"):
        load_network(path)


@pytest.mark.parametrize(
    "sizes",
    [StackNetworkConfig(), checkpoint.PaperNetworkConfig(), StackNetworkConfig(channels=64, token_channels=256)],
)
def test_every_network_that_fits_its_file_is_built(tmp_path, sizes):
    save_network(tmp_path / "w.safetensors", build_network(sizes), {})
    assert load_network(tmp_path / "w.safetensors")[0].config == sizes


# --- the state of a run -----------------------------------------------------------------------------------------------


def write_state(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None] | None = None) -> None:
    """The state of a run before its first step; `change` may tamper with tensors and header."""
    network = build_network(SIZES)
    tensors: dict[str, Any] = {}
    for name, parameter in network.named_parameters():
        tensors |= {f"{part}/{name}": parameter.detach() for part in ("weight", "average")}
        tensors |= {f"{part}/{name}": torch.zeros_like(parameter) for part in ("exp_avg", "exp_avg_sq")}
        tensors[f"step/{name}"] = torch.zeros(())
    described = json.loads(json.dumps(dataclasses.asdict(Recipe(stack_network=SIZES))))
    header: dict[str, Any] = {"iteration": 3, "seconds": 1.5, "recipe": described}
    if change is not None:
        change(tensors, header)
    checkpoint.save_tensors(path, tensors, header)


def first_of(tensors: dict[str, Any], part: str) -> str:
    large = (name for name in tensors if part == "step" or tensors[name].numel() > 4)
    return next(name for name in large if name.startswith(f"{part}/"))


def replace(part: str, value: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Puts another tensor in place of the first of a part."""

    def change(tensors: dict[str, Any], header: dict[str, Any]) -> None:
        name = first_of(tensors, part)
        tensors[name] = value(tensors[name])

    return change


def tell(**content: object) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda tensors, header: header.update(content)


def tell_recipe(section: str, value: object) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda tensors, header: header["recipe"].update({section: value})


STATES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "no iteration": lambda tensors, header: header.pop("iteration"),
    "no seconds": lambda tensors, header: header.pop("seconds"),
    "an iteration below zero": tell(iteration=-1),
    "an iteration beyond the last": tell(iteration=10**9),
    "an iteration that is a fraction": tell(iteration=1.5),
    "an iteration that is a word": tell(iteration="3"),
    "an iteration that is yes": tell(iteration=True),
    "an iteration that is nothing": tell(iteration=None),
    "an iteration of 4,000 digits": tell(iteration=10**4000),
    "seconds that are no number": tell(seconds=math.nan),
    "infinite seconds": tell(seconds=math.inf),
    "seconds below zero": tell(seconds=-1),
    "seconds that are a word": tell(seconds="long"),
    "seconds that are a list": tell(seconds=[1]),
    "a recipe that is a list": tell(recipe=[]),
    "a recipe that is nothing": tell(recipe=None),
    "an empty recipe": tell(recipe={}),
    "another network": tell_recipe("network", "ips-paper"),
    "an unknown network": tell_recipe("network", "evil"),
    "sizes that are a word": tell_recipe("stack_network", "large"),
    "other sizes": tell_recipe("stack_network", {"channels": 16}),
    "sizes beyond all reason": tell_recipe("stack_network", {"mamba_blocks": 10**9}),
    "no optimizer": tell_recipe("optimizer", None),
    "an optimizer without an end": tell_recipe("optimizer", {"iterations": "for ever"}),
    "a weight that is missing": lambda tensors, header: tensors.pop(first_of(tensors, "weight")),
    "a mean that is missing": lambda tensors, header: tensors.pop(first_of(tensors, "exp_avg")),
    "one tensor more": lambda tensors, header: tensors.update({"weight/evil": torch.zeros(3)}),
    "a weight that would be spread": replace("weight", lambda tensor: torch.ones(1)),
    "an average of another shape": replace("average", lambda tensor: torch.ones(2, 3)),
    "a step with a shape": replace("step", lambda tensor: torch.ones(2)),
    "a step below zero": replace("step", lambda tensor: torch.tensor(-5.0)),
    "a square below zero": replace("exp_avg_sq", lambda tensor: tensor - 1),
    "a weight that is no number": replace("weight", lambda tensor: tensor * math.nan),
    "weights of double precision": replace("weight", lambda tensor: tensor.double()),
}  # fmt: skip


def test_the_sound_state_is_one(tmp_path):
    write_state(tmp_path / "state.safetensors")
    assert read_tensors(tmp_path / "state.safetensors")[1]["iteration"] == 3


@pytest.mark.parametrize("kind", STATES)
def test_a_state_that_was_tampered_with_is_one_sentence(tmp_path, kind):
    path = tmp_path / "state.safetensors"
    write_state(path, STATES[kind])
    with pytest.raises(InputError) as told:
        read_tensors(path)
    assert_one_line(told.value, path)


def test_weights_are_no_state(sound, tmp_path):
    (tmp_path / "w.safetensors").write_bytes(sound)
    _, header = read_tensors(tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=r"w\.safetensors: .*its header has no recipe"):
        header["recipe"]


@pytest.mark.parametrize("table", [None, [], "ips", 3])
def test_what_is_no_table_is_no_stored_recipe(table):
    with pytest.raises(InputError, match="stored recipe"):
        recipe_from_dictionary(table)


# --- recipes ----------------------------------------------------------------------------------------------------------

RECIPES = {
    "lists nested deeply": "seed = " + "[" * 9000,
    "tables nested deeply": "seed = " + "{a=" * 6000,
    "a key of 6,000 parts": ".".join(["a"] * 6000) + " = 1",
    "a table of 6,000 parts": f"[{'.'.join(['a'] * 6000)}]",
    "a key of 15,000 letters": "e" * 15_000 + " = 1",
    "a word of 15,000 letters": f'network = "{"e" * 15_000}"',
    "a list of 6,000 numbers": f"[data]\nlevels = [{'1,' * 6000}9]",
    "a list of 6,000 words": "[shuffle]\nfilters = [" + '"x",' * 4000 + "]",
    "a number of 5,000 digits": f"seed = {'9' * 5000}",
    "a number of 15,000 digits to the base 16": f"seed = 0x{'f' * 15_000}",
    "a fraction of 15,000 digits": f"[optimizer]\nlearning_rate = {'9' * 4000}",
    "a number too large for a fraction": f"[optimizer]\nlearning_rate = 0x{'f' * 400}",
    "more than 20,000 bytes": "#" * 20_001,
    "no text": "\udcff\udcfe",
    "a zero byte": "seed = 1\0",
    "an escape": 'network = "\\u001b[31m"',
    "a key with an escape": '"\\u001b[31m\\n" = 1',
    "the same key twice": "seed = 1\nseed = 2",
    "a date for a number": "seed = 2020-01-01",
    "a time for a fraction": "[optimizer]\nlearning_rate = 10:00:00",
    "a table for a number": "seed = {a = 1}",
    "a number for a table": "data = 3",
    "a list of tables": "[[data]]\ncrop = 64",
    "a name of Python": "__class__ = 3",
    "a seed of 65 bits": f"seed = {2**65}",
    "a crop larger than any photo": "[data]\ncrop = 1040",
    "a crop of a billion": "[data]\ncrop = 1_600_000_000",
    "a crop below zero": "[data]\ncrop = -64",
    "a batch of 10^12": "[data]\nbatch = 1_000_000_000_000",
    "a batch that fills the memory": "[data]\nbatch = 15_000\ncrop = 1024",
    "a billion levels": "[data]\nlevels = [1_000_000_000]",
    "10^18 levels": f"[data]\nlevels = [{10**18}]",
    "a million sources": '[shuffle]\nmask = "multi-scale"\nsources = [2, 1_000_000]',
    "10^18 iterations": f"[optimizer]\niterations = {10**18}",
    "2 billion iterations": "[optimizer]\niterations = 2_000_000_000",
    "a warm-up below zero": "[optimizer]\nwarm_up = -5",
    "a constant share that is no number": "[optimizer]\nconstant_share = nan",
    "a constant share of two": "[optimizer]\nconstant_share = 2.0",
    "an infinite constant share": "[optimizer]\nconstant_share = inf",
    "a clip that is no number": "[optimizer]\ngradient_clip = nan",
    "a clip below zero": "[optimizer]\ngradient_clip = -1.0",
    "a label share that is no number": "[optimizer]\nlabel_share = nan",
    "an infinite label share": "[optimizer]\nlabel_share = inf",
    "an infinite rate": "[optimizer]\nlearning_rate = inf",
    "an average that is no number": "[optimizer]\naverage = nan",
    "10^12 samples to validate": f"[log]\nvalidation_samples = {10**12}",
    "a share that is no number": "[shuffle]\nblob = nan",
    "an infinite share": "[shuffle]\nblob = inf",
    "a share of noise above one": "[shuffle]\nnoise = 1.5",
    "a share of noise that is no number": "[shuffle]\nnoise = nan",
    "a share of borders below zero": "[shuffle]\nborders = -0.1",
    "a million channels": "[stack_network]\nchannels = 1_000_000",
    "no channels": "[stack_network]\nchannels = 0",
    "channels below zero": "[stack_network]\ntoken_channels = -64",
    "a billion blocks": "[stack_network]\nmamba_blocks = 1_000_000_000",
    "blocks below zero": "[stack_network]\nres_blocks = -1",
    "no state": "[stack_network]\nstate = 0",
    "a billion blocks of the paper": 'network = "ips-paper"\n[paper_network]\nmamba_blocks = 1_000_000_000',
    "a base that is a list": 'base = ["a.toml"]',
    "a base that is empty": 'base = ""',
    "a base from the root": 'base = "/etc/hostname.toml"',
    "a base that is no recipe": 'base = "../../../../etc/passwd"',
    "a base with a zero byte": 'base = "a\\u0000.toml"',
    "a base that is missing": 'base = "nowhere/nothing.toml"',
    "a base with a long name": f'base = "{"n" * 5000}.toml"',
    "a base that is itself": 'base = "recipe.toml"',
    "a base that is itself by another way": 'base = "../{folder}/./recipe.toml"',
    "a base that is a folder": 'base = "folder.toml"',
    "a base that is a pipe": 'base = "pipe.toml"',
    "a base that is a device": 'base = "device.toml"',
    "a base with an escape": 'base = "\\u001b[31m.toml"',
    "a base that is a loop": 'base = "loop.toml"',
}  # fmt: skip


@pytest.mark.parametrize("kind", RECIPES)
def test_what_is_no_recipe_is_one_sentence(tmp_path, kind):
    path = tmp_path / "recipe.toml"
    text = RECIPES[kind].replace("{folder}", tmp_path.name)
    path.write_bytes(text.encode(errors="surrogateescape"))
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "device.toml").symlink_to("/dev/zero")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    with pytest.raises(InputError) as told:
        read_recipe(path)
    assert_one_line(told.value, tmp_path)


def make_no_file(path: Path, kind: str) -> bool:
    """Puts something in the place of a file that is none; whether it knows how."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a loop":
        path.symlink_to(path)
    return kind in ("a pipe", "a folder", "a loop")


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "a loop", "no name"])
def test_what_is_no_file_of_a_recipe_does_not_hold_the_program_up(tmp_path, kind):
    path = tmp_path / "recipe.toml"
    if not make_no_file(path, kind):
        path = Path("/dev/zero") if kind == "a device" else tmp_path / "\0.toml"
    with pytest.raises(InputError, match="cannot read the recipe"):
        read_recipe(path)


def chain(folder: Path, length: int) -> Path:
    (folder / "0.toml").write_text("seed = 5")
    for number in range(1, length):
        (folder / f"{number}.toml").write_text(f'base = "{number - 1}.toml"')
    return folder / f"{length - 1}.toml"


def test_a_chain_of_bases_has_an_end(tmp_path):
    assert read_recipe(chain(tmp_path, recipe_tables.LONGEST_CHAIN + 1)).seed == 5
    with pytest.raises(InputError, match="too many"):
        read_recipe(chain(tmp_path, recipe_tables.LONGEST_CHAIN + 2))
    with pytest.raises(InputError, match="too many"):
        read_recipe(chain(tmp_path, 2000))


CHANGES = [
    "seed=1\nnetwork='ips-paper'",
    "seed=1\n[optimizer]\niterations=5",
    "seed=" + "[" * 50_000,
    "seed=" + "9" * 5000,
    "seed=0x" + "f" * 50_000,
    "=3",
    ".=3",
    "optimizer..iterations=3",
    "optimizer=3",
    "optimizer.iterations.deep=3",
    "base='other.toml'",
    ".".join("a" * 50_000) + "=1",
    "\0=1",
    "\x1b[31m=1",
    "x" * 100_000,
    "data.levels=[[1]]",
    "shuffle.sources=[2, true]",
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_no_odd_change_of_a_recipe_is_taken(tmp_path, change):
    path = tmp_path / "recipe.toml"
    path.write_text("seed = 1")
    with pytest.raises(InputError) as told:
        read_recipe(path, [change])
    assert len(str(told.value)) < LONGEST_MESSAGE


# --- where a run writes -----------------------------------------------------------------------------------------------


def told(words: list[object]) -> tuple[int, str]:
    """The exit code of a command, and what it wrote to stderr."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = run([str(word) for word in words])
    return code, errors.getvalue()


def train_words(folder: Path, *more: object) -> list[object]:
    (folder / "recipe.toml").write_text("seed = 1")
    return ["train", folder / "no photos", "--recipe", folder / "recipe.toml", "-o", folder / "run", *more]


OWN = ["state.safetensors", "weights.safetensors", "recipe.json", "log.csv", "validation.csv", "previews/1.png"]


@pytest.mark.parametrize("name", OWN)
def test_training_refuses_a_folder_with_such_files_before_it_looks_for_photos(tmp_path, name):
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text("iteration\nof somebody else")
    code, text = told(words := train_words(tmp_path))
    assert code == 2, words
    assert text.count("\n") == 1
    assert "no photos" not in text
    assert "run: holds" in text
    assert contents(tmp_path / "run") == {name: b"iteration\nof somebody else"}


def test_a_run_that_ended_before_its_first_checkpoint_can_begin_again(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_text(json.dumps(dataclasses.asdict(Recipe())))
    (tmp_path / "run" / "log.csv").write_text("iteration\n1\n")
    code, text = told(train_words(tmp_path))
    assert code == 2
    assert "no photos: no such folder" in text


TABLES = {
    "no number": "iteration,loss\nmany,1\n",
    "no such column": "loss\n1\n",
    "too few values": "loss,iteration\n1\n",
    "too many values": "iteration\n1,2\n",
    "no text": "\udcff\udcfe",
    "a number of 5,000 digits": f"iteration\n{'9' * 5000}\n",
    "a cell of 200,000 letters": f"iteration,loss\n1,{'x' * 200_000}\n",
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", ["log.csv", "validation.csv"])
def test_a_table_that_was_tampered_with_is_refused_and_kept(tmp_path, name, kind):
    path = tmp_path / "run" / name
    path.parent.mkdir()
    write_state(tmp_path / "run" / "state.safetensors")
    path.write_bytes(TABLES[kind].encode(errors="surrogateescape"))
    before = path.read_bytes()
    code, text = told(train_words(tmp_path, "--resume"))
    assert code == 2
    assert f"{name}: is not as the run left it" in text
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a loop", "nothing"])
def test_what_is_no_state_cannot_be_resumed(tmp_path, kind):
    state = tmp_path / "run" / "state.safetensors"
    state.parent.mkdir()
    make_no_file(state, kind)
    code, text = told(train_words(tmp_path, "--resume"))
    assert code == 2
    assert "state.safetensors: " in text


@pytest.mark.parametrize("seconds", ["nan", "-1", "inf", "x"])
def test_no_odd_time_ends_a_run(tmp_path, seconds):
    code, text = told(train_words(tmp_path, "--stop-after", seconds))
    assert code == 2
    assert "no photos" not in text
    assert not (tmp_path / "run").exists()


@pytest.fixture
def quick_export(monkeypatch):
    """Exporting takes a minute; here it only writes."""
    from allfocus.network import onnx_export

    made = onnx_export.ProvenModel(b"exported", 0.0, 20, 1)
    monkeypatch.setattr(onnx_export, "prove_model", lambda source: made)


def test_an_export_replaces_nothing_unless_it_is_told(quick_export, sound, tmp_path):
    weights, output = tmp_path / "w.safetensors", tmp_path / "m.onnx"
    weights.write_bytes(sound)
    output.write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists already"):
        allfocus.export_onnx(weights, output)
    assert contents(tmp_path) == {"w.safetensors": sound, "m.onnx": b"mine"}
    assert allfocus.export_onnx(weights, output, overwrite=True).path == output
    assert contents(tmp_path) == {"w.safetensors": sound, "m.onnx": b"exported"}


@pytest.mark.parametrize("name", ["w.safetensors", "./w.safetensors", "link.onnx", "hard.onnx"])
def test_an_export_never_replaces_its_weights(quick_export, sound, tmp_path, name):
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(sound)
    (tmp_path / "link.onnx").symlink_to(weights)
    os.link(weights, tmp_path / "hard.onnx")
    before = contents(tmp_path)
    with pytest.raises(InputError, match="will not be replaced"):
        allfocus.export_onnx(weights, f"{tmp_path}/{name}", overwrite=True)
    assert contents(tmp_path) == before


def test_an_export_never_replaces_the_weights_of_a_run(quick_export, sound, tmp_path):
    (tmp_path / "weights.safetensors").write_bytes(sound)
    with pytest.raises(InputError, match="will not be replaced"):
        allfocus.export_onnx(tmp_path, tmp_path / "weights.safetensors", overwrite=True)
    assert contents(tmp_path) == {"weights.safetensors": sound}


@pytest.mark.parametrize(
    "place", ["", "/", "{folder}", "{folder}/nodir/m.onnx", "{folder}/pipe", "/dev/null", "a\0.onnx"]
)
def test_no_odd_place_is_exported_to(quick_export, sound, tmp_path, place):
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(sound)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError):
        allfocus.export_onnx(weights, place.format(folder=tmp_path), overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["pipe", "w.safetensors"]


def test_what_appears_while_a_network_is_exported_is_kept(sound, tmp_path, monkeypatch):
    from allfocus.network import onnx_export

    weights, output = tmp_path / "w.safetensors", tmp_path / "m.onnx"
    weights.write_bytes(sound)

    def prove(source: Path) -> onnx_export.ProvenModel:
        output.write_bytes(b"of somebody else")
        return onnx_export.ProvenModel(b"exported", 0.0, 20, 1)

    monkeypatch.setattr(onnx_export, "prove_model", prove)
    with pytest.raises(OutputError, match="appeared in the meantime"):
        allfocus.export_onnx(weights, output)
    assert output.read_bytes() == b"of somebody else"


# --- ONNX -------------------------------------------------------------------------------------------------------------

onnx = pytest.importorskip("onnx", reason="networks are made with the extra: pip install 'allfocus[train]'")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT


def model(
    nodes: list[Any] | None = None, *, functions: tuple[Any, ...] = (), initializers: tuple[Any, ...] = ()
) -> Any:
    """A small network with the nodes."""
    nodes = nodes or [helper.make_node("Identity", ["x"], ["y"])]
    values = [helper.make_tensor_value_info(name, FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "network", values[:1], values[1:], initializers)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)


def endless_loop() -> Any:
    """A node that goes on for as long as its condition holds, which is for ever."""
    inputs = [helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
              helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
              helper.make_tensor_value_info("v", FLOAT, [1])]  # fmt: skip
    outputs = [helper.make_tensor_value_info("go_on", onnx.TensorProto.BOOL, []),
               helper.make_tensor_value_info("w", FLOAT, [1])]  # fmt: skip
    body = [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["v", "v"], ["w"])]
    return helper.make_node("Loop", ["", "true", "x"], ["y"], body=helper.make_graph(body, "body", inputs, outputs))


def with_loop() -> bytes:
    true = helper.make_tensor("true", onnx.TensorProto.BOOL, [], [True])
    return bytes(model([endless_loop()], initializers=[true]).SerializeToString())


def branch() -> bytes:
    return single("If", then_branch=helper.make_graph([], "inner", [], []))


def scan() -> bytes:
    return single("Scan", body=helper.make_graph([], "inner", [], []), num_scan_inputs=1)


def several_graphs() -> bytes:
    node = helper.make_node("Identity", ["x"], ["y"])
    node.attribute.add(name="bodies", type=onnx.AttributeProto.GRAPHS).graphs.add()
    return bytes(model([node]).SerializeToString())


def doubling() -> bytes:
    """Thirty functions of which each calls the next one twice."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = []
    for number in range(30):
        kind = {"op_type": f"f{number + 1}", "domain": "own"} if number < 29 else {"op_type": "Neg"}
        nodes = [helper.make_node(inputs=[one], outputs=[other], **kind) for one, other in (("a", "b"), ("b", "c"))]
        functions.append(helper.make_function("own", f"f{number}", ["a"], ["c"], nodes, opsets))
    return bytes(
        model([helper.make_node("f0", ["x"], ["y"], domain="own")], functions=tuple(functions)).SerializeToString()
    )


def training() -> bytes:
    found = model()
    found.training_info.add().algorithm.CopyFrom(model([endless_loop()]).graph)
    return bytes(found.SerializeToString())


def long_chain() -> bytes:
    names = ["x", *(f"t{number}" for number in range(MOST_NODES)), "y"]
    nodes = [helper.make_node("Neg", [one], [other]) for one, other in itertools.pairwise(names)]
    return bytes(model(nodes).SerializeToString())


def single(operator: str, **options: Any) -> bytes:
    return bytes(model([helper.make_node(operator, ["x"], ["y"], **options)]).SerializeToString())


def beside(key: str, value: str) -> bytes:
    found = model()
    helper.set_model_props(found, {key: value})
    return bytes(found.SerializeToString())


def with_part(key: str, part: bytes) -> bytes:
    return beside(key, base64.b64encode(part).decode())


def strange_letters() -> str:
    """A network as text with letters in it that base64 does not have, and that are passed over when it is decoded."""
    text = base64.b64encode(with_loop()).decode()
    return "!" + text[:20] + "\n*" + text[20:]


def external() -> bytes:
    """A network that keeps its weights in another file."""
    weight = onnx.TensorProto(name="w", data_type=FLOAT, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    return bytes(model(initializers=[weight]).SerializeToString())


def nested_text(depth: int) -> bytes:
    data = with_loop()
    for _ in range(depth):
        data = with_part("allfocus.whole", data)
    return data


GROUP = bytes([100 << 3 & 0x7F | 0x80 | 3, 100 >> 4]) + bytes([100 << 3 & 0x7F | 0x80 | 4, 100 >> 4])
"""A field that other readers pass over and go on: number 100, as a group."""

ORT_AND_ONNX = b"\x22\x7f\0\0ORTM" + bytes(121)
"""What begins as onnxruntime's own format does, and is a field of ONNX that nobody looks at as well."""

NETWORKS: dict[str, tuple[Callable[[], bytes], str]] = {
    "an endless loop": (with_loop, "Loop"),
    "a branch": (branch, "If"),
    "a scan": (scan, "Scan"),
    "an operator with several graphs": (several_graphs, "holds other operators"),
    "functions that double": (doubling, "operators? of"),
    "a loop in what trains it": (training, "Loop"),
    "an operator over sequences": (lambda: single("SequenceMap"), "SequenceMap"),
    "a loop in a part of ours": (lambda: with_part("allfocus.whole", with_loop()), "Loop"),
    "a loop in another part": (lambda: with_part("allfocus.refine", with_loop()), "Loop"),
    "a loop in text with strange letters": (lambda: beside("allfocus.whole", strange_letters()), "Loop"),
    "a loop in a part of a part": (lambda: nested_text(3), "Loop"),
    "parts nested deeply": (lambda: nested_text(22), "nested too deeply"),
    "a part that is no network": (lambda: beside("allfocus.whole", "bm90IGEgbmV0d29yaw=="), "no ONNX file"),
    "a part in another format": (lambda: with_part("allfocus.whole", ORT_AND_ONNX), "format of onnxruntime"),
    "too many operators": (long_chain, "more than"),
    "an operator of onnxruntime": (lambda: single("EPContext", domain="com.microsoft"), "com.microsoft"),
    "an operator of somebody": (lambda: single("Evil", domain="evil\x1b[31m"), "evil"),
    "the format of onnxruntime": (lambda: b"\x1c\0\0\0ORTM" + bytes(100), "format of onnxruntime"),
    "that format and ONNX as well": (lambda: ORT_AND_ONNX + model().SerializeToString(), "format of onnxruntime"),
    "other files behind a group": (lambda: GROUP + external(), "unknown kind"),
    "a loop behind a group": (lambda: GROUP + with_loop(), "unknown kind"),
    "a loop under a number of 33 bits": (lambda: b"\xba\x80\x80\x80\x10" + with_loop()[1:], "without a number"),
    "a field number of zero": (lambda: b"\x00\x00" + with_loop(), "without a number"),
    "a number without an end": (lambda: b"\xff" * 20, "without an end"),
    "a length beyond the end": (lambda: b"\x3a\xff\xff\xff\xff\x07", "cut short"),
    "cut in the middle": (lambda: with_loop()[:-3], "cut short"),
    "other files": (external, "other files"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_that_might_not_end_or_cannot_be_seen_through_is_refused(tmp_path, kind):
    make, reason = NETWORKS[kind]
    path = tmp_path / "own.onnx"
    path.write_bytes(make())
    with pytest.raises(InputError, match=reason) as told:
        read_network(path)
    assert_one_line(told.value, path)


def test_text_beside_a_network_that_is_none_does_no_harm(tmp_path):
    path = tmp_path / "own.onnx"
    for text in ("", "anna", "made by hand", "bm90IGEgbmV0d29yaw==", "é\x1b"):
        path.write_bytes(beside("author", text))
        assert read_network(path) == path.read_bytes()


def test_onnxruntime_reads_on_behind_a_group(tmp_path):
    """Why such a file is refused: what we passed over there, it would run."""
    import onnxruntime

    session = onnxruntime.InferenceSession(GROUP + model().SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.ones(1, np.float32)})[0].tolist() == [1]


def test_a_network_of_terabytes_is_not_read(tmp_path):
    path = tmp_path / "own.onnx"
    path.write_bytes(with_loop())
    os.truncate(path, 2**40)
    with pytest.raises(InputError, match=f"more than {LARGEST_NETWORK} bytes"):
        read_network(path)


@pytest.mark.parametrize("front", ["python", "command"])
def test_a_loop_is_refused_before_anything_is_fused(tmp_path, stack_folder, front):
    path, output = tmp_path / "own.onnx", tmp_path / "o.png"
    path.write_bytes(branch())
    if front == "command":
        code, text = told(["fuse", stack_folder, "-o", output, "--no-align", "--method", path])
        assert code == 2
        assert "might never come to an end" in text
    else:
        with pytest.raises(InputError, match="might never come to an end"):
            allfocus.fuse_files(stack_folder, output, method=str(path), align=False)
    assert os.listdir(tmp_path) == ["own.onnx"]
