"""What this machine and this installation offer, which of it is used, and why: for ``allfocus doctor``."""

import importlib.util
import os
import platform
import re
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

from allfocus.datasets.catalogue import dataset_catalogue
from allfocus.errors import AllfocusError
from allfocus.fusion.accelerators import ACCELERATORS, cache_file, installed_providers
from allfocus.fusion.devices import DEVICES
from allfocus.fusion.inference import accelerators_here, judge_device
from allfocus.fusion.methods import method_catalogue
from allfocus.images.memory import available_memory
from allfocus.machine import cache_folder, processor_count, usable_cores
from allfocus.metrics.catalogue import metric_catalogue
from allfocus.plugins import DATASETS_GROUP, METHODS_GROUP, METRICS_GROUP, Catalogue
from allfocus.version import __version__

DEVELOPERS_OWN = "dev"
"""The extra that users need not know of."""


def diagnose(*, fresh: bool = False) -> dict[str, Any]:
    """Everything there is to know before asking for help, as plain values.

    Args:
        fresh: Compare accelerators with the processor again, instead of remembering what came of it before.
    """
    return {
        "allfocus": {"version": __version__, "place": os.path.dirname(os.path.abspath(__file__))},
        "python": {"version": platform.python_version(), "program": sys.executable, "system": platform.platform()},
        "processor": {
            "cores": os.cpu_count(),
            "usable": usable_cores(),
            "threads": processor_count(),
            "free_memory": available_memory(),
        },
        "packages": {name: _version(name) for name in _needed("")},
        "extras": _extras(),
        "providers": installed_providers(),
        "devices": _devices(fresh=fresh),
        "plugins": _plugins(),
        "places": {"cache": str(cache_folder()), "accelerators": str(cache_file())},
    }


def _devices(*, fresh: bool) -> dict[str, dict[str, Any]]:
    """Each device with its state: used by ``auto``, possible, or why not."""
    tried = accelerators_here()
    verdicts = {name: judge_device(name, fresh=fresh) for name in tried}
    used = next((name for name in tried if verdicts[name].is_worth_it), "cpu")
    found: dict[str, dict[str, Any]] = {}
    for name in tried:
        verdict = verdicts[name]
        found[name] = {
            "installed": True,
            "works": verdict.is_right,
            "used": name == used,
            "why": verdict.reason,
            "difference": verdict.difference,
        }
    why = "nothing faster is there" if not tried else "what else is there is slower, or gives other results"
    found["cpu"] = {
        "installed": True,
        "works": True,
        "used": used == "cpu",
        "why": why if used == "cpu" else f"{used} is used",
    }
    for name, one in ACCELERATORS.items():
        if any(own.partition("-")[0] == name for own in found):
            continue
        lacks = f"not installed; for {DEVICES[name]}: {one.install}"
        why = lacks if one.provider is None else f"installed, but there is no sign of {DEVICES[name]}"
        found[name] = {"installed": one.provider is not None, "works": False, "used": False, "why": why}
    return found


def _plugins() -> list[dict[str, Any]]:
    """What other packages offer: its group, name and package, and why it is not used where it is not."""
    found: list[dict[str, Any]] = []
    tables: dict[str, Callable[[], Catalogue[Any]]] = {
        METHODS_GROUP: method_catalogue,
        METRICS_GROUP: metric_catalogue,
        DATASETS_GROUP: dataset_catalogue,
    }
    for group, table in tables.items():
        try:
            catalogue = table()
        except AllfocusError as error:  # one that cannot be loaded: none of the group is used
            found.append({"group": group, "used": False, "why": str(error), "code": error.code})
            continue
        for name, package in catalogue.packages.items():
            found.append({"group": group, "name": name, "package": package, "used": True})
        for reason in catalogue.passed_over:
            told = {name: reason.parameters[name] for name in ("group", "name", "package")}
            found.append({**told, "used": False, "why": str(reason), "code": reason.code})
    return found


def _extras() -> dict[str, dict[str, Any]]:
    """Each extra with its packages (None for those that are missing) and how to install it."""
    found = {}
    for extra in _extra_names():
        packages = {name: _version(name) for name in _needed(extra)}
        present = all(version is not None for version in packages.values())
        found[extra] = {"present": present, "packages": packages, "install": f"pip install 'allfocus[{extra}]'"}
    return found


def _extra_names() -> list[str]:
    try:
        names = metadata.metadata("allfocus").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:  # a source tree that was not installed
        names = []
    return [str(name) for name in names if name != DEVELOPERS_OWN]


def _needed(extra: str) -> list[str]:
    """Names of the packages that the core needs, or an extra."""
    try:
        requirements = metadata.requires("allfocus") or []
    except metadata.PackageNotFoundError:
        return []
    names = []
    for text in requirements:
        found = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", text)
        if (found[1] if found else "") == extra:
            names.append(re.split(r"[^\w.-]", text, maxsplit=1)[0])
    return names


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        # Packages for other hardware bring the same module under another name, such as onnxruntime-gpu.
        if name != "onnxruntime" or importlib.util.find_spec(name) is None:
            return None
        import onnxruntime

        return str(onnxruntime.__version__)
