"""Weights of the literature's networks of a stranger: huge, aliased, odd, endless; and recipes that train them."""

import json
import os
import struct
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from allfocus.errors import AllfocusError, InputError  # noqa: E402
from allfocus.fusion.stack_fusion import fuse  # noqa: E402
from allfocus.rivals.tensorflow_checkpoint import DATA_ENDING, MAGIC, checksum  # noqa: E402
from allfocus.rivals.weight_files import read_weights  # noqa: E402
from allfocus.training.recipe import read_recipe  # noqa: E402
from allfocus.training.trainees import build_trainee  # noqa: E402

ONE = np.ones(4, "<f4").tobytes()


def refused(path):
    """The one sentence that a file of weights is refused with."""
    with pytest.raises(InputError) as caught:
        read_weights(path)
    sentence = str(caught.value)
    assert sentence.isprintable()
    assert len(sentence) < 700
    return sentence


# --- safetensors ---


def entry(shape, offsets, kind="F32"):
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


TABLES = {
    "side beyond all": {"a": entry([0, 10**30], [0, 0])},
    "side of 64 bits": {"a": entry([0, 2**63], [0, 0])},
    "no side": {"a": entry([0], [0, 0])},
    "negative sides": {"a": entry([-1, -4], [0, 16])},
    "one negative side": {"a": entry([-4], [0, 16])},
    "a truth as a side": {"a": entry([True, 4], [0, 16])},
    "text as a side": {"a": entry(["4"], [0, 16])},
    "a fraction as a side": {"a": entry([4.0], [0, 16])},
    "a hundred sides": {"a": entry([4] + [1] * 100, [0, 16])},
    "no list of sides": {"a": entry(4, [0, 16])},
    "infinite side": b'{"a": {"dtype": "F32", "shape": [Infinity], "data_offsets": [0, 16]}}',
    "side of 5000 digits": b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 16]}}',
    "offset that is none": b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [NaN, 16]}}',
    "fraction as an offset": {"a": entry([4], [0.0, 16.0])},
    "offsets the wrong way round": {"a": entry([4], [16, 0])},
    "negative offsets": {"a": entry([4], [-16, 0])},
    "three offsets": {"a": entry([4], [0, 8, 16])},
    "beyond the end": {"a": entry([5], [0, 20])},
    "fewer bytes than sides": {"a": entry([5], [0, 16])},
    "shared numbers": {f"t{number}": entry([4], [0, 16]) for number in range(8000)},
    "half precision": {"a": entry([8], [0, 16], "F16")},
    "double precision": {"a": entry([2], [0, 16], "F64")},
    "a type of nobody": {"a": entry([4], [0, 16], "Q4_K")},
    "a list": [1, 2],
    "a number": 7,
    "nothing": {},
    "only words": {"__metadata__": {"a": "b"}},
    "an entry that is none": {"a": 7},
    "an entry without a type": {"a": {"shape": [4], "data_offsets": [0, 16]}},
    "nested": b"[" * 100_000,
    "half a letter": b'{"\\ud800": {"dtype": "F16", "shape": [8], "data_offsets": [0, 16]}}',
    "terminal escapes": {"\x1b[31mX\n" * 50: entry([8], [0, 16], "F16")},
    "a long name": {"x" * 500_000: entry([8], [0, 16], "F16")},
    "no JSON": b"{'a': 1}",
    "NUL": b"\0" * 100,
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_of_tensors_that_is_odd_is_refused(tmp_path, kind):
    table = TABLES[kind]
    header = table if isinstance(table, bytes) else json.dumps(table).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + ONE)
    refused(path)


@pytest.mark.parametrize("data", [b"", b"\1", b"\xff" * 8, struct.pack("<Q", 2**40) + b"{}", struct.pack("<Q", 2)])
def test_what_is_too_short_for_a_table_is_refused(tmp_path, data):
    path = tmp_path / "w.safetensors"
    path.write_bytes(data)
    refused(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_numbers_are_refused(tmp_path, value):
    header = json.dumps({"a": entry([4], [0, 16])}).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + np.array([1, value, 1, 1], "<f4").tobytes())
    assert "not finite" in refused(path)


# --- PyTorch ---


class Program:
    """Pickled, it would run when it is read."""

    def __reduce__(self):
        return os.system, ("touch was-run",)


def quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.qint8)


def ragged():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


PYTORCH = {
    "one number for 40 GB": lambda: {"a": torch.zeros(1).expand(100_000, 100_000)},
    "one number for terabytes": lambda: {"a": torch.zeros(1).expand(10**6, 10**6)},
    "shared numbers": lambda: dict.fromkeys(map(str, range(5000)), torch.zeros(2**18, dtype=torch.float16)),
    "sparse": lambda: {"a": torch.zeros(3, 3).to_sparse()},
    "without numbers": lambda: {"a": torch.zeros(3, device="meta")},
    "complex": lambda: {"a": torch.zeros(3, dtype=torch.complex64)},
    "complex, mirrored": lambda: {"a": torch.zeros(3, dtype=torch.complex64).conj()},
    "turned about": lambda: {"a": torch._neg_view(torch.ones(3))},
    "quantized": lambda: {"a": quantized()},
    "ragged": lambda: {"a": ragged()},
    "too large for 32 bits": lambda: {"a": torch.full((3,), 1e300, dtype=torch.float64)},
    "no numbers": lambda: {"a": torch.tensor([float("nan")])},
    "numbers as names": lambda: {1: torch.zeros(1)},
    "a program": lambda: {"a": Program()},
    "a program as a name": lambda: {Program(): torch.zeros(1)},
    "a list": lambda: [torch.zeros(1)],
    "a tensor": lambda: torch.zeros(1),
    "nothing": dict,
    "text": lambda: {"a": "b"},
    "an empty state": lambda: {"state_dict": {}},
}


@pytest.mark.parametrize("plain", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("kind", PYTORCH)
@pytest.mark.filterwarnings("ignore")
def test_a_file_of_pytorch_that_is_odd_is_refused(tmp_path, monkeypatch, kind, plain):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "w.pth"
    try:
        torch.save(PYTORCH[kind](), path, _use_new_zipfile_serialization=not plain)
    except (RuntimeError, NotImplementedError):
        pytest.skip("torch cannot write this")
    refused(path)
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("data", [b"", b"PK\5\6" + b"\0" * 18, b"\x80\2}q\0.", b"\0" * 1024, b"\x80\2" + b"(" * 1000])
def test_what_is_no_file_of_pytorch_is_refused(tmp_path, data):
    path = tmp_path / "w.pth"
    path.write_bytes(data)
    refused(path)


# --- TensorFlow ---


def number(value):
    """A whole number in groups of seven bits."""
    data = b""
    while True:
        value, group = value >> 7, value & 127
        data += bytes([group | (128 if value else 0)])
        if not value:
            return data


def block(entries):
    rows = [number(shared) + number(len(own)) + number(len(value)) + own + value for shared, own, value in entries]
    return b"".join(rows) + struct.pack("<II", 0, 1)


def sealed(data):
    return data + b"\0" + struct.pack("<I", checksum(data + b"\0"))


def index(entries, repeated=1):
    """An index whose list names its only block once or many times."""
    rows = block(entries)
    names = block([(0, b"z%06d" % place, number(0) + number(len(rows))) for place in range(repeated)])
    footer = number(0) + number(0) + number(len(sealed(rows))) + number(len(names))
    return sealed(rows) + sealed(names) + footer.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def tensor(shape, offset, size, check=0, kind=1, shard=0):
    sides = b"".join(b"\x12" + number(len(side)) + side for side in (b"\x08" + number(value) for value in shape))
    place = b"\x18" + number(shard) + b"\x20" + number(offset) + b"\x28" + number(size)
    return b"\x08" + number(kind) + b"\x12" + number(len(sides)) + sides + place + b"\x35" + struct.pack("<I", check)


CHECK, EMPTY_CHECK = checksum(ONE), checksum(b"")
INDICES = {
    "an empty side": lambda: index([(0, b"a", tensor((0, 2**63), 0, 0, EMPTY_CHECK))]),
    "a side beyond all": lambda: index([(0, b"a", tensor((0, 2**69), 0, 0, EMPTY_CHECK))]),
    "a negative side": lambda: index([(0, b"a", tensor((2**64 - 1,), 0, 16, CHECK))]),
    "nine sides": lambda: index([(0, b"a", tensor((4, *(1,) * 8), 0, 16, CHECK))]),
    "beyond the end": lambda: index([(0, b"a", tensor((4,), 2**60, 16, CHECK))]),
    "terabytes": lambda: index([(0, b"a", tensor((2**40,), 0, 2**42, CHECK))]),
    "another file": lambda: index([(0, b"a", tensor((4,), 0, 16, CHECK, shard=1))]),
    "another type": lambda: index([(0, b"a", tensor((4,), 0, 16, CHECK, kind=7))]),
    "a wrong sum": lambda: index([(0, b"a", tensor((4,), 0, 16, CHECK ^ 1))]),
    "shared numbers": lambda: index([(0, b"a%05d" % place, tensor((4,), 0, 16, CHECK)) for place in range(3000)]),
    "a block again and again": lambda: index([(0, b"a", tensor((4,), 0, 16, CHECK) + bytes(2) * 200)], repeated=20_000),
    "names of half a megabyte": lambda: index(
        [(0, b"k" * 90_000, b""), *((89_990, b"%010d" % place, b"") for place in range(9000))]
    ),
    "a name that is no text": lambda: index([(0, b"\xff\xfe", tensor((4,), 0, 16, CHECK))]),
    "more of a name than there is": lambda: index([(5, b"a", tensor((4,), 0, 16, CHECK))]),
    "a number without an end": lambda: index([(0, b"a", b"\x08" + b"\xff" * 20)]),
    "no tensors": lambda: index([(0, b"", b"")]),
    "two data files": lambda: index([(0, b"", b"\x08\x02"), (0, b"a", tensor((4,), 0, 16, CHECK))]),
    "nothing": lambda: b"",
    "only an end": lambda: bytes(40) + struct.pack("<Q", MAGIC),
}


@pytest.mark.parametrize("kind", INDICES)
def test_an_index_of_tensorflow_that_is_odd_is_refused(tmp_path, kind):
    path = tmp_path / "m.index"
    path.write_bytes(INDICES[kind]())
    (tmp_path / f"m{DATA_ENDING}").write_bytes(ONE)
    refused(path)


def test_the_sound_checkpoint_is_one(tmp_path):
    (tmp_path / "m.index").write_bytes(index([(0, b"a", tensor((4,), 0, 16, CHECK))]))
    (tmp_path / f"m{DATA_ENDING}").write_bytes(ONE)
    assert read_weights(tmp_path / "m.index")["a"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "loop", "nothing", "NUL", "long"])
@pytest.mark.parametrize("name", ["w.pth", "w.safetensors", "w.index", f"w{DATA_ENDING}"])
def test_what_is_no_file_of_weights_does_not_hold_the_program_up(tmp_path, name, kind):
    path = tmp_path / name
    if name.endswith(DATA_ENDING):
        (tmp_path / "w.index").write_bytes(index([(0, b"a", tensor((4,), 0, 16, CHECK))]))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind != "nothing":
        path = tmp_path / (f"a\0{name}" if kind == "NUL" else "x" * 300 + name)
    with pytest.raises(InputError):
        read_weights(path)


# --- used ---


def write_ifcnn(path, change):
    from allfocus.network.checkpoint import save_tensors
    from allfocus.rivals.learning import OBJECTIVES, trained_tensors

    save_tensors(path, {name: change(value) for name, value in trained_tensors(OBJECTIVES["ifcnn"]()).items()}, {})
    return path


def test_a_network_of_huge_weights_gives_an_error_and_no_black_picture(tmp_path):
    """Each weight is a number; what comes out is none."""
    path = write_ifcnn(tmp_path / "huge.safetensors", lambda tensor: torch.full_like(tensor, 1e30))
    frames = [np.random.default_rng(seed).random((32, 40, 3), np.float32) for seed in (1, 2)]
    with pytest.raises(InputError, match="not numbers"):
        fuse(frames, method=f"ifcnn@{path}", device="cpu")


STARTS = {
    "numbers that are none": lambda tensor: tensor * float("nan"),
    "another shape": lambda tensor: torch.zeros(tensor.numel() + 1),
    "turned sides": lambda tensor: tensor[None].contiguous(),
    "another type": lambda tensor: tensor.half(),
}


@pytest.mark.parametrize("kind", STARTS)
def test_no_odd_weights_begin_a_training(tmp_path, kind):
    path = write_ifcnn(tmp_path / "w.safetensors", STARTS[kind])
    with pytest.raises(InputError):
        build_trainee(read_recipe("ifcnn"), path)


def test_weights_of_another_network_begin_no_training(tmp_path):
    path = write_ifcnn(tmp_path / "w.safetensors", lambda tensor: tensor)
    with pytest.raises(InputError, match="another network"):
        build_trainee(read_recipe("fusion2void"), path)
    assert build_trainee(read_recipe("ifcnn"), path)


CHANGES = [
    "network=zmff", "network=__import__('os')", "network=IFCNN", "network=[]", "network.name=ifcnn", "seed=1e3",
    "seed=99999999999999999999", "data.crop=31", "data.crop=0", "data.crop=-16", "data.crop=16000000",
    "data.batch=0", "data.batch=1000000", "data.batch=true", "data.levels=[]", "data.levels=[9]",
    "optimizer.learning_rate=nan", "optimizer.learning_rate=inf", "optimizer.learning_rate=0",
    "optimizer.iterations=0", "optimizer.average=1.0", "optimizer.gradient_clip=-1.0", "log.report_every=0",
    "log.validation_samples=1000001", "shuffle.sources=[3]", "shuffle.sources=[]", "shuffle.filters=['../x']",
    "shuffle.smallest_kernel=4", "shuffle.noise=2.0", "stack_network.heads=0", "=", "a.b.c.d.e=1",
]  # fmt: skip


@pytest.mark.parametrize("network", ["cnn", "stackmff-v4"])
@pytest.mark.parametrize("change", CHANGES)
def test_no_odd_change_of_a_recipe_of_the_literature_is_taken(network, change):
    if network == "stackmff-v4" and change == "shuffle.sources=[3]":
        assert read_recipe(network, [change]).shuffle.sources == (3,)
        return
    with pytest.raises(AllfocusError):
        read_recipe(network, [change])
