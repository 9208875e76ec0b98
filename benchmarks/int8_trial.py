"""What the network would gain and lose in 8-bit integers: processor time and PSNR beside floating point.

Run: python benchmarks/int8_trial.py PHOTOS [--keep 3] [--samples 10]
PHOTOS is the folder of training photos: those that training saw set the ranges, the held-out ones and rendered scenes
judge. All convolutions are made 8 bits wide (7 for weights, so that no processor saturates), but for as many as --keep
says: these of SENSITIVE, in the order of what each costs on its own, stay in floating point. Needs the train extra.
"""

import argparse
import logging
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from choose_settings import stacks
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import allfocus
from allfocus.fusion import blending
from allfocus.fusion.inference import prepare_frame
from allfocus.training.blurring import MARGIN
from allfocus.training.photos import load_photos
from allfocus.training.recipe import read_recipe
from allfocus.training.samples import MOVE_MARGIN, draw_batch

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "ips-wide.toml"
SENSITIVE = (22, 19, 0, 1, 21, 2)
"""Places of convolutions in the graph, the most sensitive first."""


class Ranges(CalibrationDataReader):
    """Stacks as training draws them."""

    def __init__(self, photos: Path) -> None:
        recipe = read_recipe(RECIPE)
        data = recipe.data
        bank = load_photos(
            photos,
            smallest_side=data.crop + 2 * MARGIN + 2 * MOVE_MARGIN,
            licence_classes=data.licence_classes,
            device=torch.device("cpu"),
            part=(data.held_out_every, data.held_out_every - 1, False),
        )
        generator = torch.Generator().manual_seed(7)
        batches = [
            draw_batch(bank, recipe.shuffle, batch=8, crop=256, sources=count, generator=generator).frames
            for count in (2, 3, 4)
        ]
        self._stacks = iter([frames.numpy() for batch in batches for frames in batch])

    def get_next(self):
        """Returns the next input of the network, None after the last."""
        frames = next(self._stacks, None)
        return None if frames is None else {"frames": frames}


def quantize(photos: Path, keep: int, target: Path) -> None:
    """Writes the network with 8-bit convolutions."""
    simple = target.with_name("simple.onnx")
    quant_pre_process(Path(allfocus.__file__).parent / "weights" / "ips.onnx", simple, skip_symbolic_shape=True)
    convolutions = [node.name for node in onnx.load(simple).graph.node if node.op_type == "Conv"]
    quantize_static(
        simple,
        target,
        Ranges(photos),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=["Conv"],
        per_channel=True,
        reduce_range=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=[convolutions[place] for place in SENSITIVE[:keep]],
    )


def judge(session, everything) -> tuple[dict[str, float], float]:
    """Returns the mean PSNR by group, and the processor seconds in the network."""
    found: dict[str, list[float]] = {}
    seconds = 0.0
    for group, frames, truth in everything:
        height, width = truth.shape[:2]
        frames = [np.asarray(frame, np.float32) for frame in frames]
        given = {"frames": np.stack([prepare_frame(frame) for frame in frames])}
        began = time.process_time()
        logits = session.run(None, given)[0]
        seconds += time.process_time() - began
        settled = blending.settle_logits(list(logits[:, :height, :width]), blending.differing_evidence(frames))
        image = blending.blend_frames(frames, blending.selection_weights(settled))
        found.setdefault(group, []).append(-10 * np.log10(max(float(np.mean((image - truth) ** 2)), 1e-10)))
    return {group: float(np.mean(values)) for group, values in found.items()}, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--keep", type=int, default=3, choices=range(len(SENSITIVE) + 1))
    parser.add_argument("--samples", type=int, default=10)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    everything = list(stacks(arguments.photos, RECIPE, arguments.samples))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "int8.onnx"
        quantize(arguments.photos, arguments.keep, target)
        shipped = Path(allfocus.__file__).parent / "weights" / "ips.onnx"
        for name, path in (("float", shipped), (f"int8, {arguments.keep} kept", target)):
            figures, seconds = judge(onnxruntime.InferenceSession(path.read_bytes(), options), everything)
            values = ", ".join(f"{group} {value:.3f} dB" for group, value in figures.items())
            print(f"{name}: {values}; {seconds:.2f} processor seconds in the network")


if __name__ == "__main__":
    main()
