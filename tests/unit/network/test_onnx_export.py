"""The exported network computes what torch computes, is the one that is shipped, and fails without leaving a trace."""

import importlib.resources
import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from allfocus.errors import ExportError, InputError
from allfocus.network import onnx_export
from allfocus.network.checkpoint import load_network, save_network
from allfocus.network.onnx_export import ExportReport, export_onnx
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig

WEIGHTS = Path(str(importlib.resources.files("allfocus"))) / "weights"
SIZES = [(2, 16, 16), (2, 64, 24), (3, 40, 136), (7, 48, 32), (12, 24, 24)]

# torch's exporter warns about torch's own code.
pytestmark = pytest.mark.filterwarnings(r"ignore:.*LeafSpec.*:FutureWarning")


def random_stack(sources, height, width):
    return np.random.default_rng(sources).random((sources, 3, height, width), dtype=np.float32)


def run_onnx(path, stack):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"frames": stack})[0]


class ShippedProgram:
    """What torch.onnx.export would return, without the half minute that it takes: always the shipped network."""

    def save(self, path, **_):
        shutil.copy(WEIGHTS / "ips.onnx", path)

    class model:  # noqa: N801
        opset_imports = {"": 20}  # noqa: RUF012


@pytest.fixture
def quick_export(monkeypatch):
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: ShippedProgram())
    # The two small ones of the proofs are enough for a test.
    monkeypatch.setattr(onnx_export, "PROOFS", ((2, 64, 96), (12, 40, 40)))


@pytest.fixture
def other_weights(tmp_path_factory):
    """A small network that is not the shipped one."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        network = StackNetwork(StackNetworkConfig(channels=8, middle_channels=8, token_channels=8, heads=2, state=4))
        torch.nn.init.normal_(network.head.weight, std=0.5)
    path = tmp_path_factory.mktemp("other") / "weights.safetensors"
    save_network(path, network, {})
    return path


# The shipped file


@pytest.mark.parametrize(("sources", "height", "width"), SIZES)
def test_the_shipped_onnx_computes_what_the_shipped_weights_compute(sources, height, width):
    network, _ = load_network(WEIGHTS / "ips.safetensors")
    stack = random_stack(sources, height, width)
    with torch.no_grad():
        expected = network(torch.from_numpy(stack)[None])[0].softmax(dim=0).numpy()
    logits = run_onnx(WEIGHTS / "ips.onnx", stack)
    assert logits.shape == (sources, height, width)
    found = torch.from_numpy(logits).softmax(dim=0).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)
    assert found.std() > 0.01


# Exporting


@pytest.mark.slow
def test_exporting_the_shipped_weights_gives_the_shipped_network(tmp_path):
    output = tmp_path / "again.onnx"
    report = export_onnx(WEIGHTS / "ips.safetensors", output)
    network, _ = load_network(WEIGHTS / "ips.safetensors")
    assert isinstance(report, ExportReport)
    assert report.path == output
    assert 0 <= report.largest_difference <= 1e-4
    assert report.opset >= 18
    assert report.parameters == sum(parameter.numel() for parameter in network.parameters())
    assert [file.name for file in tmp_path.iterdir()] == ["again.onnx"]
    for sources, height, width in SIZES:
        stack = random_stack(sources, height, width)
        again, shipped = run_onnx(output, stack), run_onnx(WEIGHTS / "ips.onnx", stack)
        np.testing.assert_allclose(again, shipped, atol=1e-4, rtol=0)


def test_a_run_folder_is_taken_for_its_weights(quick_export, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(WEIGHTS / "ips.safetensors", run / "weights.safetensors")
    report = export_onnx(run, tmp_path / "model.onnx")
    assert report.largest_difference <= 1e-4
    assert (tmp_path / "model.onnx").read_bytes() == (WEIGHTS / "ips.onnx").read_bytes()


def test_a_network_that_computes_something_else_is_refused(quick_export, other_weights, tmp_path):
    with pytest.raises(ExportError, match=r"model\.onnx: ONNX differs from torch by .*; the tolerance is 0\.0001"):
        export_onnx(other_weights, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_proof_keeps_the_file_that_was_there(quick_export, monkeypatch, tmp_path):
    output = tmp_path / "model.onnx"
    output.write_bytes(b"the one before")
    monkeypatch.setattr(onnx_export, "TOLERANCE", -1.0)
    with pytest.raises(ExportError, match="differs"):
        export_onnx(WEIGHTS / "ips.safetensors", output)
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    assert output.read_bytes() == b"the one before"


def test_a_proof_that_is_not_a_number_is_no_proof(quick_export, monkeypatch, tmp_path):
    monkeypatch.setattr(onnx_export, "_largest_difference", lambda *_: float("nan"))
    with pytest.raises(ExportError, match="nan"):
        export_onnx(WEIGHTS / "ips.safetensors", tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_papers_network_is_refused(quick_export, tmp_path):
    with pytest.raises(InputError, match=r"ips-paper\.safetensors: holds ips-paper, which runs in torch only"):
        export_onnx(WEIGHTS / "ips-paper.safetensors", tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_weights_that_are_not_there_are_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.safetensors"):
        export_onnx(tmp_path / "nowhere.safetensors", tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
