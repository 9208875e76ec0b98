"""A machine without torch: everything but the paper's and the rivals' networks fuses; those name what to install."""

import os
import subprocess
import sys
from pathlib import Path

from allfocus.fusion.methods import METHODS
from allfocus.rivals.catalogue import RIVALS

ROOT = Path(__file__).resolve().parents[2]

CODE = """
import sys

sys.modules["torch"] = None  # "import torch" now fails as if it were not installed

import numpy as np
import allfocus

frames = [np.random.default_rng(seed).random((24, 32, 3), dtype=np.float32) for seed in (0, 1)]
for method in allfocus.list_methods():
    try:
        assert allfocus.fuse(frames, method=method.name).image.shape == (24, 32, 3)
        print("fused", method.name)
    except allfocus.MissingDependencyError as error:
        print("refused", method.name, error)
"""


def test_all_methods_but_those_in_torch_fuse_without_it():
    search = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": search, "PYTHONWARNINGS": "error"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    core = {f"fused {name}" for name, method in METHODS.items() if not method.extra}
    assert {"fused ips", "fused average"} < core <= set(lines)
    refused = [line for line in lines if line.startswith("refused")]
    assert [line.split()[1] for line in refused] == ["ips-paper", *(rival.name for rival in RIVALS)]
    assert "allfocus[train]" in refused[0]
    assert all("allfocus[rivals]" in line for line in refused[1:])
