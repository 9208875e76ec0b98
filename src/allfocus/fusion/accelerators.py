"""What a network can run on besides the processor: the execution providers of onnxruntime, and whether to trust them.

A provider that is installed may be for hardware that is not there, may be slower than the processor (some compile a
graph anew for every size of picture), or may be wrong. So the first time one is used, the network decides a small stack
on it and on the processor, and both are compared; what came of it is remembered for this machine, provider and network.
"""

import functools
import hashlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import AllfocusError, InputError
from allfocus.files.opening import open_plain, parse_json
from allfocus.files.placing import replace_file
from allfocus.machine import cache_folder

Inputs = dict[str, NDArray[np.float32]]
NetworkRun = Callable[[Inputs], Sequence[NDArray[np.float32]]]
"""Runs a graph; the logits come first."""

PROBE_SIZES = ((96, 128), (128, 192), (160, 224))
"""Heights and widths of the stacks to compare; the first is not timed, because it pays for what happens only once."""
PROBE_FRAMES = 3
LARGEST_MEAN, LARGEST_COMMON = 0.005, 0.05
"""By how much the weights of frames may differ from those of the processor: in the mean, and in 99 of 100 pixels.
Arithmetic in bfloat16 makes a tenth of it."""
LARGEST_CACHE = 200_000
"""Bytes of what is remembered."""


@dataclass(frozen=True)
class Accelerator:
    """One kind of hardware, and how onnxruntime reaches it."""

    name: str
    """What ``--device`` calls it; see :mod:`.devices`."""
    providers: tuple[str, ...]
    """Names in onnxruntime; the first that is installed is used."""
    install: str
    """What brings it."""
    options: dict[str, str] = field(default_factory=dict)
    """What the provider is told."""
    timed: bool = True
    """Whether ``auto`` takes it only if it is no slower. A GPU that looks for its fastest way at every new size would
    seem slow on a few small stacks, and is not on a large one."""
    serial: bool = False
    """Whether a session may run only one thing at a time."""
    shown_by: Callable[[], bool] = lambda: True
    """Whether there are signs of the hardware, asked before anything is loaded for it."""

    @property
    def provider(self) -> str | None:
        """The provider that is installed; None where there is none."""
        return next((name for name in self.providers if name in installed_providers()), None)


def nvidia_is_there() -> bool:
    """Returns whether an NVIDIA driver is at hand; without one torch need not be loaded, which takes seconds."""
    return os.path.exists("/dev/nvidiactl") or shutil.which("nvidia-smi") is not None


def instead(package: str) -> str:
    """Returns how to install a build of onnxruntime; two of them in one environment would overwrite each other.

    Example:
        >>> instead("onnxruntime-gpu")
        'pip uninstall onnxruntime, then pip install onnxruntime-gpu'
    """
    return f"pip uninstall onnxruntime, then pip install {package}"


def _amd_is_there() -> bool:
    return sys.platform == "win32" or os.path.exists("/dev/kfd")


ACCELERATORS: dict[str, Accelerator] = {
    one.name: one
    for one in (
        Accelerator(
            "cuda",
            ("CUDAExecutionProvider",),
            instead("onnxruntime-gpu"),
            timed=False,
            shown_by=lambda: nvidia_is_there(),
        ),
        # After CUDA: it builds an engine for every new size of window.
        Accelerator(
            "tensorrt",
            ("TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"),
            instead("onnxruntime-gpu tensorrt"),
            shown_by=lambda: nvidia_is_there(),
        ),
        Accelerator(
            "rocm",
            ("MIGraphXExecutionProvider", "ROCMExecutionProvider"),
            instead("onnxruntime-migraphx"),
            shown_by=_amd_is_there,
        ),
        Accelerator("directml", ("DmlExecutionProvider",), instead("onnxruntime-directml"), serial=True),
        Accelerator(
            "coreml",
            ("CoreMLExecutionProvider",),
            "onnxruntime on a Mac has it",
            options={"ModelFormat": "MLProgram"},
        ),
        Accelerator(
            "openvino",
            ("OpenVINOExecutionProvider",),
            instead("onnxruntime-openvino"),
        ),
    )
}
"""In the order in which ``auto`` tries them."""


def installed_providers() -> list[str]:
    """Returns what onnxruntime says it was built with."""
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def require_provider(name: str) -> str:
    """Returns the provider of an accelerator that was asked for by name.

    Raises:
        InputError: it is not installed; the message names the package.
    """
    found = ACCELERATORS[name].provider
    if found is None:
        raise InputError(
            f"device {name} was asked for, but onnxruntime has no support for it",
            hint=[ACCELERATORS[name].install, "use cpu"],
            code="no-gpu",
        )
    return found


@dataclass(frozen=True)
class DeviceVerdict:
    """What came of comparing an accelerator with the processor."""

    problem: str = ""
    """Why it must not be used; empty when what it says is right."""
    difference: float = 0.0
    """Mean difference of the weights of frames, which are 0..1."""
    seconds: float = 0.0
    """For stacks of sizes that it had not seen before."""
    cpu_seconds: float = 0.0
    """The same on the processor."""
    known: bool = False
    """Whether it was remembered from an earlier run."""
    timed: bool = True
    """Whether the times decide anything."""

    @property
    def is_right(self) -> bool:
        """Whether it says what the processor says."""
        return not self.problem

    @property
    def is_worth_it(self) -> bool:
        """Whether it is right, and no slower than the processor where that matters."""
        return self.is_right and (not self.timed or self.seconds <= self.cpu_seconds)

    @property
    def reason(self) -> str:
        """Why it is used or not, in a few words."""
        if self.problem:
            return self.problem
        told = f"{self.seconds:.2f} s for what takes the processor {self.cpu_seconds:.2f} s"
        return f"the same results, {told}" if self.is_worth_it else f"slower than the processor: {told}"


def compare(device: Callable[[], NetworkRun], cpu: Callable[[], NetworkRun], names: Sequence[str]) -> DeviceVerdict:
    """Returns how an accelerator does beside the processor.

    Args:
        device: makes what runs the graph on the accelerator.
        cpu: the same for the processor.
        names: of the inputs that the graph has.
    """
    try:
        run = device()
        found, seconds = _decide(run, names)
    except AllfocusError:
        raise
    except Exception as error:  # every provider has errors of its own
        return DeviceVerdict(f"it failed ({first_line(error)})")
    expected, cpu_seconds = _decide(cpu(), names)
    if any(one.shape != other.shape for one, other in zip(found, expected, strict=True)):
        return DeviceVerdict("its results have other shapes than those of the processor")
    if not all(np.isfinite(one).all() for one in found):
        return DeviceVerdict("its results are not all numbers")
    apart = [np.abs(_weights(one) - _weights(other)) for one, other in zip(found, expected, strict=True)]
    mean = max(float(one.mean()) for one in apart)
    common = max(float(np.quantile(one, 0.99)) for one in apart)
    problem = ""
    if mean > LARGEST_MEAN or common > LARGEST_COMMON:
        problem = f"its results differ from those of the processor (weights by {mean:.3f} in the mean)"
    return DeviceVerdict(problem, round(mean, 6), round(seconds, 4), round(cpu_seconds, 4))


def _decide(run: NetworkRun, names: Sequence[str]) -> tuple[list[NDArray[np.float32]], float]:
    """Returns the logits of all probes, and the seconds for those that are timed."""
    logits, seconds = [], 0.0
    for number, size in enumerate(PROBE_SIZES):
        inputs = {name: value for name, value in probe(size).items() if name in names}
        began = time.perf_counter()
        logits.append(np.asarray(run(inputs)[0], np.float32))
        seconds += time.perf_counter() - began if number else 0.0
    return logits, seconds


def probe(size: tuple[int, int], frames: int = PROBE_FRAMES) -> Inputs:
    """Returns a small stack in which each frame is sharp in a part of its own, as inputs of a graph."""
    height, width = size
    generator = np.random.default_rng(width)
    texture = cv2.GaussianBlur(generator.random((height, width, 3), dtype=np.float32), (0, 0), 0.8)
    stack = np.stack([cv2.GaussianBlur(texture, (0, 0), 2.5)] * frames)
    for index in range(frames):
        own = slice(index * width // frames, (index + 1) * width // frames)
        stack[index, :, own] = texture[:, own]
    return {
        "frames": np.ascontiguousarray(stack.transpose(0, 3, 1, 2)),
        "inside": np.ones(size, np.float32),
        "behind": np.zeros((frames, height // 2, width // 2), np.float32),
        "veil_above": np.zeros((frames, 4, height // 8, width // 8), np.float32),
    }


def _weights(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    raised = np.exp(logits - logits.max(axis=0))
    return np.asarray(raised / raised.sum(axis=0), np.float32)


def first_line(error: BaseException) -> str:
    """Returns the first line of what an error says, or its name."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def remembered(
    name: str, kind: str, network: bytes, judge: Callable[[], DeviceVerdict], *, fresh: bool = False
) -> DeviceVerdict:
    """Returns the verdict on an accelerator: from an earlier run on this machine, or a new one, which is kept.

    Args:
        name: the accelerator.
        kind: of graph.
        network: the file of weights.
        judge: makes a verdict.
        fresh: judge anew.
    """
    key = "|".join((name, kind, hashlib.sha256(network).hexdigest()[:16], _machine()))
    kept = _read_cache()
    if not fresh and key in kept:
        with suppress(TypeError):
            return DeviceVerdict(**{**kept[key], "known": True})
    verdict = judge()
    _write_cache({**_read_cache(), key: {**asdict(verdict), "known": False}})
    return verdict


def cache_file() -> Path:
    """Where verdicts are remembered; it can be deleted at any time."""
    return cache_folder() / "accelerators.json"


@functools.cache
def _machine() -> str:
    import onnxruntime

    return f"{onnxruntime.__version__}|{platform.platform()}|{platform.node()}|{platform.processor()}"


def _read_cache() -> dict[str, Any]:
    try:
        with open_plain(cache_file()) as file:
            content = parse_json(file.read(LARGEST_CACHE))
    except (AllfocusError, OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_cache(content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1)
    if len(text) > LARGEST_CACHE:
        text = "{}"
    with suppress(AllfocusError, OSError):  # without it, the same is found out again
        cache_file().parent.mkdir(parents=True, exist_ok=True)
        replace_file(cache_file(), text.encode(), overwrite=True)
