"""What a result depends on, as short texts that change when it does: files, and the code behind a method or metric.

A benchmark that goes on where it stopped reuses a result only if none of this has changed.
"""

import ast
import functools
import hashlib
import importlib.resources
import importlib.util
import json
from pathlib import Path

from allfocus.fusion.method import weights_files
from allfocus.fusion.method_choice import find_method


def file_fingerprint(path: Path) -> str:
    """The SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def combined_fingerprint(*parts: object) -> str:
    """One fingerprint of several plain values.

    Example:
        >>> combined_fingerprint("a", 1) == combined_fingerprint("a", 1) != combined_fingerprint("a", 2)
        True
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def method_fingerprint(name: str) -> str:
    """Changes when the method's code, code it imports from here, or its weights change.

    Example:
        >>> method_fingerprint("average") == method_fingerprint("wavelet")
        False
    """
    method = find_method(name)
    code = code_fingerprint(method.module) if method.module else ""
    return combined_fingerprint(name, code, [file_fingerprint(path) for path in weights_files(method)])


@functools.cache
def code_fingerprint(module: str) -> str:
    """Changes when a module, or one of ours that it imports, changes in more than comments and layout."""
    found: dict[str, str] = {}
    if not module.startswith("allfocus."):  # of another package: its file as it is
        place = importlib.util.find_spec(module)
        return file_fingerprint(Path(place.origin)) if place and place.origin and Path(place.origin).is_file() else ""
    waiting = [module]
    while waiting:
        name = waiting.pop()
        source = _source(name)
        if name in found or source is None:
            continue
        tree = ast.parse(source)
        found[name] = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                # What is imported from a package may be a module of its own.
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return combined_fingerprint(found)


def _source(module: str) -> str | None:
    """The text of a module of ours below the package itself; None for all others, and for what is no module.

    Found as a file and not by importing, because some of ours import PyTorch, which need not be there.
    """
    package, *parts = module.split(".")
    if package != "allfocus" or not parts:
        return None
    place = importlib.resources.files("allfocus").joinpath(*parts[:-1])
    for file in (place / f"{parts[-1]}.py", place / parts[-1] / "__init__.py"):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None
