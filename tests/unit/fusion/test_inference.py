"""Running the shipped network: what goes in, what comes out, and on how many cores."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from allfocus.errors import InputError
from allfocus.fusion import accelerators, inference
from allfocus.fusion.decisions import EXCLUSION
from allfocus.fusion.inference import Above, choose_device, run_level, three_channels, weights_folder
from allfocus.machine import processor_count
from allfocus.network.contract import GRAPH_KEYS, INPUTS


def random_frames(count, shape, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.random(shape, dtype=np.float32) for _ in range(count)]


def random_stack(count, size, seed=0):
    return np.random.default_rng(seed).random((count, 3, *size), dtype=np.float32)


def random_above(count, size, seed=1):
    """A decision of the level above in which some frames are out in places, and the best is nowhere behind."""
    generator = np.random.default_rng(seed)
    behind = -12 * generator.random((count, size[0] // 2, size[1] // 2), dtype=np.float32)
    behind = np.maximum(behind - behind.max(axis=0), -EXCLUSION)
    veil = generator.random((count, 4, size[0] // 8, size[1] // 8), dtype=np.float32) - np.float32(0.5)
    return Above(behind, veil)


def run(frames, above=None, threads=1):
    return run_level(frames, above, device="cpu", threads=threads)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("size", [(16, 16), (24, 40), (64, 16)])
@pytest.mark.parametrize("count", [2, 3, 9])
def test_a_level_gets_logits_and_veils_of_its_size(count, size, whole):
    output = run(random_stack(count, size), None if whole else random_above(count, size))
    assert output.logits.shape == (count, *size)
    assert output.veil.shape == (count, 4, size[0] // 4, size[1] // 4)
    for part in output:
        assert part.dtype == np.float32
        assert np.isfinite(part).all()


def test_the_level_above_is_heard():
    frames, above = random_stack(2, (32, 48)), random_above(2, (32, 48))
    behind = np.zeros_like(above.behind)
    behind[0] = -5
    first, second = (run(frames, above._replace(behind=own)).logits for own in (behind, behind[::-1].copy()))
    more = (second[0] - second[1]) - (first[0] - first[1])
    assert more.mean() > 0.5
    assert (more > 0).mean() > 0.7


def test_a_frame_that_is_out_changes_nothing_of_the_others():
    frames, above = random_stack(3, (48, 64)), random_above(3, (48, 64))
    above.behind[2], above.behind[0] = -EXCLUSION, 0
    expected = run(frames, above)
    frames[2] = 1 - frames[2] ** 2
    above.veil[2] += 0.3
    found = run(frames, above)
    np.testing.assert_array_equal(found.logits[:2], expected.logits[:2])
    np.testing.assert_array_equal(found.veil[:2], expected.veil[:2])
    assert (found.logits[2] < found.logits[0] - EXCLUSION).all()
    without = run(frames[:2], Above(above.behind[:2], above.veil[:2]))
    np.testing.assert_allclose(without.logits, expected.logits[:2], atol=1e-4)
    np.testing.assert_allclose(without.veil, expected.veil[:2], atol=1e-4)


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("weights", [None, "/networks/own.onnx"])
def test_a_network_that_gives_no_numbers_is_a_clear_error(monkeypatch, part, value, weights):
    class Damaged:
        def run(self, names, inputs):
            found = [np.zeros((2, 16, 16)), np.zeros((2, 4, 4, 4))]
            found[part].flat[-1] = value
            return found

    monkeypatch.setattr(inference, "_session", lambda *arguments, **options: Damaged())
    with pytest.raises(InputError, match=f"{weights or 'the network'}: .*not numbers"):
        run_level(random_stack(2, (16, 16)), None, device="cpu", threads=1, weights=weights)


MEMORY_AFTER_RUNS = """
import sys
import numpy as np
from allfocus.fusion.inference import run_level

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

frames = np.random.default_rng(0).random((2, 3, 48, 64), np.float32)
run_level(frames, None, device="cpu", threads=1)
before = resident()
large = np.random.default_rng(0).random((2, 3, 512, 512), np.float32)
run_level(large, None, device="cpu", threads=1, release=sys.argv[1] == "release")
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read as Linux tells it")
def test_a_run_gives_its_memory_back_if_it_is_asked_to():
    def grown(how: str) -> float:
        command = [sys.executable, "-c", MEMORY_AFTER_RUNS, how]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    kept, released = grown("keep"), grown("release")
    # 12 MB are the input and the output, which the script keeps.
    assert kept > 60
    assert released < 40


def test_a_session_is_made_once_for_each_graph_and_number_of_threads():
    sessions = {kind: inference._session("cpu", 1, None, kind) for kind in GRAPH_KEYS}
    assert len({id(session) for session in sessions.values()}) == len(GRAPH_KEYS)
    assert sessions["context"] is inference._session("cpu", 1, None, "context")
    inner = ["frames", "behind", "veil_above"]
    names = {kind: [entry.name for entry in session.get_inputs()] for kind, session in sessions.items()}
    assert names == {
        "whole": ["frames", "inside"],
        "context": list(INPUTS),
        "refine": list(INPUTS),
        "inner-context": inner,
        "inner-refine": inner,
    }


def test_a_network_that_is_written_in_place_of_another_is_read_again(tmp_path):
    path = tmp_path / "own.onnx"
    shipped = (inference.weights_folder() / "ips.onnx").read_bytes()
    path.write_bytes(shipped)
    frames = random_stack(2, (16, 16))
    run_level(frames, None, device="cpu", threads=1, weights=str(path))
    path.write_bytes(b"no network")
    with pytest.raises(InputError, match="no ONNX file that can be run"):
        run_level(frames, None, device="cpu", threads=1, weights=str(path))


@pytest.mark.parametrize(
    ("content", "message"), [(b"no network", "no ONNX file that can be run"), (None, "no such file")]
)
def test_a_file_that_is_no_network_is_a_clear_error(tmp_path, content, message):
    path = tmp_path / "own.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        run_level(random_stack(2, (16, 16)), None, device="cpu", threads=1, weights=str(path))


def test_grey_becomes_three_equal_channels_and_colour_stays():
    grey, colour = random_frames(1, (4, 5))[0], random_frames(1, (4, 5, 3))[0]
    assert three_channels(colour) is colour
    for channel in range(3):
        np.testing.assert_array_equal(three_channels(grey)[..., channel], grey)


@pytest.mark.parametrize("whole", [True, False])
def test_logits_follow_their_frames_when_the_order_changes(whole):
    frames, above = random_stack(4, (40, 48)), random_above(4, (40, 48))
    order = [2, 0, 3, 1]
    output = run(frames, None if whole else above)
    turned = Above(above.behind[order], above.veil[order])
    permuted = run(frames[order], None if whole else turned)
    np.testing.assert_allclose(permuted.logits, output.logits[order], atol=1e-3)
    np.testing.assert_allclose(permuted.veil, output.veil[order], atol=1e-3)
    # Frames differ, or any order would do.
    assert np.abs(output.logits[0] - output.logits[1]).max() > 0.1


@pytest.mark.parametrize("whole", [True, False])
def test_the_number_of_threads_changes_no_bit(whole):
    frames, above = random_stack(3, (96, 120)), None if whole else random_above(3, (96, 120))
    for one, three in zip(run(frames, above, 1), run(frames, above, 3), strict=True):
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
    torch = pytest.importorskip("torch", reason="needs the extra train")

    def pretend(*, driver, torch_finds, onnxruntime_finds):
        providers = ["CUDAExecutionProvider"] * onnxruntime_finds + ["CPUExecutionProvider"]
        monkeypatch.setattr(accelerators, "nvidia_is_there", lambda: driver)
        monkeypatch.setattr(inference, "_is_worth_it", lambda device: True)
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
