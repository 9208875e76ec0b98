"""What the tasks that fuse have in common: how they tell their progress, and the files of a run."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.alignment.placement import Window, common_window
from allfocus.alignment.stack_alignment import StackAlignment
from allfocus.fusion.faults import find_faults
from allfocus.images.writing import replace_file
from allfocus.stack.outputs import preview_path
from allfocus.stack.result import StackFusion
from allfocus.web.project_files import Tell

RELIEF_SIDE = 512

STEPS = {
    "checking": 0.05,
    "aligning": 0.3,
    "reading": 0.15,
    "fusing": 0.35,
    "measuring": 0.05,
    "writing": 0.05,
    "reporting": 0.05,
    "tiles": 0.05,
}
"""Each step's share of the whole, as measured on stacks of a few large frames; only for the bar."""

SECONDS_BETWEEN_MESSAGES = 0.05


class StepShares:
    """Turns the steps of the pipeline into messages with the fraction of the whole, not too many of them."""

    def __init__(self, tell: Tell, *, align: bool, check: bool) -> None:
        skipped = {"aligning": not align, "checking": not check}
        self._shares = {name: share for name, share in STEPS.items() if not skipped.get(name)}
        self._tell = tell
        self._last = 0.0
        self._fraction = 0.0

    def __call__(self, step: str, done: int, count: int) -> None:
        """Tell where the work stands."""
        now = time.monotonic()
        if now - self._last < SECONDS_BETWEEN_MESSAGES and 0 < done < count:
            return
        self._last = now
        names = list(self._shares)
        if step in names:
            before = sum(self._shares[name] for name in names[: names.index(step)])
            share = before + self._shares[step] * min(1.0, done / max(count, 1))
            # A step that is done twice (alignment without an odd frame) must not send the bar back.
            self._fraction = max(self._fraction, share / sum(self._shares.values()))
        fraction = round(self._fraction, 4)
        self._tell({"progress": {"step": step, "done": done, "count": count, "fraction": fraction}})


def describe_run(result: StackFusion, *, faults: int) -> dict[str, Any]:
    """What is kept of a run, of pictures or of channels, as JSON; ``faults`` as :func:`save_faults` counted them."""
    height, width = result.image.shape[:2]
    return {
        "width": width,
        "height": height,
        "channels": 1 if result.image.ndim == 2 else result.image.shape[2],
        "sources": [str(path) for path in result.sources],
        "left_out": result.left_out,
        "seconds": result.seconds,
        "aligned": result.alignment is not None and not result.alignment.registered,
        "faults": faults,
        "maps": [kind for kind in ("depth", "decision", "confidence") if f"{kind}_map" in result.outputs],
    }


def save_alignment(result: StackFusion, target: Path) -> None:
    """Write how the frames were aligned."""
    content = None if result.alignment is None else result.alignment.to_json()
    replace_file(target / "alignment.json", json.dumps(content).encode())


def save_faults(result: StackFusion, target: Path) -> int:
    """Write the places that are worth a look; how many they are."""
    found = [asdict(fault) for fault in find_faults(result)]
    replace_file(target / "faults.json", json.dumps(found, allow_nan=False).encode())
    return len(found)


def save_depth(depth: NDArray[np.float32], target: Path) -> None:
    """Write the small depth for the relief, and give the preview in colours the name that clients ask for."""
    preview_path(target / "depth.png").replace(target / "depth-colour.png")
    scale = min(1.0, RELIEF_SIDE / max(depth.shape))
    size = (max(1, round(depth.shape[1] * scale)), max(1, round(depth.shape[0] * scale)))
    np.save(target / "relief.npy", cv2.resize(depth, size, interpolation=cv2.INTER_AREA).reshape(size[::-1]))


def read_alignment(run: Path) -> StackAlignment | None:
    """How the frames of a run were aligned; None if they were not."""
    content = json.loads((run / "alignment.json").read_bytes())
    return None if content is None else StackAlignment.from_json(content)


def area_of(alignment: StackAlignment | None, *, crop: bool) -> Window | None:
    """What the frames of a run were cut to; None for all of it."""
    return common_window(alignment) if crop else None
