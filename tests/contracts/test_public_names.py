"""The public names are a checked-in list: removing one is a visible act."""

import ast
import importlib
import inspect
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import allfocus

ROOT = Path(__file__).resolve().parents[2]

PUBLIC_NAMES = [
    "AlignedFiles",
    "AlignmentResult",
    "AllfocusError",
    "Dimensions",
    "EvaluationResult",
    "FuseOptions",
    "FuseOutputs",
    "FusedMaps",
    "FusionResult",
    "Image",
    "ImageStack",
    "InputError",
    "LostDetail",
    "MeasuredDepth",
    "Method",
    "MissingDependencyError",
    "OutputError",
    "ReliefOptions",
    "StackAlignment",
    "StackFile",
    "__version__",
    "align",
    "align_files",
    "evaluate",
    "export_onnx",
    "fuse",
    "fuse_files",
    "fuse_planes",
    "fuse_stacks",
    "list_methods",
    "measure_depth",
    "measure_lost_detail",
    "open_stack_file",
    "read_image",
    "read_recipe",
    "read_stack",
    "render_scene",
    "score",
    "train",
    "write_image",
    "write_relief",
]

COMMANDS = [
    "align",
    "batch",
    "benchmark",
    "completion",
    "datasets",
    "demo",
    "desktop-entry",
    "doctor",
    "evaluate",
    "export",
    "export-project",
    "fuse",
    "info",
    "man",
    "methods",
    "metrics",
    "open",
    "presets",
    "relief",
    "scene",
    "score",
    "serve",
    "train",
]


def test_the_public_names_are_the_list_above():
    assert sorted(allfocus.__all__) == PUBLIC_NAMES
    assert dir(allfocus) == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_loads_and_is_documented(name):
    if name in ("export_onnx", "read_recipe", "train"):
        pytest.importorskip("torch", reason="needs the extra train")
    value = getattr(allfocus, name)
    assert name == "__version__" or value.__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="fuze"):
        allfocus.fuze  # noqa: B018


def test_the_commands_are_the_list_above():
    from allfocus.cli.main import allfocus as group

    assert sorted(group.commands) == COMMANDS


def test_a_network_runs_on_the_same_device_unless_told_whoever_asks():
    from allfocus.cli.main import allfocus as group

    functions = {name: getattr(allfocus, name) for name in ("FuseOptions", "evaluate", "fuse", "fuse_planes")}
    values = {name: inspect.signature(function).parameters["device"].default for name, function in functions.items()}
    values |= {
        f"allfocus {name}": option.default
        for name, command in group.commands.items()
        for option in command.params
        if option.name == "device"
    }
    assert {name: value for name, value in values.items() if value != "auto"} == {}
    assert len(values) == 10


SHARED = {
    "rename_tensors": "each network of the literature has its own, which its entry in the table names",
    "unveil": "the same in NumPy and in torch",
}
"""Names that several modules give to what they export, with the reason; besides commands, which are named after the
function that they call."""


def test_a_name_means_one_thing():
    homes = Counter(
        node.name
        for path in (ROOT / "src/allfocus").rglob("*.py")
        if path.parent.name != "cli"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in homes.items() if count > 1} == SHARED.keys()


def test_the_entry_point_in_pyproject_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["allfocus"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_core_does_not_depend_on_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(requirement.startswith(("torch", "scipy")) for requirement in project["dependencies"])
