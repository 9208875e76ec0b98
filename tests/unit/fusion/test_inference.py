"""Running the shipped network: what goes in, what comes out, and on how many cores."""

import os

import numpy as np
import onnxruntime
import pytest

from allfocus.errors import InputError
from allfocus.fusion import inference
from allfocus.fusion.inference import (
    choose_device,
    prepare_frame,
    processor_count,
    run_network,
    three_channels,
    weights_folder,
)


def random_frames(count, shape, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.random(shape, dtype=np.float32) for _ in range(count)]


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("size", [(1, 1), (7, 30), (16, 16), (33, 47)])
def test_every_frame_gets_logits_of_its_size(size, channels):
    logits = run_network(random_frames(3, (*size, *channels)), device="cpu", threads=1)
    assert len(logits) == 3
    for own in logits:
        assert own.shape == size
        assert own.dtype == np.float32
        assert np.isfinite(own).all()


@pytest.mark.parametrize(("size", "padded"), [((1, 1), (16, 16)), ((16, 17), (16, 24)), ((24, 9), (24, 16))])
def test_a_frame_is_padded_to_a_multiple_of_eight_with_its_last_pixels(size, padded):
    frame = random_frames(1, (*size, 3))[0]
    found = prepare_frame(frame)
    assert found.shape == (3, *padded)
    np.testing.assert_array_equal(found[:, : size[0], : size[1]], frame.transpose(2, 0, 1))
    beyond = [np.minimum(np.arange(length), own - 1) for length, own in zip(padded, size, strict=True)]
    np.testing.assert_array_equal(found, frame[np.ix_(*beyond)].transpose(2, 0, 1))


def test_grey_becomes_three_equal_channels_and_colour_stays():
    grey, colour = random_frames(1, (4, 5))[0], random_frames(1, (4, 5, 3))[0]
    assert three_channels(colour) is colour
    for channel in range(3):
        np.testing.assert_array_equal(three_channels(grey)[..., channel], grey)


def test_logits_follow_their_frames_when_the_order_changes():
    frames = random_frames(4, (40, 48, 3))
    order = [2, 0, 3, 1]
    logits = run_network(frames, device="cpu", threads=1)
    permuted = run_network([frames[index] for index in order], device="cpu", threads=1)
    for own, index in zip(permuted, order, strict=True):
        np.testing.assert_allclose(own, logits[index], atol=1e-3)
    # Frames differ, or any order would do.
    assert np.abs(logits[0] - logits[1]).max() > 0.1


def test_the_number_of_threads_changes_no_bit():
    frames = random_frames(3, (96, 120, 3))
    one, three = (run_network(frames, device="cpu", threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(one, three)


def test_the_weights_are_shipped():
    assert (weights_folder() / "ips.onnx").is_file()
    assert (weights_folder() / "ips-paper.safetensors").is_file()


@pytest.mark.parametrize("asked", ["1", "3", "17"])
def test_as_many_cores_are_used_as_the_variable_says(monkeypatch, asked):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert processor_count() == int(asked)


@pytest.mark.parametrize("asked", [None, "", "0", "-2", "many", "2,3"])
def test_without_a_sensible_number_all_cores_of_the_process_are_used(monkeypatch, asked):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    assert processor_count() == 3


def test_a_system_without_affinity_counts_its_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert processor_count() == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processor_count() == 1


@pytest.fixture
def graphics(monkeypatch):
    """Says which kinds of GPU support this machine shall have."""
    import torch

    def pretend(*, driver, torch_finds, onnxruntime_finds):
        providers = ["CUDAExecutionProvider"] * onnxruntime_finds + ["CPUExecutionProvider"]
        monkeypatch.setattr(inference, "_gpu_is_there", lambda: driver)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: torch_finds)
        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)

    return pretend


@pytest.mark.parametrize(
    ("asked", "driver", "torch_finds", "onnxruntime_finds", "chosen"),
    [
        ("cpu", True, True, True, "cpu"),
        ("auto", False, False, False, "cpu"),
        ("auto", True, False, False, "cpu"),
        ("auto", True, True, True, "cuda"),
        ("auto", True, False, True, "cuda-onnx"),
        ("cuda", True, True, False, "cuda"),
        ("cuda", False, False, True, "cuda-onnx"),
    ],
)
def test_the_network_runs_on_what_is_there(graphics, asked, driver, torch_finds, onnxruntime_finds, chosen):
    graphics(driver=driver, torch_finds=torch_finds, onnxruntime_finds=onnxruntime_finds)
    assert choose_device(asked) == chosen


def test_a_gpu_that_is_not_there_is_a_clear_error(graphics):
    graphics(driver=False, torch_finds=False, onnxruntime_finds=False)
    with pytest.raises(InputError, match=r"cuda.*onnxruntime-gpu, or use cpu"):
        choose_device("cuda")
