"""Chooses what stands between the network's logits and the picture, without looking at an evaluation picture.

Run: python benchmarks/choose_settings.py PHOTOS [--weights FILE.onnx ...] [--samples 12]
PHOTOS is the folder of training photos, of which only the held-out ones are used. For every pair of SHARPNESS
(allfocus.fusion.learned) and EVIDENCE_NOISE (allfocus.fusion.blending) it prints the mean PSNR over samples of held-out
photos (each kind that training knows) and over rendered scenes (two seeds that nothing else uses), and the means of the
field's six no-reference metrics over the samples of photos. The best is marked by the mean of the standardised columns:
PSNR and the six metrics weigh half each, because they pull in different directions (PSNR likes soft weights, mutual
information copies of pixels); the best by PSNR alone is marked too. Several weights are compared in the same way.
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
from allfocus.images.writing import to_integers
from allfocus.metrics.catalogue import score
from allfocus.scenes.rendering import render_scene
from allfocus.training.blurring import MARGIN
from allfocus.training.photos import load_photos
from allfocus.training.recipe import read_recipe
from allfocus.training.samples import MOVE_MARGIN
from allfocus.training.validation import _draw_fixed, _validation_recipes

SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0)
NOISE = (0.25, 0.5, 0.75, 1.5)
METRICS = ("Q_MI", "Q_SF", "Q_S", "Q_CB", "Q_AB/F", "Q_NCIE")
SCENES = (("desk", 6), ("foliage", 8), ("insect", 8), ("circuit", 6), ("flat", 4))


def stacks(photos: Path, recipe_path: Path, samples: int):
    """Gives (group, kind, frames, truth)."""
    recipe = read_recipe(recipe_path)
    data = recipe.data
    held_out = load_photos(
        photos,
        smallest_side=data.crop + 2 * MARGIN + 2 * MOVE_MARGIN,
        licence_classes=data.licence_classes,
        device=torch.device("cpu"),
        part=(data.held_out_every, data.held_out_every - 1, True),
    )
    for kind, shuffle in _validation_recipes(recipe.shuffle).items():
        if kind == "pixel":
            continue
        batch = _draw_fixed(held_out, shuffle, samples, recipe.data.crop)
        for frames, target in zip(batch.frames, batch.target, strict=True):
            yield "photos", kind, list(frames.permute(0, 2, 3, 1).numpy()), target.permute(1, 2, 0).numpy()
    for (name, count), seed in itertools.product(SCENES, (11, 12)):
        scene = render_scene(name, frames=count, size=(384, 512), seed=seed, noise=0.004)
        yield "scenes", name, scene.frames, scene.truth


def judge(session, group, frames, truth) -> dict[tuple[float, float], dict[str, float]]:
    """Returns the figures of one stack for every pair of settings."""
    height, width = truth.shape[:2]
    frames = [np.asarray(frame, np.float32) for frame in frames]
    logits = session.run(None, {"frames": np.stack([prepare_frame(frame) for frame in frames])})[0]
    logits = list(logits[:, :height, :width])
    levels = [to_integers(frame, 8) for frame in frames]
    found = {}
    for noise in NOISE:
        blending.EVIDENCE_NOISE = noise / 255
        settled = blending.settle_logits(logits, blending.differing_evidence(frames))
        for sharpness in SHARPNESS:
            image = blending.blend_frames(frames, blending.selection_weights(settled, sharpness=sharpness))
            figures = {"PSNR": float(-10 * np.log10(max(np.mean((image - truth) ** 2), 1e-10)))}
            if group == "photos":
                figures |= score(to_integers(image, 8), levels, metrics=METRICS)
            found[sharpness, noise] = figures
    return found


def report(found: list[tuple[str, str, dict[tuple[float, float], dict[str, float]]]]) -> None:
    settings = list(itertools.product(SHARPNESS, NOISE))
    columns: dict[str, list[float]] = {}
    for group in ("photos", "scenes"):
        columns[f"PSNR {group}"] = [
            float(np.mean([own[s]["PSNR"] for g, _, own in found if g == group])) for s in settings
        ]
    for name in METRICS:
        columns[name] = [float(np.mean([own[s][name] for g, _, own in found if g == "photos"])) for s in settings]
    standard = {name: (np.array(v) - np.mean(v)) / (np.std(v) + 1e-12) for name, v in columns.items()}
    fidelity = (standard["PSNR photos"] + standard["PSNR scenes"]) / 2
    overall = (fidelity + np.mean([standard[name] for name in METRICS], axis=0)) / 2
    print("| sharpness | noise | " + " | ".join(columns) + " | overall |\n" + "|---" * (len(columns) + 3) + "|")
    for place, (sharpness, noise) in enumerate(settings):
        mark = " **best**" if place == int(np.argmax(overall)) else ""
        mark += " best by PSNR alone" if place == int(np.argmax(fidelity)) else ""
        values = " | ".join(f"{values[place]:.4f}" for values in columns.values())
        print(f"| {sharpness:g} | {noise:g} | {values} | {overall[place]:+.2f}{mark} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    shipped = Path(allfocus.__file__).parent / "weights" / "ips.onnx"
    parser.add_argument("--weights", type=Path, action="append")
    parser.add_argument("--recipe", type=Path, default=Path(__file__).parents[1] / "recipes" / "ips.toml")
    parser.add_argument("--samples", type=int, default=12)
    arguments = parser.parse_args()
    everything = list(stacks(arguments.photos, arguments.recipe, arguments.samples))
    for weights in arguments.weights or [shipped]:
        session = onnxruntime.InferenceSession(weights.read_bytes(), providers=["CPUExecutionProvider"])
        print(f"\n{weights.name}")
        report([(group, kind, judge(session, group, frames, truth)) for group, kind, frames, truth in everything])


if __name__ == "__main__":
    main()
