"""Fusion by a trained network: frames -> selection logits (onnxruntime, no torch) -> weighted frames.

Small stacks are seen by the network as a whole. Larger ones are fused in windows that overlap and fade into each other,
and large pictures are decided at half scale; pixels are always taken at full scale. Memory is then bounded by the
picture and the window, not by the number of frames, as long as the frames themselves come from disk
(:class:`allfocus.images.tiling.FrameSpool`).
"""

import functools
import importlib.resources
import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion.blending import blend_frames, differing_evidence, selection_weights, settle_logits
from allfocus.fusion.source_frames import check_frames
from allfocus.fusion.windows import MOST_FRAMES, Window, choose_frames, cut_windows, fade, fade_sums, rank_sharpness
from allfocus.images.tiling import FrameSpool

SIZE_MULTIPLE = 8
"""The network halves the picture three times."""
SHARPNESS = 16.0
"""The network's confidence is taken to this power: pixels are copied from one source unless the choice is even."""
PREFERENCE = 1.0
"""Logits by which `prefer` favours one end of the stack over the other: enough where the network is in two minds."""
LARGEST_WHOLE = 3_200_000
"""Pixels times frames up to which the network sees the stack as a whole: about 800 MB at 250 bytes each."""
LARGEST_FULL_SCALE = 4_500_000
"""Pictures with more pixels are decided at half scale: lenses seldom resolve single pixels there, at a quarter of the
cost."""

Stack = Sequence[NDArray[np.float32]] | FrameSpool
Maps = tuple[NDArray[np.float32], NDArray[np.int16], NDArray[np.float32]]


def fuse_ips(
    frames: Stack,
    *,
    prefer: str | None = None,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Maps:
    """Returns the fused picture, which frame each pixel came from, and the depth as a fraction of the stack.

    Args:
        frames: two or more pictures (H, W, 3) or (H, W), float32 in 0..1, in focus order if depth matters; or a spool
            of such frames on disk.
        prefer: ``near`` favours the first frames where frames conflict, ``far`` the last.
        device: ``cpu``, ``cuda`` or ``auto``.
        progress: called with steps done and steps in all.
    """
    stack: Stack = frames if isinstance(frames, FrameSpool) else check_frames(frames)
    height, width = stack[0].shape[:2]
    scale = 1 if height * width <= LARGEST_FULL_SCALE else 2
    lean = {None: 0.0, "near": -PREFERENCE, "far": PREFERENCE}[prefer]
    if len(stack) * height * width <= LARGEST_WHOLE:
        whole = Window(0, height, 0, width, 0, height, 0, width)
        maps = _fuse_window(stack, list(range(len(stack))), whole, 1, lean, device)
        if progress is not None:
            progress(1, 1)
        return maps
    return _fuse_windows(stack, scale, lean, device, progress)


def _fuse_windows(
    stack: Stack, scale: int, lean: float, device: str, progress: Callable[[int, int], None] | None
) -> Maps:
    """Fuses window after window; in the overlap the results fade into each other, so that no seam can show."""
    shape = stack[0].shape
    height, width = shape[:2]
    sharpness = rank_sharpness(stack) if len(stack) > MOST_FRAMES else None
    windows = cut_windows(height, width, scale)
    picture, depth = np.zeros(shape, np.float32), np.zeros((height, width), np.float32)
    decision = np.zeros((height, width), np.int16)
    for number, window in enumerate(windows):
        chosen = choose_frames(sharpness, window, len(stack))
        part, choice, distance = _fuse_window(stack, chosen, window, scale, lean, device)
        weight = fade(window, height, width)
        part *= weight[..., None] if part.ndim == 3 else weight
        distance *= weight
        picture[window.area] += part
        depth[window.area] += distance
        decision[window.core] = choice[window.core_inside]
        if progress is not None:
            progress(number + 1, len(windows))
    rows, columns = fade_sums(windows, height, width)
    for result in (picture, depth):
        trailing = (1,) * (result.ndim - 2)
        result /= rows.reshape(-1, 1, *trailing)
        result /= columns.reshape(1, -1, *trailing)
    return picture, decision, depth


def _fuse_window(stack: Stack, chosen: list[int], window: Window, scale: int, lean: float, device: str) -> Maps:
    parts, chosen = _in_order_of_content(
        [np.asarray(stack[index][window.area], np.float32) for index in chosen], chosen
    )
    height, width = parts[0].shape[:2]
    small = (max(1, height // scale), max(1, width // scale))
    reduced = parts
    if scale > 1:
        reduced = [
            np.asarray(cv2.resize(part, small[::-1], interpolation=cv2.INTER_AREA), np.float32) for part in parts
        ]
    logits = _run_network(reduced, device)
    logits = settle_logits(logits, differing_evidence(reduced))
    if scale > 1:
        size = (width, height)
        logits = [np.asarray(cv2.resize(own, size, interpolation=cv2.INTER_LINEAR), np.float32) for own in logits]
    positions = np.asarray(chosen, np.float32) / max(1, len(stack) - 1)
    logits = [own + lean * place for own, place in zip(logits, positions, strict=True)]
    weights = selection_weights(logits, sharpness=SHARPNESS)
    depth = functools.reduce(np.add, (own * place for own, place in zip(weights, positions, strict=True)))
    best = np.argmax(np.stack(weights), axis=0)
    return blend_frames(parts, weights), np.asarray(chosen, np.int16)[best], np.asarray(depth, np.float32)


def _in_order_of_content(
    parts: list[NDArray[np.float32]], chosen: list[int]
) -> tuple[list[NDArray[np.float32]], list[int]]:
    """Returns the frames in an order that follows from their pixels, with their indices.

    Sums of floating-point numbers depend on the order of the terms in the last digits, and a nearly even choice makes
    that visible; so that the order in which frames are given cannot matter at all, they are summed in this one.
    """
    keys = [zlib.crc32(part[::3, ::3].tobytes()) for part in parts]
    order = sorted(range(len(parts)), key=lambda place: keys[place])
    return [parts[place] for place in order], [chosen[place] for place in order]


def _run_network(frames: list[NDArray[np.float32]], device: str) -> list[NDArray[np.float32]]:
    """Returns the selection logits (H, W) of each frame."""
    height, width = frames[0].shape[:2]
    stack = np.stack([_prepare(frame) for frame in frames])
    logits = np.asarray(_session(device).run(None, {"frames": stack})[0], np.float32)
    return list(logits[:, :height, :width])


def _prepare(frame: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns a frame as the network wants it: (3, H, W) with the sides repeated up to a multiple of eight."""
    height, width = frame.shape[:2]
    # Two tokens a side at the least, because the network halves the picture three times.
    bottom = max(2 * SIZE_MULTIPLE - height, -height % SIZE_MULTIPLE)
    right = max(2 * SIZE_MULTIPLE - width, -width % SIZE_MULTIPLE)
    return np.pad(_three_channels(frame), ((0, bottom), (0, right), (0, 0)), mode="edge").transpose(2, 0, 1)


def _three_channels(frame: NDArray[np.float32]) -> NDArray[np.float32]:
    return frame if frame.ndim == 3 else np.repeat(frame[..., None], 3, axis=2)


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
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch finds no GPU; use cpu")
    with importlib.resources.as_file(_weights_folder() / "ips-paper.safetensors") as path:
        network, _ = load_network(path, device=device)
    colour = [_three_channels(frame) for frame in checked]
    batch = torch.from_numpy(np.stack(colour)).permute(0, 3, 1, 2)[None].to(device)
    with torch.no_grad():
        fused = network(batch)[0].clamp(0, 1).permute(1, 2, 0).cpu().numpy()
    return (fused if checked[0].ndim == 3 else fused.mean(axis=2)), None, None


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
