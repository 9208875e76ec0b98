"""The public names are a checked-in list: removing one is a visible act."""

import importlib
import tomllib
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


def test_the_entry_point_in_pyproject_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["allfocus"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_the_core_does_not_depend_on_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not any(requirement.startswith(("torch", "scipy")) for requirement in project["dependencies"])
