"""Large pictures and long stacks in pieces: the windows, the frames they see, and what fusing in them gives."""

import dataclasses

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from allfocus.fusion import frame_source, learned, windows
from allfocus.fusion.blending import EVIDENCE_NOISE
from allfocus.fusion.frame_source import MemorySource, open_spool
from allfocus.fusion.learned import Maps, fuse_area, fuse_ips, plan_fusion
from allfocus.fusion.methods import fuse
from allfocus.fusion.windows import (
    BLOCK,
    CORE,
    MOST_FRAMES,
    NOISE_ENERGY,
    OVERLAP,
    RAMP,
    Window,
    average_under,
    block_sharpness,
    choose_frames,
    crop_under,
    cut_windows,
    fade,
    whole_window,
)
from allfocus.images.tiling import reduce_frame
from allfocus.scenes.rendering import render_scene

side = some.integers(1, 6000)
short_side = some.integers(1, 60)
scales = some.sampled_from([1, 2])


def peak_signal_noise_ratio(image, truth) -> float:
    return float(-10 * np.log10(np.mean((image - truth) ** 2)))


def core(window):
    return (
        slice(window.rows.core_first, window.rows.core_last),
        slice(window.columns.core_first, window.columns.core_last),
    )


# How a picture is cut


@given(height=side, width=short_side, upright=some.booleans())
def test_cores_cover_every_pixel_exactly_once(height, width, upright):
    if not upright:
        height, width = width, height
    covered = np.zeros((height, width), np.uint8)
    for window in cut_windows(height, width):
        covered[core(window)] += 1
    assert (covered == 1).all()


@given(height=side, width=side)
def test_windows_have_one_size_and_the_network_sees_beyond_what_counts(height, width):
    cut = cut_windows(height, width)
    assert len({tuple(own.stop - own.start for own in window.area) for window in cut}) == 1
    for window in cut:
        for piece, length in ((window.rows, height), (window.columns, width)):
            assert piece.last - piece.first <= CORE + 2 * OVERLAP
            assert 0 <= piece.first <= piece.reach_first <= piece.core_first < piece.core_last
            assert piece.core_last <= piece.reach_last <= piece.last <= length
            # Beside a neighbour the network sees the surroundings and the result reaches over; at the edge neither can.
            for own, reach, border, edge in (
                (piece.first, piece.reach_first, piece.core_first, 0),
                (-piece.last, -piece.reach_last, -piece.core_last, -length),
            ):
                assert own == reach == border == edge or (border - own >= OVERLAP and border - reach == RAMP)


def test_a_picture_that_fits_is_one_window():
    largest = CORE + 2 * OVERLAP
    assert cut_windows(largest, largest) == [whole_window(largest, largest)]
    assert cut_windows(1, 7) == [whole_window(1, 7)]
    assert len(cut_windows(largest, largest + 1)) == 2
    assert [own.stop - own.start for own in whole_window(5, 9).area] == [5, 9]
    assert whole_window(5, 9).area == whole_window(5, 9).reach


def faded(height, width, scale):
    """The sum of all weights, and how many windows weigh more than half, at every pixel of the picture."""
    total, owners = np.zeros((height, width)), np.zeros((height, width), int)
    for window in cut_windows(-(-height // scale), -(-width // scale)):
        rows, columns = fade(window.rows, height, scale), fade(window.columns, width, scale)
        area = tuple(
            slice(own.start * scale, min(own.stop * scale, length))
            for own, length in zip(window.reach, (height, width), strict=True)
        )
        assert rows.min() >= 0
        assert rows.max() == 1
        total[area] += rows[:, None] * columns[None, :]
        owners[area] += (rows > 0.5)[:, None] & (columns > 0.5)[None, :]
    return total, owners


@given(length=side, breadth=short_side, scale=scales, upright=some.booleans())
def test_weights_of_neighbours_add_up_to_one_and_every_pixel_has_one_owner(length, breadth, scale, upright):
    total, owners = faded(*((length, breadth) if upright else (breadth, length)), scale)
    np.testing.assert_allclose(total, 1, atol=1e-6)
    assert (owners == 1).all()


@pytest.mark.parametrize("scale", [1, 2])
def test_weights_of_windows_in_rows_and_columns_add_up_to_one_too(scale):
    assert len(cut_windows(-(-701 // scale), -(-901 // scale))) > 3
    total, owners = faded(701, 901, scale)
    np.testing.assert_allclose(total, 1, atol=1e-6)
    assert (owners == 1).all()


def test_a_window_hardly_counts_where_its_reach_ends_beside_a_neighbour_and_fully_at_the_edge_of_the_picture():
    first, last = cut_windows(100, 480)
    np.testing.assert_allclose(fade(first.columns, 480, 1)[[0, 100, -1]], [1, 1, 0.5 / (2 * RAMP)], atol=1e-6)
    np.testing.assert_allclose(fade(last.columns, 480, 1)[[0, -100, -1]], [0.5 / (2 * RAMP), 1, 1], atol=1e-6)


# What the context says under a window


def test_the_part_under_a_window_is_the_same_place_of_the_reduced_picture():
    rows, columns = np.mgrid[:90, :140]
    for window in cut_windows(720, 1120):
        for own, map_ in zip(window.area, (rows, columns), strict=True):
            below = crop_under(map_, window, 720, 1120)
            assert abs(below.min() - own.start / 8) <= 1
            assert abs(below.max() + 1 - own.stop / 8) <= 1


def test_the_part_under_a_window_is_never_empty():
    for window in cut_windows(3000, 2000):
        assert crop_under(np.zeros((2, 3)), window, 3000, 2000).size > 0


def test_averages_under_windows_are_means_over_equal_parts():
    """272 pixels are five parts at the coarsest of settling; on a picture that is not reduced the means are plain."""
    context = np.random.default_rng(0).random((3, 320, 640), dtype=np.float32)
    cut = cut_windows(320, 640)
    under = average_under(context, cut, 320, 640)
    assert under.shape == (len(cut), 3, 5, 5)
    assert under.dtype == np.float32
    for window, own in zip(cut, under, strict=True):
        seen = context[(slice(None), *window.area)]
        # Parts of 54.4 pixels: repeated five times, pixels fall into parts of 272 of these.
        fine = seen.repeat(5, axis=1).repeat(5, axis=2).reshape(3, 5, 272, 5, 272)
        np.testing.assert_allclose(own, fine.mean(axis=(2, 4)), atol=1e-5)


@pytest.mark.parametrize("size", [(90, 140), (23, 35), (3, 2)])
def test_averages_of_a_slope_are_right_at_any_reduction(size):
    rows = (np.arange(size[0], dtype=np.float32) + 0.5) / size[0]
    context = np.broadcast_to(rows[:, None], size)[None]
    for window, own in zip(
        cut_windows(720, 1120), average_under(context, cut_windows(720, 1120), 720, 1120), strict=True
    ):
        expected = (np.arange(5) + 0.5) / 5 * 272 + window.rows.first
        np.testing.assert_allclose(own[0, :, 0], expected / 720, atol=0.6 / size[0])
        np.testing.assert_allclose(own[0], np.broadcast_to(own[0, :, :1], own[0].shape), atol=1e-6)


# Which frames matter in a window


WHOLE = whole_window(256, 256)
"""16 x 16 blocks."""
CLEAR = 1000 * NOISE_ENERGY


def sharp_in(*columns, count=None):
    """Sharpness of frames that are sharp in the given columns of blocks each, and blurred elsewhere."""
    sharpness = np.full((count or len(columns), 16, 16), 0.05 * CLEAR, np.float32)
    for index, own in enumerate(columns):
        sharpness[index, :, own] = CLEAR
    return sharpness


def test_two_frames_are_always_looked_at():
    assert choose_frames(np.zeros((2, 16, 16), np.float32), WHOLE) == [0, 1]


def test_the_sharpest_frames_are_chosen_in_the_order_of_the_stack():
    generator = np.random.default_rng(4)
    best = sorted(generator.permutation(30)[:4].tolist())
    sharpness = sharp_in(count=30)
    for place, index in enumerate(best):
        sharpness[index, :, 4 * place : 4 * place + 4] = CLEAR
    assert choose_frames(sharpness, WHOLE) == best


def test_only_the_blocks_of_the_window_count():
    sharpness = np.full((30, 16, 32), 0.05 * CLEAR, np.float32)
    for index in range(3):
        sharpness[index, :, index * 5 : index * 5 + 6] = CLEAR
        sharpness[29 - index, :, 16 + index * 5 : 16 + index * 5 + 6] = CLEAR
    left, right = whole_window(256, 256), Window(WHOLE.rows, dataclasses.replace(WHOLE.columns, first=256, last=512))
    assert choose_frames(sharpness, left) == [0, 1, 2]
    assert choose_frames(sharpness, right) == [27, 28, 29]


def test_a_block_that_a_window_only_touches_counts_too():
    sharpness = np.full((6, 16, 32), 0.05 * CLEAR, np.float32)
    sharpness[0, :, 8:19], sharpness[1, :, 19], sharpness[5, :, 7] = CLEAR, CLEAR, CLEAR
    columns = dataclasses.replace(WHOLE.columns, first=127, last=305)
    assert choose_frames(sharpness, Window(WHOLE.rows, columns)) == [0, 1, 5]


def test_expected_frames_come_first_even_where_they_are_not_sharp():
    sharpness = sharp_in(slice(0, 8), slice(8, 16), count=12)
    assert choose_frames(sharpness, WHOLE, [7]) == [0, 1, 7]
    assert choose_frames(sharpness, WHOLE, [9, 4, 7]) == [0, 1, 4, 7, 9]


def test_of_too_many_expected_frames_the_most_important_are_kept():
    expected = list(range(29, 9, -1))
    assert choose_frames(sharp_in(slice(0, 16), count=30), WHOLE, expected) == sorted(expected[:MOST_FRAMES])


@pytest.mark.parametrize(("blocks", "chosen"), [(2, False), (5, True)])
def test_a_frame_that_is_sharper_in_a_hundredth_of_the_blocks_is_worthwhile_and_one_in_fewer_is_not(blocks, chosen):
    sharpness = np.zeros((6, 16, 16), np.float32)
    sharpness[0, :, :8], sharpness[1, :, 8:] = CLEAR, CLEAR
    sharpness[4].flat[:blocks] = 100 * CLEAR
    assert choose_frames(sharpness, WHOLE) == ([0, 1, 4] if chosen else [0, 1])


def test_frames_that_only_repeat_others_are_not_looked_at():
    sharpness = sharp_in(slice(0, 6), slice(6, 11), slice(11, 16))
    twice = np.concatenate([sharpness, sharpness])
    assert choose_frames(twice, WHOLE) == [0, 1, 2]


def test_at_most_so_many_frames_are_chosen_even_when_each_is_sharp_somewhere():
    chosen = choose_frames(sharp_in(*range(16)), WHOLE)
    assert len(chosen) == len(set(chosen)) == MOST_FRAMES
    assert chosen == sorted(chosen)


@pytest.mark.parametrize("noise", [0.2, 0.5, 1.0])
def test_blocks_of_noise_ask_for_no_frame(noise):
    """One half textured and sharp in frame 5, the other half nothing but noise of up to a level of 8 bits."""
    generator = np.random.default_rng(1)
    texture = np.clip(0.5 + 2 * (cv2.GaussianBlur(generator.random((256, 256)), (0, 0), 1) - 0.5), 0, 1)
    frames = []
    for index in range(12):
        frame = texture.copy() if index == 5 else cv2.GaussianBlur(texture, (0, 0), 3)
        frame[:, 128:] = 0.5
        frames.append((frame + generator.normal(0, noise / 255, frame.shape)).astype(np.float32))
    chosen = choose_frames(np.stack([block_sharpness(frame) for frame in frames]), WHOLE)
    # Two are the least; the second is whichever.
    assert 5 in chosen
    assert len(chosen) == 2


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("size", [(64, 96), (70, 100), (5, 3)])
def test_a_blurred_frame_is_less_sharp_in_every_block(size, channels):
    frame = np.random.default_rng(1).random((*size, *channels), dtype=np.float32)
    sharp, blurred = block_sharpness(frame), block_sharpness(cv2.GaussianBlur(frame, (0, 0), 2))
    assert sharp.shape == blurred.shape == (-(-size[0] // BLOCK), -(-size[1] // BLOCK))
    assert (blurred < sharp / 2).all()


@pytest.mark.parametrize("size", [(64, 96), (70, 101)])
@pytest.mark.parametrize("pixel", [(0, 0), (8, 8), (40, 55), (40, 88)])
def test_a_block_is_sixteen_pixels_a_side_from_the_first_on(size, pixel):
    """The energy of a single bright pixel stays in its block if it lies 5 or more from the border."""
    frame = np.zeros(size, np.float32)
    frame[pixel] = 1
    row, column = pixel[0] // BLOCK, pixel[1] // BLOCK
    found = block_sharpness(frame)
    smooth = cv2.GaussianBlur(frame, (0, 0), 1.0)
    energy = cv2.Laplacian(smooth, cv2.CV_32F, ksize=3) ** 2
    part = energy[row * BLOCK : row * BLOCK + BLOCK, column * BLOCK : column * BLOCK + BLOCK]
    assert found[row, column] == pytest.approx(float(part.mean()), rel=1e-5)
    assert found[row, column] > 0
    if pixel != (0, 0):
        assert found[row, column] > 0.7 * found.sum()


def test_every_block_is_the_mean_of_its_own_pixels():
    frame = np.random.default_rng(3).random((80, 112), dtype=np.float32)
    energy = cv2.Laplacian(cv2.GaussianBlur(frame, (0, 0), 1.0), cv2.CV_32F, ksize=3) ** 2
    expected = energy.reshape(5, BLOCK, 7, BLOCK).mean(axis=(1, 3))
    np.testing.assert_allclose(block_sharpness(frame), expected, rtol=1e-5)


@pytest.mark.parametrize("deviation", [EVIDENCE_NOISE, 0.02])
def test_the_energy_of_noise_is_what_white_noise_measures(deviation):
    noise = np.random.default_rng(0).normal(0.5, deviation, (640, 640)).astype(np.float32)
    expected = NOISE_ENERGY * (deviation / EVIDENCE_NOISE) ** 2
    assert block_sharpness(noise).mean() == pytest.approx(expected, rel=0.02)


# Fusing in windows


@pytest.fixture(scope="module")
def desk():
    """Six frames of 129 x 145."""
    return render_scene("desk", frames=6, size=(129, 145))


@pytest.fixture(scope="module")
def whole(desk):
    """What the network makes of them as a whole."""
    return fuse_ips(desk.frames)


@pytest.fixture
def small_windows(monkeypatch):
    """Any stack is fused in windows of 96 pixels a side: 2 rows of 2 for 129 x 145."""
    monkeypatch.setattr(learned, "LARGEST_WHOLE", 1)
    monkeypatch.setattr(windows, "CORE", 64)
    monkeypatch.setattr(windows, "OVERLAP", 16)
    assert len(cut_windows(129, 145)) == 4


@pytest.fixture(params=[1, 2])
def scale(request, monkeypatch, small_windows):
    """The same, decided at full and at half scale."""
    if request.param == 2:
        monkeypatch.setattr(frame_source, "LARGEST_FULL_SCALE", 1)
        monkeypatch.setattr(windows, "CORE", 32)
        monkeypatch.setattr(windows, "OVERLAP", 12)
    return request.param


def watch_network(monkeypatch) -> list[list[tuple[int, ...]]]:
    """A list that fills with the shapes of the frames that the network sees, run after run."""
    seen: list[list[tuple[int, ...]]] = []
    run_network = learned.run_network

    def watch(frames, **options):
        seen.append([frame.shape for frame in frames])
        return run_network(frames, **options)

    monkeypatch.setattr(learned, "run_network", watch)
    return seen


def core_borders(cut, height, width):
    """True within 4 pixels of a border between two cores."""
    near = np.zeros((height, width), bool)
    for row in {window.rows.core_first for window in cut} - {0}:
        near[row - 4 : row + 4] = True
    for column in {window.columns.core_first for window in cut} - {0}:
        near[:, column - 4 : column + 4] = True
    return near


@pytest.mark.usefixtures("small_windows")
def test_windows_are_as_good_as_the_whole(desk, whole):
    calls = []
    maps = fuse_ips(desk.frames, progress=lambda *steps: calls.append(steps))
    assert calls == [(number, 4) for number in range(1, 5)]
    ratio = peak_signal_noise_ratio(maps.image, desk.truth)
    assert ratio > 38
    assert abs(ratio - peak_signal_noise_ratio(whole.image, desk.truth)) < 0.5
    assert (maps.decision == whole.decision).mean() > 0.95
    assert np.abs(maps.depth - whole.depth).mean() < 0.02
    assert np.abs(maps.confidence - whole.confidence).mean() < 0.15
    # Windows that gave the same everywhere would mean that there were none.
    assert not np.array_equal(maps.image, whole.image)


@pytest.mark.usefixtures("small_windows")
def test_borders_of_windows_are_no_worse_than_elsewhere(desk):
    image = fuse_ips(desk.frames).image
    near = core_borders(cut_windows(129, 145), 129, 145)
    error = ((image - desk.truth) ** 2).mean(axis=2)
    assert error[near].mean() < 1.2 * error[~near].mean()


@pytest.mark.usefixtures("small_windows")
def test_windows_that_disagree_fade_into_each_other(monkeypatch):
    def disagree(plan, source, number, **options):
        value = number % 2
        shape = [own.stop - own.start for own in plan.windows[number].reach]
        values = np.full(shape, value, np.float32)
        return Maps(np.repeat(values[..., None], 3, axis=2), values.astype(np.int16), values, values)

    monkeypatch.setattr(learned, "_fuse_window", disagree)
    maps = fuse_ips([np.zeros((129, 145, 3), np.float32)] * 2)
    for result in (maps.image[..., 0], maps.depth, maps.confidence):
        assert result.min() == 0
        assert result.max() == 1
        steps = [np.abs(np.diff(result, axis=axis)).max() for axis in (0, 1)]
        assert 0 < max(steps) < 1 / (2 * RAMP) + 1e-5
    # The decision is a number of a frame and cannot fade: it changes at the borders of the cores.
    borders = sorted({window.columns.core_first for window in cut_windows(129, 145)} - {0})
    assert (np.flatnonzero(np.diff(maps.decision[0])) + 1).tolist() == borders


def pieces(height, width, step):
    """Areas of at most `step` pixels a side that cover a picture."""
    for top in range(0, height, step):
        for left in range(0, width, step):
            yield slice(top, min(height, top + step)), slice(left, min(width, left + step))


@pytest.mark.parametrize(("step", "channels"), [(37, "colour"), (64, "colour"), (100, "colour"), (80, "grey")])
def test_an_area_is_that_part_of_the_whole_bit_for_bit(desk, scale, step, channels):
    """Why results do not depend on the memory of a machine: windows belong to the method, areas to the memory."""
    frames = desk.frames[::2] if channels == "colour" else [frame[..., 1] for frame in desk.frames[::2]]
    source = MemorySource(frames)
    plan = plan_fusion(source)
    assert plan.scale == scale
    assert len(plan.windows) == 4
    together = fuse_area(plan, source, (slice(0, 129), slice(0, 145)))
    for expected, found in zip(fuse_ips(frames), together, strict=True):
        np.testing.assert_array_equal(found, expected)
    for area in list(pieces(129, 145, step))[:: 1 if step > 40 else 3]:
        for expected, found in zip(together, fuse_area(plan, source, area), strict=True):
            np.testing.assert_array_equal(found, expected[area])


def test_an_area_of_a_single_pixel_works(desk, scale):
    source = MemorySource(desk.frames[:3])
    plan = plan_fusion(source)
    last = fuse_area(plan, source, (slice(128, 129), slice(144, 145)))
    assert last.image.shape == (1, 1, 3)
    assert last.decision.shape == last.depth.shape == last.confidence.shape == (1, 1)
    np.testing.assert_array_equal(last.image, fuse_ips(desk.frames[:3]).image[-1:, -1:])


@pytest.mark.usefixtures("small_windows")
def test_an_area_reads_only_the_windows_it_touches(desk, monkeypatch):
    source = MemorySource(desk.frames)
    plan = plan_fusion(source)
    seen = watch_network(monkeypatch)
    calls = []
    fuse_area(plan, source, (slice(0, 30), slice(0, 30)), progress=lambda *steps: calls.append(steps))
    assert len(seen) == 1
    assert calls == [(1, 1)]


def test_a_stack_that_is_seen_as_a_whole_can_be_fused_in_areas_too(desk, whole):
    source = MemorySource(desk.frames)
    area = (slice(20, 90), slice(81, 145))
    for expected, found in zip(whole, fuse_area(plan_fusion(source), source, area), strict=True):
        np.testing.assert_array_equal(found, expected[area])


@pytest.mark.parametrize("count", [3, MOST_FRAMES + 2])
@pytest.mark.parametrize("bits", [8, 16])
def test_equal_frames_come_back_bit_for_bit_from_windows(scale, bits, count):
    frame = np.random.default_rng(bits).integers(0, 2**bits, (121, 151, 3)).astype(f"uint{bits}")
    assert (fuse([frame] * count, method="ips").image == frame).all()


@pytest.mark.parametrize("count", [5, MOST_FRAMES + 3])
def test_the_order_of_frames_does_not_matter_in_windows(scale, count):
    frames = render_scene("desk", frames=count, size=(97, 161)).frames
    order = np.random.default_rng(count).permutation(count)
    maps, permuted = fuse_ips(frames), fuse_ips([frames[index] for index in order])
    np.testing.assert_array_equal(permuted.image, maps.image)
    np.testing.assert_array_equal(order[permuted.decision], maps.decision)
    np.testing.assert_array_equal(permuted.confidence, maps.confidence)


@pytest.mark.usefixtures("small_windows")
def test_thirty_frames_are_fused_though_the_network_sees_fewer_in_a_window(monkeypatch):
    seen = watch_network(monkeypatch)
    scene = render_scene("desk", frames=30, size=(160, 208))
    maps = fuse_ips(scene.frames)
    # First all of them for the context, then window after window.
    assert len(seen[0]) == 30
    assert 2 <= min(len(shapes) for shapes in seen[1:]) <= max(len(shapes) for shapes in seen[1:]) <= MOST_FRAMES
    assert len(np.unique(maps.decision)) > MOST_FRAMES
    best_frame = max(peak_signal_noise_ratio(frame, scene.truth) for frame in scene.frames)
    assert peak_signal_noise_ratio(maps.image, scene.truth) > max(38, best_frame + 10)


def test_half_scale_is_nearly_as_good_where_single_pixels_are_not_resolved(monkeypatch):
    desk = render_scene("desk", frames=5, size=(160, 208))
    # As a lens draws on many pixels: the same picture on four times as many.
    frames = [np.clip(cv2.resize(f, (416, 320), interpolation=cv2.INTER_CUBIC), 0, 1) for f in desk.frames]
    truth = np.clip(cv2.resize(desk.truth, (416, 320), interpolation=cv2.INTER_CUBIC), 0, 1)
    full = peak_signal_noise_ratio(fuse_ips(frames).image, truth)
    seen = watch_network(monkeypatch)
    monkeypatch.setattr(frame_source, "LARGEST_FULL_SCALE", 1)
    monkeypatch.setattr(windows, "CORE", 64)
    monkeypatch.setattr(windows, "OVERLAP", 24)
    maps = fuse_ips(frames)
    # The context, and then windows of 224 pixels a side, which the network sees with half as many.
    assert len(seen) == 1 + len(cut_windows(160, 208)) == 7
    assert {shape for shapes in seen[1:] for shape in shapes} == {(112, 112, 3)}
    assert maps.image.shape == (320, 416, 3)
    assert maps.decision.shape == maps.depth.shape == maps.confidence.shape == (320, 416)
    assert peak_signal_noise_ratio(maps.image, truth) > full - 1.5


@pytest.mark.parametrize("size", [(129, 145), (97, 150)])
def test_odd_sides_take_every_pixel_from_the_sources(scale, size):
    scene = render_scene("desk", frames=3, size=size)
    maps = fuse_ips(scene.frames)
    assert maps.image.shape == (*size, 3)
    assert maps.decision.shape == maps.depth.shape == maps.confidence.shape == size
    assert (maps.image >= np.min(scene.frames, axis=0) - 1e-6).all()
    assert (maps.image <= np.max(scene.frames, axis=0) + 1e-6).all()


def test_half_scale_moves_nothing(monkeypatch, small_windows):
    """A decision that came back enlarged from the wrong place would miss the middle by a pixel or more."""
    monkeypatch.setattr(frame_source, "LARGEST_FULL_SCALE", 1)
    generator = np.random.default_rng(7)
    truth = cv2.resize(generator.random((50, 150, 3), dtype=np.float32), (301, 99), interpolation=cv2.INTER_CUBIC)
    truth = np.clip(truth, 0, 1)
    blurred = cv2.GaussianBlur(truth, (0, 0), 5)
    left = np.arange(301) < 150
    frames = [np.where(left[None, :, None], truth, blurred), np.where(left[None, :, None], blurred, truth)]
    decision = fuse_ips(frames).decision
    borders = (decision == 0).sum(axis=1)
    assert abs(borders.mean() - 150) < 1
    assert (decision[:, :140] == 0).all()
    assert (decision[:, 160:] == 1).all()


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("bit_depth", [8, 16, 32])
def test_frames_on_disk_give_what_frames_in_memory_give(desk, bit_depth):
    in_memory = fuse_ips(desk.frames)
    with open_spool(bit_depth) as spool:
        for frame in desk.frames:
            spool.append(frame)
        on_disk = fuse_ips(spool)
    for expected, found in zip(in_memory, on_disk, strict=True):
        np.testing.assert_array_equal(found, expected)


# The context


def flat_between_textures(noise):
    """Two frames of 192 x 480; the second is sharp at both ends, and between them there is nothing but noise."""
    generator = np.random.default_rng(0)
    sharp = np.clip(0.5 + 2 * (cv2.GaussianBlur(generator.random((192, 480, 3)), (0, 0), 1) - 0.5), 0, 1)
    flat = np.zeros((192, 480), bool)
    flat[:, 80:400] = True
    sharp[flat] = 0.5
    soft = cv2.GaussianBlur(sharp, (0, 0), 2)
    soft[flat] = 0.5
    frames = [frame + generator.normal(0, noise / 255, frame.shape) for frame in (soft, sharp)]
    return [np.clip(np.rint(frame * 255) / 255, 0, 1).astype(np.float32) for frame in frames]


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("context_pixels", [2_000_000, 20_000])
def test_the_context_decides_where_windows_alone_would_disagree(monkeypatch, context_pixels):
    """A clear sky: windows in the middle of it see nothing that could tell them what their neighbours see."""
    monkeypatch.setattr(learned, "CONTEXT_PIXELS", context_pixels)
    source = MemorySource(flat_between_textures(0.5))
    plan = plan_fusion(source)
    area = (slice(0, 192), slice(0, 480))
    inside = (slice(None), slice(100, 380))
    alone = fuse_area(dataclasses.replace(plan, prior=None), source, area)
    assert 0.05 < (alone.decision[inside] == 1).mean() < 0.95
    assert (fuse_area(plan, source, area).decision == 1).mean() > 0.999


@pytest.mark.usefixtures("small_windows")
def test_the_context_does_not_overrule_what_a_window_sees(desk):
    """A context that is wrong everywhere changes nothing where there is texture."""
    source = MemorySource(desk.frames)
    plan = plan_fusion(source)
    area = (slice(0, 129), slice(0, 145))
    expected = fuse_area(plan, source, area)
    found = fuse_area(dataclasses.replace(plan, prior=-plan.prior), source, area)
    clear = expected.confidence > 0.8
    assert clear.mean() > 0.3
    assert (found.decision == expected.decision)[clear].mean() > 0.999


@pytest.mark.usefixtures("small_windows")
def test_the_context_is_seen_at_a_scale_that_fits(monkeypatch, desk):
    monkeypatch.setattr(learned, "CONTEXT_PIXELS", 20_000)
    seen = watch_network(monkeypatch)
    plan_fusion(MemorySource(desk.frames))
    # 6 frames of 129 x 145 are 5.6 times as many pixels, so the sides are a quarter, odd ones rounded up.
    assert seen == [[reduce_frame(reduce_frame(desk.frames[0], 2), 2).shape] * 6] == [[(33, 37, 3)] * 6]
