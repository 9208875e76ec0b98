"""Files of weights: three kinds are read; whatever else a file holds, our error comes out and no code of it runs."""

import json
import pickle
import struct
import zipfile

import numpy as np
import pytest

from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion.method import weights_files
from allfocus.fusion.method_choice import absolute_name, find_method, require_method
from allfocus.rivals import weight_files
from allfocus.rivals.weight_files import find_weights, read_weights

torch = pytest.importorskip("torch", reason="needs the extra rivals")

from torch import nn  # noqa: E402

from allfocus.rivals.running import load_rival  # noqa: E402

CPU = torch.device("cpu")


def safetensors(path, tensors, **changes):
    table, data = {"__metadata__": {"made": "by hand"}}, b""
    for name, tensor in tensors.items():
        content = tensor.astype("<f4").tobytes()
        place = [len(data), len(data) + len(content)]
        table[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": place, **changes}
        data += content
    text = json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


TENSORS = {"weight": np.arange(12, dtype=np.float32).reshape(3, 4), "bias": np.ones(3, np.float32)}


def make_linear():
    return nn.Linear(4, 3)


@pytest.mark.parametrize("ending", [".safetensors", ".pth", ".pt"])
def test_what_was_saved_is_read(tmp_path, ending):
    path = tmp_path / f"net{ending}"
    if ending == ".safetensors":
        safetensors(path, TENSORS)
    else:
        torch.save({f"module.{name}": torch.from_numpy(tensor) for name, tensor in TENSORS.items()}, path)
    found = read_weights(path)
    assert list(found) == list(TENSORS)
    for name, tensor in TENSORS.items():
        np.testing.assert_array_equal(found[name], tensor)


def test_what_the_library_of_safetensors_writes_is_read(tmp_path):
    library = pytest.importorskip("safetensors.numpy", reason="needs the extra train")
    library.save_file(TENSORS, tmp_path / "net.safetensors")
    found = read_weights(tmp_path / "net.safetensors")
    assert all((found[name] == tensor).all() for name, tensor in TENSORS.items())


@pytest.mark.parametrize(
    "changes", [{"dtype": "F64"}, {"data_offsets": [0, 10**9]}, {"data_offsets": [-4, 0]}, {"shape": [7]}, {"shape": 3}]
)
def test_safetensors_whose_table_lies_are_refused(tmp_path, changes):
    with pytest.raises(InputError, match="cannot be read as weights") as caught:
        read_weights(safetensors(tmp_path / "net.safetensors", TENSORS, **changes))
    assert caught.value.code == "bad-weights"


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 40, struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 2) + b"{}", b"\2" + b"\0" * 7 + b"{"]
)
@pytest.mark.parametrize("ending", [".safetensors", ".pth"])
def test_a_file_of_anything_else_is_refused(tmp_path, content, ending):
    path = tmp_path / f"net{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as weights"):
        read_weights(path)


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(weight_files, "MOST_BYTES", 100_000)
    path = tmp_path / "net.pth"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/data.pkl", bytes(10_000_000))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(torch, "load", lambda *arguments, **options: pytest.fail("unpacked"))
    with pytest.raises(InputError, match="unpacks to 10000000 bytes"):
        read_weights(path)


class Harm:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("save", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))])
def test_code_in_a_file_is_not_run(tmp_path, save):
    path, mark = tmp_path / "net.pth", tmp_path / "harmed"
    save({"weight": Harm(mark)}, path)
    with pytest.raises(InputError, match="torch does not take it"):
        read_weights(path)
    assert not mark.exists()


@pytest.mark.parametrize("content", [{}, [1], {"weight": 3}, {3: torch.ones(2)}])
def test_a_file_without_tensors_by_their_names_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "net.pth")
    with pytest.raises(InputError, match="it holds"):
        read_weights(tmp_path / "net.pth")


def test_values_that_are_no_numbers_are_refused(tmp_path):
    with pytest.raises(InputError, match="'bias' holds values that are not finite"):
        read_weights(safetensors(tmp_path / "n.safetensors", {**TENSORS, "bias": np.full(3, np.nan)}))


def test_other_endings_missing_files_and_large_ones_are_refused(tmp_path, monkeypatch):
    (tmp_path / "net.bin").write_bytes(b"x")
    with pytest.raises(InputError, match=r"ends in none of \.pth"):
        read_weights(tmp_path / "net.bin")
    with pytest.raises(InputError, match="no such file"):
        read_weights(tmp_path / "none.pth")
    monkeypatch.setattr(weight_files, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="at most 10 are read"):
        read_weights(safetensors(tmp_path / "net.safetensors", TENSORS))


# Into a network


def test_a_network_gets_its_weights_and_new_ones_when_the_file_changes(tmp_path):
    path = safetensors(tmp_path / "net.safetensors", TENSORS)
    first = load_rival(make_linear, path, device=CPU)
    assert load_rival(make_linear, path, device=CPU) is first
    np.testing.assert_array_equal(first.weight.detach().numpy(), TENSORS["weight"])
    assert not first.training
    safetensors(path, {**TENSORS, "weight": TENSORS["weight"] + 1}, dtype="F32")
    path.touch()
    second = load_rival(make_linear, path, device=CPU)
    np.testing.assert_array_equal(second.weight.detach().numpy(), TENSORS["weight"] + 1)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"weight": TENSORS["weight"]}, "'bias' is missing"),
        ({**TENSORS, "third": np.ones(1)}, "also holds 'third'"),
        ({**TENSORS, "bias": np.ones(4)}, r"'bias' has the shape \(4,\), the network needs \(3,\)"),
    ],
)
def test_weights_of_another_network_are_refused(tmp_path, tensors, words):
    with pytest.raises(InputError, match=f"weights of another network: .*{words}"):
        load_rival(make_linear, safetensors(tmp_path / "net.safetensors", tensors), device=CPU)


def test_no_weights_are_said_to_be_missing():
    with pytest.raises(MissingDependencyError, match="set ALLFOCUS_RIVALS") as caught:
        load_rival(make_linear, None, device=CPU)
    assert caught.value.code == "missing-weights"


# Where they are looked for


def test_weights_are_found_in_the_folder_that_the_variable_names_the_first_name_first(tmp_path, monkeypatch):
    monkeypatch.delenv("ALLFOCUS_RIVALS", raising=False)
    assert find_method("ifcnn").weights is None
    assert "ifcnn@FILE" in find_method("ifcnn").missing
    monkeypatch.setenv("ALLFOCUS_RIVALS", str(tmp_path))
    (tmp_path / "ifcnn.safetensors").touch()
    assert find_weights(["x", "ifcnn.safetensors"]) == tmp_path / "ifcnn.safetensors"
    (tmp_path / "ifcnn_max.pth").touch()
    method = find_method("ifcnn")
    assert method.weights == tmp_path / "ifcnn_max.pth"
    assert not method.missing
    assert weights_files(method) == [tmp_path / "ifcnn_max.pth"]


def test_a_method_without_its_weights_says_what_to_do(monkeypatch):
    monkeypatch.delenv("ALLFOCUS_RIVALS", raising=False)
    with pytest.raises(
        MissingDependencyError, match=r"u2fusion cannot run: it needs weights: .*ALLFOCUS_RIVALS"
    ) as caught:
        require_method("u2fusion")
    assert caught.value.code == "missing-weights"


def test_weights_are_named_behind_the_method(tmp_path, monkeypatch):
    file = tmp_path / "a@b.index"
    file.touch()
    method = find_method(f"u2fusion@{file}")
    assert method.weights == file
    assert method.name == f"u2fusion@{file}"
    monkeypatch.chdir(tmp_path)
    assert absolute_name("u2fusion@a@b.index") == f"u2fusion@{file}"
    with pytest.raises(InputError, match="unknown method"):
        require_method(f"u2fusion@{file}", listed=True)
    with pytest.raises(InputError, match="no such file of weights"):
        find_method("u2fusion@none.index")
    with pytest.raises(InputError, match="dsift takes no weights from outside; these do: cnn"):
        find_method(f"dsift@{file}")
    with pytest.raises(InputError, match="zmff takes no weights"):
        find_method(f"zmff@{file}")
