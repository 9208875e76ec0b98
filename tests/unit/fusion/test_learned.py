"""Fusion by the shipped networks: any number of frames, any size, and what the maps beside the picture say."""

import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import pytest

from allfocus.errors import InputError, MissingDependencyError
from allfocus.fusion import frame_source, learned, windows
from allfocus.fusion.average import fuse_average
from allfocus.fusion.frame_source import MemorySource, open_spool
from allfocus.fusion.learned import fuse_ips, fuse_ips_paper, plan_fusion
from allfocus.fusion.methods import fuse
from allfocus.fusion.windows import MOST_FRAMES
from allfocus.images.transfer import SRGB, Curve
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
    image, decision, depth, _ = fuse_ips(frames)
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
    image, decision, depth, _ = fuse_ips(frames)
    assert image.shape == (*size, *channels)
    assert decision.shape == depth.shape == size
    # Every pixel comes from the sources: nothing of the padding gets in, nothing is invented.
    assert (image >= np.min(frames, axis=0) - 1e-6).all()
    assert (image <= np.max(frames, axis=0) + 1e-6).all()


def test_grey_frames_give_what_the_same_in_three_channels_gives(desk):
    grey = [frame.mean(axis=2) for frame in desk.frames]
    colour = [np.repeat(frame[..., None], 3, axis=2) for frame in grey]
    image, decision, *_ = fuse_ips(grey)
    colour_image, colour_decision, *_ = fuse_ips(colour)
    np.testing.assert_allclose(colour_image, np.repeat(image[..., None], 3, axis=2), atol=1e-5)
    np.testing.assert_array_equal(colour_decision, decision)


@pytest.mark.parametrize("count", range(2, 7))
def test_the_order_of_the_frames_does_not_matter(count):
    order = np.random.default_rng(count).permutation(count)
    while (order == np.arange(count)).all():
        order = order[::-1]
    frames = render_scene("desk", frames=count, size=(96, 128)).frames
    image, decision, _, confidence = fuse_ips(frames)
    permuted_image, permuted_decision, _, permuted_confidence = fuse_ips([frames[index] for index in order])
    np.testing.assert_array_equal(permuted_image, image)
    np.testing.assert_array_equal(order[permuted_decision], decision)
    np.testing.assert_array_equal(permuted_confidence, confidence)
    # Every frame is used somewhere, or the test would prove little.
    assert len(np.unique(decision)) == count


def test_the_reversed_stack_has_the_reversed_depth(desk):
    depth, reversed_depth = fuse_ips(desk.frames).depth, fuse_ips(desk.frames[::-1]).depth
    np.testing.assert_allclose(reversed_depth, 1 - depth, atol=1e-4)


@pytest.mark.parametrize("count", [2, 5, 12])
def test_equal_frames_return_that_frame(desk, count):
    image = fuse_ips([desk.frames[0]] * count).image
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
    image, decision, *_ = fuse_ips(stack.frames)
    inside = np.ones_like(stack.decision, dtype=bool)
    for column in np.flatnonzero(np.diff(stack.decision[0])):
        inside[:, max(0, column - 8) : column + 9] = False
    assert np.mean(decision[inside] == stack.decision[inside]) > 0.999
    assert np.abs(image - stack.truth)[inside].mean() < 1e-3


def test_padding_to_a_multiple_of_eight_moves_nothing(pair):
    """121 x 185 is padded by 7 on two sides; decisions that moved by as much would miss the boundary."""
    frames, sharp = [frame[:121, :185] for frame in pair.frames], pair.decision[:121, :185]
    decision = fuse_ips(frames).decision
    away = np.ones_like(sharp, dtype=bool)
    away[:, 92:100] = False
    assert np.mean(decision[away] == sharp[away]) > 0.995


def test_a_picture_pixel_is_the_pixel_of_the_frame_that_the_decision_names(desk):
    image, decision, *_ = fuse_ips(desk.frames)
    named = np.take_along_axis(np.stack(desk.frames), decision[None, ..., None].astype(int), axis=0)[0]
    # One level of 8 bits: nearly everywhere the choice is clear; where it is even, frames may mix.
    assert np.mean(np.abs(image - named).max(axis=2) < 1 / 255) > 0.9


def test_a_sharper_frame_wins_over_blurred_ones_wherever_it_stands():
    """A network that had learnt the position instead of the sharpness would fail this."""
    truth = render_scene("slope", frames=2, size=(96, 128), aperture=0).truth
    for position in range(3):
        frames = [cv2.GaussianBlur(truth, (0, 0), sigma) for sigma in (2, 3)]
        frames.insert(position, truth)
        image, decision, *_ = fuse_ips(frames)
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


# Windows, threads and what goes wrong in them


@pytest.fixture
def small_windows(monkeypatch):
    """Any stack is fused in windows of 64 pixels a side: 2 rows of 3 for 96 x 128."""
    monkeypatch.setattr(learned, "LARGEST_WHOLE", 1)
    monkeypatch.setattr(windows, "CORE", 40)
    monkeypatch.setattr(windows, "OVERLAP", 12)
    assert len(windows.cut_windows(96, 128)) == 6


def use_cores(monkeypatch, count):
    monkeypatch.setattr(learned, "processor_count", lambda: count)


def window_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("allfocus-window")]


@pytest.mark.parametrize("cores", [2, 3, 9])
def test_the_number_of_cores_changes_no_bit_of_a_whole_stack(monkeypatch, desk, cores):
    use_cores(monkeypatch, 1)
    expected = fuse_ips(desk.frames, device="cpu")
    use_cores(monkeypatch, cores)
    for one, other in zip(expected, fuse_ips(desk.frames, device="cpu"), strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("half_scale", [False, True])
def test_the_number_of_cores_changes_no_bit_of_windows(monkeypatch, desk, half_scale):
    if half_scale:
        monkeypatch.setattr(frame_source, "LARGEST_FULL_SCALE", 1)
        monkeypatch.setattr(windows, "CORE", 24)
    use_cores(monkeypatch, 1)
    expected = fuse_ips(desk.frames, device="cpu")
    use_cores(monkeypatch, 3)
    seen = set()
    fuse_window = learned._fuse_window

    def watch(*arguments, **options):
        seen.add((threading.current_thread().name.startswith("allfocus-window"), options["threads"]))
        return fuse_window(*arguments, **options)

    monkeypatch.setattr(learned, "_fuse_window", watch)
    for one, other in zip(expected, fuse_ips(desk.frames, device="cpu"), strict=True):
        np.testing.assert_array_equal(other, one)
    # Windows were at work in threads of one core each, or the test would prove nothing.
    assert seen == {(True, 1)}
    assert window_threads() == []


FUSE_AND_PRINT = """
import hashlib
from allfocus.fusion import learned, windows
from allfocus.fusion.learned import fuse_ips
from allfocus.scenes.rendering import render_scene
learned.LARGEST_WHOLE, windows.CORE, windows.OVERLAP = 1, 40, 12
maps = fuse_ips(render_scene("desk", frames=6, size=(96, 128)).frames, device="cpu")
print(hashlib.sha256(b"".join(own.tobytes() for own in maps)).hexdigest())
"""


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("cores", ["1", "3"])
def test_a_program_of_its_own_with_another_number_of_cores_gives_the_same_bits(desk, cores):
    """The variable reaches every library that reads it when it is loaded, not only ours."""
    source = Path(learned.__file__).resolve().parents[2]
    environment = {**os.environ, "OMP_NUM_THREADS": cores, "PYTHONPATH": str(source)}
    printed = subprocess.run(
        [sys.executable, "-c", FUSE_AND_PRINT], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    maps = fuse_ips(desk.frames, device="cpu")
    assert printed == hashlib.sha256(b"".join(own.tobytes() for own in maps)).hexdigest()


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("failing", [0, 3, 5])
def test_what_goes_wrong_in_a_window_comes_out_and_leaves_no_thread(monkeypatch, desk, error, cores, failing):
    use_cores(monkeypatch, cores)

    def fail(plan, source, number, **options):
        if number == failing:
            raise error("in a window")
        shape = [own.stop - own.start for own in plan.windows[number].reach]
        values = np.zeros(shape, np.float32)
        return learned.Maps(np.zeros((*shape, 3), np.float32), values.astype(np.int16), values, values)

    monkeypatch.setattr(learned, "_fuse_window", fail)
    with pytest.raises(error, match="in a window"):
        fuse_ips(desk.frames)
    assert window_threads() == []


@pytest.mark.usefixtures("small_windows")
def test_an_interruption_while_windows_are_at_work_leaves_no_thread(monkeypatch, desk):
    use_cores(monkeypatch, 3)

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fuse_ips(desk.frames, progress=interrupt)
    assert window_threads() == []


@pytest.mark.usefixtures("small_windows")
def test_results_do_not_pile_up_when_they_are_taken_slowly(monkeypatch):
    use_cores(monkeypatch, 2)
    started = []

    def work(number, *, threads):
        started.append(number)
        return number

    results = learned._in_parallel(work, list(range(20)), 8)
    assert next(results) == (0, 0)
    # Time enough for two workers to finish all that they were given.
    time.sleep(0.1)
    assert len(started) <= 4
    assert [number for number, _ in results] == list(range(1, 20))


@pytest.mark.usefixtures("small_windows")
def test_fewer_windows_are_at_work_when_they_are_large(monkeypatch, desk):
    asked = []

    def in_turn(work, numbers, most):
        asked.append(most)
        return ((number, work(number, threads=1)) for number in numbers)

    monkeypatch.setattr(learned, "_in_parallel", in_turn)
    expected = fuse_ips(desk.frames).image
    monkeypatch.setattr(learned, "WORKING_PIXELS", 1)
    np.testing.assert_array_equal(fuse_ips(desk.frames).image, expected)
    assert asked == [learned.MOST_WORKERS, 1]


# Frames that do not cover the whole picture


def spoil(frames, masks):
    """The frames with white, which no frame holds, wherever they have no pixel."""
    return [
        np.where(mask[..., None], frame * 0.9, 1).astype(np.float32) for frame, mask in zip(frames, masks, strict=True)
    ]


def named_by(decision, masks):
    """For each pixel whether the frame that the decision names has one there."""
    return np.take_along_axis(np.stack(masks), decision[None].astype(int), axis=0)[0]


@pytest.fixture(params=["whole", "windows", "half scale"])
def any_way(request, monkeypatch):
    """A stack as a whole, in windows, and in windows decided at half scale."""
    if request.param != "whole":
        request.getfixturevalue("small_windows")
    if request.param == "half scale":
        monkeypatch.setattr(frame_source, "LARGEST_FULL_SCALE", 1)
        monkeypatch.setattr(windows, "CORE", 24)
    return request.param


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_pixel_never_comes_from_a_frame_that_has_none_there(any_way, desk, where):
    masks = [np.ones((96, 128), bool) for _ in desk.frames]
    masks[0][:40, :70], masks[2][30:, :50], masks[3][20:60, 60:], masks[5][:, 127] = False, False, False, False
    frames = spoil(desk.frames, masks)
    if where == "memory":
        maps = fuse_ips(frames, valid=masks)
    else:
        with open_spool(32) as spool:
            for frame, mask in zip(frames, masks, strict=True):
                spool.append(frame, valid=mask)
            maps = fuse_ips(spool)
    assert named_by(maps.decision, masks).all()
    # Nothing of the white gets in, not even a thousandth.
    there = [np.where(mask[..., None], frame, 0) for frame, mask in zip(frames, masks, strict=True)]
    assert (maps.image <= np.max(there, axis=0) + 1e-6).all()


def test_a_pixel_that_one_frame_alone_has_comes_from_it(any_way, desk):
    """Even from the frame that is blurred there: the others have nothing."""
    masks = [np.zeros((96, 128), bool) for _ in desk.frames]
    masks[0][:] = True
    for mask in masks[1:]:
        mask[:, 50:] = True
    maps = fuse_ips(spoil(desk.frames, masks), valid=masks)
    assert (maps.decision[:, :50] == 0).all()
    np.testing.assert_allclose(maps.image[:, :50], desk.frames[0][:, :50] * 0.9, atol=1e-6)
    np.testing.assert_allclose(maps.depth[:, :50], 0, atol=1e-6)
    assert len(np.unique(maps.decision[:, 50:])) > 1


@pytest.mark.usefixtures("small_windows")
def test_the_only_frame_that_has_a_pixel_is_looked_at_though_it_is_never_sharp(desk):
    """The last frame is without any detail; no window would choose it for what it shows."""
    sharp = [desk.truth, *(cv2.GaussianBlur(desk.truth, (0, 0), sigma) for sigma in (1, 2, 3))]
    frames = [*sharp, np.full_like(desk.truth, 0.25)]
    assert not any(4 in chosen for chosen in plan_fusion(MemorySource(frames)).chosen)
    masks = [np.ones((96, 128), bool) for _ in frames]
    for mask in masks[:4]:
        mask[70:80, 110:120] = False
    chosen = plan_fusion(MemorySource(frames, masks)).chosen
    assert 4 in chosen[-1]
    assert 4 not in chosen[0]
    maps = fuse_ips(frames, valid=masks)
    assert (maps.decision[70:80, 110:120] == 4).all()
    np.testing.assert_allclose(maps.image[70:80, 110:120], 0.25, atol=1e-6)


def test_pixels_that_no_frame_has_are_no_reason_to_fail(any_way, desk):
    masks = [np.ones((96, 128), bool) for _ in desk.frames]
    for mask in masks:
        mask[10:30, 20:90] = False
    maps = fuse_ips(desk.frames, valid=masks)
    for own in maps:
        assert np.isfinite(own).all()
    assert (maps.image >= np.min(desk.frames, axis=0) - 1e-6).all()
    assert (maps.image <= np.max(desk.frames, axis=0) + 1e-6).all()
    assert 0 <= maps.decision.min() <= maps.decision.max() < len(desk.frames)


def test_no_pixel_anywhere_is_no_reason_to_fail_either(any_way, desk):
    maps = fuse_ips(desk.frames, valid=[np.zeros((96, 128), bool)] * len(desk.frames))
    assert np.isfinite(maps.image).all()


def test_masks_that_hide_nothing_change_nothing(any_way, desk):
    masks = [np.ones((96, 128), bool) for _ in desk.frames]
    for one, other in zip(fuse_ips(desk.frames), fuse_ips(desk.frames, valid=masks), strict=True):
        np.testing.assert_array_equal(one, other)


# Linear light


def test_a_curve_changes_mixed_pixels_only(desk):
    """Whole stack, so that no fading between windows mixes what was copied."""
    plain, linear = fuse_ips(desk.frames), fuse_ips(desk.frames, curve=Curve((SRGB,)))
    np.testing.assert_array_equal(linear.decision, plain.decision)
    named = np.take_along_axis(np.stack(desk.frames), plain.decision[None, ..., None].astype(int), axis=0)[0]
    changed = (linear.image != plain.image).any(axis=2)
    assert 0 < changed.mean() < 0.5
    # What was copied stays to the bit; the sRGB curve and back would have moved it.
    copied = (plain.image == named).all(axis=2)
    assert copied.mean() > 0.3
    assert (linear.image == named).all(axis=2)[~changed & copied].all()
    # A mean of light is never darker than that of the values, because the curve is convex.
    assert (linear.image >= plain.image - 1e-5).all()
    assert (linear.image <= np.max(desk.frames, axis=0) + 1e-5).all()


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("count", [2, MOST_FRAMES + 2])
def test_equal_frames_come_back_bit_for_bit_with_a_curve(any_way, bits, count):
    frame = np.random.default_rng(bits).integers(0, 2**bits, (96, 128, 3)).astype(f"uint{bits}")
    assert (fuse([frame] * count, curve=Curve((SRGB,))).image == frame).all()


# Copies


@pytest.mark.parametrize("prefer", [None, "near"])
def test_hard_choices_copy_every_pixel_from_the_frame_that_the_decision_names(any_way, desk, prefer):
    found = fuse_ips(desk.frames, hard=True, prefer=prefer)
    named = np.take_along_axis(np.stack(desk.frames), found.decision[None, ..., None].astype(int), axis=0)[0]
    np.testing.assert_array_equal(found.image, named)
    assert len(np.unique(found.decision)) > 1


def test_hard_choices_agree_with_the_likeliest_frames(desk):
    np.testing.assert_array_equal(fuse_ips(desk.frames, hard=True).decision, fuse_ips(desk.frames).decision)


# Confidence


def test_confidence_is_high_on_texture_and_low_where_there_is_nothing_to_tell(any_way):
    generator = np.random.default_rng(0)
    truth = np.clip(0.5 + 2 * (cv2.GaussianBlur(generator.random((96, 128, 3)), (0, 0), 1) - 0.5), 0, 1)
    truth[:, 64:] = 0.5
    frames = [truth, cv2.GaussianBlur(truth, (0, 0), 3), cv2.GaussianBlur(truth, (0, 0), 5)]
    for frame in frames:
        frame[:, 64:] = 0.5 + generator.normal(0, 0.5 / 255, (96, 64, 3))
    confidence = fuse_ips([frame.astype(np.float32) for frame in frames]).confidence
    assert confidence.shape == (96, 128)
    assert confidence.dtype == np.float32
    assert 0 <= confidence.min() <= confidence.max() <= 1 + 1e-6
    assert confidence[:, :50].mean() > 0.5
    assert confidence[:, 80:].max() < 0.1


def test_confidence_in_equal_frames_is_nothing(any_way, desk):
    assert fuse_ips([desk.frames[0]] * 3).confidence.max() < 1e-3


# Preference


def test_preference_moves_the_choice_to_its_end_of_the_stack_where_frames_are_even(any_way, desk):
    frames = [desk.frames[0], desk.frames[0].copy()]
    near, far = fuse_ips(frames, prefer="near"), fuse_ips(frames, prefer="far")
    assert (near.decision == 0).all()
    assert (far.decision == 1).all()
    np.testing.assert_allclose(near.depth, 0, atol=1e-3)
    np.testing.assert_allclose(far.depth, 1, atol=1e-3)


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
