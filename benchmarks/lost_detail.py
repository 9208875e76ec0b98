"""How much of what is erased from rendered scenes is found, what is marked elsewhere, and what measuring costs.

Run: python benchmarks/lost_detail.py [--seed 11] [--tries 40]
A patch of a faultless result is replaced by the most blurred frame, where that frame has less than 35 % of the detail
of the sharpest. Found is a patch of which a tenth is marked. Prints the tables of docs/how-it-works/lost-detail.md.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from allfocus.fusion.detail_meter import measure_lost_detail
from allfocus.fusion.frame_checks import grey_levels
from allfocus.fusion.frame_source import open_spool
from allfocus.fusion.stack_fusion import fuse
from allfocus.scenes.rendering import render_scene

Pixels = NDArray[np.float32]
Change = Callable[[Pixels, np.random.Generator], Pixels]

SCENES = ("insect", "foliage", "circuit", "desk", "slope")
SIZE = (480, 640)
SIDE = 40
FAINTEST = 4 / 255


def add_noise(frame: Pixels, generator: np.random.Generator) -> Pixels:
    return np.clip(frame + generator.normal(0, 0.02, frame.shape).astype(np.float32), 0, 1)


VARIANTS: dict[str, Change] = {
    "as rendered": lambda frame, generator: frame,
    "with noise, standard deviation 2 % of the range": add_noise,
    "stored in 50 to 600 of 65535": lambda frame, generator: np.asarray(np.round(50 + 550 * frame) / 65535, np.float32),
    "blurred by 1.5 pixels throughout": lambda frame, generator: np.asarray(
        cv2.GaussianBlur(frame, (0, 0), 1.5), np.float32
    ),
}


def fine_detail(frame: Pixels) -> Pixels:
    grey = grey_levels(frame)
    return np.square(grey - np.asarray(cv2.GaussianBlur(grey, (0, 0), 3), np.float32))


def erase_patches(
    frames: Sequence[Pixels], clean: Sequence[Pixels], generator: np.random.Generator, tries: int
) -> Iterator[tuple[bool, float]]:
    """For each patch that can be erased, whether it was found and the percentage that is marked elsewhere."""
    fused = fuse(frames, method="laplacian-pyramid", check=False).image
    details = [fine_detail(frame) for frame in clean]
    for _ in range(tries):
        top, left = (int(generator.integers(30, length - 30 - SIDE)) for length in SIZE)
        patch = np.s_[top : top + SIDE, left : left + SIDE]
        strengths = np.sqrt([detail[patch].mean() for detail in details])
        if strengths.max() < FAINTEST or strengths.min() > 0.35 * strengths.max():
            continue
        erased = fused.copy()
        erased[patch] = frames[int(strengths.argmin())][patch]
        lost = measure_lost_detail(erased, frames)
        marked = np.repeat(np.repeat(lost.map > 0, lost.cell, axis=0), lost.cell, axis=1)[: SIZE[0], : SIZE[1]]
        found = bool(marked[patch].mean() > 0.1)
        marked[top - 16 : top + SIDE + 16, left - 16 : left + SIDE + 16] = False
        yield found, 100 * float(marked.mean())


def measure_cost(seed: int) -> None:
    scene = render_scene("foliage", frames=8, size=(1500, 2000), seed=seed)
    print("\n| method | fusing, CPU s | measuring, CPU s | share |\n|---|---|---|---|")
    with open_spool(8) as spool:
        for frame in scene.frames:
            spool.append(frame)
        for method in ("ips", "laplacian-pyramid"):
            began = time.process_time()
            image = fuse(spool, method=method, check=False).image
            fusing = time.process_time() - began
            seconds = []
            for _ in range(5):
                began = time.process_time()
                measure_lost_detail(image, spool)
                seconds.append(time.process_time() - began)
            measuring = float(np.median(seconds))
            print(f"| {method} | {fusing:.2f} | {measuring:.3f} | {100 * measuring / fusing:.1f} % |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--tries", type=int, default=40)
    options = parser.parse_args()
    print("| stack | patches found | marked elsewhere |\n|---|---|---|")
    scenes = [render_scene(name, frames=6, size=SIZE, seed=options.seed) for name in SCENES]
    for name, change in VARIANTS.items():
        generator = np.random.default_rng(options.seed)
        outcomes: list[tuple[bool, float]] = []
        for scene in scenes:
            frames = [change(np.asarray(frame, np.float32), generator) for frame in scene.frames]
            clean = frames if "blurred" in name else [np.asarray(frame, np.float32) for frame in scene.frames]
            outcomes += erase_patches(frames, clean, generator, options.tries)
        found, elsewhere = zip(*outcomes, strict=True)
        print(f"| {name} | {sum(found)} of {len(found)} | {np.mean(elsewhere):.3f} % |", flush=True)
    measure_cost(options.seed)


if __name__ == "__main__":
    main()
