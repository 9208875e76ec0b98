"""Where numbers come from: the commit, the versions and the machine that go into every result file."""

import importlib
import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

from allfocus.machine import usable_cores

PACKAGES = ("numpy", "opencv-python-headless", "Pillow", "onnxruntime", "torch")
"""Those whose version can change a number."""


def describe_origin() -> dict[str, Any]:
    """Commit, versions and machine as a dictionary that JSON can hold.

    Example:
        >>> sorted(describe_origin())
        ['commit', 'machine', 'modified', 'versions']
    """
    commit, modified = _commit()
    return {"commit": commit, "modified": modified, "versions": _versions(), "machine": _machine()}


def _commit() -> tuple[str | None, bool | None]:
    """The commit of the checkout this code runs from and whether files differ from it; None for an installed copy."""
    here = Path(__file__).resolve()
    # An environment may lie inside somebody else's repository: only one that tracks this very file is ours.
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return None, None
    commit = _git(here.parent, "rev-parse", "HEAD")
    changes = _git(here.parents[1], "status", "--porcelain", "--", str(here.parents[1]))
    return commit, bool(changes)


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _versions() -> dict[str, str]:
    # Asked for by name: the package itself lies above this module in the order of imports.
    own: str = importlib.import_module("allfocus").__version__
    versions = {"allfocus": own, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": usable_cores(),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
