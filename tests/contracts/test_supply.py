"""What is pinned is what is asked for, every pin's licence is listed, and a wheel's bill of materials is true."""

import hashlib
import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENTS = {
    text: Requirement(text)
    for group in (
        PROJECT["dependencies"],
        *(wanted for extra, wanted in PROJECT["optional-dependencies"].items() if extra != "napari"),
    )
    for text in group
}


PYTHONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))


def read_pins(python: str) -> dict[str, str]:
    """The version of every package on one Python."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    here = [pin for pin in pins if pin.marker is None or pin.marker.evaluate({"python_version": python})]
    versions = {pin.name: str(pin.specifier).removeprefix("==") for pin in here}
    assert len(here) == len(versions), f"a package has two pins on Python {python}"
    return versions


@pytest.fixture(scope="module")
def supply():
    return load_script("tools/supply.py")


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "tiny-1.2-py3-none-any.whl"
    lines = [
        "Metadata-Version: 2.4",
        "Name: tiny",
        "Version: 1.2",
        "License-Expression: Apache-2.0",
        "Requires-Dist: rich>=13",
        "Requires-Dist: pytest; extra == 'dev'",
        "Requires-Dist: no-such-package; extra == 'no-such-extra'",
        "Requires-Dist: no-such-package; sys_platform == 'no-such-platform'",
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny-1.2.dist-info/METADATA", "\n".join(lines) + "\n\nThe description.\n")
    return path


def test_pins_are_names_and_exact_versions_only():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    other = r'(; python_version (<|>=) "3\.\d+")?'
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*" + other, line) for line in pins)
    assert len(pins) == len(set(pins))
    assert pins == sorted(pins, key=lambda line: line.split("==")[0])
    names = read_pins(PYTHONS[0]).keys()
    assert not {"allfocus", "pip", "setuptools"} & names
    assert all(read_pins(python).keys() == names for python in PYTHONS)


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_every_requirement_has_a_pin_that_satisfies_it(text):
    for python in PYTHONS:
        pin = read_pins(python).get(canonicalize_name(REQUIREMENTS[text].name))
        assert pin is not None, "run python tools/supply.py constraints"
        assert REQUIREMENTS[text].specifier.contains(pin)


def test_the_page_of_dependencies_lists_exactly_the_pins_each_with_a_licence():
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "][1:]
    oldest, newest = read_pins(PYTHONS[0]), read_pins(PYTHONS[-1])
    assert len(rows) == len(oldest)
    versions = {canonicalize_name(name): re.split(r"; from Python 3\.\d+ on ", text) for name, text, _, _ in rows}
    assert {name: told[0] for name, told in versions.items()} == oldest
    assert {name: told[-1] for name, told in versions.items()} == newest
    assert all(groups and licence not in ("", "not declared") for _, _, groups, licence in rows)


def test_the_bill_of_a_wheel_names_it_and_all_it_needs(supply, wheel, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    written = supply.write_sbom(wheel)
    assert written == wheel.with_name("tiny-1.2-py3-none-any.cdx.json")
    bill = json.loads(written.read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    about = bill["metadata"]["component"]
    assert (about["name"], about["version"], about["purl"]) == ("tiny", "1.2", "pkg:pypi/tiny@1.2")
    assert about["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    assert about["licenses"] == [{"expression": "Apache-2.0"}]
    components = {one["name"]: one for one in bill["components"]}
    assert {"rich", "markdown-it-py", "mdurl", "pytest", "pluggy"} <= components.keys()
    assert "no-such-package" not in components
    assert (components["mdurl"]["scope"], components["pluggy"]["scope"]) == ("required", "excluded")
    for one in components.values():
        assert one["purl"] == f"pkg:pypi/{canonicalize_name(one['name'])}@{one['version']}"
        assert one["licenses"]
    known = {about["bom-ref"], *(one["bom-ref"] for one in components.values())}
    assert {one["ref"] for one in bill["dependencies"]} == known
    assert all(set(one["dependsOn"]) <= known for one in bill["dependencies"])


def test_the_bill_of_a_wheel_is_the_same_every_time_and_dated_only_on_request(supply, wheel, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    first = supply.write_sbom(wheel).read_bytes()
    assert supply.write_sbom(wheel).read_bytes() == first
    assert "timestamp" not in json.loads(first)["metadata"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert json.loads(supply.write_sbom(wheel).read_bytes())["metadata"]["timestamp"] == "1970-01-02T00:00:00Z"


def test_a_release_installs_all_that_its_bill_lists(supply):
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    installed = re.findall(r"pip install -c constraints\.txt '\.\[([a-z,]+)\]'", text)
    assert installed == [",".join(supply.EXTRAS)]


@pytest.mark.parametrize(
    ("lines", "licence"),
    [
        (["License: old", "License-Expression: MIT", "Classifier: License :: OSI Approved :: BSD License"], "MIT"),
        (["License: old", "Classifier: License :: OSI Approved :: BSD License"], "BSD License"),
        (["License: The first line", "  the second line", "Classifier: License :: OSI Approved"], "The first line"),
        (["Classifier: Topic :: Multimedia"], "not declared"),
    ],
)
def test_the_licence_is_what_is_declared_most_exactly(supply, lines, licence):
    assert supply.licence_of(supply.HeaderParser().parsestr("\n".join(lines))) == licence
