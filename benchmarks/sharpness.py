"""How decided weights should be: PSNR and share of copied pixels of rendered scenes, by a factor on the logits.

Run: python benchmarks/sharpness.py [--alike]

The factor holds where there is detail; where there is none, frames are mixed as softly as the network says.
Pixels that are copied keep the colour, grain and bit depth of the frame they come from, and mixing transparent things
loses detail of all of them. The largest factor that loses at most 0.02 dB against the best in the mean of these scenes
is `sharpness` of `allfocus.fusion.settings`.

With `--alike`, the factor stays, and two others vary: the share of the detail's energy below which frames count as
showing the same, and the factor that then holds, so that one of them is copied; `alike` and `alike_sharpness` of the
settings are the best in the mean. There is one more scene, a receding surface whose frames are all nearly sharp, as in
the set `stack` of `allfocus benchmark`, but with another seed and smaller.
"""

import argparse
import dataclasses
from collections.abc import Sequence

import numpy as np
from planned_scenes import PlannedScene, planned_scenes

from allfocus.fusion.frame_source import MemorySource
from allfocus.fusion.planning import plan_fusion
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.scenes.rendering import render_scene

FACTORS = (1.0, 1.5, 2.0, 3.0, 4.0, 8.0)
NEVER = (1e-9, 8.0)
"""No frames count as showing the same."""
ALIKE = (NEVER, (0.003, 8.0), (0.003, 32.0), (0.006, 32.0), (0.01, 32.0), (0.05, 8.0))
"""Shares, each with a factor."""


def main() -> None:
    """Prints a line for each scene and one for the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alike", action="store_true")
    arguments = parser.parse_args()
    settings = [
        dataclasses.replace(AS_CHOSEN, alike=share, alike_sharpness=factor)
        if arguments.alike
        else dataclasses.replace(AS_CHOSEN, sharpness=factor, alike=share)
        for share, factor in (ALIKE if arguments.alike else [(NEVER[0], factor) for factor in FACTORS])
    ]
    names = (
        [f"{share:g} x{factor:g}" for share, factor in ALIKE] if arguments.alike else [f"{one:g}" for one in FACTORS]
    )
    print("scene".ljust(20) + "".join(name.rjust(16) for name in names) + "   (dB, % copied)")
    everything = [_row(planned, settings) for planned in planned_scenes()]
    if arguments.alike:
        everything.append(_row(_weak_slope(), settings))
    print(_line("mean", np.mean(everything, axis=0)), flush=True)


def _weak_slope() -> PlannedScene:
    scene = render_scene("slope", frames=10, size=(2000, 3000), aperture=0.005, seed=7)
    source = MemorySource([np.asarray(frame, np.float32) for frame in scene.frames])
    return PlannedScene("slope, weak blur", scene, source, plan_fusion(source, device="cpu"))


def _row(planned: PlannedScene, settings: Sequence[DecisionSettings]) -> list[tuple[float, float]]:
    """Prints and returns what each of the settings gives."""
    scene, row = planned.scene, []
    for own in settings:
        found = planned.fuse(dataclasses.replace(planned.plan, settings=own, unveil=False))
        error = np.square(np.clip(found.image, 0, 1).astype(np.float64) - scene.truth).mean()
        named = np.take_along_axis(np.stack(scene.frames), found.decision[None, ..., None].astype(int), axis=0)[0]
        row.append((float(-10 * np.log10(error)), float(100 * (found.image == named).all(axis=2).mean())))
    print(_line(planned.name, row), flush=True)
    return row


def _line(name: str, row: Sequence[Sequence[float]]) -> str:
    return name.ljust(20) + "".join(f"{db:10.3f}{copied:6.0f}" for db, copied in row)


if __name__ == "__main__":
    main()
