"""Training machines have torch, numpy, Pillow and safetensors; nothing else of ours may be needed there."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

SCRIPT = """
import importlib.machinery, sys

ABSENT = {"cv2", "click", "rich", "onnxruntime", "onnx", "scipy", "tifffile", "imagecodecs"}

class Bare(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Bare
try:
    import cv2
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("the packages are not hidden, so this would prove nothing")

import pkgutil
from pathlib import Path
import allfocus.network, allfocus.rivals, allfocus.training

for package in (allfocus.network, allfocus.rivals, allfocus.training):
    for module in pkgutil.iter_modules(package.__path__):
        # Triton exists on GPU machines only; the export runs where the onnx packages are.
        if module.name not in ("triton_convolution", "triton_scan", "triton_scan_kernels", "onnx_export"):
            importlib.import_module(f"{package.__name__}.{module.name}")

from allfocus.training.recipe import read_recipe
from allfocus.training.loop import train

photos, run, recipe = map(Path, sys.argv[1:4])
weights = train(photos, run, recipe=read_recipe(recipe, sys.argv[4:]), device="cpu")
assert weights.is_file()
assert not ABSENT & set(sys.modules), ABSENT & set(sys.modules)
"""

SMALL = (
    "data.licence_classes=[]",
    "data.held_out_every=5",
    "data.crop=32",
    "data.batch=5",
    "optimizer.iterations=1",
    "log.validation_samples=1",
    "stack_network.channels=4",
    "stack_network.middle_channels=4",
    "stack_network.token_channels=4",
    "stack_network.mamba_blocks=1",
    "stack_network.veil_channels=4",
)


def test_a_training_step_needs_torch_numpy_pillow_and_safetensors_only(photo_folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, photo_folder, tmp_path / "run", ROOT / "recipes" / "ips.toml", *SMALL],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"},
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
