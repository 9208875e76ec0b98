"""Running the shipped network, or one's own: frames -> selection logits, by onnxruntime and without torch."""

import functools
import importlib.resources
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.network_checks import read_network, require_finite

SIZE_MULTIPLE = 8
"""The network halves the picture three times."""


def choose_device(asked: str) -> str:
    """Returns what the network runs on: ``cpu``, ``cuda`` (torch), or ``cuda-onnx`` (onnxruntime's own GPU support).

    Args:
        asked: ``cpu``, ``cuda``, or ``auto`` for a GPU where there is one.

    Raises:
        InputError: a GPU was asked for and none can be used.

    Example:
        >>> choose_device("cpu")
        'cpu'
    """
    if asked == "cpu" or (asked == "auto" and not _gpu_is_there()):
        return "cpu"
    try:
        import torch

        if torch.cuda.is_available():
            return "cuda"
    except ImportError:
        pass
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        return "cuda-onnx"
    if asked == "auto":
        return "cpu"
    raise InputError(
        "device cuda was asked for, but neither torch nor onnxruntime finds a GPU; install torch with CUDA "
        "(allfocus[train]) or onnxruntime-gpu, or use cpu"
    )


def _gpu_is_there() -> bool:
    """Returns whether an NVIDIA driver is at hand; without one torch need not be loaded, which takes seconds."""
    return os.path.exists("/dev/nvidiactl") or shutil.which("nvidia-smi") is not None


def run_network(
    frames: Sequence[NDArray[np.float32]], *, device: str, threads: int, weights: str | None = None
) -> list[NDArray[np.float32]]:
    """Returns the selection logits (H, W) of each frame (H, W[, 3]).

    Args:
        frames: two or more of one size.
        device: from :func:`choose_device`; not ``cuda`` for weights of one's own.
        threads: cores that this run may use.
        weights: an ONNX file that ``allfocus export`` wrote; None for the shipped one.
    """
    if device == "cuda":
        from allfocus.fusion.gpu import run_on_gpu

        return run_on_gpu(frames)
    height, width = frames[0].shape[:2]
    stack = np.stack([prepare_frame(frame) for frame in frames])
    answer = _session(device, threads, weights).run(None, {"frames": stack})[0]
    logits = require_finite(answer, (len(stack), *stack.shape[2:]), weights)
    return list(logits[:, :height, :width])


def prepare_frame(frame: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns a frame as the network wants it: (3, H, W) with the sides repeated up to a multiple of eight."""
    height, width = frame.shape[:2]
    # Two tokens a side at the least, because the network halves the picture three times.
    bottom = max(2 * SIZE_MULTIPLE - height, -height % SIZE_MULTIPLE)
    right = max(2 * SIZE_MULTIPLE - width, -width % SIZE_MULTIPLE)
    return np.pad(three_channels(frame), ((0, bottom), (0, right), (0, 0)), mode="edge").transpose(2, 0, 1)


def three_channels(frame: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns (H, W, 3) of a frame in grey or colour."""
    return frame if frame.ndim == 3 else np.repeat(frame[..., None], 3, axis=2)


def weights_folder() -> Any:
    """Where the shipped weights lie."""
    return importlib.resources.files("allfocus") / "weights"


def processor_count() -> int:
    """Cores to use: those this process may run on, or what OMP_NUM_THREADS says.

    The variable is what numerical libraries agree on, and what parallel workers set to 1.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _session(device: str, threads: int, weights: str | None) -> Any:
    # Imported here so that classical methods do not pay for it.
    import onnxruntime

    providers = ["CPUExecutionProvider"]
    if device == "cuda-onnx":
        providers.insert(0, "CUDAExecutionProvider")
    file = weights_folder() / "ips.onnx" if weights is None else Path(weights)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Threads that wait for work sleep: spinning would cost processor time while other parts of the fusion run.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = onnxruntime.InferenceSession(read_network(file), options, providers=providers)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    except InputError:
        raise
    except Exception as error:  # onnxruntime has classes of its own for each thing that can be wrong with a file
        if weights is None:
            raise
        raise InputError(f"{file}: is no ONNX file that can be run; allfocus export writes one") from error
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if [entry.name for entry in inputs] != ["frames"] or len(inputs[0].shape) != 4 or len(outputs[0].shape) != 3:
        raise InputError(f"{file}: is not a network that selects among frames; allfocus export writes one")
    return session
