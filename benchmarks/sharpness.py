"""How decided weights should be: PSNR and share of copied pixels of rendered scenes, by a factor on the logits.

Run: python benchmarks/sharpness.py

The factor holds where there is detail; where there is none, frames are mixed as softly as the network says.
Pixels that are copied keep the colour, grain and bit depth of the frame they come from, and mixing transparent things
loses detail of all of them. The largest factor that loses at most 0.02 dB against the best in the mean of these scenes
is `sharpness` of `allfocus.fusion.settings`.
"""

import dataclasses

import numpy as np
from planned_scenes import planned_scenes

FACTORS = (1.0, 1.5, 2.0, 3.0, 4.0, 8.0)


def main() -> None:
    """Prints a line for each scene and one for the mean."""
    print("scene".ljust(20) + "".join(f"{factor:>16g}" for factor in FACTORS) + "   (dB, % copied)")
    everything = []
    for planned in planned_scenes():
        scene, row = planned.scene, []
        for factor in FACTORS:
            settings = dataclasses.replace(planned.plan.settings, sharpness=factor)
            found = planned.fuse(dataclasses.replace(planned.plan, settings=settings, unveil=False))
            error = np.square(np.clip(found.image, 0, 1).astype(np.float64) - scene.truth).mean()
            named = np.take_along_axis(np.stack(scene.frames), found.decision[None, ..., None].astype(int), axis=0)[0]
            row.append((-10 * np.log10(error), 100 * (found.image == named).all(axis=2).mean()))
        everything.append(row)
        print(planned.name.ljust(20) + "".join(f"{db:10.3f}{copied:6.0f}" for db, copied in row))
    print(
        "mean".ljust(20) + "".join(f"{db:10.3f}{copied:6.0f}" for db, copied in np.mean(everything, axis=0)), flush=True
    )


if __name__ == "__main__":
    main()
