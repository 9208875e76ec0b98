"""Scripts as modules, and the command as a program: what tests need of files that are in no package."""

import importlib.util
import os
import shlex
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load_script(path: str | Path, *, name: str | None = None) -> ModuleType:
    """A script of this tree, run anew as a module; it finds the scripts beside it, as when it is started.

    Args:
        path: As seen from the top of the tree, such as ``benchmarks/results.py``.
        name: Of the module; by default that of the file.
    """
    spec = importlib.util.spec_from_file_location(name or Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up, and one script the other
    beside = str((ROOT / path).parent)
    sys.path.insert(0, beside)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(beside)
    return module


def write_program(path: Path) -> Path:
    """Writes ``allfocus`` as a program that other programs can start, with all that these tests can import."""
    words = ["/usr/bin/env", f"PYTHONPATH={os.pathsep.join(sys.path)}", sys.executable, "-m", "allfocus.cli"]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)
    return path
