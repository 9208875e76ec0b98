"""The manifest of the plug-in is one that napari takes, and names what is there."""

import importlib
import tomllib
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own
    npe2 = pytest.importorskip("npe2", reason="needs the extra dev")

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def manifest():
    return npe2.PluginManifest.from_file(ROOT / "src" / "allfocus" / "napari_plugin" / "napari.yaml")


def test_the_package_points_to_the_manifest(manifest):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entry = project["entry-points"]["napari.manifest"][project["name"]]
    module, name = entry.split(":")
    assert (ROOT / "src" / Path(*module.split(".")) / name).is_file()
    assert manifest.name == project["name"]


def test_all_that_the_manifest_names_is_there(manifest):
    commands = {command.id: command.python_name for command in manifest.contributions.commands}
    used = [*manifest.contributions.readers, *manifest.contributions.widgets, *manifest.contributions.sample_data]
    assert {each.command for each in used} == commands.keys()
    for name in commands.values():
        module, attribute = name.split(":")
        if module.endswith("widget") and find_spec("napari") is None:
            assert f"class {attribute}(" in Path(ROOT, "src", *module.split(".")).with_suffix(".py").read_text()
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # napari's own
            assert callable(getattr(importlib.import_module(module), attribute))
