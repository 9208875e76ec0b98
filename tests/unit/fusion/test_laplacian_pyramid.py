import cv2
import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.fusion.laplacian_pyramid import fuse_laplacian_pyramid, fuse_laplacian_pyramid_energy
from allfocus.images.reading import read_image
from allfocus.images.writing import to_integers
from allfocus.metrics.peak_signal_noise_ratio import peak_signal_to_noise

both = pytest.mark.parametrize("fuse", [fuse_laplacian_pyramid, fuse_laplacian_pyramid_energy])
KERNEL = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256


def filtered(picture):
    """A plain twin of the filter: the picture is mirrored about its outermost pixels."""
    mirrored = np.pad(picture, 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(mirrored, (5, 5))
    return (windows * KERNEL).sum(axis=(2, 3))


def expanded(small):
    spread = np.zeros((2 * small.shape[0], 2 * small.shape[1]))
    spread[::2, ::2] = small
    return 4 * filtered(spread)


def published(frames, levels):
    """Burt and Adelson, loop by loop, for sizes that can be halved so often."""
    chosen = []
    for _ in range(levels):
        smaller = [filtered(frame)[::2, ::2] for frame in frames]
        details = np.stack([frame - expanded(small) for frame, small in zip(frames, smaller, strict=True)])
        largest = np.abs(details).argmax(axis=0)
        chosen.append(np.take_along_axis(details, largest[np.newaxis], axis=0)[0])
        frames = smaller
    fused = np.mean(frames, axis=0)
    for detail in reversed(chosen):
        fused = expanded(fused) + detail
    return np.clip(fused, 0, 1)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_it_is_the_pyramid_as_published(count):
    frames = [np.random.default_rng(seed).random((64, 96), dtype=np.float32) for seed in range(count)]
    image, *_ = fuse_laplacian_pyramid(frames)
    # OpenCV repeats the last coarse row and column where the published code mirrors; that reaches the border alone.
    inside = np.s_[:-24, :-24]
    np.testing.assert_allclose(image[inside], published(frames, 4)[inside], atol=2e-6)


def test_each_channel_is_fused_by_itself(pair):
    image, *_ = fuse_laplacian_pyramid(pair.frames)
    for channel in range(3):
        alone, *_ = fuse_laplacian_pyramid([np.ascontiguousarray(frame[..., channel]) for frame in pair.frames])
        np.testing.assert_allclose(image[..., channel], alone, atol=1e-6)


def test_real_mff_is_as_near_to_its_truth_as_in_the_literature(shared_data):
    """41.70 dB over all 710 pairs (published); these 32 have 41.24."""
    scores, folder = [], shared_data / "eval" / "real-mff"
    for path in sorted((folder / "Fusion").iterdir()):
        frames = [read_image(folder / side / path.name).pixels for side in ("imageA", "imageB")]
        fused = to_integers(fuse_laplacian_pyramid(frames)[0], 8)
        scores.append(peak_signal_to_noise(fused, to_integers(read_image(path).pixels, 8)))
    assert np.mean(scores) == pytest.approx(41.24, abs=0.02)


def test_with_energy_colours_are_chosen_together():
    """A faint red detail beside a strong green one of the other frame must not survive in the same place."""
    rows = np.sin(np.arange(64)[:, np.newaxis] * 1.5).astype(np.float32) * np.ones((1, 64), np.float32)
    strong, faint = np.full((64, 64, 3), 0.5, np.float32), np.full((64, 64, 3), 0.5, np.float32)
    strong[..., 1] += 0.4 * rows
    faint[..., 0] += 0.1 * rows
    image, *_ = fuse_laplacian_pyramid_energy([faint, strong], levels=1)
    # What is left of the red detail comes from the averaged base, which holds almost nothing of so fine a pattern.
    assert np.std(image[8:-8, 8:-8, 0]) < 0.3 * np.std(faint[8:-8, 8:-8, 0])
    assert np.std(image[8:-8, 8:-8, 1]) > 0.9 * np.std(strong[8:-8, 8:-8, 1])


def test_with_energy_noise_in_a_blurred_frame_wins_less_often(pair):
    generator = np.random.default_rng(1)
    noisy = [
        np.clip(cv2.GaussianBlur(pair.truth, (0, 0), sigma) + generator.normal(0, 0.03, pair.truth.shape), 0, 1)
        for sigma in (0.01, 3)
    ]
    frames = [frame.astype(np.float32) for frame in noisy]
    errors = [
        np.mean((fuse(frames)[0] - pair.truth) ** 2) for fuse in (fuse_laplacian_pyramid_energy, fuse_laplacian_pyramid)
    ]
    assert errors[0] < 0.9 * errors[1]


@both
def test_more_levels_leave_less_of_the_blurred_frame_in_the_base(fuse, pair):
    errors = [np.mean((fuse(pair.frames, levels=n)[0] - pair.truth) ** 2) for n in (1, 4)]
    assert errors[1] < errors[0]


@both
def test_a_constant_is_the_mean_of_constants(fuse):
    image, *_ = fuse([np.full((33, 47), 0.2, np.float32), np.full((33, 47), 0.6, np.float32)])
    assert np.allclose(image, 0.4)


@both
def test_no_levels_is_refused(fuse):
    with pytest.raises(InputError, match="levels is 0"):
        fuse([np.zeros((8, 8), np.float32)] * 2, levels=0)
