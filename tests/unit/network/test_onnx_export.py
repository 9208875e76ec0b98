"""The exported network computes what torch computes, is the one that is shipped, and fails without leaving a trace."""

import base64
import functools
import importlib.resources
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from allfocus.errors import ExportError, InputError
from allfocus.fusion import inference
from allfocus.network import onnx_export
from allfocus.network.checkpoint import load_network, save_network
from allfocus.network.contract import GRAPH_KEYS, INPUTS, OUTPUTS, graph_inputs
from allfocus.network.graph_file import graph_of
from allfocus.network.inheritance import EXCLUSION
from allfocus.network.onnx_export import ExportReport, LevelGraph, export_onnx
from allfocus.network.stack_network import StackNetwork, StackNetworkConfig

WEIGHTS = Path(str(importlib.resources.files("allfocus"))) / "weights"
SIZES = [(2, 16, 16), (2, 64, 24), (3, 40, 136), (7, 48, 32), (12, 24, 24)]

# torch's exporter warns about torch's own code.
pytestmark = pytest.mark.filterwarnings(r"ignore:.*LeafSpec.*:FutureWarning")


def random_inputs(graph, sources, height, width):
    """Inputs of a graph by name; some sources are out in some places, one everywhere."""
    random = np.random.default_rng(sources)
    shapes = (
        (sources, 3, height, width),
        (height, width),
        (sources, height // 2, width // 2),
        (sources, 4, height // 8, width // 8),
    )
    inputs = {name: random.random(shape, dtype=np.float32) for name, shape in zip(INPUTS, shapes, strict=True)}
    # The picture ends before the frames do.
    inside = np.zeros((height, width), np.float32)
    inside[: height - sources, : width - 1] = 1
    inputs["inside"] = inside
    behind = np.maximum(-12 * inputs["behind"], -EXCLUSION)
    behind[0] = 0
    if sources > 2:
        behind[1] = -EXCLUSION
    inputs["behind"] = behind.astype(np.float32)
    return {name: inputs[name] for name in graph_inputs(graph)}


def model_of(path, graph):
    """The ONNX model of a level, or another one within it."""
    model = onnx.load_from_string(graph_of(path.read_bytes(), graph))
    del model.metadata_props[:]
    return model


@functools.cache
def session_of(path, graph):
    return onnxruntime.InferenceSession(model_of(path, graph).SerializeToString(), providers=["CPUExecutionProvider"])


def run_torch(path, graph, inputs):
    network, _ = load_network(path)
    with torch.no_grad():
        found = LevelGraph(network, graph)(**{name: torch.from_numpy(own) for name, own in inputs.items()})
    return [part.numpy() for part in found]


def assert_same(found, expected):
    """Weights and veils agree; logits may be large and differ harmlessly."""
    for name, one, other in zip(OUTPUTS, found, expected, strict=True):
        if name == "logits":
            one, other = (torch.from_numpy(part).softmax(dim=0).numpy() for part in (one, other))
            assert other.std() > 0.01
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=0, err_msg=name)


class ShippedProgram:
    """What torch.onnx.export would return, without the minute that it takes: always the shipped network."""

    def __init__(self, graph, *_, **__):
        self.model_proto = model_of(WEIGHTS / "ips.onnx", graph.kind)


@pytest.fixture
def quick_export(monkeypatch):
    monkeypatch.setattr(torch.onnx, "export", ShippedProgram)
    # The two small ones of the proofs are enough for a test.
    monkeypatch.setattr(onnx_export, "PROOFS", ((2, 64, 96), (12, 40, 40)))


@pytest.fixture(scope="module")
def other_weights(tmp_path_factory):
    """A small network that is not the shipped one."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = StackNetworkConfig(
            channels=8, middle_channels=8, token_channels=8, mamba_blocks=1, heads=2, state=4, veil_channels=4
        )
        network = StackNetwork(config)
        for layer in (network.prior_stem, network.veil_second, network.refiner.veil_second):
            torch.nn.init.normal_(layer.weight, std=0.3)
        for layer in (network.head, network.refiner.head):
            torch.nn.init.normal_(layer.weight, std=2.0)  # decided, not even
    path = tmp_path_factory.mktemp("other") / "weights.safetensors"
    save_network(path, network, {})
    return path


# The shipped file


@pytest.mark.parametrize("graph", GRAPH_KEYS)
@pytest.mark.parametrize(("sources", "height", "width"), SIZES)
def test_the_shipped_onnx_computes_what_the_shipped_weights_compute(graph, sources, height, width):
    inputs = random_inputs(graph, sources, height, width)
    found = session_of(WEIGHTS / "ips.onnx", graph).run(None, inputs)
    assert found[0].shape == (sources, height, width)
    assert_same(found, run_torch(WEIGHTS / "ips.safetensors", graph, inputs))


@pytest.mark.parametrize("graph", GRAPH_KEYS)
def test_the_graphs_have_their_inputs_and_outputs_for_any_size(graph):
    session = session_of(WEIGHTS / "ips.onnx", graph)
    assert [entry.name for entry in session.get_inputs()] == list(graph_inputs(graph))
    assert [entry.name for entry in session.get_outputs()] == list(OUTPUTS)
    sources, channels, height, width = session.get_inputs()[0].shape
    assert channels == 3
    assert not any(isinstance(side, int) for side in (sources, height, width))


@pytest.mark.parametrize("kind", ["context", "refine"])
def test_where_no_picture_ends_the_inner_graphs_say_what_the_others_do(kind):
    inputs = random_inputs(kind, 3, 48, 72)
    inputs["inside"] = np.ones_like(inputs["inside"])
    expected = session_of(WEIGHTS / "ips.onnx", kind).run(None, inputs)
    inner = {name: inputs[name] for name in graph_inputs(f"inner-{kind}")}
    assert_same(session_of(WEIGHTS / "ips.onnx", f"inner-{kind}").run(None, inner), expected)
    above = inference.Above(inputs["behind"], inputs["veil_above"])
    for size in (None, (48, 72)):
        found = inference.run_level(
            inputs["frames"], above, device="cpu", threads=1, refine=kind == "refine", size=size
        )
        assert_same(found, expected)


def test_the_shipped_file_holds_every_tensor_once():
    file = onnx.load(WEIGHTS / "ips.onnx")
    within = [entry.value for entry in file.metadata_props if entry.key in GRAPH_KEYS.values()]
    graphs = [file.graph, *(onnx.load_from_string(base64.b64decode(part)).graph for part in within)]
    assert len(graphs) == len(GRAPH_KEYS)
    held = [(tuple(own.dims), own.data_type, own.raw_data) for graph in graphs for own in graph.initializer]
    assert len(held) == len(set(held))
    names = [own.name for graph in graphs for own in graph.initializer]
    assert len(names) == len(set(names))


def test_a_graph_whose_tensors_nobody_has_is_no_network(tmp_path):
    file = onnx.load(WEIGHTS / "ips.onnx")
    del file.graph.initializer[:]
    path = tmp_path / "bare.onnx"
    path.write_bytes(file.SerializeToString())
    inputs = random_inputs("whole", 2, 16, 16)
    with pytest.raises(InputError, match=r"bare\.onnx: is no ONNX file that can be run"):
        inference.run_level(inputs["frames"], None, device="cpu", threads=1, weights=str(path))
    del file.metadata_props[:]
    path.write_bytes(file.SerializeToString())
    with pytest.raises(InputError, match=r"bare\.onnx: is not a network of this version"):
        inference.run_level(inputs["frames"], None, device="cpu", threads=1, weights=str(path))


# Exporting


@pytest.mark.slow
def test_an_exported_network_computes_what_torch_computes_and_can_be_fused_with(other_weights, tmp_path):
    """Really exported, once: a small network, for which it takes long enough."""
    output = tmp_path / "small.onnx"
    report = export_onnx(other_weights, output)
    network, _ = load_network(other_weights)
    assert isinstance(report, ExportReport)
    assert report.path == output
    assert 0 <= report.largest_difference <= 1e-4
    assert report.opset >= 18
    assert report.parameters == sum(parameter.numel() for parameter in network.parameters())
    assert [file.name for file in tmp_path.iterdir()] == ["small.onnx"]
    for graph in GRAPH_KEYS:
        for size in SIZES:
            inputs = random_inputs(graph, *size)
            expected = run_torch(other_weights, graph, inputs)
            assert_same(session_of(output, graph).run(None, inputs), expected)
            above = None if graph == "whole" else inference.Above(inputs["behind"], inputs["veil_above"])
            found = inference.run_level(
                inputs["frames"],
                above,
                device="cpu",
                threads=1,
                weights=str(output),
                refine=graph.endswith("refine"),
                size=(size[1] - size[0], size[2] - 1) if "inside" in inputs else None,
            )
            assert_same(found, expected)


def test_a_run_folder_is_taken_for_its_weights(quick_export, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(WEIGHTS / "ips.safetensors", run / "weights.safetensors")
    report = export_onnx(run, tmp_path / "model.onnx")
    assert report.largest_difference <= 1e-4
    assert report.parameters == 313_522
    for graph in GRAPH_KEYS:
        assert model_of(tmp_path / "model.onnx", graph) == model_of(WEIGHTS / "ips.onnx", graph)


def test_a_network_that_computes_something_else_is_refused(quick_export, other_weights, tmp_path):
    with pytest.raises(
        ExportError, match=r"weights\.safetensors: ONNX differs from torch by .*; the tolerance is 0\.0001"
    ):
        export_onnx(other_weights, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("graph", GRAPH_KEYS)
def test_each_graph_is_proved(quick_export, monkeypatch, tmp_path, graph):
    measure = onnx_export._largest_difference
    monkeypatch.setattr(
        onnx_export, "_largest_difference", lambda own, model: 0.5 if own.kind == graph else measure(own, model)
    )
    with pytest.raises(ExportError, match=r"differs from torch by 5\.00e-01"):
        export_onnx(WEIGHTS / "ips.safetensors", tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", range(len(OUTPUTS)), ids=OUTPUTS)
def test_a_difference_in_any_output_is_found(monkeypatch, output):
    class Session:
        def __init__(self, *_, **__):
            self.session = shipped

        def run(self, names, feed):
            found = self.session.run(names, feed)
            # One value, and not the same for all sources, or the weights would stay as they are.
            found[output][(0,) * found[output].ndim] += 3
            return found

    shipped = session_of(WEIGHTS / "ips.onnx", "context")
    network, _ = load_network(WEIGHTS / "ips.safetensors")
    model = graph_of((WEIGHTS / "ips.onnx").read_bytes(), "context")
    monkeypatch.setattr(onnx_export, "PROOFS", ((2, 64, 96),))
    assert onnx_export._largest_difference(LevelGraph(network, "context"), model) < 1e-4
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    assert onnx_export._largest_difference(LevelGraph(network, "context"), model) > 1e-2


def test_a_failed_proof_keeps_the_file_that_was_there(quick_export, monkeypatch, tmp_path):
    output = tmp_path / "model.onnx"
    output.write_bytes(b"the one before")
    monkeypatch.setattr(onnx_export, "TOLERANCE", -1.0)
    with pytest.raises(ExportError, match="differs"):
        export_onnx(WEIGHTS / "ips.safetensors", output, overwrite=True)
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
