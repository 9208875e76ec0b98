"""Fusion by a trained network: frames -> decisions at every scale, coarse to fine -> weighted frames.

The stack is first seen whole, at a scale at which it fits the memory with all frames; that and the next finer levels,
as long as they fit too, are the *plan* (:mod:`.planning`). The finer levels are then decided in windows
(:mod:`.areas`), each given the decision of the level above and only the frames that still compete there
(:mod:`.decisions`). Large pictures are decided at half scale; pixels are always taken at full scale. Memory is bounded
by the picture and the windows at work, not by the number of frames, as long as the frames themselves come from disk
(:class:`allfocus.images.spool.FrameSpool`).
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError
from allfocus.fusion.areas import Maps, fuse_area
from allfocus.fusion.frame_checks import check_frames
from allfocus.fusion.frame_source import FrameSource, MemorySource, SpoolSource
from allfocus.fusion.inference import choose_device
from allfocus.fusion.planning import plan_fusion
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.images.spool import FrameSpool, Mask
from allfocus.images.transfer import Curve


def fuse_ips(
    frames: Sequence[NDArray[np.float32]] | FrameSpool,
    *,
    prefer: str | None = None,
    hard: bool = False,
    unveil: bool = True,
    weights: str | None = None,
    valid: Sequence[Mask] | None = None,
    curve: Curve | None = None,
    device: str = "auto",
    settings: DecisionSettings = AS_CHOSEN,
    progress: Callable[[int, int], None] | None = None,
) -> Maps:
    """Returns the fused picture, which frame each pixel came from, depth and confidence.

    Args:
        frames: two or more pictures (H, W, 3) or (H, W), float32 in 0..1, in focus order if depth matters; or a spool
            of such frames on disk, made by :func:`allfocus.fusion.frame_source.open_spool`.
        prefer: ``near`` favours the first frames where frames conflict, ``far`` the last.
        hard: every pixel is a copy from the likeliest frame, instead of a mean by how likely they are.
        unveil: take the veil of near things that are out of focus off what lies behind them.
        weights: an ONNX file of one's own; None for the shipped network.
        valid: per frame where it has pixels, for frames in memory; a spool knows by itself.
        curve: the transfer curve of the values; pixels are then mixed in linear light.
        device: ``cpu``, ``cuda`` or ``auto``.
        settings: at which scales, in which windows and how firmly focus is decided; a spool has been made with them.
        progress: called with steps done and steps in all.
    """
    source: FrameSource = (
        SpoolSource(frames)
        if isinstance(frames, FrameSpool)
        else MemorySource(check_frames(frames), valid, settings=settings)
    )
    device = choose_device(device) if weights is None else _without_torch(device)
    plan = plan_fusion(
        source, prefer=prefer, hard=hard, unveil=unveil, weights=weights, device=device, settings=settings
    )
    height, width = plan.size
    return fuse_area(plan, source, (slice(0, height), slice(0, width)), curve=curve, device=device, progress=progress)


def _without_torch(asked: str) -> str:
    """Returns what a network of one's own runs on, which is known as an ONNX file only."""
    device = choose_device(asked)
    if device == "cuda" and asked == "cuda":
        raise InputError("an ONNX file runs on a GPU through onnxruntime-gpu, which finds none; take the device cpu")
    return "cpu" if device == "cuda" else device
