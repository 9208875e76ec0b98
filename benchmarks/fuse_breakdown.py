"""Where the processor time of `allfocus fuse` goes: decoding, aligning, network, blending, encoding.

Run: OMP_NUM_THREADS=1 python benchmarks/fuse_breakdown.py FRAMES... [--no-align]
FRAMES are files, a folder or a pattern. Prints a Markdown table of processor seconds; each step without the steps that
it calls. One thread, so that all work happens where it is timed. The stack is fused for real, into a temporary file.
"""

import argparse
import functools
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = {
    "decode": ["allfocus.images.stack_reader:StackReader.read"],
    "align": ["allfocus.alignment.stack_alignment:estimate_stack"],
    "warp": ["allfocus.alignment.transforms:warp_picture"],
    "spool": ["allfocus.images.spool:FrameSpool.append"],
    "read windows": [
        "allfocus.fusion.frame_source:SpoolSource.read",
        "allfocus.fusion.frame_source:SpoolSource.read_levels",
        "allfocus.fusion.frame_source:SpoolSource.read_reduced",
    ],
    "network": ["allfocus.fusion.inference:run_level"],
    "hand down": [
        "allfocus.fusion.decisions:make_tile",
        "allfocus.fusion.decisions:LevelDecisions.gather",
        "allfocus.fusion.decisions:LevelDecisions.competing",
    ],
    "settle": ["allfocus.fusion.blending:settle_logits", "allfocus.fusion.blending:stack_evidence"],
    "unveil": ["allfocus.fusion.unveiling:believable", "allfocus.fusion.unveiling:unveil"],
    "blend": ["allfocus.fusion.blending:selection_weights", "allfocus.fusion.blending:blend_frames"],
    "enlarge": ["allfocus.fusion.frame_source:enlarge"],
    "encode": ["allfocus.images.writing:encode_image", "allfocus.files.placing:StagedFiles.add"],
}
"""Step -> the functions that do it."""


class Clock:
    """Processor time by step; a step that calls another is not charged for it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inner: list[float] = [0.0]

    def timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, charging what it spends itself to the step."""

        @functools.wraps(function)
        def run(*arguments: Any, **options: Any) -> Any:
            began = time.process_time()
            self._inner.append(0.0)
            try:
                return function(*arguments, **options)
            finally:
                spent = time.process_time() - began
                self.seconds[step] += spent - self._inner.pop()
                self._inner[-1] += spent

        return run


def install(clock: Clock) -> None:
    """Replaces the functions wherever they were imported to."""
    import importlib

    for step, places in STEPS.items():
        for place in places:
            module_name, _, path = place.partition(":")
            owner: Any = importlib.import_module(module_name)
            *classes, name = path.split(".")
            for part in classes:
                owner = getattr(owner, part)
            original = getattr(owner, name)
            timed = clock.timed(step, original)
            setattr(owner, name, timed)
            for module in [module for key, module in sys.modules.items() if key.startswith("allfocus")]:
                for attribute, value in list(vars(module).items()):
                    if value is original:
                        setattr(module, attribute, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("frames", nargs="+", type=Path)
    parser.add_argument("--no-align", action="store_true")
    arguments = parser.parse_args()
    import cv2

    import allfocus
    import allfocus.stack.pipeline

    cv2.setNumThreads(1)
    loaded = time.process_time()
    clock = Clock()
    install(clock)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        allfocus.stack.pipeline.fuse_files(arguments.frames, Path(folder) / "fused.tif", align=not arguments.no_align)
        total = time.process_time() - began
    rows = {"start Python": loaded, **clock.seconds, "everything else": total - sum(clock.seconds.values())}
    print("| step | CPU s | share |\n|---|---:|---:|")
    for step, seconds in rows.items():
        print(f"| {step} | {seconds:.2f} | {seconds / (total + loaded):.1%} |")
    print(f"| all | {total + loaded:.2f} | |")


if __name__ == "__main__":
    main()
