"""Fusion by the shipped networks: any number of frames, any size, and what the maps beside the picture say."""

import dataclasses
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
from allfocus.fusion import areas, inference, learned, planning
from allfocus.fusion.areas import Maps
from allfocus.fusion.average import fuse_average
from allfocus.fusion.frame_source import MemorySource, open_spool
from allfocus.fusion.learned import fuse_ips
from allfocus.fusion.methods import METHODS
from allfocus.fusion.paper import fuse_ips_paper
from allfocus.fusion.planning import LEAST_NOISE, estimate_noise, plan_fusion, value_range
from allfocus.fusion.settings import AS_CHOSEN, DecisionSettings
from allfocus.fusion.stack_fusion import fuse
from allfocus.fusion.windows import block_sharpness, cut_cores
from allfocus.images.transfer import SRGB, Curve
from allfocus.scenes.rendering import render_scene


@pytest.fixture(scope="module")
def desk():
    """Six frames of 96 x 128."""
    return render_scene("desk", frames=6, size=(96, 128))


@pytest.fixture
def no_cuda(monkeypatch):
    """A machine without a GPU, whatever this one has."""
    torch = pytest.importorskip("torch", reason="needs the extra train")

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def random_frames(count, shape, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.random(shape, dtype=np.float32) for _ in range(count)]


# What ips returns


@pytest.mark.parametrize("count", range(2, 13))
def test_two_to_twelve_frames_work(count):
    frames = random_frames(count, (24, 40, 3))
    image, decision, depth, *_ = fuse_ips(frames)
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
    assert fuse_ips(frames).image.shape == (*size, *channels)
    image, decision, depth, *_ = fuse_ips(frames, unveil=False)
    assert image.shape == (*size, *channels)
    assert decision.shape == depth.shape == size
    # With veils left on, every pixel comes from the sources: nothing of the padding gets in, nothing is invented.
    assert (image >= np.min(frames, axis=0) - 1e-6).all()
    assert (image <= np.max(frames, axis=0) + 1e-6).all()


def test_grey_frames_give_what_the_same_in_three_channels_gives(desk):
    grey = [frame.mean(axis=2) for frame in desk.frames]
    colour = [np.repeat(frame[..., None], 3, axis=2) for frame in grey]
    image, decision, *_ = fuse_ips(grey)
    colour_image, colour_decision, *_ = fuse_ips(colour)
    # Decisions are kept with 16 bits between levels, so rounding shows in the fifth digit, times the sharpness.
    np.testing.assert_allclose(colour_image, np.repeat(image[..., None], 3, axis=2), atol=2e-4)
    assert (colour_decision == decision).mean() > 0.9995


@pytest.mark.parametrize("count", range(2, 7))
def test_the_order_of_the_frames_does_not_matter(count):
    order = np.random.default_rng(count).permutation(count)
    while (order == np.arange(count)).all():
        order = order[::-1]
    frames = render_scene("desk", frames=count, size=(96, 128)).frames
    image, decision, _, confidence, *_ = fuse_ips(frames)
    permuted_image, permuted_decision, _, permuted_confidence, *_ = fuse_ips([frames[index] for index in order])
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
    image = fuse(frames, method="ips", unveil=False).image
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


@pytest.mark.parametrize("size", [(208, 288), (207, 287), (206, 285), (201, 281)])
def test_a_dark_rim_is_not_taken_for_detail_where_a_picture_ends(size):
    """A frame that was blurred with black around it darkens towards its ends, and sides may be odd."""
    truth = np.ascontiguousarray(render_scene("foliage", frames=2, size=(208, 288)).truth[: size[0], : size[1]])
    blurred = cv2.GaussianBlur(truth, (0, 0), 3.0, borderType=cv2.BORDER_CONSTANT)
    first = (np.arange(size[1]) < 140)[:, None]
    image = fuse_ips([np.where(first, truth, blurred), np.where(first, blurred, truth)], device="cpu").image
    error = np.abs(image - truth).mean(axis=2)
    for ends in (error[0], error[-1], error[:, 0], error[:, -1]):
        assert ends.mean() < 2e-3


def test_a_picture_pixel_is_the_pixel_of_the_frame_that_the_decision_names(desk):
    image, decision, *_ = fuse_ips(desk.frames)
    named = np.take_along_axis(np.stack(desk.frames), decision[None, ..., None].astype(int), axis=0)[0]
    # One level of 8 bits: nearly everywhere the choice is clear; where it is even, frames may mix.
    assert np.mean(np.abs(image - named).max(axis=2) < 1 / 255) > 0.9


def test_a_receding_surface_is_copied_where_its_frames_show_the_same():
    """Between two frames that are as sharp as each other a mixture would be less sharp than both."""
    scene = render_scene("slope", frames=10, size=(240, 320), aperture=0.02, seed=3)
    frames = [np.asarray(frame, np.float32) for frame in scene.frames]

    def fused(share):
        return fuse_ips(frames, unveil=False, settings=dataclasses.replace(AS_CHOSEN, alike=share))

    def copied(maps):
        named = np.take_along_axis(np.stack(frames), maps.decision[None, ..., None].astype(int), axis=0)[0]
        return (maps.image == named).all(axis=2).mean()

    mixing, copying = fused(1e-9), fused(AS_CHOSEN.alike)
    assert copied(copying) > copied(mixing) + 0.01
    errors = [np.square(maps.image - scene.truth).mean() for maps in (mixing, copying)]
    assert errors[1] < errors[0]


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


SMALL_WINDOWS = DecisionSettings(largest_whole_side=64, core=64)
"""A stack of 96 x 128 is seen whole at level 1, and level 0 is decided in 2 rows of 2 cores."""
HALF_SCALE = DecisionSettings(largest_full_scale=1, largest_whole_side=32, core=32)
"""The same at half scale."""


def test_small_windows_are_two_rows_of_two_cores():
    assert len(list(cut_cores((slice(0, 96), slice(0, 128)), SMALL_WINDOWS.core))) == 4


def use_cores(monkeypatch, count):
    for module in (areas, planning):
        monkeypatch.setattr(module, "processor_count", lambda: count)


def window_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("allfocus-window")]


@pytest.mark.parametrize("cores", [2, 3, 9])
def test_the_number_of_cores_changes_no_bit_of_a_whole_stack(monkeypatch, desk, cores):
    use_cores(monkeypatch, 1)
    expected = fuse_ips(desk.frames, device="cpu")
    use_cores(monkeypatch, cores)
    for one, other in zip(expected, fuse_ips(desk.frames, device="cpu"), strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("settings", [SMALL_WINDOWS, HALF_SCALE], ids=["full scale", "half scale"])
def test_the_number_of_cores_changes_no_bit_of_windows(monkeypatch, desk, settings):
    use_cores(monkeypatch, 1)
    expected = fuse_ips(desk.frames, device="cpu", settings=settings)
    use_cores(monkeypatch, 3)
    seen = set()
    run_core = areas._run_core

    def watch(*arguments, **options):
        seen.add((threading.current_thread().name.startswith("allfocus-window"), options["threads"]))
        return run_core(*arguments, **options)

    monkeypatch.setattr(areas, "_run_core", watch)
    for one, other in zip(expected, fuse_ips(desk.frames, device="cpu", settings=settings), strict=True):
        np.testing.assert_array_equal(other, one)
    # Windows were at work in threads of one core each, or the test would prove nothing.
    assert seen == {(True, 1)}
    assert window_threads() == []


FUSE_AND_PRINT = """
import hashlib
from allfocus.fusion.learned import fuse_ips
from allfocus.fusion.settings import DecisionSettings
from allfocus.scenes.rendering import render_scene
settings = DecisionSettings(largest_whole_side=64, core=64)
maps = fuse_ips(render_scene("desk", frames=6, size=(96, 128)).frames, device="cpu", settings=settings)
print(hashlib.sha256(b"".join(own.tobytes() for own in maps)).hexdigest())
"""


@pytest.mark.parametrize("cores", ["1", "3"])
def test_a_program_of_its_own_with_another_number_of_cores_gives_the_same_bits(desk, cores):
    """The variable reaches every library that reads it when it is loaded, not only ours."""
    source = Path(learned.__file__).resolve().parents[2]
    environment = {**os.environ, "OMP_NUM_THREADS": cores, "PYTHONPATH": str(source)}
    printed = subprocess.run(
        [sys.executable, "-c", FUSE_AND_PRINT], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    maps = fuse_ips(desk.frames, device="cpu", settings=SMALL_WINDOWS)
    assert printed == hashlib.sha256(b"".join(own.tobytes() for own in maps)).hexdigest()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("failing", [(0, 0), (0, 64), (64, 64)])
def test_what_goes_wrong_in_a_window_comes_out_and_leaves_no_thread(monkeypatch, desk, error, cores, failing):
    use_cores(monkeypatch, cores)

    def fail(plan, source, above, core, **options):
        if (core[0].start, core[1].start) == failing:
            raise error("in a window")
        shape = [own.stop - own.start for own in core]
        values = np.zeros(shape, np.float32)
        others = [values] * (len(Maps._fields) - 2)
        return Maps(np.zeros((*shape, 3), np.float32), values.astype(np.int16), *others)

    monkeypatch.setattr(areas, "_fuse_core", fail)
    with pytest.raises(error, match="in a window"):
        fuse_ips(desk.frames, settings=SMALL_WINDOWS)
    assert window_threads() == []


def test_an_interruption_while_windows_are_at_work_leaves_no_thread(monkeypatch, desk):
    use_cores(monkeypatch, 3)

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fuse_ips(desk.frames, progress=interrupt, settings=SMALL_WINDOWS)
    assert window_threads() == []


def test_results_do_not_pile_up_when_they_are_taken_slowly(monkeypatch):
    use_cores(monkeypatch, 2)
    started = []

    def work(number, *, threads):
        started.append(number)
        return number

    results = areas._in_parallel(work, list(range(20)))
    assert next(results) == (0, 0)
    # Time enough for two workers to finish all that they were given.
    time.sleep(0.1)
    assert len(started) <= 4
    assert [number for number, _ in results] == list(range(1, 20))


def test_no_more_windows_are_at_work_at_once_than_may(monkeypatch):
    use_cores(monkeypatch, 64)
    at_work, most = set(), []
    lock = threading.Lock()

    def work(number, *, threads):
        with lock:
            at_work.add(number)
            most.append(len(at_work))
        time.sleep(0.005)
        with lock:
            at_work.remove(number)

    assert [number for number, _ in areas._in_parallel(work, list(range(60)))] == list(range(60))
    assert 1 < max(most) <= areas.MOST_WORKERS


def test_progress_over_several_levels_goes_up_to_the_end(desk):
    settings = dataclasses.replace(SMALL_WINDOWS, plan_pixels=6 * 32 * 48)
    assert plan_fusion(MemorySource(desk.frames), settings=settings).level == 2
    calls = []
    fuse_ips(desk.frames, settings=settings, progress=lambda *steps: calls.append(steps))
    done = [number for number, _ in calls]
    assert done == sorted(done)
    assert len(done) == 1 + 4
    # A fifth of the work is the level between.
    assert done[0] == 20
    assert calls[-1] == (100, 100)


@pytest.mark.parametrize("level", ["plan", "windows"])
def test_a_network_that_gives_no_numbers_is_a_clear_error(monkeypatch, desk, level):
    session = inference._session

    class Damaged:
        def __init__(self, kind):
            self.kind, self.inner = kind, session("cpu", 1, None, kind)

        def run(self, names, inputs, options=None):
            found = self.inner.run(names, inputs, options)
            if (self.kind == "whole") == (level == "plan"):
                found[0][0, 5, 7] = np.nan
            return found

    monkeypatch.setattr(inference, "_session", lambda device, threads, weights, kind, stamp: Damaged(kind))
    with pytest.raises(InputError, match="not numbers"):
        fuse_ips(desk.frames, device="cpu", settings=SMALL_WINDOWS)
    assert window_threads() == []


# Frames that do not cover the whole picture


def spoil(frames, masks):
    """The frames with white, which no frame holds, wherever they have no pixel."""
    return [
        np.where(mask[..., None], frame * 0.9, 1).astype(np.float32) for frame, mask in zip(frames, masks, strict=True)
    ]


def named_by(decision, masks):
    """For each pixel whether the frame that the decision names has one there."""
    return np.take_along_axis(np.stack(masks), decision[None].astype(int), axis=0)[0]


@pytest.fixture(params=[AS_CHOSEN, SMALL_WINDOWS, HALF_SCALE], ids=["whole", "windows", "half scale"])
def any_way(request):
    """A stack as a whole, in windows, and in windows decided at half scale."""
    return request.param


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_pixel_never_comes_from_a_frame_that_has_none_there(any_way, desk, where):
    masks = [np.ones((96, 128), bool) for _ in desk.frames]
    masks[0][:40, :70], masks[2][30:, :50], masks[3][20:60, 60:], masks[5][:, 127] = False, False, False, False
    frames = spoil(desk.frames, masks)
    if where == "memory":
        maps = fuse_ips(frames, valid=masks, unveil=False, settings=any_way)
    else:
        with open_spool(32, settings=any_way) as spool:
            for frame, mask in zip(frames, masks, strict=True):
                spool.append(frame, valid=mask)
            maps = fuse_ips(spool, unveil=False, settings=any_way)
    assert named_by(maps.decision, masks).all()
    # Nothing of the white gets in, not even a thousandth.
    there = [np.where(mask[..., None], frame, 0) for frame, mask in zip(frames, masks, strict=True)]
    assert (maps.image <= np.max(there, axis=0) + 1e-6).all()


@pytest.mark.parametrize("unveil", [True, False])
def test_a_pixel_that_one_frame_alone_has_comes_from_it(any_way, desk, unveil):
    """Even from the frame that is blurred there: the others have nothing."""
    masks = [np.zeros((96, 128), bool) for _ in desk.frames]
    masks[0][:] = True
    for mask in masks[1:]:
        mask[:, 50:] = True
    maps = fuse_ips(spoil(desk.frames, masks), valid=masks, unveil=unveil, settings=any_way)
    assert (maps.decision[:, :50] == 0).all()
    np.testing.assert_allclose(maps.image[:, :50], desk.frames[0][:, :50] * 0.9, atol=1e-6)
    np.testing.assert_allclose(maps.depth[:, :50], 0, atol=1e-6)
    assert len(np.unique(maps.decision[:, 50:])) > 1


def test_the_only_frame_that_has_a_pixel_is_looked_at_though_it_is_never_sharp(any_way, desk):
    """The last frame is without any detail; no window would choose it for what it shows."""
    sharp = [desk.truth, *(cv2.GaussianBlur(desk.truth, (0, 0), sigma) for sigma in (1, 2, 3))]
    frames = [*sharp, cv2.GaussianBlur(desk.truth, (0, 0), 30)]
    assert not (fuse_ips(frames, settings=any_way).decision == 4).any()
    masks = [np.ones((96, 128), bool) for _ in frames]
    for mask in masks[:4]:
        mask[70:81, 109:120] = False
    maps = fuse_ips(frames, valid=masks, settings=any_way)
    assert (maps.decision[70:81, 109:120] == 4).all()
    np.testing.assert_allclose(maps.image[70:81, 109:120], frames[4][70:81, 109:120], atol=1e-6)
    far = np.ones((96, 128), bool)
    far[60:91, 99:] = False
    assert not (maps.decision[far] == 4).any()


def test_pixels_that_no_frame_has_are_no_reason_to_fail(any_way, desk):
    masks = [np.ones((96, 128), bool) for _ in desk.frames]
    for mask in masks:
        mask[10:30, 20:90] = False
    maps = fuse_ips(desk.frames, valid=masks, unveil=False, settings=any_way)
    for own in (*maps, *fuse_ips(desk.frames, valid=masks, settings=any_way)):
        assert np.isfinite(own).all()
    assert (maps.image >= np.min(desk.frames, axis=0) - 1e-6).all()
    assert (maps.image <= np.max(desk.frames, axis=0) + 1e-6).all()
    assert 0 <= maps.decision.min() <= maps.decision.max() < len(desk.frames)


def test_no_pixel_anywhere_is_no_reason_to_fail_either(any_way, desk):
    maps = fuse_ips(desk.frames, valid=[np.zeros((96, 128), bool)] * len(desk.frames), settings=any_way)
    assert np.isfinite(maps.image).all()


def test_masks_that_hide_nothing_change_nothing(any_way, desk):
    masks = [np.ones((96, 128), bool) for _ in desk.frames]
    without, given = (fuse_ips(desk.frames, valid=valid, settings=any_way) for valid in (None, masks))
    for one, other in zip(without, given, strict=True):
        np.testing.assert_array_equal(one, other)


# Linear light


def test_a_curve_changes_mixed_pixels_only(desk):
    plain, linear = (fuse_ips(desk.frames, unveil=False, curve=curve) for curve in (None, Curve((SRGB,))))
    np.testing.assert_array_equal(linear.decision, plain.decision)
    named = np.take_along_axis(np.stack(desk.frames), plain.decision[None, ..., None].astype(int), axis=0)[0]
    changed = (linear.image != plain.image).any(axis=2)
    assert 0 < changed.mean() < 0.7
    # What was copied stays to the bit; the sRGB curve and back would have moved it.
    copied = (plain.image == named).all(axis=2)
    assert copied.mean() > 0.3
    assert (linear.image == named).all(axis=2)[~changed & copied].all()
    # A mean of light is never darker than that of the values, because the curve is convex.
    assert (linear.image >= plain.image - 1e-5).all()
    assert (linear.image <= np.max(desk.frames, axis=0) + 1e-5).all()


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("count", [2, 14])
def test_equal_frames_come_back_bit_for_bit_with_a_curve(any_way, bits, count):
    frame = np.random.default_rng(bits).integers(0, 2**bits, (96, 128, 3)).astype(f"uint{bits}")
    method = dataclasses.replace(METHODS["ips"], options={"settings": any_way})
    assert (fuse([frame] * count, method=method, curve=Curve((SRGB,))).image == frame).all()


# The range of values


def from_black_to_white(name, count, size=(150, 190)):
    """Frames of a scene with a black strip and a white one, so that the range is the same at every scale."""
    frames = render_scene(name, frames=count, size=size, bit_depth=16).frames
    for frame in frames:
        frame[:, :8], frame[:, -14:] = 0, 1
    return frames


@pytest.mark.parametrize(
    "settings", [AS_CHOSEN, DecisionSettings(largest_whole_side=64, plan_pixels=5 * 40 * 50)], ids=["whole", "levels"]
)
@pytest.mark.parametrize("name", ["desk", "slope"])
@pytest.mark.parametrize(("factor", "offset"), [(0.01, 0), (0.25, 0.3), (0.001, 0)])
def test_the_range_in_which_a_stack_is_stored_does_not_matter(settings, name, factor, offset):
    frames = from_black_to_white(name, 5)
    expected = fuse_ips(frames, settings=settings)
    found = fuse_ips([(factor * frame + offset).astype(np.float32) for frame in frames], settings=settings)
    assert (found.decision == expected.decision).mean() >= 0.99
    assert np.abs((found.image - offset) / factor - expected.image).max() <= 2e-3
    assert np.abs(found.confidence - expected.confidence).mean() < 5e-3


def test_a_dark_stack_of_16_bits_is_decided_with_confidence(pair):
    """As a microscope stores it: values from 50 to 600 of 65535."""
    with open_spool(16) as spool:
        for frame in pair.frames:
            spool.append(((50 + 550 * frame) / 65535).astype(np.float32))
        maps = fuse_ips(spool)
    away = np.ones_like(pair.decision, bool)
    away[:, 84:108] = False
    assert (maps.decision == pair.decision)[away].mean() > 0.99
    assert maps.confidence[away].mean() > 0.7
    assert np.abs(maps.image * 65535 - (50 + 550 * pair.truth))[away].mean() < 2


def test_the_range_is_from_nearly_the_darkest_to_nearly_the_brightest_and_black_stays_black():
    generator = np.random.default_rng(0)
    values = generator.random((300, 300), dtype=np.float32)
    assert value_range([values]) == pytest.approx((0, 1), abs=0.01)
    assert value_range([0.01 * values]) == pytest.approx((0, 0.01), abs=1e-4)
    assert value_range([0.3 + 0.25 * values, 0.4 + 0.25 * values]) == pytest.approx((0.3, 0.35), abs=0.01)
    # Photos reach down to a little above black, and light must stay light.
    assert value_range([0.05 + 0.9 * values])[0] == 0
    # One pixel that shines does not darken the rest.
    values[7, 7] = 50
    assert value_range([values]) == pytest.approx((0, 1), abs=0.01)
    low, span = value_range([np.zeros((9, 9), np.float32)])
    assert low == 0
    assert span > 0


@pytest.mark.parametrize("deviation", [0.002, 0.01, 0.03])
def test_noise_is_estimated_from_where_there_is_nothing_else(deviation):
    generator = np.random.default_rng(1)
    frames = []
    for _ in range(3):
        frame = generator.normal(0.5, deviation, (320, 320)).astype(np.float32)
        frame[:, 100:] += generator.random((320, 220), dtype=np.float32) - np.float32(0.5)
        frames.append(frame)
    found = estimate_noise(np.stack([block_sharpness(frame) for frame in frames]))
    assert 0.6 * deviation < found < 1.2 * deviation


@pytest.mark.parametrize("span", [1, 0.01])
def test_the_noise_of_a_plan_is_a_share_of_the_range_and_never_nothing(span):
    generator = np.random.default_rng(2)
    clean = np.zeros((128, 160), np.float32)
    clean[:, 80:] = generator.random((128, 80), dtype=np.float32)
    assert plan_fusion(MemorySource([span * clean] * 2)).noise == pytest.approx(LEAST_NOISE)
    noisy = [span * (clean + generator.normal(0, 0.02, clean.shape).astype(np.float32)) for _ in range(2)]
    assert plan_fusion(MemorySource(noisy)).noise == pytest.approx(0.02, rel=0.35)


# Where there is no detail


def smooth_between_corners(size, *, difference=0.04):
    """Two frames of one smooth gradient, the second brighter throughout; texture in the corners only.

    The first frame is sharp in the corners on the left, the second in those on the right.
    """
    generator = np.random.default_rng(0)
    height, width = size
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    smooth = 0.35 + 0.2 * rows / height + 0.15 * columns / width
    texture = 0.3 * (cv2.GaussianBlur(generator.random(size, dtype=np.float32), (0, 0), 1) - 0.5) * 4
    side = 40
    corner = ((rows < side) | (rows >= height - side)) & ((columns < side) | (columns >= width - side))
    frames = []
    for number in range(2):
        own = corner & ((columns < width / 2) if number == 0 else (columns >= width / 2))
        detail = np.where(own, texture, np.where(corner, cv2.GaussianBlur(texture, (0, 0), 4), 0))
        frames.append(np.repeat(((smooth + detail) * (1 + difference * number))[..., None], 3, axis=2))
    return [np.clip(frame, 0, 1).astype(np.float32) for frame in frames], cv2.dilate(
        corner.astype(np.uint8), np.ones((33, 33), np.uint8)
    ).astype(bool)


@pytest.mark.parametrize("noise", [0, 0.002])
@pytest.mark.parametrize("levels", [False, True])
def test_frames_that_differ_in_brightness_leave_no_edge_where_there_is_no_detail(levels, noise):
    size = (260, 330)
    settings = DecisionSettings(largest_whole_side=128, plan_pixels=2 * 70 * 90) if levels else AS_CHOSEN
    frames, textured = smooth_between_corners(size)
    generator = np.random.default_rng(1)
    noisy = [frame + generator.normal(0, noise, frame.shape).astype(np.float32) for frame in frames]
    image = fuse_ips(noisy, settings=settings).image.mean(axis=2)
    if noise:
        image = cv2.blur(image, (5, 5))
    inside = ~textured[1:, 1:]
    steps = [np.abs(image[1:, 1:] - image[:-1, 1:])[inside].max(), np.abs(image[1:, 1:] - image[1:, :-1])[inside].max()]
    # A switch from one frame to the other is a step of 4 % of 0.35 to 0.7, and a fifth of that over the blur.
    assert max(steps) < 0.0025
    hard = fuse_ips(noisy, hard=True, settings=settings)
    assert set(np.unique(hard.decision)) == {0, 1}


# Copies


@pytest.mark.parametrize("prefer", [None, "near"])
def test_hard_choices_copy_every_pixel_from_the_frame_that_the_decision_names(any_way, desk, prefer):
    found = fuse_ips(desk.frames, hard=True, prefer=prefer, settings=any_way)
    named = np.take_along_axis(np.stack(desk.frames), found.decision[None, ..., None].astype(int), axis=0)[0]
    np.testing.assert_array_equal(found.image, named)
    assert len(np.unique(found.decision)) > 1


def test_hard_choices_agree_with_the_likeliest_frames(desk):
    np.testing.assert_array_equal(fuse_ips(desk.frames, hard=True).decision, fuse_ips(desk.frames).decision)


# Settings


def test_a_faintest_veil_beyond_all_leaves_every_veil():
    frames = render_scene("foliage", frames=5, size=(120, 160)).frames
    left, kept = fuse_ips(frames, unveil=False), fuse_ips(frames, settings=DecisionSettings(faintest_opacity=1))
    np.testing.assert_array_equal(kept.image, left.image)
    assert (fuse_ips(frames).image != left.image).any()


def test_greater_sharpness_copies_more_pixels(desk):
    def copied(sharpness):
        maps = fuse_ips(desk.frames, unveil=False, settings=DecisionSettings(sharpness=sharpness))
        named = np.take_along_axis(np.stack(desk.frames), maps.decision[None, ..., None].astype(int), axis=0)[0]
        return (maps.image == named).mean()

    assert copied(1.0) < copied(AS_CHOSEN.sharpness) < copied(8.0)


# Confidence


def test_confidence_is_high_on_texture_and_low_where_there_is_nothing_to_tell(any_way):
    generator = np.random.default_rng(0)
    truth = np.clip(0.5 + 2 * (cv2.GaussianBlur(generator.random((96, 128, 3)), (0, 0), 1) - 0.5), 0, 1)
    truth[:, 64:] = 0.5
    frames = [truth, cv2.GaussianBlur(truth, (0, 0), 3), cv2.GaussianBlur(truth, (0, 0), 5)]
    for frame in frames:
        frame[:, 64:] = 0.5 + generator.normal(0, 0.5 / 255, (96, 64, 3))
    confidence = fuse_ips([frame.astype(np.float32) for frame in frames], settings=any_way).confidence
    assert confidence.shape == (96, 128)
    assert confidence.dtype == np.float32
    assert 0 <= confidence.min() <= confidence.max() <= 1 + 1e-6
    assert confidence[:, :50].mean() > 0.5
    assert confidence[:, 80:].max() < 0.1


def test_confidence_in_equal_frames_is_nothing(any_way, desk):
    assert fuse_ips([desk.frames[0]] * 3, settings=any_way).confidence.max() < 1e-3


# Preference


def test_preference_moves_the_choice_to_its_end_of_the_stack_where_frames_are_even(any_way, desk):
    frames = [desk.frames[0], desk.frames[0].copy()]
    near, far = (fuse_ips(frames, prefer=end, settings=any_way) for end in ("near", "far"))
    assert (near.decision == 0).all()
    assert (far.decision == 1).all()
    np.testing.assert_allclose(near.depth, 0, atol=1e-3)
    np.testing.assert_allclose(far.depth, 1, atol=1e-3)


# ips-paper


def test_the_papers_network_fuses_a_pair(pair):
    pytest.importorskip("torch", reason="needs the extra train")
    frames = [frame[32:72, 64:120] for frame in pair.frames]
    image, decision, depth, *_ = fuse_ips_paper(frames, device="cpu")
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
    pytest.importorskip("torch", reason="needs the extra train")
    with pytest.raises(InputError, match=f"exactly 2 frames, got {count}; use the method ips"):
        fuse(random_frames(count, (8, 8, 3)), method="ips-paper")


def test_the_papers_network_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"allfocus\[train\]"):
        fuse_ips_paper(random_frames(2, (8, 8, 3)))


def test_the_papers_network_without_a_gpu_is_a_clear_error(no_cuda):
    with pytest.raises(InputError, match=r"cuda.*use cpu"):
        fuse(random_frames(2, (8, 8, 3)), method="ips-paper", device="cuda")
