"""Fusion by the paper's own network: two frames -> one picture, in torch."""

import importlib.resources
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion.frame_checks import check_frames
from allfocus.fusion.inference import three_channels, weights_folder
from allfocus.fusion.maps import FusedMaps


def fuse_ips_paper(frames: Sequence[NDArray[np.float32]], *, device: str = "auto") -> FusedMaps:
    """Returns the picture of the paper's own network for two frames; needs torch (the `train` extra)."""
    checked = check_frames(frames)
    if len(checked) != 2:
        raise InputError(
            f"ips-paper fuses exactly 2 frames, got {len(checked)}", hint="use the method ips", code="method-cannot"
        )
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
        raise InputError("device cuda was asked for, but torch finds no GPU; use cpu", code="no-gpu")
    with importlib.resources.as_file(weights_folder() / "ips-paper.safetensors") as path:
        network, _ = load_network(path, device=device)
    colour = [three_channels(frame) for frame in checked]
    batch = torch.from_numpy(np.stack(colour)).permute(0, 3, 1, 2)[None].to(device)
    with torch.no_grad():
        fused = network(batch)[0].clamp(0, 1).permute(1, 2, 0).cpu().numpy()
    return FusedMaps(fused if checked[0].ndim == 3 else fused.mean(axis=2))
