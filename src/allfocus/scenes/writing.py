"""Writes a rendered scene into a folder: its frames, truth and depth as PNG, everything else as JSON."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from allfocus.files.names import named_path
from allfocus.files.placing import StagedFiles, made_folder
from allfocus.images.image import Image
from allfocus.images.writing import check_output, encode_image
from allfocus.scenes.rendering import Scene


def write_scene(scene: Scene, folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
    """The paths of the frames, which now lie in the folder with the truth, the depth and a description.

    Writes frames/frame_00.png ..., truth.png, depth.png and scene.json, all of them or none. The frames have a folder
    of their own, so that fusing it does not take the truth for a frame. Frames and truth have the scene's bit depth;
    ``depth.png`` is 16-bit grey: 0 is the nearest distance in the picture, 65535 the farthest, linear between.

    Args:
        scene: What ``render_scene`` returned.
        folder: Where to write; made when it does not exist, with its parents.
        overwrite: Replace the files of a scene that is there already. Frames of it that the new one does not have are
            removed; other files are left alone.

    Raises:
        OutputError: a file exists and ``overwrite`` is false, or the disk refuses.

    Example:
        >>> import tempfile
        >>> from allfocus.scenes.rendering import render_scene
        >>> with tempfile.TemporaryDirectory() as place:
        ...     paths = write_scene(render_scene("flat", frames=2, size=(32, 32)), Path(place) / "flat")
        ...     [path.name for path in paths], sorted(os.listdir(Path(place) / "flat"))
        (['frame_00.png', 'frame_01.png'], ['depth.png', 'frames', 'scene.json', 'truth.png'])
    """
    folder = named_path(folder)
    digits = max(2, len(str(len(scene.frames) - 1)))
    paths = [folder / "frames" / f"frame_{number:0{digits}d}.png" for number in range(len(scene.frames))]
    near, far = float(scene.depth.min()), float(scene.depth.max())
    depth = (scene.depth - near) / np.float32(max(far - near, 1e-9))
    pictures = {path: Image(frame, bit_depth=scene.bit_depth) for path, frame in zip(paths, scene.frames, strict=True)}
    pictures[folder / "truth.png"] = Image(scene.truth, bit_depth=scene.bit_depth)
    pictures[folder / "depth.png"] = Image(depth, bit_depth=16)
    with made_folder(folder / "frames"):
        for path in pictures:
            check_output(path, overwrite=overwrite)
        check_output(folder / "scene.json", overwrite=overwrite, picture=False)
        stale = _frames_of_earlier_scene(folder) - set(paths)
        with StagedFiles(overwrite=overwrite) as files:
            for path, picture in pictures.items():
                files.add(path, encode_image(picture, path))
            files.add(folder / "scene.json", (json.dumps(describe_scene(scene), indent=2) + "\n").encode())
    for path in stale:
        path.unlink(missing_ok=True)
    return paths


def _frames_of_earlier_scene(folder: Path) -> set[Path]:
    """The frames that a scene in this folder has, so that a shorter stack does not leave some of them behind."""
    try:
        count = len(json.loads((folder / "scene.json").read_text(encoding="utf-8"))["focus_distances"])
    except (OSError, ValueError, KeyError, TypeError):
        return set()  # no scene of ours here, so nothing of it to clear away
    digits = max(2, len(str(count - 1)))
    return {folder / "frames" / f"frame_{number:0{digits}d}.png" for number in range(count)}


def describe_scene(scene: Scene) -> dict[str, Any]:
    """What scene.json holds: how the stack was rendered, and what is known about each frame."""
    return {
        "name": scene.name,
        "bit_depth": scene.bit_depth,
        "options": scene.options,
        "focus_distances": scene.focus_distances,
        "exposures": scene.exposures,
        "transforms": [transform.tolist() for transform in scene.transforms],
        "depth_black": float(scene.depth.min()),
        "depth_white": float(scene.depth.max()),
    }
