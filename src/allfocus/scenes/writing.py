"""Writes a rendered scene into a folder: its frames, truth and depth as PNG, everything else as JSON."""

import json
import os
import shutil
import uuid
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.errors import OutputError
from allfocus.scenes.rendering import Scene

_DEPTH_LEVELS = 65535


def write_scene(scene: Scene, folder: Path | str, *, overwrite: bool = False) -> Path:
    """Return the folder, now holding frame_00.png, ..., truth.png, depth.png and scene.json.

    Frames and truth have the scene's bit depth. ``depth.png`` is 16-bit grey: 0 is the nearest distance in the picture,
    65535 the farthest, linear between; ``scene.json`` gives both as ``depth_range``, beside focus distances, transforms
    and options. All files are written beside the folder first, so that it never holds half a scene.

    Args:
        scene: What ``render_scene`` returned.
        folder: Where to write; made when it does not exist, with its parents.
        overwrite: Replace the files of a scene that is there already. Other files are left alone.

    Raises:
        OutputError: A file of that name exists and ``overwrite`` is false, or the disk refuses.

    Example:
        >>> import tempfile
        >>> from allfocus.scenes.rendering import render_scene
        >>> with tempfile.TemporaryDirectory() as place:
        ...     written = write_scene(render_scene("flat", frames=2, size=(32, 32)), Path(place) / "flat")
        ...     sorted(path.name for path in written.iterdir())
        ['depth.png', 'frame_00.png', 'frame_01.png', 'scene.json', 'truth.png']
    """
    folder = Path(folder)
    digits = max(2, len(str(len(scene.frames) - 1)))
    frame_names = [f"frame_{number:0{digits}d}.png" for number in range(len(scene.frames))]
    names = [*frame_names, "truth.png", "depth.png", "scene.json"]
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file; give a folder to write the scene into")
    for name in names:
        if (folder / name).exists() and not overwrite:
            raise OutputError(f"{folder / name} exists; choose another folder or allow overwriting")
    partial = folder.parent / f".{folder.name}.{uuid.uuid4().hex}.partial"
    try:
        stale = _frames_of_earlier_scene(folder) - set(frame_names)
        partial.mkdir(parents=True)
        for name, frame in zip(frame_names, scene.frames, strict=True):
            _write_png(partial / name, _to_levels(frame, scene.bit_depth))
        _write_png(partial / "truth.png", _to_levels(scene.truth, scene.bit_depth))
        _write_png(partial / "depth.png", _depth_levels(scene.depth))
        text = json.dumps(_describe(scene, frame_names), indent=2)
        (partial / "scene.json").write_text(text + "\n", encoding="utf-8")
        folder.mkdir(exist_ok=True)
        for name in names:
            os.replace(partial / name, folder / name)
        for name in stale:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write the scene to {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _frames_of_earlier_scene(folder: Path) -> set[str]:
    """Return the frame files that the scene.json in a folder names, so that a longer stack leaves none behind."""
    try:
        listed = json.loads((folder / "scene.json").read_text(encoding="utf-8"))["frames"]
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        return set()  # no scene of ours here, so nothing of it to clear away
    return {name for name in listed if isinstance(name, str) and Path(name).name == name and name.startswith("frame_")}


def _describe(scene: Scene, frame_names: list[str]) -> dict[str, object]:
    """Return what scene.json holds."""
    return {
        "name": scene.name,
        "size": list(scene.truth.shape[:2]),
        "bit_depth": scene.bit_depth,
        "frames": frame_names,
        "truth": "truth.png",
        "depth": "depth.png",
        "depth_range": [float(scene.depth.min()), float(scene.depth.max())],
        "focus_distances": scene.focus_distances,
        "exposures": scene.exposures,
        "transforms_frame_to_truth": [transform.tolist() for transform in scene.transforms],
        "options": scene.options,
    }


def _to_levels(picture: NDArray[np.float32], bit_depth: int) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """Return the picture as integers of the bit depth."""
    levels: NDArray[np.float64] = np.rint(picture.astype(np.float64) * (2**bit_depth - 1))
    sixteen: NDArray[np.uint16] = levels.astype(np.uint16)
    if bit_depth == 16:
        return sixteen
    eight: NDArray[np.uint8] = sixteen.astype(np.uint8)
    return eight


def _depth_levels(depth: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the distances spread over 16 bits."""
    near, far = float(depth.min()), float(depth.max())
    share = (depth.astype(np.float64) - near) / (far - near) if far > near else np.zeros(depth.shape)
    return np.rint(share * _DEPTH_LEVELS).astype(np.uint16)


def _write_png(path: Path, picture: NDArray[np.uint8] | NDArray[np.uint16]) -> None:
    """Write a grey or RGB picture as PNG; plain file access, because OpenCV does not say why a write failed."""
    done, data = cv2.imencode(".png", picture[..., ::-1] if picture.ndim == 3 else picture)
    if not done:
        raise OutputError(f"OpenCV could not encode {path.name} as PNG")
    path.write_bytes(data.tobytes())
