"""From which opacity on a veil should be taken off: PSNR of rendered scenes, by the faintest that is.

Run: python benchmarks/veil.py
A veil is what lies nearer than the focus of a frame, blurred over what it shows. Taking a faint one off gains little
and adds noise; `faintest_opacity` of `allfocus.fusion.settings` is chosen by the mean of these scenes. Prints a line
for each scene and one for the mean, dB; the last column leaves all veils where they are.
"""

import dataclasses

import numpy as np
from planned_scenes import SCENES, planned_scenes

from allfocus.fusion.planning import Plan

OPACITIES = (0.02, 0.05, 0.1, 0.2, 0.3)


def _plan(plan: Plan, faintest: float | None) -> Plan:
    """The plan with veils taken off from an opacity on; None leaves them all."""
    if faintest is None:
        return dataclasses.replace(plan, unveil=False)
    return dataclasses.replace(plan, settings=dataclasses.replace(plan.settings, faintest_opacity=faintest))


def main() -> None:
    """Prints a line for each scene and one for the mean."""
    print("scene".ljust(20) + "".join(f"{value:>10g}" for value in OPACITIES) + "      none")
    everything = []
    for planned in planned_scenes((*SCENES, ("foliage", (480, 640), 5, 8))):
        row = []
        for faintest in (*OPACITIES, None):
            found = planned.fuse(_plan(planned.plan, faintest))
            row.append(-10 * np.log10(np.square(found.image.astype(np.float64) - planned.scene.truth).mean()))
        everything.append(row)
        print(planned.name.ljust(20) + "".join(f"{value:10.3f}" for value in row), flush=True)
    print("mean".ljust(20) + "".join(f"{value:10.3f}" for value in np.mean(everything, axis=0)), flush=True)


if __name__ == "__main__":
    main()
