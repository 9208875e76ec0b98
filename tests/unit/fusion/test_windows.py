"""Large pictures and long stacks in pieces: the windows, the frames they see, and what fusing in them gives."""

from itertools import pairwise

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from allfocus.fusion import learned, windows
from allfocus.fusion.learned import fuse_ips
from allfocus.fusion.methods import fuse
from allfocus.fusion.windows import (
    BLOCK,
    MOST_FRAMES,
    OVERLAP,
    Window,
    block_sharpness,
    choose_frames,
    cut_windows,
    fade,
    fade_sums,
    rank_sharpness,
)
from allfocus.images.tiling import FrameSpool
from allfocus.scenes.rendering import render_scene

side = some.integers(1, 6000)
short_side = some.integers(1, 60)
scales = some.sampled_from([1, 2, 4])


def peak_signal_noise_ratio(image, truth) -> float:
    return float(-10 * np.log10(np.mean((image - truth) ** 2)))


# How a picture is cut


@given(height=side, width=short_side, scale=scales, upright=some.booleans())
def test_cores_cover_every_pixel_exactly_once(height, width, scale, upright):
    if not upright:
        height, width = width, height
    covered = np.zeros((height, width), np.uint8)
    for window in cut_windows(height, width, scale):
        covered[window.core] += 1
    assert (covered == 1).all()


@given(height=side, width=side, scale=scales)
def test_windows_have_one_size_lie_in_the_picture_and_contain_their_cores(height, width, scale):
    cut = cut_windows(height, width, scale)
    assert len({(window.bottom - window.top, window.right - window.left) for window in cut}) == 1
    for window in cut:
        assert 0 <= window.top <= window.core_top < window.core_bottom <= window.bottom <= height
        assert 0 <= window.left <= window.core_left < window.core_right <= window.right <= width
        # Beside a neighbour the network sees its surroundings, less at most what rounding to even numbers takes.
        for own, core, limit in (
            (window.top, window.core_top, 0),
            (window.core_bottom, window.bottom, height),
            (window.left, window.core_left, 0),
            (window.core_right, window.right, width),
        ):
            assert core - own >= OVERLAP * scale - 2 or limit in (own, core)


def test_the_core_inside_a_window_is_the_core_in_the_picture():
    picture = np.arange(700 * 1300).reshape(700, 1300)
    for window in cut_windows(700, 1300, 1):
        np.testing.assert_array_equal(picture[window.area][window.core_inside], picture[window.core])


def test_a_picture_that_fits_is_one_window():
    assert cut_windows(544, 544, 1) == [Window(0, 544, 0, 544, 0, 544, 0, 544)]
    assert len(cut_windows(544, 545, 1)) == 2
    assert len(cut_windows(1088, 1088, 2)) == 1


@given(length=side, breadth=short_side, scale=scales, upright=some.booleans())
def test_weights_divided_by_their_sums_add_up_to_one(length, breadth, scale, upright):
    height, width = (length, breadth) if upright else (breadth, length)
    cut = cut_windows(height, width, scale)
    total = np.zeros((height, width))
    for window in cut:
        weight = fade(window, height, width)
        assert weight.shape == (window.bottom - window.top, window.right - window.left)
        assert weight.min() >= 0
        assert weight.max() == 1
        total[window.area] += weight
    rows, columns = fade_sums(cut, height, width)
    np.testing.assert_allclose(total / (rows[:, None] * columns[None, :]), 1, atol=1e-5)
    np.testing.assert_allclose(total, 1, atol=0.05)


def test_weights_of_windows_in_rows_and_columns_add_up_to_one_too():
    cut = cut_windows(1100, 1200, 1)
    assert len(cut) == 9
    total = np.zeros((1100, 1200))
    for window in cut:
        total[window.area] += fade(window, 1100, 1200)
    rows, columns = fade_sums(cut, 1100, 1200)
    np.testing.assert_allclose(total / (rows[:, None] * columns[None, :]), 1, atol=1e-5)


def test_a_window_counts_nothing_at_an_edge_with_a_neighbour_and_fully_at_the_edge_of_the_picture():
    first, last = cut_windows(100, 700, 1)
    assert fade(first, 100, 700)[50, [0, 200, -1]].tolist() == [1, 1, 0]
    assert fade(last, 100, 700)[50, [0, -200, -1]].tolist() == [0, 1, 1]


# Which frames matter in a window


WHOLE = Window(0, 128, 0, 128, 0, 128, 0, 128)


@pytest.mark.parametrize("count", [2, 10, 40])
def test_without_a_ranking_all_frames_are_chosen(count):
    assert choose_frames(None, WHOLE, count) == list(range(count))


def test_the_sharpest_frames_are_chosen_in_the_order_of_the_stack():
    generator = np.random.default_rng(4)
    best = sorted(generator.permutation(30)[:MOST_FRAMES].tolist())
    sharpness = generator.uniform(0, 0.3, (30, 4, 4)).astype(np.float32)
    sharpness[best] += 0.7
    assert choose_frames(sharpness, WHOLE, 30) == best


def test_only_the_blocks_of_the_window_count():
    sharpness = np.full((30, 4, 8), 0.1, np.float32)
    sharpness[:MOST_FRAMES, :, :4] = 1
    sharpness[-MOST_FRAMES:, :, 4:] = 1
    left, right = Window(0, 128, 0, 128, 0, 128, 0, 128), Window(0, 128, 128, 256, 0, 128, 128, 256)
    assert choose_frames(sharpness, left, 30) == list(range(MOST_FRAMES))
    assert choose_frames(sharpness, right, 30) == list(range(30 - MOST_FRAMES, 30))


def test_at_most_so_many_frames_are_chosen_even_when_all_are_equal():
    chosen = choose_frames(np.ones((25, 4, 4), np.float32), WHOLE, 25)
    assert len(chosen) == len(set(chosen)) == MOST_FRAMES
    assert chosen == sorted(chosen)


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("size", [(64, 96), (70, 100), (5, 3)])
def test_a_blurred_frame_is_less_sharp_in_every_block(size, channels):
    frame = np.random.default_rng(1).random((*size, *channels), dtype=np.float32)
    sharp, blurred = block_sharpness(frame), block_sharpness(cv2.GaussianBlur(frame, (0, 0), 2))
    assert sharp.shape == blurred.shape == (-(-size[0] // BLOCK), -(-size[1] // BLOCK))
    assert (blurred < sharp / 2).all()


def test_frames_on_disk_are_ranked_as_frames_in_memory():
    frames = render_scene("desk", frames=3, size=(70, 100)).frames
    with FrameSpool(bit_depth=8, measure=block_sharpness) as spool:
        for frame in frames:
            spool.append(frame)
        np.testing.assert_array_equal(rank_sharpness(spool), rank_sharpness(frames))


# Fusing in windows


@pytest.fixture(scope="module")
def desk():
    """Eight frames of 160 x 208, and what the network makes of them as a whole."""
    return render_scene("desk", frames=8, size=(160, 208))


@pytest.fixture(scope="module")
def whole(desk):
    return fuse_ips(desk.frames)


@pytest.fixture
def small_windows(monkeypatch):
    """Any stack is fused in windows of 96 pixels a side: 2 rows of 3 for 160 x 208."""
    monkeypatch.setattr(learned, "LARGEST_WHOLE", 1)
    monkeypatch.setattr(windows, "CORE", 64)
    monkeypatch.setattr(windows, "OVERLAP", 16)
    assert len(cut_windows(160, 208, 1)) == 6


def watch_network(monkeypatch) -> list[list[tuple[int, ...]]]:
    """A list that fills with the shapes of the frames that the network sees, run after run."""
    seen: list[list[tuple[int, ...]]] = []
    run_network = learned._run_network

    def watch(frames, device):
        seen.append([frame.shape for frame in frames])
        return run_network(frames, device)

    monkeypatch.setattr(learned, "_run_network", watch)
    return seen


def core_borders(cut, height, width):
    """True within 4 pixels of a border between two cores."""
    near = np.zeros((height, width), bool)
    for row in {window.core_top for window in cut} - {0}:
        near[row - 4 : row + 4] = True
    for column in {window.core_left for window in cut} - {0}:
        near[:, column - 4 : column + 4] = True
    return near


@pytest.mark.usefixtures("small_windows")
def test_windows_are_as_good_as_the_whole(desk, whole):
    calls = []
    image, decision, depth = fuse_ips(desk.frames, progress=lambda *steps: calls.append(steps))
    assert calls == [(number, 6) for number in range(1, 7)]
    ratio = peak_signal_noise_ratio(image, desk.truth)
    assert ratio > 38
    assert abs(ratio - peak_signal_noise_ratio(whole[0], desk.truth)) < 0.5
    assert (decision == whole[1]).mean() > 0.95
    assert np.abs(depth - whole[2]).mean() < 0.02
    # Windows that gave the same everywhere would mean that there were none.
    assert not np.array_equal(image, whole[0])


@pytest.mark.usefixtures("small_windows")
def test_borders_of_windows_are_no_worse_than_elsewhere(desk, whole):
    image = fuse_ips(desk.frames)[0]
    near = core_borders(cut_windows(160, 208, 1), 160, 208)
    error = ((image - desk.truth) ** 2).mean(axis=2)
    error_of_whole = ((whole[0] - desk.truth) ** 2).mean(axis=2)
    assert error[near].mean() < 1.2 * error_of_whole[near].mean()


@pytest.mark.usefixtures("small_windows")
def test_windows_that_disagree_fade_into_each_other(monkeypatch):
    values = iter([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])

    def disagree(stack, chosen, window, *options):
        value = next(values)
        shape = (window.bottom - window.top, window.right - window.left)
        return (
            np.full((*shape, 3), value, np.float32),
            np.full(shape, value, np.int16),
            np.full(shape, value, np.float32),
        )

    monkeypatch.setattr(learned, "_fuse_window", disagree)
    image, decision, depth = fuse_ips([np.zeros((160, 208, 3), np.float32)] * 2)
    for result in (image[..., 0], depth):
        assert result.min() == 0
        assert result.max() == 1
        steps = [np.abs(np.diff(result, axis=axis)).max() for axis in (0, 1)]
        assert 0 < max(steps) < 0.06
    # The decision is a number of a frame and cannot fade: it changes at the borders of the cores.
    borders = sorted({window.core_left for window in cut_windows(160, 208, 1)} - {0})
    assert (np.flatnonzero(np.diff(decision[0])) + 1).tolist() == borders


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("count", [3, MOST_FRAMES + 2])
@pytest.mark.parametrize("bits", [8, 16])
def test_equal_frames_come_back_bit_for_bit_from_windows(bits, count):
    frame = np.random.default_rng(bits).integers(0, 2**bits, (120, 150, 3)).astype(f"uint{bits}")
    assert (fuse([frame] * count, method="ips").image == frame).all()


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("count", [5, MOST_FRAMES + 3])
def test_the_order_of_frames_does_not_matter_in_windows(count):
    frames = render_scene("desk", frames=count, size=(96, 160)).frames
    order = np.random.default_rng(count).permutation(count)
    image, decision, _ = fuse_ips(frames)
    permuted_image, permuted_decision, _ = fuse_ips([frames[index] for index in order])
    np.testing.assert_array_equal(permuted_image, image)
    np.testing.assert_array_equal(order[permuted_decision], decision)


@pytest.mark.usefixtures("small_windows")
def test_twenty_frames_are_fused_though_the_network_sees_fewer_in_a_window(monkeypatch):
    seen = watch_network(monkeypatch)
    scene = render_scene("desk", frames=20, size=(240, 312))
    image, decision, _ = fuse_ips(scene.frames)
    assert {len(shapes) for shapes in seen} == {MOST_FRAMES}
    assert len(np.unique(decision)) > MOST_FRAMES
    best_frame = max(peak_signal_noise_ratio(frame, scene.truth) for frame in scene.frames)
    assert peak_signal_noise_ratio(image, scene.truth) > max(38, best_frame + 10)


def test_half_scale_is_nearly_as_good_where_single_pixels_are_not_resolved(monkeypatch, desk):
    # As a lens draws on many pixels: the same picture on four times as many.
    frames = [np.clip(cv2.resize(f, (416, 320), interpolation=cv2.INTER_CUBIC), 0, 1) for f in desk.frames]
    truth = np.clip(cv2.resize(desk.truth, (416, 320), interpolation=cv2.INTER_CUBIC), 0, 1)
    full = peak_signal_noise_ratio(fuse_ips(frames)[0], truth)
    seen = watch_network(monkeypatch)
    for name, value in (("LARGEST_WHOLE", 1), ("LARGEST_FULL_SCALE", 1)):
        monkeypatch.setattr(learned, name, value)
    monkeypatch.setattr(windows, "CORE", 64)
    monkeypatch.setattr(windows, "OVERLAP", 24)
    image, decision, depth = fuse_ips(frames)
    # Windows of 224 pixels a side, which the network sees with half as many.
    assert len(seen) == len(cut_windows(320, 416, 2)) == 6
    assert {shape for shapes in seen for shape in shapes} == {(112, 112, 3)}
    assert image.shape == (320, 416, 3)
    assert decision.shape == depth.shape == (320, 416)
    assert peak_signal_noise_ratio(image, truth) > full - 1.5


@pytest.mark.parametrize("size", [(161, 209), (97, 150)])
def test_half_scale_takes_odd_sides(monkeypatch, size):
    for name, value in (("LARGEST_WHOLE", 1), ("LARGEST_FULL_SCALE", 1)):
        monkeypatch.setattr(learned, name, value)
    monkeypatch.setattr(windows, "CORE", 24)
    monkeypatch.setattr(windows, "OVERLAP", 12)
    scene = render_scene("desk", frames=3, size=size)
    image, decision, depth = fuse_ips(scene.frames)
    assert image.shape == (*size, 3)
    assert decision.shape == depth.shape == size
    assert (image >= np.min(scene.frames, axis=0) - 1e-5).all()
    assert (image <= np.max(scene.frames, axis=0) + 1e-5).all()


@pytest.mark.usefixtures("small_windows")
def test_frames_on_disk_give_what_frames_in_memory_give(desk):
    in_memory = fuse_ips(desk.frames)
    with FrameSpool(bit_depth=8, measure=block_sharpness) as spool:
        for frame in desk.frames:
            spool.append(frame)
        on_disk = fuse_ips(spool)
    for expected, found in zip(in_memory, on_disk, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_neighbouring_windows_start_on_even_pixels_so_that_half_scale_keeps_its_grid():
    for length in range(1000, 3000, 37):
        starts = sorted({window.left for window in cut_windows(10, length, 2)})
        assert all(start % 2 == 0 for start in starts[:-1])
        assert all(first < second for first, second in pairwise(starts))
