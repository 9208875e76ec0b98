"""The page about methods, metrics and data sets of one's own is run as it stands."""

import csv
import os
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest

from allfocus.images.reading import read_image
from allfocus.images.writing import write_image
from allfocus.scenes.rendering import render_scene

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8").partition("\n## A method")[0]


def block(kind):
    """The only block of a kind in the part of the page that is run."""
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package as pip leaves it: the module, and beside it what it offers."""
    folder = tmp_path_factory.mktemp("packages")
    project = tomllib.loads(block("toml"))["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    (folder / f"{name}.py").write_text(block("python"))
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{entry} = {place}\n" for entry, place in entries.items())
        for group, entries in project["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    return folder


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """Where the commands are run: pictures of two scenes."""
    folder = tmp_path_factory.mktemp("work")
    for name in ("desk", "slope"):
        for frame, end in zip(render_scene(name, frames=2, size=(72, 96)).frames, ("near", "far"), strict=True):
            (folder / "pictures").mkdir(exist_ok=True)
            write_image(frame, folder / "pictures" / f"{name}_{end}.png")
    return folder


def test_every_command_of_the_page_does_what_it_says(run_command, installed, workplace):
    install, *commands = [shlex.split(line) for line in block("sh").splitlines()]
    assert install[:2] == ["pip", "install"]
    search = os.pathsep.join((str(installed), str(ROOT / "src")))
    printed = {}
    for program, command, *arguments in commands:
        assert program == "allfocus"
        done = run_command(command, *arguments, cwd=workplace, environment={"PYTHONPATH": search})
        assert done.returncode == 0, done.stderr
        printed[command] = done.stdout
    assert list(printed) == ["methods", "fuse", "evaluate"]
    assert "brightest\n  does   The brightest of all frames." in re.sub(r"  does +", "  does   ", printed["methods"])
    near, far, fused = (
        read_image(workplace / name).pixels for name in ("pictures/desk_near.png", "pictures/desk_far.png", "fused.png")
    )
    assert fused.mean() >= max(near.mean(), far.mean())
    rows = list(csv.DictReader((workplace / "results" / "results.csv").read_text().splitlines()))
    assert [(row["dataset"], row["picture"], row["method"]) for row in rows] == [
        ("my-pairs", picture, method) for picture in ("desk", "slope") for method in ("brightest", "average")
    ]
    assert all(np.isfinite(float(row["CONTRAST"])) for row in rows)
