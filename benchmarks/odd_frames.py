"""What one odd frame in a stack costs: a flash that misfired, another white balance, rims that other software left.

Run: python benchmarks/odd_frames.py [--scene insect ...]
Renders stacks of 8 frames of 900 x 675 pixels, spoils one frame or several as happens in practice, writes 8-bit PNG and
fuses them with default options. Prints PSNR in dB against the truth, which for a picture that was cropped is cut to it
from the middle. It uses public functions alone, so it runs on older versions too. Takes two minutes.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

import allfocus

Frames = list[NDArray[np.float64]]
SIZE, FRAMES, SEED = (675, 900), 8, 33
SCENES = ("insect", "circuit", "foliage")


def lit(frame: NDArray[np.float64], factor: float | list[float]) -> NDArray[np.float64]:
    """The frame with this factor on its light, on the sRGB curve."""
    light = np.where(frame <= 0.04045, frame / 12.92, ((frame + 0.055) / 1.055) ** 2.4) * np.asarray(factor)
    curved = 1.055 * np.maximum(light, 1e-9) ** (1 / 2.4) - 0.055
    return np.asarray(np.where(light <= 0.0031308, light * 12.92, curved), np.float64)


def with_one(place: int, factor: float | list[float], noise: float = 0.0) -> Callable[[Frames], Frames]:
    """Spoils the light of one frame."""

    def spoil(frames: Frames) -> Frames:
        odd = lit(frames[place], factor) + np.random.default_rng(1).normal(0, noise, frames[place].shape)
        return [*frames[:place], odd, *frames[place:][1:]]

    return spoil


def with_black(frames: Frames) -> Frames:
    """One frame more, taken without the flash."""
    black = lit(frames[3], 0.01) + np.random.default_rng(1).normal(0, 0.01, frames[3].shape)
    return [*frames[:4], black, *frames[4:]]


def fading(frames: Frames) -> Frames:
    """Every frame has a tenth less light than the one before; the middle one is as rendered."""
    return [lit(frame, 0.9 ** (number - len(frames) // 2)) for number, frame in enumerate(frames)]


def with_rims(frames: Frames) -> Frames:
    """All frames but one end in black, as others leave frames that they have turned, scaled and shifted."""
    generator, result = np.random.default_rng(1), []
    for number, frame in enumerate(frames):
        height, width = frame.shape[:2]
        away = number - len(frames) // 2
        motion = cv2.getRotationMatrix2D((width / 2, height / 2), 0.25 * away, 1 - 0.004 * abs(away))
        motion = motion + np.outer(generator.uniform(-5, 5, 2) * (away != 0), (0, 0, 1))
        shown = np.asarray(cv2.warpAffine(np.ones((height, width)), motion, (width, height)))
        result.append(frame * shown[..., None])
    return result


CASES: dict[str, Callable[[Frames], Frames]] = {
    "as rendered": list,
    "last frame with a tenth of the light": with_one(7, 0.1),
    "last frame with a quarter of the light": with_one(7, 0.25),
    "the same, with noise of 1 %": with_one(7, 0.25, 0.01),
    "last frame with twice the light": with_one(7, 2.0),
    "middle frame with a quarter of the light": with_one(4, 0.25),
    "middle frame with another white balance": with_one(4, [1.25, 1.0, 0.7]),
    "a tenth less light from frame to frame": fading,
    "a black frame more": with_black,
    "rims of frames that were moved": with_rims,
}


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", action="append", help="insect, circuit and foliage without it")
    scenes = parser.parse_args().scene or list(SCENES)
    rendered = [allfocus.render_scene(name, frames=FRAMES, size=SIZE, seed=SEED) for name in scenes]
    print(" " * 44 + "".join(name.rjust(10) for name in scenes))
    for name, spoil in CASES.items():
        row = []
        for scene in rendered:
            frames = spoil([np.asarray(frame, np.float64) for frame in scene.frames])
            row.append(quality(frames, np.asarray(scene.truth, np.float64)))
        print(name.ljust(44) + "".join(f"{value:10.2f}" for value in row), flush=True)


def quality(frames: Frames, truth: NDArray[np.float64]) -> float:
    """PSNR of the fused frames."""
    with tempfile.TemporaryDirectory() as folder:
        shots = Path(folder) / "shots"
        shots.mkdir()
        for number, frame in enumerate(frames):
            allfocus.write_image(np.clip(frame, 0, 1).astype(np.float32), shots / f"{number:02d}.png", bit_depth=8)
        image = allfocus.fuse_files(shots, Path(folder) / "fused.png").image
    top, left = ((whole - part) // 2 for whole, part in zip(truth.shape, image.shape[:2], strict=False))
    seen = truth[top : top + image.shape[0], left : left + image.shape[1]]
    return float(-10 * np.log10(np.square(image - seen).mean()))


if __name__ == "__main__":
    main()
