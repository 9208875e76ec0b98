"""Fusion by the shipped networks: any number of frames, any size, and what the maps beside the picture say."""

import sys

import cv2
import numpy as np
import onnxruntime
import pytest

from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion.average import fuse_average
from allfocus.fusion.learned import fuse_ips, fuse_ips_paper
from allfocus.fusion.methods import fuse
from allfocus.scenes.rendering import render_scene


@pytest.fixture(scope="module")
def desk():
    """Six frames of 96 x 128."""
    return render_scene("desk", frames=6, size=(96, 128))


@pytest.fixture
def no_cuda(monkeypatch):
    """A machine without a GPU, whatever this one has."""
    import torch

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def random_frames(count, shape, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.random(shape, dtype=np.float32) for _ in range(count)]


# What ips returns


@pytest.mark.parametrize("count", range(2, 13))
def test_two_to_twelve_frames_work(count):
    frames = random_frames(count, (24, 40, 3))
    image, decision, depth = fuse_ips(frames)
    assert image.shape == (24, 40, 3)
    assert image.dtype == np.float32
    assert decision.shape == depth.shape == (24, 40)
    assert decision.dtype == np.int16
    assert 0 <= decision.min() <= decision.max() <= count - 1
    assert depth.dtype == np.float32
    # The weights add up to 1 within rounding, and so does a depth of 1.
    assert -1e-6 <= depth.min() <= depth.max() <= 1 + 1e-6


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (5, 7), (8, 8), (15, 17), (16, 16), (33, 47), (64, 9)])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_any_size_works_in_grey_and_in_colour(size, channels):
    frames = random_frames(3, (*size, *channels))
    image, decision, depth = fuse_ips(frames)
    assert image.shape == (*size, *channels)
    assert decision.shape == depth.shape == size
    # Every pixel comes from the sources: nothing of the padding gets in, nothing is invented.
    assert (image >= np.min(frames, axis=0) - 1e-6).all()
    assert (image <= np.max(frames, axis=0) + 1e-6).all()


def test_grey_frames_give_what_the_same_in_three_channels_gives(desk):
    grey = [frame.mean(axis=2) for frame in desk.frames]
    colour = [np.repeat(frame[..., None], 3, axis=2) for frame in grey]
    image, decision, _ = fuse_ips(grey)
    colour_image, colour_decision, _ = fuse_ips(colour)
    np.testing.assert_allclose(colour_image, np.repeat(image[..., None], 3, axis=2), atol=1e-5)
    np.testing.assert_array_equal(colour_decision, decision)


@pytest.mark.parametrize("count", range(2, 7))
def test_the_order_of_the_frames_does_not_matter(count):
    order = np.random.default_rng(count).permutation(count)
    while (order == np.arange(count)).all():
        order = order[::-1]
    frames = render_scene("desk", frames=count, size=(96, 128)).frames
    image, decision, _ = fuse_ips(frames)
    permuted_image, permuted_decision, _ = fuse_ips([frames[index] for index in order])
    np.testing.assert_allclose(permuted_image, image, atol=1e-5, rtol=0)
    np.testing.assert_array_equal(order[permuted_decision], decision)
    # Every frame is used somewhere, or the test would prove little.
    assert len(np.unique(decision)) == count


def test_the_reversed_stack_has_the_reversed_depth(desk):
    depth, reversed_depth = fuse_ips(desk.frames)[2], fuse_ips(desk.frames[::-1])[2]
    np.testing.assert_allclose(reversed_depth, 1 - depth, atol=1e-4)


@pytest.mark.parametrize("count", [2, 5, 12])
def test_equal_frames_return_that_frame(desk, count):
    image, _, _ = fuse_ips([desk.frames[0]] * count)
    np.testing.assert_allclose(image, desk.frames[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("count", range(2, 13))
def test_equal_integer_frames_return_bit_for_bit(bits, count):
    generator = np.random.default_rng(count)
    frame = generator.integers(0, 2**bits, (17, 31, 3)).astype(f"uint{bits}")
    assert (fuse([frame] * count, method="ips").image == frame).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_integer_results_lie_between_the_sources(bits):
    generator = np.random.default_rng(bits)
    frames = [generator.integers(0, 2**bits, (40, 56, 3)).astype(f"uint{bits}") for _ in range(5)]
    image = fuse(frames, method="ips").image
    assert (image >= np.min(frames, axis=0)).all()
    assert (image <= np.max(frames, axis=0)).all()


@pytest.mark.parametrize("name", ["pair", "grey_pair", "triple"])
def test_the_sharp_part_of_each_frame_is_found(name, request):
    stack = request.getfixturevalue(name)
    image, decision, _ = fuse_ips(stack.frames)
    inside = np.ones_like(stack.decision, dtype=bool)
    for column in np.flatnonzero(np.diff(stack.decision[0])):
        inside[:, max(0, column - 8) : column + 9] = False
    assert np.mean(decision[inside] == stack.decision[inside]) > 0.999
    assert np.abs(image - stack.truth)[inside].mean() < 1e-3


def test_padding_to_a_multiple_of_eight_moves_nothing(pair):
    """121 x 185 is padded by 7 on two sides; decisions that moved by as much would miss the boundary."""
    frames, sharp = [frame[:121, :185] for frame in pair.frames], pair.decision[:121, :185]
    _, decision, _ = fuse_ips(frames)
    away = np.ones_like(sharp, dtype=bool)
    away[:, 92:100] = False
    assert np.mean(decision[away] == sharp[away]) > 0.995


def test_a_picture_pixel_is_the_pixel_of_the_frame_that_the_decision_names(desk):
    image, decision, _ = fuse_ips(desk.frames)
    named = np.take_along_axis(np.stack(desk.frames), decision[None, ..., None].astype(int), axis=0)[0]
    # One level of 8 bits: nearly everywhere the choice is clear; where it is even, frames may mix.
    assert np.mean(np.abs(image - named).max(axis=2) < 1 / 255) > 0.9


def test_a_sharper_frame_wins_over_blurred_ones_wherever_it_stands():
    """A network that had learnt the position instead of the sharpness would fail this."""
    truth = render_scene("slope", frames=2, size=(96, 128), aperture=0).truth
    for position in range(3):
        frames = [cv2.GaussianBlur(truth, (0, 0), sigma) for sigma in (2, 3)]
        frames.insert(position, truth)
        image, decision, _ = fuse_ips(frames)
        assert np.mean(decision == position) > 0.99
        assert np.abs(image - truth).mean() < 1e-3


def test_frames_are_left_untouched_and_two_runs_give_the_same_bits(desk):
    before = [frame.copy() for frame in desk.frames]
    first, second = fuse_ips(desk.frames), fuse_ips(desk.frames)
    np.testing.assert_array_equal(desk.frames, before)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_progress_goes_up_and_ends_when_all_steps_are_done(desk):
    calls = []
    fuse_ips(desk.frames, progress=lambda done, total: calls.append((done, total)))
    done = [number for number, _ in calls]
    assert calls
    assert done == sorted(set(done))
    assert len({total for _, total in calls}) == 1
    assert calls[-1][0] == calls[-1][1]


def test_a_gpu_that_is_not_there_is_a_clear_error(no_cuda, desk):
    with pytest.raises(InputError, match=r"cuda.*use cpu"):
        fuse(desk.frames, method="ips", device="cuda")


def test_an_unknown_device_is_a_clear_error(desk):
    with pytest.raises(InputError, match="gpu"):
        fuse(desk.frames, method="ips", device="gpu")


# ips-paper


def test_the_papers_network_fuses_a_pair(pair):
    frames = [frame[32:72, 64:120] for frame in pair.frames]
    image, decision, depth = fuse_ips_paper(frames, device="cpu")
    assert image.shape == (40, 56, 3)
    assert image.dtype == np.float32
    assert 0 <= image.min() <= image.max() <= 1
    assert decision is None
    assert depth is None
    truth = pair.truth[32:72, 64:120]
    error, average_error = (np.sqrt(np.mean((own - truth) ** 2)) for own in (image, fuse_average(frames)[0]))
    assert np.abs(image - fuse_average(frames)[0]).max() > 0.05
    assert error < 0.7 * average_error


@pytest.mark.parametrize("count", [3, 5])
def test_the_papers_network_refuses_more_than_a_pair(count):
    with pytest.raises(InputError, match=f"exactly 2 frames, got {count}; use --method ips"):
        fuse(random_frames(count, (8, 8, 3)), method="ips-paper")


def test_the_papers_network_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"allfocus\[train\]"):
        fuse_ips_paper(random_frames(2, (8, 8, 3)))


def test_the_papers_network_without_a_gpu_is_a_clear_error(no_cuda):
    with pytest.raises(InputError, match=r"cuda.*use cpu"):
        fuse(random_frames(2, (8, 8, 3)), method="ips-paper", device="cuda")
