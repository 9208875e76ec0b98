"""From which opacity on a veil should be taken off: PSNR of rendered scenes, by the faintest that is.

Run: python benchmarks/veil.py
A veil is what lies nearer than the focus of a frame, blurred over what it shows. Taking a faint one off gains little
and adds noise; `allfocus.fusion.blending.FAINTEST_OPACITY` is chosen by the mean of these scenes. Prints a line for
each scene and one for the mean, dB; the last column leaves all veils where they are.
"""

import dataclasses

import numpy as np

from allfocus.fusion import areas, blending
from allfocus.fusion.areas import fuse_area
from allfocus.fusion.frame_source import MemorySource
from allfocus.fusion.planning import plan_fusion
from allfocus.scenes.rendering import render_scene

SCENES = (
    ("foliage", (750, 1000), 8, 5),
    ("foliage", (480, 640), 5, 8),
    ("foliage", (1200, 1600), 8, 6),
    ("insect", (600, 800), 8, 5),
    ("desk", (480, 640), 6, 5),
    ("circuit", (480, 640), 6, 5),
    ("slope", (480, 640), 10, 5),
    ("legs", (600, 800), 16, 3),
)
OPACITIES = (0.02, 0.05, 0.1, 0.2, 0.3)


def main() -> None:
    """Prints a line for each scene and one for the mean."""
    print("scene".ljust(20) + "".join(f"{value:>10g}" for value in OPACITIES) + "      none")
    everything = []
    for name, size, frames, seed in SCENES:
        scene = render_scene(name, frames=frames, size=size, seed=seed)
        source = MemorySource([np.asarray(frame, np.float32) for frame in scene.frames])
        plan = plan_fusion(source, device="cpu")
        row = []
        for faintest in (*OPACITIES, None):
            if faintest is not None:
                for module in (areas, blending):
                    setattr(module, "FAINTEST_OPACITY", np.float32(faintest))  # noqa: B010 (mypy)
            own = dataclasses.replace(plan, unveil=faintest is not None)
            found = fuse_area(own, source, (slice(0, size[0]), slice(0, size[1])), device="cpu")
            row.append(-10 * np.log10(np.square(found.image.astype(np.float64) - scene.truth).mean()))
        everything.append(row)
        print(f"{name} {size[1]}x{size[0]}".ljust(20) + "".join(f"{value:10.3f}" for value in row), flush=True)
    print("mean".ljust(20) + "".join(f"{value:10.3f}" for value in np.mean(everything, axis=0)), flush=True)


if __name__ == "__main__":
    main()
