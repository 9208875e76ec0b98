"""Turns a stack of partly focused pictures into one that is sharp everywhere.

The names below are the public interface; each is loaded when it is first used, so ``import allfocus`` is quick and
brings in no numerical library.

Example:
    >>> import allfocus
    >>> scene = allfocus.render_scene("desk", frames=3, size=(64, 80))
    >>> allfocus.fuse(scene.frames, method="average").image.shape
    (64, 80, 3)
"""

import os
from typing import TYPE_CHECKING

# onnxruntime makes up a device ID and sends what it runs on to its maker unless this is set when it is loaded. This
# program connects to nothing; processes that it starts take the setting over.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from allfocus.errors import AllfocusError, InputError, MissingDependencyError, OutputError

if TYPE_CHECKING:
    from allfocus.alignment.stack_alignment import AlignmentResult, StackAlignment, align
    from allfocus.batch.planes.fusion import fuse_planes
    from allfocus.batch.running import fuse_stacks
    from allfocus.depth.measurement import MeasuredDepth, measure_depth
    from allfocus.evaluation.benchmark import EvaluationResult, evaluate
    from allfocus.fusion.detail_meter import measure_lost_detail
    from allfocus.fusion.lost_detail import LostDetail
    from allfocus.fusion.maps import FusedMaps
    from allfocus.fusion.method import Method
    from allfocus.fusion.methods import list_methods
    from allfocus.fusion.stack_fusion import FusionResult, fuse
    from allfocus.images.dimensions import Dimensions
    from allfocus.images.image import Image, ImageStack
    from allfocus.images.reading import read_image
    from allfocus.images.stack_file import StackFile, open_stack_file
    from allfocus.images.stack_opening import read_stack
    from allfocus.images.writing import write_image
    from allfocus.metrics.scoring import score
    from allfocus.network.onnx_export import export_onnx
    from allfocus.relief.writing import ReliefOptions, write_relief
    from allfocus.scenes.rendering import render_scene
    from allfocus.stack.aligned_files import AlignedFiles, align_files
    from allfocus.stack.options import FuseOptions
    from allfocus.stack.outputs import FuseOutputs
    from allfocus.stack.pipeline import fuse_files
    from allfocus.training.loop import train
    from allfocus.training.recipe import read_recipe

from allfocus.version import __version__

__all__ = [
    "AlignedFiles",
    "AlignmentResult",
    "AllfocusError",
    "Dimensions",
    "EvaluationResult",
    "FuseOptions",
    "FuseOutputs",
    "FusedMaps",
    "FusionResult",
    "Image",
    "ImageStack",
    "InputError",
    "LostDetail",
    "MeasuredDepth",
    "Method",
    "MissingDependencyError",
    "OutputError",
    "ReliefOptions",
    "StackAlignment",
    "StackFile",
    "__version__",
    "align",
    "align_files",
    "evaluate",
    "export_onnx",
    "fuse",
    "fuse_files",
    "fuse_planes",
    "fuse_stacks",
    "list_methods",
    "measure_depth",
    "measure_lost_detail",
    "open_stack_file",
    "read_image",
    "read_recipe",
    "read_stack",
    "render_scene",
    "score",
    "train",
    "write_image",
    "write_relief",
]

_MODULES = {
    "AlignedFiles": "allfocus.stack.aligned_files",
    "AlignmentResult": "allfocus.alignment.stack_alignment",
    "Dimensions": "allfocus.images.dimensions",
    "EvaluationResult": "allfocus.evaluation.benchmark",
    "FuseOptions": "allfocus.stack.options",
    "FuseOutputs": "allfocus.stack.outputs",
    "FusedMaps": "allfocus.fusion.maps",
    "FusionResult": "allfocus.fusion.stack_fusion",
    "Image": "allfocus.images.image",
    "ImageStack": "allfocus.images.image",
    "LostDetail": "allfocus.fusion.lost_detail",
    "MeasuredDepth": "allfocus.depth.measurement",
    "Method": "allfocus.fusion.method",
    "ReliefOptions": "allfocus.relief.writing",
    "StackAlignment": "allfocus.alignment.stack_alignment",
    "StackFile": "allfocus.images.stack_file",
    "align": "allfocus.alignment.stack_alignment",
    "align_files": "allfocus.stack.aligned_files",
    "evaluate": "allfocus.evaluation.benchmark",
    "export_onnx": "allfocus.network.onnx_export",
    "fuse": "allfocus.fusion.stack_fusion",
    "fuse_files": "allfocus.stack.pipeline",
    "fuse_planes": "allfocus.batch.planes.fusion",
    "fuse_stacks": "allfocus.batch.running",
    "list_methods": "allfocus.fusion.methods",
    "measure_depth": "allfocus.depth.measurement",
    "measure_lost_detail": "allfocus.fusion.detail_meter",
    "open_stack_file": "allfocus.images.stack_file",
    "read_image": "allfocus.images.reading",
    "read_recipe": "allfocus.training.recipe",
    "read_stack": "allfocus.images.stack_opening",
    "render_scene": "allfocus.scenes.rendering",
    "score": "allfocus.metrics.scoring",
    "train": "allfocus.training.loop",
    "write_image": "allfocus.images.writing",
    "write_relief": "allfocus.relief.writing",
}
"""Where each public name is defined."""

_EXTRAS = {"torch": "train", "safetensors": "train", "onnx": "train", "onnxscript": "train"}
"""The extra that brings each optional package."""


def __getattr__(name: str) -> object:
    """Load a public name the first time it is used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'allfocus' has no attribute {name!r}")
    from importlib import import_module

    try:
        value: object = getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise MissingDependencyError(
            f"allfocus.{name} needs {error.name}, which is not installed: pip install 'allfocus[{extra}]'"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
