"""Chooses how decisively the network's logits select, without looking at an evaluation picture.

Run: python benchmarks/choose_settings.py PHOTOS [--weights FILE.onnx ...] [--samples 24]
PHOTOS is the folder of training photos, of which only the held-out ones are used. For every pair of SHARPNESS
(allfocus.fusion.learned) and EVIDENCE_NOISE (allfocus.fusion.blending) it prints the mean PSNR over samples of held-out
photos (each kind that training knows, with its noise, compression and exposure) and over rendered scenes. Crops and
seeds are used by nothing else.

The rule, fixed before the run whose result ships: SHARPNESS is the one with the highest mean of both columns at the
EVIDENCE_NOISE that ships. PSNR alone decides, because it is the one figure that knows the truth. EVIDENCE_NOISE is not
chosen here: what it prevents, blotches where no frame is in focus, is seen by the eye and hardly by PSNR; its other
values are printed to show what it costs. Several weights are compared in the same way.
"""

import argparse
import itertools
from pathlib import Path

import numpy as np
import onnxruntime
import torch

import allfocus
from allfocus.fusion import blending
from allfocus.fusion.inference import prepare_frame
from allfocus.scenes.rendering import render_scene
from allfocus.training.blurring import MARGIN
from allfocus.training.photos import load_photos
from allfocus.training.recipe import read_recipe
from allfocus.training.samples import MOVE_MARGIN, draw_batch
from allfocus.training.validation import validation_recipes

SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0)
NOISE = (0.25, 0.5, 0.75, 1.5)
SHIPPED_NOISE = round(blending.EVIDENCE_NOISE * 255, 6)
SCENES = (("desk", 6), ("foliage", 8), ("insect", 8), ("circuit", 6), ("flat", 4))
SCENE_SEEDS = (21, 22, 23, 24)
CROP_SEED = 2026


def stacks(photos: Path, recipe_path: Path, samples: int):
    """Gives (group, frames, truth)."""
    recipe = read_recipe(recipe_path)
    data = recipe.data
    held_out = load_photos(
        photos,
        smallest_side=data.crop + 2 * MARGIN + 2 * MOVE_MARGIN,
        licence_classes=data.licence_classes,
        device=torch.device("cpu"),
        part=(data.held_out_every, data.held_out_every - 1, True),
    )
    for kind, shuffle in validation_recipes(recipe.shuffle).items():
        if kind == "pixel":
            continue
        generator = torch.Generator().manual_seed(CROP_SEED)
        batch = draw_batch(
            held_out,
            shuffle,
            batch=samples,
            crop=recipe.data.crop,
            sources=shuffle.sources[0],
            generator=generator,
        )
        for frames, target in zip(batch.frames, batch.target, strict=True):
            yield "photos", list(frames.permute(0, 2, 3, 1).numpy()), target.permute(1, 2, 0).numpy()
    for (name, count), seed in itertools.product(SCENES, SCENE_SEEDS):
        scene = render_scene(name, frames=count, size=(384, 512), seed=seed, noise=0.004)
        yield "scenes", scene.frames, scene.truth


def judge(session, frames, truth) -> dict[tuple[float, float], float]:
    """Returns the PSNR of one stack for every pair of settings."""
    height, width = truth.shape[:2]
    frames = [np.asarray(frame, np.float32) for frame in frames]
    logits = session.run(None, {"frames": np.stack([prepare_frame(frame) for frame in frames])})[0]
    logits = list(logits[:, :height, :width])
    found = {}
    for noise in NOISE:
        blending.EVIDENCE_NOISE = noise / 255
        settled = blending.settle_logits(logits, blending.differing_evidence(frames))
        for sharpness in SHARPNESS:
            image = blending.blend_frames(frames, blending.selection_weights([sharpness * own for own in settled]))
            found[sharpness, noise] = float(-10 * np.log10(max(np.mean((image - truth) ** 2), 1e-10)))
    return found


def report(found: list[tuple[str, dict[tuple[float, float], float]]]) -> None:
    """Prints the table and marks what the rule says."""
    print("| sharpness | noise | PSNR photos | PSNR scenes | mean |\n|---|---|---|---|---|")
    rows = []
    for setting in itertools.product(SHARPNESS, NOISE):
        photos, scenes = (
            float(np.mean([own[setting] for group, own in found if group == wanted])) for wanted in ("photos", "scenes")
        )
        rows.append((*setting, photos, scenes, (photos + scenes) / 2))
    chosen = max((row for row in rows if row[1] == SHIPPED_NOISE), key=lambda row: row[4])
    for row in rows:
        values = " | ".join(f"{value:.3f}" for value in row[2:])
        print(f"| {row[0]:g} | {row[1]:g} | {values}{' **chosen**' if row == chosen else ''} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    shipped = Path(allfocus.__file__).parent / "weights" / "ips.onnx"
    parser.add_argument("--weights", type=Path, action="append")
    parser.add_argument("--recipe", type=Path, default=Path(__file__).parents[1] / "recipes" / "ips-wide.toml")
    parser.add_argument("--samples", type=int, default=24)
    arguments = parser.parse_args()
    everything = list(stacks(arguments.photos, arguments.recipe, arguments.samples))
    for weights in arguments.weights or [shipped]:
        session = onnxruntime.InferenceSession(weights.read_bytes(), providers=["CPUExecutionProvider"])
        print(f"\n{weights.name}")
        report([(group, judge(session, frames, truth)) for group, frames, truth in everything])


if __name__ == "__main__":
    main()
