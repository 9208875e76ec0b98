"""Fusion by a trained network: frames -> selection logits (onnxruntime, no torch) -> weighted frames."""

import functools
import importlib.resources
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion.blending import blend_frames, differing_evidence, selection_weights, settle_logits
from allfocus.fusion.source_frames import check_frames

SIZE_MULTIPLE = 8
"""The network halves the picture three times."""
SHARPNESS = 16.0
"""The network's confidence is taken to this power: pixels are copied from one source unless the choice is even."""
LARGEST_DECISION = 24_000_000
"""Pixels times frames up to which the network sees the frames at full scale. Larger stacks are decided at a reduced
scale, so that memory stays bounded and the network still sees the whole picture; blending is always at full scale."""


def fuse_ips(
    frames: Sequence[NDArray[np.float32]], *, device: str = "auto", progress: Callable[[int, int], None] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int16], NDArray[np.float32]]:
    """Returns the fused picture, which frame each pixel came from, and the depth as a fraction of the stack.

    Args:
        frames: two or more pictures (H, W, 3) or (H, W), float32 in 0..1, in focus order if depth matters.
        device: ``cpu``, ``cuda`` or ``auto``.
        progress: called with steps done and steps in all.
    """
    checked = check_frames(frames)
    steps = len(checked) + 1
    logits = _decide(checked, device)
    if progress is not None:
        progress(1, steps)
    weights = selection_weights(settle_logits(logits, differing_evidence(checked)), sharpness=SHARPNESS)
    picture = blend_frames(
        checked, weights, progress=None if progress is None else lambda done: progress(done + 1, steps)
    )
    overall = np.stack(weights)
    positions = np.linspace(0.0, 1.0, len(checked), dtype=np.float32)
    depth = np.tensordot(positions, overall, axes=1).astype(np.float32)
    return picture, overall.argmax(axis=0).astype(np.int16), depth


def fuse_ips_paper(
    frames: Sequence[NDArray[np.float32]], *, device: str = "auto"
) -> tuple[NDArray[np.float32], None, None]:
    """Returns the picture of the paper's own network for two frames; needs torch (the `train` extra)."""
    checked = check_frames(frames)
    if len(checked) != 2:
        raise InputError(f"ips-paper fuses exactly 2 frames, got {len(checked)}; use --method ips for more")
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "ips-paper runs in torch; install it with: pip install 'allfocus[train]'"
        ) from error
    from allfocus.network.checkpoint import load_network

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    with importlib.resources.as_file(_weights_folder() / "ips-paper.safetensors") as path:
        network, _ = load_network(path, device=device)
    colour = [_three_channels(frame) for frame in checked]
    batch = torch.from_numpy(np.stack(colour)).permute(0, 3, 1, 2)[None].to(device)
    with torch.no_grad():
        fused = network(batch)[0].clamp(0, 1).permute(1, 2, 0).cpu().numpy()
    return (fused if checked[0].ndim == 3 else fused.mean(axis=2)), None, None


def _decide(frames: list[NDArray[np.float32]], device: str) -> list[NDArray[np.float32]]:
    """Returns the selection logits (H, W) of each frame."""
    height, width = frames[0].shape[:2]
    scale = min(1.0, math.sqrt(LARGEST_DECISION / (height * width * len(frames))))
    inner = (max(SIZE_MULTIPLE, round(height * scale)), max(SIZE_MULTIPLE, round(width * scale)))
    size = inner if scale < 1 else (height, width)
    stack = np.stack([_prepare(frame, size) for frame in frames])
    logits = np.asarray(_session(device).run(None, {"frames": stack})[0], np.float32)[:, : size[0], : size[1]]
    if scale == 1.0:
        return list(logits)
    return [np.asarray(cv2.resize(own, (width, height), interpolation=cv2.INTER_LINEAR), np.float32) for own in logits]


def _prepare(frame: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    """Returns a frame as the network wants it: (3, H, W) with the sides repeated up to a multiple of eight."""
    picture = _three_channels(frame)
    if picture.shape[:2] != size:
        picture = np.asarray(cv2.resize(picture, (size[1], size[0]), interpolation=cv2.INTER_AREA), np.float32)
    # Two tokens a side at the least, because the network halves the picture three times.
    bottom = max(2 * SIZE_MULTIPLE - size[0], (-size[0]) % SIZE_MULTIPLE)
    right = max(2 * SIZE_MULTIPLE - size[1], (-size[1]) % SIZE_MULTIPLE)
    return np.pad(picture, ((0, bottom), (0, right), (0, 0)), mode="edge").transpose(2, 0, 1)


def _three_channels(frame: NDArray[np.float32]) -> NDArray[np.float32]:
    return frame if frame.ndim == 3 else np.repeat(frame[..., None], 3, axis=2)


def _weights_folder() -> Any:
    return importlib.resources.files("allfocus") / "weights"


@functools.cache
def _session(device: str) -> Any:
    # Imported here so that classical methods do not pay for it.
    import onnxruntime

    available = onnxruntime.get_available_providers()
    if device == "cuda" and "CUDAExecutionProvider" not in available:
        raise InputError(
            "device cuda was asked for, but onnxruntime has no CUDA here; install onnxruntime-gpu or use cpu"
        )
    providers = ["CPUExecutionProvider"]
    if device != "cpu" and "CUDAExecutionProvider" in available:
        providers.insert(0, "CUDAExecutionProvider")
    model = (_weights_folder() / "ips.onnx").read_bytes()
    options = onnxruntime.SessionOptions()
    # 0 takes all cores; the variable is what numerical libraries agree on, and what parallel workers set to 1.
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    return onnxruntime.InferenceSession(model, options, providers=providers)
