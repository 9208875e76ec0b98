"""What allfocus stands on: pins of the tested versions, their licences, and the bill of materials of a wheel.

    python tools/supply.py constraints    writes constraints.txt
    python tools/supply.py licences       writes docs/dependencies.md
    python tools/supply.py sbom WHEEL     writes WHEEL's bill of materials (CycloneDX 1.5) beside it, as .cdx.json

All three describe the environment whose Python runs this, which must hold `.[train,raw,heif,web,batch,film,docs,dev]`.
The first two want the oldest Python that allfocus runs on: newer ones lack packages that it needs there.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("train", "rivals", "raw", "heif", "web", "batch", "film", "docs", "dev")
"""What `make test` installs."""
NOT_PINNED = {"pip", "setuptools"}
"""Every environment brings its own."""
OTHER_PINS = {"ome-zarr-models": ("3.14", "1.8.1"), "pydantic-zarr": ("3.14", "0.10.0")}
"""From which Python on a package has another pin, because no version of it runs on all of them."""
READ_IN_THE_PACKAGE = {
    "av": "BSD-3-Clause; in its wheel FFmpeg: LGPL-3.0-or-later, x264 and x265: GPL-2.0-or-later",
    "axe-playwright-python": "MIT; axe-core in it: MPL-2.0",
    "pillow-heif": "BSD-3-Clause; in its wheel libheif and libde265: LGPL-3.0-or-later, x265: GPL-2.0-or-later",
}
"""Licences of packages that declare none but carry the text of one, or hold libraries under stricter ones."""


@dataclass
class Package:
    """A distribution that is needed, at the version that is installed here."""

    name: str
    version: str
    licence: str
    groups: set[str] = field(default_factory=set)
    """`core`, or the extras that need it."""
    needs: set[str] = field(default_factory=set)
    """Normalised names of what it needs itself."""

    @property
    def groups_in_words(self) -> str:
        """`core` for what is always installed, otherwise the extras."""
        return "core" if "core" in self.groups else ", ".join(name for name in EXTRAS if name in self.groups)


def licence_of(headers: Message) -> str:
    """The licence as its authors declare it: expression, else classifiers, else the first line of the field."""
    if expression := headers.get("License-Expression"):
        return str(expression)
    classifiers = [str(text).split(" :: ") for text in headers.get_all("Classifier", [])]
    named = [parts[-1] for parts in classifiers if parts[0] == "License" and parts[-1] != "OSI Approved"]
    if named:
        return "; ".join(named)
    lines = str(headers.get("License", "")).strip().splitlines()
    return lines[0].strip() if lines else "not declared"


def headers_of(installed: metadata.Distribution) -> Message:
    """The headers of an installed distribution, without its description."""
    return HeaderParser().parsestr(installed.read_text("METADATA") or "")


def applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Whether a requirement counts on this machine, for a package installed with these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def project_requirements() -> list[Requirement]:
    """What pyproject.toml asks for; extras are markers, as in the metadata of a wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = list(project["dependencies"])
    for extra, wanted in extras.items():
        for text in wanted:
            bare, _, marker = text.partition(";")
            lines.append(f"{bare}; ({marker}) and extra == '{extra}'" if marker else f"{bare}; extra == '{extra}'")
    return [Requirement(line) for line in lines]


def closure(requirements: list[Requirement]) -> dict[str, Package]:
    """All packages that the requirements need on this machine, by normalised name, sorted."""
    found: dict[str, Package] = {}
    for group in ("core", *EXTRAS):
        # Once with and once without the extra: what only the former has belongs to the extra.
        wanted = [one for one in requirements if applies(one, [] if group == "core" else [group])]
        if group != "core":
            wanted = [one for one in wanted if not applies(one, [])]
        seen: set[tuple[str, str]] = set()
        while wanted:
            one = wanted.pop()
            key = canonicalize_name(one.name)
            fresh = {(key, extra) for extra in ("", *one.extras)} - seen
            if not fresh:
                continue
            seen |= fresh
            try:
                installed = metadata.distribution(one.name)
            except metadata.PackageNotFoundError:
                sys.exit(f"{one.name} is not installed here; pip install -e '.[{','.join(EXTRAS)}]' and try again")
            headers = headers_of(installed)
            if key not in found:
                licence = READ_IN_THE_PACKAGE.get(key) or licence_of(headers)
                # A local version, such as 2.13.0+cpu, names a build of one index; 2.13.0 is what is asked for.
                found[key] = Package(str(headers["Name"]), Version(installed.version).public, licence)
            found[key].groups.add(group)
            own = [Requirement(text) for text in installed.requires or []]
            own = [text for text in own if applies(text, one.extras)]
            found[key].needs |= {canonicalize_name(text.name) for text in own}
            wanted += own
    return dict(sorted(found.items()))


def pinned_packages() -> dict[str, Package]:
    """All that pyproject.toml needs on the oldest Python, without what every environment brings itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = str(project["requires-python"]).removeprefix(">=")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if here != oldest:
        sys.exit(f"the pins are those of Python {oldest}, this is {here}; run it with the oldest that allfocus runs on")
    return {key: one for key, one in closure(project_requirements()).items() if key not in NOT_PINNED}


def pins_of(key: str, version: str) -> list[str]:
    """The lines of a package in constraints.txt."""
    if key not in OTHER_PINS:
        return [f"{key}=={version}"]
    python, other = OTHER_PINS[key]
    return [f'{key}=={version}; python_version < "{python}"', f'{key}=={other}; python_version >= "{python}"']


def version_in_words(key: str, version: str) -> str:
    """The version of a package in the table; both where a newer Python has another."""
    if key not in OTHER_PINS:
        return version
    python, other = OTHER_PINS[key]
    return f"{version}; from Python {python} on {other}"


def write_constraints(target: Path = ROOT / "constraints.txt") -> Path:
    """Writes a pin for every package."""
    lines = [
        f"# The versions that were tested, for the core and the extras {', '.join(EXTRAS)}.",
        "# Made by: python tools/supply.py constraints",
        *(line for key, one in pinned_packages().items() for line in pins_of(key, one.version)),
    ]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target


def write_licences(target: Path = ROOT / "docs" / "dependencies.md") -> Path:
    """Writes the table of packages and their licences."""
    cells = [
        (one.name, version_in_words(key, one.version), one.groups_in_words, one.licence.replace("|", "/"))
        for key, one in pinned_packages().items()
    ]
    rows = [f"| {' | '.join(row)} |" for row in cells]
    text = """# Dependencies

The packages that allfocus was tested with, those they need in turn included, at the versions that
[constraints.txt](../constraints.txt) pins. *Needed by* says `core` for what is always installed, otherwise the extras
that bring it; `dev` is for working on allfocus only. The licence is what the package itself declares; a wheel may hold
libraries with licences of their own, which it lists in its `dist-info` folder. Not in the table: `setuptools`, which
torch needs in any version from 77 on, the extra `napari`, and what other systems need besides, such as CUDA for
torch.

Made by `python tools/supply.py licences`.

| package | version | needed by | licence |
|---|---|---|---|
"""
    target.write_text(text + "\n".join(rows) + "\n", encoding="utf-8")
    return target


def licence_entry(licence: str) -> list[dict[str, Any]]:
    """The licence in the words of CycloneDX: an expression of SPDX if it is one, otherwise a name."""
    try:
        return [{"expression": str(canonicalize_license_expression(licence))}]
    except InvalidLicenseExpression:
        return [] if licence == "not declared" else [{"license": {"name": licence}}]


def package_url(name: str, version: str) -> str:
    """The address of a package of PyPI in an SBOM."""
    return f"pkg:pypi/{canonicalize_name(name)}@{version}"


def read_wheel_headers(wheel: Path) -> Message:
    """The metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        if len(names) != 1:
            sys.exit(f"{wheel} is no wheel: it has {len(names)} METADATA files instead of one")
        return HeaderParser().parsestr(archive.read(names[0]).decode("utf-8"))


def write_sbom(wheel: Path) -> Path:
    """Writes the bill of materials of a wheel beside it; the same wheel and environment give the same bytes."""
    headers = read_wheel_headers(wheel)
    name, version = str(headers["Name"]), str(headers["Version"])
    requirements = [Requirement(str(text)) for text in headers.get_all("Requires-Dist", [])]
    packages = closure(requirements)
    urls = {key: package_url(one.name, one.version) for key, one in packages.items()}
    root = package_url(name, version)
    direct = {canonicalize_name(one.name) for one in requirements if applies(one, EXTRAS)}

    def scope(groups: set[str]) -> str:
        if "core" in groups:
            return "required"
        return "excluded" if groups == {"dev"} else "optional"

    def depends(reference: str, needs: Iterable[str]) -> dict[str, Any]:
        return {"ref": reference, "dependsOn": sorted(urls[key] for key in needs)}

    about: dict[str, Any] = {
        "component": {
            "type": "application",
            "bom-ref": root,
            "name": name,
            "version": version,
            "purl": root,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}],
            "licenses": licence_entry(licence_of(headers)),
            "properties": [{"name": "allfocus:wheel", "value": wheel.name}],
        }
    }
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        about["timestamp"] = datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": about,
        "components": [
            {
                "type": "library",
                "bom-ref": urls[key],
                "name": one.name,
                "version": one.version,
                "scope": scope(one.groups),
                "purl": urls[key],
                "licenses": licence_entry(one.licence),
            }
            for key, one in packages.items()
        ],
        "dependencies": [depends(root, direct), *(depends(urls[key], one.needs) for key, one in packages.items())],
    }
    target = wheel.with_suffix(".cdx.json")
    target.write_text(json.dumps(bill, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return target


def main() -> None:
    """Runs the command line."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("constraints")
    commands.add_parser("licences")
    commands.add_parser("sbom").add_argument("wheel", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "sbom":
        written = write_sbom(chosen.wheel)
    else:
        written = write_constraints() if chosen.command == "constraints" else write_licences()
    print(written)


if __name__ == "__main__":
    main()
