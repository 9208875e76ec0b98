"""JPEG as libjpeg writes it, and movements that are none when none is asked for."""

import io

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional

from allfocus.training.degradation import affine_grid, compress_jpeg


def sample_picture() -> np.ndarray:
    """Smooth colours with shapes and a little noise, uint8 (96, 128, 3): neither flat nor pure noise, like a photo."""
    random = np.random.default_rng(0)
    base = cv2.resize(random.random((5, 6, 3), dtype=np.float32), (128, 96), interpolation=cv2.INTER_CUBIC)
    for _ in range(25):
        centre = (int(random.integers(128)), int(random.integers(96)))
        colour = tuple(float(value) for value in random.random(3))
        cv2.circle(base, centre, int(random.integers(3, 14)), colour, -1)
    noisy = 0.2 + 0.6 * base + 0.01 * random.standard_normal(base.shape)
    return (noisy.clip(0, 1) * 255).round().astype(np.uint8)


PICTURE = sample_picture()


def pillow_jpeg(quality: int, *, subsample: bool) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(PICTURE).save(file, "JPEG", quality=quality, subsampling=2 if subsample else 0)
    return np.asarray(Image.open(file)).astype(np.float64)


def our_jpeg(quality: int, *, subsample: bool) -> np.ndarray:
    pictures = torch.from_numpy(PICTURE).permute(2, 0, 1)[None] / 255
    done = compress_jpeg(pictures, torch.tensor([float(quality)]), torch.tensor([subsample]))
    return done[0].permute(1, 2, 0).numpy().astype(np.float64) * 255


@pytest.mark.parametrize("quality", [30, 60, 80, 95])
@pytest.mark.parametrize("subsample", [False, True])
def test_jpeg_is_near_that_of_pillow(quality, subsample):
    real = pillow_jpeg(quality, subsample=subsample)
    difference = np.abs(our_jpeg(quality, subsample=subsample) - real).mean()
    damage = np.abs(real - PICTURE).mean()
    assert difference < 1.4, f"{difference:.2f} levels from Pillow's, which itself is {damage:.2f} from the original"


def test_quality_and_subsampling_are_chosen_per_sample():
    pictures = torch.from_numpy(PICTURE).permute(2, 0, 1)[None].repeat(2, 1, 1, 1) / 255
    both = compress_jpeg(pictures, torch.tensor([40.0, 90.0]), torch.tensor([True, False]))
    for sample, (quality, subsample) in enumerate([(40, True), (90, False)]):
        expected = our_jpeg(quality, subsample=subsample) / 255
        np.testing.assert_allclose(both[sample].permute(1, 2, 0).numpy(), expected, atol=1e-6)


def test_jpeg_gives_whole_levels_between_zero_and_one():
    levels = our_jpeg(30, subsample=False)
    np.testing.assert_allclose(levels, levels.round(), atol=1e-4)
    assert levels.min() >= 0
    assert levels.max() <= 255


def grid(shift: float = 0.0, turn: float = 0.0, zoom: float = 0.0, *, seed: int = 0, batch: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return affine_grid(
        batch, (20, 26), 12, shift=shift, turn=turn, zoom=zoom, generator=generator, device=torch.device("cpu")
    )


def look(pictures: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return functional.grid_sample(pictures, where, mode="bicubic", padding_mode="reflection", align_corners=True)


def test_without_motion_the_grid_is_the_identity():
    pictures = torch.rand(3, 3, 44, 50)
    torch.testing.assert_close(look(pictures, grid()), pictures[..., 12:-12, 12:-12], rtol=0, atol=2e-5)


def test_whole_shifts_copy_pixels_and_happen_a_third_of_the_time():
    """A whole shift leaves every pixel as it was, so the seen picture occurs in the larger one."""
    pictures = torch.rand(1, 1, 44, 50).expand(200, -1, -1, -1)
    where = grid(shift=2.0, turn=0.01, zoom=0.01, batch=200)
    # Undo the normalisation: position of the first pixel in pixels.
    first = (where[:, 0, 0] * torch.tensor([49.0, 43.0]) + torch.tensor([49.0, 43.0])) / 2
    whole = (first - first.round()).abs().amax(1) < 1e-4
    assert 0.2 < float(whole.float().mean()) < 0.48
    seen = look(pictures, where)
    for sample in whole.nonzero()[:5, 0].tolist():
        left, top = (int(value) for value in first[sample].round())
        expected = pictures[sample, :, top : top + 20, left : left + 26]
        torch.testing.assert_close(seen[sample], expected, rtol=0, atol=1e-4)


def test_a_shift_moves_by_pixels_and_never_leaves_the_margin():
    where = grid(shift=100.0, batch=50)
    first = (where[:, 0, 0] * torch.tensor([49.0, 43.0]) + torch.tensor([49.0, 43.0])) / 2
    assert first.min() >= 6 - 1e-3
    assert first.max() <= 18 + 1e-3
    assert (first - 12).abs().max() > 5.9
