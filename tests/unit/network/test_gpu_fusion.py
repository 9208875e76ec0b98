"""Fusion as tensors: every step gives what its twin of the CPU path gives, and the whole gives the same picture."""

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from allfocus.fusion import blending, frame_source, gpu, learned, windows  # noqa: E402 (torch may be missing)
from allfocus.fusion.frame_source import MemorySource, SpoolSource, open_spool  # noqa: E402
from allfocus.network import gpu_fusion  # noqa: E402
from allfocus.scenes.rendering import render_scene  # noqa: E402

SIZES = [(96, 128), (37, 51), (10, 9), (1, 5), (2, 2)]


def random_maps(count, size, seed=0):
    return np.random.default_rng(seed).random((count, *size), dtype=np.float32)


class Gamma:
    """A curve that is not straight anywhere."""

    def to_linear(self, values):
        return values**2.2

    def from_linear(self, light):
        return np.maximum(light, 0) ** (1 / 2.2)


@pytest.mark.parametrize("size", SIZES)
def test_a_pyramid_goes_down_and_up_as_in_opencv(size):
    (level,) = random_maps(1, size)
    tensor = torch.from_numpy(level)[None, None]
    down = cv2.pyrDown(level)
    np.testing.assert_allclose(gpu_fusion.pyramid_down(tensor)[0, 0], down, atol=1e-6)
    up = cv2.pyrUp(down, dstsize=(size[1], size[0]))
    found = gpu_fusion.pyramid_up(torch.from_numpy(down)[None, None], size)[0, 0]
    np.testing.assert_allclose(found, up, atol=1e-6)


@pytest.mark.parametrize("size", [(96, 128), (37, 51), (10, 9)])
def test_evidence_is_that_of_the_cpu_path(size):
    frames = [0.3 + 0.1 * np.moveaxis(random_maps(3, size, seed), 0, 2) for seed in range(3)]
    tensor = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)[None]
    found = gpu_fusion.differing_evidence(tensor, gpu.settings())[0]
    np.testing.assert_allclose(found, blending.differing_evidence(frames), atol=1e-5)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("size", [(272, 272), (96, 128), (37, 51)])
def test_settling_is_that_of_the_cpu_path(size, known):
    logits = 10 * random_maps(3, size) - 5
    evidence = random_maps(1, size, 1)[0] ** 8
    coarsest = tuple(-(-side // 2**blending.SETTLING_LEVELS) for side in size)
    prior = -5 * random_maps(3, coarsest, 2) if known else None
    expected = blending.settle_logits(list(logits), evidence, None if prior is None else list(prior))
    found = gpu_fusion.settle_logits(
        torch.from_numpy(logits)[None],
        torch.from_numpy(evidence)[None],
        None if prior is None else torch.from_numpy(prior)[None],
        gpu.settings(),
    )[0]
    np.testing.assert_allclose(found, np.stack(expected), atol=1e-4)


def test_frames_are_reduced_as_on_the_cpu():
    frame = random_maps(3, (31, 45)).transpose(1, 2, 0).copy()
    found = gpu_fusion.reduce_frames(torch.from_numpy(frame).permute(2, 0, 1)[None], 2)[0].permute(1, 2, 0)
    np.testing.assert_allclose(found, frame_source.reduce_frame(frame, 2), atol=1e-6)


def test_every_level_of_16_bits_arrives():
    levels = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    found = gpu_fusion.from_levels(gpu._as_tensor(levels, pin=False))
    np.testing.assert_array_equal(found, levels.astype(np.float32) / 65535)


def test_a_curve_goes_to_light_and_back():
    curve = gpu._sample(Gamma(), "cpu")
    values = torch.linspace(0, 1, 1001)
    light = gpu_fusion.to_linear(values, curve)
    np.testing.assert_allclose(light, values.numpy() ** 2.2, atol=1e-6)
    np.testing.assert_allclose(gpu_fusion.from_linear(light, curve), values, atol=1e-4)


@pytest.fixture
def large(monkeypatch):
    """Any stack is fused in windows of 96 pixels, decided at half scale."""
    monkeypatch.setattr(frame_source, "LARGEST_FULL_SCALE", 1)
    monkeypatch.setattr(learned, "LARGEST_WHOLE", 1)
    monkeypatch.setattr(learned, "CONTEXT_PIXELS", 20_000)
    monkeypatch.setattr(windows, "CORE", 64)
    monkeypatch.setattr(windows, "OVERLAP", 16)


@pytest.fixture(scope="module")
def desk():
    return render_scene("desk", frames=4, size=(201, 301), bit_depth=16)


def compare(expected, found):
    """The pictures agree to a level of 8 bits nearly everywhere: where a choice is even, rounding may turn it."""
    image, decision, depth, confidence = found
    assert np.mean(np.abs(image - expected.image) > 1 / 255) < 0.002
    assert np.mean(decision != expected.decision) < 0.002
    assert np.abs(depth - expected.depth).mean() < 1e-3
    assert np.abs(confidence - expected.confidence).mean() < 1e-3


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("curve", [None, Gamma()])
@pytest.mark.parametrize(("masked", "hard"), [(False, False), (True, False), (True, True)])
def test_a_stack_on_disk_is_fused_as_by_the_cpu_path(desk, curve, masked, hard):
    with open_spool(16) as spool:
        for number, frame in enumerate(desk.frames):
            mask = np.ones(frame.shape[:2], bool)
            if masked and number:
                mask[:, : 20 * number] = False
            spool.append(frame, mask)
        source = SpoolSource(spool)
        plan = learned.plan_fusion(source, hard=hard, device="cpu")
        assert len({len(chosen) for chosen in plan.chosen}) > 0
        everything = (slice(0, 201), slice(0, 301))
        expected = learned.fuse_area(plan, source, everything, curve=curve, device="cpu")
        found = gpu.fuse_on_gpu(plan, source, curve=curve, device="cpu")
    compare(expected, found)
    assert np.abs(found[0] - desk.truth).mean() < 0.05


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("options", [{"hard": True}, {"prefer": "near"}, {"prefer": "far", "hard": True}])
def test_choices_instead_of_mixtures_are_those_of_the_cpu_path(desk, options):
    source = MemorySource(desk.frames)
    plan = learned.plan_fusion(source, device="cpu", **options)
    expected = learned.fuse_area(plan, source, (slice(0, 201), slice(0, 301)), device="cpu")
    compare(expected, gpu.fuse_on_gpu(plan, source, device="cpu"))


@pytest.mark.usefixtures("large")
def test_tensors_are_fused_as_arrays_and_again_with_other_frames(desk):
    fusion = None
    for first in (0, 2):
        pair = desk.frames[first : first + 2]
        source = MemorySource(pair)
        plan = learned.plan_fusion(source, device="cpu")
        expected = learned.fuse_area(plan, source, (slice(0, 201), slice(0, 301)), device="cpu")
        tensor = torch.from_numpy(np.stack(pair)).permute(0, 3, 1, 2)
        fusion = fusion or gpu.TensorFusion(tuple(tensor.shape), torch.float32, device="cpu")
        image, *maps = fusion(tensor)
        compare(expected, [image.permute(1, 2, 0).numpy(), *(own.numpy() for own in maps)])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")
@pytest.mark.usefixtures("large")
def test_the_gpu_agrees_with_the_cpu(desk):
    source = MemorySource(desk.frames)
    plan = learned.plan_fusion(source, device="cpu")
    expected = learned.fuse_area(plan, source, (slice(0, 201), slice(0, 301)), device="cpu")
    image, decision, _, _ = gpu.fuse_on_gpu(plan, source)
    # bfloat16 has 8 bits of precision, so more even choices turn.
    assert np.mean(np.abs(image - expected.image).max(axis=2) > 1 / 255) < 0.02
    assert np.mean(decision != expected.decision) < 0.02
