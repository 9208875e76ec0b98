"""How far measured depth is from the truth of rendered scenes, in steps between frames, beside the map of 0.1.

Textured surfaces are the pixels whose detail in the sharp truth is above 0.02 and whose true depth changes by less than
half a step within four pixels. *Everywhere* is every pixel, at the edges of things too. The map of 0.1 is everywhere;
what is measured now has holes, so it is shown where it is, with what 0.1 has at the same pixels, and filled.
*Whole frames* is the share of textured pixels whose depth is within 0.05 of a whole frame, less that of the truth.
Run: ``python benchmarks/depth_accuracy.py``. ``--fit`` uses the seeds that the method was tuned with instead, and
adds the scene foliage, and prints the constants of the standard error that fit them.
"""

import argparse
from dataclasses import replace
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.depth import measurement
from allfocus.depth.filling import fill_depth
from allfocus.fusion.depth import smooth_depth
from allfocus.fusion.stack_fusion import fuse
from allfocus.scenes.rendering import Scene, render_scene

SCENES = ("slope", "insect", "circuit", "desk")
TUNING_SEEDS, REPORTED_SEEDS = (1, 2, 3), (21, 22)
KINDS = ((8, 0.0), (12, 0.01))
"""Frames and noise."""
TEXTURE, FLATNESS = 0.02, 0.5
WANTED = 0.15

Map = NDArray[np.float32]


class Case(NamedTuple):
    """One stack, measured."""

    name: str
    truth: Map
    textured: NDArray[np.bool_]
    before: Map
    now: measurement.MeasuredDepth
    filled: Map


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scene", action="append", choices=(*SCENES, "foliage"))
    parser.add_argument("--size", default="640x480", help="width x height")
    parser.add_argument("--fit", action="store_true", help="fit the standard error to the tuning seeds")
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    least = measurement.LEAST_ERROR
    if options.fit:
        measurement.LEAST_ERROR, measurement.ERROR_SHARE, measurement.END_SHARE = 0.0, 1.0, 1.0
    cases = []
    print("| scene | seed | frames | noise | 0.1 textured | now | measured | 0.1 everywhere | 0.1 where measured | now "
          "| filled | whole frames 0.1 | now | within 1 se | se |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name in options.scene or (*SCENES, *(["foliage"] if options.fit else [])):
        for seed in TUNING_SEEDS if options.fit else REPORTED_SEEDS:
            for frames, noise in KINDS:
                scene = render_scene(name, frames=frames, size=(height, width), noise=noise, seed=seed)
                cases.append(measure(scene, f"{name} | {seed} | {frames} | {noise:g}"))
                print(row(cases[-1]), flush=True)
    if options.fit:
        between, at_ends = fit_error(cases, least)
        print(f"factors: between the frames {between:.2f}, at the ends of the stack {at_ends:.2f}; with these")
        cases = [with_factors(case, least, between, at_ends) for case in cases]
    errors, stated = gather(cases)
    print(f"all textured pixels, each stack alike: {100 * np.mean(errors <= stated):.1f} % within one standard error")
    for name in dict.fromkeys(case.name.split()[0] for case in cases):
        errors, stated = gather([case for case in cases if case.name.startswith(name)])
        print(f"{name}: {100 * np.mean(errors <= stated):.1f} % within one standard error")


def measure(scene: Scene, name: str) -> Case:
    fused = fuse(scene.frames)
    if fused.depth is None or fused.confidence is None or fused.decision is None:
        raise SystemExit("the method knows no depth")
    last = len(scene.frames) - 1
    picture = np.asarray(fused.image, np.float32)
    now = measurement.measure_depth(scene.frames, fused.decision, picture)
    before = smooth_depth(fused.depth, fused.confidence, picture, step=1 / last) * np.float32(last)
    filled = fill_depth(now, fused.depth, fused.confidence, picture)
    return Case(name, true_steps(scene), textured_surfaces(scene), before, now, filled)


def true_steps(scene: Scene) -> Map:
    """The true depth in steps: blur is linear in 1/distance, and so are the frames."""
    inverse = -1 / np.asarray(scene.focus_distances)
    return np.interp(-1 / scene.depth, inverse, np.arange(len(inverse))).astype(np.float32)


def textured_surfaces(scene: Scene) -> NDArray[np.bool_]:
    grey = cv2.cvtColor(scene.truth, cv2.COLOR_RGB2GRAY)
    detail = np.square(grey - cv2.GaussianBlur(grey, (0, 0), 2))
    around, steps = np.ones((9, 9), np.uint8), true_steps(scene)
    level = cv2.dilate(steps, around) - cv2.erode(steps, around) < FLATNESS
    return np.asarray((np.sqrt(cv2.GaussianBlur(detail, (0, 0), 2)) > TEXTURE) & level)


def row(case: Case) -> str:
    there, textured = case.now.measured, case.textured
    both = there & textured
    now = case.now.position

    def rms(depth: Map, where: NDArray[np.bool_]) -> str:
        return f"{np.sqrt(np.mean(np.square(depth - case.truth)[where])):.3f}"

    def whole(depth: Map) -> float:
        return float(100 * np.mean(np.abs(depth - np.rint(depth))[both] < 0.05))

    within = np.abs(now - case.truth)[both] <= case.now.standard_error[both]
    cells = [
        case.name, rms(case.before, textured), rms(now, both), f"{100 * np.mean(there[textured]):.0f} %",
        rms(case.before, np.ones_like(there)), rms(case.before, there), rms(now, there),
        rms(case.filled, np.ones_like(there)), f"{whole(case.before) - whole(case.truth):+.0f} %",
        f"{whole(now) - whole(case.truth):+.0f} %", f"{100 * np.mean(within):.0f} %",
        f"{np.median(case.now.standard_error[both]):.3f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def gather(cases: list[Case], most: int = 15_000) -> tuple[Map, Map]:
    """Errors and standard errors of as many textured pixels of each stack."""
    errors, stated = [], []
    for case in cases:
        places = np.flatnonzero(case.textured & case.now.measured)
        places = places[np.linspace(0, places.size - 1, most).astype(int)]
        errors.append(np.abs(case.now.position - case.truth).ravel()[places])
        stated.append(case.now.standard_error.ravel()[places])
    return np.concatenate(errors), np.concatenate(stated)


def fit_error(cases: list[Case], least: float) -> tuple[float, float]:
    """The factors with which 68 % of each scene lie within one standard error, as near as two come to that.

    Between the frames, and at the ends of the stack; beside the least error that is stated.
    """
    factors = np.round(np.geomspace(0.5, 10, 301), 2)
    within: dict[str, list[NDArray[np.float64]]] = {}
    for case in cases:
        there = case.textured & case.now.measured
        beyond = np.sqrt(np.maximum(np.square(case.now.position - case.truth)[there] - least**2, 0))
        ratio = beyond / np.maximum(case.now.standard_error[there], 1e-6)
        near_end = measurement.is_near_end(case.now.position[there], case.now.frames)
        shares = [np.searchsorted(np.sort(ratio[own]), factors, "right") / ratio.size for own in (~near_end, near_end)]
        within.setdefault(case.name.split()[0], []).append(np.add.outer(*shares))
    off = sum(np.square(np.mean(stacks, axis=0) - 0.68) for stacks in within.values())
    between, at_ends = np.unravel_index(np.argmin(off), off.shape)
    return float(factors[between]), float(factors[at_ends])


def with_factors(case: Case, least: float, between: float, at_ends: float) -> Case:
    """A stack that was measured with factors of 1, with others."""
    near_end = measurement.is_near_end(case.now.position, case.now.frames)
    stated = np.hypot(least, np.where(near_end, at_ends, between) * case.now.standard_error)
    return case._replace(now=replace(case.now, standard_error=stated.astype(np.float32)))


if __name__ == "__main__":
    main()
