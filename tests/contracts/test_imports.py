"""What may be imported when: the command line and classical fusion stay light, and imports go down the data flow."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEARCH = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))
HEAVY = ("torch", "cv2", "onnxruntime", "numpy", "scipy", "PIL", "tifffile")


def modules_after(code: str, *arguments: object) -> set[str]:
    """The modules that a fresh Python has loaded after running the code."""
    report = "import sys, json; print('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": SEARCH, "PYTHONWARNINGS": "error"},
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


RUN = "import sys; from allfocus.cli.main import run; assert run(sys.argv[1:]) == 0"


MOST_MODULES = 120
"""Modules that ``allfocus --help`` may load beyond those of a bare Python; 89 when this was written, 43 by click."""
MOST_TIMES_PYTHON = 14
"""CPU time of ``allfocus --help`` over that of ``python -c pass``, in one run; about 7 when this was written."""


def test_import_loads_nothing_heavy():
    assert not modules_after("import allfocus") & set(HEAVY)


@pytest.mark.parametrize(
    "command",
    [(), *[(n,) for n in ("fuse", "align", "demo", "train", "export", "scene", "methods", "evaluate", "benchmark")]],
)
def test_help_loads_nothing_heavy(command):
    assert not modules_after(RUN, *command, "--help") & set(HEAVY)


@pytest.mark.parametrize("command", [(), ("fuse",), ("benchmark",)])
def test_help_loads_few_modules(command):
    added = modules_after(RUN, *command, "--help") - modules_after("pass")
    assert len(added) <= MOST_MODULES, sorted(added)


def cpu_seconds(*arguments: str) -> float:
    """User and system time of a fresh Python."""
    with subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": SEARCH}
    ) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return usage.ru_utime + usage.ru_stime


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs the Unix count of what a child used")
def test_help_costs_little_more_than_starting_python():
    # Taken in turns and the least of each, so that a busy machine disturbs both or neither.
    pairs = [(cpu_seconds("-c", "pass"), cpu_seconds("-m", "allfocus.cli", "--help")) for _ in range(5)]
    ratio = min(own for _, own in pairs) / min(bare for bare, _ in pairs)
    assert ratio <= MOST_TIMES_PYTHON


@pytest.mark.parametrize("method", ["laplacian-pyramid", "ips"])
def test_fusing_on_a_cpu_does_not_load_torch(tmp_path, stack_folder, method):
    loaded = modules_after(RUN, "fuse", stack_folder, "-o", tmp_path / "fused.png", "--method", method)
    assert "torch" not in loaded
    assert (tmp_path / "fused.png").exists()


@pytest.mark.parametrize("command", ["methods", "metrics", "datasets"])
def test_listing_does_not_load_torch(command):
    assert "torch" not in modules_after(RUN, command)


def test_imports_go_down_the_data_flow_only():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": SEARCH},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def imported_at_the_top(path: Path) -> set[str]:
    """The packages that a module imports when it is loaded, not in its functions."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_torch_is_imported_at_the_top_of_networks_rivals_and_training_only():
    source = ROOT / "src" / "allfocus"
    with_torch = {path.relative_to(source) for path in source.rglob("*.py") if "torch" in imported_at_the_top(path)}
    assert {path.parts[0] for path in with_torch} == {"network", "rivals", "training"}
    # What lists of methods are made of must do without.
    free = {"catalogue.py", "tensorflow_checkpoint.py", "weight_files.py"}
    assert not free & {path.name for path in with_torch if path.parts[0] == "rivals"}


def test_listing_and_finding_rivals_does_not_load_torch():
    code = "from allfocus.fusion.method_choice import find_method; assert find_method('ifcnn').licence"
    assert "torch" not in modules_after(code)
